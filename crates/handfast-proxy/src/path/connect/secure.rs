//! The handshake with a backend: from the hello that goes out with the first segment to a session both agree on.
//!
//! In: a socket that stands, and a session that has begun. Out: the leg, established; its last flight waits for the client's
//! first bytes. How long it took is told apart from dialling, as with clients.

use std::rc::Rc;

use handfast_leg::{Broken, Leg, Socket};
use handfast_net::engine::Woken;
use handfast_tls::client::ClientSession;
use handfast_tls::session::{Failure, Session};

use super::{Connected, Ended, SocketCause, Waiting, check_client, note_failure};
use crate::backends::endpoint::Endpoint;
use crate::backends::tls::Dialler;
use crate::config::model::MissingCloseNotify;
use crate::path::connection::Connection;
use crate::worker::services::Choice;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// A session that has begun, and its hello.
pub(super) fn begin<R: Runtime>(
    connection: &mut Connection<R>,
    dialler: &Dialler,
    endpoint: &Endpoint,
) -> Result<(ClientSession, Vec<u8>), Ended> {
    let before = R::now();
    let thread = Rc::clone(&connection.account.thread);
    let records = &mut thread.scratch.borrow_mut().records;
    records.clear();
    let agreed = connection.account.record.tls.alpn.as_deref();
    let session = dialler.session(endpoint, agreed, before).and_then(|mut session| {
        session.start(records)?;
        Ok(session)
    });
    let session = session.map_err(of_session)?;
    let rare = connection.account.record.details();
    // Of the last attempt alone.
    rare.backend_tls = None;
    rare.backend_crypto = R::now().since(before);
    Ok((session, records.filled().to_vec()))
}

/// The leg speaks TLS from now on.
pub(super) fn with<S: Socket>(leg: &mut Leg<S>, session: ClientSession, dialler: &Dialler) {
    leg.secure(Box::new(session));
    if dialler.settings().model.missing_close_notify == MissingCloseNotify::End {
        leg.be_lenient();
    }
}

/// TLS with a backend that has been heard before it (MySQL). The client has been told of this one already: there is no other to try.
pub(crate) async fn later<R: Runtime>(
    connection: &mut Connection<R>,
    choice: Choice,
    connected: &mut Connected<R::Socket>,
) -> Result<(), CloseReason> {
    let service = Rc::clone(&connection.account.service);
    let Some(dialler) = service.dialler(choice) else { return Ok(()) };
    let attempt = Waiting::begin(connection);
    let endpoint = Rc::clone(connected.in_use.endpoint());
    let outcome = match begin(connection, dialler, &endpoint) {
        Ok((session, hello)) => {
            with(&mut connected.leg, session, dialler);
            connected.leg.keep(&std::mem::take(&mut connected.request));
            connected.leg.keep(&hello);
            finish(connection, &mut connected.leg, dialler, &attempt).await
        }
        Err(ended) => Err(ended),
    };
    let (reason, failure) = match outcome {
        Ok(spoken) => {
            // What is left of the handshake goes with the next bytes, in front of them.
            connected.leg.hold(R::now());
            connected.in_use.is_good();
            connected.spoken.extend_from_slice(&spoken);
            connected.given = 0;
            return Ok(());
        }
        Err(Ended::Attempt(reason)) => (reason.clone(), Some(reason)),
        Err(Ended::Connection(reason, failure)) => (reason, failure),
    };
    if let Some(failure) = failure {
        connected.in_use.failed(&failure, note_failure(connection, &endpoint, &failure));
    }
    Err(reason)
}

/// Carries the handshake to its end; what the backend said together with it.
pub(super) async fn finish<R: Runtime>(
    connection: &mut Connection<R>,
    leg: &mut Leg<R::Socket>,
    dialler: &Dialler,
    attempt: &Waiting,
) -> Result<Vec<u8>, Ended> {
    let begun = R::now();
    // What was computed for its hello was before the wait for the socket; the rest is within the exchange.
    let hello = connection.account.record.details().backend_crypto;
    let outcome = exchange(connection, leg, attempt).await;
    let agreed = leg.session().map(|session| session.agreed()).unwrap_or_default();
    let account = &mut connection.account;
    let (client, chosen) = (account.record.tls.alpn.as_deref(), agreed.alpn.as_deref());
    let outcome = outcome.and_then(|spoken| match dialler.at_odds(client, chosen) {
        None => Ok(spoken),
        Some(detail) => Err(Ended::Attempt(reason(Cause::BackendProtocol).because(detail))),
    });
    let rare = account.record.details();
    rare.backend_handshake = R::now().since(begun) + hello;
    if outcome.is_ok() {
        account.service.metrics.backend_handshake(&agreed, rare.backend_handshake, rare.backend_crypto);
    }
    rare.backend_tls = Some(agreed);
    outcome
}

async fn exchange<R: Runtime>(
    connection: &mut Connection<R>,
    leg: &mut Leg<R::Socket>,
    attempt: &Waiting,
) -> Result<Vec<u8>, Ended> {
    let mut spoken = Vec::new();
    leg.send_flight().map_err(of_leg)?;
    // It cannot have answered yet: asking would be a call for nothing.
    leg.socket_mut().expect_later().map_err(Ended::socket)?;
    let (mut is_first, mut over) = (true, false);
    loop {
        while let Some(bytes) = receive(connection, leg, is_first)? {
            is_first = false;
            advance(connection, leg, bytes, &mut spoken)?;
            if leg.is_established() {
                return Ok(spoken);
            }
            leg.send_flight().map_err(of_leg)?;
            // Whoever always has something to say never lets us wait, and the deadline is not for waiting alone.
            if R::now() >= attempt.deadline {
                return Err(attempt.over(connection, deadline()));
            }
        }
        if over {
            return Err(attempt.over(connection, deadline()));
        }
        let woken = connection.wait(Step::Connect, attempt.deadline).await;
        let woken = woken.map_err(|reason| Ended::Connection(reason, None))?;
        if let Err(reason) = check_client(connection) {
            let failure = attempt.was_long::<R>().then(deadline);
            return Err(Ended::Connection(reason, failure));
        }
        over = woken == Woken::Deadline;
    }
}

/// Takes in what is there, after sending what waits; how many bytes, if any came. `is_first`: none had before.
fn receive<R: Runtime>(
    connection: &mut Connection<R>,
    leg: &mut Leg<R::Socket>,
    is_first: bool,
) -> Result<Option<usize>, Ended> {
    let thread = Rc::clone(&connection.account.thread);
    let scratch = &mut *thread.scratch.borrow_mut();
    let bytes = leg.read_flight(scratch).map_err(of_leg)?;
    match bytes.map(|bytes| &scratch.received[..bytes]) {
        // A record of a handshake or an alert, in the first byte that a server sends (RFC 9846 §5.1).
        Some([first, ..]) if is_first && !matches!(first, 21 | 22) => {
            let said = shown(&scratch.received[..bytes.unwrap_or(0)]);
            Err(Ended::Attempt(
                reason(Cause::NotTls).because(format!("it answered the ClientHello with {said}")),
            ))
        }
        _ => Ok(bytes),
    }
}

/// The beginning of what a backend said in the clear, for people: a greeting tells what it is.
fn shown(said: &[u8]) -> String {
    let line = said.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = &line[..line.len().min(60)];
    if line.len() > 1 && line.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        format!("{:?}", String::from_utf8_lossy(line))
    } else {
        "something that is no TLS record".to_owned()
    }
}

/// Gives the session what came. Computing is timed, waiting is not.
fn advance<R: Runtime>(
    connection: &mut Connection<R>,
    leg: &mut Leg<R::Socket>,
    bytes: usize,
    spoken: &mut Vec<u8>,
) -> Result<(), Ended> {
    let before = R::now();
    let thread = Rc::clone(&connection.account.thread);
    let scratch = &mut *thread.scratch.borrow_mut();
    let outcome = leg.take_flight(bytes, scratch, spoken);
    connection.account.record.details().backend_crypto += R::now().since(before);
    outcome.map_err(|broken| {
        // Its alert; that it cannot be sent changes nothing. A reset would take it from the backend's hands.
        let _ = leg.send_flight();
        leg.socket_mut().finish_at_drop();
        of_leg(broken)
    })
}

/// The backend's TLS took too long.
fn deadline() -> CloseReason {
    reason(Cause::Socket(SocketCause::ConnectDeadline)).because("during the TLS handshake with it")
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_leg(broken: Broken) -> Ended {
    Ended::Attempt(CloseReason::broken(Step::Connect, &broken))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_session(failure: Failure) -> Ended {
    Ended::Attempt(CloseReason::failure(Step::Connect, Side::Backend, &failure))
}

fn reason(cause: Cause) -> CloseReason {
    CloseReason::new(Step::Connect, Side::Backend, cause)
}
