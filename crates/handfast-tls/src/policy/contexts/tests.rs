//! A key whose context comes and goes seals and opens as one that keeps it, whatever moves, fills or sweeps the table.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite::{TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
use rustls::crypto::cipher::OutboundChunks;

use super::super::tls13::of_tls13;
use super::super::trial::WithTrial;
use super::*;

/// Those whose keys have 32 bytes: others can only be made by a key schedule, and meet the library in the sessions' tests.
const SUITES: [&SupportedCipherSuite; 2] = [&TLS13_AES_256_GCM_SHA384, &TLS13_CHACHA20_POLY1305_SHA256];

fn secret(first: u8) -> (AeadKey, Iv) {
    let mut bytes = [7; 32];
    bytes[0] = first;
    (AeadKey::from(bytes), Iv::from([9; 12]))
}

fn key(suite: &'static SupportedCipherSuite, first: u8) -> RecordKey {
    let (key, iv) = secret(first);
    RecordKey::new(WithTrial::of(suite).algorithm(), key, iv)
}

fn sealed(by: &mut dyn MessageEncrypter, text: &[u8], sequence: u64) -> Vec<u8> {
    let message = OutboundPlainMessage {
        typ: ContentType::ApplicationData,
        version: ProtocolVersion::TLSv1_3,
        payload: OutboundChunks::Single(text),
    };
    by.encrypt(message, sequence).expect("a key for it").encode()
}

fn opened(by: &mut dyn MessageDecrypter, record: &[u8], sequence: u64) -> Result<Vec<u8>, Error> {
    let mut payload = record[5..].to_vec();
    let message = InboundOpaqueMessage::new(
        ContentType::ApplicationData,
        ProtocolVersion::TLSv1_2,
        payload.as_mut_slice(),
    );
    by.decrypt(message, sequence).map(|plain| plain.payload.to_vec())
}

fn held() -> usize {
    CONTEXTS.with_borrow(|contexts| contexts.held)
}

/// Advances the time by this number of ticks, and then sweeps to the end.
fn pass(ticks: u32) {
    time_is(CONTEXTS.with_borrow(|contexts| contexts.now).wrapping_add(ticks));
    while !sweep() {}
}

#[test]
fn records_are_the_librarys_however_often_a_context_goes() {
    for suite in SUITES {
        let library = of_tls13(suite).aead_alg;
        let ((seal, seal_iv), (open, open_iv)) = (secret(1), secret(1));
        let (mut theirs, mut theirs_open) =
            (library.encrypter(seal, seal_iv), library.decrypter(open, open_iv));
        let (mut ours, mut ours_open) = (key(suite, 1), key(suite, 1));
        for sequence in 0..20 {
            let text = vec![sequence as u8; 100 * sequence as usize];
            let record = sealed(&mut ours, &text, sequence);
            assert_eq!(record, sealed(&mut *theirs, &text, sequence));
            assert_eq!(opened(&mut ours_open, &record, sequence), Ok(text.clone()));
            assert_eq!(opened(&mut *theirs_open, &record, sequence), Ok(text));
            if sequence % 3 == 0 {
                pass(GOES);
                assert_eq!(held(), 0, "they were not used");
            }
        }
    }
}

#[test]
fn what_is_not_the_record_of_that_number_and_key_is_refused() {
    for suite in SUITES {
        let record = sealed(&mut key(suite, 1), b"text", 5);
        assert!(opened(&mut key(suite, 1), &record, 5).is_ok());
        assert_eq!(opened(&mut key(suite, 1), &record, 6), Err(Error::DecryptError));
        assert_eq!(opened(&mut key(suite, 2), &record, 5), Err(Error::DecryptError));
        for length in 5..record.len() {
            assert_eq!(
                opened(&mut key(suite, 1), &record[..length], 5),
                Err(Error::DecryptError),
                "{length}"
            );
        }
    }
}

#[test]
fn a_context_stays_while_it_is_used_and_goes_with_its_key() {
    let suite = SUITES[0];
    // The clock's numbers wrap around one day.
    time_is(u32::MAX - GOES);
    let (mut busy, mut idle) = (key(suite, 1), key(suite, 2));
    assert_eq!(held(), 0, "not before it is used");
    sealed(&mut idle, b"", 0);
    for sequence in 0..4 {
        sealed(&mut busy, b"", sequence);
        assert_eq!(held(), if sequence < 3 { 2 } else { 1 }, "{sequence}");
        pass(GOES / 3 + 1);
    }
    drop(busy);
    assert_eq!(held(), 0);
    sealed(&mut idle, b"", 1);
    assert_eq!(held(), 1, "made again");
    assert_eq!(time_is(0), 1, "so that a thread with none need not sweep");
    drop(idle);
    assert_eq!(time_is(0), 0);
}

#[test]
fn what_is_logged_of_a_key_is_not_the_key() {
    let shown = format!("{:?}", key(SUITES[0], 1));
    assert!(shown.starts_with("RecordKey") && shown.contains("AES") && !shown.contains("7, 7, 7"), "{shown}");
}

#[test]
fn keys_never_take_each_others_contexts() {
    let suite = SUITES[0];
    let mut keys: Vec<_> = (0..100).map(|first| key(suite, first)).collect();
    let expected: Vec<_> = keys.iter_mut().map(|key| sealed(key, b"text", 0)).collect();
    // Every other one goes, and the next one takes its place.
    let mut number = 0;
    keys.retain(|_| {
        number += 1;
        number % 2 == 1
    });
    pass(GOES);
    let mut others: Vec<_> = (100..150).map(|first| key(suite, first)).collect();
    others.iter_mut().for_each(|key| drop(sealed(key, b"text", 0)));
    for (key, expected) in keys.iter_mut().zip(expected.iter().step_by(2)) {
        assert_eq!(sealed(key, b"text", 0), *expected);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is about two threads, and waits for the other")]
fn a_key_may_move_to_a_thread_whose_places_are_taken() {
    let suite = SUITES[0];
    let mut moved = key(suite, 1);
    let expected = sealed(&mut moved, b"text", 0);
    let there = std::thread::spawn(move || {
        let mut first = key(suite, 2);
        sealed(&mut first, b"text", 0);
        let record = sealed(&mut moved, b"text", 0);
        drop(moved);
        (record, held())
    });
    assert_eq!(there.join().expect("it does not panic"), (expected, 1), "its own context stays");
    assert_eq!(held(), 1, "this thread was not notified");
    pass(GOES);
    assert_eq!(held(), 0);
}

#[test]
fn a_crowd_that_rests_takes_no_more_room_than_a_few() {
    let mut keys: Vec<_> = (0..20 * MIN_CONTEXTS).map(|number| key(SUITES[1], number as u8)).collect();
    let expected = sealed(&mut keys[0], b"text", 0);
    for (number, key) in keys.iter_mut().enumerate() {
        // A hundred come in each tick.
        time_is(number as u32 / 100);
        sealed(key, b"", 1);
        assert!(held() <= MIN_CONTEXTS + LOOKS, "{} after {number}", held());
    }
    assert_eq!(sealed(&mut keys[0], b"text", 0), expected, "whoever lost its context gets another");
}

#[test]
fn a_crowd_that_works_keeps_its_contexts() {
    let mut keys: Vec<_> = (0..4 * MIN_CONTEXTS).map(|number| key(SUITES[1], number as u8)).collect();
    for tick in 0..20 {
        time_is(tick);
        keys.iter_mut().for_each(|key| drop(sealed(key, b"", u64::from(tick))));
        assert_eq!(held(), keys.len());
        assert!(keys.iter().enumerate().all(|(number, key)| key.place == number), "in tick {tick}");
        while !sweep() {}
    }
}

#[test]
fn a_sweep_goes_in_steps_and_gives_the_table_back() {
    let mut keys: Vec<_> = (0..MIN_CONTEXTS).map(|number| key(SUITES[1], number as u8)).collect();
    CONTEXTS.with_borrow_mut(|contexts| {
        keys.iter_mut().for_each(|key| assert!(contexts.of(key).is_ok()));
    });
    CONTEXTS.with_borrow_mut(|contexts| contexts.places.resize_with(2 * AT_ONCE + 1, || None));
    let steps = (0..).take_while(|_| !sweep()).count() + 1;
    assert_eq!(steps, 3);
    pass(GOES);
    assert_eq!(held(), 0);
    assert_eq!(CONTEXTS.with_borrow(|contexts| contexts.places.capacity() + contexts.free.len()), 0);
}

#[test]
fn numbers_are_given_once() {
    let (mut one, mut other) = (Numbers::new(), Numbers::new());
    let mut given = std::collections::HashSet::new();
    for numbers in [&mut one, &mut other] {
        numbers.next = (numbers.next | ((1 << 40) - 1)) - 3;
        assert!((0..10).all(|_| given.insert(numbers.next())), "the last ones of its part, and of the next");
    }
}

#[test]
fn a_thread_whose_sessions_go_on_elsewhere_gives_all_of_it_back() {
    let mut keys: Vec<_> = (0..5).map(|number| key(SUITES[0], number)).collect();
    let sealed_first = sealed(&mut keys[0], b"one", 0);
    keys.iter_mut().skip(1).for_each(|key| drop(sealed(key, b"one", 0)));
    assert_eq!(held(), 5);
    give_back();
    assert_eq!(held(), 0);
    drop(keys.pop());
    assert_eq!(sealed(&mut keys[0], b"one", 0), sealed_first, "and a key makes its own again");
    assert_eq!(held(), 1);
}
