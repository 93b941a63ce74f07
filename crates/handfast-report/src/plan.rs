//! The plan of a run, with every option resolved. It is sent to workers, kept and described in reports, and read
//! by `--replay`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod expect;
mod model;
pub mod request;
mod sentence;
mod think;

pub use expect::{ExpectedStatuses, StatusError};
pub use model::{Arrivals, Model, Piece, Rates, Stage};
pub use request::{Body, Header, Request, Source, Take};
pub(crate) use sentence::rates;
pub use sentence::{sentence, transaction};
pub use think::Think;

use handfast_text::units::counted as things;

use crate::series::Series;

/// One run. Everything that changes what is measured is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Target to connect to.
    pub target: Target,
    /// More of them: connections go to each in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Target>,
    /// Work of a transaction between handshake and close.
    pub work: Work,
    /// Model of the load: the times at which transactions begin.
    pub model: Model,
    /// Closed model: the pause between a transaction and the next one on its connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Parameters that are offered in the handshake, and the verification of the certificate.
    pub tls: Tls,
    /// Clients of several kinds, each with a share of the connections; empty: all are as `tls` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<Member>,
    /// Side that ends a connection, and the way it does.
    pub close: Close,
    /// Closed model and kept connections: the number of open ones. Open model: the most in flight.
    pub connections: u32,
    /// Exchanges on one connection; `None`: until the run ends.
    pub exchanges: Option<u32>,
    /// Length of the measured part.
    #[serde(with = "seconds")]
    pub duration: Duration,
    /// Bound of one connect, handshake or exchange; the transaction fails with `deadline` when it passes.
    #[serde(with = "seconds")]
    pub timeout: Duration,
    /// Generator threads on each worker; 0: one for each core.
    pub threads: u16,
    /// Source addresses, used in turn; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Seed of Poisson arrivals, of the choice between full and resumed, and of payloads.
    pub seed: u64,
}

/// Target to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name or address; every worker resolves it separately.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// True if it speaks HTTP without TLS; `tls` of the plan has no meaning then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
}

/// One kind of client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name in the report.
    pub name: String,
    /// Its weight among all kinds of client.
    pub share: f64,
    /// Its TLS settings.
    pub tls: Tls,
}

/// A name of SNI, of several that are used in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedName {
    /// The name.
    pub name: String,
    /// Its weight among the names.
    pub weight: u32,
}

/// Work of a transaction between handshake and close.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Work {
    /// Nothing: connect, handshake, close.
    Handshake,
    /// Sends bytes and receives bytes, in each exchange.
    Exchange {
        /// Bytes sent.
        send: u64,
        /// Bytes expected back.
        receive: u64,
        /// True if the answer must equal the sent bytes.
        echo: bool,
    },
    /// Transfers bytes without a pause until the run ends.
    Bulk {
        /// True to send.
        send: bool,
        /// True to expect bytes from the target; they are always read, but only expected when this is set.
        receive: bool,
    },
    /// Handshake, one exchange if `send` is not 0, then idle until the run ends.
    Idle {
        /// Bytes sent once.
        send: u64,
        /// Bytes expected back.
        receive: u64,
    },
    /// HTTP requests.
    Http {
        /// HTTP version.
        version: HttpVersion,
        /// The value of `:authority` or `Host`.
        authority: String,
        /// The requests: one, or several in turn by their weights.
        requests: Vec<Request>,
        /// HTTP/2: requests in flight on one connection. 1 for HTTP/1.1.
        streams: u32,
        /// The statuses that are no failure.
        #[serde(default, skip_serializing_if = "ExpectedStatuses::is_default")]
        expect: ExpectedStatuses,
        /// True if each connection sends the requests in their order, instead of all connections together by weights.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_order: bool,
    },
}

/// HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1 (RFC 9112).
    #[serde(rename = "1.1")]
    Http11,
    /// HTTP/2 (RFC 9113).
    #[serde(rename = "2")]
    Http2,
}

impl HttpVersion {
    /// `1.1` or `2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http11 => "1.1",
            Self::Http2 => "2",
        }
    }
}

/// Parameters that are offered in the handshake, and the verification of the certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// `1.2`, `1.3`, or both.
    pub versions: Vec<String>,
    /// IANA names of suites, best first; empty: the library's, named in the report.
    pub suites: Vec<String>,
    /// IANA names of groups, best first; a key share is sent for the first.
    pub groups: Vec<String>,
    /// Name in SNI; `None`: none is sent. A verified certificate must have the target's host name.
    pub server_name: Option<String>,
    /// Names in SNI that are used in turn instead of `server_name`, each with separate tickets. A verified certificate
    /// must have the name that was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_names: Vec<WeightedName>,
    /// Application protocols offered.
    pub alpn: Vec<String>,
    /// Client certificate chain and key, PEM files on the worker's machine.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Verification of the server's certificate.
    pub verify: Verify,
    /// Share of handshakes that are to be resumed, 0 to 1.
    pub resume: f64,
    /// True to send the request as 0-RTT data in resumed handshakes whose ticket allows it.
    pub early_data: bool,
}

/// Verification of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Verify {
    /// Not at all, not even the signature: cheap, and named in the report.
    Off,
    /// Against the system's authorities.
    System,
    /// Against the authorities in a PEM file on the worker's machine.
    File(PathBuf),
}

/// Side that ends a connection, and the way it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// We send close_notify and FIN, and read until the target has ended too.
    Notify,
    /// We send FIN without close_notify, and read until the target has ended too.
    Fin,
    /// We reset: leaves no TIME_WAIT anywhere.
    Reset,
    /// The target ends first; we read until then, and close cleanly.
    Server,
}

impl Close {
    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Notify => "notify",
            Self::Fin => "fin",
            Self::Reset => "reset",
            Self::Server => "server",
        }
    }

    /// Explains it, for the report.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Notify => "we end first, with close_notify and FIN, and wait for the target's end",
            Self::Fin => "we end first, with FIN and no close_notify, and wait for the target's end",
            Self::Reset => "we end first, with a reset",
            Self::Server => "the target ends first",
        }
    }
}

impl Target {
    /// The scheme of its URLs.
    pub const fn scheme(&self) -> &'static str {
        if self.plain { "http" } else { "https" }
    }
}

impl Default for Plan {
    /// The standard transaction against a local target for ten seconds.
    fn default() -> Self {
        Self {
            target: Target { host: "localhost".into(), port: 8443, plain: false },
            also: Vec::new(),
            work: Work::Exchange { send: 4096, receive: 4096, echo: true },
            model: Model::Closed,
            think: None,
            tls: Tls::default(),
            mix: Vec::new(),
            close: Close::Notify,
            connections: 32,
            exchanges: Some(1),
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            threads: 0,
            sources: Vec::new(),
            seed: 0,
        }
    }
}

impl Default for Tls {
    /// TLS 1.3 with X25519, no verification, full handshakes. In TLS 1.2 the groups are also those that the certificate's
    /// key may be on (RFC 8422 §5.3): without P-256 and P-384 most servers with an ECDSA key would refuse us.
    fn default() -> Self {
        Self {
            versions: vec!["1.3".into(), "1.2".into()],
            suites: Vec::new(),
            groups: ["X25519", "secp256r1", "secp384r1"].map(String::from).to_vec(),
            server_name: None,
            server_names: Vec::new(),
            alpn: Vec::new(),
            client_certificate: None,
            verify: Verify::Off,
            resume: 0.0,
            early_data: false,
        }
    }
}

impl Plan {
    /// Returns true if connections carry exchanges until the run ends, so that a transaction is an exchange and not a connection.
    pub fn keeps_connections(&self) -> bool {
        self.exchanges.is_none() && matches!(self.work, Work::Exchange { .. } | Work::Http { .. })
    }

    /// Each kind of client with its share: the members of the mix, or all clients as one.
    pub fn clients(&self) -> impl Iterator<Item = (f64, &Tls)> {
        let alone = self.mix.is_empty().then_some((1.0, &self.tls));
        alone.into_iter().chain(self.mix.iter().map(|member| (member.share, &member.tls)))
    }

    /// Share of the handshakes that are to be resumed, over all members of the mix.
    pub fn wanted_resumed(&self) -> f64 {
        let (resumed, all) = self.clients().fold((0.0, 0.0), |(resumed, all), (share, tls)| {
            (share.mul_add(tls.resume, resumed), all + share)
        });
        if self.mix.is_empty() { self.tls.resume } else { resumed / all }
    }

    /// The rates of an open model over the run; `None` in the closed model.
    pub fn rates(&self) -> Option<Rates> {
        self.model.rates(self.duration)
    }

    /// Returns true if each connection sends the requests in their order.
    pub fn is_in_order(&self) -> bool {
        matches!(self.work, Work::Http { in_order: true, .. })
    }

    /// HTTP requests of the work; none of other works.
    pub fn requests(&self) -> &[Request] {
        match &self.work {
            Work::Http { requests, .. } => requests,
            _ => &[],
        }
    }

    /// Itself without the values of headers that carry secrets, to be kept.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        if let Work::Http { requests, .. } = &mut self.work {
            let all = std::mem::take(requests);
            *requests = all.into_iter().map(Request::without_secrets).collect();
        }
        self
    }

    /// The series that a run is judged by.
    pub fn main_series(&self) -> Series {
        match self.work {
            Work::Bulk { .. } | Work::Idle { .. } => Series::Handshake,
            _ => Series::Total,
        }
    }
}

impl Tls {
    /// Describes the offer in a line: `TLS 1.3, 1.2; groups X25519, secp256r1; suites as the library has them; SNI a.example`.
    pub fn sentence(&self) -> String {
        self.offers(true).join("; ")
    }

    /// The same without the names in SNI, which follow the target's.
    pub fn sentence_without_names(&self) -> String {
        self.offers(false).join("; ")
    }

    fn offers(&self, with_names: bool) -> Vec<String> {
        let mut parts = vec![
            format!("TLS {}", self.versions.join(", ")),
            format!("groups {}", self.groups.join(", ")),
            match self.suites.is_empty() {
                true => "suites as the library has them".to_owned(),
                false => format!("suites {}", self.suites.join(", ")),
            },
        ];
        if !self.alpn.is_empty() {
            parts.push(format!("ALPN {}", self.alpn.join(", ")));
        }
        if with_names {
            parts.push(match (&self.server_name, self.server_names.as_slice()) {
                (_, [_, ..]) => format!("SNI {} in turn", things(self.server_names.len() as u64, "name")),
                (Some(name), _) => format!("SNI {name}"),
                (None, _) => "no SNI".to_owned(),
            });
        }
        if self.client_certificate.is_some() {
            parts.push("a client certificate".into());
        }
        parts
    }
}

/// Durations as seconds with a fraction.
mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
