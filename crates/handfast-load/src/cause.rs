//! The step of a transaction that failed, and the cause: the words of reports, bus and verdict.
//!
//! Causes of socket errors come from `handfast-net`; the others belong to the load tester.

use handfast_net::fault;
use serde::{Deserialize, Serialize};

/// A step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Dialling the target.
    Connect,
    /// From the ClientHello to the end of the handshake.
    Handshake,
    /// The work: bytes, or a request and its answer.
    Exchange,
    /// Ending the connection.
    Close,
}

impl Step {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
            Self::Close => "close",
        }
    }
}

/// Cause of a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each has its sentence below")]
pub enum Cause {
    Reset,
    Refused,
    ClosedEarly,
    Truncated,
    Alert,
    Tls,
    Certificate,
    NotTls,
    Alpn,
    Http,
    HttpStatus,
    WrongBytes,
    Deadline,
    ConnectTimeout,
    Unacknowledged,
    ZeroWindow,
    KeepaliveUnanswered,
    ConnectTimedOut,
    HostUnreachable,
    NetworkUnreachable,
    Prohibited,
    PortUnreachable,
    OutOfFiles,
    OutOfPorts,
    OutOfMemory,
    ForeignAddress,
    Permission,
    Destroyed,
    Errno,
    Internal,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 30] = [
        Self::Reset,
        Self::Refused,
        Self::ClosedEarly,
        Self::Truncated,
        Self::Alert,
        Self::Tls,
        Self::Certificate,
        Self::NotTls,
        Self::Alpn,
        Self::Http,
        Self::HttpStatus,
        Self::WrongBytes,
        Self::Deadline,
        Self::ConnectTimeout,
        Self::Unacknowledged,
        Self::ZeroWindow,
        Self::KeepaliveUnanswered,
        Self::ConnectTimedOut,
        Self::HostUnreachable,
        Self::NetworkUnreachable,
        Self::Prohibited,
        Self::PortUnreachable,
        Self::OutOfFiles,
        Self::OutOfPorts,
        Self::OutOfMemory,
        Self::ForeignAddress,
        Self::Permission,
        Self::Destroyed,
        Self::Errno,
        Self::Internal,
    ];

    /// The word in reports: kebab-case, stable.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// Explains the cause, for the reference.
    pub const fn sentence(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Reset => ("reset", "the target sent a TCP reset"),
            Self::Refused => ("refused", "nothing listens on the target's port"),
            Self::ClosedEarly => {
                ("closed-early", "the target closed the connection cleanly before the step was done")
            }
            Self::Truncated => {
                ("truncated", "the target ended the connection without close_notify before the step was done")
            }
            Self::Alert => ("alert", "the target sent a fatal TLS alert"),
            Self::Tls => {
                ("tls", "the target violated the TLS protocol, or selected a parameter that was not offered")
            }
            Self::Certificate => ("certificate", "the target's certificate did not pass verification"),
            Self::NotTls => ("not-tls", "the target's answer is not TLS"),
            Self::Alpn => ("alpn", "the target did not accept the requested HTTP version"),
            Self::Http => ("http", "the target violated the HTTP protocol"),
            Self::HttpStatus => ("http-status", "the answer's status was 400 or more"),
            Self::WrongBytes => {
                ("wrong-bytes", "the target sent other bytes, or more of them, than were expected")
            }
            Self::Deadline => ("deadline", "the step took longer than --timeout"),
            Self::ConnectTimeout => ("connect-timeout", "the target did not answer the SYN within --timeout"),
            Self::Unacknowledged => ("unacknowledged", "the target stopped acknowledging what was sent"),
            Self::ZeroWindow => ("zero-window", "the target read no more: its window stayed closed"),
            Self::KeepaliveUnanswered => {
                ("keepalive-unanswered", "the target did not answer keep-alive probes")
            }
            Self::ConnectTimedOut => ("connect-timed-out", "the target did not answer the SYN"),
            Self::HostUnreachable => ("host-unreachable", "there is no route to the host"),
            Self::NetworkUnreachable => ("network-unreachable", "there is no route to the network"),
            Self::Prohibited => ("prohibited", "a router or firewall prohibits the connection"),
            Self::PortUnreachable => {
                ("port-unreachable", "an ICMP port-unreachable came for an open connection")
            }
            Self::OutOfFiles => ("out-of-files", "the generator ran out of file descriptors"),
            Self::OutOfPorts => ("out-of-ports", "the generator ran out of source ports towards the target"),
            Self::OutOfMemory => {
                ("out-of-memory", "the generator's machine ran out of memory or socket buffers")
            }
            Self::ForeignAddress => {
                ("foreign-address", "the --source address does not belong to the generator's machine")
            }
            Self::Permission => ("permission", "the generator's machine does not permit it"),
            Self::Destroyed => ("destroyed", "the socket was destroyed on the generator's machine"),
            Self::Errno => (
                "errno",
                "the system call failed with an error without a separate cause; the example has the number",
            ),
            Self::Internal => ("internal", "a bug of this program"),
        }
    }
}

impl From<fault::Cause> for Cause {
    fn from(cause: fault::Cause) -> Self {
        use fault::Cause as Socket;
        match cause {
            Socket::Reset => Self::Reset,
            Socket::Refused => Self::Refused,
            Socket::ClosedEarly => Self::ClosedEarly,
            Socket::Unacknowledged => Self::Unacknowledged,
            Socket::ZeroWindow => Self::ZeroWindow,
            Socket::KeepaliveUnanswered => Self::KeepaliveUnanswered,
            Socket::ConnectTimedOut => Self::ConnectTimedOut,
            Socket::ConnectTimeout => Self::ConnectTimeout,
            Socket::HostUnreachable => Self::HostUnreachable,
            Socket::NetworkUnreachable => Self::NetworkUnreachable,
            Socket::Prohibited => Self::Prohibited,
            Socket::PortUnreachable => Self::PortUnreachable,
            Socket::OutOfFiles => Self::OutOfFiles,
            Socket::OutOfPorts => Self::OutOfPorts,
            Socket::OutOfMemory => Self::OutOfMemory,
            Socket::ForeignAddress => Self::ForeignAddress,
            Socket::Permission => Self::Permission,
            Socket::Destroyed => Self::Destroyed,
            Socket::Errno(_) => Self::Errno,
            // A unix socket's, which is no target.
            Socket::PathMissing | Socket::BacklogFull => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_word_is_its_own_and_the_one_on_the_bus() {
        let words: HashSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        assert_eq!(words.len(), Cause::ALL.len());
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        }
        for step in [Step::Connect, Step::Handshake, Step::Exchange, Step::Close] {
            assert_eq!(serde_json::to_value(step).unwrap(), step.name());
        }
    }

    #[test]
    fn the_documents_explain_every_word() {
        let pages = [
            include_str!("../../../docs/diagnose/load-run.md"),
            include_str!("../../../docs/diagnose/causes.md"),
            include_str!("../../../docs/diagnose/causes-http.md"),
            include_str!("../../../docs/diagnose/causes-network.md"),
        ];
        for cause in Cause::ALL {
            let word = format!("`{}`", cause.name());
            assert!(
                pages
                    .iter()
                    .flat_map(|page| page.lines())
                    .any(|line| line.starts_with('|') && line.contains(&word)),
                "docs/diagnose has no row for {word}"
            );
        }
    }

    #[test]
    fn what_a_socket_met_keeps_its_word() {
        use fault::Cause as Socket;
        let all = [
            Socket::Reset,
            Socket::Refused,
            Socket::Unacknowledged,
            Socket::ZeroWindow,
            Socket::KeepaliveUnanswered,
            Socket::ConnectTimedOut,
            Socket::ConnectTimeout,
            Socket::HostUnreachable,
            Socket::NetworkUnreachable,
            Socket::Prohibited,
            Socket::PortUnreachable,
            Socket::OutOfFiles,
            Socket::OutOfPorts,
            Socket::OutOfMemory,
            Socket::ForeignAddress,
            Socket::Permission,
            Socket::Destroyed,
            Socket::Errno(71),
        ];
        for cause in all {
            assert_eq!(Cause::from(cause).name(), cause.name());
        }
    }
}
