//! Messages from other threads to a task of an engine: the only way in for values (a waker brings none).
//!
//! In: values of any type that other threads send. Out: all that have come, in their order, to one waiting task.
//!
//! **When it is full.** Sending never waits, so that a thread that is stuck cannot hold the one that gives it orders; a message
//! without room is returned to the sender, which decides the consequence. A mailbox is emptied whole at each look, so it fills only
//! when its thread does not get to look at all: being full is a sign that something else is wrong. An order that makes an earlier one
//! pointless takes its place ([`Sender::send_instead`]), so that news of the same kind do not fill it.

#![expect(clippy::disallowed_types, reason = "held for a push or a take, and only when a message was sent")]

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::{EventSource, Ready, wait};
use crate::clock::Moment;

struct MessageQueue<M> {
    letters: Mutex<Vec<M>>,
    room: usize,
    bell: OwnedFd,
}

/// Sends messages into an engine's thread.
pub struct Sender<M>(Arc<MessageQueue<M>>);

/// A message that had no room, given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<M>(pub M);

impl<M> fmt::Debug for Full<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

impl<M> fmt::Display for Full<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the mailbox is full")
    }
}

impl<M> std::error::Error for Full<M> {}

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Sender<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<M> MessageQueue<M> {
    fn letters(&self) -> MutexGuard<'_, Vec<M>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> Sender<M> {
    /// Hands over a message and wakes the engine. Never waits for the receiver.
    ///
    /// **Errors**: no room; the receiver has not looked for as many messages as the mailbox holds.
    ///
    /// **Cost**: one lock that the receiver holds only while it takes the letters out, and one `write`.
    pub fn send(&self, message: M) -> Result<(), Full<M>> {
        self.send_instead(message, |_| false)
    }

    /// The same in place of letters that are still there and that it makes pointless; it comes behind all others.
    ///
    /// **Errors**: as [`Sender::send`]; nothing was taken out then.
    pub fn send_instead(&self, message: M, pointless: impl Fn(&M) -> bool) -> Result<(), Full<M>> {
        let mut letters = self.0.letters();
        // Dropped when the lock is free again.
        let replaced: Vec<M> = letters.extract_if(.., |letter| pointless(letter)).collect();
        let room = letters.len() < self.0.room;
        if room {
            letters.push(message);
            drop(letters);
            drop(replaced);
            // Its counter can only overflow after 2^64 − 2 unread messages; it is readable then anyway.
            let _ = rustix::io::write(&self.0.bell, &1_u64.to_ne_bytes());
            return Ok(());
        }
        // A removed message makes room, so none was removed here.
        debug_assert!(replaced.is_empty());
        drop(letters);
        Err(Full(message))
    }
}

/// Receiver of messages; made on any thread, read by one task of one engine.
pub struct Mailbox<M> {
    shared: Arc<MessageQueue<M>>,
    source: Option<EventSource>,
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}

/// The parts of a mailbox before it is opened on its thread.
pub struct Letterbox<M>(Arc<MessageQueue<M>>);

impl<M> fmt::Debug for Letterbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Letterbox")
    }
}

impl<M> Letterbox<M> {
    /// To be called in the task that will read it.
    pub fn open(self) -> Mailbox<M> {
        Mailbox { shared: self.0, source: None }
    }
}

/// A sender of messages, and what the thread that is to receive them opens; at most `room` messages wait, at least one.
///
/// **Errors**: out of file descriptors.
pub fn mailbox<M>(room: usize) -> io::Result<(Sender<M>, Letterbox<M>)> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(MessageQueue { letters: Mutex::new(Vec::new()), room: room.max(1), bell });
    Ok((Sender(Arc::clone(&shared)), Letterbox(shared)))
}

impl<M> Mailbox<M> {
    /// Waits for messages and takes all that are there, in the order sent; at least one.
    ///
    /// **Errors**: registering with the engine. **Cancel**: loses nothing.
    pub async fn receive(&mut self) -> io::Result<Vec<M>> {
        if self.source.is_none() {
            self.source = Some(EventSource::register(&self.shared.bell, Ready::NONE)?);
        }
        loop {
            // Emptied before the letters are taken: a letter sent in between rings again.
            let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
            let letters = std::mem::take(&mut *self.shared.letters());
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
