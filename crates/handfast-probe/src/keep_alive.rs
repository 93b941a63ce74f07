//! Measures how long a server keeps an idle connection, and for how many requests it keeps a busy one.
//!
//! In: [`AttemptSettings`] with a request. Out: [`KeepAlive`]. Two connections: one stays idle after a response, one sends request after request.
//! Neither lasts longer than the limit.

use std::time::Duration;

use handfast_net::clock::Moment;
use schemars::JsonSchema;
use serde::Serialize;

use crate::attempt::{Attempt, AttemptSettings, open};
use crate::error::ProbeError;

/// Requests that are made at the most: one more than nginx's default.
pub const MAX_REQUESTS: u32 = 1_001;

/// Measured keep-alive of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "Kept")]
pub struct KeepAlive {
    /// The limit of the measurement.
    pub bound_ms: f64,
    /// Time for which an idle connection was kept after a response; `null`: until the bound at least.
    pub idle_ms: Option<f64>,
    /// Way in which the server ended it: `close_notify`, `fin`, `reset`; `nothing` where it did not.
    pub idle_ended_by: &'static str,
    /// Requests that were answered on one connection.
    pub requests: u32,
    /// True if the server then ended the connection; otherwise more may be possible.
    pub requests_ended: bool,
    /// True if the last response announced it (`Connection: close`).
    pub announced: bool,
}

/// Leaves one connection idle after its first response.
///
/// **Errors**: no connection came about, or the first request failed.
pub(crate) fn idle(
    ask: &AttemptSettings<'_>,
    bound: Duration,
    kept: &mut KeepAlive,
) -> Result<(), ProbeError> {
    let Some((request, _)) = ask.request else { return Ok(()) };
    let mut made = Attempt::default();
    let mut talk = open(ask, &mut made)?;
    made.requested = Some(talk.0.line.now_ms());
    made.first_byte = Some(talk.send_request(request, ask.timeout)?.0);
    talk.record_exchanges(&mut made);
    ask.tally.made(&made);
    let since = talk.0.line.now_ms();
    let ended = talk.outlast(Moment::now() + bound);
    kept.bound_ms = bound.as_secs_f64() * 1e3;
    kept.idle_ms = ended.map(|_| talk.0.line.now_ms() - since);
    kept.idle_ended_by = ended.unwrap_or_default().name();
    Ok(())
}

/// Sends requests on one connection until the server ends it.
///
/// **Errors**: as [`idle`].
pub(crate) fn requests(
    ask: &AttemptSettings<'_>,
    bound: Duration,
    kept: &mut KeepAlive,
) -> Result<(), ProbeError> {
    let Some((request, _)) = ask.request else { return Ok(()) };
    let until = Moment::now() + bound;
    let mut made = Attempt::default();
    let mut talk = open(ask, &mut made)?;
    while kept.requests < MAX_REQUESTS && Moment::now() < until {
        let sent_at = talk.0.line.now_ms();
        match talk.send_request(request, ask.timeout) {
            Ok((first, response)) => {
                kept.requests += 1;
                match made.requested {
                    None => {
                        (made.requested, made.first_byte) = (Some(sent_at), Some(first));
                        talk.record_exchanges(&mut made);
                    }
                    Some(_) => made.again.push((first - sent_at).max(0.0)),
                }
                talk.0.line.seen.clear();
                kept.announced = response.head.closes;
                if response.head.closes || talk.0.is_closed {
                    kept.requests_ended = true;
                    break;
                }
            }
            Err(error) if kept.requests == 0 => return Err(error),
            Err(_) => {
                kept.requests_ended = true;
                break;
            }
        }
    }
    ask.tally.made(&made);
    Ok(())
}
