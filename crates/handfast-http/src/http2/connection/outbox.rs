//! The outbox: frames that go next, and the order in which streams put content into it.
//!
//! Content of the most urgent streams comes first (RFC 9218 §10). Of several with the same urgency, those that are not incremental are served one after
//! the other, and all others piece by piece in turn.

use super::super::streams::StreamKey;
use super::{Connection, MAX_HEADS_WAITING, OUTBOX};

impl<T: Copy + PartialEq> Connection<T> {
    /// Returns true if frames can be sent now.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty() || !self.scheduled.is_empty()
    }

    /// Takes the frames that are to be sent next, after filling the outbox from the queues of streams. Give its memory back by
    /// [`Connection::reuse`].
    pub fn take_output(&mut self) -> Vec<u8> {
        self.fill();
        self.control = 0;
        // Requests may have waited for it to be sent.
        if self.outbox.len() >= MAX_HEADS_WAITING {
            self.woken.extend(self.waiting.iter());
        }
        std::mem::take(&mut self.outbox)
    }

    /// Takes the memory of an outbox that was sent, unless the connection is idle.
    pub fn reuse(&mut self, mut memory: Vec<u8>) {
        if self.outbox.capacity() == 0 && self.streams.len() > 0 && memory.capacity() <= 2 * OUTBOX {
            memory.clear();
            self.outbox = memory;
        }
    }

    /// The stream may send something; it gets its turn.
    pub(super) fn schedule(&mut self, key: StreamKey) {
        let Some(slot) = self.streams.get_mut(key) else { return };
        if !slot.is_scheduled && slot.can_send() {
            slot.is_scheduled = true;
            self.scheduled.push_back(key);
        }
    }

    /// Moves content from the streams into the outbox, until it is full.
    fn fill(&mut self) {
        while self.outbox.len() < OUTBOX {
            let Some(key) = self.next_scheduled() else { break };
            self.send_piece(key);
        }
        self.wake_those_with_room();
    }

    /// Takes the stream whose turn it is out of the schedule.
    fn next_scheduled(&mut self) -> Option<StreamKey> {
        let has_window = self.send_window > 0;
        let mut best: Option<(usize, (u8, u32))> = None;
        for (at, key) in self.scheduled.iter().enumerate() {
            let Some(slot) = self.streams.get(*key) else {
                best = Some((at, (0, 0)));
                break;
            };
            if !has_window && !slot.queue.is_empty() {
                continue;
            }
            // Those that are not incremental by their age, before those that take turns.
            let order = if slot.priority.is_incremental { u32::MAX } else { slot.id };
            let rank = (slot.priority.urgency, order);
            if best.is_none_or(|(_, of_best)| rank < of_best) {
                best = Some((at, rank));
            }
        }
        let key = self.scheduled.remove(best?.0)?;
        if let Some(slot) = self.streams.get_mut(key) {
            slot.is_scheduled = false;
        }
        Some(key)
    }

    /// Writes one frame of a stream, and gives it another turn if it has more.
    fn send_piece(&mut self, key: StreamKey) {
        let Some(slot) = self.streams.get_mut(key).filter(|slot| slot.can_send()) else { return };
        let mut queue = std::mem::take(&mut slot.queue);
        let end = slot.queued_end.take();
        let count = self.piece(key, queue.len());
        let is_whole = count == queue.len();
        match end {
            Some(end) if is_whole => {
                let is_plain = matches!(end, super::super::streams::End::Plain);
                if count > 0 || is_plain {
                    self.write_data(key, &queue.as_slice()[..count], is_plain);
                }
                if !is_plain {
                    self.write_end(key, end);
                }
            }
            end => {
                if count > 0 {
                    self.write_data(key, &queue.as_slice()[..count], false);
                }
                if let Some(slot) = self.streams.get_mut(key) {
                    slot.queued_end = end;
                }
            }
        }
        queue.consume(count);
        queue.shrink();
        self.queued -= count;
        if let Some(slot) = self.streams.get_mut(key) {
            slot.queue = queue;
            if slot.has_sent_end || std::mem::take(&mut slot.waits_for_room) {
                self.wake(key);
            }
        }
        self.schedule(key);
    }

    /// Owners that wait for room in the outbox or the budget look again.
    fn wake_those_with_room(&mut self) {
        for slot in self.streams.iter_mut() {
            if slot.waits_for_room && slot.queue.is_empty() {
                slot.waits_for_room = false;
                self.woken.extend(slot.owner);
            }
        }
    }
}
