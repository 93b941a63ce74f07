//! Dialling a backend: a connected stream, or the true cause why there is none.
//!
//! In: an address, and the first bytes to send there. Out: a [`Stream`]. Waiting is the caller's: it knows its deadline
//! and what else may end it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::address::Address;
use crate::engine::{Ready, Source};
use crate::fault::{Cause, Fault, Operation};
use crate::stream::Stream;

/// A connection on its way.
///
/// **Cancel**: dropping it closes the socket; nothing was sent.
#[derive(Debug)]
pub struct Dialling {
    socket: OwnedFd,
    /// `None` while it may stand without a wait.
    source: Option<Source>,
    tcp: bool,
    /// It stood, and was reset before our first byte: what the peer sent before that is still to be read.
    broken: Option<Fault>,
}

impl Dialling {
    /// Begins to dial `address`. Unix sockets connect at once or not at all.
    ///
    /// **Errors**: what the kernel knows at once: no route, no file, no port left, no descriptor left.
    pub fn start(address: &Address) -> Result<Self, Fault> {
        match address {
            Address::Ip(address) => Self::tcp(*address),
            Address::Unix(path) => Self::unix(path),
        }
    }

    fn tcp(address: SocketAddr) -> Result<Self, Fault> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = open(family)?;
        match net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {
                Ok(Self { socket, source: None, tcp: true, broken: None })
            }
            Err(errno) => Err(Fault::of(Operation::Connect, errno, Some(socket.as_fd()))),
        }
    }

    fn unix(path: &Path) -> Result<Self, Fault> {
        let address = SocketAddrUnix::new(path).map_err(|errno| Fault::of(Operation::Open, errno, None))?;
        let socket = open(AddressFamily::UNIX)?;
        net::connect(&socket, &address)
            .map_err(|errno| Fault::of(Operation::Connect, errno, Some(socket.as_fd())))?;
        Ok(Self { socket, source: None, tcp: false, broken: None })
    }

    /// Looks whether the connection stands, and sends the beginning of `first` if so; `Some` is how much the kernel
    /// took. To be called at once, and whenever [`crate::engine::wait`] returned.
    ///
    /// On a near machine a connection stands before connect(2) returns, so the first write tells all there is to know.
    ///
    /// **Errors**: why it failed, with the ICMP message that said so; nothing of `first` has arrived then.
    pub fn advance(&mut self, first: &[u8]) -> Result<Option<usize>, Fault> {
        if self.source.is_none() {
            let sent = if self.tcp || !first.is_empty() { self.send(first)? } else { Some(0) };
            if sent.is_none() {
                self.source = Some(Source::register_connecting(&self.socket).map_err(|error| {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
                    Fault::of(Operation::Open, errno, None)
                })?);
            }
            return Ok(sent);
        }
        let Some(source) = &self.source else { return Ok(None) };
        if !source.ready().has(Ready::WRITE) && !source.ready().has(Ready::ENDED) {
            return Ok(None);
        }
        // Being woken is not being connected: the socket itself says what happened.
        if let Ok(Err(errno)) = sockopt::socket_error(&self.socket) {
            return self.failed(errno);
        }
        if net::getpeername(&self.socket).is_err() {
            source.used_up(Ready::WRITE);
            return Ok(None);
        }
        if first.is_empty() { Ok(Some(0)) } else { Ok(Some(self.send(first)?.unwrap_or(0))) }
    }

    /// Sends the beginning of `first` if the connection stands already; `None`: not yet, or nothing to send.
    fn send(&mut self, first: &[u8]) -> Result<Option<usize>, Fault> {
        if first.is_empty() {
            return Ok(None);
        }
        match net::send(&self.socket, first, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => Ok(Some(sent)),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => Ok(None),
            Err(errno) => self.failed(errno),
        }
    }

    /// Why it has not come about, when the caller's patience has ended: the kernel may know of an error that it does not
    /// think final (an ICMP message that was met by another SYN).
    pub fn give_up(self) -> Fault {
        match sockopt::socket_error(&self.socket) {
            Ok(Err(errno)) => Fault::of(Operation::Connect, errno, Some(self.socket.as_fd())),
            _ => Fault::own(Operation::Connect, Cause::ConnectDeadline),
        }
    }

    /// A reset (and not a refusal) means that the connection stood.
    fn failed(&mut self, errno: Errno) -> Result<Option<usize>, Fault> {
        if matches!(errno, Errno::CONNRESET | Errno::PIPE) {
            self.broken = Some(Fault::of(Operation::Write, errno, Some(self.socket.as_fd())));
            return Ok(Some(0));
        }
        Err(Fault::of(Operation::Connect, errno, Some(self.socket.as_fd())))
    }

    /// The stream, once [`Dialling::advance`] has said that it stands.
    pub fn into_stream(self) -> Stream {
        let stream = match self.source {
            Some(source) => Stream::registered(self.socket, self.tcp, source),
            None => Stream::new(self.socket, self.tcp),
        };
        stream.with_fault(self.broken)
    }
}

fn open(family: AddressFamily) -> Result<OwnedFd, Fault> {
    net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
        .map_err(|errno| Fault::of(Operation::Open, errno, None))
}
