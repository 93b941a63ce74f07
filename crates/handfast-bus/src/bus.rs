//! The transport of messages, by subject.
//!
//! In: a subject and a payload. Out: the messages of a subscription. Two buses: [`local`] inside the process, [`nats`]
//! between machines. Both deliver at most once and in the sender's order, and both drop messages of a reader that is
//! thousands behind; the protocol tolerates that.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::broadcast;

pub(crate) mod local;
pub(crate) mod nats;

/// Messages that wait for one reader, at most. A worker sends three a second.
const QUEUE: usize = 4096;

/// A future of a [`Bus`], boxed so that both buses have one type.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A received message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The subject that it was published to.
    pub subject: String,
    /// The subject for the answer.
    pub reply: Option<String>,
    /// The payload.
    pub payload: Bytes,
}

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The subject has no subscriber.
    NoSubscriber,
    /// No answer came in time.
    Late(Duration),
    /// The message has more bytes than the server takes.
    TooLarge {
        /// Its length.
        length: usize,
        /// The server's limit.
        limit: usize,
    },
    /// The bus accepted nothing; its error.
    Gone(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSubscriber => write!(f, "no subscriber"),
            Self::Late(waited) => write!(f, "no answer within {} s", waited.as_secs_f64()),
            Self::TooLarge { length, limit } => {
                write!(f, "a message of {length} bytes, the server takes at most {limit}")
            }
            Self::Gone(what) => write!(f, "the bus accepted nothing: {what}"),
        }
    }
}

impl std::error::Error for Fault {}

/// A message bus.
pub trait Bus: Send + Sync {
    /// Sends to all subscribers. A message that was sent need not arrive.
    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Later<'a, Result<(), Fault>>;

    /// Sends, and waits for one answer.
    fn request<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        timeout: Duration,
    ) -> Later<'a, Result<Bytes, Fault>>;

    /// Everything published from now on to subjects that fit `pattern` (`*` one token, `>` the rest).
    fn subscribe<'a>(&'a self, pattern: &'a str) -> Later<'a, Result<Feed, Fault>>;

    /// The longest payload it takes. **Units**: bytes.
    fn limit(&self) -> usize;

    /// Returns true if it is connected now.
    fn is_connected(&self) -> bool;

    /// Waits until it is connected, or until it is not.
    ///
    /// **Cancel**: nothing is lost.
    fn until<'a>(&'a self, connected: bool) -> Later<'a, ()>;

    /// Its name in messages to people: never with a password.
    fn place(&self) -> &str;

    /// Sends what waits to be sent; bounded.
    fn flush(&self) -> Later<'_, ()>;
}

/// The messages of one subscription.
pub enum Feed {
    /// Inside the process: all messages, filtered here.
    Local {
        /// The pattern of subjects.
        pattern: String,
        /// Everything.
        from: broadcast::Receiver<Message>,
    },
    /// From the server.
    Nats(async_nats::Subscriber),
}

impl Feed {
    /// The next message, or `None` when no more can come.
    ///
    /// **Cancel**: nothing is lost.
    pub async fn next(&mut self) -> Option<Message> {
        match self {
            Self::Local { pattern, from } => loop {
                match from.recv().await {
                    Ok(message) if local::fits(pattern, &message.subject) => return Some(message),
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(lost)) => {
                        tracing::warn!(lost, "messages lost: too slow to read them");
                    }
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            },
            Self::Nats(subscriber) => subscriber.next().await.map(|message| Message {
                subject: message.subject.to_string(),
                reply: message.reply.map(|reply| reply.to_string()),
                payload: message.payload,
            }),
        }
    }
}
