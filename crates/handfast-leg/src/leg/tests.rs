//! Tests for the reaction of one leg to each event of its socket and its session.

use handfast_net::clock::Moment;
use handfast_net::fault::Cause;
use handfast_tls::buffer::Scratch;
use handfast_tls::session::Session;

use super::{Leg, READ};
use crate::broken::{Broken, Side, Why};
use crate::testing::{Done, Marks, Tested, at, plain, secured};

fn scratch() -> Scratch {
    Scratch::new(READ)
}

fn wrote(bytes: &str) -> Done {
    Done::Wrote(bytes.as_bytes().to_vec())
}

fn write(leg: &mut Tested, text: &str) -> Result<(), Broken> {
    leg.write(text.as_bytes(), &mut scratch().records)
}

fn cause(outcome: Result<impl Sized, Broken>) -> Option<Cause> {
    match outcome.err()?.why {
        Why::Socket(fault) => Some(fault.cause),
        _ => None,
    }
}

fn why(outcome: Result<impl Sized, Broken>) -> Why {
    outcome.err().expect("it broke").why
}

/// A session that is still shaking hands.
fn shaking() -> Tested {
    let mut leg = plain(Side::Client);
    leg.secure(Marks::default());
    leg
}

#[test]
fn a_leg_says_what_it_is() {
    let mut leg = secured(Side::Backend);
    assert!(leg.is_secured() && leg.session().is_some() && leg.session_mut().is_some());
    assert!(!plain(Side::Client).is_secured() && plain(Side::Client).session().is_none());
    assert_eq!((leg.side(), plain(Side::Client).side()), (Side::Backend, Side::Client));
    leg.keep(b"four");
    assert_eq!(leg.unsent(), 4);
    assert_eq!(format!("{leg:?}"), "Leg { side: Backend, unsent: 4, .. }");
    assert!(!leg.is_in_a_record());
    leg.session_mut().expect("secured").kept = b"(".to_vec();
    assert!(leg.is_in_a_record());
}

#[test]
fn a_broken_leg_says_whose_it_is() {
    let mut leg = plain(Side::Backend);
    assert_eq!(leg.check(), Ok(()));
    leg.socket_mut().announced = Some(Cause::Reset);
    let broken = leg.check().expect_err("it was announced");
    assert_eq!(broken.side, Side::Backend);
    assert!(broken.to_string().starts_with("backend: "), "{broken}");
    assert!(broken.to_string().len() > "backend: ".len());
    assert_eq!(leg.broken(Why::Truncated).to_string(), "backend: FIN without close_notify");
}

/// Nagle's algorithm delays a write only behind an unacknowledged one, so that the first needs no call.
#[test]
fn no_delay_is_requested_at_the_second_write_and_once() {
    let mut leg = plain(Side::Backend).dialled(0);
    for (text, done) in
        [("a", vec![wrote("a")]), ("b", vec![Done::NoDelay, wrote("b")]), ("c", vec![wrote("c")])]
    {
        write(&mut leg, text).expect("taken");
        assert_eq!(leg.socket_mut().done(), done);
    }
    let mut spoken = plain(Side::Backend).dialled(3);
    assert_eq!(spoken.sent(), 3);
    write(&mut spoken, "d").expect("taken");
    assert_eq!(spoken.socket_mut().done(), [Done::NoDelay, wrote("d")]);
    assert_eq!(spoken.sent(), 4);
    spoken.no_delay();
    assert_eq!(spoken.socket_mut().done(), []);
    // An accepted one has it off already; a flush is a write too, and so is what TLS writes.
    let mut accepted = plain(Side::Client);
    accepted.no_delay();
    write(&mut accepted, "e").expect("taken");
    assert_eq!(accepted.socket_mut().done(), [wrote("e")]);
    let mut flushed = plain(Side::Backend).dialled(1);
    flushed.keep(b"f");
    flushed.flush().expect("taken");
    assert_eq!(flushed.socket_mut().done(), [Done::NoDelay, wrote("f")]);
    let mut tls = secured(Side::Backend).dialled(1);
    write(&mut tls, "g").expect("taken");
    assert_eq!(tls.socket_mut().done(), [Done::NoDelay, wrote("<g>")]);
}

#[test]
fn what_is_not_taken_is_kept_and_goes_first() {
    let mut leg = plain(Side::Client);
    leg.socket_mut().room = 2;
    write(&mut leg, "hello").expect("kept");
    assert_eq!((leg.sent(), leg.unsent(), leg.is_full(), leg.is_done()), (2, 3, true, false));
    assert_eq!(leg.flush(), Ok(false));
    leg.socket_mut().room = 1;
    assert_eq!((leg.flush(), leg.sent(), leg.unsent()), (Ok(true), 3, 2));
    leg.socket_mut().room = 9;
    assert_eq!((leg.flush(), leg.sent(), leg.unsent(), leg.is_full()), (Ok(true), 5, 0, false));
    assert_eq!(leg.unsent.capacity(), 0, "an idle leg owns no buffer");
    assert_eq!(leg.socket_mut().done(), [wrote("he"), wrote("l"), wrote("lo")]);
}

/// Records count for what is in them, when the leg has them.
#[test]
fn a_tls_leg_counts_plaintext_and_once() {
    let mut leg = secured(Side::Client);
    leg.socket_mut().room = 2;
    write(&mut leg, "hello").expect("kept");
    assert_eq!((leg.sent(), leg.unsent()), (5, 5));
    leg.socket_mut().room = 9;
    assert_eq!((leg.flush(), leg.sent()), (Ok(true), 5));
    leg.socket_mut().room = 0;
    write(&mut leg, "again").expect("kept");
    assert_eq!((leg.sent(), leg.unsent()), (10, 7));
    leg.session_mut().expect("secured").used_up = true;
    assert!(matches!(why(write(&mut leg, "more")), Why::Session(_)));
}

#[test]
fn what_is_held_goes_with_the_first_data_or_at_its_time() {
    let mut leg = secured(Side::Client);
    leg.hold(at(5));
    assert_eq!(leg.held_until(), Moment::NEVER, "nothing to hold");
    assert_eq!(leg.flush_held(at(9)), Ok(false));
    leg.keep(b"ticket");
    assert_eq!(leg.flush_held(Moment::NEVER), Ok(false), "not held");
    leg.hold(at(5));
    assert_eq!((leg.held_until(), leg.is_full()), (at(5), false));
    assert_eq!(leg.flush_held(at(4)), Ok(false));
    assert_eq!(leg.socket_mut().done(), []);
    write(&mut leg, "x").expect("taken");
    assert_eq!(leg.socket_mut().done(), [wrote("ticket<x>")]);
    assert_eq!((leg.held_until(), leg.unsent()), (Moment::NEVER, 0));
    leg.keep(b"ticket");
    leg.hold(at(5));
    assert_eq!((leg.flush_held(at(5)), leg.held_until()), (Ok(true), Moment::NEVER));
    assert_eq!(leg.socket_mut().done(), [wrote("ticket")]);
}

#[test]
fn the_sessions_answers_wait_behind_what_waits() {
    let answer = |leg: &mut Tested, failed| {
        let mut scratch = scratch();
        scratch.replies.extend(b"r");
        leg.answer(&mut scratch, failed).expect("no fault");
        (leg.socket_mut().done(), leg.unsent())
    };
    assert_eq!(answer(&mut secured(Side::Client), false), (vec![wrote("r")], 0));
    // The code that ends the leg sends the alert.
    assert_eq!(answer(&mut secured(Side::Client), true), (vec![], 1));
    let mut waits = secured(Side::Client);
    waits.keep(b"w");
    assert_eq!(answer(&mut waits, false), (vec![], 2));
    assert_eq!(waits.answer(&mut scratch(), false), Ok(()));
    waits.flush().expect("taken");
    assert_eq!(waits.socket_mut().done(), [wrote("wr")]);
    let mut broken = secured(Side::Client);
    broken.socket_mut().write_fault = Some(Cause::Reset);
    let mut scratch = scratch();
    scratch.replies.extend(b"r");
    assert_eq!(cause(broken.answer(&mut scratch, false)), Some(Cause::Reset));
}

#[test]
fn a_backend_that_refuses_is_still_read_and_a_client_is_not() {
    let refused = |side, ended| {
        let mut leg = plain(side);
        leg.ended = ended;
        leg.socket_mut().write_fault = Some(Cause::Reset);
        leg.keep(b"kept");
        (leg.flush(), leg)
    };
    for (side, ended) in [(Side::Client, false), (Side::Backend, true), (Side::Client, true)] {
        let (outcome, leg) = refused(side, ended);
        assert_eq!(cause(outcome), Some(Cause::Reset));
        assert!(!leg.refuses());
    }
    let mut leg = plain(Side::Client);
    leg.outlive_refusal();
    leg.socket_mut().write_fault = Some(Cause::Reset);
    leg.keep(b"kept");
    assert_eq!((leg.flush(), leg.refuses()), (Ok(true), true), "its last messages are read");
    let (outcome, mut leg) = refused(Side::Backend, false);
    assert_eq!((outcome, leg.refuses(), leg.unsent()), (Ok(true), true, 0));
    // Its answer comes first; then the first reason, not the later one.
    leg.socket_mut().comes("sorry");
    leg.socket_mut().read_fault = Some(Cause::Unacknowledged);
    assert_eq!(leg.read(&mut scratch(), READ).expect("an answer").length, 5);
    assert_eq!(cause(leg.read(&mut scratch(), READ)), Some(Cause::Reset));
    let mut unspoken = plain(Side::Backend);
    unspoken.socket_mut().write_fault = Some(Cause::Reset);
    assert_eq!((write(&mut unspoken, "x"), unspoken.refuses()), (Ok(()), true));
    // A failure of our own session is no refusal.
    let mut used_up = secured(Side::Backend);
    used_up.session_mut().expect("secured").used_up = true;
    assert!(write(&mut used_up, "x").is_err() && !used_up.refuses());
}

#[test]
fn the_last_bytes_are_known_however_they_came() {
    for leg in [plain as fn(Side) -> Tested, secured] {
        let mut leg = leg(Side::Client);
        let mut last = |text: &str| {
            leg.socket_mut().comes(text);
            leg.read(&mut scratch(), READ).expect("bytes");
            leg.last_received()
        };
        assert_eq!(last("abc"), *b"\0\0\0\0\0abc");
        assert_eq!(last("de"), *b"\0\0\0abcde");
        assert_eq!(last("fghijklmnop"), *b"ijklmnop");
        assert_eq!(last("q"), *b"jklmnopq");
    }
}

#[test]
fn an_end_is_reported_once_and_behind_everything() {
    let tell = |leg: &mut Tested, last| {
        let outcome = leg.send_close(&mut scratch().records, last).expect("no fault");
        (outcome, leg.socket_mut().done(), leg.has_sent_close())
    };
    let mut leg = plain(Side::Backend);
    leg.keep(b"first");
    assert_eq!(tell(&mut leg, false), (false, vec![], false));
    leg.flush().expect("taken");
    leg.socket_mut().done();
    assert_eq!(tell(&mut leg, false), (true, vec![Done::EndedWriting], true));
    assert_eq!(tell(&mut leg, false), (false, vec![], true));
    assert!(leg.is_done());
    // The last end is signalled by closing.
    assert_eq!(tell(&mut plain(Side::Backend), true), (true, vec![], true));
    let mut tls = secured(Side::Client);
    tls.keep(b"ticket");
    tls.hold(at(5));
    assert_eq!(tell(&mut tls, false), (true, vec![wrote("ticket.")], true));
    assert_eq!(tell(&mut tls, false), (false, vec![], true));
    let last = tell(&mut secured(Side::Client), true);
    assert_eq!(last, (true, vec![Done::WroteLast(b".".to_vec())], true));
    let mut full = secured(Side::Client);
    full.socket_mut().room = 0;
    assert_eq!(tell(&mut full, true), (true, vec![], true));
    assert_eq!((full.unsent(), full.is_done()), (1, false));
}

#[test]
fn reading_leaves_room_for_records_and_begins_behind_what_was_kept() {
    let read = |leg: &mut Tested, most| {
        leg.read(&mut scratch(), most).expect("no fault");
        leg.socket_mut().requested.pop()
    };
    assert_eq!(read(&mut plain(Side::Client), 49_152), Some(49_152));
    assert_eq!(read(&mut plain(Side::Client), READ), Some(65_536));
    let mut leg = secured(Side::Client);
    assert_eq!(read(&mut leg, READ), Some(65_536));
    leg.session_mut().expect("secured").kept = b"(abc".to_vec();
    assert_eq!(read(&mut leg, READ), Some(65_532));
    assert_eq!(read(&mut leg, 8_192), Some(8_192));
    let keeps = |bytes| {
        let mut leg = secured(Side::Client);
        leg.session_mut().expect("secured").kept = vec![b'('; bytes];
        leg.read(&mut scratch(), READ)
    };
    assert!(!keeps(61_439).expect("it may still end").moved);
    assert_eq!(why(keeps(61_440)), Why::Endless);
}

#[test]
fn what_came_is_counted_and_found_in_its_buffer() {
    for mut leg in [plain(Side::Client), secured(Side::Client)] {
        let mut scratch = scratch();
        scratch.plaintext.extend(b"another connection's");
        scratch.replies.extend(b"another's");
        leg.socket_mut().comes("hello");
        let got = leg.read(&mut scratch, READ).expect("it came");
        assert!(got.moved && got.failed.is_none());
        assert_eq!(leg.plaintext(&scratch.received, &scratch.plaintext, got.length), b"hello");
        assert!(scratch.replies.is_empty());
        leg.socket_mut().comes("abc");
        leg.read(&mut scratch, READ).expect("it came");
        assert_eq!(leg.received(), 8);
        let nothing = leg.read(&mut scratch, READ).expect("no fault");
        assert!(!nothing.moved && nothing.length == 0);
        leg.socket_mut().read_fault = Some(Cause::Reset);
        assert_eq!(cause(leg.read(&mut scratch, READ)), Some(Cause::Reset));
    }
    let mut leg = secured(Side::Client);
    leg.socket_mut().comes("ab?cd");
    let got = leg.read(&mut scratch(), READ).expect("what came before counts");
    assert!(got.failed.is_some_and(|broken| matches!(broken.why, Why::Session(_))));
    assert_eq!((got.length, leg.received()), (2, 2));
}

#[test]
fn only_close_notify_ends_tls_unless_the_operator_configures_otherwise() {
    let ends = |mut leg: Tested| {
        leg.socket_mut().ends = true;
        let outcome = leg.read(&mut scratch(), READ);
        (outcome, leg)
    };
    let (outcome, leg) = ends(plain(Side::Backend));
    assert!(outcome.expect("an end").moved && leg.has_ended() && !leg.ended_without_close_notify());
    let (outcome, leg) = ends(secured(Side::Client));
    assert!(why(outcome) == Why::Truncated && !leg.has_ended());
    let lenient = || {
        let mut leg = secured(Side::Client);
        leg.be_lenient();
        leg
    };
    let (outcome, leg) = ends(lenient());
    assert!(outcome.expect("taken for one").moved && leg.has_ended() && leg.ended_without_close_notify());
    // A record that was cut is no end even then.
    let mut cut = lenient();
    cut.session_mut().expect("secured").kept = b"(".to_vec();
    assert_eq!(why(ends(cut).0), Why::Truncated);
    let mut tested = secured(Side::Client);
    tested.socket_mut().comes("a.");
    tested.read(&mut scratch(), READ).expect("an end");
    assert!(tested.has_ended() && !tested.ended_without_close_notify());
}

#[test]
fn a_handshake_reads_flights_and_sends_what_waits_first() {
    let mut leg = shaking();
    assert!(!leg.is_established() && secured(Side::Client).is_established());
    assert!(plain(Side::Client).is_established());
    leg.keep(b"hi");
    leg.socket_mut().room = 1;
    let mut scratch = scratch();
    assert_eq!((leg.read_flight(&mut scratch), leg.unsent()), (Ok(None), 1));
    leg.socket_mut().room = 9;
    leg.socket_mut().comes("ab");
    assert_eq!((leg.read_flight(&mut scratch), leg.unsent()), (Ok(Some(2)), 0));
    assert_eq!(leg.unsent.capacity(), 0, "an idle leg owns no buffer");
    assert_eq!(leg.socket_mut().done(), [wrote("h"), wrote("i")]);
    assert_eq!(leg.socket().requested, [READ, READ]);
    leg.socket_mut().ends = true;
    assert_eq!(why(leg.read_flight(&mut scratch)), Why::Truncated);
    leg.socket_mut().read_fault = Some(Cause::Reset);
    assert_eq!(cause(leg.read_flight(&mut scratch)), Some(Cause::Reset));
    leg.keep(b"more");
    leg.socket_mut().write_fault = Some(Cause::Unacknowledged);
    assert_eq!(cause(leg.read_flight(&mut scratch)), Some(Cause::Unacknowledged));
    assert_eq!(cause(leg.send_flight()), Some(Cause::Unacknowledged));
}

/// Gives a leg a flight as it is read from a socket.
fn flight(leg: &mut Tested, bytes: &[u8]) -> (Result<(), Broken>, Vec<u8>) {
    let (mut scratch, mut early) = (scratch(), Vec::new());
    scratch.received[..bytes.len()].copy_from_slice(bytes);
    let outcome = leg.take_flight(bytes.len(), &mut scratch, &mut early);
    assert_eq!(
        scratch.received.len(),
        Scratch::new(READ).received.len(),
        "the thread's buffer is given back"
    );
    (outcome, early)
}

#[test]
fn a_flight_may_carry_the_first_data_and_its_answer_waits() {
    let mut leg = shaking();
    assert_eq!(flight(&mut leg, b"(ab"), (Ok(()), vec![]));
    assert!(leg.is_in_a_record());
    // Kept data comes first: its beginning, and the following bytes.
    leg.session_mut().expect("secured").kept = b"#".to_vec();
    let (outcome, early) = flight(&mut leg, b"Ehello");
    assert_eq!((outcome, early), (Ok(()), b"hello".to_vec()));
    assert!(leg.is_established());
    assert_eq!((leg.received(), leg.unsent.as_slice()), (5, &b"re"[..]));
    assert_eq!(leg.socket_mut().done(), []);
    let (_, early) = flight(&mut leg, b"you");
    assert_eq!((early, leg.received()), (b"you".to_vec(), 8));
    // A plain leg has no handshake.
    let mut early = Vec::new();
    let outcome = plain(Side::Client).take_hello(&mut b"x".to_vec(), &mut scratch(), &mut early);
    assert_eq!((outcome, early), (Ok(()), vec![]));
}

/// Its session received the first flight elsewhere: the result is handled as if it had come here.
#[test]
fn what_a_session_answered_elsewhere_is_taken_over() {
    let mut leg = shaking();
    let mut scratch = scratch();
    let session = leg.session_mut().expect("it is secured");
    let received = session.receive(&mut b"Eyou".to_vec(), &mut scratch.plaintext, &mut scratch.replies);
    let mut early = Vec::new();
    let outcome = leg.take_answer(received, (&scratch.plaintext, &scratch.replies), &mut early);
    assert_eq!(
        (outcome, &early[..], leg.unsent.as_slice(), leg.received()),
        (Ok(()), &b"you"[..], &b"e"[..], 3)
    );

    let mut failed = shaking();
    let mut scratch = self::scratch();
    let session = failed.session_mut().expect("it is secured");
    let received = session.receive(&mut b"?".to_vec(), &mut scratch.plaintext, &mut scratch.replies);
    let outcome = failed.take_answer(received, (&scratch.plaintext, &scratch.replies), &mut Vec::new());
    assert!(matches!(why(outcome), Why::Session(_)));
    assert_eq!(failed.unsent.as_slice(), b"A", "the code that ends the leg sends its alert");
}

/// Its sender may wait for that with the rest, by Nagle's algorithm. An answer acknowledges too.
#[test]
fn part_of_a_flight_is_acknowledged_at_once() {
    for (bytes, acknowledged) in [("(", 1), ("#", 0), ("E", 0), ("E(", 0)] {
        let mut leg = shaking();
        assert_eq!(flight(&mut leg, bytes.as_bytes()).0, Ok(()));
        assert_eq!(leg.socket().acknowledged, acknowledged, "{bytes}");
    }
    let mut waits = shaking();
    waits.keep(b"flight");
    assert_eq!((flight(&mut waits, b"(").0, waits.socket().acknowledged), (Ok(()), 0));
}

#[test]
fn records_made_outside_go_behind_what_waits() {
    let mut leg = secured(Side::Client);
    leg.socket_mut().room = 2;
    leg.send(b"one").expect("kept");
    assert_eq!((leg.socket_mut().done(), leg.unsent()), (vec![wrote("on")], 1));
    leg.send(b"two").expect("kept");
    assert_eq!((leg.socket_mut().done(), leg.unsent()), (vec![], 4));
    leg.socket_mut().room = usize::MAX;
    leg.send(b"!").expect("taken");
    assert_eq!((leg.socket_mut().done(), leg.unsent()), (vec![wrote("etwo!")], 0));
    leg.socket_mut().write_fault = Some(Cause::Reset);
    assert_eq!(cause(leg.send(b"more")), Some(Cause::Reset));
}

#[test]
fn what_waits_can_be_taken_out() {
    let mut leg = secured(Side::Client);
    leg.keep(b"ticket");
    leg.hold(at(5));
    assert_eq!(leg.take_unsent(), b"ticket");
    assert_eq!((leg.unsent(), leg.held_until(), leg.socket_mut().done()), (0, Moment::NEVER, vec![]));
}

#[test]
fn a_handshake_may_fail_or_end_or_never_end() {
    let mut failed = shaking();
    assert!(matches!(why(flight(&mut failed, b"?").0), Why::Session(_)));
    assert_eq!(failed.unsent.as_slice(), b"A", "the code that ends the leg sends its alert");
    assert_eq!(why(flight(&mut shaking(), b".").0), Why::Ended);
    let mut done = shaking();
    assert_eq!(flight(&mut done, b"Eab."), (Ok(()), b"ab".to_vec()));
    assert!(done.has_ended());
    let keeps = |bytes: usize| {
        let mut leg: Leg<_, Marks> = shaking();
        let mut message = vec![b'('; bytes];
        leg.take_hello(&mut message, &mut scratch(), &mut Vec::new())
    };
    assert_eq!(keeps(128 * 1024), Ok(()));
    assert_eq!(why(keeps(128 * 1024 + 1)), Why::Endless);
}
