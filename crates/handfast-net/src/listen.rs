//! Listening: sockets bound before privileges are dropped, accepted from by the engines' threads.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::address::Address;
use crate::clock::Moment;
use crate::engine::{EventSource, Ready, Woken, wait};
use crate::fault::{Cause, Fault, Operation};
use crate::limits;
use crate::stream::{SocketTimeouts, Stream, set_socket_timeouts};
use crate::sys;

mod given;

pub use given::{GivenSocket, More, Unfit, share_out};

/// Connections that the kernel completes and keeps for us; it lowers this to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// Permission to bind a TCP address that already has a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It is ours alone. Sockets that share a port let any process of the same user join silently, and take a part of
    /// the connections: that is found out and refused.
    Alone,
    /// This process listens there already, and is about to hand over.
    WithOurselves,
    /// Another process of the same user may listen there, and is about to end: this one takes its part beside it. Of a unix
    /// socket it takes the name, and with it all new connections.
    WithAnother,
}

/// Origin of a listening socket; it determines if this process may remove the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It bound the address itself.
    Bound,
    /// It was started with it, by a service manager that keeps it (sd_listen_fds(3)).
    Inherited,
    /// Another process of the same program gave it and goes; the address is this one's from then on.
    HandedOver,
    /// Another process of the same program had it and was killed; a service manager has kept it since, and keeps it. The address is
    /// this one's.
    Kept,
}

impl Origin {
    /// Returns true if the file of a unix socket is removed with this process. A service manager's stays: clients wait in
    /// it for the next process.
    pub fn owns_address(self) -> bool {
        match self {
            Self::Bound | Self::HandedOver | Self::Kept => true,
            Self::Inherited => false,
        }
    }
}

/// Binds, for sockets that listen after [begin](ListeningSocket::begin); one socket for each of `threads`
/// on TCP, so that each has a separate queue (`SO_REUSEPORT`, socket(7)), and one shared by all on unix sockets. Accepted
/// connections inherit TCP_NODELAY and the timeouts, so they cost no call each.
///
/// With port 0 the kernel chooses, for the first; the others take the same.
///
/// **Errors**: those of bind(2), such as an address in use or a port that needs a privilege. A unix socket's file that
/// no process listens on any more is replaced.
pub fn bind(
    address: &Address,
    mode: u32,
    threads: usize,
    timeouts: SocketTimeouts,
    sharing: Sharing,
) -> io::Result<(Address, Vec<ListeningSocket>)> {
    match address {
        Address::Ip(address) => {
            if sharing == Sharing::Alone {
                try_out(*address)?;
            }
            let first = prepare_tcp(*address, timeouts)?;
            let local = local_address(&first)?;
            let mut sockets = vec![first];
            while sockets.len() < threads {
                sockets.push(prepare_tcp(local, timeouts)?);
            }
            let local = Address::Ip(local);
            let left = Arc::new(AtomicU32::new(0));
            let listening = |(place, socket)| ListeningSocket {
                socket: Arc::new(socket),
                tcp: true,
                address: local.clone(),
                close_order: Some(CloseOrder::new(place, &left)),
                outlives: false,
            };
            let sockets = (0..).zip(sockets).map(listening).collect();
            Ok((local, sockets))
        }
        Address::Unix(path) => {
            let socket = Arc::new(listen_unix(path, mode, sharing == Sharing::WithAnother)?);
            let listening = |_| ListeningSocket {
                socket: Arc::clone(&socket),
                tcp: false,
                address: address.clone(),
                close_order: None,
                outlives: false,
            };
            Ok((address.clone(), (0..threads.max(1)).map(listening).collect()))
        }
    }
}

/// Binds as [`bind`] does, and listens at once.
///
/// **Errors**: those of [`bind`], and listen(2).
pub fn listen(
    address: &Address,
    mode: u32,
    threads: usize,
    timeouts: SocketTimeouts,
    sharing: Sharing,
) -> io::Result<(Address, Vec<ListeningSocket>)> {
    let (address, sockets) = bind(address, mode, threads, timeouts, sharing)?;
    sockets.iter().try_for_each(ListeningSocket::begin)?;
    Ok((address, sockets))
}

/// Checks that a process that is alone on an address can bind it: binds it without SO_REUSEPORT, which fails if another
/// process listens there, and closes it again.
///
/// **Errors**: those of bind(2).
pub fn try_out(address: SocketAddr) -> io::Result<()> {
    bind_tcp(address, false).map(drop)
}

fn prepare_tcp(address: SocketAddr, timeouts: SocketTimeouts) -> io::Result<OwnedFd> {
    let socket = bind_tcp(address, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    set_socket_timeouts(&socket, timeouts)?;
    Ok(socket)
}

fn bind_tcp(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
    if let SocketAddr::V6(v6) = address {
        // `[::]` serves IPv4 too; every other address is exact.
        sockopt::set_ipv6_v6only(&socket, !v6.ip().is_unspecified())?;
    }
    net::bind(&socket, &address)?;
    Ok(socket)
}

fn listen_unix(path: &Path, mode: u32, may_take: bool) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = open(AddressFamily::UNIX)?;
    match net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if is_abandoned(path)? => {
            fs::remove_file(path)?;
            net::bind(&socket, &address)?;
        }
        Err(Errno::ADDRINUSE) if may_take && is_socket(path)? => return take_over_unix(path, mode),
        outcome => outcome?,
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Puts a socket in the place of one that another process listens on: new clients connect to this one from then on, and
/// there is no moment at which no client can connect.
fn take_over_unix(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let aside = Path::new(&name);
    // Left by a process of the same number that was killed here.
    let _ = fs::remove_file(aside);
    let socket = listen_unix(aside, mode, false)?;
    fs::rename(aside, path)?;
    Ok(socket)
}

fn is_socket(path: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(path)?.file_type().is_socket())
}

/// Returns true if no client can connect to the unix socket of this name any more: its file was removed, or replaced by one that no process
/// listens on. A TCP address is always reachable, and so is a path that cannot be inspected.
///
/// **Cost**: a stat; where the file is a socket, a connection that is closed at once.
pub fn is_unreachable(address: &Address) -> bool {
    match address {
        Address::Ip(_) => false,
        Address::Unix(path) => match fs::symlink_metadata(path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(_) => is_abandoned(path).unwrap_or(false),
        },
    }
}

/// Returns true if `path` is a socket that refuses connections, such as one left behind by a killed process.
fn is_abandoned(path: &Path) -> io::Result<bool> {
    if !is_socket(path)? {
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

/// The place of a socket among those of this process that share a TCP address. They are closed from the last to the first:
/// the kernel puts the last of all sockets into the place of one that is closed, and so ours stay in front.
#[derive(Debug)]
struct CloseOrder {
    place: u32,
    /// Those that are not closed yet.
    left: Arc<AtomicU32>,
}

impl CloseOrder {
    fn new(place: u32, left: &Arc<AtomicU32>) -> Self {
        left.fetch_add(1, Ordering::AcqRel);
        Self { place, left: Arc::clone(left) }
    }

    fn has_come(&self) -> bool {
        self.left.load(Ordering::Acquire) == self.place + 1
    }
}

impl Drop for CloseOrder {
    fn drop(&mut self) {
        self.left.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A listening socket on its way to its thread.
#[derive(Debug)]
pub struct ListeningSocket {
    socket: Arc<OwnedFd>,
    tcp: bool,
    address: Address,
    close_order: Option<CloseOrder>,
    /// True if another process has it too, so that its queue remains when this process closes it.
    outlives: bool,
}

impl ListeningSocket {
    /// A reference to the descriptor, for a list of what this process listens on.
    ///
    /// The socket listens for as long as a reference exists, and a socket without an acceptor loses the clients that the
    /// kernel accepts. So a list makes it a [`Weak`](std::sync::Weak) one.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Lets clients in: until then a TCP socket is bound and no connection waits in it. A socket that is bound and then
    /// not used costs no connection of another process that listens there.
    ///
    /// **Errors**: listen(2).
    pub fn begin(&self) -> io::Result<()> {
        match self.tcp {
            true => Ok(net::listen(&self.socket, BACKLOG)?),
            false => Ok(()),
        }
    }

    /// To be called in the task that will accept.
    pub fn open(self) -> Listener {
        let Self { socket, tcp, address, close_order, outlives } = self;
        Listener { socket, tcp, address, source: None, close_order, outlives, is_scarce: false }
    }
}

/// A listening socket of one task.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<OwnedFd>,
    tcp: bool,
    address: Address,
    /// `None` while accepting is paused: a level-triggered listener without an acceptor would spin.
    source: Option<EventSource>,
    /// After the socket: it is the next one's turn when this one is closed.
    close_order: Option<CloseOrder>,
    outlives: bool,
    /// True if the last connection had one of the last descriptors.
    is_scarce: bool,
}

impl Listener {
    /// Returns its listening address, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Takes one connection that waits, without waiting for one; `None`: there is none.
    ///
    /// **Errors**: accept4(2), and a lack of descriptors for connections ([`limits::reserve_descriptors`]): the connection waits on. Errors of
    /// the connection itself (it was reset while it waited) are skipped.
    pub fn try_accept(&mut self) -> Result<Option<(Stream, Option<SocketAddr>)>, Fault> {
        if self.is_scarce && !limits::has_room(&self.socket) {
            return Err(Fault::own(Operation::Accept, Cause::OutOfFiles));
        }
        loop {
            return match net::acceptfrom_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((socket, peer)) => {
                    self.is_scarce = limits::is_near_the_limit(&socket);
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

    /// Returns the number of connections that wait to be accepted from this socket. For a unix socket it is 1 if any
    /// waits, because the kernel reports no number.
    ///
    /// **Cost**: a call. **Source**: for a listening socket `tcpi_unacked` is the length of its queue (`tcp_get_info` in
    /// the kernel's tcp.c).
    pub fn waiting(&self) -> u64 {
        if self.tcp {
            return sys::tcp_info(&self.socket).map_or(0, |info| u64::from(info.unacknowledged));
        }
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let any = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        u64::from(any.is_ok_and(|ready| ready > 0))
    }

    /// Sends new clients to another process that listens on the same address with `others` sockets; clients whose TCP
    /// handshake with one of ours has begun still come here. Closing at once would reset those (unless the kernel is configured
    /// to move them, `net.ipv4.tcp_migrate_req`). `false`: this socket is not shared, or the kernel cannot do it.
    ///
    /// It relies on this process having begun to listen there first, and on each of its listeners there doing this, and
    /// closing only when it [may](Self::may_close): then no client is sent to a socket that is about to be closed, if the
    /// other process has at least two. The other process calls [`Self::stop_giving_way`] in the end.
    pub fn give_way(&mut self, others: u32) -> bool {
        // One fewer than there are: the same choice is right before and after a socket of ours is closed.
        let steer = |order: &CloseOrder| {
            let past = order.left.load(Ordering::Acquire);
            sys::steer_past(&self.socket, past, others.saturating_sub(1)).is_ok()
        };
        self.close_order.as_ref().is_some_and(steer)
    }

    /// Returns true if its queue, with the waiting clients, remains when this process closes it: a service manager
    /// keeps it.
    pub fn outlives_us(&self) -> bool {
        self.outlives
    }

    /// Returns true if this socket is the next to be closed, after [`Self::give_way`].
    pub fn may_close(&self) -> bool {
        self.close_order.as_ref().is_none_or(CloseOrder::has_come)
    }

    /// No other process gives way to this one any more: the kernel chooses among all of its sockets again.
    pub fn stop_giving_way(&self) {
        if self.tcp {
            sys::steer_no_more(&self.socket);
        }
    }

    /// Waits until a connection may be there, or `deadline`.
    ///
    /// **Errors**: registering with the engine.
    pub async fn ready(&mut self, deadline: Moment) -> io::Result<Woken> {
        match &self.source {
            Some(source) => source.used_up(Ready::READ),
            None => self.source = Some(EventSource::register_listener(&self.socket)?),
        }
        Ok(wait(deadline).await)
    }

    /// Is not notified of connections until [`Listener::ready`] is called again; they wait in the kernel's queue.
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
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    const TIMEOUTS: SocketTimeouts =
        SocketTimeouts { unacknowledged: Duration::ZERO, keepalive: Duration::ZERO };

    fn loopback() -> Address {
        Address::Ip(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    fn connect(address: &Address) -> io::Result<TcpStream> {
        let Address::Ip(address) = address else { panic!("not TCP") };
        TcpStream::connect_timeout(address, Duration::from_secs(10))
    }

    fn opened(sockets: Vec<ListeningSocket>) -> Vec<Listener> {
        sockets.into_iter().map(ListeningSocket::open).collect()
    }

    /// Counts the connections that wait in the queues.
    fn waiting(listeners: &mut [Listener]) -> usize {
        let taken = |listener: &mut Listener| {
            std::iter::from_fn(|| listener.try_accept().expect("nothing is short").map(drop)).count()
        };
        listeners.iter_mut().map(taken).sum()
    }

    #[test]
    fn what_has_not_begun_lets_nobody_wait() {
        let (address, sockets) = bind(&loopback(), 0, 2, TIMEOUTS, Sharing::Alone).unwrap();
        assert_eq!(connect(&address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        sockets.iter().try_for_each(ListeningSocket::begin).unwrap();
        let _client = connect(&address).unwrap();
        assert_eq!(waiting(&mut opened(sockets)), 1);
    }

    #[test]
    fn only_a_listener_that_allows_it_shares_an_address() {
        let (address, _sockets) = listen(&loopback(), 0, 1, TIMEOUTS, Sharing::Alone).unwrap();
        let refused = bind(&address, 0, 1, TIMEOUTS, Sharing::Alone).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let (shared, _) = listen(&address, 0, 1, TIMEOUTS, Sharing::WithAnother).unwrap();
        assert_eq!(shared, address);
    }

    #[test]
    fn who_gives_way_gets_no_further_clients_not_even_while_it_closes() {
        for threads in [2, 5] {
            let (address, old) = listen(&loopback(), 0, 3, TIMEOUTS, Sharing::Alone).unwrap();
            let mut old = opened(old);
            // There is no other process to send clients to.
            assert!(old[0].give_way(threads));
            let _client = connect(&address).unwrap();
            assert_eq!(waiting(&mut old), 1);
            let (_, new) = listen(&address, 0, threads as usize, TIMEOUTS, Sharing::WithAnother).unwrap();
            let mut new = opened(new);
            while !old.is_empty() {
                let turns: Vec<_> = old.iter().map(Listener::may_close).collect();
                assert!(
                    turns.iter().rev().enumerate().all(|(place, turn)| *turn == (place == 0)),
                    "{turns:?}"
                );
                let last = old.len() - 1;
                assert!(old[last].give_way(threads));
                for closed in [false, true] {
                    if closed {
                        old.pop();
                    }
                    let clients: Vec<_> = (0..40).map(|_| connect(&address).unwrap()).collect();
                    let seen = (waiting(&mut old), waiting(&mut new));
                    assert_eq!(
                        seen,
                        (0, clients.len()),
                        "{threads} threads, {last} others, closed: {closed}"
                    );
                }
            }
            new[0].stop_giving_way();
            // Each of them is chosen again: 200 miss one of five with a probability below 10⁻¹⁸.
            let _clients: Vec<_> = (0..200).map(|_| connect(&address).unwrap()).collect();
            let each: Vec<_> = new.iter_mut().map(|one| waiting(std::slice::from_mut(one))).collect();
            assert!(each.iter().all(|count| *count > 0), "{each:?}");
        }
    }

    #[test]
    fn a_unix_socket_is_taken_over_without_a_moment_in_which_nobody_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.sock");
        let address = Address::Unix(path.clone());
        let (_, old) = listen(&address, 0o600, 1, TIMEOUTS, Sharing::Alone).unwrap();
        assert!(bind(&address, 0o600, 1, TIMEOUTS, Sharing::Alone).is_err());
        let (_, new) = listen(&address, 0o640, 1, TIMEOUTS, Sharing::WithAnother).unwrap();
        let (mut old, mut new) = (opened(old), opened(new));
        // A connection that only tested whether a process listens here.
        waiting(&mut old);
        let _client = UnixStream::connect(&path).unwrap();
        assert_eq!((waiting(&mut new), waiting(&mut old)), (1, 0));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies about");
    }
}
