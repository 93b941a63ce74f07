//! The control thread: the life of the program and of its configuration.
//!
//! | question | file |
//! |---|---|
//! | how the program starts | `start.rs` |
//! | what it does while it serves, and while it drains | `serving.rs`, `draining.rs`, `program.rs` |
//! | how a new configuration is taken over | `reload.rs`, `watch.rs` |
//! | what a configuration would do, without serving | `check.rs` |
//! | how another process takes over | `upgrade/` |
//! | which services are in maintenance | `maintenance.rs` |
//! | the worker threads, and the orders that they carry out | `workers.rs` |
//! | what the admin listener reads and requests | `admin_state.rs` |
//! | why the program could not start or go on | `error.rs` |

pub(crate) mod acme;
mod admin_state;
mod built_in_backend;
pub(crate) mod check;
mod dns_command;
mod fleet;
mod draining;
pub(crate) mod error;
mod given_clients;
mod maintenance;
mod memory;
mod program;
mod reload;
mod serving;
pub(crate) mod start;
pub(crate) mod upgrade;
mod upgrade_decisions;
mod watch;
mod workers;
