//! Deadlines of many tasks: a hierarchical timing wheel.
//!
//! In: "task 7 at 12.004 s". Out: the tasks whose time has come. Arming, moving and disarming cost the same however
//! many deadlines there are, because every entry is a node of a doubly linked list kept in one vector, indexed by
//! task. Deadlines come up to one tick (4 ms) late, never early.
//!
//! After G. Varghese and A. Lauck, "Hashed and Hierarchical Timing Wheels" (1987), scheme 7.

use crate::clock::Moment;

/// Nanoseconds in one tick of the finest wheel.
const TICK: u64 = 4_000_000;
/// Slots of each wheel, as a power of two.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Wheels: 64 × 4 ms, then 64 times coarser each: 256 ms, 16 s, 17 min, 18 h, 49 days.
const LEVELS: usize = 5;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    deadline: u64, // ticks, rounded up
    previous: u32,
    next: u32,
    /// Slot that it hangs in, level × SLOTS + slot; NONE when it is not armed.
    slot: u32,
}

const FREE: Node = Node { deadline: 0, previous: NONE, next: NONE, slot: NONE };

/// The wheel. One for each thread.
pub(crate) struct Wheel {
    nodes: Vec<Node>,
    heads: [u32; SLOTS * LEVELS],
    /// A bit for each slot that is not empty, by level.
    occupied: [u64; LEVELS],
    /// Ticks that have been dealt with: every deadline up to here has come out.
    now: u64,
}

impl Wheel {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            nodes: Vec::new(),
            heads: [NONE; SLOTS * LEVELS],
            occupied: [0; LEVELS],
            now: now.nanos() / TICK,
        }
    }

    /// Sets the deadline of `task`, whatever it was before. [`Moment::NEVER`] disarms.
    pub(crate) fn arm(&mut self, task: u32, deadline: Moment) {
        self.disarm(task);
        if deadline == Moment::NEVER {
            return;
        }
        let index = task as usize;
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, FREE);
        }
        // Rounded up, and never in a slot that was dealt with already: it comes out at the next turn.
        self.nodes[index].deadline = deadline.nanos().div_ceil(TICK).max(self.now + 1);
        self.hang(task);
    }

    /// Forgets the deadline of `task`, if it has one.
    pub(crate) fn disarm(&mut self, task: u32) {
        let Some(node) = self.nodes.get(task as usize).copied() else { return };
        if node.slot == NONE {
            return;
        }
        if node.previous == NONE {
            self.heads[node.slot as usize] = node.next;
            if node.next == NONE {
                self.occupied[node.slot as usize / SLOTS] &= !(1 << (node.slot as usize % SLOTS));
            }
        } else {
            self.nodes[node.previous as usize].next = node.next;
        }
        if node.next != NONE {
            self.nodes[node.next as usize].previous = node.previous;
        }
        self.nodes[task as usize] = FREE;
    }

    /// Moves the wheel to `now` and calls `expired` for every task whose deadline has come; they are disarmed.
    pub(crate) fn advance(&mut self, now: Moment, mut expired: impl FnMut(u32)) {
        let target = now.nanos() / TICK;
        while self.now < target {
            let Some(next) = self.next_tick() else {
                self.now = target;
                return;
            };
            if next > target {
                self.now = target;
                return;
            }
            self.now = next;
            self.turn(&mut expired);
        }
    }

    /// The moment at which [`Wheel::advance`] has something to do: a deadline, or a coarser wheel to unpack.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.next_tick().map(|tick| Moment::from_nanos(tick.saturating_mul(TICK)))
    }

    fn next_tick(&self) -> Option<u64> {
        (0..LEVELS).filter_map(|level| self.next_on(level)).min()
    }

    /// First tick after now at which a slot of `level` that is not empty begins.
    fn next_on(&self, level: usize) -> Option<u64> {
        if self.occupied[level] == 0 {
            return None;
        }
        let shift = SLOT_BITS * level as u32;
        let current = self.now >> shift;
        let slot = (current % SLOTS as u64) as u32;
        // Distance, in slots, to the first one that is not empty after the current slot; a full turn for itself.
        let after = self.occupied[level].rotate_right(slot + 1);
        let distance = u64::from(after.trailing_zeros()) + 1;
        Some((current + distance) << shift)
    }

    /// Deals with the slots that begin at `self.now`: coarse ones are hung again in finer wheels, fine ones expire.
    fn turn(&mut self, expired: &mut impl FnMut(u32)) {
        for level in (0..LEVELS).rev() {
            let shift = SLOT_BITS * level as u32;
            if self.now & ((1 << shift) - 1) != 0 {
                continue;
            }
            let slot = ((self.now >> shift) % SLOTS as u64) as usize;
            let mut task = self.heads[level * SLOTS + slot];
            while task != NONE {
                let next = self.nodes[task as usize].next;
                let deadline = self.nodes[task as usize].deadline;
                self.disarm(task);
                if deadline <= self.now {
                    expired(task);
                } else {
                    self.nodes[task as usize].deadline = deadline;
                    self.hang(task);
                }
                task = next;
            }
        }
    }

    /// Hangs an unlinked node, whose deadline is set, into the slot it belongs to.
    fn hang(&mut self, task: u32) {
        let deadline = self.nodes[task as usize].deadline;
        let distance = deadline - self.now;
        let level = (0..LEVELS).find(|level| distance < 1 << (SLOT_BITS * (*level as u32 + 1)));
        // Beyond the coarsest wheel: hung in its farthest slot and looked at again when that comes.
        let (level, tick) = match level {
            Some(level) => (level, deadline),
            None => (LEVELS - 1, self.now + ((SLOTS as u64 - 1) << (SLOT_BITS * (LEVELS as u32 - 1)))),
        };
        let slot = level * SLOTS + ((tick >> (SLOT_BITS * level as u32)) % SLOTS as u64) as usize;
        let head = self.heads[slot];
        self.nodes[task as usize] = Node { deadline, previous: NONE, next: head, slot: slot as u32 };
        if head != NONE {
            self.nodes[head as usize].previous = task;
        }
        self.heads[slot] = task;
        self.occupied[level] |= 1 << (slot % SLOTS);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A small generator of numbers, so that the test is the same at every run (Marsaglia's xorshift).
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
    }

    /// Arms, moves and disarms at random, next to a plain map that cannot be wrong, over spans from 1 ms to 10 days.
    #[test]
    fn agrees_with_a_sorted_map() {
        let mut numbers = Numbers(42);
        let start = 1_234_567_890_123;
        let mut now = start;
        let mut wheel = Wheel::new(Moment::from_nanos(now));
        let mut map: BTreeMap<u32, u64> = BTreeMap::new();
        for _ in 0..200_000 {
            let task = (numbers.next() % 300) as u32;
            match numbers.next() % 4 {
                0 | 1 => {
                    let span = 1 + numbers.next() % 10_u64.pow(6 + (numbers.next() % 10) as u32);
                    wheel.arm(task, Moment::from_nanos(now + span));
                    map.insert(task, now + span);
                }
                2 => {
                    wheel.disarm(task);
                    map.remove(&task);
                }
                _ => {
                    now += numbers.next() % 10_u64.pow(5 + (numbers.next() % 8) as u32);
                    let mut out = Vec::new();
                    wheel.advance(Moment::from_nanos(now), |task| out.push(task));
                    for task in out {
                        let deadline = map.remove(&task).expect("only armed tasks expire");
                        assert!(deadline <= now, "task {task} came out {} ns early", deadline - now);
                    }
                    let late = map.iter().find(|(_, deadline)| **deadline + TICK <= now / TICK * TICK);
                    assert_eq!(late, None, "at {now}: a deadline was passed over");
                }
            }
        }
        assert!(now > start + 10_u64.pow(13), "the test must turn the coarse wheels too");
    }

    #[test]
    fn next_is_never_after_a_deadline() {
        let mut wheel = Wheel::new(Moment::from_nanos(0));
        assert_eq!(wheel.next(), None);
        wheel.arm(3, Moment::from_nanos(10_000_000_000));
        let mut turns = 0;
        let mut out = Vec::new();
        while out.is_empty() {
            let next = wheel.next().expect("armed");
            assert!(next.nanos() <= 10_000_000_000 + TICK);
            wheel.advance(next, |task| out.push(task));
            turns += 1;
        }
        assert_eq!(out, [3]);
        assert!(turns <= LEVELS, "{turns} wake-ups for one deadline");
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn never_disarms() {
        let mut wheel = Wheel::new(Moment::from_nanos(0));
        wheel.arm(0, Moment::from_nanos(5));
        wheel.arm(0, Moment::NEVER);
        wheel.advance(Moment::from_nanos(1 << 40), |_| panic!("nothing is armed"));
    }
}
