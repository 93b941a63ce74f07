//! The TLS proxy: accept → hello → handshake → route → connect → relay → close.
//!
//! In: a configuration, and clients. Out: their bytes at backends, and back, exactly; and an account of each.
//!
//! ```text
//! a connection's life     accept ─ hello ─ handshake ─ route ─ connect ─ relay ─ close      (worker threads)
//!                                           path.rs has it on one screen
//! a configuration's life  (handfast-config) ─ state ─ reload                       (control thread)
//! the program's life      start/prepared ─ start/bound ─ serving ─ draining                 (control thread)
//! ```
#![forbid(unsafe_code)]

// The life of a connection.
mod path;
mod admission;
mod admit;
mod accept;
mod proxy_in;
mod starttls;
mod hello;
mod handshake;
mod signer;
mod key_process;
mod route;
mod proxy_out;
mod sent_header;
mod connect;
mod opening;
mod relay;
mod close;

// What it uses.
mod account;
mod connection;
mod runtime;
mod permits;
mod standing;
mod backend_tls;
mod through;
mod backends;
mod builtin;
mod cell;
mod thread;
mod thread_state;
mod worker;
pub mod cause;
pub mod proxied;
pub mod operator_state;
pub mod reason;
pub mod steps;
pub mod record;

// The life of a configuration.
mod state;
mod reload;

// The life of the program.
mod run;
mod start;
mod serving;
mod draining;
mod program;
mod workers;
mod listeners;
mod limits;
mod own_files;
mod preflight;
mod privileges;
mod process_error;
mod trusted_path;
mod sandbox;
mod resolve;
mod service_manager;
mod signals;
mod watch;
mod memory;
mod error;
mod say;
mod upgrade;

// Looking in.
pub mod metrics;
pub mod access_log;
pub mod admin;
mod control;
mod check;
mod checks;

#[cfg(test)]
mod path_tests;
#[cfg(test)]
mod testing;

use handfast_config as config;
use handfast_config::source;

pub use check::check;
pub use error::Outcome;
pub use key_process::{hold, supervise};
pub use run::run;
pub use sandbox::confine_this_thread;
pub use service_manager::ServiceManager;
pub use upgrade::{UpgradeFailure, upgrade};
