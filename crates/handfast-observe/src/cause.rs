//! Why connections end: the words and the sentences.
//!
//! In: what a step found. Out: a word for logs, labels and the runbook, and a sentence for people. A socket's causes come
//! from `handfast-net` with their words; the others are the proxy's own. Each cause is in two places: the list
//! below has its word, [`Cause::sentence`] its sentence.

use std::fmt;

use handfast_net::fault::Cause as Socket;

use crate::steps::Side;

/// Declares the proxy's own causes once: the variants, their words, and the list of them all.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// Why a connection, or an attempt at one, ended. One word per way; the sentence is [`Cause::sentence`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause {
            $($(#[$doc])* $name,)*
            /// A socket failed, or ended when it should not have.
            Socket(Socket),
        }

        impl Cause {
            const OWN: &[Self] = &[$(Self::$name,)*];

            /// The word used in logs, labels and documents: kebab-case, stable.
            #[inline]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                    Self::Socket(cause) => cause.name(),
                }
            }
        }
    };
}

causes! {
    /// Both directions were closed cleanly.
    Finished = "finished",
    /// The backend closed its direction, the client had received everything and sent nothing more: the connection was closed cleanly.
    BackendEnded = "backend-ended",
    /// The peer's stream ended without the end mark its protocol demands (FIN without close_notify), and something may have
    /// been in flight.
    Truncated = "truncated",
    /// The same, when nothing was in flight: the other side had sent last, and the peer had acknowledged it; or the peer is a backend
    /// whose client had ended with its answer.
    NoCloseNotify = "no-close-notify",
    /// The peer reset the connection when a side had ended cleanly and everything had been delivered.
    ResetAtEnd = "reset-at-end",
    /// A proxy in front checked whether the service listens: a PROXY header with the command LOCAL, and no data after it.
    Checked = "checked",
    /// The peer sent a fatal TLS alert.
    Alert = "alert",
    /// The peer broke the TLS protocol, or offered nothing that our policy allows.
    Tls = "tls",
    /// What arrived is not TLS.
    NotTls = "not-tls",
    /// In the protocol before TLS, the peer did not get to TLS.
    Starttls = "starttls",
    /// … because it does not offer TLS, or refused.
    StarttlsRefused = "starttls-refused",
    /// The peer sent plain text after the request for TLS, or after its acceptance.
    PlaintextInjected = "plaintext-injected",
    /// The proxy on the way to a backend did not open a tunnel.
    Tunnel = "tunnel",
    /// A proxy in front sent no PROXY header, which it must.
    ProxyHeaderMissing = "proxy-header-missing",
    /// A proxy in front sent an invalid PROXY header.
    ProxyHeaderInvalid = "proxy-header-invalid",
    /// A PROXY header arrived from an address that must not send one.
    ProxyHeaderUnexpected = "proxy-header-unexpected",
    /// No certificate covers the requested name.
    UnknownName = "unknown-name",
    /// The client's certificate was missing or refused.
    ClientCertificate = "client-certificate",
    /// The backend's certificate was refused.
    BackendCertificate = "backend-certificate",
    /// The backend chose another application protocol than the one agreed on with the client.
    BackendProtocol = "backend-protocol",
    /// The deadline from accept to relay passed.
    HandshakeDeadline = "handshake-deadline",
    /// The ClientHello was larger than the limit.
    HelloTooLarge = "hello-too-large",
    /// Nothing moved for the idle limit.
    Idle = "idle",
    /// One direction had ended and the other did not move for the half-closed limit.
    HalfClosedIdle = "half-closed-idle",
    /// The connection reached its maximum age.
    Lifetime = "lifetime",
    /// The limit on connections from one client address.
    AddressLimit = "address-limit",
    /// The address lists of the service refuse this client.
    ClientRefused = "client-refused",
    /// The limit on new handshakes for one prefix of client addresses.
    HandshakeRate = "handshake-rate",
    /// The drain deadline of a stop passed, or a second signal came.
    Stopped = "stopped",
    /// No backend is configured, known or healthy.
    NoBackend = "no-backend",
    /// The backend's name could not be resolved.
    NameNotResolved = "name-not-resolved",
    /// The process that holds the private keys did not sign.
    KeyProcess = "key-process",
    /// A bug of ours: the connection's task panicked or broke an invariant.
    Internal = "internal",
}

impl From<Socket> for Cause {
    fn from(cause: Socket) -> Self {
        Self::Socket(cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(cause) => cause.fmt(f),
            own => f.write_str(own.name()),
        }
    }
}

impl Cause {
    /// The peer closed before the step was done.
    pub const CLOSED_EARLY: Self = Self::Socket(Socket::ClosedEarly);

    /// Whether the connection failed: a peer may have lost something. This is the one definition, for the access log, the metrics and
    /// their alerts, the status page and `handfast log`. Clients that never send close_notify are many, and lose nothing when nothing was in flight.
    #[inline]
    pub const fn is_failure(self) -> bool {
        !matches!(
            self,
            Self::Finished | Self::BackendEnded | Self::NoCloseNotify | Self::ResetAtEnd | Self::Checked
        )
    }

    /// What it is counted under: all errno values without a word are one cause.
    #[inline]
    pub const fn counted(self) -> Self {
        match self {
            Self::Socket(Socket::Errno(_)) => Self::Socket(Socket::Errno(0)),
            cause => cause,
        }
    }

    /// Every cause; one errno value represents all that have no word.
    pub fn all() -> impl Iterator<Item = Self> {
        let sockets = Socket::ALL.iter().copied().chain([Socket::Errno(0)]);
        Self::OWN.iter().copied().chain(sockets.map(Self::Socket))
    }

    /// The cause that has this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::all().find(|cause| cause.name() == word)
    }

    /// What happened, as the rest of a sentence: `the client reset the connection`.
    pub fn sentence(self, side: Side) -> String {
        let who = side.in_words();
        match self {
            Self::Finished => "both directions ended in order".into(),
            Self::BackendEnded => {
                "the backend ended, and the client, which had everything, said nothing more".into()
            }
            Self::Truncated => format!(
                "{who} ended its stream without the end mark of TLS (close_notify), and something may have been in flight"
            ),
            Self::NoCloseNotify => {
                format!(
                    "{who} ended its stream without the end mark of TLS (close_notify); nothing was in flight"
                )
            }
            Self::ResetAtEnd => {
                format!("{who} reset the connection at its end; everything had been delivered")
            }
            Self::Checked => "a proxy in front checked whether this service listens, and sent nothing".into(),
            Self::Alert => format!("{who} sent a fatal TLS alert"),
            Self::Tls => format!("{who} broke the TLS protocol, or offered nothing that the policy allows"),
            Self::NotTls => format!("{who} spoke something that is not TLS"),
            Self::Starttls => format!("{who} did not get to TLS in the protocol before it (STARTTLS)"),
            Self::StarttlsRefused => format!("{who} refused to begin TLS, or to serve at all"),
            Self::PlaintextInjected => {
                format!("plain text came from {who} where TLS has to begin: somebody may have put it there")
            }
            Self::Tunnel => "the proxy in connect-through did not open a connection to the backend".into(),
            Self::ProxyHeaderMissing => {
                format!("{who} is in accept-from of [service.proxy-protocol], but sent no PROXY header")
            }
            Self::ProxyHeaderInvalid => format!("{who} sent a PROXY header that is broken"),
            Self::ProxyHeaderUnexpected => {
                format!("{who} sent a PROXY header, but is not in accept-from of [service.proxy-protocol]")
            }
            Self::UnknownName => format!("{who} asked for a name that no certificate covers"),
            Self::ClientCertificate => "the client's certificate was missing or refused".into(),
            Self::BackendCertificate => "the backend's certificate was refused".into(),
            Self::BackendProtocol => {
                "the backend chose another application protocol (ALPN) than the client agreed to".into()
            }
            Self::HandshakeDeadline => format!("{who} was not done by the deadline for the whole handshake"),
            Self::HelloTooLarge => format!("{who} sent a ClientHello larger than the limit"),
            Self::Idle => "nothing moved for as long as the idle limit".into(),
            Self::HalfClosedIdle => "one direction had ended and the other did not move for its limit".into(),
            Self::Lifetime => "the limit on a connection's age was reached".into(),
            Self::AddressLimit => "the limit on connections from one address was reached".into(),
            Self::ClientRefused => {
                "clients from this address are not let in (allow-clients, refuse-clients)".into()
            }
            Self::HandshakeRate => "the limit on new handshakes from one address was reached".into(),
            Self::Stopped => "the operator's stop cut it".into(),
            Self::NoBackend => "no backend was configured, known or healthy".into(),
            Self::NameNotResolved => "the backend's name could not be resolved".into(),
            Self::KeyProcess => "the process that holds the private keys made no signature".into(),
            Self::Internal => "a fault of Handfast's own; please report it with the log".into(),
            Self::Socket(cause) => socket_sentence(cause, who),
        }
    }
}

fn socket_sentence(cause: Socket, who: &str) -> String {
    match cause {
        Socket::Reset => format!("{who} reset the connection"),
        Socket::ClosedEarly => format!("{who} closed before the step was done"),
        Socket::Refused => "nobody listened at the backend's address (connection refused)".into(),
        Socket::Unacknowledged => format!("{who} stopped acknowledging what was sent"),
        Socket::ZeroWindow => format!("{who} took nothing more: its window stayed closed"),
        Socket::KeepaliveUnanswered => format!("{who} did not answer keep-alive probes"),
        Socket::ConnectTimedOut => format!("{who} did not answer the connection request (SYN)"),
        Socket::ConnectDeadline => "the deadline for connecting passed".into(),
        Socket::HostUnreachable => format!("there was no route to the host of {who}"),
        Socket::NetworkUnreachable => format!("there was no route to the network of {who}"),
        Socket::Prohibited => {
            format!("a router or firewall on the way to {who} said that this is prohibited")
        }
        Socket::PortUnreachable => format!("the host of {who} said that the port is unreachable"),
        Socket::OutOfFiles => "this machine was out of file descriptors".into(),
        Socket::OutOfPorts => "this machine was out of source ports towards the backend".into(),
        Socket::ForeignAddress => "the source address is none of this machine's".into(),
        Socket::OutOfMemory => "this machine was out of memory or socket buffers".into(),
        Socket::Destroyed => {
            "the socket was destroyed on this machine (ss -K, or its address removed)".into()
        }
        Socket::Permission => "this machine did not permit it".into(),
        Socket::PathMissing => "the unix socket's path was not there".into(),
        Socket::BacklogFull => "the queue of the unix socket was full".into(),
        Socket::Errno(_) => {
            "the kernel gave an error without a word here; its number is in the access log".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_word_is_its_own_and_finds_its_cause() {
        let words: HashSet<_> = Cause::all().map(Cause::name).collect();
        assert_eq!(words.len(), Cause::all().count());
        for cause in Cause::all() {
            assert_eq!(Cause::named(cause.name()), Some(cause));
        }
        assert_eq!(Cause::named("left"), None);
    }

    /// A cause that only some sides can have still has a sentence for each: it is the page's, whatever comes.
    #[test]
    fn every_cause_has_its_sentence() {
        for (cause, side) in Cause::all().flat_map(|cause| Side::ALL.map(|side| (cause, side))) {
            let sentence = cause.sentence(side);
            assert!(sentence.contains(' ') && !sentence.ends_with('.'), "{cause:?} {side:?}: {sentence}");
        }
        let reset = Cause::Socket(Socket::Reset);
        assert_eq!(reset.sentence(Side::Client), "the client reset the connection");
        assert_eq!(reset.sentence(Side::Local), "this machine reset the connection");
    }

    #[test]
    fn the_runbook_explains_every_word() {
        let runbook = include_str!("../../../docs/runbook.md");
        let (_, table) = runbook.split_once("## Every cause word").expect("it has that chapter");
        for cause in Cause::all() {
            let row = format!("\n| `{}` | ", cause.name());
            assert!(table.contains(&row), "docs/runbook.md has no row for `{}`", cause.name());
        }
        // And none of a cause that there is no more.
        let (_, table) = table.split_once("\n| cause | meaning | whose").expect("it has that table");
        for row in table.lines().filter_map(|line| line.strip_prefix("| `")) {
            let word = row.split('`').next().unwrap_or_default();
            assert!(Cause::named(word).is_some(), "docs/runbook.md explains `{word}`, which is no cause");
        }
    }
}
