//! A connection's life, from top to bottom: the seven steps on one screen.
//!
//! In: a client that was accepted. Out: nothing; when it returns, the connection has ended in `close.rs` and left its
//! record in the metrics and the access log. Each step takes what the one before it made, so none can be skipped.

pub(crate) mod accept;
mod account;
mod admit;
mod close;
mod connect;
mod connection;
mod handshake;
mod hello;
mod proxy_header_in;
mod proxy_header_out;
mod relay;
mod route;
mod starttls;
#[cfg(test)]
mod tests;

use crate::config::model::Clients;
use crate::path::connection::Connection;
use crate::path::relay::Relay;
use crate::worker::services::Choice;
use handfast_leg::runtime::Runtime;
use handfast_observe::reason::CloseReason;

/// Serves one client.
///
/// The connection lies in the task itself: a captured value keeps its place, where an argument that an async function is
/// given has one in each function that it passes through.
#[expect(clippy::manual_async_fn, reason = "an async function keeps its argument twice")]
pub(crate) fn serve<R: Runtime>(mut connection: Connection<R>) -> impl Future<Output = ()> {
    async move {
        let reason = walk(&mut connection).await;
        let reason = proxy_header_in::name_end(&connection, reason);
        close::end(&mut connection, reason).await;
    }
}

/// accept has happened; the other steps, in their order.
///
/// What the steps to connect need is several hundred bytes. It is boxed, and given back when the relay begins: an idle
/// connection does not keep a place for it.
async fn walk<R: Runtime>(connection: &mut Connection<R>) -> CloseReason {
    let mut relay = match Box::pin(open(connection)).await {
        Ok(relay) => relay,
        Err(reason) => return reason,
    };
    R::carries_bytes();
    relay.run(connection).await
}

/// hello to connect; before that the PROXY header, where one must come.
async fn open<R: Runtime>(connection: &mut Connection<R>) -> Result<Relay, CloseReason> {
    let (asked, choice, mut first) = receive(connection).await?;
    let connected = match asked {
        Some(backend) => *backend,
        None => {
            let (words, until) = starttls::first_words(connection, choice, &first);
            connect::dial(connection, choice, words, until).await?
        }
    };
    let connected = starttls::join(connection, choice, &mut first, connected).await?;
    Relay::begin(connection, &first, connected)
}

/// What the steps before connect have made: a backend that had to speak first, the rules, the first bytes for the backend.
type Received<S> = (Option<Box<connect::Connected<S>>>, Choice, Vec<u8>);

/// hello to handshake: by which rules the client goes on, and its first bytes for the backend.
async fn receive<R: Runtime>(connection: &mut Connection<R>) -> Result<Received<R::Socket>, CloseReason> {
    let came = proxy_header_in::read(connection).await?;
    if connection.account.service.clients == Clients::Plain {
        connection.account.record.seconds.hello = R::now().since(connection.accepted);
        return Ok((None, Choice::SERVICE, came));
    }
    // Where clients speak another protocol before TLS; else nothing.
    let asked = starttls::ask(connection, came).await?;
    let heard = hello::read(connection, asked.received).await?;
    // By the hello alone, and before the handshake, since its policy is part of the answer, and whether there is one.
    let choice = route::choose(connection, &heard.hello);
    if connection.account.service.passes_through(choice) {
        return Ok((None, choice, handshake::pass_through(connection, heard)));
    }
    let first = handshake::finish(connection, heard, choice).await?;
    let choice = route::after_handshake(choice, &connection.account.record.tls);
    // Who fails is not for a backend that was connected before that was known.
    let backend = asked.backend.filter(|_| !choice.failed);
    Ok((backend, choice, first))
}
