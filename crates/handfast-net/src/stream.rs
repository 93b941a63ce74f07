//! A stream socket that reports its true fault.
//!
//! Reads and writes are tried at once and never wait; when one would block, [`crate::engine::wait`] wakes the task as
//! soon as it is worth trying again. Three rules hold for every stream, because Linux reports a reset only once and
//! answers the next read like a clean end:
//!
//! 1. The first fault is the truth: it is kept, and later ends and faults are its consequences ([`Stream::fault`]).
//! 2. A stream that is dropped is aborted. Only [`Stream::finish`] closes it cleanly.
//! 3. An error that the kernel announces is fetched before anything else can swallow it ([`Stream::check`]).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType, sockopt};

use crate::engine::{EventSource, Ready};
use crate::fault::{Fault, Operation};
use crate::listen::plain;
use crate::sys;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Number of bytes read; at least one.
    Bytes(usize),
    /// The peer ended its direction cleanly, and no error contradicts that.
    End,
    /// Nothing there yet.
    Blocked,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Number of bytes taken; at least one.
    Bytes(usize),
    /// No room yet.
    Blocked,
}

/// Socket options that a connection gets when it proves to live longer than a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketTimeouts {
    /// TCP_USER_TIMEOUT; zero: the kernel's own (about 15 minutes).
    pub unacknowledged: Duration,
    /// Idle time before keep-alive probes; zero: none are sent.
    pub keepalive: Duration,
}

/// A connected stream socket, TCP or unix, of the present task.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    /// `None` until something blocked for the first time.
    source: Option<EventSource>,
    /// True if the source reports writability too.
    writing_watched: bool,
    tcp: bool,
    finished: bool,
    fault: Option<Box<Fault>>,
}

impl Stream {
    /// Takes over a connected, non-blocking socket that no engine knows yet.
    pub(crate) fn new(socket: OwnedFd, tcp: bool) -> Self {
        Self { socket, source: None, writing_watched: false, tcp, finished: false, fault: None }
    }

    /// Takes over a connected socket that came from another process, with its peer's address where it has one.
    ///
    /// **Errors**: it is no stream socket; fcntl(2).
    pub fn given(socket: OwnedFd) -> io::Result<(Self, Option<SocketAddr>)> {
        if net::sockopt::socket_type(&socket)? != SocketType::STREAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no socket for a stream"));
        }
        rustix::io::ioctl_fionbio(&socket, true)?;
        let own = net::getsockname(&socket)?;
        let tcp = matches!(own.address_family(), AddressFamily::INET | AddressFamily::INET6);
        let peer = net::getpeername(&socket)?.and_then(|peer| SocketAddr::try_from(peer).ok()).map(plain);
        Ok((Self::new(socket, tcp), peer))
    }

    /// Returns its event source; `None` until an operation blocks for the first time.
    pub(crate) fn source(&self) -> Option<&EventSource> {
        self.source.as_ref()
    }

    /// Takes a source that reports reading and writing.
    pub(crate) fn set_source(&mut self, source: EventSource) {
        self.source = Some(source);
        self.writing_watched = true;
    }

    /// Notes a fault that was met before it was used.
    pub(crate) fn broke(&mut self, fault: Fault) {
        self.fault.get_or_insert_with(|| Box::new(fault));
    }

    /// Returns true if it is TCP; else it is a unix socket.
    pub fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Its own address, as the peer sees it; `None` for a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let address = SocketAddr::try_from(net::getsockname(&self.socket).ok()?).ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// The first thing that went wrong, if anything did.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_deref()
    }

    fn ready(&self, ready: Ready) -> bool {
        self.source.as_ref().is_none_or(|source| source.ready().has(ready))
    }

    /// Reads what is there, without waiting. `buffer` must not be empty.
    ///
    /// **Errors**: the first fault of this stream; ever after, the same one.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<Read, Fault> {
        if !self.ready(Ready::READ) {
            return Ok(Read::Blocked);
        }
        loop {
            return match net::recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => self.ended(),
                Ok((_, bytes)) => {
                    if bytes < buffer.len() {
                        self.drained()?;
                    }
                    Ok(Read::Bytes(bytes))
                }
                Err(Errno::AGAIN) => {
                    self.reading_blocks()?;
                    Ok(Read::Blocked)
                }
                Err(Errno::INTR) => continue,
                Err(errno) => Err(self.note(Operation::Read, errno)),
            };
        }
    }

    /// A read of zero bytes is an end only if no fault came before it.
    fn ended(&mut self) -> Result<Read, Fault> {
        match &self.fault {
            Some(fault) => Err(Fault::clone(fault)),
            None => Ok(Read::End),
        }
    }

    /// A short read of a stream means that nothing more is there (epoll(7), "Questions and answers" 9) unless its end
    /// or an error waits behind the data, which is announced once and must not be missed.
    fn drained(&mut self) -> Result<(), Fault> {
        match &self.source {
            Some(source) if source.ready().has(Ready::ENDED) => Ok(()),
            _ => self.reading_blocks(),
        }
    }

    fn reading_blocks(&mut self) -> Result<(), Fault> {
        match &self.source {
            Some(source) => source.used_up(Ready::READ),
            None => self.source = Some(self.register(Ready::WRITE)?),
        }
        Ok(())
    }

    /// Waits for something to read without trying first, for a peer that cannot have answered yet: saves the call
    /// that would report it.
    ///
    /// **Errors**: registering with the engine.
    pub fn expect_later(&mut self) -> Result<(), Fault> {
        if self.source.is_none() {
            self.source = Some(self.register(Ready::WRITE)?);
        }
        Ok(())
    }

    /// Makes events of this stream wake the present task, when nothing has blocked yet. A first read is still tried
    /// before.
    ///
    /// **Errors**: registering with the engine.
    pub fn watch(&mut self) -> Result<(), Fault> {
        if self.source.is_none() {
            self.source = Some(self.register(Ready::UNTRIED)?);
        }
        Ok(())
    }

    fn register(&mut self, ready: Ready) -> Result<EventSource, Fault> {
        EventSource::register(&self.socket, ready).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
            self.note(Operation::Open, errno)
        })
    }

    /// Writes as much of `bytes` as the kernel takes, without waiting. `bytes` must not be empty.
    ///
    /// **Errors**: the first fault of this stream; ever after, the same one.
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        self.send(bytes, SendFlags::empty())
    }

    /// The same for the last bytes before an end: they wait for it, and go out in one segment with our FIN.
    ///
    /// The caller ends the stream at once when all was accepted; what is written meanwhile takes them along, and so
    /// does the kernel after 0.2 s. **Source**: MSG_MORE in send(2), `tcp_send_fin` in the kernel's tcp_output.c.
    ///
    /// **Errors**: as [`Stream::try_write`].
    pub fn try_write_last(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        self.send(bytes, SendFlags::MORE)
    }

    fn send(&mut self, bytes: &[u8], more: SendFlags) -> Result<Write, Fault> {
        if !self.ready(Ready::WRITE) {
            return Ok(Write::Blocked);
        }
        loop {
            return match net::send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL | more) {
                Ok(written) => {
                    if written < bytes.len() {
                        self.writing_blocks()?;
                    }
                    Ok(Write::Bytes(written))
                }
                Err(Errno::AGAIN) => {
                    self.writing_blocks()?;
                    Ok(Write::Blocked)
                }
                Err(Errno::INTR) => continue,
                Err(errno) => Err(self.note(Operation::Write, errno)),
            };
        }
    }

    fn writing_blocks(&mut self) -> Result<(), Fault> {
        if self.source.is_none() {
            self.source = Some(self.register(Ready::READ)?);
        }
        let Some(source) = &self.source else { return Ok(()) };
        source.used_up(Ready::WRITE);
        if !self.writing_watched {
            self.writing_watched = true;
            if let Err(error) = source.watch_writing(&self.socket) {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
                return Err(self.note(Operation::Open, errno));
            }
        }
        Ok(())
    }

    /// Fetches an error that the kernel has announced and no call has met yet. To be asked when the task has been
    /// woken and is not going to read: a peer that reset while we wait for another peer would be missed.
    pub fn check(&mut self) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(Fault::clone(fault));
        }
        if self.source.as_ref().is_some_and(|source| source.ready().has(Ready::FAULT))
            && let Ok(Err(errno)) = sockopt::socket_error(&self.socket)
        {
            return Err(self.note(Operation::Read, errno));
        }
        Ok(())
    }

    /// Returns true if an event has reported that the peer ended its direction or is gone.
    pub fn peer_ended(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.ready().has(Ready::ENDED))
    }

    /// Returns true if an event has reported that both directions are over.
    pub fn is_broken(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.ready().has(Ready::BROKEN))
    }

    fn note(&mut self, operation: Operation, errno: Errno) -> Fault {
        if let Some(first) = &self.fault {
            return Fault::clone(first);
        }
        let fault = Fault::of(operation, errno, Some(self.socket.as_fd()));
        self.fault = Some(Box::new(fault.clone()));
        fault
    }

    /// Belongs to no task from now on: no task is woken when something happens to it, which is noted all the same. For a
    /// connection that is kept in a pool.
    pub fn release(&self) {
        if let Some(source) = &self.source {
            source.release();
        }
    }

    /// Moves the stream to the present task, whichever task of this thread had it before; that one is not woken for it
    /// any more. Earlier readiness wakes this task.
    pub fn adopt(&self) {
        if let Some(source) = &self.source {
            source.adopt();
        }
    }

    /// Ends our direction: the peer reads an end after the last byte. An error means that it is over anyway.
    pub fn end_writing(&self) {
        let _ = net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Bytes written that the peer has not acknowledged yet.
    pub fn unsent(&self) -> usize {
        sys::unsent_bytes(&self.socket)
    }

    /// Bytes that the peer may have received without having acknowledged them: an acknowledgement may wait for the second full segment
    /// (RFC 1122 §4.2.3.2), and a reset takes the place of one that waits.
    pub fn delayed_acknowledgement(&self) -> usize {
        let segment = sys::tcp_info(&self.socket).map_or(0, |info| info.segment_size);
        2 * segment as usize
    }

    /// Turns Nagle's algorithm off. The first write of a connection never waits for it, so a stream that writes once
    /// does without this call.
    pub fn no_delay(&self) {
        if self.tcp {
            let _ = sockopt::set_tcp_nodelay(&self.socket, true);
        }
    }

    /// Acknowledges what has come now, and not with what is sent next or after up to 40 ms (tcp(7), `TCP_QUICKACK`): a peer with Nagle's
    /// algorithm sends nothing more before that.
    pub fn acknowledge_now(&self) {
        if self.tcp {
            let _ = sockopt::set_tcp_quickack(&self.socket, true);
        }
    }

    /// Bounds how long the kernel waits for a peer that is gone. Errors are those of a connection that is over, which
    /// the next read reports better.
    pub fn set_timeouts(&self, timeouts: SocketTimeouts) {
        if self.tcp {
            let _ = set_socket_timeouts(&self.socket, timeouts);
        }
    }

    /// Makes dropping close cleanly, as [`Stream::finish`] does.
    pub fn finish_at_drop(&mut self) {
        self.finished = true;
    }

    /// Closes cleanly. Written bytes are sent, then our end; unread input would turn that into a reset, so read it
    /// before.
    pub fn finish(mut self) {
        self.finished = true;
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Stream {
    /// Aborts, unless it was finished: the peer sees a reset, and no clean end where there was none.
    fn drop(&mut self) {
        if !self.finished && self.tcp {
            let _ = sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
    }
}

/// Probes that must go unanswered before a connection is given up.
const KEEPALIVE_PROBES: u32 = 3;

/// Sets keep-alive and TCP_USER_TIMEOUT, on a stream or on a listener whose connections inherit it.
///
/// Keep-alive alone is blind while data is in flight; the user timeout alone does not find a dead idle peer.
pub(crate) fn set_socket_timeouts(socket: impl AsFd, timeouts: SocketTimeouts) -> rustix::io::Result<()> {
    let socket = socket.as_fd();
    if !timeouts.unacknowledged.is_zero() {
        let milliseconds = u32::try_from(timeouts.unacknowledged.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(socket, milliseconds)?;
    }
    if !timeouts.keepalive.is_zero() {
        let idle = timeouts.keepalive.max(Duration::from_secs(1));
        sockopt::set_tcp_keepidle(socket, idle)?;
        sockopt::set_tcp_keepintvl(socket, (idle / KEEPALIVE_PROBES).max(Duration::from_secs(1)))?;
        sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
        sockopt::set_socket_keepalive(socket, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
