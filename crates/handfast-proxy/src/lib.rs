//! The TLS proxy: accept → hello → handshake → route → connect → relay → close.
//!
//! In: a configuration, and clients. Out: their bytes at backends, and back, exactly; and an account of each.
//!
//! ```text
//! a connection's life     accept ─ hello ─ handshake ─ route ─ connect ─ relay ─ close      (worker threads)
//!                                           path.rs has it on one screen
//! a configuration's life  handfast-config ─ state ─ reload                                  (control thread)
//! the program's life      start (prepared ─ bound) ─ serving ─ draining                    (control thread)
//! ```
#![forbid(unsafe_code)]

mod admission;
mod backends;
mod cache;
mod control;
mod files;
mod requests;
mod path;
mod state;
mod worker;

#[cfg(test)]
mod testing;

pub use admission::users::{PasswordLineError, password_line};
pub use control::acme::{OrderingError, hold_keys, import as import_certificates, ordered};
pub use control::check::check;
pub use control::error::Outcome;
pub use control::start::run;
pub use control::upgrade::{UpgradeFailure, upgrade};
pub use handfast_acme::NameStatus as OrderedName;
pub use handfast_fleet::{PORT as BUS_PORT, setup as set_up_fleet};
