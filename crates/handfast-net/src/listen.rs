//! Listening: sockets bound before privileges are dropped, accepted from by the engines' threads.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::address::Address;
use crate::clock::Moment;
use crate::engine::{Ready, Source, Woken, wait};
use crate::fault::{Fault, Operation};
use crate::stream::{Patience, Stream, set_patience};
use crate::sys;

/// Connections that the kernel completes and keeps for us; it lowers this to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// Whether a TCP address may be one that this process listens on already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It is ours alone. Sockets that share a port let any process of the same user join silently, and take a part of
    /// the connections: that is found out and refused.
    Alone,
    /// This process listens there already, and is about to hand over.
    WithOurselves,
}

/// Binds and listens; one socket for each of `threads` on TCP, so that each has a queue of its own
/// (`SO_REUSEPORT`, socket(7)), and one shared by all on unix sockets. Accepted connections inherit
/// TCP_NODELAY and `patience`, so they cost no call each.
///
/// With port 0 the kernel chooses, for the first; the others take the same.
///
/// **Errors**: those of bind(2), such as an address in use or a port that needs a privilege. A unix socket's file that
/// nobody listens on any more is replaced.
pub fn listen(
    address: &Address,
    mode: u32,
    threads: usize,
    patience: Patience,
    sharing: Sharing,
) -> io::Result<(Address, Vec<ListeningSocket>)> {
    match address {
        Address::Ip(address) => {
            if sharing == Sharing::Alone {
                // Bound without SO_REUSEPORT, which fails if anybody listens there, and closed again.
                drop(bind_tcp(*address, false)?);
            }
            let first = listen_tcp(*address, patience)?;
            let local = local_address(&first)?;
            let mut sockets = vec![first];
            while sockets.len() < threads {
                sockets.push(listen_tcp(local, patience)?);
            }
            let local = Address::Ip(local);
            let listening = |socket| ListeningSocket { socket, tcp: true, address: local.clone() };
            let sockets = sockets.into_iter().map(listening).collect();
            Ok((local, sockets))
        }
        Address::Unix(path) => {
            let first = listen_unix(path, mode)?;
            let mut sockets = Vec::new();
            for _ in 1..threads {
                let socket = first.try_clone()?;
                sockets.push(ListeningSocket { socket, tcp: false, address: address.clone() });
            }
            sockets.push(ListeningSocket { socket: first, tcp: false, address: address.clone() });
            Ok((address.clone(), sockets))
        }
    }
}

fn listen_tcp(address: SocketAddr, patience: Patience) -> io::Result<OwnedFd> {
    let socket = bind_tcp(address, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    set_patience(&socket, patience)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn bind_tcp(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
    if let SocketAddr::V6(v6) = address {
        // `[::]` serves IPv4 too; every other address is what it says.
        sockopt::set_ipv6_v6only(&socket, !v6.ip().is_unspecified())?;
    }
    net::bind(&socket, &address)?;
    Ok(socket)
}

fn listen_unix(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = open(AddressFamily::UNIX)?;
    match net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if is_abandoned(path)? => {
            fs::remove_file(path)?;
            net::bind(&socket, &address)?;
        }
        outcome => outcome?,
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Whether `path` is a socket that refuses connections: what a process leaves behind that was killed.
fn is_abandoned(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let socket = open(AddressFamily::UNIX)?;
    Ok(net::connect(&socket, &SocketAddrUnix::new(path)?) == Err(Errno::CONNREFUSED))
}

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    SocketAddr::try_from(net::getsockname(socket)?).map_err(|_| io::ErrorKind::AddrNotAvailable.into())
}

/// A listening socket on its way to its thread.
#[derive(Debug)]
pub struct ListeningSocket {
    socket: OwnedFd,
    tcp: bool,
    address: Address,
}

impl ListeningSocket {
    /// To be called in the task that will accept.
    pub fn open(self) -> Listener {
        Listener { socket: self.socket, tcp: self.tcp, address: self.address, source: None }
    }
}

/// A listening socket of one task.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    tcp: bool,
    address: Address,
    /// `None` while accepting is paused: a level-triggered listener that nobody accepts from would spin.
    source: Option<Source>,
}

impl Listener {
    /// Where it listens, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Takes one connection that waits, without waiting for one; `None`: there is none.
    ///
    /// **Errors**: accept4(2). Errors of the connection itself (it was reset while it waited) are skipped.
    pub fn try_accept(&mut self) -> Result<Option<(Stream, Option<SocketAddr>)>, Fault> {
        loop {
            return match net::acceptfrom_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).map(plain);
                    Ok(Some((Stream::new(socket, self.tcp), peer)))
                }
                Err(Errno::AGAIN) => Ok(None),
                // Network errors already pending on the new socket (accept(2), "Error handling").
                Err(
                    Errno::INTR
                    | Errno::CONNABORTED
                    | Errno::PROTO
                    | Errno::NETDOWN
                    | Errno::NOPROTOOPT
                    | Errno::HOSTDOWN
                    | Errno::NONET
                    | Errno::HOSTUNREACH
                    | Errno::OPNOTSUPP
                    | Errno::NETUNREACH,
                ) => continue,
                Err(errno) => Err(Fault::of(Operation::Accept, errno, None)),
            };
        }
    }

    /// How many connections wait to be accepted from this socket. Of a unix socket the kernel only tells whether any does.
    ///
    /// **Cost**: a call. **Source**: for a listening socket `tcpi_unacked` is the length of its queue (`tcp_get_info` in
    /// the kernel's tcp.c).
    pub fn waiting(&self) -> u64 {
        if self.tcp {
            return sys::tcp_info(&self.socket).map_or(0, |info| u64::from(info.unacknowledged));
        }
        let mut asked = [PollFd::new(&self.socket, PollFlags::IN)];
        let any = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        u64::from(any.is_ok_and(|ready| ready > 0))
    }

    /// Waits until a connection may be there, or `deadline`.
    ///
    /// **Errors**: registering with the engine.
    pub async fn ready(&mut self, deadline: Moment) -> io::Result<Woken> {
        match &self.source {
            Some(source) => source.used_up(Ready::READ),
            None => self.source = Some(Source::register_listener(&self.socket)?),
        }
        Ok(wait(deadline).await)
    }

    /// Does not want to hear of connections until [`Listener::ready`] is called again; they wait in the kernel's queue.
    pub fn pause(&mut self) {
        if let Some(source) = self.source.take() {
            source.deregister(&self.socket);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A unix listener has handles in other threads, so closing this one does not end its registration.
        self.pause();
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An IPv4 client of a dual-stack listener by its IPv4 address.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
