//! Messages between proxies that serve the same names: ticket keys, answers to challenges, certificates.
//!
//! In: a [`BusAddress`], a [`Secret`], what this machine has. Out: [`Event`]s, what others have. Core NATS carries the messages, each
//! sealed with the fleet's secret, so the bus and the holders of its password can withhold and repeat messages, but neither read nor forge
//! them. There is no leader: without the bus each machine goes on alone.
//!
//! | question | file |
//! |---|---|
//! | how a message is sealed | `secret.rs` |
//! | messages | `words.rs` |
//! | the members, and their claims to certificates | `members.rs`, pure |
//! | the task that receives and sends | `running.rs` |
//! | what `handfast fleet setup` writes | `setup.rs` |
#![forbid(unsafe_code)]

mod members;
mod running;
mod secret;
mod setup;
mod words;

pub use handfast_bus::{BusAddress, BusError, PORT, Purpose, check_fleet, doctor};
pub use members::Machine;
pub use running::{Event, Report, Request, Settings, member};
pub use secret::{Secret, Tag};
pub use setup::{SetupError, setup};
