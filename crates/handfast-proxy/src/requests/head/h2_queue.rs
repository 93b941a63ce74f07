//! Content that the h2 crate keeps for the streams of one connection until it is sent. The crate bounds it for each stream; here it is counted
//! for all streams of a connection, so that a peer that does not read costs a bounded amount.
//!
//! In: content for a stream. Out: the same as [`Bytes`] that are counted until the crate drops them, and whether a stream may put more.
//!
//! **Bounds**: [`MAX_CONNECTION_BYTES`] for a connection; beyond it [`MIN_STREAM_BYTES`] for each stream that has nothing there: streams
//! whose windows are closed do not stop the others. Bytes that a stream reads before it can queue them are bounded by [`Place::share`].

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use bytes::Bytes;

/// Content of a connection that may wait to be sent.
const MAX_CONNECTION_BYTES: usize = 262_144;
/// Content of one stream that may wait: one read.
const MAX_STREAM_BYTES: usize = 65_536;
/// Content that a stream may put into a full queue, where it has none there.
const MIN_STREAM_BYTES: usize = 8_192;

/// The content of one connection.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    bytes: Arc<AtomicUsize>,
    waiting: RefCell<Vec<(Waker, Arc<AtomicUsize>)>>,
}

impl Queue {
    /// Wakes the streams that may put more. To be called when the crate may have sent something.
    pub(crate) fn wake(&self) {
        let has_room = self.bytes.load(Ordering::Relaxed) <= MAX_CONNECTION_BYTES / 2;
        let may_put = |(_, own): &mut (Waker, Arc<AtomicUsize>)| has_room || own.load(Ordering::Relaxed) == 0;
        let woken: Vec<_> = self.waiting.borrow_mut().extract_if(.., may_put).collect();
        woken.into_iter().for_each(|(waker, _)| waker.wake());
    }
}

/// The place of one stream in the queue of its connection.
#[derive(Debug)]
pub(crate) struct QueuedStream {
    queue: Rc<Queue>,
    own: Arc<AtomicUsize>,
}

impl QueuedStream {
    pub(crate) fn new(queue: &Rc<Queue>) -> Self {
        Self { queue: Rc::clone(queue), own: Arc::default() }
    }

    /// Returns the number of bytes that one stream should move at once: the more streams there are, the fewer.
    pub(crate) fn share(&self) -> usize {
        (MAX_CONNECTION_BYTES / Rc::strong_count(&self.queue)).clamp(MIN_STREAM_BYTES, MAX_STREAM_BYTES)
    }

    /// Returns the number of bytes that may be put now: 0, or one read's worth.
    pub(crate) fn room(&self) -> usize {
        let (own, all) = (self.own.load(Ordering::Relaxed), self.queue.bytes.load(Ordering::Relaxed));
        match own {
            // Not byte by byte, when a stream has nearly all that it may have.
            _ if all < MAX_CONNECTION_BYTES && own <= MAX_STREAM_BYTES - MIN_STREAM_BYTES => {
                MAX_STREAM_BYTES - own
            }
            0 => MIN_STREAM_BYTES,
            _ => 0,
        }
    }

    /// Has the task of `waker` woken when there may be room.
    pub(crate) fn wait(&self, waker: &Waker) {
        let mut waiting = self.queue.waiting.borrow_mut();
        match waiting.iter_mut().find(|(_, own)| Arc::ptr_eq(own, &self.own)) {
            Some((known, _)) => known.clone_from(waker),
            None => waiting.push((waker.clone(), Arc::clone(&self.own))),
        }
    }

    /// Counts content until it is dropped.
    pub(crate) fn count(&self, content: &[u8]) -> Bytes {
        if content.is_empty() {
            return Bytes::new();
        }
        let counters = [Arc::clone(&self.own), Arc::clone(&self.queue.bytes)];
        for counter in &counters {
            counter.fetch_add(content.len(), Ordering::Relaxed);
        }
        Bytes::from_owner(Counted { content: content.into(), counters })
    }
}

impl Drop for QueuedStream {
    fn drop(&mut self) {
        self.queue.waiting.borrow_mut().retain(|(_, own)| !Arc::ptr_eq(own, &self.own));
    }
}

struct Counted {
    content: Box<[u8]>,
    counters: [Arc<AtomicUsize>; 2],
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for counter in &self.counters {
            counter.fetch_sub(self.content.len(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn waker() -> (Arc<Woken>, Waker) {
        let woken = Arc::<Woken>::default();
        (Arc::clone(&woken), Waker::from(woken))
    }

    #[test]
    fn a_connection_has_a_bound_and_a_stream_without_content_is_never_stopped() {
        let queue = Rc::<Queue>::default();
        let streams: Vec<_> = (0..100).map(|_| QueuedStream::new(&queue)).collect();
        let mut kept = Vec::new();
        for _ in 0..10 {
            for stream in &streams {
                // As a source does: what one read gives, however much room there is.
                let content = vec![0; stream.room()];
                kept.push(stream.count(&content));
            }
        }
        let all = queue.bytes.load(Ordering::Relaxed);
        assert!(
            all <= MAX_CONNECTION_BYTES + MAX_STREAM_BYTES + streams.len() * MIN_STREAM_BYTES,
            "{all} bytes"
        );
        assert!(streams.iter().all(|stream| stream.own.load(Ordering::Relaxed) > 0), "each has its least");
        drop(kept);
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_stream_that_waits_is_woken_when_its_content_or_half_of_the_queue_is_sent() {
        let queue = Rc::<Queue>::default();
        let (one, other) = (QueuedStream::new(&queue), QueuedStream::new(&queue));
        let (of_one, of_other) = (one.count(&[0; 1]), other.count(&[0; MAX_CONNECTION_BYTES]));
        assert_eq!((one.room(), other.room()), (0, 0));
        let ((one_woken, one_waker), (other_woken, other_waker)) = (waker(), waker());
        one.wait(&one_waker);
        other.wait(&other_waker);
        queue.wake();
        let woken = || (one_woken.0.load(Ordering::Relaxed), other_woken.0.load(Ordering::Relaxed));
        assert_eq!(woken(), (false, false));
        drop(of_one);
        queue.wake();
        assert_eq!((woken(), one.room()), ((true, false), MIN_STREAM_BYTES));
        drop(of_other);
        queue.wake();
        assert_eq!((woken(), other.room()), ((true, true), MAX_STREAM_BYTES));
        assert!(queue.waiting.borrow().is_empty());
    }

    #[test]
    fn a_stream_that_ends_waits_no_more() {
        let queue = Rc::<Queue>::default();
        let stream = QueuedStream::new(&queue);
        stream.wait(&waker().1);
        drop(stream);
        assert!(queue.waiting.borrow().is_empty());
    }
}
