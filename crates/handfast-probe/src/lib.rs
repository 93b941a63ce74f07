//! Measures where the time of a TLS connection goes, from outside and without privileges.
//!
//! In: [`ProbeSettings`]: the target, what to offer, how often. Out: a [`Report`](report::Report): data, to be written as text, JSON,
//! HTML or as `curl -w` would; or [`ProbeError`], if every connection failed. All measurements are connections of
//! this program, with the kernel's timestamps of bytes sent, acknowledged and received.
//!
//! | question | file |
//! |---|---|
//! | the target | [`target`] |
//! | one handshake, and what follows it, over `handfast_leg::blocking` | `attempt.rs`, `http.rs` |
//! | which time was a round trip, and which was computing | [`flights`] |
//! | all connections of one target, and what they have in common | `survey.rs`, `summary.rs` |
//! | their totals, to compare with the server's counters | `tally.rs` |
//! | the data | [`report`] |
//! | how long a connection is kept, and for how many requests | [`keep_alive`] |
//! | the same target repeatedly | [`watch`], for programs [`rounds`] |
//! | what to change, and how much that saves | `advice.rs` |
//! | what a page would take | [`page`] |
//! | bounds on it | [`limit`] |
//! | what a word means | [`explain`] |
//! | the probe's own packets | [`tap`] |
//! | the same for connections in a capture file | [`capture`] |
//! | rows that people see in a terminal and in a browser | `rows.rs` |
//! | for people, for browsers, for scripts | [`text`], [`html`], [`curl`] |
#![forbid(unsafe_code)]

mod advice;
mod attempt;
pub mod capture;
pub mod curl;
pub mod explain;
pub mod flights;
pub mod html;
mod http;
pub mod keep_alive;
pub mod limit;
pub mod page;
pub mod report;
pub mod rounds;
mod rows;
mod summary;
mod measured;
mod survey;
pub mod tap;
mod tally;
pub mod target;
pub mod text;
mod error;
pub mod watch;
mod waterfall;

pub use error::{ProbeError, Step};
pub use report::Report;
pub use survey::{ProbeSettings, Progress, run};
pub use target::Target;
