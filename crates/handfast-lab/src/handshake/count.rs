//! Counting: packets each way, and round trips, from what was seen at both ends of the link.
//!
//! Each packet has a level (a logical clock: Lamport, 1978): one that the client sends has as many round trips behind it as the
//! highest level that it has received; one that the server sends has one more than the highest that the server has received. So a
//! round trip is counted where a side could not go on without an answer, however long a side computes and
//! however the answer is cut into packets. An acknowledgement alone is such an answer only for what leaves at once after it: data that
//! the congestion window held back, which the kernel sends by itself.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_wire::packet::segment;

use crate::forwarder::Sighting;

/// The client's end of the one link.
const CLIENT: usize = 0;

/// Longest time from an acknowledgement to a packet that waited for it; a later packet did not wait.
const AT_ONCE: Duration = Duration::from_millis(5);

/// A packet of a connection as its client sent or received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Time of the packet.
    pub(super) at: Moment,
    /// True if it came from the server.
    pub(super) back: bool,
    /// True if it is more than an acknowledgement: SYN, or data.
    pub(super) has_content: bool,
    /// Bytes of data.
    pub(super) data: u32,
    /// Round trips behind it.
    pub(super) level: u64,
}

/// The packets of some connections, as their client saw them.
#[derive(Clone, Debug)]
pub(super) struct Packets {
    connections: Vec<Vec<Mark>>,
    rtt: Duration,
}

/// One packet at one end.
struct Event {
    at: Moment,
    at_client: bool,
    received: bool,
    has_content: bool,
    data: u32,
}

impl Packets {
    /// Those of the connections with these addresses of ours, from a moment on.
    pub(super) fn of(
        seen: impl Iterator<Item = Sighting>,
        begun: Moment,
        locals: &[SocketAddr],
        rtt: Duration,
    ) -> Self {
        let mut events: Vec<Vec<Event>> = locals.iter().map(|_| Vec::new()).collect();
        for sighting in seen.filter(|sighting| sighting.at >= begun) {
            let Some(segment) = segment(&sighting.packet) else { continue };
            let at_client = sighting.end == CLIENT;
            let ours = if at_client == sighting.received { segment.to } else { segment.from };
            let Some(number) = locals.iter().position(|local| *local == ours) else { continue };
            events[number].push(Event {
                at: sighting.at,
                at_client,
                received: sighting.received,
                has_content: segment.syn || segment.data > 0,
                data: segment.data,
            });
        }
        Self { connections: events.into_iter().map(marks).collect(), rtt }
    }

    /// Packets each way up to a moment, and what was sent at once in answer: a quarter of a round trip is far more than that needs.
    pub(super) fn until(&self, moment: Moment) -> (u64, u64) {
        let count = |back| self.marks(moment).filter(|mark| mark.back == back).count() as u64;
        (count(false), count(true))
    }

    /// Round trips up to a moment, of connections that are used at the same time.
    pub(super) fn round_trips(&self, moment: Moment) -> u64 {
        self.levels(moment).max().unwrap_or(0)
    }

    /// Round trips up to a moment, of connections that are used one after the other.
    pub(super) fn round_trips_in_turn(&self, moment: Moment) -> u64 {
        self.levels(moment).sum()
    }

    fn levels(&self, moment: Moment) -> impl Iterator<Item = u64> {
        let arrived = move |mark: &&Mark| mark.back && mark.has_content && mark.at <= moment;
        let level = move |marks: &Vec<Mark>| marks.iter().filter(arrived).map(|mark| mark.level).max();
        self.connections.iter().map(move |marks| level(marks).unwrap_or(0))
    }

    /// Packets up to a moment.
    pub(super) fn marks(&self, moment: Moment) -> impl Iterator<Item = &Mark> {
        let end = moment + self.rtt / 4;
        self.connections.iter().flatten().filter(move |mark| mark.at <= end)
    }
}

/// Gives each packet of a connection its level. The link neither loses nor reorders here: what was sent first arrives first.
fn marks(mut events: Vec<Event>) -> Vec<Mark> {
    events.sort_by_key(|event| event.at);
    let (mut at_client, mut at_server) = (0, 0);
    // The last acknowledgement alone that the server received: its level, and when.
    let mut acknowledged = (0, Moment::from_nanos(0));
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    let mut marks = Vec::new();
    for Event { at, at_client: here, received, has_content, data } in events {
        let level = match (here, received) {
            (true, false) => {
                there.push_back((at_client, has_content));
                at_client
            }
            (false, true) => {
                match there.pop_front() {
                    Some((level, true)) => at_server = at_server.max(level),
                    Some((level, false)) => acknowledged = (level, at),
                    None => {}
                }
                continue;
            }
            (false, false) => {
                let held_back = at.since(acknowledged.1) < AT_ONCE;
                let caused = if held_back { at_server.max(acknowledged.0) } else { at_server };
                back.push_back(caused + 1);
                continue;
            }
            (true, true) => {
                let level = back.pop_front().unwrap_or(0);
                at_client = at_client.max(level);
                level
            }
        };
        marks.push(Mark { at, back: received, has_content, data, level });
    }
    marks
}

#[cfg(test)]
mod tests {
    use handfast_wire::packet::tcp;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A packet at one end; those from the server have their addresses the other way round.
    fn seen(ms: u64, end: usize, received: bool, flags: u8, data: &[u8]) -> Sighting {
        let mut packet = tcp(local(), "10.77.0.2:443".parse().unwrap(), flags, 0, 0, data);
        if received == (end == CLIENT) {
            packet[12..20].rotate_left(4);
            packet[20..24].rotate_left(2);
        }
        Sighting { wire: 0, end, received, at: at(ms), lost: false, packet: packet.into() }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * MS)
    }

    /// A packet that leaves at a moment, over 100 ms there and back.
    fn there(ms: u64, flags: u8, data: &[u8]) -> [Sighting; 2] {
        [seen(ms, 0, false, flags, data), seen(ms + 50, 1, true, flags, data)]
    }

    fn back(ms: u64, flags: u8, data: &[u8]) -> [Sighting; 2] {
        [seen(ms, 1, false, flags, data), seen(ms + 50, 0, true, flags, data)]
    }

    fn local() -> SocketAddr {
        "10.77.0.1:40000".parse().unwrap()
    }

    fn packets(all: impl IntoIterator<Item = [Sighting; 2]>) -> Packets {
        let all = all.into_iter().flatten();
        Packets::of(all, at(0), &[local()], Duration::from_millis(100))
    }

    /// TLS 1.3 with a chain that needs two flights: SYN, SYN-ACK, hello, ten segments, five more, request, response. The
    /// server stops for `pause` within its first flight.
    fn long_chain(pause: u64) -> Packets {
        let mut all =
            vec![there(0, 0x02, b""), back(50, 0x12, b""), there(100, 0x10, b""), there(101, 0x18, b"hello")];
        all.extend((0..5).map(|_| back(152, 0x10, b"certificate")));
        all.extend((0..5).map(|_| back(153 + pause, 0x10, b"certificate")));
        // One acknowledgement for the first segments, one for all.
        all.extend([there(202, 0x10, b""), there(203 + pause, 0x10, b"")]);
        all.extend((0..5).map(|_| back(255 + pause, 0x10, b"certificate")));
        all.extend([there(307 + pause, 0x18, b"finished, request"), back(360 + pause, 0x18, b"response")]);
        packets(all)
    }

    #[test]
    fn round_trips_are_answers_that_were_waited_for() {
        for pause in [0, 40, 90] {
            let packets = long_chain(pause);
            let trips =
                [99, 100, 201, 204 + pause, 306 + pause, 411 + pause].map(|ms| packets.round_trips(at(ms)));
            assert_eq!(trips, [0, 1, 1, 2, 3, 4], "{pause}");
        }
        let packets = long_chain(0);
        // SYN, SYN-ACK, ACK; the hello goes with them, within a quarter of a round trip.
        assert_eq!(packets.until(at(100)), (3, 1));
        assert_eq!(packets.until(at(411)), (6, 17));
    }

    #[test]
    fn an_acknowledgement_alone_is_no_answer() {
        let all =
            [there(0, 0x02, b""), back(50, 0x12, b""), there(101, 0x18, b"hello"), back(151, 0x10, b"")];
        assert_eq!(packets(all).round_trips(at(500)), 1);
    }

    #[test]
    fn a_server_that_thinks_past_acknowledgements_has_no_round_trip_more() {
        // Tickets are acknowledged while the server still thinks about the request.
        let all = [
            there(0, 0x02, b""),
            back(50, 0x12, b""),
            there(100, 0x18, b"hello"),
            back(150, 0x18, b"hello"),
            there(200, 0x18, b"request"),
            back(251, 0x18, b"tickets"),
            there(341, 0x10, b""),
            back(600, 0x18, b"response"),
        ];
        let packets = packets(all);
        assert_eq!([200, 300, 302, 650].map(|ms| packets.round_trips(at(ms))), [2, 2, 3, 3]);
    }

    #[test]
    fn connections_in_turn_add_up_and_others_do_not() {
        let mut all: Vec<_> = [there(0, 0x02, b""), back(50, 0x12, b"")].into_iter().flatten().collect();
        let mut second = all.clone();
        for sighting in &mut second {
            let mut packet = sighting.packet.to_vec();
            let port = if packet[20..22] == 443_u16.to_be_bytes() { 22 } else { 20 };
            packet[port..port + 2].copy_from_slice(&40_001_u16.to_be_bytes());
            sighting.packet = packet.into();
        }
        all.extend(second);
        let other = "10.77.0.1:40001".parse().unwrap();
        let packets = Packets::of(all.into_iter(), at(0), &[local(), other], Duration::from_millis(100));
        assert_eq!((packets.round_trips(at(100)), packets.round_trips_in_turn(at(100))), (1, 2));
        assert_eq!(packets.until(at(100)), (2, 2));
    }

    #[test]
    fn other_connections_and_times_are_not_counted() {
        let all: Vec<_> = [there(10, 0x02, b""), there(70, 0x02, b"")].into_iter().flatten().collect();
        let rtt = Duration::from_millis(100);
        let late = Packets::of(all.clone().into_iter(), at(65), &[local()], rtt);
        assert_eq!(late.until(Moment::NEVER), (1, 0));
        let foreign = Packets::of(all.into_iter(), at(0), &["10.77.0.1:1".parse().unwrap()], rtt);
        assert_eq!(foreign.until(Moment::NEVER), (0, 0));
    }
}
