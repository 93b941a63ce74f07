//! One direction of a link, as arithmetic: what is lost, what waits in a queue, when each packet arrives.
//!
//! In: packets with the moment at which they entered. Out: the same packets with the moment at which they are due. It reads no clock
//! and opens nothing; the caller passes the time. All randomness comes from a seed.
//!
//! A packet passes, in this order: **loss**; the **queue** before the narrowest part, which drops what does not fit at its end;
//! the **rate** of that part, one packet after the other; the **delay**, with its jitter. Jitter alone never changes
//! the order, as on a path with queues of first in, first out; only `reorder` does, and holds some packets back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_stats::random::Random;

/// Packets that may be under way in one direction: a bound for our memory. At 50,000 packets a second and a second of delay
/// it is not reached.
const UNDER_WAY: usize = 65_536;

/// Bound of the queue where the rate is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// This number of packets.
    Packets(usize),
    /// This number of bytes of packets.
    Bytes(u64),
}

/// Effects of one direction of a link on packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Time from one end to the other.
    pub delay: Duration,
    /// Variation of the delay, evenly to both sides.
    pub jitter: Duration,
    /// Share of packets that are lost, from 0 to 1.
    pub loss: f64,
    /// Share of packets that are held back, so that others overtake them, from 0 to 1.
    pub reorder: f64,
    /// Time for which these are held back.
    pub reorder_by: Duration,
    /// Bits a second, of IP packets; `None` for no limit.
    pub rate: Option<u64>,
    /// Bound of the queue where there is a rate, besides the packet that is being sent.
    pub queue: Bound,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            rate: None,
            queue: Bound::Packets(100),
        }
    }
}

/// Outcome for a packet that entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It will be due then.
    Due(Moment),
    /// Lost by chance.
    Lost,
    /// The queue was full.
    Dropped,
}

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// The packet.
    pub packet: P,
    /// Time at which it entered.
    pub entered: Moment,
    /// Time at which it was to arrive.
    pub due: Moment,
    /// True if a packet that entered later has arrived already.
    pub overtaken: bool,
}

/// Counts of packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that entered.
    pub entered: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, lost by chance.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Arrived.
    pub arrived: u64,
    /// Bytes that arrived.
    pub arrived_bytes: u64,
    /// Arrived after one that had entered later.
    pub reordered: u64,
    /// The most that waited at one moment where the rate is limited: packets.
    pub longest_queue: u64,
}

/// One direction of a link, with the packets that are under way.
#[derive(Debug)]
pub struct Line<P> {
    shape: Shape,
    loss: Random,
    jitter: Random,
    reorder: Random,
    /// Time at which the narrowest part has sent all that it has.
    free: Moment,
    /// Packets that wait for the narrowest part: the start of each one's transmission, and its bytes.
    waiting: VecDeque<(Moment, u64)>,
    waiting_bytes: u64,
    under_way: BinaryHeap<Reverse<UnderWay<P>>>,
    /// Arrival time of the last packet of those that keep their order.
    last_due: Moment,
    number: u64,
    /// The highest number that has arrived, plus one.
    arrived_up_to: u64,
    counts: Counts,
}

#[derive(Debug)]
struct UnderWay<P> {
    due: Moment,
    number: u64,
    entered: Moment,
    bytes: u64,
    packet: P,
}

impl<P> UnderWay<P> {
    fn rank(&self) -> (Moment, u64) {
        (self.due, self.number)
    }
}

impl<P> PartialEq for UnderWay<P> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<P> Eq for UnderWay<P> {}

impl<P> PartialOrd for UnderWay<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for UnderWay<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<P> Line<P> {
    /// A line without packets. `stream` keeps the chances of several lines of one seed apart; loss, jitter and order each have
    /// theirs, so that changing one of them leaves the others as they were.
    pub fn new(shape: Shape, seed: u64, stream: u64) -> Self {
        let random = |part| Random::stream(seed, stream * 3 + part);
        let start = Moment::from_nanos(0);
        Self {
            shape,
            loss: random(0),
            jitter: random(1),
            reorder: random(2),
            free: start,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            under_way: BinaryHeap::new(),
            last_due: start,
            number: 0,
            arrived_up_to: 0,
            counts: Counts::default(),
        }
    }

    /// Takes a packet in. Moments do not go back from one call to the next.
    pub fn enter(&mut self, now: Moment, bytes: usize, packet: P) -> Entered {
        let bytes = bytes as u64;
        self.counts.entered += 1;
        self.counts.bytes += bytes;
        if self.loss.unit() < self.shape.loss {
            self.counts.lost += 1;
            return Entered::Lost;
        }
        let Some(sent) = self.send(now, bytes) else {
            self.counts.dropped += 1;
            return Entered::Dropped;
        };
        let due = self.arrival(sent);
        self.under_way.push(Reverse(UnderWay { due, number: self.number, entered: now, bytes, packet }));
        self.number += 1;
        Entered::Due(due)
    }

    /// Returns the time at which the narrowest part has sent a packet; `None` when it has no room for it.
    fn send(&mut self, now: Moment, bytes: u64) -> Option<Moment> {
        if self.under_way.len() >= UNDER_WAY {
            return None;
        }
        let Some(rate) = self.shape.rate else { return Some(now) };
        while let Some((begins, bytes)) = self.waiting.front().copied() {
            if begins > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
        let begins = self.free.max(now);
        if begins > now {
            let full = match self.shape.queue {
                Bound::Packets(most) => self.waiting.len() >= most,
                Bound::Bytes(most) => self.waiting_bytes + bytes > most,
            };
            if full {
                return None;
            }
            self.waiting.push_back((begins, bytes));
            self.waiting_bytes += bytes;
            self.counts.longest_queue = self.counts.longest_queue.max(self.waiting.len() as u64);
        }
        let takes = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate.max(1));
        self.free = begins + Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        Some(self.free)
    }

    /// Returns the arrival time of a packet that was sent at this moment.
    fn arrival(&mut self, sent: Moment) -> Moment {
        let Shape { delay, jitter, reorder, reorder_by, .. } = self.shape;
        let varied = (delay + jitter.mul_f64(2.0 * self.jitter.unit())).saturating_sub(jitter);
        let due = sent + varied;
        if self.reorder.unit() < reorder {
            return due.max(self.last_due) + reorder_by;
        }
        self.last_due = due.max(self.last_due);
        self.last_due
    }

    /// Returns the time at which the next packet is due; [`Moment::NEVER`] when none is under way.
    pub fn next(&self) -> Moment {
        self.under_way.peek().map_or(Moment::NEVER, |Reverse(next)| next.due)
    }

    /// Takes the next packet out that is due by now.
    pub fn arrive(&mut self, now: Moment) -> Option<Arrival<P>> {
        if self.next() > now {
            return None;
        }
        let Reverse(UnderWay { due, number, entered, bytes, packet }) = self.under_way.pop()?;
        let overtaken = number < self.arrived_up_to;
        self.arrived_up_to = self.arrived_up_to.max(number + 1);
        self.counts.arrived += 1;
        self.counts.arrived_bytes += bytes;
        self.counts.reordered += u64::from(overtaken);
        Some(Arrival { packet, entered, due, overtaken })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of packets under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

#[cfg(test)]
mod tests;
