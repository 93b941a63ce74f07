//! A connection's life, from top to bottom: the seven steps on one screen.
//!
//! In: a client that was accepted. Out: nothing; when it returns, the connection has ended in `close.rs` and left its
//! record in the metrics and the access log. Each step takes what the one before it made, so none can be skipped.

use crate::config::model::Clients;
use crate::connection::Connection;
use crate::relay::Relay;
use crate::runtime::Runtime;
use crate::thread_state::Choice;
use crate::{close, connect, handshake, hello, proxy_in, route, starttls};
use handfast_observe::reason::CloseReason;

/// Serves one client.
///
/// The connection lies in the task itself: a captured value keeps its place, where an argument that an async function is
/// given has one in each function that it passes through.
#[expect(clippy::manual_async_fn, reason = "an async function keeps its argument twice")]
pub(crate) fn serve<R: Runtime>(mut connection: Connection<R>) -> impl Future<Output = ()> {
    async move {
        let reason = walk(&mut connection).await;
        let reason = proxy_in::name_end(&connection, reason);
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
    let came = proxy_in::read(connection).await?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Engine;

    /// Bytes of what a function returns.
    fn size<I, F: Future>(_: impl Fn(I) -> F) -> usize {
        size_of::<F>()
    }

    /// Most of what an idle connection costs outside the TLS library. It is easily doubled unseen: by a value that is
    /// moved from one async function to another, or that is still in scope where one waits.
    #[test]
    fn a_connection_of_ours_takes_a_kibibyte() {
        let task = size(serve::<Engine>);
        assert!(
            task <= 1024,
            "{task} bytes, of which {} for the connection",
            size_of::<Connection<Engine>>()
        );
    }
}
