//! Calls on the socket under test, and everything that can be asked of it without changing it.
//!
//! In: a socket and the path it is on. Out: an [`Observation`]. Calls never wait, and the path is paused during each.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use handfast_net::fault::{self, Fault};
use handfast_net::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown, sockopt};

use super::Failure;
use super::outcome::{Call, Observation};
use super::place::Place;

/// Bytes that are written: short enough to travel in one piece.
pub(super) const HELLO: &[u8] = b"hello";
/// Events that report an end or data.
pub(super) const NEWS: PollFlags = PollFlags::IN.union(PollFlags::RDHUP);

/// The socket under test.
pub(super) struct Probe<'a> {
    place: &'a Place,
    socket: BorrowedFd<'a>,
    seen: Observation,
    /// True if an error was reported to the user already.
    is_reported: bool,
}

impl<'a> Probe<'a> {
    /// Nothing is known of it yet.
    pub(super) fn new(place: &'a Place, socket: BorrowedFd<'a>) -> Self {
        Self { place, socket, seen: Observation::default(), is_reported: false }
    }

    /// Goes on with another socket: the one that accept(2) gave.
    pub(super) fn go_on_with(&mut self, socket: BorrowedFd<'a>) {
        self.socket = socket;
        self.record_state();
    }

    /// Notes what poll(2) and TCP_INFO say, where it is something new.
    pub(super) fn record_state(&mut self) {
        note(&mut self.seen.poll, bits(self.socket));
        if let Some(info) = sys::tcp_info(self.socket) {
            note(&mut self.seen.state, state_name(info.state).into());
        }
    }

    /// Makes a call, notes what it said, and waits until what it caused has arrived.
    pub(super) fn call(
        &mut self,
        name: &str,
        operation: Option<fault::Operation>,
        call: impl FnOnce(BorrowedFd<'a>) -> Result<String, Errno>,
    ) -> Result<(), Failure> {
        let socket = self.socket;
        let result = self.place.path().still(|| call(socket));
        if let (Err(errno), Some(operation)) = (&result, operation) {
            self.record_cause(operation, *errno);
        }
        self.note_call(name, result);
        self.place.settle()?;
        self.record_state();
        Ok(())
    }

    /// Notes a call that was made elsewhere.
    pub(super) fn note_call(&mut self, name: &str, result: Result<String, Errno>) {
        let result = result.unwrap_or_else(errno_name);
        self.seen.calls.push(Call { call: name.into(), result });
    }

    /// recv(2).
    pub(super) fn read(&mut self) -> Result<(), Failure> {
        self.call("read", Some(fault::Operation::Read), |socket| {
            let (_, length) = net::recv(socket, &mut [0; 64][..], RecvFlags::DONTWAIT)?;
            Ok(length.to_string())
        })
    }

    /// send(2).
    pub(super) fn write(&mut self) -> Result<(), Failure> {
        self.call("write", Some(fault::Operation::Write), |socket| {
            let length = net::send(socket, HELLO, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
            Ok(length.to_string())
        })
    }

    /// shutdown(2) of our direction. Its error is no cause: the connection is over then anyway.
    pub(super) fn shut_down(&mut self) -> Result<(), Failure> {
        self.call("shutdown", None, |socket| net::shutdown(socket, Shutdown::Write).map(|()| "ok".into()))
    }

    /// SO_ERROR, twice: the first time takes what is there. `operation` is what a program was about when it asked.
    pub(super) fn read_error(&mut self, operation: Option<fault::Operation>) {
        for _ in 0..2 {
            let word = match sockopt::socket_error(self.socket) {
                Ok(Ok(())) => "0".into(),
                Ok(Err(errno)) => {
                    if let Some(operation) = operation {
                        self.record_cause(operation, errno);
                    }
                    errno_name(errno)
                }
                Err(errno) => errno_name(errno),
            };
            self.seen.so_error.push(word);
        }
    }

    /// Stores the cause that Handfast reports for the first error: it looks for the cause as soon as it meets one.
    pub(super) fn record_cause(&mut self, operation: fault::Operation, errno: Errno) {
        // Of connect it is an error: the queue of a unix socket is full.
        let again = errno == Errno::AGAIN && operation != fault::Operation::Connect;
        if self.is_reported || again || matches!(errno, Errno::INPROGRESS | Errno::INTR) {
            return;
        }
        self.is_reported = true;
        let fault = Fault::of(operation, errno, Some(self.socket));
        self.seen.cause = Some(word(fault.cause));
        // It takes the ICMP message out of the error queue.
        if let Some(evidence) = fault.evidence.filter(|evidence| evidence.starts_with("ICMP")) {
            self.seen.error_queue.push(evidence.into());
        }
    }

    /// The error of a call that had no socket yet.
    pub(super) fn record_cause_without_socket(&mut self, operation: fault::Operation, errno: Errno) {
        self.is_reported = true;
        self.seen.cause = Some(word(Fault::of(operation, errno, None).cause));
    }

    /// Waits until there is something to report, at most for this duration. Returns how long it took.
    pub(super) fn wait(&mut self, news: PollFlags, timeout: Duration) -> Option<Duration> {
        let took = wait(self.socket, news, timeout);
        self.record_state();
        took
    }

    /// Takes what is in the error queue, and ends.
    pub(super) fn finish(mut self) -> Observation {
        while let Some(icmp) = sys::take_icmp_error(self.socket) {
            let from = icmp.offender.map(|offender| format!(" from {offender}")).unwrap_or_default();
            self.seen.error_queue.push(format!("ICMP type {} code {}{from}", icmp.kind, icmp.code));
        }
        self.seen
    }
}

/// Waits until poll(2) says one of these, or an error, or an end of both directions.
pub(super) fn wait(socket: impl AsFd, news: PollFlags, limit: Duration) -> Option<Duration> {
    let begun = Instant::now();
    loop {
        let left = limit.checked_sub(begun.elapsed())?;
        let timeout = Timespec::try_from(left).ok()?;
        match poll(&mut [PollFd::new(&socket, news)], Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) => return Some(begun.elapsed()),
            // A signal.
            Err(_) => {}
        }
    }
}

/// Present events of poll(2), by the names of its bits; `-` for nothing.
fn bits(socket: BorrowedFd<'_>) -> String {
    let all = PollFlags::IN | PollFlags::OUT | PollFlags::PRI | PollFlags::RDHUP;
    let mut ready = [PollFd::new(&socket, all)];
    if poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
        return "?".into();
    }
    let events = ready[0].revents();
    let names = [
        (PollFlags::IN, "IN"),
        (PollFlags::PRI, "PRI"),
        (PollFlags::OUT, "OUT"),
        (PollFlags::ERR, "ERR"),
        (PollFlags::HUP, "HUP"),
        (PollFlags::RDHUP, "RDHUP"),
        (PollFlags::NVAL, "NVAL"),
    ];
    let set: Vec<&str> =
        names.iter().filter(|(bit, _)| events.contains(*bit)).map(|(_, name)| *name).collect();
    if set.is_empty() { "-".into() } else { set.join(" ") }
}

fn note(list: &mut Vec<String>, word: String) {
    if list.last() != Some(&word) {
        list.push(word);
    }
}

/// The word of a cause in logs; where there is none, the errno's.
fn word(cause: fault::Cause) -> String {
    match cause {
        fault::Cause::Errno(number) => errno_name(Errno::from_raw_os_error(number)),
        known => known.name().into(),
    }
}

/// The name in errno.h.
pub(super) fn errno_name(errno: Errno) -> String {
    format!("{:?}", nix::errno::Errno::from_raw(errno.raw_os_error()))
}

/// `enum tcp_state` in the kernel's net/tcp_states.h.
fn state_name(state: u8) -> &'static str {
    match state {
        1 => "ESTABLISHED",
        2 => "SYN_SENT",
        3 => "SYN_RECV",
        4 => "FIN_WAIT1",
        5 => "FIN_WAIT2",
        6 => "TIME_WAIT",
        7 => "CLOSE",
        8 => "CLOSE_WAIT",
        9 => "LAST_ACK",
        10 => "LISTEN",
        11 => "CLOSING",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errnos_are_written_as_in_errno_h() {
        let names = [Errno::CONNRESET, Errno::TIMEDOUT, Errno::NOTCONN, Errno::AGAIN].map(errno_name);
        assert_eq!(names, ["ECONNRESET", "ETIMEDOUT", "ENOTCONN", "EAGAIN"]);
    }

    #[test]
    fn what_is_reported_again_is_noted_once() {
        let mut list = Vec::new();
        for word in ["a", "a", "b", "a"] {
            note(&mut list, word.into());
        }
        assert_eq!(list, ["a", "b", "a"]);
    }
}
