//! Step 3, handshake: from the hello to a session both sides agree on.
//!
//! In: a client that has sent its hello, and the rules for it. Out: its secured leg, and the bytes behind its last flight.
//! The time it took is split: our own computing, waiting for the client, and for a thread that was busy with others.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use handfast_leg::{Broken, Leg, Socket};
use handfast_net::engine::Woken;
use handfast_tls::buffer::Scratch;
use handfast_tls::policy::Objection;
use handfast_tls::server::{Server, ServerSession};
use handfast_tls::session::{Session, Verdict};
use handfast_tls::store::Selection;
use handfast_wire::{Alert, AlertDescription, ClientHello};

use crate::path::connection::Connection;
use crate::path::hello::ReceivedHello;
use crate::worker::context::WorkerContext;
use crate::worker::services::Chosen;
use crate::worker::signer::{Pending, ServerFlight, Signer, Work};
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::record::Record;

/// The extension `encrypted_client_hello` (RFC 9849 §5).
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// A signer that has done nothing for this duration gets no processor.
const SIGNER_TIMEOUT: Duration = Duration::from_millis(50);

/// Leaves the handshake to the backend: the client's TLS is passed on as it is, its hello first.
pub(crate) fn pass_through(record: &mut Record, hello: ReceivedHello) -> Vec<u8> {
    record.server_name = hello.parsed.server_name;
    let details = record.details();
    details.passed_through = true;
    // A GREASE one looks the same (RFC 9849 §6.2), so this records the extension, not its meaning.
    details.encrypted_hello = hello.parsed.extensions.contains(&ENCRYPTED_CLIENT_HELLO);
    hello.bytes
}

/// Carries the handshake to its end. Gives what came together with the client's last flight, decrypted: the first bytes
/// for the backend.
pub(crate) async fn finish<R: Runtime>(
    connection: &mut Connection<R>,
    hello: ReceivedHello,
    chosen: Chosen,
) -> Result<Vec<u8>, CloseReason> {
    let begun = R::now();
    let mut queued = Duration::ZERO;
    let outcome = exchange(connection, hello, chosen, &mut queued).await;
    let account = &mut connection.account;
    let seconds = &mut account.record.seconds;
    seconds.handshake = R::now().since(begun);
    seconds.handshake_wait = seconds.handshake.saturating_sub(seconds.handshake_crypto + queued);
    // Once, for whatever it came to: finding the names takes longer than anything else here that is not a cipher.
    account.record.tls =
        connection.client.as_ref().and_then(Leg::session).map(Session::agreed).unwrap_or_default();
    if let Some(Verdict::Failed { fault, .. }) = account.record.tls.verdict.as_deref() {
        account.service.metrics.certificate_failed(*fault);
    }
    if outcome.is_ok() {
        account.service.metrics.handshake(&account.record.tls, &account.record.seconds);
    }
    outcome
}

async fn exchange<R: Runtime>(
    connection: &mut Connection<R>,
    hello: ReceivedHello,
    chosen: Chosen,
    queued: &mut Duration,
) -> Result<Vec<u8>, CloseReason> {
    let thread = Rc::clone(&connection.account.thread);
    let (session, signer) = begin(connection, &thread, &hello.parsed, chosen)?;
    carry_on(connection, hello, (session, signer), queued).await
}

/// Shakes hands with a client that validates a name (TLS-ALPN-01, RFC 8737), and serves nothing else. Returns the close reason.
pub(crate) async fn answer_challenge<R: Runtime>(
    connection: &mut Connection<R>,
    hello: ReceivedHello,
    server: &Server,
) -> CloseReason {
    connection.account.record.server_name = hello.parsed.server_name.clone();
    let session = match server.accept(&hello.parsed) {
        Ok(session) => session,
        Err(failure) => return CloseReason::failure(Step::Handshake, Side::Client, &failure),
    };
    let mut queued = Duration::ZERO;
    match carry_on(connection, hello, (session, None), &mut queued).await {
        Ok(_) => reason(Side::Client, Cause::Challenge).because("TLS-ALPN-01"),
        Err(reason) => reason,
    }
}

async fn carry_on<R: Runtime>(
    connection: &mut Connection<R>,
    mut hello: ReceivedHello,
    (session, signer): (ServerSession, Option<&Signer>),
    queued: &mut Duration,
) -> Result<Vec<u8>, CloseReason> {
    let mut first = Vec::new();
    if let Some(signer) = signer {
        let work = Work { session, hello: hello.bytes };
        answer_elsewhere(connection, signer, work, &mut first).await?;
    } else {
        connection.client().secure(Box::new(session));
        advance(connection, |client, scratch| client.take_hello(&mut hello.bytes, scratch, &mut first))?;
        drop(hello);
    }
    while !connection.client().is_established() {
        // A client that always sends never lets us wait, and the deadline also holds then.
        if R::now() >= connection.deadline {
            return Err(reason(Side::Client, Cause::HandshakeDeadline));
        }
        let received = {
            let (client, mut scratch) = connection.client_and_buffers();
            client.read_flight(&mut scratch).map_err(of_leg)?
        };
        if let Some(bytes) = received {
            advance(connection, |client, scratch| client.take_flight(bytes, scratch, &mut first))?;
            continue;
        }
        if connection.wait(Step::Handshake, connection.deadline).await? == Woken::Deadline {
            return Err(reason(Side::Client, Cause::HandshakeDeadline));
        }
        // The awaited event was there when the turn began; since then the thread has worked on other connections.
        *queued += R::now().since(R::turn());
    }
    Ok(first)
}

/// Has the hello answered by the thread's signer, and goes on with the session that comes back.
async fn answer_elsewhere<R: Runtime>(
    connection: &mut Connection<R>,
    signer: &Signer,
    work: Work,
    first: &mut Vec<u8>,
) -> Result<(), CloseReason> {
    let begun = R::now();
    let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    let answered = match signer.give(work, task) {
        Ok(pending) => {
            connection.account.thread.metrics.signed_elsewhere();
            signed(connection, pending).await
        }
        Err(work) => Ok(work.answer()),
    };
    // Waiting for the signer is waiting for us.
    connection.account.record.seconds.handshake_crypto += R::now().since(begun);
    let ServerFlight { session, received, plaintext, replies } = answered?;
    let client = connection.client();
    client.secure(Box::new(session));
    let outcome = client.take_answer(received, (&plaintext, &replies), first);
    after_flight(connection, outcome)
}

/// Waits for the signer. It has the lowest priority: while it gets no processor, this thread computes what it has not begun.
async fn signed<R: Runtime>(
    connection: &mut Connection<R>,
    mut pending: Pending,
) -> Result<ServerFlight, CloseReason> {
    let mut give_up_at = R::now() + SIGNER_TIMEOUT;
    loop {
        if let Some(answered) = pending.take() {
            return Ok(answered);
        }
        if connection.client().socket().peer_ended() {
            return Err(left());
        }
        let now = R::now();
        if now >= connection.deadline {
            return Err(reason(Side::Client, Cause::HandshakeDeadline));
        }
        if now >= give_up_at {
            give_up_at = now + SIGNER_TIMEOUT;
            // The signer waits, for what this thread must not wait for.
            if connection.account.thread.key_process_is_unresponsive() {
                continue;
            }
            if let Some(work) = pending.take_back() {
                return Ok(work.answer());
            }
        }
        connection.wait(Step::Handshake, give_up_at.min(connection.deadline)).await?;
    }
}

fn left() -> CloseReason {
    reason(Side::Client, Cause::CLOSED_EARLY).because("right after its hello")
}

/// Begins a session by the rules for this client. Returns the signer too, if it is to answer the hello.
fn begin<'t, R: Runtime>(
    connection: &mut Connection<R>,
    thread: &'t WorkerContext,
    hello: &ClientHello,
    chosen: Chosen,
) -> Result<(ServerSession, Option<&'t Signer>), CloseReason> {
    connection.account.record.server_name = hello.server_name.clone();
    let service = Rc::clone(&connection.account.service);
    let server = service.server(chosen);
    let client = connection.client();
    let mut refuse = |alert, reason| {
        client.keep(&Alert::fatal(alert).to_record());
        Err(reason)
    };
    if server.is_certificate_pending(hello) {
        let reason = reason(Side::Local, Cause::CertificatePending);
        return refuse(AlertDescription::UNRECOGNIZED_NAME, reason);
    }
    if server.refuses(hello) {
        return refuse(AlertDescription::UNRECOGNIZED_NAME, reason(Side::Client, Cause::UnknownName));
    }
    if let Some(objection) = objection(server, hello) {
        return refuse(objection.alert, reason(Side::Client, Cause::Tls).because(objection.detail));
    }
    if hello.offers_resumption() {
        service.metrics.ticket_offered();
    }
    // A signature is dear: not for a client that has left already.
    if client.socket().peer_ended() {
        return Err(left());
    }
    let session = server.accept(hello);
    let session = session.map_err(|failure| CloseReason::failure(Step::Handshake, Side::Client, &failure))?;
    Ok((session, signer::<R>(thread, || server.needs_expensive_signature(hello))))
}

/// The thread's signer, where it is to answer this hello. That costs a fifth of the handshakes that a processor can make. So it is only used
/// while other handshakes wait and would delay connections that carry bytes, and only for an expensive signature; that is computed last.
fn signer<R: Runtime>(thread: &WorkerContext, is_expensive: impl FnOnce() -> bool) -> Option<&Signer> {
    let signer = thread.signer.as_ref()?;
    let rule = |handshakes_wait: bool| {
        // This thread must not wait for an unresponsive key process.
        thread.key_process_is_unresponsive()
            || (thread.has_carried(R::turn()) && (signer.is_busy() || handshakes_wait) && is_expensive())
    };
    R::uses_signer(rule).then_some(signer)
}

/// Returns the reason to refuse a client before anything is computed for it, if there is one.
fn objection(server: &Server, hello: &ClientHello) -> Option<Objection> {
    // An address is no name, and is passed over as RFC 6066 §3 says; anything else that is not one is refused, because
    // rustls might read it as some name and serve it by rules that were not chosen for that.
    if let Some(problem) = hello.server_name_problem.filter(|problem| !problem.is_address()) {
        return Some(Objection { alert: AlertDescription::ILLEGAL_PARAMETER, detail: problem.to_string() });
    }
    server.objection(hello).or_else(|| {
        matches!(server.selection(hello), Selection::NoCommonSignature(_)).then(|| Objection {
            alert: AlertDescription::HANDSHAKE_FAILURE,
            detail: "no signature scheme in common with the certificates for this name".into(),
        })
    })
}

/// Gives the session what came, by `take`, and the client what it answers. Computing is timed, writing is not.
fn advance<R: Runtime>(
    connection: &mut Connection<R>,
    take: impl FnOnce(&mut Leg<R::Socket>, &mut Scratch) -> Result<(), Broken>,
) -> Result<(), CloseReason> {
    let before = R::now();
    let outcome = {
        let (client, mut scratch) = connection.client_and_buffers();
        take(client, &mut scratch)
    };
    connection.account.record.seconds.handshake_crypto += R::now().since(before);
    after_flight(connection, outcome)
}

/// Sends what the session has answered, if that is to go alone.
fn after_flight<R: Runtime>(
    connection: &mut Connection<R>,
    outcome: Result<(), Broken>,
) -> Result<(), CloseReason> {
    outcome.map_err(of_leg)?;
    let client = connection.client();
    let is_tls13 = || client.session().is_some_and(|session| session.agreed().version == Some("TLSv1.3"));
    // TLS 1.3 sends tickets after the handshake: they go with the first data.
    if client.is_established() && is_tls13() { Ok(()) } else { client.send_flight().map_err(of_leg) }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_leg(broken: Broken) -> CloseReason {
    CloseReason::broken(Step::Handshake, &broken)
}

fn reason(side: Side, cause: Cause) -> CloseReason {
    CloseReason::new(Step::Handshake, side, cause)
}
