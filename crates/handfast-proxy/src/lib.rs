//! The TLS proxy: accept → hello → handshake → route → connect → relay → close.
//!
//! In: a configuration, and clients. Out: their bytes at backends, and back, exactly; and an account of each.
//!
//! ```text
//! a connection's life     accept ─ hello ─ handshake ─ route ─ connect ─ relay ─ close      (worker threads)
//!                                           connection.rs has it on one screen
//! a configuration's life  config/file ─ config/model ─ state ─ reload                       (control thread)
//!                                           run.rs starts it, program.rs keeps it going
//! ```
#![forbid(unsafe_code)]

// The life of a connection.
mod connection;
mod accept;
mod hello;
mod handshake;
mod route;
mod connect;
mod relay;
mod close;

// What it uses.
mod runtime;
mod permits;
mod standing;
mod backends;
mod builtin;
mod counted;
mod thread;
mod thread_state;
mod worker;
pub mod cause;
pub mod reason;
pub mod record;

// The life of a configuration.
pub mod config;
mod error;
mod say;
mod limits;
mod own_files;
mod source;
mod state;
mod reload;
mod run;
mod program;
mod listeners;
mod preflight;
mod privileges;
mod resolve;
mod signals;
mod watch;

// Looking in.
pub mod metrics;
pub mod access_log;
pub mod admin;
mod control;
mod check;

pub use check::check;
pub use error::Outcome;
pub use run::run;
pub use source::ConfigSource;
