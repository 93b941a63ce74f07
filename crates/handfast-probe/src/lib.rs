//! Where the time of a TLS connection goes, seen from outside and as an ordinary user.
//!
//! In: a [`Wanted`]: whom to ask, what to offer, how often. Out: a [`Report`](report::Report): data, to be written as text, JSON,
//! HTML or as `curl -w` would; or [`Trouble`], when not one connection came about. Everything that takes time is a connection made by
//! this program; the kernel says when what was sent, acknowledged and received.
//!
//! | question | file |
//! |---|---|
//! | who is meant | [`target`] |
//! | one connection, with the kernel's stamps | `line.rs` |
//! | one handshake, and what follows it | `attempt.rs`, `http.rs` |
//! | which of it was a round trip, and which was thought | [`flights`] |
//! | all connections of one target, and what they have in common | `survey.rs`, `summary.rs` |
//! | all of them together, for what the server counted itself | `tally.rs` |
//! | the data | [`report`] |
//! | how long a connection is kept, and for how many requests | [`keep_alive`] |
//! | the same target again and again | [`watch`], for programs [`rounds`] |
//! | what to change, and how much that saves | `advice.rs` |
//! | what a page would take | [`page`] |
//! | bounds on it | [`limit`] |
//! | what a word means | [`explain`] |
//! | the probe's own packets | [`tap`] |
//! | the same of connections that somebody else captured | [`capture`] |
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
mod line;
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
mod trouble;
pub mod watch;
mod waterfall;

pub use report::Report;
pub use survey::{Progress, Wanted, run};
pub use target::Target;
pub use trouble::{Step, Trouble};
