//! Step 5, connect: a backend that answers, or the reason why none does.
//!
//! In: a secured client. Out: a connected backend that has been given the client's first bytes. A backend that refuses
//! is counted, and the next one is tried; each at most once for a connection.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::dial::Dialling;
use handfast_net::engine::Woken;
use handfast_net::fault::{Cause, Fault, Side, Step};
use handfast_net::stream::Stream;

use crate::backends::{Endpoint, InUse};
use crate::connection::Connection;
use crate::handshake::Secured;
use crate::record::CloseReason;

/// A backend that stands.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) backend: Stream,
    /// How much of the client's first bytes it has been given.
    pub(crate) sent: usize,
    /// Counts the connection at its endpoint.
    pub(crate) in_use: InUse,
}

/// Dials backends until one answers.
pub(crate) async fn dial(connection: &mut Connection, secured: &Secured) -> Result<Connected, CloseReason> {
    let begun = Moment::now();
    let service = Rc::clone(&connection.service);
    let group = service.group(secured.choice);
    let mut tried: Vec<Rc<Endpoint>> = Vec::new();
    let mut last = None;
    let outcome = loop {
        let Some(endpoint) = group.pick(begun, &tried) else {
            break Err(last.unwrap_or_else(|| service.no_backend(secured.choice)));
        };
        connection.record.backend = Some(Rc::clone(&endpoint.name));
        match attempt(connection, &endpoint, &secured.plaintext).await {
            Ok((backend, sent)) => {
                let in_use = endpoint.connected(Moment::now().since(begun));
                break Ok(Connected { backend, sent, in_use });
            }
            Err(Ended::Connection(reason)) => break Err(reason),
            Err(Ended::Attempt(fault)) => {
                if !is_ours(&fault) {
                    let limits = &service.limits;
                    endpoint.failed(Moment::now(), limits.backend_failures, limits.backend_retry);
                }
                last = Some(CloseReason::fault(Step::Connect, Side::Backend, &fault));
                connection.record.backends_failed = connection.record.backends_failed.saturating_add(1);
                tried.push(endpoint);
            }
        }
    };
    connection.record.seconds.connect = Moment::now().since(begun);
    outcome
}

/// Whether it is this machine that cannot dial, which says nothing about the backend.
fn is_ours(fault: &Fault) -> bool {
    matches!(fault.cause, Cause::OutOfFiles | Cause::OutOfPorts | Cause::OutOfMemory)
}

/// What an attempt that failed ended.
enum Ended {
    /// Itself; another backend may be tried.
    Attempt(Fault),
    /// The whole connection.
    Connection(CloseReason),
}

async fn attempt(
    connection: &mut Connection,
    endpoint: &Endpoint,
    first: &[u8],
) -> Result<(Stream, usize), Ended> {
    let deadline = connection.deadline.min(Moment::now().deadline(connection.service.limits.connect));
    let start = if first.is_empty() { Dialling::start } else { Dialling::start_to_speak };
    let mut dialling = start(&endpoint.address).map_err(Ended::Attempt)?;
    loop {
        if let Some(sent) = dialling.advance(first).map_err(Ended::Attempt)? {
            return Ok((dialling.into_stream(), sent));
        }
        let woken = connection.wait(Step::Connect, deadline).await.map_err(Ended::Connection)?;
        if connection.client.is_broken() {
            let reason = match connection.client.check() {
                Err(fault) => CloseReason::fault(Step::Connect, Side::Client, &fault),
                Ok(()) => CloseReason::new(Step::Connect, Side::Client, Cause::Left),
            };
            return Err(Ended::Connection(reason));
        }
        if woken == Woken::Deadline {
            if deadline == connection.deadline {
                let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline);
                return Err(Ended::Connection(reason));
            }
            return Err(Ended::Attempt(dialling.give_up()));
        }
    }
}
