//! The process around the proxy: its sockets, its user, its limits, its sandbox, and the separate process that holds private keys.
//!
//! In: a configuration, the environment at the start, signals. Out: listening sockets for workers, a process with the rights that serving
//! needs and no others, and answers of the key process. It knows neither TLS sessions nor what is counted.
//!
//! | question | file |
//! |---|---|
//! | which sockets listen, and where they come from | [`listeners`], [`service_manager`] |
//! | which user serves, and what root does for it | [`privileges`], [`trusted_path`] |
//! | what the process can still reach while it serves | [`sandbox`], [`writable_files`] |
//! | how many connections it may have | [`limits`] |
//! | where private keys are when they are not here | [`key_process`] |
//! | which other programs run for it | [`programs`] |
//! | what a signal requests | [`signals`] |
//! | how text of several lines is logged | [`log_lines`] |
#![forbid(unsafe_code)]

pub mod error;
pub mod key_process;
pub mod limits;
pub mod listeners;
pub mod log_lines;
mod own_program;
pub mod privileges;
pub mod programs;
pub mod sandbox;
pub mod service_manager;
pub mod signals;
pub mod trusted_path;
pub mod writable_files;
