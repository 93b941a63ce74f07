//! Connects to a backend: dials it, speaks what comes before TLS, shakes hands, and waits for its greeting.
//!
//! In: an address and a [`ConnectPlan`]. Out: a leg that can serve, or a [`ConnectFailure`]. Clients, records, retries and standings are the
//! caller's: connections of clients and health checks connect here alike. What may end a wait early is a [`Cancellation`].

mod context;
mod dialogue;
mod handshake;

use std::borrow::Cow;
use std::net::SocketAddr;

use handfast_leg::runtime::{Dialling, Runtime};
use handfast_leg::{Leg, Side as LegSide, Socket};
use handfast_net::address::Address;
use handfast_net::dial::SourceAddress;
use handfast_net::fault::Fault;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_wire::starttls::Greeting;

pub(crate) use self::context::{AttemptTime, Cancellation, ConnectContext, ConnectFailure, Stage};
pub(crate) use self::dialogue::{read, read_once};
use self::handshake::Handshake;
pub(crate) use self::handshake::{TlsOutcome, TlsPlan};
use super::opening::Opening;

/// Steps of a connection until it can serve.
pub(crate) struct ConnectPlan<'a> {
    pub(crate) source: SourceAddress<'a>,
    /// Dialogue in plain text that comes first.
    pub(crate) opening: Opening,
    /// A PROXY header that names the addresses of this very socket; where set, `opening` is made without one.
    pub(crate) own_header: Option<&'a dyn Fn(Option<SocketAddr>) -> Vec<u8>>,
    pub(crate) tls: Option<TlsPlan<'a>>,
    /// The greeting to wait for; `None`: the first bytes may be sent at once.
    pub(crate) greeting: Option<Greeting>,
    /// The client's first bytes. A plain backend gets them as soon as it is connected, one with TLS later, from the caller.
    pub(crate) first: &'a [u8],
}

/// A backend that can serve.
#[derive(Debug)]
pub(crate) struct Connected<S: Socket> {
    /// The leg. If it is secured, the last flight of its handshake may be unsent: it is sent with the next bytes.
    pub(crate) leg: Leg<S>,
    /// The number of the first bytes that the leg has sent or keeps.
    pub(crate) given: usize,
    /// Bytes that the backend has already sent to the client, with the end of its handshake or as its greeting.
    pub(crate) spoken: Vec<u8>,
}

/// Connects to `to` by `plan`.
///
/// **Cancel**: dropping the future resets the connection.
pub(crate) async fn connect<R: Runtime, C: Cancellation>(
    to: &Address,
    plan: ConnectPlan<'_>,
    context: &mut ConnectContext<'_, C>,
) -> Result<Connected<R::Socket>, ConnectFailure> {
    let ConnectPlan { source, mut opening, own_header, tls, greeting, first } = plan;
    let opening_bytes = if own_header.is_none() { opening.begin() } else { Vec::new() };
    let is_ready = own_header.is_none() && opening.is_over();
    let sends_first = !opening_bytes.is_empty() || is_ready && (tls.is_some() || !first.is_empty());
    let dialling = R::dial(to, source, sends_first).map_err(ConnectFailure::socket)?;
    let (mut leg, mut spoken) = if !is_ready {
        let (socket, sent) = wait_until_connected::<R, C>(dialling, &opening_bytes, context).await?;
        let mut leg: Leg<R::Socket> = Leg::plain(LegSide::Backend, socket).dialled(0);
        leg.keep(&opening_bytes[sent..]);
        if let Some(own_header) = own_header {
            leg.keep(&opening.begin_with(own_header(leg.socket().local_address())));
        }
        let rest = (opening, &tls, first);
        Box::pin(converse::<R, C>(leg, rest, context)).await?
    } else if let Some(tls) = &tls {
        // The key share is computed while the SYN is on its way.
        let handshake = Handshake::begin::<R, C>(tls, context)?;
        // In the clear, before TLS: the backend reads it before its own TLS begins.
        let bytes = joined(&opening_bytes, &handshake.hello);
        let (socket, sent) = wait_until_connected::<R, C>(dialling, &bytes, context).await?;
        let mut leg: Leg<R::Socket> = Leg::plain(LegSide::Backend, socket).dialled(0);
        leg.keep(&bytes[sent..]);
        let spoken = handshake.run::<R, C>(&mut leg, tls, context).await?;
        (leg, spoken)
    } else {
        let bytes = joined(&opening_bytes, first);
        let (socket, sent) = wait_until_connected::<R, C>(dialling, &bytes, context).await?;
        let mut leg = Leg::plain(LegSide::Backend, socket).dialled(sent).preceded_by(opening_bytes.len());
        // What the backend has taken is not kept, nor its room.
        leg.keep(&bytes[sent..]);
        (leg, Vec::new())
    };
    if let Some(greeting) = greeting {
        spoken = Box::pin(dialogue::receive_greeting::<R, C>(&mut leg, greeting, spoken, context)).await?;
    }
    let given = if leg.is_secured() { 0 } else { first.len() };
    Ok(Connected { leg, given, spoken })
}

/// Begins TLS on a leg that is connected: `before` goes first, in the clear.
///
/// **Cancel**: the handshake cannot be resumed; the leg is of no use then.
pub(crate) async fn secure<R: Runtime, C: Cancellation>(
    mut leg: Leg<R::Socket>,
    before: &[u8],
    plan: &TlsPlan<'_>,
    context: &mut ConnectContext<'_, C>,
) -> Result<Connected<R::Socket>, ConnectFailure> {
    leg.keep(before);
    let handshake = Handshake::begin::<R, C>(plan, context)?;
    leg.keep(&handshake.hello);
    let spoken = handshake.run::<R, C>(&mut leg, plan, context).await?;
    Ok(Connected { leg, given: 0, spoken })
}

/// Speaks what comes before TLS, and shakes hands then; the leg, and what the backend has sent that is the client's.
async fn converse<R: Runtime, C: Cancellation>(
    mut leg: Leg<R::Socket>,
    (mut opening, tls, first): (Opening, &Option<TlsPlan<'_>>, &[u8]),
    context: &mut ConnectContext<'_, C>,
) -> Result<(Leg<R::Socket>, Vec<u8>), ConnectFailure> {
    dialogue::open::<R, C>(&mut leg, &mut opening, context).await?;
    let spoken = opening.into_early_bytes().map_err(ConnectFailure::Attempt)?;
    let Some(tls) = tls else {
        leg.keep(first);
        return Ok((leg, spoken));
    };
    let handshake = Handshake::begin::<R, C>(tls, context)?;
    leg.keep(&handshake.hello);
    let spoken = handshake.run::<R, C>(&mut leg, tls, context).await?;
    Ok((leg, spoken))
}

/// One buffer for bytes that are sent together.
fn joined<'a>(before: &[u8], bytes: &'a [u8]) -> Cow<'a, [u8]> {
    if before.is_empty() { bytes.into() } else { [before, bytes].concat().into() }
}

/// Waits until the socket is connected; the number of bytes of `first` that it has sent.
async fn wait_until_connected<R: Runtime, C: Cancellation>(
    mut dialling: R::Dialling,
    first: &[u8],
    context: &mut ConnectContext<'_, C>,
) -> Result<(R::Socket, usize), ConnectFailure> {
    let mut is_late = false;
    loop {
        // Also past the deadline: the answer may have come while this thread was busy with others.
        if let Some(sent) = dialling.advance(first).map_err(ConnectFailure::socket)? {
            return Ok((dialling.into_socket(), sent));
        }
        if is_late {
            let until_now = of_fault(&dialling.give_up());
            return Err(ConnectFailure::Deadline { stage: Stage::Dialling, until_now });
        }
        match context.wait::<R>().await {
            Ok(late) => is_late = late,
            Err(cancelled) => return Err(cancelled.failure(|| unanswered(dialling))),
        }
    }
}

/// Returns the failure of a backend that was given up before its deadline; `None`: it has answered.
fn unanswered(mut dialling: impl Dialling) -> Option<CloseReason> {
    match dialling.advance(&[]) {
        Ok(Some(_)) => None,
        Ok(None) => Some(of_fault(&dialling.give_up())),
        Err(fault) => Some(of_fault(&fault)),
    }
}

fn of_fault(fault: &Fault) -> CloseReason {
    CloseReason::fault(Step::Connect, Side::Backend, fault)
}
