//! The path between the two ends of a place: it carries packets, or does with them what a firewall or a router does.
//!
//! In: the lab's ends of two interfaces, and a rule. Out: packets on the other side, and what was seen of them. One thread
//! carries them one by one, in order, so what a rule did is certain as soon as a packet that was sent later has arrived.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
#[expect(clippy::disallowed_types, reason = "a laboratory's path; no connection of a user is on it")]
use std::sync::Mutex;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::addresses::{ROUTERS, SMALL_MTU};
use super::packet::Packet;
use crate::port::Port;

/// Largest packet.
const MAX_PACKET_BYTES: usize = 65_535;

/// Handling of the packets between us and the watched peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Carries them.
    #[default]
    Pass,
    /// Drops them, in both directions, and says nothing.
    Drop,
    /// Drops ours; reports the first one by ICMP, destination unreachable with this code, and drops all others, in both
    /// directions. Routers bound the rate of such errors, too, and the time of a second one would vary.
    Unreachable(u8),
    /// Answers ours with a reset in the peer's name.
    Reset,
}

/// Packets of the watched peer and us that were seen since [`Path::watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// We sent a FIN.
    pub our_end: bool,
    /// We sent a reset.
    pub our_reset: bool,
    /// We sent anything.
    pub ours: bool,
    /// The peer sent a FIN.
    pub peers_end: bool,
    /// The peer sent a reset.
    pub peers_reset: bool,
    /// The peer's latest packet said that it has room for nothing more.
    pub peer_is_full: bool,
    /// Packets that the rule was applied to.
    pub ruled: u64,
}

#[derive(Debug)]
struct State {
    rule: Rule,
    watched: IpAddr,
    seen: Seen,
}

#[expect(clippy::disallowed_types, reason = "a laboratory's path; no connection of a user is on it")]
type Shared = Mutex<State>;

/// A path that carries packets until it is dropped.
#[derive(Debug)]
pub struct Path {
    state: Arc<Shared>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    /// Begins to carry packets between two hosts.
    ///
    /// **Errors**: no thread, or no descriptor for its stop.
    pub(crate) fn start(mut here: Port, mut there: Port) -> io::Result<Self> {
        let first = State { rule: Rule::Pass, watched: Ipv4Addr::UNSPECIFIED.into(), seen: Seen::default() };
        let state = Arc::new(Shared::new(first));
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (shared, stopped) = (state.clone(), stop.clone());
        let carry = move || carry(&mut here, &mut there, &stopped, &shared);
        let thread = std::thread::Builder::new().name("lab-path".into()).spawn(carry)?;
        Ok(Self { state, stop, thread: Some(thread) })
    }

    /// Everything passes, and from now on this peer is watched; nothing of it has been seen.
    pub fn watch(&self, peer: impl Into<IpAddr>) {
        let mut state = lock(&self.state);
        *state = State { rule: Rule::Pass, watched: peer.into(), seen: Seen::default() };
    }

    /// From now on this is done with packets between us and the watched peer.
    pub fn rule(&self, rule: Rule) {
        lock(&self.state).rule = rule;
    }

    /// Returns what has been seen.
    pub fn seen(&self) -> Seen {
        lock(&self.state).seen
    }

    /// Forgets what has been seen.
    pub fn forget(&self) {
        lock(&self.state).seen = Seen::default();
    }

    /// Makes a call while the path is paused.
    ///
    /// An answer that arrives while a call is still in the kernel finds the socket in use there and may be delayed, or reported in
    /// another way than one that arrives later: which of the two it is would be luck.
    pub(crate) fn still<T>(&self, call: impl FnOnce() -> T) -> T {
        let _held = lock(&self.state);
        call()
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    // A test thread that failed while it held the path leaves nothing half done in there.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn carry(here: &mut Port, there: &mut Port, stop: &OwnedFd, state: &Shared) {
    let mut packet = vec![0; MAX_PACKET_BYTES];
    loop {
        let ends = [here.as_fd(), there.as_fd(), stop.as_fd()];
        let mut ready = ends.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN));
        if poll(&mut ready, None).is_err() {
            continue;
        }
        let [ours, theirs, stopped] = ready.map(|end| !end.revents().is_empty());
        if stopped {
            return;
        }
        if ours {
            carry_one(here, there, true, &mut packet, state);
        }
        if theirs {
            carry_one(there, here, false, &mut packet, state);
        }
    }
}

/// Reads one packet and does with it what the rule says. An interface that is down refuses both, and its packets are lost: that
/// is what such an interface does.
fn carry_one(from: &mut Port, to: &mut Port, ours: bool, buffer: &mut [u8], state: &Shared) {
    let Ok(Some(received)) = from.receive(buffer) else { return };
    let bytes = &buffer[..received.length.min(buffer.len())];
    // Held until the packet, or the answer to it, is where it belongs.
    let mut state = lock(state);
    let Some(packet) = Packet::read(bytes) else {
        let _ = to.send(bytes);
        return;
    };
    let peer = if ours { packet.target() } else { packet.source() };
    if peer != state.watched {
        let _ = to.send(bytes);
        return;
    }
    state.seen.note(&packet, ours);
    let answer = match state.rule {
        Rule::Unreachable(code) if ours => packet.unreachable(ROUTERS, code, SMALL_MTU),
        Rule::Reset if ours => packet.reset(),
        Rule::Drop => {
            state.seen.ruled += 1;
            return;
        }
        Rule::Pass | Rule::Unreachable(_) | Rule::Reset => {
            let _ = to.send(bytes);
            return;
        }
    };
    state.seen.ruled += 1;
    if matches!(state.rule, Rule::Unreachable(_)) {
        state.rule = Rule::Drop;
    }
    let _ = from.send(&answer);
}

impl Seen {
    fn note(&mut self, packet: &Packet<'_>, ours: bool) {
        if ours {
            self.ours = true;
            self.our_end |= packet.is_fin();
            self.our_reset |= packet.is_reset();
        } else {
            self.peers_end |= packet.is_fin();
            self.peers_reset |= packet.is_reset();
            self.peer_is_full = packet.is_full();
        }
    }
}
