//! Content on its way from the origin to the disk, and to the requests that wait for it.
//!
//! In: head and pieces from one filler. Out: the same for any number of readers, from memory until it is on the disk. A [`Fill`] uses neither
//! folder nor index. Pieces that wait for the disk are bounded: then the filler waits, and the clock of the cache watches that it does not for long.
//!
//! A response that is not stored after all (the disk fails, it is too large, the folder was given to another process) still goes to the readers that
//! it has: from memory, as fast as the slowest of them reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::rules::key::Key;
use crate::rules::stored::Stored;

use super::file::File;
use super::folder::FileId;
use super::lock::{Lock, locked};

/// Most pieces that wait for the disk, however small.
const MAX_QUEUED_PIECES: usize = 1024;

/// State of the response.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    /// Nothing yet.
    Unknown,
    /// It is being stored.
    Known(Arc<StoredHead>),
    /// It is not stored: each request goes on alone.
    Alone,
    /// The stored response was confirmed or is gone: look again.
    Repeat,
    /// There was no response.
    Failed,
}

/// The head of a response that is being stored.
#[derive(Debug)]
pub(crate) struct StoredHead {
    pub(crate) stored: Arc<Stored>,
    /// The announced length.
    pub(crate) length: Option<u64>,
    /// True if other requests may have it.
    pub(crate) is_shareable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Aborted,
}

#[derive(Debug)]
struct State {
    head: Head,
    limit: u64,
    file: Option<Arc<File>>,
    written: u64,
    received: u64,
    /// From `base` on, which is `written` while it is stored.
    pieces: VecDeque<Arc<[u8]>>,
    base: u64,
    /// Positions of readers, by their numbers. The filler's own client is included from the start: it has number 0.
    positions: BTreeMap<u64, u64>,
    next_reader: u64,
    end: Option<End>,
    /// True if it is still to be stored.
    is_stored: bool,
    is_queued: bool,
    progress_at: Instant,
    readers: Vec<Waker>,
    filler: Option<Waker>,
}

/// One response on its way.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) key: Key,
    pub(crate) id: FileId,
    pending: u64,
    is_purged: AtomicBool,
    /// Requests that wait for its head or have not looked at it yet.
    followers: AtomicUsize,
    state: Lock<State>,
}

/// Next disk operation for a fill.
pub(crate) enum Next {
    /// Write these from here.
    Write(u64, Vec<Arc<[u8]>>),
    /// All is written: make an object of it.
    Commit(Arc<StoredHead>),
    /// Nothing now.
    Nothing,
    /// Remove what was written.
    Discard,
}

/// Result of a read for a reader.
pub(crate) enum Read {
    /// In memory, from this position of the piece on.
    Piece(Arc<[u8]>, usize),
    /// They are in the file.
    File(Arc<File>, u64),
    /// There are no more.
    End,
    /// There are more, but they will not come.
    Aborted,
    /// The waker is called.
    Wait,
}

impl State {
    /// Returns true if content that is no longer stored still goes to readers.
    fn is_fed(&self) -> bool {
        !self.is_stored
            && !self.positions.is_empty()
            && self.end != Some(End::Aborted)
            && matches!(self.head, Head::Known(_))
    }

    /// Returns the position that the slowest reader needs next.
    fn needed(&self) -> u64 {
        self.positions.values().min().copied().unwrap_or(self.received)
    }

    /// Forgets what every reader has.
    fn trim(&mut self) {
        if self.is_stored {
            return;
        }
        let needed = if self.is_fed() { self.needed() } else { u64::MAX };
        while let Some(piece) = self.pieces.front().filter(|piece| self.base + piece.len() as u64 <= needed) {
            self.base += piece.len() as u64;
            self.pieces.pop_front();
        }
    }
}

impl Fill {
    pub(crate) fn new(key: Key, id: FileId, pending: usize) -> Self {
        let state = State {
            head: Head::Unknown,
            limit: u64::MAX,
            file: None,
            written: 0,
            received: 0,
            pieces: VecDeque::new(),
            base: 0,
            positions: BTreeMap::from([(0, 0)]),
            next_reader: 0,
            end: None,
            is_stored: true,
            is_queued: false,
            progress_at: Instant::now(),
            readers: Vec::new(),
            filler: None,
        };
        Self {
            key,
            id,
            pending: pending as u64,
            is_purged: AtomicBool::new(false),
            followers: AtomicUsize::new(0),
            state: Lock::new(state),
        }
    }

    pub(crate) fn follow(&self) {
        self.followers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unfollow(&self) {
        self.followers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn has_followers(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Announces the head; only the first time counts.
    pub(crate) fn set_head(&self, head: Head, limit: u64) {
        let mut state = locked(&self.state);
        if matches!(state.head, Head::Unknown) {
            state.is_stored &= matches!(head, Head::Known(_));
            state.head = head;
            state.limit = limit;
        }
        wake(state);
    }

    /// The head; while it is unknown, `waker` is called when it is known.
    pub(crate) fn poll_head(&self, waker: &Waker) -> Poll<Head> {
        let mut state = locked(&self.state);
        if matches!(state.head, Head::Unknown) {
            register(&mut state.readers, waker);
            return Poll::Pending;
        }
        Poll::Ready(state.head.clone())
    }

    /// Head and size, if all content was received and it will be an object soon.
    pub(crate) fn complete(&self) -> Option<(Arc<StoredHead>, u64)> {
        let state = locked(&self.state);
        match &state.head {
            Head::Known(known)
                if state.end == Some(End::Complete) && state.is_stored && !self.is_purged() =>
            {
                Some((Arc::clone(known), state.received))
            }
            _ => None,
        }
    }

    pub(crate) fn head(&self) -> Head {
        locked(&self.state).head.clone()
    }

    /// Takes a piece: whether it is still being stored, and whether the disk has something new to do. Waits where too much waits for the disk.
    pub(crate) fn poll_put(&self, piece: &[u8], waker: &Waker) -> Poll<(bool, bool)> {
        let mut state = locked(&self.state);
        let received = state.received + piece.len() as u64;
        let announced = if let Head::Known(known) = &state.head { known.length } else { Some(0) };
        if announced.is_some_and(|length| received > length) {
            state.end = Some(End::Aborted);
        }
        if state.is_stored && (received > state.limit || state.end == Some(End::Aborted)) {
            drop(state);
            self.give_up();
            state = locked(&self.state);
        }
        if !state.is_stored && !state.is_fed() {
            return Poll::Ready((false, true));
        }
        let kept = if state.is_stored { state.written } else { state.needed().max(state.base) };
        if state.received - kept >= self.pending || state.pieces.len() >= MAX_QUEUED_PIECES {
            state.filler = Some(waker.clone());
            return Poll::Pending;
        }
        if piece.is_empty() {
            return Poll::Ready((state.is_stored, false));
        }
        if state.pieces.is_empty() {
            state.progress_at = Instant::now();
        }
        state.received = received;
        state.pieces.push_back(piece.into());
        let is_stored = state.is_stored;
        let is_new = is_stored && !std::mem::replace(&mut state.is_queued, true);
        wake(state);
        Poll::Ready((is_stored, is_new))
    }

    /// Returns true if content that is no longer stored still goes to readers.
    pub(crate) fn is_fed(&self) -> bool {
        locked(&self.state).is_fed()
    }

    /// A reader begins at this offset: its number. The first one is the filler's own client.
    pub(crate) fn join(&self, offset: u64) -> u64 {
        let mut state = locked(&self.state);
        let number = state.next_reader;
        state.next_reader += 1;
        state.positions.insert(number, offset);
        number
    }

    /// A reader is at this offset now; `None`: it reads no more.
    pub(crate) fn moved(&self, number: u64, offset: Option<u64>) {
        let mut state = locked(&self.state);
        match offset {
            Some(offset) => state.positions.insert(number, offset),
            None => state.positions.remove(&number),
        };
        if state.is_stored {
            return;
        }
        state.trim();
        let filler = state.filler.take();
        drop(state);
        filler.into_iter().for_each(Waker::wake);
    }

    /// All content was put, or none will come any more: whether the object will be stored, and whether the disk has something new to do.
    pub(crate) fn end(&self, is_complete: bool) -> (bool, bool) {
        let mut state = locked(&self.state);
        let length = match &state.head {
            Head::Known(known) => known.length.unwrap_or(state.received),
            _ => u64::MAX,
        };
        if matches!(state.head, Head::Unknown) {
            state.head = Head::Failed;
        }
        let is_fed = state.is_fed();
        let is_whole = is_complete && length == state.received && (state.is_stored || is_fed);
        if state.end.is_none() {
            state.end = Some(if is_whole { End::Complete } else { End::Aborted });
        }
        let is_complete = is_whole && state.is_stored;
        if !is_whole {
            state.is_stored = false;
            state.pieces.clear();
        }
        let is_new = !std::mem::replace(&mut state.is_queued, true);
        wake(state);
        (is_complete, is_new)
    }

    /// It will not be stored; the readers that it has get all of it, from memory. Returns true if it was to be stored
    /// before.
    pub(crate) fn give_up(&self) -> bool {
        let mut state = locked(&self.state);
        if matches!(state.head, Head::Unknown) {
            state.head = Head::Alone;
        }
        let was_stored = std::mem::replace(&mut state.is_stored, false);
        if was_stored {
            state.base = state.written;
        }
        state.trim();
        wake(state);
        was_stored
    }

    /// Forbids to store it, because what it is made of was purged while it was fetched.
    pub(crate) fn purge(&self) {
        self.is_purged.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_purged(&self) -> bool {
        self.is_purged.load(Ordering::SeqCst)
    }

    /// Returns true if its content has waited longer than this for the disk.
    pub(crate) fn is_stuck(&self, timeout: Duration) -> bool {
        let state = locked(&self.state);
        state.is_stored && !state.pieces.is_empty() && state.progress_at.elapsed() > timeout
    }

    /// Returns the next disk operation.
    pub(crate) fn next(&self) -> Next {
        let mut state = locked(&self.state);
        if !state.is_stored {
            return Next::Discard;
        }
        if !state.pieces.is_empty() {
            return Next::Write(state.written, state.pieces.iter().cloned().collect());
        }
        match (&state.head, state.end) {
            (Head::Known(known), Some(End::Complete)) => Next::Commit(Arc::clone(known)),
            _ => {
                state.is_queued = false;
                Next::Nothing
            }
        }
    }

    pub(crate) fn set_file(&self, file: &Arc<File>) {
        locked(&self.state).file = Some(Arc::clone(file));
    }

    pub(crate) fn has_file(&self) -> bool {
        locked(&self.state).file.is_some()
    }

    /// The first `pieces` pieces are in the file.
    pub(crate) fn set_written(&self, pieces: usize) {
        let mut state = locked(&self.state);
        // They are in memory for the readers, which need no file.
        if !state.is_stored {
            return;
        }
        for _ in 0..pieces {
            if let Some(piece) = state.pieces.pop_front() {
                state.written += piece.len() as u64;
                state.base = state.written;
            }
        }
        state.progress_at = Instant::now();
        wake(state);
    }

    /// Reads from `offset` on.
    pub(crate) fn read(&self, offset: u64, waker: &Waker) -> Read {
        let mut state = locked(&self.state);
        if let Some(file) = state.file.as_ref().filter(|_| offset < state.written) {
            return Read::File(Arc::clone(file), state.written - offset);
        }
        let mut at = state.base;
        if offset < at {
            return Read::Aborted;
        }
        for piece in &state.pieces {
            let start = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
            at += piece.len() as u64;
            if start < piece.len() {
                return Read::Piece(Arc::clone(piece), start);
            }
        }
        match state.end {
            Some(End::Complete) => Read::End,
            Some(End::Aborted) => Read::Aborted,
            None => {
                register(&mut state.readers, waker);
                Read::Wait
            }
        }
    }
}

fn register(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

/// Wakes the filler and all readers that wait, without the lock.
fn wake(mut state: std::sync::MutexGuard<'_, State>) {
    let wakers = std::mem::take(&mut state.readers);
    let filler = state.filler.take();
    drop(state);
    wakers.into_iter().chain(filler).for_each(Waker::wake);
}
