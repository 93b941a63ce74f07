//! One run on many machines: a coordinator sends orders to workers, and merges their measurements.
//!
//! In: a [`Plan`](crate::Plan) and [`Workers`]. Out: an [`Outcome`](crate::outcome::Outcome). A machine alone is coordinator and
//! worker: then the same messages stay inside the process, so there is only one code path.
//!
//! | question | file |
//! |---|---|
//! | transport of messages, checks before joining a bus | the crate `handfast-bus` |
//! | messages | `protocol.rs` |
//! | the worker | `worker.rs`, `share.rs` |
//! | the workers of a run | `lineup.rs`, `gather.rs` |
//! | the coordinator's orders and questions | `orders.rs`, `link.rs` |
//! | the coordinator's part of a run | `coordinator.rs` |
//! | merging seconds | `merge.rs` |
//! | a server's configuration | `setup.rs` |
//!
//! **Safety.** A worker makes load on the order of a coordinator, so orders are leases: a worker that receives nothing for [`LEASE`]
//! stops automatically, by its own clock, also when the process was stopped and continued meanwhile.

use std::time::Duration;

mod merge;
mod gather;
mod lineup;
mod link;
mod orders;
mod protocol;
mod coordinator;
mod setup;
mod share;
mod worker;
#[cfg(test)]
mod tests;

pub use handfast_bus::{BusAddress, PORT};
use handfast_report::ToolError;
use protocol::of_bus;

/// Checks a bus like joining it: each finding as a sentence.
///
/// **Errors**: what prevents a worker or coordinator from joining.
pub async fn doctor(bus: &BusAddress) -> Result<Vec<String>, ToolError> {
    handfast_bus::doctor(bus).await.map_err(of_bus)
}

pub use lineup::Lineup;
pub use setup::setup;
pub use worker::serve_worker;

/// Time for which a worker continues without a message from its coordinator.
pub const LEASE: Duration = Duration::from_secs(5);
/// Interval at which the coordinator renews it: four renewals may be lost.
const RENEWAL: Duration = Duration::from_secs(1);
/// The interval of a worker's heartbeats.
const BEAT: Duration = Duration::from_millis(500);
/// A worker that sent nothing for this duration is lost: five heartbeats.
const WORKER_TIMEOUT: Duration = Duration::from_millis(2500);
/// Time for which the coordinator waits for workers to answer its call.
const GATHERING: Duration = Duration::from_secs(10);
/// Timeout of the answer to an order.
const ANSWER: Duration = Duration::from_secs(3);

/// The load generators.
#[derive(Clone, Debug)]
pub enum Workers {
    /// This process alone.
    Local,
    /// Workers that wait on a bus.
    Nats {
        /// Address of the bus.
        bus: BusAddress,
        /// Number of workers.
        machines: u32,
    },
}

/// The effect of a lost worker on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// It ends at once.
    Fail,
    /// It continues with the others, whose load does not change; the report notes the missing part.
    Continue,
}
