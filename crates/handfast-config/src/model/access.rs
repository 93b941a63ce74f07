//! Conditions and rate limits for the requests of a route.
//!
//! Made by `file/access.rs`, run by `handfast-proxy/src/requests/decide/gate.rs`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::prefix::Prefix;
use handfast_pki::rules::Rules;

use super::Backend;

/// The limits and conditions that a request of a route must meet before anything else is done with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteAccess {
    /// Clients with these addresses alone; empty, without files: all.
    pub allow: Vec<Prefix>,
    /// Files with more of them.
    pub allow_files: Vec<PathBuf>,
    /// None of these, even where `allow` has them.
    pub refuse: Vec<Prefix>,
    /// Files with more of them.
    pub refuse_files: Vec<PathBuf>,
    /// Clients whose certificates fit one of these alone; empty: all.
    pub certificates: Rules,
    /// A limit on requests.
    pub rate: Option<RequestRate>,
    /// Names and passwords that clients must send; a route without the key has those of its service.
    pub basic: Option<BasicAuth>,
    /// A server that decides about each request; a route without the key has that of its service.
    pub forward: Option<ForwardAuth>,
}

impl RouteAccess {
    /// Returns true if every request is accepted.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the sender of a request is identified.
    pub fn identifies(&self) -> bool {
        self.basic.is_some() || self.forward.is_some()
    }

    /// Returns true if access is restricted; a limit alone does not do so.
    pub fn has_conditions(&self) -> bool {
        let Self { allow, allow_files, refuse, refuse_files, certificates, rate: _, basic: _, forward: _ } =
            self;
        let has_files = !allow_files.is_empty() || !refuse_files.is_empty();
        let has_lists = !allow.is_empty() || !refuse.is_empty() || !certificates.is_empty() || has_files;
        has_lists || self.identifies()
    }
}

/// Names and passwords that clients must send (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicAuth {
    /// The file with `name:hash` on each line.
    pub file: PathBuf,
    /// Printable ASCII without quotes.
    pub realm: Box<str>,
    /// True if backends receive the password.
    pub passes: bool,
}

/// A server that is asked about each request.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardAuth {
    /// Authentication servers, in plain text and HTTP/1.1.
    pub to: Arc<[Backend]>,
    /// The path that it is asked for, with a query.
    pub path: Box<str>,
    /// Fields of its answer that the backend receives.
    pub copy: Vec<Box<str>>,
    /// Timeout until its answer begins.
    pub timeout: Duration,
}

/// Servers that receive copies of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// Backends that receive the copies, in plain text and HTTP/1.1.
    pub to: Arc<[Backend]>,
    /// Share of the requests that is copied.
    pub share: Share,
    /// Most bytes of content of one that is copied.
    pub content: usize,
}

/// A share of requests: 1 to 10,000 of 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u16);

impl Share {
    /// Of this number of hundredths of a percent; `None`: nothing, or more than all.
    pub fn of_hundredths(hundredths: u16) -> Option<Self> {
        (1..=10_000).contains(&hundredths).then_some(Self(hundredths))
    }

    /// Hundredths of a percent.
    pub fn hundredths(self) -> u16 {
        self.0
    }

    /// Returns true if a random number is within the share. `draw` is evenly distributed over all values.
    pub fn has(self, draw: u64) -> bool {
        draw % 10_000 < self.0.into()
    }

    /// Returns true if `part` is a larger share of `whole` than this one.
    pub fn is_exceeded_by(self, part: u64, whole: u64) -> bool {
        part.saturating_mul(10_000) > whole.saturating_mul(self.0.into())
    }
}

/// As it is written in a configuration.
impl fmt::Display for Share {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}%", f64::from(self.0) / 100.0)
    }
}

/// A limit on requests in a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests in the time `per` in the long run; not zero.
    pub requests: u32,
    /// Not zero, and at most an hour.
    pub per: Duration,
    /// Requests that may be sent at once after a pause; not zero.
    pub burst: u32,
    /// Key by which requests are counted together.
    pub by: RateKey,
    /// IPv4 clients with this number of equal leading bits are counted together; at most 32.
    pub prefix_v4: u8,
    /// The same for IPv6; at most 128.
    pub prefix_v6: u8,
}

impl RequestRate {
    /// The prefix that a client is counted in.
    pub fn prefix_of(&self, address: IpAddr) -> Prefix {
        Prefix::within(address, self.prefix_v4, self.prefix_v6)
    }
}

/// Key by which requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateKey {
    /// Those of clients in one prefix.
    Client,
    /// All of the route.
    Route,
    /// Those with the same value of this field, whose name is in lower case. Those without it are counted by client.
    Field(Box<str>),
}

/// Session affinity: a client's requests go to one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sticky {
    /// By a cookie.
    Cookie {
        /// Its name.
        name: Box<str>,
        /// The file with the secret that its values are made from; `None`: a random one.
        key: Option<PathBuf>,
        /// `Lax`, `Strict` or `None`.
        same_site: &'static str,
    },
    /// By the value of this field.
    Header(Box<str>),
}

/// Limits of the requests of a route; what is not set is that of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteLimits {
    /// From the end of the request to the head of the response.
    pub answer: Option<Duration>,
    /// Between two pieces of content.
    pub content: Option<Duration>,
    /// Most bytes of a request's content.
    pub body: Option<u64>,
    /// Other backends, or connections, that a request is tried with after a failure.
    pub retries: Option<u32>,
}

/// Limits of the requests of a route, those of its service included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// From the end of the request to the head of the response.
    pub answer: Duration,
    /// Between two pieces of content.
    pub content: Duration,
    /// Most bytes of a request's content; `None`: any number.
    pub body: Option<u64>,
    /// Other backends, or connections, that a request is tried with after a failure.
    pub retries: u32,
}
