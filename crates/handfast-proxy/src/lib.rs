//! The TLS proxy: accept → hello → handshake → route → connect → relay → close.
//!
//! In: a configuration, and clients. Out: their bytes at backends, and back, exactly; and an account of each.
//!
//! ```text
//! a connection's life     accept ─ hello ─ handshake ─ route ─ connect ─ relay ─ close      (worker threads)
//!                                           path.rs has it on one screen
//! a configuration's life  handfast-config ─ state ─ reload                                  (control thread)
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
mod thread;
mod thread_state;
mod worker;

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
mod preflight;
mod resolve;
mod watch;
mod memory;
mod error;
mod upgrade;

// Looking in.
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
pub use run::run;
pub use upgrade::{UpgradeFailure, upgrade};
