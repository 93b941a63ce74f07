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
#![forbid(unsafe_code)]

pub mod generator;
pub mod outcome;
pub mod plan;
pub mod sample;

pub use plan::Plan;
