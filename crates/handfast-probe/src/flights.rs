//! Groups the bytes of a connection into exchanges: the bytes we sent, and the server's answer to them.
//!
//! In: bytes with their times, and the round trip of the SYN. Out: for each [`Exchange`] how many round trips it took, and how long the
//! server itself was busy. Pure.
//!
//! **Round trips.** An answer to our bytes is one round trip, however late it comes and however it is split into packets: this is
//! counted by order, not by time. If the server's first flight exceeds its initial congestion window, it has to wait for our
//! acknowledgements in the middle of the flight. The order does not show that, but the time does: the rest begins one round trip
//! after the beginning, when our acknowledgement of the first segments arrived. The same time shows a server that writes its flight
//! in two pieces without TCP_NODELAY: its kernel holds a last piece that is smaller than a segment until the piece before it is
//! acknowledged.

pub use handfast_leg::blocking::Seen;

/// A part of an answer without a longer break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Time of its first bytes.
    pub first_ms: f64,
    /// Time of its last bytes.
    pub last_ms: f64,
    /// Number of its bytes.
    pub bytes: usize,
    /// Reason why it did not come with the burst before it.
    pub because: Because,
}

/// Reason for the start of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It is the answer to our bytes.
    Answer,
    /// The server's congestion window was full: it waited for our acknowledgement.
    Window,
    /// The server's kernel held a small piece until our acknowledgement came (Nagle's algorithm, RFC 9293 §3.7.4).
    Nagle,
    /// The server stopped for another reason: it computed, or a packet was lost.
    Pause,
}

/// Bytes of ours, and the answer to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Time at which our bytes were sent.
    pub sent_ms: f64,
    /// The number of our bytes.
    pub sent_bytes: usize,
    /// The answer; empty when none came.
    pub bursts: Vec<Burst>,
    /// Time for which the server was busy before its first byte, without the network's time.
    pub think_ms: f64,
    /// Source of that time.
    pub known: TimeSource,
}

/// Source of a server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// From its kernel's acknowledgement of our bytes to its first byte: the network's time cancels out.
    Acknowledgement,
    /// From our bytes to its first byte, less the round trip of the SYN.
    RoundTrip,
}

impl Exchange {
    /// Bytes of the answer.
    pub fn bytes(&self) -> usize {
        self.bursts.iter().map(|burst| burst.bytes).sum()
    }

    /// Round trips that were waited for.
    pub fn round_trips(&self) -> u32 {
        let counted = |burst: &&Burst| burst.because != Because::Pause;
        self.bursts.iter().filter(counted).count() as u32
    }

    /// Round trips that were waited for up to this moment.
    pub fn round_trips_until(&self, ms: f64) -> u32 {
        let counted = |burst: &&Burst| burst.because != Because::Pause && burst.first_ms <= ms;
        self.bursts.iter().filter(counted).count() as u32
    }

    /// Time of the answer's first byte.
    pub fn first_ms(&self) -> Option<f64> {
        self.bursts.first().map(|burst| burst.first_ms)
    }

    /// Time of the answer's last byte.
    pub fn last_ms(&self) -> Option<f64> {
        self.bursts.last().map(|burst| burst.last_ms)
    }
}

/// The shortest round trip for which breaks can be distinguished from scheduling delays.
const MIN_RTT_MS: f64 = 0.2;
/// A break: more than this share of a round trip.
const BREAK: f64 = 0.5;
/// Bytes that come before this share of a round trip are no answer to our last bytes.
const SOONEST: f64 = 0.7;
/// Bytes that a window held back come after this share of a round trip at the earliest, and at the latest. The later bound leaves room
/// for an acknowledgement that was delayed behind a second segment.
const WINDOW: (f64, f64) = (0.75, 1.6);
/// Bytes that Nagle's algorithm held back come after this share of a round trip at the earliest, and at the latest. A server that happens
/// to compute for one round trip looks the same, so the bounds are narrower.
const NAGLE: (f64, f64) = (0.9, 1.3);
/// Segments of the usual initial window, less one that need not be full (RFC 6928): fewer do not fill it.
const USUAL_WINDOW: usize = 9;
/// An initial window has at least two segments (RFC 5681 §3.1).
const MIN_WINDOW_SEGMENTS: usize = 2;

/// Bytes of a full segment from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSize {
    /// At least: the largest one that was seen.
    pub least: usize,
    /// At most: the largest one that may come. If no segment was full, its size is assumed to be ours.
    pub most: usize,
}

impl SegmentSize {
    /// One that is known.
    pub fn of(bytes: usize) -> Self {
        Self { least: bytes, most: bytes }
    }
}

/// Makes exchanges of what was seen.
pub fn exchanges(seen: &[Seen], rtt_ms: f64, segment: SegmentSize) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut times: Option<Times> = None;
    for one in seen {
        match *one {
            Seen::Sent { at_ms, bytes, sent_ms, acknowledged_ms, .. } => {
                let now = Times { sent: sent_ms.unwrap_or(at_ms), acknowledged: acknowledged_ms };
                match exchanges.last_mut().filter(|exchange| exchange.bursts.is_empty()) {
                    // Sent in two pieces; the last one counts.
                    Some(exchange) => exchange.sent_bytes += bytes,
                    None => exchanges.push(Exchange {
                        sent_ms: at_ms,
                        sent_bytes: bytes,
                        bursts: Vec::new(),
                        think_ms: 0.0,
                        known: TimeSource::RoundTrip,
                    }),
                }
                times = Some(now);
            }
            Seen::Received { at_ms, bytes } => {
                // The server sends first: its bytes belong to the start of the connection.
                let Some(exchange) = exchanges.last_mut() else {
                    exchanges.push(Exchange {
                        sent_ms: 0.0,
                        sent_bytes: 0,
                        bursts: vec![Burst {
                            first_ms: at_ms,
                            last_ms: at_ms,
                            bytes,
                            because: Because::Answer,
                        }],
                        think_ms: 0.0,
                        known: TimeSource::RoundTrip,
                    });
                    continue;
                };
                let Some(sent) = times.filter(|_| exchange.bursts.is_empty()) else {
                    add_bytes(exchange, at_ms, bytes, rtt_ms);
                    continue;
                };
                // Too early for an answer: it was already on its way, and answers our bytes before.
                let too_soon = rtt_ms >= MIN_RTT_MS && at_ms - sent.sent < SOONEST * rtt_ms;
                let count = exchanges.len();
                match exchanges.get_mut(count.wrapping_sub(2)).filter(|_| too_soon) {
                    Some(before) => add_bytes(before, at_ms, bytes, rtt_ms),
                    None => {
                        let exchange = &mut exchanges[count - 1];
                        (exchange.think_ms, exchange.known) = think(sent, at_ms, rtt_ms);
                        add_bytes(exchange, at_ms, bytes, rtt_ms);
                    }
                }
            }
        }
    }
    exchanges.iter_mut().for_each(|exchange| find_causes(&mut exchange.bursts, rtt_ms, segment));
    exchanges
}

/// Bytes of the longest flight that came before the server had to wait, and whether it had to.
pub(crate) fn before_waiting<'t>(exchanges: impl Iterator<Item = &'t Exchange>) -> (usize, bool) {
    let longest = exchanges.max_by_key(|exchange| exchange.bytes());
    let bursts = longest.map_or(&[][..], |exchange| &exchange.bursts);
    let held = bursts.iter().position(|burst| burst.because == Because::Window);
    let bytes = bursts[..held.unwrap_or(bursts.len())].iter().map(|burst| burst.bytes).sum();
    (bytes, held.is_some())
}

#[derive(Clone, Copy)]
struct Times {
    sent: f64,
    acknowledged: Option<f64>,
}

/// Time for which a server was busy before its first byte, and the source of that time.
fn think(times: Times, first_ms: f64, rtt_ms: f64) -> (f64, TimeSource) {
    /// An acknowledgement later than this came with the answer, or was delayed (40 ms and more, RFC 9293 §3.8.6.3).
    const PROMPT_MS: f64 = 2.0;
    /// Closer than this, the acknowledgement came in the same packet as the answer.
    const SAME_MS: f64 = 0.02;
    let by_round_trip = (first_ms - times.sent - rtt_ms).max(0.0);
    match times.acknowledged {
        Some(at) if first_ms - at > SAME_MS && at - times.sent < rtt_ms + PROMPT_MS.max(rtt_ms / 4.0) => {
            (first_ms - at, TimeSource::Acknowledgement)
        }
        _ => (by_round_trip, TimeSource::RoundTrip),
    }
}

/// Takes more of an answer in.
fn add_bytes(exchange: &mut Exchange, at_ms: f64, bytes: usize, rtt_ms: f64) {
    let Some(last) = exchange.bursts.last_mut() else {
        exchange.bursts.push(Burst { first_ms: at_ms, last_ms: at_ms, bytes, because: Because::Answer });
        return;
    };
    let broken = rtt_ms >= MIN_RTT_MS && at_ms - last.last_ms > BREAK * rtt_ms;
    if broken {
        exchange.bursts.push(Burst { first_ms: at_ms, last_ms: at_ms, bytes, because: Because::Pause });
    } else {
        last.last_ms = at_ms.max(last.last_ms);
        last.bytes += bytes;
    }
}

/// Sets for each burst but the first why it did not come with the one before it.
fn find_causes(bursts: &mut [Burst], rtt_ms: f64, segment: SegmentSize) {
    for place in 1..bursts.len() {
        let (last, next) = (bursts[place - 1], bursts[place]);
        let earlier = place.checked_sub(2).map(|before| bursts[before]);
        let after = (next.first_ms - last.first_ms) / rtt_ms;
        // In slow start a window is never smaller than the one before it.
        let filled =
            last.bytes >= earlier.map_or(MIN_WINDOW_SEGMENTS * segment.least, |earlier| earlier.bytes);
        // Linux holds a small piece only while another small one is under way.
        let has_small_end = !last.bytes.is_multiple_of(segment.most);
        let fits_usual_window = earlier.is_none() && last.bytes < USUAL_WINDOW * segment.most;
        let may_be_nagle = next.bytes < segment.most && has_small_end && (!filled || fits_usual_window);
        bursts[place].because = if may_be_nagle && (NAGLE.0..=NAGLE.1).contains(&after) {
            Because::Nagle
        } else if filled && (WINDOW.0..=WINDOW.1).contains(&after) {
            Because::Window
        } else {
            Because::Pause
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: usize = 1448;
    const SEGMENT: SegmentSize = SegmentSize { least: MSS, most: MSS };

    fn sent(at_ms: f64, sent: f64, acknowledged: Option<f64>) -> Seen {
        Seen::Sent { at_ms, bytes: 300, last: 299, sent_ms: Some(sent), acknowledged_ms: acknowledged }
    }

    fn received(at_ms: f64, bytes: usize) -> Seen {
        Seen::Received { at_ms, bytes }
    }

    #[test]
    fn an_answer_is_one_round_trip_however_late_and_in_pieces() {
        let seen =
            [sent(20.0, 20.1, Some(40.2)), received(45.2, 5), received(45.3, 900), received(51.0, 600)];
        let exchanges = exchanges(&seen, 20.0, SEGMENT);
        assert_eq!((exchanges.len(), exchanges[0].round_trips(), exchanges[0].bytes()), (1, 1, 1505));
        assert!((exchanges[0].think_ms - 5.0).abs() < 1e-9, "{exchanges:?}");
        assert_eq!(exchanges[0].known, TimeSource::Acknowledgement);
    }

    #[test]
    fn what_the_window_held_back_is_one_more_and_a_pause_is_none() {
        let full = [sent(20.0, 20.0, None), received(41.0, 14_232), received(61.2, 6_067)];
        let one = exchanges(&full, 20.0, SEGMENT);
        assert_eq!((one[0].round_trips(), one[0].bursts[1].because), (2, Because::Window));
        assert!((one[0].think_ms - 1.0).abs() < 1e-9 && one[0].known == TimeSource::RoundTrip);
        let late = [sent(20.0, 20.0, None), received(41.0, 14_232), received(90.0, 6_067)];
        assert_eq!(
            exchanges(&late, 20.0, SEGMENT)[0].round_trips(),
            1,
            "not when an acknowledgement would let it go"
        );
        let three =
            [sent(20.0, 20.0, None), received(41.0, 14_232), received(61.2, 8_920), received(81.4, 1_600)];
        assert_eq!(
            exchanges(&three, 20.0, SEGMENT)[0].round_trips(),
            2,
            "the second window is larger, and was not full"
        );
        let small = [sent(20.0, 20.0, None), received(41.0, 99), received(61.0, 1_847)];
        assert_eq!(exchanges(&small, 20.0, SEGMENT)[0].round_trips(), 1, "99 bytes fill no window");
        assert_eq!(exchanges(&full, 20.0, SEGMENT)[0].round_trips_until(50.0), 1);
    }

    #[test]
    fn a_small_piece_that_waited_for_our_acknowledgement_is_one_more() {
        let of = |first: usize, rest: &[(f64, usize)]| {
            let rest = rest.iter().map(|(at_ms, bytes)| received(*at_ms, *bytes));
            let seen: Vec<_> =
                [sent(60.0, 60.0, None), received(121.0, first)].into_iter().chain(rest).collect();
            let exchange = exchanges(&seen, 60.0, SEGMENT).remove(0);
            (exchange.round_trips(), exchange.bursts[1].because)
        };
        assert_eq!(of(99, &[(181.5, 847)]), (2, Because::Nagle));
        // A flight of several segments that fits any window.
        assert_eq!(of(4_000, &[(181.5, 847)]), (2, Because::Nagle));
        assert_eq!(of(4_000, &[(181.5, 5), (181.6, 1_448)]), (2, Because::Window));
        // It arrives in pieces; what fills a segment would not have been held.
        assert_eq!(of(99, &[(181.5, 5), (181.6, 800)]), (2, Because::Nagle));
        assert_eq!(of(99, &[(181.5, 5), (181.6, 1_448)]), (1, Because::Pause));
        // The received data filled no segment, so the segment size remains unknown.
        let seen = [sent(60.0, 60.0, None), received(121.0, 133), received(181.5, 690)];
        let exchange = exchanges(&seen, 60.0, SegmentSize { least: 536, most: MSS }).remove(0);
        assert_eq!(exchange.bursts[1].because, Because::Nagle);
        // Neither sooner nor later than our acknowledgement lets it go.
        assert_eq!(of(99, &[(170.0, 847)]), (1, Because::Pause));
        assert_eq!(of(99, &[(221.0, 847)]), (1, Because::Pause));
        // Whole segments alone hold nothing back.
        assert_eq!(of(MSS, &[(181.5, 847)]), (1, Because::Pause));
        assert_eq!(of(10 * MSS, &[(181.5, 847)]), (2, Because::Window));
    }

    #[test]
    fn words_of_ours_in_between_make_another_turn() {
        let seen = [
            sent(20.0, 20.0, Some(40.0)),
            received(40.1, 99),
            sent(40.5, 40.5, Some(60.5)),
            sent(40.6, 40.6, Some(60.6)),
            received(60.7, 800),
            sent(61.0, 61.0, None),
        ];
        let exchanges = exchanges(&seen, 20.0, SEGMENT);
        let trips: Vec<u32> = exchanges.iter().map(Exchange::round_trips).collect();
        assert_eq!(trips, [1, 1, 0]);
        assert_eq!(exchanges[1].sent_bytes, 600, "two pieces, one exchange");
    }

    #[test]
    fn what_was_on_its_way_when_we_spoke_is_no_answer_to_that() {
        // Early data: the response comes with the handshake's flight, around our Finished.
        let seen = [sent(20.0, 20.0, None), received(41.0, 300), sent(41.2, 41.2, None), received(41.5, 900)];
        let exchanges = exchanges(&seen, 20.0, SEGMENT);
        assert_eq!(exchanges.iter().map(Exchange::round_trips).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(exchanges[0].bytes(), 1200);
    }

    #[test]
    fn a_delayed_acknowledgement_does_not_describe_the_server() {
        // It came after 40 ms, the answer after 70: the server thought 50 ms and not 10.
        let seen = [sent(20.0, 20.0, Some(80.0)), received(90.0, 800)];
        let exchange = &exchanges(&seen, 20.0, SEGMENT)[0];
        assert_eq!((exchange.think_ms, exchange.known), (50.0, TimeSource::RoundTrip));
    }

    #[test]
    fn on_loopback_no_break_is_a_round_trip() {
        let seen = [sent(0.1, 0.1, None), received(0.5, 40_000), received(0.56, 40_000), received(9.0, 5)];
        assert_eq!(exchanges(&seen, 0.05, SegmentSize::of(32_768))[0].round_trips(), 1);
    }

    #[test]
    fn a_server_that_sends_first_is_read() {
        let exchanges =
            exchanges(&[received(30.0, 40), sent(31.0, 31.0, None), received(52.0, 90)], 20.0, SEGMENT);
        assert_eq!((exchanges.len(), exchanges[0].sent_bytes, exchanges[1].round_trips()), (2, 0, 1));
    }
}
