//! The words for what went wrong on a connection: at which step, on which side, and the true cause.
//!
//! In: an errno, and what the kernel still knows of the socket. Out: a [`Cause`] that an operator can act on.
//! Everything else (log fields, metric labels, report rows) uses these words and no others.

use std::fmt;
use std::io;

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
    // What the peer did.
    /// The peer sent a TCP reset.
    Reset,
    /// The peer's stream ended without the end mark its protocol demands (FIN without close_notify).
    Truncated,
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
            Self::Reset => "reset",
            Self::Truncated => "truncated",
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
