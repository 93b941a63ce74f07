//! The TLS load tester: plan → connect → exchange → sample → verdict, on one machine or many.
//!
//! In: a [`Plan`]. Out: a report. One thread for each core, each with its own engine, connections, tickets and
//! histograms; no code on the path of a transaction takes a lock or shares data.
//!
//! | question | file |
//! |---|---|
//! | what is to be done | [`plan`] |
//! | what was measured in one second | [`sample`] |
//! | at which step something failed, and why | [`cause`] |
//! | whether there are ports and descriptors for it | [`ports`] |
//! | the part of one machine | [`generator`] |
//! | a run on many machines | [`distributed`] |
//! | what that machine is, and how busy | [`machine`] |
//! | what the server's processes spent | [`account`] |
//! | the result before the verdict | [`outcome`] |
//! | whether the figures are reliable | [`verdict`] |
//! | whether a latency or a rate kept its limit | [`limits`] |
//! | what the report says | [`assemble`] |
//! | the highest rate that holds a bound | [`search`] |
//! | what this CPU can do for TLS | [`speed`] |
//! | all options of a run, to repeat it | [`job`] |
#![forbid(unsafe_code)]

pub mod account;
pub mod assemble;
pub mod cause;
pub mod distributed;
pub mod generator;
mod hint;
pub mod job;
pub mod limits;
pub mod machine;
pub mod outcome;
pub mod plan;
pub mod ports;
pub mod sample;
pub mod search;
pub mod speed;
pub mod verdict;
mod acceptance;
mod arrival_queue;
mod assignment;
mod context;
mod close;
mod connect;
mod connection;
mod dispatcher;
mod exchange;
mod http;
mod kept;
mod opener;
mod pattern;
mod pool;
mod raw;
mod recorder;
mod requests;
mod schedule;
mod slots;
mod standing;
mod target;
mod thinking;
mod thread;
mod transaction;
mod failure;
mod round_robin;
mod warm_up;
mod wire;
mod work;

pub use plan::Plan;
