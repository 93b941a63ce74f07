//! One experiment: sockets are brought to where the event meets them, the event is made, calls are made, and everything that can
//! be asked is noted.
//!
//! In: a place, a row, an operation. Out: what was seen, and how long it took until it could be noticed.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use handfast_net::fault;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net;

use super::Failure;
use super::outcome::{Call, Observation, Operation, Outcome};
use super::path::Seen;
use super::peer::Peer;
use super::place::Place;
use super::probe::{NEWS, Probe, wait};
use super::rows::{Event, ROW_TIMEOUT, Row};
use super::stage::{self, FewFiles, Pair, Queued};

/// Result of one experiment.
type Seeing = Result<(Observation, Option<Duration>), Failure>;

/// Runs one experiment.
pub(super) fn run(place: &mut Place, row: &Row, operation: Operation) -> (Outcome, Option<f64>) {
    let measured = place.meet(row.family).and_then(|peer| match operation {
        Operation::Connect if row.event == Event::FileLimit => open_without_files(place, peer),
        Operation::Connect => connect(place, peer, row),
        Operation::Accept => accept(place, peer, row),
        Operation::Read | Operation::Write | Operation::Shutdown | Operation::Close | Operation::Poll => {
            established(place, peer, row, operation)
        }
    });
    match measured {
        Ok((observation, noticed)) => {
            (Outcome::Measured(observation), noticed.map(|time| time.as_secs_f64() * 1_000.0))
        }
        Err(Failure::Skipped(reason)) => (Outcome::Skipped(reason), None),
        Err(failure) => (Outcome::Failed(failure.to_string()), None),
    }
}

fn connect(place: &Place, peer: Peer, row: &Row) -> Seeing {
    let mut happened = stage::meet_dialling(place, peer, row)?;
    let socket = stage::socket(place, peer, row.options)?;
    let mut probe = Probe::new(place, socket.as_fd());
    let begun = Instant::now();
    let dialled = stage::dial(place, &socket, peer);
    probe.note_call("connect", dialled.map(|()| "ok".into()));
    let mut noticed = None;
    match dialled {
        Ok(()) | Err(Errno::INPROGRESS) => {
            stage::after_dialling(place, &socket, peer, row, &mut happened)?;
            probe.record_state();
            noticed = wait(&socket, PollFlags::OUT, ROW_TIMEOUT).map(|_| begun.elapsed());
            place.settle()?;
            probe.record_state();
            probe.read_error(Some(fault::Operation::Connect));
        }
        Err(errno) => {
            probe.record_state();
            probe.record_cause(fault::Operation::Connect, errno);
            probe.read_error(None);
        }
    }
    probe.read()?;
    let observation = probe.finish();
    prove(row, peer, &place.path().seen())?;
    stage::abort(socket);
    Ok((observation, noticed))
}

/// Without a descriptor there is not even a socket.
fn open_without_files(place: &Place, peer: Peer) -> Seeing {
    let any = stage::socket(place, peer, Default::default())?;
    let mut probe = Probe::new(place, any.as_fd());
    let opened = {
        let _few = FewFiles::set(peer)?;
        peer.open()
    };
    if let Err(errno) = opened {
        probe.record_cause_without_socket(fault::Operation::Open, errno);
    }
    probe.note_call("socket", opened.map(|_| "ok".into()));
    Ok((probe.finish(), None))
}

fn accept(place: &Place, peer: Peer, row: &Row) -> Seeing {
    let mut queued = Queued::connect(place, peer, row)?;
    let happened = queued.meet(place, peer, row)?;
    let listener = &queued.listener;
    let mut probe = Probe::new(place, listener.as_fd());
    probe.record_state();
    let mut accepted = None;
    if row.event == Event::FileLimit {
        let _few = FewFiles::set(peer)?;
        for _ in 0..2 {
            probe.call("accept", Some(fault::Operation::Accept), |listener| {
                net::accept(listener).map(|_| "ok".into())
            })?;
        }
    }
    for _ in 0..2 {
        if accepted.is_none() {
            probe.call("accept", Some(fault::Operation::Accept), |listener| {
                accepted = Some(net::accept(listener)?);
                Ok("ok".into())
            })?;
        }
    }
    let observation = match &accepted {
        Some(socket) => {
            probe.go_on_with(socket.as_fd());
            probe.read()?;
            probe.read()?;
            probe.finish()
        }
        None => probe.finish(),
    };
    accepted.into_iter().for_each(stage::abort);
    drop(happened);
    Ok((observation, None))
}

fn established(place: &Place, peer: Peer, row: &Row, operation: Operation) -> Seeing {
    let mut pair = Pair::connect(place, peer, row)?;
    let begun = Instant::now();
    let happened = pair.meet(place, row)?;
    // An event that is noticed as soon as it arrives is timed before anything else is done.
    let mut noticed = None;
    let prompt = row.is_prompt();
    if prompt {
        noticed = wait(pair.ours(), NEWS, row.timeout()).map(|_| begun.elapsed());
    }
    place.settle()?;
    if operation == Operation::Close {
        return close(place, (peer, row), &mut pair, noticed);
    }
    let mut probe = Probe::new(place, pair.ours());
    probe.record_state();
    let act = |probe: &mut Probe<'_>| match operation {
        Operation::Write => probe.write(),
        Operation::Shutdown => probe.shut_down(),
        Operation::Read => probe.read(),
        Operation::Poll | Operation::Connect | Operation::Accept | Operation::Close => Ok(()),
    };
    act(&mut probe)?;
    if !prompt {
        noticed = probe.wait(NEWS, row.timeout()).map(|_| begun.elapsed());
        place.settle()?;
        probe.record_state();
    }
    act(&mut probe)?;
    act(&mut probe)?;
    // In the column poll it is the first who asks; in the others, it says what the calls have left.
    probe.read_error((operation == Operation::Poll).then_some(fault::Operation::Read));
    if operation == Operation::Poll {
        probe.read()?;
    }
    let observation = probe.finish();
    prove(row, peer, &place.path().seen())?;
    drop(happened);
    Ok((observation, noticed))
}

/// close(2), and what leaves our machine because of it.
fn close(place: &Place, (peer, row): (Peer, &Row), pair: &mut Pair, mut noticed: Option<Duration>) -> Seeing {
    let begun = Instant::now();
    let mut probe = Probe::new(place, pair.ours());
    probe.record_state();
    if !row.is_prompt() && row.ends() {
        noticed = probe.wait(NEWS, row.timeout()).map(|_| begun.elapsed());
        place.settle()?;
        probe.record_state();
    }
    let mut observation = probe.finish();
    prove(row, peer, &place.path().seen())?;
    place.path().forget();
    let ours = pair.take_ours();
    let closed = place.path().still(|| nix::unistd::close(ours));
    place.settle()?;
    let result = closed.map_or_else(|errno| format!("{errno:?}"), |()| "ok".into());
    observation.calls.push(Call { call: "close".into(), result });
    let seen = place.path().seen();
    let sent = match (seen.our_reset, seen.our_end) {
        (true, _) => "RST",
        (false, true) => "FIN",
        (false, false) => "nothing",
    };
    observation.sent = peer.is_tcp().then(|| sent.into());
    Ok((observation, noticed))
}

/// Checks that the event was seen on the path, where it can be: an experiment without its event proves nothing.
fn prove(row: &Row, peer: Peer, seen: &Seen) -> Result<(), Failure> {
    if !peer.is_tcp() {
        // A unix socket has no path: what was done to it is done when the call that did it has returned.
        return Ok(());
    }
    let (proven, what) = match row.event {
        Event::NobodyListens | Event::PeerResets | Event::PeerResetsBehindData => {
            (seen.peers_reset, "the peer's reset was on the path")
        }
        Event::PeerClosesUnread | Event::ListenerCloses => {
            (seen.peers_reset, "the peer's reset was on the path")
        }
        Event::PeerCloses | Event::PeerHalfCloses => (seen.peers_end, "the peer's FIN was on the path"),
        Event::Vanishes | Event::ZeroWindowVanishes => (seen.ruled > 0, "a packet was dropped"),
        Event::PathResets => (seen.ruled > 0, "the path answered with a reset"),
        Event::Icmp(_) => (seen.ruled > 0, "the path answered with an ICMP error"),
        Event::BacklogFull
        | Event::PathAbsent
        | Event::ZeroWindow
        | Event::InterfaceDown
        | Event::RouteRemoved
        | Event::Refusing(_)
        | Event::Destroyed
        | Event::FileLimit
        | Event::PortsExhausted => return Ok(()),
    };
    if proven { Ok(()) } else { Err(Failure::DidNotHappen(what)) }
}
