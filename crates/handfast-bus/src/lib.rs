//! Messages between machines: publish, subscribe, request and reply, on a NATS server that was checked before it is joined.
//!
//! In: a [`BusAddress`]. Out: a [`Bus`]. A bus inside the process has the same trait, so that one machine takes the same path as many.
//! The load tester's workers and the proxies of a fleet use it; they define their messages.
//!
//! | question | file |
//! |---|---|
//! | the trait, a subscription | `bus.rs` |
//! | between machines, inside the process | `bus/nats.rs`, `bus/local.rs` |
//! | checks before joining a server | `safety.rs` |
//! | a server's configuration, written with its certificate and passwords | `setup.rs` |
//! | why a bus cannot be joined, checked or set up | `error.rs` |
#![forbid(unsafe_code)]

use std::fmt;
use std::path::PathBuf;

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;

use error::Problem;

mod bus;
mod error;
mod purpose;
mod safety;
mod setup;

pub use bus::local::Local;
pub use bus::{Bus, Fault, Feed, Later, Message};
pub use error::BusError;
pub use purpose::Purpose;
pub use safety::{doctor, join, printable, read_private};
pub use setup::{PORT, Setup};

/// No fleet has this name: no user needs permission for its subjects, so a user that has it has too many permissions.
const CHECK: &str = "permission-check";

/// A NATS server, and how to join it.
#[derive(Clone, PartialEq, Eq)]
pub struct BusAddress {
    /// `nats://host:port`, or `tls://` to insist on TLS; user and password may stand in front of the host.
    pub url: String,
    /// The fleet's name in subjects: fleets on one server do not see each other.
    pub fleet: String,
    /// Authorities that verify the server's certificate, PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// A file with one line, `user:password`, so that neither is on a command line.
    pub credentials: Option<PathBuf>,
    /// Start TLS before the server's greeting (`handshake_first` in its configuration).
    pub tls_first: bool,
    /// Purpose of the bus.
    pub purpose: Purpose,
}

impl BusAddress {
    /// The server at `url` for load tests, fleet `default`, the system's authorities, no file with credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            fleet: "default".into(),
            ca: None,
            credentials: None,
            tls_first: false,
            purpose: Purpose::Load,
        }
    }
}

impl BusAddress {
    /// The host and port of its server, without user and password.
    pub fn place(&self) -> String {
        self.url
            .parse()
            .map_or_else(|_| "(its URL cannot be read)".to_owned(), |server| bus::nats::place(&server))
    }

    /// The subject of answers to `asker`.
    pub fn inbox(&self, asker: &str) -> String {
        format!("hf.{}.{}.inbox.{asker}", self.fleet, self.purpose.token())
    }
}

impl fmt::Debug for BusAddress {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusAddress")
            .field("fleet", &self.fleet)
            .field("ca", &self.ca)
            .field("credentials", &self.credentials)
            .field("tls_first", &self.tls_first)
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}

/// Checks the name of a fleet, which is a token of its subjects.
///
/// **Errors**: a name that is not one token of letters, digits, `-` and `_`, or is ours.
pub fn check_fleet(fleet: &str) -> Result<(), BusError> {
    if fleet == CHECK || fleet.len() > 64 || token(fleet) != fleet || fleet.is_empty() {
        return Err(Problem::FleetName(fleet.to_owned()).into());
    }
    Ok(())
}

/// A unique name: 64 bits, in hex. **Errors**: the system has no random numbers.
pub fn fresh_id() -> Result<String, BusError> {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).map_err(|_| Problem::Random { purpose: "a random name" })?;
    Ok(HEXLOWER.encode(&bytes))
}

/// A name as one token of a subject: everything but letters, digits, `-` and `_` becomes `-`.
pub fn token(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    name.chars().map(plain).take(64).collect()
}
