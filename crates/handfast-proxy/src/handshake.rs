//! Step 3, handshake: from the hello to a session both sides agree on.
//!
//! In: a client that has said hello. Out: an established session, and what the client sent behind its last flight.
//! How long it took is told apart: our own computing, and waiting for the client.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_net::stream::{Read, Write};
use handfast_tls::buffer::Scratch;
use handfast_tls::policy::Objection;
use handfast_tls::server::Server;
use handfast_tls::session::{Failure, Session};
use handfast_tls::store::Selection;
use handfast_wire::{Alert, AlertDescription, ClientHello};

use crate::cause::Cause;
use crate::connection::Connection;
use crate::hello::Heard;
use crate::reason::{CloseReason, Side, Step};
use crate::route::Choice;

/// Bytes of an unfinished handshake message that a client may make us keep: one of the greatest length and its records.
const UNFINISHED: usize = 128 * 1024;

/// A client with an established session.
pub(crate) struct Secured {
    pub(crate) session: Box<dyn Session>,
    /// Which rules decided, and decide about the backends too.
    pub(crate) choice: Choice,
    /// Decrypted already: what came together with the client's last flight.
    pub(crate) plaintext: Vec<u8>,
    /// The client has said close_notify already.
    pub(crate) client_closed: bool,
}

/// Carries the handshake to its end.
pub(crate) async fn finish(connection: &mut Connection, heard: Heard) -> Result<Secured, CloseReason> {
    let begun = Moment::now();
    let outcome = exchange(connection, heard).await;
    let seconds = &mut connection.record.seconds;
    seconds.handshake = Moment::now().since(begun);
    seconds.handshake_wait = seconds.handshake.saturating_sub(seconds.handshake_crypto);
    if outcome.is_ok() {
        connection.service.metrics.handshake(&connection.record.tls, &connection.record.seconds);
    }
    outcome
}

async fn exchange(connection: &mut Connection, mut heard: Heard) -> Result<Secured, CloseReason> {
    let mut secured = begin(connection, &heard.hello)?;
    let mut outcome = advance(connection, &mut secured, &mut heard.received);
    drop(heard);
    loop {
        connection.record.tls = secured.session.agreed();
        outcome?;
        if secured.session.is_established() {
            return Ok(secured);
        }
        outcome = loop {
            // Whoever always has something to say never lets us wait, and the deadline is not for waiting alone.
            if Moment::now() >= connection.deadline {
                return Err(reason(Side::Client, Cause::HandshakeDeadline));
            }
            if let Some(outcome) = receive(connection, &mut secured)? {
                break outcome;
            }
            if connection.wait(Step::Handshake, connection.deadline).await? == Woken::Deadline {
                return Err(reason(Side::Client, Cause::HandshakeDeadline));
            }
        };
    }
}

/// Finds the rules for this client and begins a session under them.
fn begin(connection: &mut Connection, hello: &ClientHello) -> Result<Secured, CloseReason> {
    let choice = connection.service.rules.choose(hello.server_name.as_deref());
    connection.record.server_name = hello.server_name.clone();
    let service = Rc::clone(&connection.service);
    let server = service.server(choice);
    if server.refuses(hello) {
        connection.outgoing = Alert::fatal(AlertDescription::UNRECOGNIZED_NAME).to_record().to_vec();
        return Err(reason(Side::Client, Cause::UnknownName));
    }
    if let Some(objection) = objection(server, hello) {
        connection.outgoing = Alert::fatal(objection.alert).to_record().to_vec();
        return Err(reason(Side::Client, Cause::Tls).because(objection.detail));
    }
    if hello.offers_resumption() {
        connection.service.metrics.ticket_offered();
    }
    // A signature is dear: not for a client that has left already.
    if connection.client.peer_ended() {
        return Err(reason(Side::Client, Cause::CLOSED_EARLY).because("right after its hello"));
    }
    let session = server.accept(hello).map_err(|failure| of_failure(&failure))?;
    Ok(Secured { session: Box::new(session), choice, plaintext: Vec::new(), client_closed: false })
}

/// What speaks against a client before anything is computed for it.
fn objection(server: &Server, hello: &ClientHello) -> Option<Objection> {
    // An address is no name, and is passed over as RFC 6066 §3 says; anything else that is not one is refused, because
    // rustls might read it as some name and serve it by rules that were not chosen for that.
    if let Some(problem) = hello.server_name_problem.filter(|problem| !problem.is_address()) {
        return Some(Objection { alert: AlertDescription::ILLEGAL_PARAMETER, detail: problem.to_string() });
    }
    if let Some(objection) = server.objection(hello) {
        return Some(objection);
    }
    if matches!(server.selection(hello), Selection::NoCommonSignature(_)) {
        return Some(Objection {
            alert: AlertDescription::HANDSHAKE_FAILURE,
            detail: "no signature scheme in common with the certificates for this name".into(),
        });
    }
    None
}

/// Gives the session what came, and the client what it answers.
fn advance(
    connection: &mut Connection,
    secured: &mut Secured,
    incoming: &mut [u8],
) -> Result<(), CloseReason> {
    let before = Moment::now();
    let thread = Rc::clone(&connection.thread);
    let Scratch { plaintext, records, .. } = &mut *thread.scratch.borrow_mut();
    plaintext.clear();
    records.clear();
    let received = secured.session.receive(incoming, plaintext, records);
    connection.record.seconds.handshake_crypto += Moment::now().since(before);
    secured.plaintext.extend_from_slice(plaintext.filled());
    secured.client_closed |= received.closed;
    connection.outgoing.extend_from_slice(records.filled());
    if let Some(failure) = received.failure {
        return Err(of_failure(&failure));
    }
    if secured.client_closed && !secured.session.is_established() {
        return Err(reason(Side::Client, Cause::CLOSED_EARLY).because("with close_notify"));
    }
    if secured.session.kept().len() > UNFINISHED {
        return Err(reason(Side::Client, Cause::Tls).because("a handshake message without an end"));
    }
    // What TLS 1.3 says after the handshake are tickets: they ride on the first data.
    let only_tickets = secured.session.is_established() && connection.record.tls.version == Some("TLSv1.3");
    if only_tickets { Ok(()) } else { send(connection) }
}

/// Writes what waits for the client, as much as it takes.
fn send(connection: &mut Connection) -> Result<(), CloseReason> {
    if connection.outgoing.is_empty() {
        return Ok(());
    }
    match connection.client.try_write(&connection.outgoing) {
        Ok(Write::Bytes(bytes)) if bytes == connection.outgoing.len() => connection.outgoing = Vec::new(),
        Ok(Write::Bytes(bytes)) => drop(connection.outgoing.drain(..bytes)),
        Ok(Write::Blocked) => {}
        Err(fault) => return Err(CloseReason::fault(Step::Handshake, Side::Client, &fault)),
    }
    Ok(())
}

/// Takes in what is there, after sending what waits; what came of it, if anything came.
fn receive(
    connection: &mut Connection,
    secured: &mut Secured,
) -> Result<Option<Result<(), CloseReason>>, CloseReason> {
    send(connection)?;
    let thread = Rc::clone(&connection.thread);
    let read = connection.client.try_read(&mut thread.scratch.borrow_mut().received);
    match read {
        Ok(Read::Bytes(bytes)) => {
            // Flights are short and come in few pieces: a copy of them is not worth sparing.
            let mut incoming = secured.session.kept().to_vec();
            incoming.extend_from_slice(&thread.scratch.borrow().received[..bytes]);
            Ok(Some(advance(connection, secured, &mut incoming)))
        }
        Ok(Read::Blocked) => Ok(None),
        Ok(Read::End) => Err(reason(Side::Client, Cause::CLOSED_EARLY).because("before its last flight")),
        Err(fault) => Err(CloseReason::fault(Step::Handshake, Side::Client, &fault)),
    }
}

fn of_failure(failure: &Failure) -> CloseReason {
    CloseReason::failure(Step::Handshake, Side::Client, failure)
}

fn reason(side: Side, cause: Cause) -> CloseReason {
    CloseReason::new(Step::Handshake, side, cause)
}
