//! Dialogue between accept and hello with clients that ask for TLS inside another protocol (`starttls`), and the greetings that it takes
//! from one side or leaves to the other.
//!
//! In: an accepted client. Out: one that begins TLS with its next byte, having been answered in its own protocol by
//! `handfast_wire::starttls`; nothing that it sent before has an effect or is kept. A backend whose greeting the client does not
//! expect any more is received here, and a client whose backend has greeted before its own TLS (`backend-tls.starttls`) is greeted here.
//! The exception is MySQL, where the server speaks first: `mysql.rs`.

mod cancel;

use std::rc::Rc;

use handfast_leg::runtime::Runtime;
use handfast_leg::{Broken, Leg, Socket, Why};
use handfast_net::engine::Woken;
use handfast_net::host_name::host_name;
use handfast_tls::buffer::Scratch;
use handfast_wire::starttls::{Greeting, Problem, Progress, Server, second_greeting};

use crate::backends::tls::BackendPrelude;
use crate::path::connect::Approach;
use crate::path::connection::Connection;
use crate::worker::services::{Chosen, Prelude, ThreadService};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Answers a client until it begins TLS; at once done where TLS begins with the first byte. `received` is what it sent behind a PROXY
/// header. Out: the beginning of its hello, where that has come already.
pub(crate) async fn receive_prelude<R: Runtime>(
    connection: &mut Connection<R>,
    received: Vec<u8>,
) -> Result<Vec<u8>, CloseReason> {
    let service = Rc::clone(&connection.account.service);
    let Prelude::Standard { protocol, name } = &service.prelude else { return Ok(received) };
    let outcome = Box::pin(converse(connection, Server::new(*protocol, name), received)).await;
    connection.account.record.seconds.hello = R::now().since(connection.accepted);
    outcome
}

/// Chooses an [`Approach`] by which a backend has greeted as often as the client expects. `first`: the client's first bytes.
pub(crate) fn align_greetings<'a>(service: &ThreadService, chosen: Chosen, first: &'a [u8]) -> Approach<'a> {
    let (first, greeting) = match (&service.prelude, service.backend_prelude(chosen)) {
        (Prelude::Standard { protocol, .. }, before_tls) if protocol.server_speaks_first() => {
            // A backend that is asked for TLS greets before it, and not again.
            let greets = before_tls == BackendPrelude::None;
            (&[][..], Greeting::new(*protocol).filter(|_| greets))
        }
        _ => (first, None),
    };
    Approach { first, greeting, is_tls_later: false }
}

/// Greets a client that waits for a greeting, when the backend's own came before its TLS.
pub(crate) fn greet_client<R: Runtime>(
    connection: &mut Connection<R>,
    chosen: Chosen,
) -> Result<(), CloseReason> {
    let service = &connection.account.service;
    let (Prelude::None, BackendPrelude::Standard(protocol)) =
        (&service.prelude, service.backend_prelude(chosen))
    else {
        return Ok(());
    };
    let words = second_greeting(protocol, &host_name());
    if words.is_empty() {
        return Ok(());
    }
    let (client, mut scratch) = connection.client_and_buffers();
    write::<R>(client, &words, &mut scratch)
}

async fn converse<R: Runtime>(
    connection: &mut Connection<R>,
    mut server: Server,
    mut received: Vec<u8>,
) -> Result<Vec<u8>, CloseReason> {
    let mut answer = Vec::new();
    server.begin(&mut answer);
    loop {
        let progress = if received.is_empty() {
            let bytes = exchange(connection, answer).await?;
            answer = Vec::new();
            server.take(&connection.account.thread.scratch.borrow().received[..bytes], &mut answer)
        } else {
            server.take(&std::mem::take(&mut received), &mut answer)
        };
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Ready) => {
                send(connection, &answer).await?;
                connection.account.record.starttls = connection.account.service.starttls_protocol();
                return Ok(Vec::new());
            }
            Ok(Progress::Cancel) => {
                connection.account.record.starttls = connection.account.service.starttls_protocol();
                return Err(cancel::cancel(connection, &server.into_received()).await);
            }
            Ok(Progress::Direct) => return Ok(server.into_received()),
            Err(problem) => return Err(refuse(connection.client(), &answer, &problem)),
        }
    }
}

/// Keeps the last bytes to a client, which the close sends. Returns the close reason.
pub(super) fn refuse<S: Socket>(client: &mut Leg<S>, answer: &[u8], problem: &Problem) -> CloseReason {
    client.keep(answer);
    let cause = match problem {
        Problem::Injected { .. } => Cause::PlaintextInjected,
        Problem::Left { .. } => Cause::CLOSED_EARLY,
        _ => Cause::Starttls,
    };
    CloseReason::new(Step::Hello, Side::Client, cause).because(problem.to_string())
}

/// Sends `answer`, and waits for what the client sends then; the number of bytes in the thread's buffer.
pub(super) async fn exchange<R: Runtime>(
    connection: &mut Connection<R>,
    answer: Vec<u8>,
) -> Result<usize, CloseReason> {
    connection.client().keep(&answer);
    loop {
        let received = {
            let (client, mut scratch) = connection.client_and_buffers();
            client.read_flight(&mut scratch).map_err(of_client)?
        };
        if let Some(bytes) = received {
            return Ok(bytes);
        }
        wait_for_peer(connection, Side::Client, Step::Hello, "it did not ask for TLS").await?;
    }
}

/// Sends `answer`, and waits until the kernel has it.
pub(super) async fn send<R: Runtime>(
    connection: &mut Connection<R>,
    answer: &[u8],
) -> Result<(), CloseReason> {
    connection.client().keep(answer);
    loop {
        let client = connection.client();
        client.send_flight().map_err(of_client)?;
        if client.unsent() == 0 {
            return Ok(());
        }
        wait_for_peer(connection, Side::Client, Step::Hello, "it did not receive the answer").await?;
    }
}

/// Waits for either side, at most until the connection's deadline, which no conversation moves.
///
/// **Errors**: as [`Connection::wait`]; at the deadline, `what` with the side that did not act.
pub(super) async fn wait_for_peer<R: Runtime>(
    connection: &mut Connection<R>,
    side: Side,
    step: Step,
    what: &str,
) -> Result<(), CloseReason> {
    let deadline = connection.deadline;
    if R::now() < deadline && connection.wait(step, deadline).await? == Woken::Event {
        return Ok(());
    }
    Err(CloseReason::new(step, side, Cause::HandshakeDeadline).because(what))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_client(broken: Broken) -> CloseReason {
    match broken.why {
        Why::Truncated => CloseReason::new(Step::Hello, Side::Client, Cause::CLOSED_EARLY)
            .because("before it asked for TLS"),
        _ => CloseReason::broken(Step::Hello, &broken),
    }
}

/// Sends something to a client behind its handshake. Tickets may still wait to be sent: their records were made first, and go first.
pub(super) fn write<R: Runtime>(
    client: &mut Leg<R::Socket>,
    words: &[u8],
    scratch: &mut Scratch,
) -> Result<(), CloseReason> {
    client.hold(R::now());
    client.write(words, &mut scratch.records).map_err(|broken| CloseReason::broken(Step::Connect, &broken))
}
