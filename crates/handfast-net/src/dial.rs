//! Dialling a backend: a connected stream, or the true cause why there is none.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::address::Address;
use crate::clock::Moment;
use crate::engine::{Ready, Source, Woken, wait};
use crate::fault::{Cause, Fault, Operation};
use crate::stream::Stream;

/// Dials `address` and sends the beginning of `first` along, as much as the kernel takes; how much that was is
/// returned beside the stream. Nothing of it has arrived when dialling fails.
///
/// On a near machine the connection stands before `connect` returns, and the first write succeeds without waiting.
///
/// **Errors**: what the kernel knows of the refusal, ICMP type and code and sender included; [`Cause::ConnectDeadline`]
/// when `deadline` comes first. **Cancel**: closes the socket.
pub async fn dial(address: &Address, first: &[u8], deadline: Moment) -> Result<(Stream, usize), Fault> {
    match address {
        Address::Ip(address) => dial_tcp(*address, first, deadline).await,
        Address::Unix(path) => dial_unix(path, first),
    }
}

async fn dial_tcp(address: SocketAddr, first: &[u8], deadline: Moment) -> Result<(Stream, usize), Fault> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(errno) => return Err(Fault::of(Operation::Connect, errno, Some(socket.as_fd()))),
    }
    if let Some(sent) = try_first(&socket, first)? {
        return Ok((Stream::new(socket, true), sent));
    }
    let source = Source::register_connecting(&socket).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
        Fault::of(Operation::Open, errno, None)
    })?;
    loop {
        // The socket itself says what happened, if anything did: being woken is not being connected.
        if source.ready().has(Ready::WRITE) || source.ready().has(Ready::ENDED) {
            if let Ok(Err(errno)) = sockopt::socket_error(&socket) {
                return Err(Fault::of(Operation::Connect, errno, Some(socket.as_fd())));
            }
            if net::getpeername(&socket).is_ok() {
                let sent = try_first(&socket, first)?.unwrap_or(0);
                return Ok((Stream::registered(socket, true, source), sent));
            }
            source.used_up(Ready::WRITE);
        }
        if wait(deadline).await == Woken::Deadline {
            return Err(Fault::own(Operation::Connect, Cause::ConnectDeadline));
        }
    }
}

/// Sends the beginning of `first` if the connection stands already; `None`: not yet, or nothing to send.
fn try_first(socket: &OwnedFd, first: &[u8]) -> Result<Option<usize>, Fault> {
    if first.is_empty() {
        return Ok(None);
    }
    match net::send(socket, first, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(sent) => Ok(Some(sent)),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => Ok(None),
        Err(errno) => Err(Fault::of(Operation::Connect, errno, Some(socket.as_fd()))),
    }
}

/// A unix socket connects at once or not at all.
fn dial_unix(path: &Path, first: &[u8]) -> Result<(Stream, usize), Fault> {
    let address = SocketAddrUnix::new(path).map_err(|errno| Fault::of(Operation::Open, errno, None))?;
    let socket = open(AddressFamily::UNIX)?;
    net::connect(&socket, &address)
        .map_err(|errno| Fault::of(Operation::Connect, errno, Some(socket.as_fd())))?;
    let sent = try_first(&socket, first)?.unwrap_or(0);
    Ok((Stream::new(socket, false), sent))
}

fn open(family: AddressFamily) -> Result<OwnedFd, Fault> {
    net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
        .map_err(|errno| Fault::of(Operation::Open, errno, None))
}
