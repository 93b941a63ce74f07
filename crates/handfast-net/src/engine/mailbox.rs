//! Messages from other threads to a task of an engine: the only way in from outside.
//!
//! In: values of any type that other threads send. Out: all that have come, in their order, to one waiting task.

#![expect(
    clippy::disallowed_types,
    reason = "held for a push or a take, and only when somebody has sent something"
)]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::{Ready, Source, wait};
use crate::clock::Moment;

struct Shared<M> {
    letters: Mutex<Vec<M>>,
    bell: OwnedFd,
}

/// Sends messages into an engine's thread.
pub struct Sender<M>(Arc<Shared<M>>);

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> std::fmt::Debug for Sender<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

impl<M> Sender<M> {
    /// Hands over a message and wakes the engine. Never waits for the receiver.
    ///
    /// **Cost**: one lock that the receiver holds only while it takes the letters out, and one `write`.
    pub fn send(&self, message: M) {
        self.0.letters.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // Its counter can only overflow after 2^64 − 2 unread messages; it is readable then anyway.
        let _ = rustix::io::write(&self.0.bell, &1_u64.to_ne_bytes());
    }
}

/// Where the messages arrive; made on any thread, read by one task of one engine.
pub struct Mailbox<M> {
    shared: Arc<Shared<M>>,
    source: Option<Source>,
}

impl<M> std::fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mailbox")
    }
}

/// The parts of a mailbox before it is opened on its thread.
pub struct Letterbox<M>(Arc<Shared<M>>);

impl<M> std::fmt::Debug for Letterbox<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Letterbox")
    }
}

impl<M> Letterbox<M> {
    /// To be called in the task that will read it.
    pub fn open(self) -> Mailbox<M> {
        Mailbox { shared: self.0, source: None }
    }
}

/// A sender of messages, and what the thread that is to receive them opens.
///
/// **Errors**: out of file descriptors.
pub fn mailbox<M>() -> io::Result<(Sender<M>, Letterbox<M>)> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { letters: Mutex::new(Vec::new()), bell });
    Ok((Sender(Arc::clone(&shared)), Letterbox(shared)))
}

impl<M> Mailbox<M> {
    /// Waits for messages and takes all that are there, in the order sent; at least one.
    ///
    /// **Errors**: registering with the engine. **Cancel**: loses nothing.
    pub async fn receive(&mut self) -> io::Result<Vec<M>> {
        if self.source.is_none() {
            self.source = Some(Source::register(&self.shared.bell, Ready::NONE)?);
        }
        loop {
            // Emptied before the letters are taken: a letter sent in between rings again.
            let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
            let letters =
                std::mem::take(&mut *self.shared.letters.lock().unwrap_or_else(PoisonError::into_inner));
            if !letters.is_empty() {
                return Ok(letters);
            }
            if let Some(source) = &self.source {
                source.used_up(Ready::READ);
            }
            wait(Moment::NEVER).await;
        }
    }
}

impl<M> Drop for Mailbox<M> {
    fn drop(&mut self) {
        if let Some(source) = self.source.take() {
            source.deregister(&self.shared.bell);
        }
    }
}
