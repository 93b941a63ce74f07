//! The words for what went wrong on a connection: at which step, on which side, and the true cause.
//!
//! In: an errno, and what the kernel still knows of the socket. Out: a [`Cause`] that an operator can act on.
//! Everything else (log fields, metric labels, report rows) uses these words and no others.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::sys::{self, IcmpError, TcpInfo};

/// One of the seven steps of a connection's life, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Taking the socket from the kernel.
    Accept,
    /// Reading the ClientHello.
    Hello,
    /// From the hello to the client's last flight.
    Handshake,
    /// Choosing a backend.
    Route,
    /// Dialling the backend.
    Connect,
    /// Carrying bytes both ways.
    Relay,
    /// Ending it.
    Close,
}

impl Step {
    /// Every step, in the order of the path.
    pub const ALL: [Self; 7] =
        [Self::Accept, Self::Hello, Self::Handshake, Self::Route, Self::Connect, Self::Relay, Self::Close];

    /// The word used in logs, labels and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Hello => "hello",
            Self::Handshake => "handshake",
            Self::Route => "route",
            Self::Connect => "connect",
            Self::Relay => "relay",
            Self::Close => "close",
        }
    }
}

/// Who made it happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Who connected to us.
    Client,
    /// Whom we dialled.
    Backend,
    /// Who runs this program: a stop, a limit written down in the configuration.
    Operator,
    /// This program or the machine it runs on.
    Ourselves,
}

impl Side {
    /// Every side.
    pub const ALL: [Self; 4] = [Self::Client, Self::Backend, Self::Operator, Self::Ourselves];

    /// The word used in logs, labels and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Backend => "backend",
            Self::Operator => "operator",
            Self::Ourselves => "ourselves",
        }
    }
}

/// Why a connection, or an attempt at one, ended. One word per way; the sentence is its `Display`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    // Good ends.
    /// Both directions ended in order.
    Finished,
    /// The backend ended its direction, the client had everything and said nothing more: it was ended in order too.
    BackendEnded,
    // What the peer did.
    /// The peer sent a TCP reset.
    Reset,
    /// The peer's stream ended without the end mark its protocol demands (FIN without close_notify), and something was in
    /// flight.
    Truncated,
    /// The same, when nothing was in flight: the other side had the last word, and the peer had acknowledged it.
    NoCloseNotify,
    /// The peer closed before the step was done.
    Left,
    /// Nobody listens there: a reset or an ICMP port-unreachable answered our SYN.
    Refused,
    /// The peer sent a fatal TLS alert.
    Alert,
    /// The peer broke the TLS protocol, or offered nothing that our policy allows.
    Tls,
    /// What arrived is not TLS.
    NotTls,
    /// The name asked for is served by no certificate here.
    UnknownName,
    /// The client's certificate was missing or refused.
    ClientCertificate,
    // What the network did.
    /// The kernel gave up: the peer stopped acknowledging what we sent.
    Unacknowledged,
    /// The kernel gave up: keep-alive probes of an idle connection were not answered.
    KeepaliveUnanswered,
    /// The kernel gave up dialling: no answer to our SYN.
    ConnectTimedOut,
    /// No route to the host (ICMP host-unreachable, or the local routing table).
    HostUnreachable,
    /// No route to the network.
    NetworkUnreachable,
    /// A router or firewall said that the protocol or port is prohibited.
    Prohibited,
    /// An ICMP port-unreachable arrived for an established connection.
    PortUnreachable,
    // What our limits did.
    /// The deadline from accept to relay passed.
    HandshakeDeadline,
    /// The ClientHello was larger than the limit.
    HelloTooLarge,
    /// The deadline for dialling the backend passed.
    ConnectDeadline,
    /// Nothing moved for the idle limit.
    Idle,
    /// One direction had ended and the other did not move for the half-closed limit.
    HalfClosedIdle,
    /// The connection reached its greatest age.
    Lifetime,
    /// The limit on connections from one client address.
    AddressLimit,
    // What the operator or the machine did.
    /// The drain deadline of a stop passed, or a second signal came.
    Stopped,
    /// No backend is configured, known or healthy.
    NoBackend,
    /// The backend's name could not be resolved.
    NameNotResolved,
    /// Out of file descriptors.
    OutOfFiles,
    /// Out of source ports towards this backend.
    OutOfPorts,
    /// The source address asked for is none of this machine.
    ForeignAddress,
    /// Out of memory or socket buffers.
    OutOfMemory,
    /// The socket was destroyed on this machine (`ss -K`, an address removed).
    Destroyed,
    /// No permission for the operation.
    Permission,
    /// The unix socket's path is not there.
    PathMissing,
    /// The unix socket's backlog is full.
    BacklogFull,
    /// A bug of ours: the connection's task panicked or broke an invariant.
    Internal,
    /// An errno for which there is no word yet; the number is in the log.
    Errno(i32),
}

impl Cause {
    /// The word used in logs, labels and documents: kebab-case, stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::BackendEnded => "backend-ended",
            Self::Reset => "reset",
            Self::Truncated => "truncated",
            Self::NoCloseNotify => "no-close-notify",
            Self::Left => "left",
            Self::Refused => "refused",
            Self::Alert => "alert",
            Self::Tls => "tls",
            Self::NotTls => "not-tls",
            Self::UnknownName => "unknown-name",
            Self::ClientCertificate => "client-certificate",
            Self::Unacknowledged => "unacknowledged",
            Self::KeepaliveUnanswered => "keepalive-unanswered",
            Self::ConnectTimedOut => "connect-timed-out",
            Self::HostUnreachable => "host-unreachable",
            Self::NetworkUnreachable => "network-unreachable",
            Self::Prohibited => "prohibited",
            Self::PortUnreachable => "port-unreachable",
            Self::HandshakeDeadline => "handshake-deadline",
            Self::HelloTooLarge => "hello-too-large",
            Self::ConnectDeadline => "connect-deadline",
            Self::Idle => "idle",
            Self::HalfClosedIdle => "half-closed-idle",
            Self::Lifetime => "lifetime",
            Self::AddressLimit => "address-limit",
            Self::Stopped => "stopped",
            Self::NoBackend => "no-backend",
            Self::NameNotResolved => "name-not-resolved",
            Self::OutOfFiles => "out-of-files",
            Self::OutOfPorts => "out-of-ports",
            Self::ForeignAddress => "foreign-address",
            Self::OutOfMemory => "out-of-memory",
            Self::Destroyed => "destroyed",
            Self::Permission => "permission",
            Self::PathMissing => "path-missing",
            Self::BacklogFull => "backlog-full",
            Self::Internal => "internal",
            Self::Errno(_) => "errno",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(number) => write!(f, "{} (errno {number})", io::Error::from_raw_os_error(*number)),
            other => f.write_str(other.name()),
        }
    }
}

/// The call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// accept4(2).
    Accept,
    /// socket(2), or setting it up.
    Open,
    /// bind(2), to the address a connection is to come from.
    Bind,
    /// connect(2), or the first write that told its outcome.
    Connect,
    /// recv(2).
    Read,
    /// send(2).
    Write,
}

impl Operation {
    /// The word used in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Open => "open",
            Self::Bind => "bind",
            Self::Connect => "connect",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// A failed socket call with its true cause, sought where the kernel keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The true cause.
    pub cause: Cause,
    /// The call that reported it.
    pub operation: Operation,
    /// What the call said, for those who know errnos.
    pub errno: i32,
    /// What else the kernel knew.
    pub evidence: Option<Box<str>>,
}

impl Fault {
    /// Translates what a call on `socket` said, asking the kernel for more where the errno does not tell.
    ///
    /// **Source**: the table in docs/lessons (what Linux says when a connection breaks); tcp(7), connect(2).
    pub(crate) fn of(operation: Operation, errno: Errno, socket: Option<BorrowedFd<'_>>) -> Self {
        let info = socket.and_then(sys::tcp_info);
        let icmp = match operation {
            Operation::Connect => socket.and_then(sys::take_icmp_error),
            _ => None,
        };
        let cause = cause(operation, errno, info.as_ref(), icmp.as_ref());
        Self { cause, operation, errno: errno.raw_os_error(), evidence: evidence(cause, info, icmp) }
    }

    /// A fault that is our own limit or finding, not a call's.
    pub fn own(operation: Operation, cause: Cause) -> Self {
        Self { cause, operation, errno: 0, evidence: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation.name(), self.cause)?;
        match &self.evidence {
            Some(evidence) => write!(f, " ({evidence})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

fn cause(operation: Operation, errno: Errno, info: Option<&TcpInfo>, icmp: Option<&IcmpError>) -> Cause {
    let connecting = operation == Operation::Connect;
    let tcp = info.is_some();
    match errno {
        Errno::CONNRESET => Cause::Reset,
        // "Something ended earlier": the peer closed both directions and answered our bytes with a reset.
        Errno::PIPE => Cause::Left,
        Errno::CONNREFUSED if connecting => Cause::Refused,
        Errno::CONNREFUSED => Cause::PortUnreachable,
        Errno::TIMEDOUT if connecting => Cause::ConnectTimedOut,
        Errno::TIMEDOUT if info.is_some_and(|info| info.unacknowledged > 0 || info.retransmits > 0) => {
            Cause::Unacknowledged
        }
        Errno::TIMEDOUT => Cause::KeepaliveUnanswered,
        Errno::HOSTUNREACH if icmp.is_some_and(IcmpError::prohibited) => Cause::Prohibited,
        Errno::NETUNREACH if icmp.is_some_and(IcmpError::prohibited) => Cause::Prohibited,
        Errno::HOSTUNREACH => Cause::HostUnreachable,
        // A blackhole route answers connect(2) with EINVAL.
        Errno::NETUNREACH | Errno::NETDOWN => Cause::NetworkUnreachable,
        Errno::INVAL if connecting && tcp => Cause::NetworkUnreachable,
        Errno::ACCESS if connecting && tcp => Cause::Prohibited,
        Errno::ACCESS | Errno::PERM => Cause::Permission,
        Errno::NOPROTOOPT => Cause::Prohibited,
        Errno::CONNABORTED => Cause::Destroyed,
        Errno::MFILE | Errno::NFILE => Cause::OutOfFiles,
        Errno::NOBUFS | Errno::NOMEM => Cause::OutOfMemory,
        Errno::ADDRNOTAVAIL if operation == Operation::Bind => Cause::ForeignAddress,
        // An IPv4 source towards an IPv6 target, or the other way round (EINVAL where the length decides).
        Errno::AFNOSUPPORT | Errno::INVAL if operation == Operation::Bind => Cause::NetworkUnreachable,
        // Every port of the range is in use towards this target, or, when bound first, at all (bind(2)).
        Errno::ADDRINUSE if operation == Operation::Bind => Cause::OutOfPorts,
        Errno::ADDRNOTAVAIL => Cause::OutOfPorts,
        Errno::NOENT if connecting => Cause::PathMissing,
        Errno::AGAIN if connecting && !tcp => Cause::BacklogFull,
        other => Cause::Errno(other.raw_os_error()),
    }
}

fn evidence(cause: Cause, info: Option<TcpInfo>, icmp: Option<IcmpError>) -> Option<Box<str>> {
    if let Some(icmp) = icmp {
        let from = icmp.offender.map(|offender| format!(" from {offender}")).unwrap_or_default();
        let v6 = if icmp.v6 { "v6" } else { "" };
        return Some(format!("ICMP{v6} type {} code {}{from}", icmp.kind, icmp.code).into());
    }
    if cause == Cause::Left {
        return Some("it had closed both directions while bytes were on their way to it".into());
    }
    let info = info?;
    match cause {
        Cause::Unacknowledged => Some(
            format!(
                "{} unanswered, last acknowledgement {} ms ago",
                counted(info.retransmits.max(1), "retransmission"),
                info.last_ack_received_ms
            )
            .into(),
        ),
        Cause::KeepaliveUnanswered => Some(
            format!("{}, last data {} ms ago", counted(info.probes, "probe"), info.last_data_received_ms)
                .into(),
        ),
        Cause::ConnectTimedOut => {
            Some(format!("{} unanswered", counted(info.total_retransmissions + 1, "SYN")).into())
        }
        _ => None,
    }
}

fn counted(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errno and circumstances → cause: the table of what Linux says, as far as the errno alone tells.
    #[test]
    fn an_errno_means_what_it_means_where_it_happened() {
        use Operation::{Accept, Bind, Connect, Open, Read, Write};
        let alive = TcpInfo::default();
        let unacknowledged = TcpInfo { unacknowledged: 3, ..alive };
        for (operation, errno, info, expected) in [
            (Read, Errno::CONNRESET, Some(&alive), Cause::Reset),
            (Write, Errno::PIPE, Some(&alive), Cause::Left),
            (Connect, Errno::CONNREFUSED, Some(&alive), Cause::Refused),
            (Read, Errno::CONNREFUSED, Some(&alive), Cause::PortUnreachable),
            (Connect, Errno::TIMEDOUT, Some(&alive), Cause::ConnectTimedOut),
            (Read, Errno::TIMEDOUT, Some(&unacknowledged), Cause::Unacknowledged),
            (Read, Errno::TIMEDOUT, Some(&alive), Cause::KeepaliveUnanswered),
            (Connect, Errno::HOSTUNREACH, Some(&alive), Cause::HostUnreachable),
            (Connect, Errno::NETUNREACH, Some(&alive), Cause::NetworkUnreachable),
            (Connect, Errno::INVAL, Some(&alive), Cause::NetworkUnreachable),
            (Connect, Errno::ACCESS, Some(&alive), Cause::Prohibited),
            (Connect, Errno::ACCESS, None, Cause::Permission),
            (Connect, Errno::ADDRNOTAVAIL, Some(&alive), Cause::OutOfPorts),
            (Bind, Errno::ADDRNOTAVAIL, None, Cause::ForeignAddress),
            (Bind, Errno::AFNOSUPPORT, None, Cause::NetworkUnreachable),
            (Connect, Errno::NOENT, None, Cause::PathMissing),
            (Connect, Errno::AGAIN, None, Cause::BacklogFull),
            (Read, Errno::CONNABORTED, Some(&alive), Cause::Destroyed),
            (Accept, Errno::MFILE, None, Cause::OutOfFiles),
            (Open, Errno::NFILE, None, Cause::OutOfFiles),
            (Open, Errno::NOBUFS, None, Cause::OutOfMemory),
            (Read, Errno::IO, Some(&alive), Cause::Errno(5)),
        ] {
            assert_eq!(cause(operation, errno, info, None), expected, "{operation:?} {errno:?}");
        }
    }

    #[test]
    fn a_router_that_prohibits_is_told_from_a_host_that_is_not_there() {
        let icmp = |code| IcmpError { errno: 113, v6: false, kind: 3, code, offender: None };
        let of = |code| cause(Operation::Connect, Errno::HOSTUNREACH, None, Some(&icmp(code)));
        assert_eq!((of(1), of(13), of(10)), (Cause::HostUnreachable, Cause::Prohibited, Cause::Prohibited));
    }

    #[test]
    fn every_word_is_its_own() {
        let steps: std::collections::HashSet<_> = Step::ALL.iter().map(|step| step.name()).collect();
        let sides: std::collections::HashSet<_> = Side::ALL.iter().map(|side| side.name()).collect();
        assert_eq!((steps.len(), sides.len()), (7, 4));
    }
}
