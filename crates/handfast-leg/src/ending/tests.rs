//! Each way, its pauses and its bounds, on a clock that the test holds.

use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::fault::Cause;
use handfast_tls::buffer::Scratch;

use super::{Ending, Way};
use crate::broken::Side;
use crate::leg::READ;
use crate::testing::{Done, Tested, at, plain};

struct Ended {
    leg: Tested,
    ending: Ending,
    scratch: Scratch,
}

impl Ended {
    /// Begins at millisecond 1000, with `unsent`.
    fn begin(mut leg: Tested, way: Way, unsent: &[u8]) -> Self {
        leg.keep(unsent);
        let ending = Ending::new(&mut leg, way, at(1000));
        Self { leg, ending, scratch: Scratch::new(READ) }
    }

    fn step(&mut self, now: Moment) -> Option<Moment> {
        self.ending.step(&mut self.leg, &mut self.scratch, now, false)
    }

    fn done(&mut self) -> Vec<Done> {
        self.leg.socket_mut().done()
    }
}

fn client() -> Tested {
    plain(Side::Client)
}

#[test]
fn only_an_abort_resets() {
    for (way, finishes) in [
        (Way::InOrder, true),
        (Way::Alert, true),
        (Way::EndFirst, true),
        (Way::Abort, false),
        (Way::AbortOnceServed(at(1000)), false),
        (Way::AtOnce, false),
    ] {
        let expected: &[Done] = if finishes { &[Done::FinishAtDrop] } else { &[] };
        assert_eq!(Ended::begin(client(), way, b"").done(), expected, "{way:?}");
        // A faulty socket reaches no peer, and is dropped at once.
        let mut leg = client();
        leg.socket_mut().faulty = true;
        let mut faulty = Ended::begin(leg, way, b"unsent");
        assert_eq!(faulty.step(at(1000)), None, "{way:?}");
        assert_eq!(faulty.done(), expected, "{way:?}");
    }
}

#[test]
fn some_ends_are_over_at_once() {
    for way in [Way::InOrder, Way::AtOnce, Way::Alert] {
        let mut ended = Ended::begin(client(), way, b"");
        ended.done();
        assert_eq!((ended.step(at(1000)), ended.done()), (None, vec![]), "{way:?}");
    }
    for way in [Way::Abort, Way::EndFirst, Way::Alert] {
        let mut leg = client();
        leg.socket_mut().room = 0;
        let mut ended = Ended::begin(leg, way, b"unsent");
        let Ended { leg, ending, scratch } = &mut ended;
        assert!(ending.step(leg, scratch, at(1000), false).is_some(), "{way:?}");
        assert_eq!(ending.step(leg, scratch, at(1000), true), None, "hurried: {way:?}");
    }
}

#[test]
fn an_alert_is_spoken_and_what_still_comes_is_read_away() {
    let mut leg = client();
    leg.socket_mut().room = 2;
    let mut ended = Ended::begin(leg, Way::Alert, b"alert");
    assert_eq!(ended.step(at(1000)), Some(at(1500)));
    assert_eq!(ended.done(), [Done::FinishAtDrop, Done::Wrote(b"al".to_vec())]);
    assert_eq!(ended.step(at(1499)), Some(at(1500)));
    ended.leg.socket_mut().room = 9;
    ended.leg.socket_mut().comes("late");
    ended.leg.socket_mut().comes("later");
    assert_eq!(ended.step(at(1499)), Some(at(1500)));
    assert_eq!(ended.done(), [Done::Wrote(b"ert".to_vec()), Done::EndedWriting]);
    assert!(ended.leg.socket().incoming.is_empty(), "a reset would take the alert from its reader");
    ended.leg.socket_mut().ends = true;
    assert_eq!(ended.step(at(1499)), None);
}

#[test]
fn a_reader_that_does_not_take_its_alert_is_not_waited_for() {
    let blocked = || {
        let mut leg = client();
        leg.socket_mut().room = 0;
        Ended::begin(leg, Way::Alert, b"alert")
    };
    assert_eq!(blocked().step(at(1500)), None);
    let mut failed = blocked();
    failed.leg.socket_mut().write_fault = Some(Cause::Reset);
    assert_eq!((failed.step(at(1000)), failed.done()), (None, vec![Done::FinishAtDrop]));
}

#[test]
fn lingering_is_bounded_in_time_and_bytes() {
    let lingers = || {
        let mut ended = Ended::begin(client(), Way::EndFirst, b"");
        assert_eq!(ended.step(at(1000)), Some(at(1500)));
        assert_eq!(ended.done(), [Done::FinishAtDrop, Done::EndedWriting]);
        ended
    };
    assert_eq!(lingers().step(at(1499)), Some(at(1500)));
    let mut late = lingers();
    late.leg.socket_mut().comes("late");
    assert_eq!((late.step(at(1500)), late.leg.socket().incoming.len()), (None, 1));
    let mut slow = lingers();
    for now in [1400, 1800, 2200, 2600, 3000, 3400, 3800, 4200, 4600, 5000, 5400] {
        slow.leg.socket_mut().comes("more");
        assert_eq!(slow.step(at(now)), Some(at(now + 500)), "a peer that still sends has not read our end");
    }
    slow.leg.socket_mut().comes("more");
    assert_eq!(slow.step(at(5800)), Some(at(6000)));
    slow.leg.socket_mut().comes("more");
    assert_eq!(slow.step(at(6000)), None);
    let mut failed = lingers();
    failed.leg.socket_mut().read_fault = Some(Cause::Reset);
    assert_eq!(failed.step(at(1001)), None);
    // 2 MiB are 32 reads, and the next is not made.
    let floods = |reads: usize| {
        let mut ended = lingers();
        for _ in 0..reads {
            ended.leg.socket_mut().comes(vec![0; READ]);
        }
        (ended.step(at(1001)), ended.leg.socket().incoming.len())
    };
    assert_eq!(floods(31), (Some(at(1501)), 0));
    assert_eq!(floods(32), (None, 0));
    assert_eq!(floods(33), (None, 1));
}

#[test]
fn an_abort_comes_behind_the_last_bytes() {
    let mut leg = client();
    leg.socket_mut().room = 2;
    leg.socket_mut().unacknowledged = 7;
    let mut ended = Ended::begin(leg, Way::Abort, b"last");
    // The kernel's queue is looked at ever more seldom.
    let mut now = at(1000);
    for pause in [1, 2, 4, 8, 16, 32, 50, 50] {
        let until = ended.step(now).expect("it waits");
        assert_eq!(until, now + Duration::from_millis(pause));
        now = until;
    }
    assert_eq!(ended.done(), [Done::Wrote(b"la".to_vec())]);
    ended.leg.socket_mut().room = 9;
    assert!(ended.step(now).is_some());
    assert_eq!(ended.done(), [Done::Wrote(b"st".to_vec())]);
    ended.leg.socket_mut().unacknowledged = 0;
    assert_eq!(ended.step(now), None);
}

/// A broker that cannot send the acknowledgement of the first message drops the others.
#[test]
fn a_program_has_a_second_for_what_it_was_sent() {
    let served = |sent| {
        let mut leg = plain(Side::Backend);
        leg.socket_mut().unacknowledged = 7;
        let mut ended = Ended::begin(leg, Way::AbortOnceServed(sent), b"last");
        assert_eq!(ended.step(at(1000)), Some(at(1001)), "it is on its way");
        ended.leg.socket_mut().unacknowledged = 0;
        ended
    };
    let mut answers = served(at(900));
    answers.leg.socket_mut().comes("answer");
    assert_eq!(answers.step(at(1001)), Some(at(1900)));
    assert!(answers.leg.socket().incoming.is_empty(), "what it answers is read away");
    assert_eq!(answers.step(at(1899)), Some(at(1900)));
    assert_eq!(answers.step(at(1900)), None);
    assert_eq!(answers.done(), [Done::Wrote(b"last".to_vec())], "no clean end");
    // It had that second before, or has ended itself.
    assert_eq!(served(Moment::START).step(at(1001)), None);
    let mut ends = served(at(900));
    ends.leg.socket_mut().ends = true;
    assert_eq!(ends.step(at(1001)), None);
    let mut floods = served(at(900));
    for _ in 0..33 {
        floods.leg.socket_mut().comes(vec![0; READ]);
    }
    assert_eq!((floods.step(at(1001)), floods.leg.socket().incoming.len()), (None, 1));
}

#[test]
fn a_peer_that_takes_nothing_more_is_not_waited_for() {
    let waiting = || {
        let mut leg = client();
        leg.socket_mut().unacknowledged = 7;
        let mut ended = Ended::begin(leg, Way::Abort, b"");
        assert!(ended.step(at(1000)).is_some());
        ended
    };
    assert!(waiting().step(at(6000)).is_some());
    assert_eq!(waiting().step(at(6001)), None);
    // Progress is a byte more than before, and nothing else.
    let mut slow = waiting();
    slow.leg.socket_mut().unacknowledged = 6;
    assert!(slow.step(at(5000)).is_some());
    assert!(slow.step(at(10_000)).is_some());
    assert_eq!(slow.step(at(10_001)), None);
    let mut gone = waiting();
    gone.leg.socket_mut().announced = Some(Cause::Reset);
    assert_eq!(gone.step(at(1001)), None);
    let mut failed = Ended::begin(client(), Way::Abort, b"x");
    failed.leg.socket_mut().unacknowledged = 7;
    failed.leg.socket_mut().write_fault = Some(Cause::Reset);
    assert_eq!(failed.step(at(1000)), None);
}
