//! Tests for faults of a histogram: a sum that is not the whole, a text that is not one.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

use super::*;

fn of(samples: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    samples.iter().for_each(|nanos| histogram.record_nanos(*nanos));
    histogram
}

/// Durations as they come: every power of ten is as likely, and beyond both bounds.
fn samples() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((0_u32..14, 1_u64..10).prop_map(|(power, digit)| digit * 10_u64.pow(power)), 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merged_is_what_one_fed_with_both_is(first in samples(), second in samples()) {
        let mut merged = of(&first);
        merged.merge(&of(&second));
        let both = of(&[first, second].concat());
        prop_assert_eq!(&merged, &both);
        prop_assert_eq!(merged.buckets(), both.buckets());
        prop_assert_eq!(merged.min_nanos(), both.min_nanos());
        prop_assert_eq!(merged.max_nanos(), both.max_nanos());
        prop_assert_eq!(merged.quantile_nanos(0.99), both.quantile_nanos(0.99));
    }

    #[test]
    fn what_is_encoded_is_decoded(samples in samples()) {
        let histogram = of(&samples);
        let read = Histogram::decode(&histogram.encode()).unwrap();
        prop_assert_eq!(&read, &histogram);
        prop_assert_eq!(read.count(), samples.len() as u64);
        prop_assert_eq!(read.max_nanos(), histogram.max_nanos());
        prop_assert_eq!(read.min_nanos(), histogram.min_nanos());
    }

    #[test]
    fn a_truncated_one_is_an_error(samples in samples(), cut in 1_usize..60) {
        let mut bytes = BASE64.decode(of(&samples).encode().as_bytes()).unwrap();
        bytes.truncate(bytes.len().saturating_sub(cut));
        prop_assert!(Histogram::decode(&BASE64.encode(&bytes)).is_err());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,80}") {
        let _ = Histogram::decode(&text);
        let _ = Histogram::decode(&BASE64.encode(&bytes));
        let _ = Histogram::decode(&packed(&plain(bytes.len() as u32, 100, 3_600_000_000_000, 3, &bytes)));
    }
}

/// An inflated form with any header.
fn plain(length: u32, lowest: u64, highest: u64, digits: u32, numbers: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0x1c84_9313_u32.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(digits.to_be_bytes());
    bytes.extend(lowest.to_be_bytes());
    bytes.extend(highest.to_be_bytes());
    bytes.extend(1_f64.to_be_bytes());
    bytes.extend(numbers);
    bytes
}

fn packed(plain: &[u8]) -> String {
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
    deflate.write_all(plain).unwrap();
    let deflated = deflate.finish().unwrap();
    let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
    bytes.extend((deflated.len() as u32).to_be_bytes());
    bytes.extend(deflated);
    BASE64.encode(&bytes)
}

fn refused(text: &str) -> String {
    Histogram::decode(text).expect_err("it was read").to_string()
}

#[test]
fn a_good_one_made_by_hand_is_read() {
    // The third counter holds two samples: 64 ns units, so 128 to 191 ns. ZigZag of -2 is 3, of 2 is 4.
    let read = Histogram::decode(&packed(&plain(2, 100, 3_600_000_000_000, 3, &[3, 4]))).unwrap();
    assert_eq!(read.buckets(), [(191, 2)]);
}

#[test]
fn an_announced_length_buys_no_memory() {
    let text = packed(&plain(u32::MAX, 100, 3_600_000_000_000, 3, &[2]));
    assert!(
        refused(&text).contains("4294967295 bytes of counts are announced and 1 are there"),
        "{}",
        refused(&text)
    );
}

#[test]
fn announced_bounds_buy_no_memory() {
    assert!(
        refused(&packed(&plain(1, 1, u64::MAX, 5, &[2]))).contains("expected 100 to 3600000000000 ns with 3")
    );
}

#[test]
fn a_bomb_is_left_before_it_is_big() {
    let zeros = vec![0; 64 << 20];
    assert!(refused(&packed(&zeros)).contains("when inflated"));
}

#[test]
fn a_number_without_a_negative_is_an_error() {
    // i64::MIN: all bits set in nine bytes.
    assert!(refused(&packed(&plain(9, 100, 3_600_000_000_000, 3, &[0xff; 9]))).contains("counters"));
}

#[test]
fn more_samples_than_can_be_added_up_are_an_error() {
    // i64::MAX.
    let text = packed(&plain(9, 100, 3_600_000_000_000, 3, &[0xfe, 255, 255, 255, 255, 255, 255, 255, 255]));
    assert!(refused(&text).contains("samples"));
}

#[test]
fn more_counters_than_there_are_is_an_error() {
    let all = super::wire::counters();
    assert_eq!(all, Histogram::new().open().distinct_values(), "the library's array has another length");
    assert!(refused(&packed(&plain(30_001, 100, 3_600_000_000_000, 3, &[2; 30_001]))).contains("counters"));
}

#[test]
fn other_peoples_forms_are_named() {
    assert!(refused("").contains("ends within its header"));
    assert!(refused("????").contains("not base64"));
    assert!(refused(&BASE64.encode(b"PNG and so on")).contains("expected 0x1c849314"));
}

#[test]
fn empty_ones_are_equal_and_cost_nothing() {
    let mut cleared = of(&[5_000]);
    cleared.clear();
    assert_eq!(cleared, Histogram::new());
    assert_ne!(of(&[5_000]), Histogram::new());
    let mut target = Histogram::new();
    target.merge(&cleared);
    assert!(matches!(target.0, Storage::Nothing), "merging nothing took memory");
    assert_eq!(Histogram::decode(&cleared.encode()).unwrap(), cleared);
}

#[test]
fn what_is_out_of_bounds_is_counted_at_the_bound() {
    let histogram = of(&[u64::MAX, 0]);
    assert_eq!(histogram.count(), 2);
    assert!(histogram.max_nanos() >= HIGHEST && histogram.max_nanos() < HIGHEST / 1_000 * 1_001);
}

#[test]
fn percentiles_are_within_a_thousandth() {
    let histogram = of(&(1..=100_000).map(|step| step * 1_000).collect::<Vec<_>>());
    for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let (found, true_value) = (histogram.quantile_nanos(quantile) as f64, quantile * 1e8);
        assert!((found / true_value - 1.0).abs() < 0.001, "{quantile}: {found}, truly {true_value}");
    }
}

#[test]
fn a_packed_histogram_is_the_same_and_goes_on() {
    let mut histogram = Histogram::new();
    for nanos in 0..10_000 {
        histogram.record_nanos(nanos * 977);
    }
    let open = histogram.clone();
    histogram.pack();
    assert_eq!(histogram, open);
    assert_eq!(histogram.buckets(), open.buckets());
    assert_eq!((histogram.count(), histogram.max_nanos()), (open.count(), open.max_nanos()));
    histogram.record_nanos(5);
    assert_eq!(histogram.count(), 10_001);
    assert_ne!(histogram, open);
    let mut empty = Histogram::new();
    empty.record_nanos(1);
    empty.clear();
    empty.pack();
    assert_eq!(empty, Histogram::new());
}
