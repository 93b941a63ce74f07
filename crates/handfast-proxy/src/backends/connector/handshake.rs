//! The TLS handshake with a backend: from the hello that goes out with the first segment to a session both agree on.
//!
//! In: a plan, and a leg that is connected. Out: the leg, established; its last flight waits for the next bytes. Computing is timed
//! separately from waiting, as with clients.

use std::time::Duration;

use handfast_leg::runtime::Runtime;
use handfast_leg::{Leg, Socket};
use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_tls::client::ClientSession;
use handfast_tls::session::{Agreed, Failure, Session};

use super::context::{Cancellation, ConnectContext, ConnectFailure, Stage};
use crate::backends::opening::reason;

/// TLS with a backend.
pub(crate) struct TlsPlan<'a> {
    /// Makes the session: a new one, or one that resumes. Is called at most once, after dialling has begun.
    pub(crate) session: &'a dyn Fn(Moment) -> Result<ClientSession, Failure>,
    /// A FIN without close_notify counts as an end.
    pub(crate) is_lenient: bool,
}

/// Outcome of TLS with a backend.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOutcome {
    /// Parameters that were agreed on before it ended; `None`: the handshake did not begin.
    pub(crate) agreed: Option<Agreed>,
    pub(crate) is_done: bool,
    /// The duration of the handshake without dialling …
    pub(crate) handshake: Duration,
    /// … and the part of it that was computing.
    pub(crate) crypto: Duration,
}

pub(super) struct Handshake {
    session: ClientSession,
    /// Is sent by the caller, so that it can go with the first segment.
    pub(super) hello: Vec<u8>,
}

impl Handshake {
    pub(super) fn begin<R: Runtime, C>(
        plan: &TlsPlan<'_>,
        context: &mut ConnectContext<'_, C>,
    ) -> Result<Self, ConnectFailure> {
        let before = R::now();
        let records = &mut context.buffers.borrow_mut().records;
        records.clear();
        let session = (plan.session)(before).and_then(|mut session| session.start(records).map(|()| session));
        let session = session.map_err(|failure| {
            ConnectFailure::Attempt(CloseReason::failure(Step::Connect, Side::Backend, &failure))
        })?;
        context.tls = Some(TlsOutcome { crypto: R::now().since(before), ..TlsOutcome::default() });
        Ok(Self { session, hello: records.filled().to_vec() })
    }

    /// Secures `leg`, which has sent or keeps the hello; returns the bytes that the backend sent with the end of the handshake.
    pub(super) async fn run<R: Runtime, C: Cancellation>(
        self,
        leg: &mut Leg<R::Socket>,
        plan: &TlsPlan<'_>,
        context: &mut ConnectContext<'_, C>,
    ) -> Result<Vec<u8>, ConnectFailure> {
        let begun = R::now();
        leg.secure(Box::new(self.session));
        if plan.is_lenient {
            leg.be_lenient();
        }
        let mut crypto = Duration::ZERO;
        let result = exchange::<R, C>(leg, context, &mut crypto).await;
        let outcome = context.tls.get_or_insert_default();
        // The hello was computed before the wait for the socket; all other computing is within the exchange.
        let hello = outcome.crypto;
        outcome.crypto += crypto;
        outcome.agreed = Some(leg.session().map(|session| session.agreed()).unwrap_or_default());
        outcome.is_done = result.is_ok();
        outcome.handshake = R::now().since(begun) + hello;
        result
    }
}

async fn exchange<R: Runtime, C: Cancellation>(
    leg: &mut Leg<R::Socket>,
    context: &mut ConnectContext<'_, C>,
    crypto: &mut Duration,
) -> Result<Vec<u8>, ConnectFailure> {
    let mut spoken = Vec::new();
    leg.send_flight().map_err(ConnectFailure::leg)?;
    // It cannot have answered yet: asking would be a call for nothing.
    leg.socket_mut().expect_later().map_err(ConnectFailure::socket)?;
    let (mut is_first, mut is_late) = (true, false);
    loop {
        while let Some(bytes) = receive(leg, context, is_first)? {
            is_first = false;
            let before = R::now();
            let taken = leg.take_flight(bytes, &mut context.buffers.borrow_mut(), &mut spoken);
            *crypto += R::now().since(before);
            taken.map_err(|broken| {
                // Its alert; that it cannot be sent changes nothing. A reset could destroy it before the backend reads it.
                let _ = leg.send_flight();
                leg.socket_mut().finish_at_drop();
                ConnectFailure::leg(broken)
            })?;
            if leg.is_established() {
                return Ok(spoken);
            }
            leg.send_flight().map_err(ConnectFailure::leg)?;
            if context.is_late::<R>() {
                return Err(Stage::Handshake.deadline());
            }
        }
        context.wait_in::<R>(Stage::Handshake, &mut is_late).await?;
    }
}

/// Reads what has come, after sending what waits; the number of bytes, if any came. `is_first`: none had before.
fn receive<S: Socket, C>(
    leg: &mut Leg<S>,
    context: &ConnectContext<'_, C>,
    is_first: bool,
) -> Result<Option<usize>, ConnectFailure> {
    let scratch = &mut *context.buffers.borrow_mut();
    let bytes = leg.read_flight(scratch).map_err(ConnectFailure::leg)?;
    match bytes.map(|bytes| &scratch.received[..bytes]) {
        // A record of a handshake or an alert, in the first byte that a server sends (RFC 9846 §5.1).
        Some(received @ [first, ..]) if is_first && !matches!(first, 21 | 22) => {
            let detail = format!("it answered the ClientHello with {}", shown(received));
            Err(ConnectFailure::Attempt(reason(Cause::NotTls).because(detail)))
        }
        _ => Ok(bytes),
    }
}

/// The beginning of what a backend sent in the clear, for people: a greeting shows what it is.
fn shown(received: &[u8]) -> String {
    let line = received.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = &line[..line.len().min(60)];
    if line.len() > 1 && line.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        format!("{:?}", String::from_utf8_lossy(line))
    } else {
        "something that is no TLS record".to_owned()
    }
}
