//! Dialling a backend: a connected stream, or the true cause why there is none.
//!
//! In: an address, and the first bytes to send there. Out: a [`Stream`]. Waiting is the caller's: it knows its deadline
//! and what else may end it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::address::Address;
use crate::engine::{EventSource, Ready};
use crate::fault::{Cause, Fault, Operation};
use crate::limits;
use crate::stream::Stream;
use crate::sys;

mod source;

pub use source::{SourceAddress, can_be_foreign, is_here, remember_ports};

/// A connection on its way.
///
/// **Cancel**: dropping it resets whatever has come about, as dropping a [`Stream`] does; nothing was sent.
#[derive(Debug)]
pub struct Dialling {
    /// Its source is set once it has to be waited for; its fault, when it stood and was reset before our first byte:
    /// what the peer sent before that is still to be read.
    stream: Stream,
}

impl Dialling {
    /// Begins to dial `address`. Unix sockets connect at once or not at all.
    ///
    /// **Errors**: what the kernel knows at once: no route, no file, no port left, no descriptor left.
    pub fn start(address: &Address) -> Result<Self, Fault> {
        Self::begin(address, SourceAddress::Route, false)
    }

    /// Begins to dial for a caller that sends data as soon as the connection is established: the last acknowledgement
    /// of TCP's handshake waits for the first bytes and travels with them, a segment less for both sides.
    ///
    /// **Cost**: one call more, and a backend that sees the connection up to 0.2 s late when nothing is sent after
    /// all. **Source**: `tcp_rcv_synsent_state_process` in the kernel's tcp_input.c; TCP_QUICKACK in tcp(7).
    ///
    /// **Errors**: as [`Dialling::start`].
    pub fn start_to_speak(address: &Address) -> Result<Self, Fault> {
        Self::begin(address, SourceAddress::Route, true)
    }

    /// The same from an address of this machine; `None`: the kernel chooses one by the route. Unix sockets have none.
    ///
    /// The port is chosen when it connects, so that each source address has all its ports towards each target; bound
    /// at once, they would be shared by all targets (`IP_BIND_ADDRESS_NO_PORT` in ip(7)).
    ///
    /// **Errors**: as [`Dialling::start`]; and that the source is no address of this machine, or of the other family.
    pub fn start_from(address: &Address, source: Option<IpAddr>) -> Result<Self, Fault> {
        match (source, address) {
            (Some(source), Address::Ip(address)) => Self::tcp(*address, Some((source, false)), false),
            _ => Self::begin(address, SourceAddress::Route, false),
        }
    }

    /// Begins to dial `address` from `source`; `sends_first`: as [`Dialling::start_to_speak`]. Unix sockets have no source.
    ///
    /// **Errors**: as [`Dialling::start_from`]; where no port is left, from any of the sources, with the arithmetic.
    ///
    /// **Cost**: where a source has no port left, the kernel has looked at all of them before it reports that, and the next one is
    /// tried: the callers' bound on the number of sources bounds it.
    pub fn begin(address: &Address, source: SourceAddress<'_>, sends_first: bool) -> Result<Self, Fault> {
        let address = match address {
            Address::Ip(address) => *address,
            Address::Unix(path) => return Self::unix(path),
        };
        let outcome = match source {
            SourceAddress::Route => Self::tcp(address, None, sends_first),
            SourceAddress::Client(client) if source::fits(client, address) => {
                Self::tcp(address, Some((client, true)), sends_first)
            }
            SourceAddress::Client(_) => Err(source::none_fits(address)),
            SourceAddress::Own { all, first } => Self::from_one_of(address, all, first, sends_first),
        };
        outcome.map_err(|fault| source::explained(fault, source, address))
    }

    /// Tries one source after the other, as long as it is the source that is to blame.
    fn from_one_of(
        address: SocketAddr,
        all: &[IpAddr],
        first: usize,
        sends_first: bool,
    ) -> Result<Self, Fault> {
        let mut failed = None;
        let from_first = all.iter().cycle().skip(first % all.len().max(1)).take(all.len());
        for source in from_first.filter(|source| source::fits(**source, address)) {
            match Self::tcp(address, Some((*source, false)), sends_first) {
                Err(fault) if matches!(fault.cause, Cause::OutOfPorts | Cause::ForeignAddress) => {
                    // Ports that ran out are a more useful reason than an address that is gone from this machine.
                    if failed.as_ref().is_none_or(|known: &Fault| known.cause != Cause::OutOfPorts) {
                        failed = Some(fault);
                    }
                }
                outcome => return outcome,
            }
        }
        Err(failed.unwrap_or_else(|| source::none_fits(address)))
    }

    /// From `source`, which may be none of this machine's where the flag beside it is set.
    fn tcp(address: SocketAddr, source: Option<(IpAddr, bool)>, sends_first: bool) -> Result<Self, Fault> {
        let socket = open(family(address.ip()))?;
        if let Some((source, foreign)) = source {
            if foreign {
                allow_foreign(&socket, source)?;
            }
            bind(&socket, source)?;
        }
        if sends_first {
            // Without it there is a segment more; no reason not to dial.
            let _ = sockopt::set_tcp_quickack(&socket, false);
        }
        match net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(Self { stream: Stream::new(socket, true) }),
            Err(errno) => Err(Fault::of(Operation::Connect, errno, Some(socket.as_fd()))),
        }
    }

    fn unix(path: &Path) -> Result<Self, Fault> {
        let address = SocketAddrUnix::new(path).map_err(|errno| Fault::of(Operation::Open, errno, None))?;
        let socket = open(AddressFamily::UNIX)?;
        net::connect(&socket, &address)
            .map_err(|errno| Fault::of(Operation::Connect, errno, Some(socket.as_fd())))?;
        Ok(Self { stream: Stream::new(socket, false) })
    }

    /// Checks if the connection is established, and sends the beginning of `first` if so; `Some` is the number of bytes
    /// that the kernel took. Call it at once, and whenever [`crate::engine::wait`] returned.
    ///
    /// On a near machine a connection is established before connect(2) returns, so the first write shows the outcome.
    ///
    /// **Errors**: why it failed, with the ICMP message that reported it; nothing of `first` has arrived then.
    pub fn advance(&mut self, first: &[u8]) -> Result<Option<usize>, Fault> {
        let Some(source) = self.stream.source() else {
            let sent = if self.stream.is_tcp() || !first.is_empty() { self.send(first)? } else { Some(0) };
            if sent.is_none() {
                self.watch()?;
            }
            return Ok(sent);
        };
        if !source.ready().has(Ready::WRITE) && !source.ready().has(Ready::ENDED) {
            return Ok(None);
        }
        // Being woken is not being connected: the socket itself has the outcome.
        if let Ok(Err(errno)) = sockopt::socket_error(&self.stream) {
            return self.failed(errno);
        }
        if net::getpeername(&self.stream).is_err() {
            source.used_up(Ready::WRITE);
            return Ok(None);
        }
        if first.is_empty() { Ok(Some(0)) } else { Ok(Some(self.send(first)?.unwrap_or(0))) }
    }

    fn watch(&mut self) -> Result<(), Fault> {
        let source = EventSource::register_connecting(&self.stream).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
            Fault::of(Operation::Open, errno, None)
        })?;
        self.stream.set_source(source);
        Ok(())
    }

    /// Sends the beginning of `first` if the connection is already established; `None`: not yet, or nothing to send.
    fn send(&mut self, first: &[u8]) -> Result<Option<usize>, Fault> {
        if first.is_empty() {
            return Ok(None);
        }
        match net::send(&self.stream, first, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => Ok(Some(sent)),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => Ok(None),
            Err(errno) => self.failed(errno),
        }
    }

    /// Returns the reason for the failure, when the caller's timeout has expired: the kernel may have recorded an error
    /// that it does not consider final (an ICMP message that was met by another SYN).
    pub fn give_up(self) -> Fault {
        match sockopt::socket_error(&self.stream) {
            Ok(Err(errno)) => Fault::of(Operation::Connect, errno, Some(self.stream.as_fd())),
            _ => Fault::own(Operation::Connect, Cause::ConnectTimeout),
        }
    }

    /// A reset (and not a refusal) means that the connection stood.
    fn failed(&mut self, errno: Errno) -> Result<Option<usize>, Fault> {
        if matches!(errno, Errno::CONNRESET | Errno::PIPE) {
            self.stream.broke(Fault::of(Operation::Write, errno, Some(self.stream.as_fd())));
            return Ok(Some(0));
        }
        Err(Fault::of(Operation::Connect, errno, Some(self.stream.as_fd())))
    }

    /// Returns the stream, once [`Dialling::advance`] has reported that the connection is established.
    pub fn into_stream(self) -> Stream {
        self.stream
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn allow_foreign(socket: &OwnedFd, source: IpAddr) -> Result<(), Fault> {
    sys::allow_foreign_source(socket, source.is_ipv6()).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::PERM);
        let evidence = Some(format!("as the client {source}: IP_TRANSPARENT needs CAP_NET_ADMIN").into());
        Fault { evidence, ..Fault::of(Operation::Open, errno, None) }
    })
}

fn bind(socket: &OwnedFd, source: IpAddr) -> Result<(), Fault> {
    // Without it the ports would run out sooner; no reason not to dial.
    let _ = sys::choose_port_at_connect(socket);
    net::bind(socket, &SocketAddr::new(source, 0)).map_err(|errno| {
        let fault = Fault::of(Operation::Bind, errno, None);
        Fault { evidence: Some(format!("source address {source}").into()), ..fault }
    })
}

fn open(family: AddressFamily) -> Result<OwnedFd, Fault> {
    net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
        .and_then(limits::admit)
        .map_err(|errno| Fault::of(Operation::Open, errno, None))
}
