//! One turn at a time: the moved bytes, the side at fault, and the earlier data of a broken peer.

use handfast_net::clock::Moment;
use handfast_net::fault::Cause;
use handfast_tls::buffer::Scratch;
use handfast_tls::session::FailureKind;

use super::{Progress, better_reason, check, turn};
use crate::broken::{Broken, Side, Why};
use crate::leg::READ;
use crate::testing::{Done, Tested, at, plain, secured};

struct Pair {
    client: Tested,
    backend: Tested,
    scratch: Scratch,
}

impl Pair {
    fn new(client: Tested, backend: Tested) -> Self {
        Self { client, backend, scratch: Scratch::new(READ) }
    }

    fn secured() -> Self {
        Self::new(secured(Side::Client), secured(Side::Backend))
    }

    fn turn(&mut self) -> Result<Progress, Broken> {
        turn(&mut self.client, &mut self.backend, &mut self.scratch, at(1))
    }

    fn done(&mut self) -> (Vec<Done>, Vec<Done>) {
        (self.client.socket_mut().done(), self.backend.socket_mut().done())
    }

    fn better_reason(&mut self, side: Side, cause: Cause) -> Why {
        let fault = handfast_net::fault::Fault::own(handfast_net::fault::Operation::Read, cause);
        let broken = Broken::socket(side, fault);
        let best = better_reason(&mut self.client, &mut self.backend, broken, &mut self.scratch, at(1));
        assert_eq!(best.side, side);
        best.why
    }

    fn assert_unchanged(&mut self, side: Side, cause: Cause) {
        let why = self.better_reason(side, cause);
        assert!(matches!(&why, Why::Socket(fault) if fault.cause == cause), "{why:?}");
    }
}

fn wrote(bytes: &str) -> Done {
    Done::Wrote(bytes.as_bytes().to_vec())
}

#[test]
fn each_direction_moves_and_reports_it() {
    let mut pair = Pair::new(secured(Side::Client), plain(Side::Backend));
    assert_eq!(pair.turn(), Ok(Progress::Blocked));
    pair.client.socket_mut().comes("up#");
    assert_eq!(pair.turn(), Ok(Progress::Moved));
    assert_eq!(pair.done(), (vec![wrote("r")], vec![wrote("up")]));
    pair.backend.socket_mut().comes("down");
    assert_eq!(pair.turn(), Ok(Progress::Moved));
    assert_eq!(pair.done(), (vec![wrote("<down>")], vec![]));
    assert_eq!(pair.turn(), Ok(Progress::Blocked));
}

#[test]
fn nothing_is_read_for_a_leg_that_is_full() {
    let mut pair = Pair::secured();
    pair.backend.socket_mut().room = 1;
    pair.backend.keep(b"abc");
    pair.client.socket_mut().comes("more");
    assert_eq!(pair.turn(), Ok(Progress::Moved));
    assert_eq!((pair.client.socket().incoming.len(), pair.backend.unsent()), (1, 2));
    // The other direction is read all the same.
    assert_eq!(pair.backend.socket().requested.len(), 1);
    assert_eq!(pair.turn(), Ok(Progress::Blocked));
    // Data that is only held does not stop anything, and is sent at its time when nothing comes.
    let mut held = Pair::secured();
    held.client.keep(b"ticket");
    held.client.hold(at(1));
    assert_eq!((held.turn(), held.done().0), (Ok(Progress::Moved), vec![wrote("ticket")]));
    held.client.keep(b"ticket");
    held.client.hold(at(2));
    assert_eq!((held.turn(), held.done().0), (Ok(Progress::Blocked), vec![]));
}

#[test]
fn both_ends_are_passed_on_and_the_last_one_by_closing() {
    let mut pair = Pair::new(secured(Side::Client), plain(Side::Backend));
    pair.client.socket_mut().comes("bye.");
    assert_eq!(pair.turn(), Ok(Progress::Moved));
    assert_eq!(pair.done(), (vec![], vec![wrote("bye"), Done::EndedWriting]));
    assert_eq!(pair.turn(), Ok(Progress::Blocked));
    pair.backend.socket_mut().ends = true;
    assert_eq!(pair.turn(), Ok(Progress::Finished));
    assert_eq!(pair.done(), (vec![Done::WroteLast(b".".to_vec())], vec![]));
    // Not over before everything is with the kernel.
    let mut slow = Pair::secured();
    slow.backend.socket_mut().room = 2;
    slow.client.socket_mut().comes("bye.");
    slow.backend.socket_mut().comes(".");
    assert_eq!(slow.turn(), Ok(Progress::Moved));
    assert!(!slow.backend.has_sent_close() && slow.client.has_sent_close());
    assert_eq!(slow.turn(), Ok(Progress::Blocked));
    slow.backend.socket_mut().room = 9;
    assert_eq!((slow.turn(), slow.turn()), (Ok(Progress::Moved), Ok(Progress::Finished)));
    // The client's end was passed on while the backend's was still before us: it is not the last one.
    let mut first = Pair::secured();
    first.client.socket_mut().room = 0;
    first.backend.socket_mut().comes(".");
    assert_eq!(first.turn(), Ok(Progress::Moved));
    first.client.socket_mut().comes(".");
    assert_eq!(first.turn(), Ok(Progress::Moved));
    assert_eq!(first.done().1, [wrote(".")]);
}

#[test]
fn a_mistake_stops_behind_what_came_before_it() {
    let mut pair = Pair::secured();
    pair.client.socket_mut().comes("ok?no");
    let broken = pair.turn().expect_err("it broke TLS");
    assert_eq!(broken.side, Side::Client);
    // The alert waits for the code that ends the leg.
    assert_eq!((pair.done(), pair.client.unsent()), ((vec![], vec![wrote("<ok>")]), 1));
}

#[test]
fn who_is_gone_is_noticed_where_nobody_reads() {
    let gone = |prepare: fn(&mut Pair), side| {
        let mut pair = Pair::secured();
        prepare(&mut pair);
        let leg = if side == Side::Client { &mut pair.client } else { &mut pair.backend };
        leg.socket_mut().announced = Some(Cause::Reset);
        check(&mut pair.client, &mut pair.backend).err().map(|broken| broken.side)
    };
    fn client_ended(pair: &mut Pair) {
        pair.client.socket_mut().comes(".");
        pair.turn().expect("an end");
    }
    fn backend_ended(pair: &mut Pair) {
        pair.backend.socket_mut().comes(".");
        pair.turn().expect("an end");
    }
    fn backend_full(pair: &mut Pair) {
        pair.backend.keep(b"full");
    }
    fn backend_refuses(pair: &mut Pair) {
        pair.backend.socket_mut().write_fault = Some(Cause::Reset);
        pair.client.socket_mut().comes("x");
        pair.turn().expect("its answer is still to be read");
    }
    // While data is still read, a read detects it.
    assert_eq!((gone(|_| {}, Side::Client), gone(|_| {}, Side::Backend)), (None, None));
    for unread in [client_ended, backend_full, backend_refuses] {
        assert_eq!(gone(unread, Side::Client), Some(Side::Client));
        assert_eq!(gone(unread, Side::Backend), None);
    }
    assert_eq!(gone(backend_ended, Side::Backend), Some(Side::Backend));
    assert_eq!(gone(backend_ended, Side::Client), None);
    let mut healthy = Pair::secured();
    client_ended(&mut healthy);
    assert_eq!(check(&mut healthy.client, &mut healthy.backend), Ok(()));
}

#[test]
fn an_alert_before_a_reset_is_the_better_reason() {
    for (side, cause) in [
        (Side::Client, Cause::Reset),
        (Side::Backend, Cause::Reset),
        (Side::Client, Cause::ClosedEarly),
        (Side::Backend, Cause::ClosedEarly),
    ] {
        let pair_after = |words: &str| {
            let mut pair = Pair::secured();
            let leg = if side == Side::Client { &mut pair.client } else { &mut pair.backend };
            leg.socket_mut().comes(words);
            pair
        };
        let why = pair_after("x!").better_reason(side, cause);
        assert!(matches!(&why, Why::Session(failure) if failure.kind == FailureKind::Alert), "{why:?}");
        // A mistake is none, nor is data, nor what the other one says.
        pair_after("?").assert_unchanged(side, cause);
        pair_after("x").assert_unchanged(side, cause);
        let other = if side == Side::Client { Side::Backend } else { Side::Client };
        pair_after("!").assert_unchanged(other, cause);
        pair_after("!").assert_unchanged(side, Cause::Unacknowledged);
    }
}

#[test]
fn an_alert_is_not_looked_for_where_nothing_can_be_read() {
    let pair_after = |prepare: fn(&mut Pair)| {
        let mut pair = Pair::secured();
        prepare(&mut pair);
        pair.client.socket_mut().comes("!");
        pair.assert_unchanged(Side::Client, Cause::Reset);
        assert_eq!(pair.client.socket().incoming.len(), 1, "nothing was read");
        assert_eq!(pair.backend.socket_mut().done(), [], "nothing was sent either");
    };
    pair_after(|pair| pair.backend.keep(b"full"));
    pair_after(|pair| {
        pair.client.socket_mut().comes(".");
        pair.turn().expect("an end");
        pair.backend.socket_mut().done();
    });
    // The other side was not notified of the end yet, and is not any more: its leg is to be aborted.
    pair_after(|pair| {
        pair.backend.socket_mut().room = 1;
        pair.client.socket_mut().comes("bye.");
        pair.turn().expect("an end");
        pair.backend.socket_mut().room = 9;
        pair.backend.flush().expect("taken");
        pair.backend.socket_mut().done();
    });
    pair_after(|pair| {
        pair.backend.socket_mut().write_fault = Some(Cause::Reset);
        pair.client.socket_mut().comes("x");
        pair.turn().expect("its answer is still to be read");
    });
    let mut clear = Pair::new(plain(Side::Client), plain(Side::Backend));
    clear.client.socket_mut().comes("!");
    clear.assert_unchanged(Side::Client, Cause::Reset);
    assert_eq!(clear.client.socket().incoming.len(), 1, "in the clear there are no alerts");
    assert_eq!(clear.backend.held_until(), Moment::NEVER);
}
