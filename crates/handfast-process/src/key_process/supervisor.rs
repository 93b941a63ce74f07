//! The supervisor: starts the key process, and again when it ends. It has no keys, only waits, and ends with the proxy.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;

use super::channel::broadcast_end;
use super::child::{ControlMessage, Role, Setup, begin, receive_message, send_channels, send_message, start};
use crate::own_program::{RESTART_DELAY, SHORT_LIFETIME};
use handfast_net::descriptors::receive_descriptors;

struct Running {
    child: Child,
    /// Ends when it does.
    link: OwnedFd,
    started_at: Instant,
}

#[derive(PartialEq, Eq)]
enum WaitEnd {
    ProxyEnded,
    KeyProcessEnded,
    Deadline,
}

/// Supervises a key process for the proxy at the other end of standard input, until the proxy ends. `configuration` as for the key process.
///
/// **Errors**: it was started by hand; a process cannot be started.
pub fn supervise(channels: usize, configuration: Option<PathBuf>) -> io::Result<()> {
    let control = begin(c"key-supervisor")?;
    let far = receive_descriptors(&control, channels)?;
    let Some(mut setup) = Setup::receive(&control)? else { return Ok(()) };
    loop {
        let mut running = Running::start(&far, &setup, configuration.as_deref())?;
        let end = wait(&mut setup, &control, Some(&running.link), None);
        // It may have ended already.
        let _ = running.child.kill();
        let status = running.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        if end == WaitEnd::ProxyEnded {
            return Ok(());
        }
        far.iter().for_each(broadcast_end);
        // If the proxy ends at this moment, the next wait reports it.
        let _ = send_message(&control, ControlMessage::Ended, status.as_bytes());
        if running.started_at.elapsed() < SHORT_LIFETIME
            && wait(&mut setup, &control, None, Some(Instant::now() + RESTART_DELAY)) == WaitEnd::ProxyEnded
        {
            return Ok(());
        }
    }
}

impl Running {
    fn start(far: &[OwnedFd], setup: &Setup, configuration: Option<&Path>) -> io::Result<Self> {
        let started_at = Instant::now();
        let (child, link) = start(Role::KeyProcess, far.len(), configuration)?;
        // If it has ended already, the next wait reports it.
        let _ = send_channels(&link, far).and_then(|()| setup.send(&link));
        Ok(Self { child, link, started_at })
    }
}

/// Receives what the proxy sends, and forwards that the key process is ready, until one of them ends, or until the deadline.
fn wait(setup: &mut Setup, control: &OwnedFd, link: Option<&OwnedFd>, deadline: Option<Instant>) -> WaitEnd {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return WaitEnd::Deadline;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut ends: Vec<_> =
            [Some(control), link].into_iter().flatten().map(|end| PollFd::new(end, PollFlags::IN)).collect();
        if poll(&mut ends, timeout.as_ref()).is_err() {
            continue;
        }
        let is_ready = |index: usize| ends.get(index).is_some_and(|end| !end.revents().is_empty());
        if is_ready(0) && !receive(control, |message, content| setup.update(message, content)) {
            return WaitEnd::ProxyEnded;
        }
        let forward = |message, content: Vec<u8>| {
            // If the proxy ends at this moment, the next wait reports it.
            let _ = send_message(control, message, &content);
        };
        if is_ready(1) && link.is_some_and(|link| !receive(link, forward)) {
            return WaitEnd::KeyProcessEnded;
        }
    }
}

/// Receives a message without waiting for it; `false`: the other process has ended.
fn receive(from: &OwnedFd, take: impl FnOnce(ControlMessage, Vec<u8>)) -> bool {
    match receive_message(from, RecvFlags::DONTWAIT) {
        Ok(Some((message, content))) => take(message, content),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Ok(None) | Err(_) => return false,
    }
    true
}
