//! Effects of a line on packets, over a simulated clock.

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn ms(ms: u64) -> Moment {
    Moment::from_nanos(ms * MS)
}

fn line(shape: Shape) -> Line<u64> {
    Line::new(shape, 7, 0)
}

/// Everything that arrives, in its order, each at the moment at which it is due.
fn drain(line: &mut Line<u64>) -> Vec<Arrival<u64>> {
    let mut arrived = Vec::new();
    while line.next() != Moment::NEVER {
        arrived.push(line.arrive(line.next()).expect("it is due"));
    }
    arrived
}

#[test]
fn a_packet_arrives_after_the_delay_and_not_before() {
    let mut line = line(Shape { delay: Duration::from_millis(57), ..Shape::default() });
    assert_eq!(line.enter(ms(10), 60, 1), Entered::Due(ms(67)));
    assert_eq!((line.next(), line.arrive(Moment::from_nanos(67 * MS - 1))), (ms(67), None));
    let arrival = line.arrive(ms(70)).expect("it is due");
    assert_eq!(arrival, Arrival { packet: 1, entered: ms(10), due: ms(67), overtaken: false });
    assert_eq!((line.next(), line.under_way()), (Moment::NEVER, 0));
}

#[test]
fn a_rate_sends_one_packet_after_the_other() {
    // 1,500 bytes at 12 Mbit/s take one millisecond.
    let mut line =
        line(Shape { delay: Duration::from_millis(5), rate: Some(12_000_000), ..Shape::default() });
    for (packet, due) in [(0, 6), (1, 7), (2, 8)] {
        assert_eq!(line.enter(ms(0), 1500, packet), Entered::Due(ms(due)));
    }
    // Idle time is not saved up.
    assert_eq!(line.enter(ms(50), 1500, 3), Entered::Due(ms(56)));
    assert_eq!(line.counts().longest_queue, 2);
}

#[test]
fn a_full_queue_drops_at_its_end_by_packets_or_by_bytes() {
    for (queue, kept) in [(Bound::Packets(2), 3), (Bound::Bytes(3_000), 3), (Bound::Bytes(2_999), 2)] {
        let mut line = line(Shape { rate: Some(12_000_000), queue, ..Shape::default() });
        // One is being sent, the others wait or are dropped.
        let outcomes: Vec<_> = (0..5).map(|packet| line.enter(ms(0), 1500, packet)).collect();
        let due = outcomes.iter().filter(|outcome| matches!(outcome, Entered::Due(_))).count();
        assert_eq!((due, line.counts().dropped), (kept, 5 - kept as u64), "{queue:?}");
        // When the first has been sent, one that waited is being sent, and there is room again.
        assert!(matches!(line.enter(ms(1), 1500, 9), Entered::Due(_)), "{queue:?}");
    }
}

#[test]
fn a_queue_has_no_meaning_without_a_rate() {
    let mut line = line(Shape { queue: Bound::Packets(0), ..Shape::default() });
    assert!((0..100).all(|packet| line.enter(ms(0), 1500, packet) == Entered::Due(ms(0))));
}

#[test]
fn what_is_under_way_is_bounded() {
    let mut line = line(Shape { delay: Duration::from_secs(9), ..Shape::default() });
    for packet in 0..UNDER_WAY as u64 {
        assert!(matches!(line.enter(ms(0), 60, packet), Entered::Due(_)));
    }
    assert_eq!(line.enter(ms(0), 60, 0), Entered::Dropped);
    assert_eq!(line.under_way(), UNDER_WAY);
}

#[test]
fn loss_and_reordering_happen_as_often_as_asked() {
    let shape = Shape {
        delay: Duration::from_millis(20),
        loss: 0.1,
        reorder: 0.05,
        reorder_by: Duration::from_millis(3),
        ..Shape::default()
    };
    let mut line = line(shape);
    for packet in 0..10_000 {
        line.enter(ms(packet), 100, packet);
    }
    let arrived = drain(&mut line);
    let counts = line.counts();
    assert_eq!(counts.arrived, arrived.len() as u64);
    assert_eq!((counts.entered, counts.arrived + counts.lost), (10_000, 10_000));
    assert!((900..1100).contains(&counts.lost), "{counts:?}");
    assert!((380..520).contains(&counts.reordered), "{counts:?}");
    assert_eq!(counts.reordered, arrived.iter().filter(|arrival| arrival.overtaken).count() as u64);
}

#[test]
fn jitter_varies_to_both_sides_within_its_bounds() {
    let shape =
        Shape { delay: Duration::from_millis(20), jitter: Duration::from_millis(5), ..Shape::default() };
    let mut line = line(shape);
    for packet in 0..1_000 {
        line.enter(ms(packet * 20), 100, packet);
    }
    let took: Vec<_> =
        drain(&mut line).iter().map(|arrival| arrival.due.since(arrival.entered).as_micros()).collect();
    assert!(took.iter().all(|took| (15_000..=25_000).contains(took)));
    let (below, above) =
        (took.iter().filter(|took| **took < 16_000), took.iter().filter(|took| **took > 24_000));
    assert!(below.count() > 50 && above.count() > 50);
}

#[test]
fn changing_one_chance_leaves_the_others_as_they_were() {
    let lost = |jitter| {
        let mut line = line(Shape { loss: 0.3, jitter: Duration::from_millis(jitter), ..Shape::default() });
        (0..200).map(|packet| line.enter(ms(packet), 60, packet) == Entered::Lost).collect::<Vec<_>>()
    };
    assert_eq!(lost(0), lost(5));
}

fn shapes() -> impl Strategy<Value = Shape> {
    let queue = prop_oneof![(0_usize..50).prop_map(Bound::Packets), (0_u64..50_000).prop_map(Bound::Bytes)];
    let rate = prop_oneof![Just(None), (1_u64..1_000_000_000).prop_map(Some)];
    (0_u64..300, 0_u64..400, 0.0..1.0, 0.0..1.0, 0_u64..20, rate, queue).prop_map(
        |(delay, jitter, loss, reorder, by, rate, queue)| Shape {
            delay: Duration::from_millis(delay),
            jitter: Duration::from_millis(jitter),
            loss,
            reorder,
            reorder_by: Duration::from_millis(by),
            rate,
            queue,
        },
    )
}

proptest! {
    #[test]
    fn every_packet_arrives_once_or_is_accounted_for(
        shape in shapes(),
        packets in prop::collection::vec((0_u64..5_000_000, 20_usize..1501), 0..200),
        seed: u64,
    ) {
        let run = || {
            let mut line = Line::new(shape, seed, 1);
            let (mut now, mut arrived) = (Moment::from_nanos(0), Vec::new());
            for (number, (gap, bytes)) in packets.iter().enumerate() {
                now = now + Duration::from_nanos(*gap);
                while let Some(arrival) = line.arrive(now) {
                    arrived.push(arrival);
                }
                if let Entered::Due(due) = line.enter(now, *bytes, number as u64) {
                    assert!(due >= now, "nothing arrives before it was sent");
                }
            }
            arrived.extend(drain(&mut line));
            (arrived, line.counts())
        };
        let (arrived, counts) = run();
        prop_assert_eq!(counts.entered, counts.arrived + counts.lost + counts.dropped);
        prop_assert_eq!(counts.entered, packets.len() as u64);
        let mut numbers: Vec<_> = arrived.iter().map(|arrival| arrival.packet).collect();
        let in_order = numbers.is_sorted();
        if shape.reorder == 0.0 {
            prop_assert!(in_order, "only what is asked for changes the order");
        }
        prop_assert_eq!(in_order, counts.reordered == 0);
        prop_assert!(arrived.is_sorted_by_key(|arrival| arrival.due));
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), arrived.len(), "no packet arrives twice");
        // The same seed makes the same run.
        prop_assert_eq!(run(), (arrived, counts));
    }

    #[test]
    fn a_rate_is_never_exceeded(
        rate in 10_000_u64..100_000_000,
        packets in prop::collection::vec((0_u64..2_000_000, 20_usize..1501), 1..200),
    ) {
        let mut line = Line::new(Shape { rate: Some(rate), ..Shape::default() }, 0, 0);
        let mut now = Moment::from_nanos(0);
        for (gap, bytes) in packets {
            now = now + Duration::from_nanos(gap);
            line.enter(now, bytes, bytes as u64);
        }
        let arrived = drain(&mut line);
        // Each packet arrives no sooner after the one before it than its own bytes take.
        for pair in arrived.windows(2) {
            let least = u128::from(pair[1].packet) * 8_000_000_000 / u128::from(rate);
            prop_assert!(pair[1].due.since(pair[0].due).as_nanos() >= least);
        }
    }
}
