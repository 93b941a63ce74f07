//! The service manager, if one started this process: what it passed, and what it is told (sd_notify(3)).
//!
//! In: the environment at the start, and what happens to the program. Out: sockets to serve from; datagrams `READY=1`,
//! `RELOADING=1`, `STOPPING=1`, `WATCHDOG=1`, a sentence about how things are, and the sockets that it is to keep (`descriptor_store.rs`). Where
//! nobody wants to know, nothing is sent.

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

use descriptor_store::{Keeping, Say};

/// How long a datagram may wait for room in the service manager's queue, and we for it to have read one.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a sentence about how things are.
const SENTENCE: usize = 512;

/// What a service manager passed to this process.
#[derive(Debug, Default)]
pub struct ServiceManager {
    passed: FromServiceManager,
}

impl ServiceManager {
    /// Takes it from the environment, where no child will find it. To be called before any other thread is started.
    pub fn find() -> Self {
        Self { passed: from_service_manager() }
    }

    /// The sockets that can be accepted from; and where to say how things are. What cannot be used is said.
    pub fn take(self) -> (PassedSockets, Notifier) {
        let FromServiceManager { descriptors, notify, watchdog, problems } = self.passed;
        for problem in problems {
            tracing::warn!("from the service manager: {problem}");
        }
        let (mut sockets, mut keeping) = (Vec::new(), Keeping::default());
        for (place, (name, descriptor)) in descriptors.into_iter().enumerate() {
            match GivenSocket::new(descriptor) {
                Ok(socket) if keeping.was_passed(name.as_deref()) => {
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
                "tell the service manager at {}: {error}; it will not hear from this process",
                name.display()
            );
            Notifier::default()
        });
        notifier.keeping = keeping;
        (PassedSockets { sockets }, notifier)
    }
}

/// Tells the service manager.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddrUnix, Box<OsStr>)>,
    /// It takes the process for hung when it does not hear from it for so long.
    watchdog: Option<Duration>,
    /// Whether it was told that a reload has begun, and not yet that it has ended.
    reloading: bool,
    /// Whether it could not be told, which is said once.
    said: bool,
    keeping: Keeping,
}

impl Notifier {
    fn new(name: Option<&OsStr>, watchdog: Option<Duration>) -> io::Result<Self> {
        let Some(name) = name else { return Ok(Self::default()) };
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name)?,
            None => SocketAddrUnix::new(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { socket: Some((socket, address, name.into())), watchdog, ..Self::default() })
    }

    /// Whether it is told at an abstract address.
    pub fn is_abstract(&self) -> bool {
        self.socket.as_ref().is_some_and(|(.., name)| name.as_bytes().starts_with(b"@"))
    }

    /// Clients are served.
    pub fn ready(&mut self, how: &str) {
        self.reloading = false;
        self.send(&format!("READY=1\n{}", status(how)));
    }

    /// A reload begins. It has ended when [`Self::reloaded`] says so, whatever came of it.
    pub fn reloading(&mut self) {
        let Ok(now) = u64::try_from(microseconds()) else { return };
        self.reloading = true;
        self.send(&format!(
            "RELOADING=1\nMONOTONIC_USEC={now}\n{}",
            status("Reading the configuration again")
        ));
    }

    /// All reloads that were asked for have ended.
    pub fn reloaded(&mut self, how: &str) {
        match self.reloading {
            true => self.ready(how),
            false => self.says(how),
        }
    }

    /// Nothing is accepted any more.
    pub fn stopping(&mut self, how: &str) {
        self.send(&format!("STOPPING=1\n{}", status(how)));
    }

    /// Has a process that is started next told where to say how it is, too.
    pub fn tell(&self, command: &mut Command) {
        if let Some((_, _, name)) = &self.socket {
            command.env("NOTIFY_SOCKET", name);
            if let Some(watchdog) = self.watchdog {
                command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
            }
        }
    }

    /// This process is the service's main one from now on. It hears the main one alone.
    pub fn main_is(&mut self, process: u32, how: &str) {
        self.send(&format!("MAINPID={process}\n{}", status(how)));
    }

    /// Says nothing more: the end of this process is not the service's.
    pub fn falls_silent(&mut self) {
        self.socket = None;
    }

    /// How things are, in a sentence.
    pub fn says(&mut self, how: &str) {
        self.send(&status(how));
    }

    /// Every thread turns.
    pub fn turns(&mut self) {
        self.send("WATCHDOG=1");
    }

    /// How often to say that, if it wants to hear it: four times within the time after which it would act.
    pub fn turn_interval(&self) -> Option<Duration> {
        self.socket.as_ref()?;
        self.watchdog.map(|watchdog| watchdog / 4)
    }

    /// It is to keep these sockets, for the next process if this one is killed.
    pub fn keeps(&mut self, sockets: Vec<Arc<OwnedFd>>) {
        if self.socket.is_some() {
            let said = self.keeping.keep(sockets);
            self.says_of_sockets(said);
        }
    }

    /// It is to keep no others than these, and has closed the others when this returns, if it is not very slow: whoever stops to
    /// accept from one does so after that. **Cost**: waits for it, where there is one to be closed.
    pub fn lets_go_of_all_but(&mut self, sockets: &[Arc<OwnedFd>]) {
        let said = self.keeping.let_go_of_all_but(sockets);
        if !said.is_empty() {
            self.says_of_sockets(said);
            self.wait_until_read();
        }
    }

    fn says_of_sockets(&mut self, said: Vec<Say>) {
        for say in said {
            match say {
                Say::Keep(name, socket) => {
                    self.send_with(&format!("FDSTORE=1\nFDNAME={name}"), Some(socket.as_fd()));
                }
                Say::LetGo(name) => self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}")),
            }
        }
    }

    /// Waits until it has read all that was sent (`BARRIER=1`, sd_notify_barrier(3)): then it closes the pipe that it was sent.
    fn wait_until_read(&mut self) {
        let Ok((ours, theirs)) = pipe_with(PipeFlags::CLOEXEC) else { return };
        self.send_with("BARRIER=1", Some(theirs.as_fd()));
        drop(theirs);
        let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        // Interrupted or too late: it will read it later.
        let _ = poll(&mut [PollFd::new(&ours, PollFlags::empty())], Some(&patience));
    }

    fn send(&mut self, text: &str) {
        self.send_with(text, None);
    }

    /// Sends a text, with a descriptor that stays open here.
    fn send_with(&mut self, text: &str, descriptor: Option<BorrowedFd<'_>>) {
        let Some((socket, address, name)) = &self.socket else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptor) = &descriptor {
            control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
        }
        let text = [IoSlice::new(text.as_bytes())];
        match sendmsg_addr(socket, address, &text, &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => self.said = false,
            Err(_) if self.said => {}
            Err(error) => {
                self.said = true;
                tracing::warn!("tell the service manager at {}: {error}", name.display());
            }
        }
    }
}

/// A line of what is sent: a line end would begin another one.
fn status(how: &str) -> String {
    let line = how.lines().next().unwrap_or_default();
    let end = line.char_indices().map(|(at, _)| at).find(|at| *at >= SENTENCE).unwrap_or(line.len());
    format!("STATUS={}", &line[..end])
}

/// Of the monotonic clock, as the service manager reads it.
fn microseconds() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_one_line_of_a_bounded_length() {
        assert_eq!(status("Serving\nREADY=0"), "STATUS=Serving");
        assert_eq!(status(&"ä".repeat(1_000)).len(), "STATUS=".len() + SENTENCE);
        assert_eq!(status(""), "STATUS=");
    }
}
