//! Causes of the end of connections: each cause has a word for logs, labels and the documents, and a sentence for people, in one row.
//! Those of sockets come from `handfast-net` with their words.

use std::fmt;

use handfast_net::fault::Cause as Socket;

use crate::steps::Side;

/// Declares the proxy's own causes: variant, word, and sentence, in which `{who}` is the side. The sentence is also the documentation.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $sentence:literal;)*) => {
        /// Cause of the end of a connection, or of an attempt at one. One word per way; the sentence is [`Cause::sentence`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause {
            $(#[doc = $sentence] $(#[$doc])* $name,)*
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

            /// Describes the event, as the rest of a sentence: `the client reset the connection`.
            pub fn sentence(self, side: Side) -> String {
                let sentence = match self {
                    $(Self::$name => $sentence,)*
                    Self::Socket(cause) => socket_sentence(cause),
                };
                sentence.replace("{who}", side.in_words())
            }
        }
    };
}

causes! {
    Finished = "finished", "closed cleanly in both directions";
    BackendEnded = "backend-closed",
        "the backend closed; the client had received everything and sent nothing more";
    Truncated = "truncated",
        "{who} closed without close_notify; data may be lost";
    /// The other side had sent last, and the peer had acknowledged it; or the peer is a backend whose client had ended with its answer.
    NoCloseNotify = "no-close-notify",
        "{who} closed without close_notify; nothing was in flight";
    ResetAtEnd = "reset-at-end", "{who} reset the connection at its end; everything had been delivered";
    /// A PROXY header with the command LOCAL, and no data after it.
    Checked = "health-check", "a health check: the proxy in front connected and sent nothing";
    Alert = "alert", "{who} sent a fatal TLS alert";
    Tls = "tls", "{who} violated the TLS protocol, or offered nothing that the policy allows";
    NotTls = "not-tls", "{who} sent something that is not TLS";
    Starttls = "starttls", "{who} did not complete STARTTLS in its protocol";
    StarttlsRefused = "starttls-refused", "{who} refused STARTTLS, or to serve at all";
    /// After the request for TLS, or after its acceptance.
    PlaintextInjected = "plaintext-injected",
        "{who} sent plain text where TLS must begin: an attacker may have injected it";
    Tunnel = "tunnel", "the proxy in connect-through did not open a connection to the backend";
    ProxyHeaderMissing = "proxy-header-missing",
        "{who} is in accept-from of [service.proxy-protocol], but sent no PROXY header";
    ProxyHeaderInvalid = "proxy-header-invalid", "{who} sent an invalid PROXY header";
    ProxyHeaderUnexpected = "proxy-header-unexpected",
        "{who} sent a PROXY header, but is not in accept-from of [service.proxy-protocol]";
    CertificatePending = "certificate-pending",
        "{who} requested a name whose certificate is ordered but not issued yet";
    /// Of ACME: nothing else was served.
    Challenge = "challenge", "{who} fetched the response to an ACME challenge";
    UnknownName = "unknown-name", "{who} requested a name that no certificate covers";
    ClientCertificate = "client-certificate", "the client's certificate was missing or refused";
    BackendCertificate = "backend-certificate", "the backend's certificate was refused";
    BackendProtocol = "backend-protocol",
        "the backend chose another application protocol (ALPN) than the client agreed to";
    /// The deadline from accept to relay passed.
    HandshakeDeadline = "handshake-timeout", "{who} did not complete the handshake in time";
    HelloTooLarge = "hello-too-large", "{who} sent a ClientHello larger than the limit";
    Idle = "idle", "idle timeout: no data in either direction";
    HalfClosedIdle = "half-closed-idle", "half-closed timeout: one direction had ended, the other sent nothing";
    Lifetime = "lifetime", "the limit on a connection's age was reached";
    AddressLimit = "address-limit", "the limit on connections from one address was reached";
    ClientRefused = "client-refused",
        "clients with this address are not allowed (allow-clients, refuse-clients)";
    /// The limit is of one prefix of client addresses.
    HandshakeRate = "handshake-rate", "the limit on new handshakes from one address was reached";
    /// The drain deadline of a stop passed, or a second signal came.
    Stopped = "stopped", "cut off by a shutdown (drain timeout)";
    NoBackend = "no-backend", "all backends are down";
    QueueFull = "queue-full", "every backend had max-requests requests, and the queue was full";
    QueueTimeout = "queue-timeout", "every backend had max-requests requests, and the queue timeout expired";
    NameNotResolved = "name-not-resolved", "the backend's name could not be resolved";
    KeyProcess = "key-process", "the key process made no signature";
    HttpRequest = "http-request", "{who} sent an invalid HTTP request";
    HttpResponse = "http-response", "{who} sent an invalid HTTP response";
    /// Between two requests, or after the last response: by `Connection: close`, an idle limit, or a stop.
    HttpClosed = "http-closed", "the connection was closed after its last response";
    RequestDeadline = "request-timeout", "{who} did not send its request in time";
    AnswerDeadline = "response-timeout", "{who} did not begin its response in time";
    ContentDeadline = "body-timeout", "{who} sent or received content too slowly";
    BodyTooLarge = "body-too-large", "{who} sent more content than max-body allows";
    RequestRate = "request-rate", "the limit on requests of a route (rate-limit) was reached";
    Forbidden = "forbidden", "the route is not for this client (allow-clients, refuse-clients, allow-certificates)";
    /// By its key, or by a command of an operator.
    Maintenance = "maintenance", "the service is in maintenance";
    Unauthenticated = "unauthenticated", "{who} did not authenticate (basic-auth, forward-auth)";
    AuthenticationBusy = "authentication-busy", "too many passwords waited to be verified";
    Misdirected = "misdirected", "{who} sent a request for a host that its connection is not for";
    AmbiguousPath = "ambiguous-path",
        "{who} sent an ambiguous path: backends read it in several ways, and routes decide differently about these";
    /// Also a method that files do not have.
    NoFile = "no-file", "no file is served for this request";
    FileUnreadable = "file-unreadable", "a file that {who} should send could not be read";
    StreamReset = "stream-reset", "{who} reset the HTTP/2 stream";
    Http2 = "http2", "{who} violated the HTTP/2 protocol, or exceeded a limit for abuse";
    /// The connection's task panicked or broke an invariant.
    Internal = "internal", "a fault of Handfast's own; please report it with the log";
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
    /// The peer closed before this step was complete.
    pub const CLOSED_EARLY: Self = Self::Socket(Socket::ClosedEarly);

    /// Returns true if the connection failed: a peer may have lost something. This is the one definition,
    /// for the access log, the metrics and their alerts, the status page and `handfast log`. Clients that
    /// never send close_notify are many, and lose nothing when nothing was in flight.
    #[inline]
    pub const fn is_failure(self) -> bool {
        !matches!(
            self,
            Self::Finished
                | Self::BackendEnded
                | Self::NoCloseNotify
                | Self::ResetAtEnd
                | Self::Checked
                | Self::Challenge
                | Self::HttpClosed
                | Self::NoFile
                // Planned: an alert would report what its reader has just done.
                | Self::Maintenance
        )
    }

    /// Returns the cause under which it is counted: all errno values without a word are one cause.
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
}

/// As [`Cause::sentence`], with `{who}`.
fn socket_sentence(cause: Socket) -> &'static str {
    match cause {
        Socket::Reset => "{who} reset the connection",
        Socket::ClosedEarly => "{who} closed before this step was complete",
        Socket::Refused => "nobody listened at the backend's address (connection refused)",
        Socket::Unacknowledged => "{who} stopped acknowledging what was sent",
        Socket::ZeroWindow => "{who} received nothing more: its TCP window stayed closed",
        Socket::KeepaliveUnanswered => "{who} did not answer keep-alive probes",
        Socket::ConnectTimedOut => "{who} did not answer the connection request (SYN)",
        Socket::ConnectTimeout => "the deadline for connecting passed",
        Socket::HostUnreachable => "there was no route to the host of {who}",
        Socket::NetworkUnreachable => "there was no route to the network of {who}",
        Socket::Prohibited => "a router or firewall on the way to {who} reported that this is prohibited",
        Socket::PortUnreachable => "the host of {who} reported that the port is unreachable",
        Socket::OutOfFiles => "this machine was out of file descriptors",
        Socket::OutOfPorts => "this machine was out of source ports towards the backend",
        Socket::ForeignAddress => "the source address is not an address of this machine",
        Socket::OutOfMemory => "this machine was out of memory or socket buffers",
        Socket::Destroyed => "the socket was destroyed on this machine (ss -K, or its address removed)",
        Socket::Permission => "this machine did not permit it",
        Socket::PathMissing => "the path of the unix socket does not exist",
        Socket::BacklogFull => "the queue of the unix socket was full",
        Socket::Errno(_) => "another error of the kernel; its number is in the access log",
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
    fn the_documents_explain_every_word_once() {
        let pages = [
            include_str!("../../../docs/diagnose/causes.md"),
            include_str!("../../../docs/diagnose/causes-http.md"),
            include_str!("../../../docs/diagnose/causes-network.md"),
        ];
        let rows = pages.iter().flat_map(|page| page.lines()).filter_map(|line| line.strip_prefix("| `"));
        let words: Vec<&str> = rows.map(|row| row.split('`').next().unwrap_or_default()).collect();
        for cause in Cause::all() {
            let rows = words.iter().filter(|word| **word == cause.name()).count();
            assert_eq!(
                rows,
                1,
                "rows for `{}` in docs/diagnose/causes.md, causes-http.md and causes-network.md",
                cause.name()
            );
        }
        // And none of a cause that no longer exists.
        for word in words {
            assert!(Cause::named(word).is_some(), "docs/diagnose explains `{word}`, which is no cause");
        }
    }
}
