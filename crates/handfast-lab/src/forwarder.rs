//! The thread that is the network: it reads what hosts send, waits as long as the link says, and delivers it.
//!
//! In: wires, each with two ports and a line for each direction. Out: tallies of what really happened, and a sighting of every
//! packet for a capture. It is late only by what the machine makes it late: it sleeps to the nanosecond, in
//! real time where it may, and counts each packet's age from when the kernel had it.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::sys::link::run_in_real_time;
use handfast_stats::histogram::Histogram;
use handfast_wire::packet::crosses_routers;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;

use crate::emulate::{Counts, Entered, Line, Shape};
use crate::error::LabError;
use crate::port::Port;

/// Packets that are taken from one port before others have their turn.
const IN_A_ROW: usize = 64;
/// The most that the thread is woken early: as long as it may look without sleeping for each packet.
const MAX_LEAD: Duration = Duration::from_micros(200);
/// The largest IP packet.
const MAX_PACKET_BYTES: usize = 65_535;
/// A packet that arrives later than this after it was due is counted as late: the accuracy that the lab promises.
pub const ACCURACY: Duration = Duration::from_micros(500);

/// A link in operation.
#[derive(Debug)]
pub struct Wire {
    /// Its ends.
    pub ports: [Port; 2],
    /// Effects on packets that enter at either end.
    pub shapes: [Shape; 2],
}

/// Counts and times of one direction of a link.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Packets.
    pub counts: Counts,
    /// Packets that were due and that the receiving host had no room for.
    pub undelivered: u64,
    /// Packets that the kernel had no room for before the lab saw them.
    pub missed: u64,
    /// Time from the kernel having a packet to its delivery.
    pub took: Histogram,
    /// Time from when a packet was due to its delivery.
    pub late: Histogram,
    /// Packets later than [`ACCURACY`].
    pub late_packets: u64,
    /// Time at which the first packet entered.
    pub first: Option<Moment>,
    /// Time at which the last one arrived.
    pub last: Option<Moment>,
}

/// One packet at one end of a link.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// Number of the link.
    pub wire: usize,
    /// Index of the end of the link.
    pub end: usize,
    /// True if the host at this end received it; otherwise the host sent it.
    pub received: bool,
    /// Time of the sighting.
    pub at: Moment,
    /// True if the link has lost or dropped it.
    pub lost: bool,
    /// All of it.
    pub packet: Arc<[u8]>,
}

/// Queue of sightings; the forwarder never waits for it.
#[derive(Debug)]
pub struct Watch {
    /// The queue.
    pub sightings: SyncSender<Sighting>,
}

/// Result of the forwarding thread at its end.
#[derive(Debug)]
pub struct Ended {
    /// For each wire, for each direction.
    pub tallies: Vec<[Tally; 2]>,
    /// Sightings that found no room in their queue.
    pub unwatched: u64,
    /// True if it ran in real time.
    pub real_time: bool,
}

/// The thread, from outside.
#[derive(Debug)]
pub struct Forwarder {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<Ended>>,
}

impl Forwarder {
    /// Starts it. Chances come from `seed`.
    ///
    /// **Errors**: no thread, no descriptor.
    pub fn start(wires: Vec<Wire>, seed: u64, watch: Option<Watch>) -> Result<Self, LabError> {
        let act = "start the thread that forwards packets";
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(LabError::network(act))?);
        let stopped = Arc::clone(&stop);
        let work = Work::new(wires, seed, watch);
        let thread = std::thread::Builder::new().name("network".into()).spawn(move || work.run(&stopped));
        Ok(Self { stop, thread: Some(thread.map_err(LabError::network(act))?) })
    }

    /// Ends it; what is still under way is lost.
    pub fn stop(mut self) -> Option<Ended> {
        self.end()
    }

    fn end(&mut self) -> Option<Ended> {
        let thread = self.thread.take()?;
        // Eight bytes always fit a counter that no other process increments.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        match thread.join() {
            Ok(ended) => Some(ended),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.end();
        }
    }
}

/// One direction.
struct Direction {
    wire: usize,
    /// The end at which packets enter.
    from: usize,
    line: Line<Arc<[u8]>>,
    tally: Tally,
}

struct Work {
    ports: Vec<[Port; 2]>,
    directions: Vec<[Direction; 2]>,
    watch: Option<Watch>,
    unwatched: u64,
    /// Recent delay of waking a thread on this machine: the thread is woken earlier by this time.
    lead: Duration,
}

impl Work {
    fn new(wires: Vec<Wire>, seed: u64, watch: Option<Watch>) -> Self {
        let (mut ports, mut directions) = (Vec::new(), Vec::new());
        for (number, wire) in wires.into_iter().enumerate() {
            let direction = |from: usize| Direction {
                wire: number,
                from,
                line: Line::new(wire.shapes[from], seed, (2 * number + from) as u64),
                tally: Tally {
                    counts: Counts::default(),
                    undelivered: 0,
                    missed: 0,
                    took: Histogram::default(),
                    late: Histogram::default(),
                    late_packets: 0,
                    first: None,
                    last: None,
                },
            };
            directions.push([direction(0), direction(1)]);
            ports.push(wire.ports);
        }
        Self { ports, directions, watch, unwatched: 0, lead: Duration::ZERO }
    }

    fn run(mut self, stop: &OwnedFd) -> Ended {
        let real_time = run_in_real_time().is_ok();
        // Ordinary threads are woken up to 50 µs late, to spare power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        loop {
            self.deliver();
            if self.wait(stop) {
                break;
            }
            self.collect(&mut buffer);
        }
        let tallies = self.directions.into_iter().zip(&self.ports).map(|(pair, ports)| {
            pair.map(|direction| Tally {
                counts: direction.line.counts(),
                missed: ports[direction.from].missed(),
                ..direction.tally
            })
        });
        Ended { tallies: tallies.collect(), unwatched: self.unwatched, real_time }
    }

    /// Waits until a packet comes or is due; whether it is time to end.
    fn wait(&mut self, stop: &OwnedFd) -> bool {
        let mut watched = vec![PollFd::new(stop, PollFlags::IN)];
        watched.extend(self.ports.iter().flatten().map(|port| PollFd::new(port, PollFlags::IN)));
        let next = self.directions.iter().flatten().map(|direction| direction.line.next()).min();
        let begun = Moment::now();
        // It wakes up early, by the lead, and then polls for packets without sleeping until the next one is due.
        let left = match next {
            None | Some(Moment::NEVER) => None,
            Some(due) => Some(due.since(begun).saturating_sub(self.lead)),
        };
        let limit = left.and_then(|left| Timespec::try_from(left).ok());
        // Interrupted or not: the work is looked up again.
        let ready = poll(&mut watched, limit.as_ref());
        let ends = !watched[0].revents().is_empty();
        if let (Ok(0), Some(left)) = (ready, left.filter(|left| !left.is_zero())) {
            let over = Moment::now().since(begun).saturating_sub(left);
            self.lead = (self.lead * 7 / 8 + over / 8).min(MAX_LEAD);
        }
        ends
    }

    /// Takes in what hosts have sent.
    fn collect(&mut self, buffer: &mut [u8]) {
        for (ports, directions) in self.ports.iter_mut().zip(&mut self.directions) {
            for (port, direction) in ports.iter_mut().zip(directions) {
                for _ in 0..IN_A_ROW {
                    // An interface that is down has nothing to say.
                    let Ok(Some(received)) = port.receive(buffer) else { break };
                    let Some(packet) = buffer.get(..received.length) else { continue };
                    if !crosses_routers(packet) {
                        continue;
                    }
                    let now = Moment::from_nanos(Moment::now().nanos().saturating_sub(nanos(received.age)));
                    if let Some(seen) = direction.enter(now, packet, self.watch.is_some()) {
                        report_sighting(self.watch.as_ref(), &mut self.unwatched, seen);
                    }
                }
            }
        }
    }

    /// Delivers what is due.
    fn deliver(&mut self) {
        for (ports, directions) in self.ports.iter_mut().zip(&mut self.directions) {
            for direction in directions {
                let to = 1 - direction.from;
                while let Some((at, packet)) = direction.arrive(&mut ports[to]) {
                    if self.watch.is_some() {
                        let wire = direction.wire;
                        let seen = Sighting { wire, end: to, received: true, at, lost: false, packet };
                        report_sighting(self.watch.as_ref(), &mut self.unwatched, seen);
                    }
                }
            }
        }
    }
}

impl Direction {
    fn enter(&mut self, now: Moment, packet: &[u8], watched: bool) -> Option<Sighting> {
        self.tally.first.get_or_insert(now);
        let packet: Arc<[u8]> = packet.into();
        let entered = self.line.enter(now, packet.len(), Arc::clone(&packet));
        let lost = !matches!(entered, Entered::Due(_));
        watched.then_some(Sighting {
            wire: self.wire,
            end: self.from,
            received: false,
            at: now,
            lost,
            packet,
        })
    }

    /// Delivers the next packet that is due: when, and which.
    fn arrive(&mut self, port: &mut Port) -> Option<(Moment, Arc<[u8]>)> {
        let arrival = self.line.arrive(Moment::now())?;
        // Before it is sent: the receiver may act on it before the call here returns.
        let at = Moment::now();
        if port.send(&arrival.packet).is_err() {
            self.tally.undelivered += 1;
        }
        let now = Moment::now();
        let late = now.since(arrival.due);
        self.tally.took.record(now.since(arrival.entered));
        self.tally.late.record(late);
        self.tally.late_packets += u64::from(late > ACCURACY);
        self.tally.last = Some(now);
        Some((at, arrival.packet))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Hands a sighting over, or counts that there was no room: the network does not wait for who watches it.
fn report_sighting(watch: Option<&Watch>, unwatched: &mut u64, seen: Sighting) {
    let Some(watch) = watch else { return };
    if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = watch.sightings.try_send(seen) {
        *unwatched += 1;
    }
}
