//! One run on many machines: a coordinator tells workers what to do and when, and merges what they measured.
//!
//! In: a [`Plan`](crate::Plan) and [`Workers`]. Out: an [`Outcome`](crate::outcome::Outcome). One machine is a fleet of one: the same
//! messages then travel inside the process, so there is one path and not two.
//!
//! | question | file |
//! |---|---|
//! | how messages travel | `bus.rs`; inside the process `bus/local.rs`, between machines `bus/nats.rs` |
//! | what may be joined | `safety.rs` |
//! | what is said | `protocol.rs` |
//! | what a worker does | `worker.rs`, `share.rs` |
//! | who takes part | `lineup.rs`, `gather.rs` |
//! | what the coordinator says and asks | `orders.rs`, `link.rs` |
//! | what the coordinator does in a run | `run.rs` |
//! | how seconds become one | `merge.rs` |
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

/// How long a worker goes on without a word from its coordinator.
pub const LEASE: Duration = Duration::from_secs(5);
/// How often the coordinator renews it: four renewals may be lost.
const RENEWAL: Duration = Duration::from_secs(1);
/// How often a worker says that it lives.
const BEAT: Duration = Duration::from_millis(500);
/// A worker that sent nothing for this duration is lost: five heartbeats.
const PATIENCE: Duration = Duration::from_millis(2500);
/// How long the coordinator waits for workers to answer its call.
const GATHERING: Duration = Duration::from_secs(10);
/// How long an order waits for its answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Who makes the load.
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
    /// Authorities that the server's certificate is verified against, PEM; `None`: the system's.
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

/// What becomes of a run when a worker is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// It ends at once.
    Fail,
    /// It goes on with the others, whose load does not change; what is missing is noted.
    Continue,
}
