//! The TLS load tester: plan → connect → exchange → sample → verdict, on one machine or many.
//!
//! In: a [`Plan`]. Out: a report. One thread for each core, each with its own engine, connections, tickets and
//! histograms; nothing on the way of a transaction takes a lock or is shared.
//!
//! | question | file |
//! |---|---|
//! | what is to be done | [`plan`] |
//! | what was measured in one second | [`sample`] |
//! | what one machine does of it | [`generator`] |
//! | what came of it, before it is judged | [`outcome`] |
//! | whether there are ports and descriptors for it | [`ports`] |
//! | what that machine is, and how busy | [`machine`] |
//! | what the server's processes spent | [`account`] |
//! | whether a latency or a rate kept its limit | [`limits`] |
#![forbid(unsafe_code)]

pub mod generator;
pub mod outcome;
pub mod plan;
pub mod sample;
pub mod account;
pub mod machine;
pub mod ports;
pub mod limits;
mod words;

pub use plan::Plan;
