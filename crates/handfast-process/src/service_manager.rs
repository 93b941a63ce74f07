//! The service manager, if one started this process: what it passed, and the notifications that it receives (sd_notify(3)).
//!
//! In: the environment at the start, and state changes. Out: sockets to serve from, datagrams, and sockets for its descriptor store.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::listen::{GivenSocket, Origin};
use handfast_net::sys::environment::{FromServiceManager, from_service_manager};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{ClockId, clock_gettime};

use crate::listeners::{PassedSocket, PassedSockets};

mod descriptor_store;

use descriptor_store::{Change, DescriptorStore};

/// Timeout for a datagram to get room in the service manager's queue, and for the service manager to read one.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A longer status text is cut.
const MAX_STATUS_BYTES: usize = 512;

/// Sockets and settings that a service manager passed to this process.
#[derive(Debug, Default)]
pub struct ServiceManager {
    passed: FromServiceManager,
}

impl ServiceManager {
    /// Takes it out of the environment, so that no child inherits it. To be called before any other thread is started.
    pub fn find() -> Self {
        Self { passed: from_service_manager() }
    }

    /// The sockets that can be accepted from, and the sender of notifications. Logs what cannot be used.
    pub fn take(self) -> (PassedSockets, Notifier) {
        let FromServiceManager { descriptors, notify, watchdog, problems } = self.passed;
        for problem in problems {
            tracing::warn!("from the service manager: {problem}");
        }
        let (mut sockets, mut store) = (Vec::new(), DescriptorStore::default());
        for (place, (name, descriptor)) in descriptors.into_iter().enumerate() {
            match GivenSocket::new(descriptor) {
                Ok(socket) if store.recognizes(name.as_deref()) => {
                    sockets.push(PassedSocket { socket, name: None, written: None, origin: Origin::Kept });
                }
                Ok(socket) => {
                    sockets.push(PassedSocket { socket, name, written: None, origin: Origin::Inherited });
                }
                Err(unfit) => {
                    let named = name.map(|name| format!(" (named {name})")).unwrap_or_default();
                    let number = place + 3;
                    tracing::warn!(
                        "the service manager passed descriptor {number}{named}, which is {unfit}: it is not used"
                    );
                }
            }
        }
        let mut notifier = Notifier::new(notify.as_deref(), watchdog).unwrap_or_else(|error| {
            let name = notify.unwrap_or_default();
            tracing::warn!(
                "notify the service manager at {}: {error}; it will receive nothing from this process",
                name.display()
            );
            Notifier::default()
        });
        notifier.store = store;
        (PassedSockets { sockets }, notifier)
    }
}

/// Sends notifications to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddrUnix, Box<OsStr>)>,
    /// It takes the process for hung when it receives no ping for this duration.
    watchdog_timeout: Option<Duration>,
    /// True if it was notified of the begin of a reload, and not yet of its end.
    is_reloading: bool,
    /// An error is logged once, until a notification is sent again.
    is_error_logged: bool,
    store: DescriptorStore,
}

impl Notifier {
    fn new(name: Option<&OsStr>, watchdog_timeout: Option<Duration>) -> io::Result<Self> {
        let Some(name) = name else { return Ok(Self::default()) };
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name)?,
            None => SocketAddrUnix::new(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { socket: Some((socket, address, name.into())), watchdog_timeout, ..Self::default() })
    }

    /// Returns true if notifications go to an abstract unix socket.
    pub fn is_abstract(&self) -> bool {
        self.socket.as_ref().is_some_and(|(.., name)| name.as_bytes().starts_with(b"@"))
    }

    /// Sends that clients are served, with a status text.
    pub fn ready(&mut self, text: &str) {
        self.is_reloading = false;
        self.send_state("READY=1", text);
    }

    /// Sends that a reload begins. [`Self::reloaded`] ends it, whatever its outcome.
    pub fn reloading(&mut self) {
        let Ok(now) = u64::try_from(microseconds()) else { return };
        self.is_reloading = true;
        let state = format!("RELOADING=1\nMONOTONIC_USEC={now}");
        self.send_state(&state, "Reading the configuration again");
    }

    /// Sends that all requested reloads have ended, with a status text.
    pub fn reloaded(&mut self, text: &str) {
        match self.is_reloading {
            true => self.ready(text),
            false => self.set_status(text),
        }
    }

    /// Sends that no connection is accepted any more, with a status text.
    pub fn stopping(&mut self, text: &str) {
        self.send_state("STOPPING=1", text);
    }

    /// Lets a child process send notifications, too.
    pub fn pass_to(&self, command: &mut Command) {
        if let Some((_, _, name)) = &self.socket {
            command.env("NOTIFY_SOCKET", name);
            if let Some(timeout) = self.watchdog_timeout {
                command.env("WATCHDOG_USEC", timeout.as_micros().to_string());
            }
        }
    }

    /// Makes another process the main process of the service: from then on the service manager accepts notifications of that one only.
    pub fn set_main_process(&mut self, process: u32, text: &str) {
        self.send_state(&format!("MAINPID={process}"), text);
    }

    /// Sends nothing more: the service goes on when this process ends.
    pub fn disconnect(&mut self) {
        self.socket = None;
    }

    /// Sends a status text.
    pub fn set_status(&mut self, text: &str) {
        self.send(&status(text));
    }

    /// Sends the watchdog ping: every thread is responsive.
    pub fn ping_watchdog(&mut self) {
        self.send("WATCHDOG=1");
    }

    /// The interval of watchdog pings, if it expects them: a quarter of its timeout.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.socket.as_ref()?;
        self.watchdog_timeout.map(|timeout| timeout / 4)
    }

    /// Adds sockets to its descriptor store, for the next process if this one is killed.
    pub fn store_sockets(&mut self, sockets: Vec<Arc<OwnedFd>>) {
        if self.socket.is_some() {
            let changes = self.store.add(sockets);
            self.send_changes(changes);
        }
    }

    /// Removes all other sockets from its descriptor store. It has closed them when this returns, if it is not very slow, so a caller
    /// stops accepting from them after that. **Cost**: waits for it, where there is a socket to remove.
    pub fn retain_sockets(&mut self, sockets: &[Arc<OwnedFd>]) {
        let changes = self.store.retain(sockets);
        if !changes.is_empty() {
            self.send_changes(changes);
            self.wait_until_read();
        }
    }

    fn send_changes(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Add(name, socket) => {
                    self.send_with(&format!("FDSTORE=1\nFDNAME={name}"), Some(socket.as_fd()));
                }
                Change::Remove(name) => self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}")),
            }
        }
    }

    /// Waits until it has read everything (`BARRIER=1`, sd_notify_barrier(3)): it closes this pipe when it reads the message.
    fn wait_until_read(&mut self) {
        let Ok((ours, theirs)) = pipe_with(PipeFlags::CLOEXEC) else { return };
        self.send_with("BARRIER=1", Some(theirs.as_fd()));
        drop(theirs);
        let timeout = Timespec { tv_sec: TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
        // After an interruption or the timeout it reads the message later.
        let _ = poll(&mut [PollFd::new(&ours, PollFlags::empty())], Some(&timeout));
    }

    fn send_state(&mut self, state: &str, text: &str) {
        self.send(&format!("{state}\n{}", status(text)));
    }

    fn send(&mut self, text: &str) {
        self.send_with(text, None);
    }

    /// Sends a text with a descriptor, which stays open here.
    fn send_with(&mut self, text: &str, descriptor: Option<BorrowedFd<'_>>) {
        let Some((socket, address, name)) = &self.socket else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptor) = &descriptor {
            control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
        }
        let text = [IoSlice::new(text.as_bytes())];
        match sendmsg_addr(socket, address, &text, &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => self.is_error_logged = false,
            Err(_) if self.is_error_logged => {}
            Err(error) => {
                self.is_error_logged = true;
                tracing::warn!("notify the service manager at {}: {error}", name.display());
            }
        }
    }
}

/// The line with the status text: its first line, because a line end would begin another assignment.
fn status(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let end = line.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_STATUS_BYTES).unwrap_or(line.len());
    format!("STATUS={}", &line[..end])
}

fn microseconds() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line_of_a_bounded_length() {
        assert_eq!(status("Serving\nREADY=0"), "STATUS=Serving");
        assert_eq!(status(&"ä".repeat(1_000)).len(), "STATUS=".len() + MAX_STATUS_BYTES);
        assert_eq!(status(""), "STATUS=");
    }
}
