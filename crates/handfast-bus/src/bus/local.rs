//! The bus inside the process: one bounded ring of messages that every subscription reads.
//!
//! In: a subject and bytes. Out: the same, to every matching subscription. It behaves like NATS, so that a run
//! on one machine takes the same code path as a run on many.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;

use super::{Bus, Fault, Feed, Later, Message, QUEUE};

/// The longest payload: what a NATS server takes by default.
const LIMIT: usize = 1_048_576;

/// A bus that ends with the process.
pub struct Local {
    ring: broadcast::Sender<Message>,
    inboxes: AtomicU64,
}

impl Default for Local {
    fn default() -> Self {
        Self { ring: broadcast::Sender::new(QUEUE), inboxes: AtomicU64::new(0) }
    }
}

impl Local {
    fn send(&self, subject: &str, reply: Option<String>, payload: Bytes) -> Result<(), Fault> {
        if payload.len() > LIMIT {
            return Err(Fault::TooLarge { length: payload.len(), limit: LIMIT });
        }
        // An error means that there is no subscriber at all, which is no error for publishing.
        let _ = self.ring.send(Message { subject: subject.to_owned(), reply, payload });
        Ok(())
    }
}

impl Bus for Local {
    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Later<'a, Result<(), Fault>> {
        Box::pin(async move { self.send(subject, None, payload) })
    }

    fn request<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        timeout: Duration,
    ) -> Later<'a, Result<Bytes, Fault>> {
        Box::pin(async move {
            let inbox = format!("inbox.{}", self.inboxes.fetch_add(1, Ordering::Relaxed));
            let mut answers = Feed::Local { pattern: inbox.clone(), from: self.ring.subscribe() };
            self.send(subject, Some(inbox), payload)?;
            match tokio::time::timeout(timeout, answers.next()).await {
                Ok(Some(message)) => Ok(message.payload),
                Ok(None) => Err(Fault::Gone("it has ended".into())),
                Err(_) => Err(Fault::Late(timeout)),
            }
        })
    }

    fn subscribe<'a>(&'a self, pattern: &'a str) -> Later<'a, Result<Feed, Fault>> {
        let feed = Feed::Local { pattern: pattern.to_owned(), from: self.ring.subscribe() };
        Box::pin(async move { Ok(feed) })
    }

    fn limit(&self) -> usize {
        LIMIT
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn until<'a>(&'a self, connected: bool) -> Later<'a, ()> {
        Box::pin(async move {
            if !connected {
                std::future::pending::<()>().await;
            }
        })
    }

    fn place(&self) -> &str {
        "this process"
    }

    fn flush(&self) -> Later<'_, ()> {
        Box::pin(async {})
    }
}

/// Returns true if a subject matches a pattern: `*` matches one token, `>` at the end one or more.
pub(super) fn fits(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for required in pattern.split('.') {
        match (required, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_the_servers_do() {
        assert!(fits("a.b", "a.b") && fits("a.*", "a.b") && fits("a.>", "a.b.c") && fits(">", "a"));
        assert!(!fits("a.b", "a.b.c") && !fits("a.b.c", "a.b") && !fits("a.>", "a") && !fits("a.*", "a.b.c"));
        assert!(!fits("a.b", "a.c"));
    }

    #[tokio::test]
    async fn a_question_is_answered_once_and_silence_has_an_end() {
        let bus = Local::default();
        let mut questions = bus.subscribe("q.*").await.unwrap();
        let timeout = Duration::from_secs(5);
        let (answer, ()) = tokio::join!(bus.request("q.1", Bytes::from_static(b"?"), timeout), async {
            let message = questions.next().await.unwrap();
            bus.publish(&message.reply.unwrap(), Bytes::from_static(b"!")).await.unwrap();
        });
        assert_eq!(answer, Ok(Bytes::from_static(b"!")));
        let short = Duration::from_millis(20);
        assert_eq!(bus.request("nobody", Bytes::new(), short).await, Err(Fault::Late(short)));
    }

    #[tokio::test]
    async fn what_a_server_would_not_take_is_not_taken_here() {
        let bus = Local::default();
        let refused = bus.publish("a", Bytes::from(vec![0; LIMIT + 1])).await;
        assert_eq!(refused, Err(Fault::TooLarge { length: LIMIT + 1, limit: LIMIT }));
    }
}
