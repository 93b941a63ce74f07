//! A connection's life, from top to bottom: the seven steps on one screen.
//!
//! In: a client that was accepted. Out: nothing; when it returns, the connection has ended in `close.rs` and left its
//! record in the metrics and the access log. Each step takes what the one before it made, so none can be skipped.

pub(crate) mod accept;
mod account;
mod close;
mod connect;
mod connection;
mod handshake;
mod hello;
mod http_mode;
mod mysql;
mod prelude;
mod proxy_header_in;
mod proxy_header_out;
mod relay;
mod route;
#[cfg(test)]
mod tests;

use crate::backends::tls::BackendPrelude;
use std::rc::Rc;

use crate::path::connection::Connection;
use crate::path::http_mode::Requests;
use crate::path::relay::Relay;
use crate::worker::services::{Chosen, Prelude};
use handfast_config::model::Clients;
use handfast_leg::Leg;
use handfast_leg::runtime::Runtime;
use handfast_observe::reason::CloseReason;

/// Serves one client.
///
/// The connection is in the task itself: a captured value keeps its place, where an argument that an async function is
/// given has one in each function that it passes through.
#[expect(clippy::manual_async_fn, reason = "an async function keeps its argument twice")]
pub(crate) fn serve<R: Runtime>(mut connection: Connection<R>) -> impl Future<Output = ()> {
    async move {
        let reason = run_steps(&mut connection).await;
        let received = connection.client.as_ref().map_or(0, Leg::received);
        let reason = proxy_header_in::name_end(&connection.account.record, received, reason);
        close::end(&mut connection, reason).await;
    }
}

/// Carries out the steps after accept, in their order.
///
/// The steps to connect need several hundred bytes of state. It is boxed, and freed when the relay begins: an idle connection does not keep
/// a place for it.
async fn run_steps<R: Runtime>(connection: &mut Connection<R>) -> CloseReason {
    let mut carry = match Box::pin(open(connection)).await {
        Ok(carry) => carry,
        Err(reason) => return reason,
    };
    R::carries_bytes();
    match &mut carry {
        Carry::Relay(relay) => relay.run(connection).await,
        // Boxed, so that a connection whose bytes are relayed keeps no place for it.
        Carry::Http(requests) => Box::pin(requests.run(connection)).await,
    }
}

/// Continuation of a connection once its client is served.
enum Carry {
    /// Its backend is connected, and bytes are relayed.
    Relay(Relay),
    /// Its client sends requests.
    Http(Requests),
}

/// hello to connect; before that the PROXY header, where one must come.
async fn open<R: Runtime>(connection: &mut Connection<R>) -> Result<Carry, CloseReason> {
    let received = proxy_header_in::read(connection).await?;
    if matches!(connection.account.service.prelude, Prelude::ServerFirst) {
        return Box::pin(mysql::open(connection, received)).await.map(Carry::Relay);
    }
    let (chosen, mut first) = receive(connection, received).await?;
    if let Some(http) = &connection.account.service.http
        && !connection.account.service.passes_through(chosen)
    {
        return Ok(Carry::Http(Requests { http: Rc::clone(http), chosen, first }));
    }
    let backend = if connection.account.service.backend_prelude(chosen) == BackendPrelude::ServerFirst {
        Box::pin(mysql::connect(connection, chosen, &mut first)).await?
    } else {
        let approach = prelude::align_greetings(&connection.account.service, chosen, &first);
        let backend = connect::dial(connection, chosen, approach).await?;
        prelude::greet_client(connection, chosen)?;
        backend
    };
    Relay::begin(connection, &first, backend).map(Carry::Relay)
}

/// Until the handshake is done: by which rules the client goes on, and its first bytes for the backend.
async fn receive<R: Runtime>(
    connection: &mut Connection<R>,
    received: Vec<u8>,
) -> Result<(Chosen, Vec<u8>), CloseReason> {
    if connection.account.service.model.clients == Clients::Plain {
        connection.account.record.seconds.hello = R::now().since(connection.accepted);
        return Ok((Chosen::SERVICE, received));
    }
    let received = prelude::receive_prelude(connection, received).await?;
    secure_client(connection, received).await
}

/// hello to handshake. `received`: what has come of the hello already.
async fn secure_client<R: Runtime>(
    connection: &mut Connection<R>,
    received: Vec<u8>,
) -> Result<(Chosen, Vec<u8>), CloseReason> {
    let hello = hello::read(connection, received).await?;
    // Before every rule: a client that validates a name has no certificate, and is served nothing else.
    let challenges = connection.account.thread.challenges();
    if let Some(server) = challenges.server(&hello.parsed) {
        return Err(handshake::answer_challenge(connection, hello, &server).await);
    }
    // By the hello alone, and before the handshake, since its policy is part of the answer, and whether there is one.
    let chosen = route::choose(connection, &hello.parsed);
    if connection.account.service.passes_through(chosen) {
        return Ok((chosen, handshake::pass_through(&mut connection.account.record, hello)));
    }
    let first = handshake::finish(connection, hello, chosen).await?;
    Ok((route::after_handshake(chosen, &connection.account.record.tls), first))
}
