//! Preparation of the sockets for an event, and the making of each event.
//!
//! In: a place and a row. Out: sockets, and a value that undoes the event when it is dropped. Every function ends when what it
//! caused has arrived, so that the next call meets a state and not a race.

use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use handfast_net::sys;
use rustix::io::Errno;
use rustix::net::{self, SendFlags, Shutdown, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Failure;
use super::path::Rule;
use super::peer::{Peer, Target};
use super::place::{Place, Repair};
use super::probe::{HELLO, wait};
use super::rows::{Event, KEEP_ALIVE, Options, Row, USER_TIMEOUT};
use rustix::event::PollFlags;

/// Buffers of a connection whose window is to be full; the kernel doubles them.
const SMALL_BUFFER: usize = 4_096;
/// Maximum number of attempts to fill a window; a few are enough.
const FILLINGS: usize = 1_000;
/// SYNs that are sent again without an answer: 1 s after the first, and then it takes 2 s until connect has failed.
const SYN_REPEATS: u8 = 1;
/// Connections that a full queue is filled with, at most.
const FILLERS: usize = 8;

/// Two ends of one connection; ours is the one under test.
pub(super) struct Pair {
    /// Until it is closed.
    ours: Option<OwnedFd>,
    theirs: Option<OwnedFd>,
    listener: Option<OwnedFd>,
    addresses: (Target, Target),
}

/// An event that has happened; dropping it undoes what would affect the next experiment.
#[derive(Default)]
pub(super) struct Happened<'a>(Option<Repair<'a>>, Vec<OwnedFd>);

/// A socket of ours with the options of the row.
pub(super) fn socket(place: &Place, peer: Peer, options: Options) -> Result<OwnedFd, Failure> {
    let socket = place.here(|| peer.open())?.map_err(Failure::errno("open a socket here"))?;
    set(&socket, peer, options)?;
    Ok(socket)
}

fn set(socket: &OwnedFd, peer: Peer, options: Options) -> Result<(), Failure> {
    if !peer.is_tcp() {
        // All of them are TCP's.
        return Ok(());
    }
    let set = || {
        if options.user_timeout {
            sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT.as_millis() as u32)?;
        }
        if options.keep_alive {
            sockopt::set_tcp_keepidle(socket, KEEP_ALIVE)?;
            sockopt::set_tcp_keepintvl(socket, KEEP_ALIVE)?;
            sockopt::set_tcp_keepcnt(socket, 1)?;
            sockopt::set_socket_keepalive(socket, true)?;
        }
        Ok::<_, Errno>(())
    };
    set().map_err(Failure::errno("set socket options"))?;
    sys::repeat_syn(socket, SYN_REPEATS).map_err(Failure::io("set TCP_SYNCNT"))?;
    match options.report_icmp {
        true => sys::report_icmp_errors(socket).map_err(Failure::io("set IP_RECVERR")),
        false => Ok(()),
    }
}

/// A listener, opened by the calling thread.
fn listen(peer: Peer, address: &Target, backlog: i32, small: bool) -> Result<OwnedFd, Errno> {
    let listener = peer.open()?;
    if small {
        sockopt::set_socket_recv_buffer_size(&listener, SMALL_BUFFER)?;
    }
    address.bind(&listener)?;
    net::listen(&listener, backlog)?;
    Ok(listener)
}

/// A peer that listens.
pub(super) fn peer_listens(place: &Place, peer: Peer, backlog: i32) -> Result<OwnedFd, Failure> {
    let small = false;
    place
        .there(|| listen(peer, &peer.listening_target(), backlog, small))?
        .map_err(Failure::errno("listen on the other host"))
}

/// connect(2) while the path is paused.
pub(super) fn dial(place: &Place, socket: &OwnedFd, peer: Peer) -> Result<(), Errno> {
    place.path().still(|| peer.listening_target().connect(socket))
}

/// A reset for the other end, and no TIME_WAIT here.
pub(super) fn abort(socket: OwnedFd) {
    let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
}

/// Ends one of our sockets from outside.
fn destroy(place: &Place, (from, to): (&Target, &Target)) -> Result<(), Failure> {
    let v4 = |target: &Target| match target {
        Target::Tcp(SocketAddr::V4(address)) => Some(*address),
        _ => None,
    };
    let both: Option<(SocketAddrV4, SocketAddrV4)> = v4(from).zip(v4(to));
    let (from, to) = both.ok_or(Failure::DidNotHappen("the socket has an IPv4 address"))?;
    place.destroy(from, to)
}

impl Pair {
    /// A connection from us to the peer, accepted there unless the row is about one that is not.
    pub(super) fn connect(place: &Place, peer: Peer, row: &Row) -> Result<Self, Failure> {
        let small = matches!(row.event, Event::ZeroWindow | Event::ZeroWindowVanishes);
        let listener = place
            .there(|| listen(peer, &peer.listening_target(), 16, small))?
            .map_err(Failure::errno("listen on the other host"))?;
        let ours = socket(place, peer, row.options)?;
        if small {
            sockopt::set_socket_send_buffer_size(&ours, SMALL_BUFFER)
                .map_err(Failure::errno("set the size of a buffer"))?;
        }
        match dial(place, &ours, peer) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(Failure::errno("connect to the peer")(errno)),
        }
        place.settle()?;
        net::getpeername(&ours).map_err(Failure::errno("see the connection established"))?;
        let addresses = (peer.is_awaited_at().of(&ours)?, peer.listening_target());
        let (theirs, listener) = match row.event {
            Event::ListenerCloses => (None, Some(listener)),
            _ => {
                let theirs = net::accept(&listener).map_err(Failure::errno("accept on the other host"))?;
                (Some(theirs), None)
            }
        };
        Ok(Self { ours: Some(ours), theirs, listener, addresses })
    }

    /// Our end.
    pub(super) fn ours(&self) -> BorrowedFd<'_> {
        self.ours.as_ref().expect("it is taken by its last user").as_fd()
    }

    /// Our end, to be closed.
    pub(super) fn take_ours(&mut self) -> OwnedFd {
        self.ours.take().expect("it is taken by its last user")
    }

    fn theirs(&self) -> Result<&OwnedFd, Failure> {
        self.theirs.as_ref().ok_or(Failure::DidNotHappen("the peer has its end"))
    }

    fn send(&self) -> Result<(), Failure> {
        send(self.ours())
    }

    /// Makes the event happen to an established connection.
    pub(super) fn meet<'a>(&mut self, place: &'a Place, row: &Row) -> Result<Happened<'a>, Failure> {
        let mut happened = Happened::default();
        match row.event {
            Event::PeerCloses => drop(self.theirs.take()),
            Event::PeerClosesUnread => {
                self.send()?;
                place.settle()?;
                drop(self.theirs.take());
            }
            Event::PeerHalfCloses => {
                net::shutdown(self.theirs()?, Shutdown::Write)
                    .map_err(Failure::errno("end the peer's direction"))?;
            }
            Event::PeerResets => self.theirs.take().into_iter().for_each(abort),
            Event::PeerResetsBehindData => {
                send(self.theirs()?)?;
                place.settle()?;
                self.theirs.take().into_iter().for_each(abort);
            }
            Event::ListenerCloses => drop(self.listener.take()),
            Event::ZeroWindow => self.fill(place)?,
            Event::ZeroWindowVanishes => {
                self.fill(place)?;
                place.path().rule(Rule::Drop);
            }
            Event::Vanishes => self.break_path(place, row, Rule::Drop)?,
            Event::PathResets => self.break_path(place, row, Rule::Reset)?,
            Event::Icmp(code) => self.break_path(place, row, Rule::Unreachable(code))?,
            Event::InterfaceDown => {
                self.break_path(place, row, Rule::Drop)?;
                happened.0 = Some(place.without_interface()?);
            }
            Event::RouteRemoved => {
                self.break_path(place, row, Rule::Drop)?;
                happened.0 = Some(place.without_route()?);
            }
            Event::Destroyed => destroy(place, (&self.addresses.0, &self.addresses.1))?,
            Event::NobodyListens
            | Event::PathAbsent
            | Event::BacklogFull
            | Event::Refusing(_)
            | Event::FileLimit
            | Event::PortsExhausted => {
                return Err(Failure::DidNotHappen("the event meets established connections"));
            }
        }
        Ok(happened)
    }

    fn break_path(&self, place: &Place, row: &Row, rule: Rule) -> Result<(), Failure> {
        place.path().rule(rule);
        if row.options.in_flight {
            place.path().still(|| self.send())?;
        }
        place.settle()
    }

    /// Writes until the peer says that it is full, and then until our own buffer is.
    fn fill(&self, place: &Place) -> Result<(), Failure> {
        let mut quiet = 0;
        for _ in 0..FILLINGS {
            let written = place.path().still(|| net::send(self.ours(), &[b'x'; 1_024], SendFlags::NOSIGNAL));
            place.settle()?;
            quiet = match written {
                Err(Errno::AGAIN) if place.path().seen().peer_is_full => quiet + 1,
                Ok(_) => 0,
                // The peer acknowledges late on purpose, by up to 40 ms.
                Err(Errno::AGAIN) => {
                    wait(self.ours(), PollFlags::OUT, Duration::from_millis(5));
                    0
                }
                Err(errno) => return Err(Failure::errno("fill the window")(errno)),
            };
            if quiet == 2 {
                return Ok(());
            }
        }
        Err(Failure::DidNotHappen("the peer's window is full"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in [self.theirs.take(), self.ours.take()].into_iter().flatten() {
            abort(end);
        }
    }
}

fn send(socket: impl AsFd) -> Result<(), Failure> {
    net::send(socket, HELLO, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
        .map(drop)
        .map_err(Failure::errno("send bytes before the event"))
}

/// Makes the event happen to a connection that is about to be dialled.
pub(super) fn meet_dialling<'a>(place: &'a Place, peer: Peer, row: &Row) -> Result<Happened<'a>, Failure> {
    let mut happened = Happened::default();
    match row.event {
        Event::PeerCloses
        | Event::PeerHalfCloses
        | Event::PeerResets
        | Event::PeerResetsBehindData
        | Event::ListenerCloses => happened.1.push(peer_listens(place, peer, 16)?),
        Event::BacklogFull => fill_queue(place, peer, &mut happened.1)?,
        Event::Vanishes | Event::Destroyed => place.path().rule(Rule::Drop),
        Event::PathResets => place.path().rule(Rule::Reset),
        Event::Icmp(code) => place.path().rule(Rule::Unreachable(code)),
        Event::InterfaceDown => happened.0 = Some(place.without_interface()?),
        Event::RouteRemoved => happened.0 = Some(place.without_route()?),
        Event::Refusing(way) => match peer {
            Peer::At(address) => happened.0 = Some(place.with_route(address, way)?),
            Peer::Path(_) => return Err(Failure::DidNotHappen("a route leads to the peer")),
        },
        Event::PortsExhausted => {
            happened.1.push(peer_listens(place, peer, 16)?);
            happened.0 = Some(place.with_ports(40_000, 40_001)?);
            for _ in 0..2 {
                let user = socket(place, peer, Options::default())?;
                let _ = dial(place, &user, peer);
                happened.1.push(user);
            }
            place.settle()?;
        }
        Event::NobodyListens if !peer.is_tcp() => leave_path(peer)?,
        Event::NobodyListens | Event::PathAbsent | Event::FileLimit => {}
        Event::PeerClosesUnread | Event::ZeroWindow | Event::ZeroWindowVanishes => {
            return Err(Failure::DidNotHappen("the event meets connections that are dialled"));
        }
    }
    Ok(happened)
}

/// Makes the peer's events that come as soon as the connection is established, before we have looked.
pub(super) fn after_dialling(
    place: &Place,
    socket: &OwnedFd,
    peer: Peer,
    row: &Row,
    happened: &mut Happened<'_>,
) -> Result<(), Failure> {
    place.settle()?;
    let accept = |happened: &Happened<'_>| {
        let listener = happened.1.first().ok_or(Failure::DidNotHappen("the peer listens"))?;
        net::accept(listener).map_err(Failure::errno("accept on the other host"))
    };
    match row.event {
        Event::PeerCloses => drop(accept(happened)?),
        Event::PeerHalfCloses => {
            let theirs = accept(happened)?;
            net::shutdown(&theirs, Shutdown::Write).map_err(Failure::errno("end the peer's direction"))?;
            happened.1.push(theirs);
        }
        Event::PeerResets => abort(accept(happened)?),
        Event::PeerResetsBehindData => {
            let theirs = accept(happened)?;
            send(&theirs)?;
            place.settle()?;
            abort(theirs);
        }
        Event::ListenerCloses => happened.1.clear(),
        Event::Destroyed => destroy(place, (&peer.is_awaited_at().of(socket)?, &peer.listening_target()))?,
        _ => {}
    }
    place.settle()
}

/// Leaves a unix socket without a listener at the peer's path, as a program does that was killed.
fn leave_path(peer: Peer) -> Result<(), Failure> {
    let bind = || peer.listening_target().bind(&peer.open()?);
    bind().map_err(Failure::errno("leave a unix socket behind"))
}

/// Fills the queue of a listener on the other host until a connection is not established any more.
fn fill_queue(place: &Place, peer: Peer, kept: &mut Vec<OwnedFd>) -> Result<(), Failure> {
    kept.push(peer_listens(place, peer, 0)?);
    for _ in 0..FILLERS {
        let filler = socket(place, peer, Options::default())?;
        let _ = dial(place, &filler, peer);
        place.settle()?;
        if net::getpeername(&filler).is_err() {
            return Ok(());
        }
        kept.push(filler);
    }
    Err(Failure::DidNotHappen("the queue of the listener is full"))
}

/// A listener of ours with a connection in its queue, or one that is on its way.
pub(super) struct Queued {
    /// The listener.
    pub(super) listener: OwnedFd,
    theirs: Option<OwnedFd>,
    addresses: (Target, Target),
}

impl Queued {
    /// A peer dials us.
    pub(super) fn connect(place: &Place, peer: Peer, row: &Row) -> Result<Self, Failure> {
        let backlog = if row.event == Event::BacklogFull { 0 } else { 16 };
        let listener = place
            .here(|| listen(peer, &peer.is_awaited_at(), backlog, false))?
            .map_err(Failure::errno("listen here"))?;
        set(&listener, peer, row.options)?;
        let ours = peer.is_awaited_at().of(&listener)?;
        match row.event {
            Event::PathResets => place.path().rule(Rule::Reset),
            Event::Icmp(code) => place.path().rule(Rule::Unreachable(code)),
            _ => {}
        }
        let theirs = dial_us(place, peer, &ours)?;
        let from = peer.is_awaited_at().of(&theirs)?;
        let addresses = (ours, from);
        Ok(Self { listener, theirs: Some(theirs), addresses })
    }

    /// Makes the event happen to the connection in the queue.
    pub(super) fn meet<'a>(
        &mut self,
        place: &'a Place,
        peer: Peer,
        row: &Row,
    ) -> Result<Happened<'a>, Failure> {
        let mut happened = Happened::default();
        let theirs = self.theirs.as_ref().ok_or(Failure::DidNotHappen("the peer has its end"))?;
        match row.event {
            Event::PeerCloses => drop(self.theirs.take()),
            Event::PeerHalfCloses => {
                net::shutdown(theirs, Shutdown::Write).map_err(Failure::errno("end the peer's direction"))?;
            }
            Event::PeerResets => self.theirs.take().into_iter().for_each(abort),
            Event::PeerResetsBehindData => {
                send(theirs)?;
                place.settle()?;
                self.theirs.take().into_iter().for_each(abort);
            }
            Event::ListenerCloses => {
                net::shutdown(&self.listener, Shutdown::Both)
                    .map_err(Failure::errno("shut the listener down"))?;
            }
            Event::BacklogFull => {
                for _ in 0..FILLERS {
                    let filler = dial_us(place, peer, &self.addresses.0)?;
                    let queued = net::getpeername(&filler).is_ok();
                    happened.1.push(filler);
                    if !queued {
                        return Ok(happened);
                    }
                }
                return Err(Failure::DidNotHappen("our queue is full"));
            }
            Event::Vanishes => {
                place.path().rule(Rule::Drop);
                send(theirs)?;
            }
            Event::InterfaceDown => happened.0 = Some(place.without_interface()?),
            Event::RouteRemoved => happened.0 = Some(place.without_route()?),
            Event::Destroyed => destroy(place, (&self.addresses.0, &self.addresses.1))?,
            Event::PathResets | Event::Icmp(_) | Event::FileLimit => {}
            Event::NobodyListens
            | Event::PathAbsent
            | Event::PeerClosesUnread
            | Event::ZeroWindow
            | Event::ZeroWindowVanishes
            | Event::Refusing(_)
            | Event::PortsExhausted => {
                return Err(Failure::DidNotHappen("the event meets connections in a queue"));
            }
        }
        place.settle()?;
        Ok(happened)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.theirs.take().into_iter().for_each(abort);
    }
}

/// A socket on the other host that dials one of ours.
fn dial_us(place: &Place, peer: Peer, ours: &Target) -> Result<OwnedFd, Failure> {
    let theirs = place
        .there(|| {
            let theirs = peer.open()?;
            peer.bind_to_dial(&theirs)?;
            match ours.connect(&theirs) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(theirs),
                // Of a unix socket: the queue is full, and who asks whether it is connected sees it.
                Err(Errno::AGAIN) if !peer.is_tcp() => Ok(theirs),
                Err(errno) => Err(errno),
            }
        })?
        .map_err(Failure::errno("dial from the other host"))?;
    place.settle()?;
    Ok(theirs)
}

/// No descriptor is left for this process while it lives.
pub(super) struct FewFiles(Rlimit);

impl FewFiles {
    /// Lowers the limit to the number that the next descriptor would have. Numbers are given out from below, so all lower
    /// ones are taken.
    pub(super) fn set(peer: Peer) -> Result<Self, Failure> {
        use std::os::fd::AsRawFd;
        let before = getrlimit(Resource::Nofile);
        let next = peer.open().map_err(Failure::errno("open a socket"))?.as_raw_fd();
        let limit = Rlimit { current: u64::try_from(next).ok(), maximum: before.maximum };
        setrlimit(Resource::Nofile, limit).map_err(Failure::errno("lower RLIMIT_NOFILE"))?;
        Ok(Self(before))
    }
}

impl Drop for FewFiles {
    fn drop(&mut self) {
        // It was allowed before; what is opened next says it when it fails.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: self.0.current, maximum: self.0.maximum });
    }
}
