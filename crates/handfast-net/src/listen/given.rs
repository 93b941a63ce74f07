//! Listening sockets that another process made: a service manager, or the previous process.
//!
//! In: descriptors that may be anything. Out: listening sockets for each thread, however many there are of either.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType, sockopt};

use super::{CloseOrder, ListeningSocket, prepare_tcp};
use crate::address::Address;
use crate::stream::{SocketTimeouts, set_socket_timeouts};

/// A socket that listens already, and where.
#[derive(Clone, Debug)]
pub struct GivenSocket {
    socket: Arc<OwnedFd>,
    address: Address,
}

/// Reason why a descriptor cannot be accepted from.
#[derive(Debug)]
pub enum Unfit {
    /// It is no socket, or the kernel does not report its kind.
    NoSocket(io::Error),
    /// It is no stream socket of IPv4, IPv6 or the file system.
    OtherKind,
    /// It does not listen.
    DoesNotListen,
    /// A unix socket without a path.
    NoPath,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket(error) => write!(f, "not a socket that can be used: {error}"),
            Self::OtherKind => f.write_str("neither TCP nor a unix stream socket"),
            Self::DoesNotListen => f.write_str("does not listen"),
            Self::NoPath => f.write_str("a unix socket without a path"),
        }
    }
}

impl std::error::Error for Unfit {}

impl From<rustix::io::Errno> for Unfit {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::NoSocket(errno.into())
    }
}

impl GivenSocket {
    /// Looks at what a descriptor is, and makes it one that never waits.
    ///
    /// **Errors**: it is nothing that connections can be accepted from.
    pub fn new(descriptor: OwnedFd) -> Result<Self, Unfit> {
        let kind = sockopt::socket_type(&descriptor)?;
        let family = sockopt::socket_domain(&descriptor)?;
        let known = [AddressFamily::INET, AddressFamily::INET6, AddressFamily::UNIX];
        if kind != SocketType::STREAM || !known.contains(&family) {
            return Err(Unfit::OtherKind);
        }
        if !sockopt::socket_acceptconn(&descriptor)? {
            return Err(Unfit::DoesNotListen);
        }
        let bound = net::getsockname(&descriptor)?;
        let address = if family == AddressFamily::UNIX {
            let bound = SocketAddrUnix::try_from(bound)?;
            let path = bound.path_bytes().filter(|path| !path.is_empty()).ok_or(Unfit::NoPath)?;
            Address::Unix(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned())
        } else {
            Address::Ip(SocketAddr::try_from(bound)?)
        };
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        Ok(Self { socket: Arc::new(descriptor), address })
    }

    /// Returns its listening address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The socket itself, which listens for as long as a process has it.
    pub fn into_descriptor(self) -> Arc<OwnedFd> {
        self.socket
    }
}

/// The same socket, not only the same address.
impl PartialEq for GivenSocket {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
    }
}

impl AsFd for GivenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Permission to bind new sockets for threads without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Permitted where the kernel allows it: on TCP, when the given sockets share their address (SO_REUSEPORT) and belong to
    /// the same user.
    IfAllowed,
    /// Never: passed sockets outlive this process with the connections that wait in them, and a new queue would not.
    No,
}

/// Shares out sockets that were given for one address among threads: what each accepts from.
///
/// Every socket belongs to a thread, since a queue without an acceptor loses its clients. With more sockets than threads some
/// threads have several; with fewer, and none that could be made, several threads accept from one, and the kernel wakes one
/// of them (EPOLLEXCLUSIVE). Accepted connections inherit TCP_NODELAY and the timeouts.
///
/// **Errors**: setsockopt(2).
pub fn share_out(
    given: Vec<GivenSocket>,
    threads: usize,
    timeouts: SocketTimeouts,
    more: More,
) -> io::Result<Vec<Vec<ListeningSocket>>> {
    let Some(address) = given.first().map(|first| first.address.clone()) else {
        return Ok((0..threads).map(|_| Vec::new()).collect());
    };
    let mut sockets: Vec<_> = given.into_iter().map(GivenSocket::into_descriptor).collect();
    let tcp = matches!(address, Address::Ip(_));
    if tcp {
        for socket in &sockets {
            sockopt::set_tcp_nodelay(socket, true)?;
            set_socket_timeouts(socket, timeouts)?;
        }
    }
    if let Address::Ip(address) = address
        && more == More::IfAllowed
        && sockopt::socket_reuseport(&sockets[0]).unwrap_or(false)
    {
        while sockets.len() < threads {
            // One that is not allowed is no loss: the others take its part.
            let Ok(socket) = prepare_tcp(address, timeouts) else { break };
            sockets.push(Arc::new(socket));
        }
    }
    let left = Arc::new(AtomicU32::new(0));
    // The kernel counts places among the sockets of an address: with several holders of one there is no telling.
    let own = tcp && more == More::IfAllowed && sockets.len() >= threads;
    let listening = |place: usize| ListeningSocket {
        socket: Arc::clone(&sockets[place % sockets.len()]),
        tcp,
        address: address.clone(),
        close_order: own.then(|| CloseOrder::new(u32::try_from(place).unwrap_or(u32::MAX), &left)),
        outlives: more == More::No,
    };
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for place in 0..sockets.len().max(threads) {
        shares[place % threads.max(1)].push(listening(place));
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    use super::*;
    use crate::listen::{Listener, Sharing, listen};

    const TIMEOUTS: SocketTimeouts =
        SocketTimeouts { unacknowledged: Duration::ZERO, keepalive: Duration::ZERO };

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn copy(socket: &ListeningSocket) -> GivenSocket {
        GivenSocket::new(socket.descriptor().try_clone().unwrap()).expect("it listens")
    }

    /// Returns the number of connections that each thread accepts of `clients` that connect.
    fn taken(shares: Vec<Vec<ListeningSocket>>, address: &Address, clients: usize) -> Vec<usize> {
        let Address::Ip(address) = address else { panic!("not TCP") };
        let mut shares: Vec<Vec<Listener>> =
            shares.into_iter().map(|share| share.into_iter().map(ListeningSocket::open).collect()).collect();
        let _clients: Vec<_> = (0..clients)
            .map(|_| TcpStream::connect_timeout(address, Duration::from_secs(10)).unwrap())
            .collect();
        let count = |listener: &mut Listener| {
            std::iter::from_fn(|| listener.try_accept().expect("nothing is short").map(drop)).count()
        };
        shares.iter_mut().map(|share| share.iter_mut().map(count).sum()).collect()
    }

    #[test]
    fn every_queue_has_a_thread_whatever_the_numbers() {
        for (before, after) in [(1, 1), (1, 4), (2, 3), (3, 2), (4, 1), (5, 2)] {
            let (address, old) =
                listen(&Address::Ip(loopback()), 0, before, TIMEOUTS, Sharing::Alone).unwrap();
            let given = old.iter().map(copy).collect();
            let shares = share_out(given, after, TIMEOUTS, More::IfAllowed).unwrap();
            assert!(shares.iter().all(|share| !share.is_empty()), "{before} to {after}");
            shares.iter().flatten().try_for_each(ListeningSocket::begin).unwrap();
            drop(old);
            let taken = taken(shares, &address, 100);
            assert_eq!(taken.iter().sum::<usize>(), 100, "{before} to {after}: {taken:?}");
            // Each has a separate queue: 100 miss one of four with a probability below 10⁻¹².
            assert!(taken.iter().all(|count| *count > 0), "{before} to {after}: {taken:?}");
        }
    }

    #[test]
    fn a_socket_that_is_not_shared_serves_every_thread() {
        for more in [More::IfAllowed, More::No] {
            let one = TcpListener::bind(loopback()).unwrap();
            let address = Address::Ip(one.local_addr().unwrap());
            let given = GivenSocket::new(one.into()).unwrap();
            assert_eq!(given.address(), &address);
            let shares = share_out(vec![given], 3, TIMEOUTS, more).unwrap();
            assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
            // A process that must not add sockets got them from one that keeps them.
            assert!(shares.iter().flatten().all(|socket| socket.outlives == (more == More::No)), "{more:?}");
            assert_eq!(taken(shares, &address, 20).iter().sum::<usize>(), 20, "{more:?}");
        }
    }

    #[test]
    fn what_does_not_listen_is_refused_by_name() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let message_of = |fd: OwnedFd| GivenSocket::new(fd).expect_err("it does not listen").to_string();
        assert!(message_of(file.into()).starts_with("not a socket that can be used: "));
        assert_eq!(
            message_of(UdpSocket::bind(loopback()).unwrap().into()),
            "neither TCP nor a unix stream socket"
        );
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(message_of(one.into()), "does not listen");
    }
}
