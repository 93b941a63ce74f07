//! The words for what went wrong on a socket.
//!
//! In: an errno, and what the kernel still knows of the socket. Out: a [`Cause`] that an operator can act on.
//! Log fields, metric labels and report rows use these words for it and no others.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::sys::{self, IcmpError, TcpInfo};

/// Writes the causes down once: the variants, their words, and the list of them all.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// Reason why a socket failed, or an attempt to get one. One word per way.
        ///
        /// Only what a socket can have: what a protocol or a limit on top of it finds wrong has its words there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause {
            $($(#[$doc])* $name,)*
            /// An errno for which there is no word yet; the number is in the log.
            Errno(i32),
        }

        impl Cause {
            /// Every cause but [`Cause::Errno`].
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word used in logs, labels and documents: kebab-case, stable.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                    Self::Errno(_) => "errno",
                }
            }
        }
    };
}

causes! {
    /// The peer sent a TCP reset.
    Reset = "reset",
    /// The peer closed before this step was complete, or while there was still something for it.
    ClosedEarly = "closed-early",
    /// No process listens there: a reset or an ICMP port-unreachable answered our SYN.
    Refused = "refused",
    /// The kernel gave up: the peer stopped acknowledging what we sent.
    Unacknowledged = "unacknowledged",
    /// The kernel gave up: the peer acknowledged, but had room for nothing more.
    ZeroWindow = "zero-window",
    /// The kernel gave up: keep-alive probes of an idle connection were not answered.
    KeepaliveUnanswered = "keepalive-unanswered",
    /// The kernel gave up dialling: no answer to our SYN.
    ConnectTimedOut = "connect-timed-out",
    /// We gave up dialling: the deadline for it passed.
    ConnectTimeout = "connect-timeout",
    /// No route to the host (ICMP host-unreachable, or the local routing table).
    HostUnreachable = "host-unreachable",
    /// No route to the network.
    NetworkUnreachable = "network-unreachable",
    /// A router or firewall reported that the protocol or port is prohibited.
    Prohibited = "prohibited",
    /// An ICMP port-unreachable arrived for an established connection.
    PortUnreachable = "port-unreachable",
    /// Out of file descriptors.
    OutOfFiles = "out-of-files",
    /// Out of source ports towards this address.
    OutOfPorts = "out-of-ports",
    /// The requested source address does not belong to this machine.
    ForeignAddress = "foreign-address",
    /// Out of memory or socket buffers.
    OutOfMemory = "out-of-memory",
    /// The socket was destroyed on this machine (`ss -K`, an address removed).
    Destroyed = "destroyed",
    /// No permission for the operation.
    Permission = "permission",
    /// The unix socket's path is not there.
    PathMissing = "path-missing",
    /// The unix socket's backlog is full.
    BacklogFull = "backlog-full",
}

impl Cause {
    /// Returns true if the cause is on this machine, whatever the peer.
    pub const fn is_local(self) -> bool {
        matches!(
            self,
            Self::OutOfFiles
                | Self::OutOfPorts
                | Self::OutOfMemory
                | Self::ForeignAddress
                | Self::Destroyed
                | Self::Permission
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The system's sentence, with the number.
            Self::Errno(number) => io::Error::from_raw_os_error(*number).fmt(f),
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
    /// connect(2), or the first write that showed its outcome.
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
    /// Error number of the call.
    pub errno: i32,
    /// Further evidence from the kernel.
    pub evidence: Option<Box<str>>,
}

impl Fault {
    /// Translates the errno of a call on `socket`, and queries the kernel for more where the errno is not enough.
    ///
    /// **Source**: the table in docs/internals/linux-errors.md (errors of Linux when a connection breaks); tcp(7), connect(2).
    pub fn of(operation: Operation, errno: Errno, socket: Option<BorrowedFd<'_>>) -> Self {
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
        Errno::PIPE => Cause::ClosedEarly,
        Errno::CONNREFUSED if connecting => Cause::Refused,
        Errno::CONNREFUSED => Cause::PortUnreachable,
        Errno::TIMEDOUT if connecting => Cause::ConnectTimedOut,
        Errno::TIMEDOUT if info.is_some_and(|info| info.unacknowledged > 0 || info.retransmits > 0) => {
            Cause::Unacknowledged
        }
        // TCP_USER_TIMEOUT counts while a window is closed, too, whether the peer answers the probes of it or not; what waits for
        // the window was never sent, so nothing is unacknowledged, and no retransmission is counted.
        Errno::TIMEDOUT if info.is_some_and(|info| info.not_sent_bytes > 0) => {
            if info.is_some_and(probed_in_vain) { Cause::Unacknowledged } else { Cause::ZeroWindow }
        }
        Errno::TIMEDOUT => Cause::KeepaliveUnanswered,
        Errno::HOSTUNREACH if icmp.is_some_and(IcmpError::prohibited) => Cause::Prohibited,
        Errno::NETUNREACH if icmp.is_some_and(IcmpError::prohibited) => Cause::Prohibited,
        Errno::HOSTUNREACH => Cause::HostUnreachable,
        // A blackhole route answers connect(2) with EINVAL.
        Errno::NETUNREACH | Errno::NETDOWN => Cause::NetworkUnreachable,
        Errno::INVAL if connecting && tcp => Cause::NetworkUnreachable,
        // A route of kind `prohibit`; and ICMPv6 "prohibited", of which an established connection keeps the errno
        // alone.
        Errno::ACCESS if tcp && (connecting || matches!(operation, Operation::Read | Operation::Write)) => {
            Cause::Prohibited
        }
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

/// Returns true if the probes of a closed window get no answer. An answer resets their number; a single one may go
/// without, as Linux answers one in half a second (net.ipv4.tcp_invalid_ratelimit), and the first ones are sent faster.
fn probed_in_vain(info: &TcpInfo) -> bool {
    info.probes > 1
}

fn evidence(cause: Cause, info: Option<TcpInfo>, icmp: Option<IcmpError>) -> Option<Box<str>> {
    if let Some(icmp) = icmp {
        let from = icmp.offender.map(|offender| format!(" from {offender}")).unwrap_or_default();
        let v6 = if icmp.v6 { "v6" } else { "" };
        return Some(format!("ICMP{v6} type {} code {}{from}", icmp.kind, icmp.code).into());
    }
    if cause == Cause::ClosedEarly {
        return Some("it had closed both directions while bytes were on their way to it".into());
    }
    let info = info?;
    match cause {
        Cause::Unacknowledged if info.not_sent_bytes > 0 && probed_in_vain(&info) => Some(
            format!(
                "{} of its closed window unanswered, last acknowledgement {} ms ago",
                counted(info.probes, "probe"),
                info.last_ack_received_ms
            )
            .into(),
        ),
        Cause::ZeroWindow => Some(
            format!(
                "{} not sent for want of room at the peer, last acknowledgement {} ms ago",
                counted(info.not_sent_bytes, "byte"),
                info.last_ack_received_ms
            )
            .into(),
        ),
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

    /// Errno and circumstances → cause: the table of Linux's errors, as far as the errno alone is enough.
    #[test]
    fn an_errno_means_what_it_means_where_it_happened() {
        use Operation::{Accept, Bind, Connect, Open, Read, Write};
        let alive = TcpInfo::default();
        let unacknowledged = TcpInfo { unacknowledged: 3, ..alive };
        let full = TcpInfo { not_sent_bytes: 4_096, probes: 1, ..alive };
        let gone = TcpInfo { probes: 2, ..full };
        let idle = TcpInfo { probes: 2, ..alive };
        for (operation, errno, info, expected) in [
            (Read, Errno::CONNRESET, Some(&alive), Cause::Reset),
            (Write, Errno::PIPE, Some(&alive), Cause::ClosedEarly),
            (Connect, Errno::CONNREFUSED, Some(&alive), Cause::Refused),
            (Read, Errno::CONNREFUSED, Some(&alive), Cause::PortUnreachable),
            (Connect, Errno::TIMEDOUT, Some(&alive), Cause::ConnectTimedOut),
            (Read, Errno::TIMEDOUT, Some(&unacknowledged), Cause::Unacknowledged),
            (Read, Errno::TIMEDOUT, Some(&full), Cause::ZeroWindow),
            (Write, Errno::TIMEDOUT, Some(&gone), Cause::Unacknowledged),
            (Read, Errno::TIMEDOUT, Some(&idle), Cause::KeepaliveUnanswered),
            (Read, Errno::TIMEDOUT, Some(&alive), Cause::KeepaliveUnanswered),
            (Connect, Errno::HOSTUNREACH, Some(&alive), Cause::HostUnreachable),
            (Connect, Errno::NETUNREACH, Some(&alive), Cause::NetworkUnreachable),
            (Connect, Errno::INVAL, Some(&alive), Cause::NetworkUnreachable),
            (Connect, Errno::ACCESS, Some(&alive), Cause::Prohibited),
            (Connect, Errno::ACCESS, None, Cause::Permission),
            (Read, Errno::ACCESS, Some(&alive), Cause::Prohibited),
            (Bind, Errno::ACCESS, Some(&alive), Cause::Permission),
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
    fn a_router_that_prohibits_is_distinguished_from_a_host_that_is_not_there() {
        let icmp = |code| IcmpError { errno: 113, v6: false, kind: 3, code, offender: None };
        let of = |code| cause(Operation::Connect, Errno::HOSTUNREACH, None, Some(&icmp(code)));
        assert_eq!((of(1), of(13), of(10)), (Cause::HostUnreachable, Cause::Prohibited, Cause::Prohibited));
    }

    #[test]
    fn every_word_is_its_own() {
        let words: std::collections::HashSet<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        assert_eq!(words.len(), Cause::ALL.len());
    }
}
