//! One run on many machines: a coordinator sends orders to workers, and merges their measurements.
//!
//! In: a [`Plan`](crate::Plan) and [`Workers`]. Out: an [`Outcome`](crate::outcome::Outcome). One machine is a fleet of one: then the same
//! messages stay inside the process, so there is only one code path.
//!
//! | question | file |
//! |---|---|
//! | transport of messages | `bus.rs`; inside the process `bus/local.rs`, between machines `bus/nats.rs` |
//! | checks before joining a bus | `safety.rs` |
//! | messages | `protocol.rs` |
//! | the worker | `worker.rs`, `share.rs` |
//! | the workers of a run | `lineup.rs`, `gather.rs` |
//! | the coordinator's orders and questions | `orders.rs`, `link.rs` |
//! | the coordinator's part of a run | `run.rs` |
//! | merging seconds | `merge.rs` |
//! | a server's configuration | `setup.rs` |
//!
//! **Safety.** A worker makes load on the order of a coordinator, so orders are leases: a worker that receives nothing for [`LEASE`]
//! stops automatically, by its own clock, also when the process was stopped and continued meanwhile.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

mod bus;
mod merge;
mod gather;
mod lineup;
mod link;
mod orders;
mod protocol;
mod run;
mod safety;
mod setup;
mod share;
mod worker;
#[cfg(test)]
mod tests;

pub use lineup::Lineup;
pub use safety::doctor;
pub use setup::{PORT, setup};
pub use worker::serve_worker;

/// How long a worker continues without a message from its coordinator.
pub const LEASE: Duration = Duration::from_secs(5);
/// How often the coordinator renews it: four renewals may be lost.
const RENEWAL: Duration = Duration::from_secs(1);
/// The interval of a worker's heartbeats.
const BEAT: Duration = Duration::from_millis(500);
/// A worker that sent nothing for this duration is lost: five heartbeats.
const PATIENCE: Duration = Duration::from_millis(2500);
/// How long the coordinator waits for workers to answer its call.
const GATHERING: Duration = Duration::from_secs(10);
/// How long an order waits for its answer.
const ANSWER: Duration = Duration::from_secs(3);

/// The load generators.
#[derive(Clone, Debug)]
pub enum Workers {
    /// This process alone.
    Local,
    /// Workers that wait on a bus.
    Nats {
        /// Where.
        bus: BusAddress,
        /// How many of them.
        machines: u32,
    },
}

/// A NATS server, and how to join it.
#[derive(Clone)]
pub struct BusAddress {
    /// `nats://host:port`, or `tls://` to insist on TLS; user and password may stand in front of the host.
    pub url: String,
    /// The fleet's name in subjects: fleets on one server do not see each other.
    pub fleet: String,
    /// Authorities that verify the server's certificate, PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// A file with one line, `user:password`, so that neither stands on a command line.
    pub credentials: Option<PathBuf>,
}

impl BusAddress {
    /// The server at `url`, fleet `default`, the system's authorities, no file with credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), fleet: "default".into(), ca: None, credentials: None }
    }
}

impl fmt::Debug for BusAddress {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusAddress")
            .field("fleet", &self.fleet)
            .field("ca", &self.ca)
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

/// The effect of a lost worker on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// It ends at once.
    Fail,
    /// It continues with the others, whose load does not change; the report notes the missing part.
    Continue,
}
