//! Live upgrade: a new process takes the listening sockets from the running one, which then serves what it has to the end.
//!
//! In: a request of `handfast upgrade`, or a process that wants to take over. Out: everything that another process needs to
//! serve in this one's place; and once it serves, a drain. Until the new one reports that it serves, nothing has changed for this one.
//!
//! ```text
//! handfast upgrade ── start ──▶ running one ── executes ──▶ new one
//!                               running one ◀── take over ── new one        over a unix socket of mode 0600
//!                               running one ── offer, sockets ──▶ new one   keys, standings; descriptors (SCM_RIGHTS)
//!                               running one ◀── ready ────── new one        every one of its workers accepts
//!                               running one ── go ─────────▶ new one        and closes its copies, and drains
//! handfast upgrade ◀── done ─── running one
//!                               running one ── counts ─────▶ new one        what it has counted, until it ends
//! ```
//!
//! `protocol.rs` has the messages and their bounds, `giver.rs` the running process's side, `taker.rs` the new one's, `command.rs` that of
//! `handfast upgrade`, `counter_transfer.rs` what follows it, `successor.rs` how the new process is started and waited for.
//! `control/upgrade_decisions.rs` is what the control thread does about requests.

mod command;
mod counter_transfer;
pub(super) mod giver;
pub(super) mod protocol;
mod successor;
mod taker;

pub use command::{UpgradeFailure, upgrade};
pub(crate) use giver::Upgrades;
pub(crate) use taker::Taking;
