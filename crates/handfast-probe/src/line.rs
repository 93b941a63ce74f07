//! One TCP connection with the kernel's timestamps: when bytes were sent, acknowledged and received.
//!
//! In: an address. Out: bytes, and the list of bytes sent and received, in milliseconds since the start of the connect. It waits by
//! poll(2), never beyond a deadline.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::fault::{Cause, Fault, Operation};
use handfast_net::sys::stamps::{self, Counts, Noted};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::flights::Seen;
use crate::trouble::{Step, Trouble};

/// A connection.
#[derive(Debug)]
pub(crate) struct Line {
    socket: OwnedFd,
    clock: Clock,
    /// Bytes that were sent, ever.
    sent: u64,
    /// Bytes sent and received.
    pub(crate) seen: Vec<Seen>,
    /// When connect(2) ended.
    pub(crate) connected_ms: f64,
    /// Round trip of the SYN, by the kernel.
    pub(crate) rtt_ms: f64,
}

/// When it began, by both clocks: the program's, and that of the kernel's timestamps.
#[derive(Clone, Copy, Debug)]
struct Clock {
    moment: Moment,
    since_1970: Duration,
}

impl Clock {
    fn start() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Self { moment: Moment::now(), since_1970: Duration::new(seconds, nanos) }
    }

    fn now_ms(&self) -> f64 {
        Moment::now().since(self.moment).as_secs_f64() * 1e3
    }

    fn stamp_ms(&self, stamp: Duration) -> f64 {
        (stamp.as_secs_f64() - self.since_1970.as_secs_f64()) * 1e3
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// FIN.
    End,
    /// Nothing until then.
    Nothing,
}

impl Line {
    /// Dials.
    ///
    /// **Errors**: why there is no connection, by its true cause.
    pub(crate) fn connect(address: SocketAddr, deadline: Moment) -> Result<Self, Trouble> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let failed = |operation, errno, socket: Option<&OwnedFd>| {
            Trouble::socket(Step::Connect, &Fault::of(operation, errno, socket.map(AsFd::as_fd)))
        };
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(|errno| failed(Operation::Open, errno, None))?;
        // Flights are measured one by one: none may wait for another. It cannot fail on a TCP socket.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let clock = Clock::start();
        match net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(failed(Operation::Connect, errno, Some(&socket))),
        }
        if !wait(&socket, PollFlags::OUT, deadline) {
            return Err(Trouble::socket(
                Step::Connect,
                &Fault::own(Operation::Connect, Cause::ConnectDeadline),
            ));
        }
        match sockopt::socket_error(&socket) {
            Ok(Ok(())) => {}
            Ok(Err(errno)) | Err(errno) => return Err(failed(Operation::Connect, errno, Some(&socket))),
        }
        let connected_ms = clock.now_ms();
        let counts = stamps::counts(&socket).unwrap_or_default();
        // Without stamps, what follows has the program's own times.
        let _ = stamps::stamp_stream(&socket);
        let rtt_ms = f64::from(counts.round_trip_us) / 1e3;
        Ok(Self { socket, clock, sent: 0, seen: Vec::new(), connected_ms, rtt_ms })
    }

    /// Our address.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(net::getsockname(&self.socket).ok()?).ok()
    }

    /// Milliseconds since the dialling began.
    pub(crate) fn now_ms(&self) -> f64 {
        self.clock.now_ms()
    }

    /// When bytes were last received.
    pub(crate) fn last_heard(&self) -> f64 {
        let heard = |seen: &Seen| match seen {
            Seen::Heard { at_ms, .. } => Some(*at_ms),
            Seen::Said { .. } => None,
        };
        self.seen.iter().rev().find_map(heard).unwrap_or_else(|| self.now_ms())
    }

    /// The kernel's counts as they are now.
    pub(crate) fn counts(&self) -> Counts {
        stamps::counts(&self.socket).unwrap_or_default()
    }

    /// Sends all of it.
    ///
    /// **Errors**: the target is gone, or takes nothing until the deadline.
    pub(crate) fn send(&mut self, mut bytes: &[u8], step: Step, deadline: Moment) -> Result<(), Trouble> {
        if bytes.is_empty() {
            return Ok(());
        }
        let at_ms = self.now_ms();
        let whole = bytes.len();
        while !bytes.is_empty() {
            match net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(Errno::AGAIN) => {
                    if !wait(&self.socket, PollFlags::OUT, deadline) {
                        return Err(Trouble::late(step));
                    }
                    self.take_notes();
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.fault(Operation::Write, errno, step)),
            }
        }
        self.sent += whole as u64;
        // The kernel numbers bytes in 32 bits.
        let last = (self.sent - 1) as u32;
        self.seen.push(Seen::Said { at_ms, bytes: whole, last, sent_ms: None, acknowledged_ms: None });
        Ok(())
    }

    fn fault(&self, operation: Operation, errno: Errno, step: Step) -> Trouble {
        Trouble::socket(step, &Fault::of(operation, errno, Some(self.socket.as_fd())))
    }

    /// Receives the available bytes, or waits for some.
    ///
    /// **Errors**: a reset, or another socket error.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], step: Step, until: Moment) -> Result<Got, Trouble> {
        loop {
            self.take_notes();
            match stamps::receive_stamped(&self.socket, buffer) {
                Ok(received) => {
                    let now_ms = self.now_ms();
                    // A timestamp in the future or before the start means that the clock was set.
                    let stamped = received.at.map(|at| self.clock.stamp_ms(at));
                    let at_ms = stamped.filter(|at| (0.0..=now_ms).contains(at)).unwrap_or(now_ms);
                    if received.bytes == 0 {
                        return Ok(Got::End);
                    }
                    self.seen.push(Seen::Heard { at_ms, bytes: received.bytes });
                    return Ok(Got::Bytes(received.bytes));
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN | Errno::INTR) | None => {}
                    Some(errno) => return Err(self.fault(Operation::Read, errno, step)),
                },
            }
            if !wait(&self.socket, PollFlags::IN, until) {
                return Ok(Got::Nothing);
            }
        }
    }

    /// Ends our direction.
    pub(crate) fn end(&self) {
        // Fails only when the connection is already gone.
        let _ = net::shutdown(&self.socket, net::Shutdown::Write);
    }

    /// Adds the kernel's timestamps to the sent bytes that they belong to.
    pub(crate) fn take_notes(&mut self) {
        while let Some(note) = stamps::take_sent_stamp(&self.socket) {
            let at = self.clock.stamp_ms(note.at);
            let mut said = self.seen.iter_mut().rev();
            let ours = said.find(|seen| matches!(seen, Seen::Said { last, .. } if *last == note.byte));
            if let Some(Seen::Said { sent_ms, acknowledged_ms, .. }) = ours {
                match note.what {
                    Noted::Sent => *sent_ms = Some(at),
                    Noted::Acknowledged => *acknowledged_ms = Some(at),
                }
            }
        }
    }
}

/// Whether the socket has, or can take, something before the deadline. Notes of the kernel and errors wake it too.
fn wait(socket: &OwnedFd, what: PollFlags, until: Moment) -> bool {
    loop {
        let left = until.since(Moment::now());
        if left.is_zero() {
            return false;
        }
        let left = Timespec::try_from(left).ok();
        let mut polled = [PollFd::new(socket, what)];
        match poll(&mut polled, left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}
