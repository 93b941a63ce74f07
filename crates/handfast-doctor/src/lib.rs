//! Finds what limits or endangers TLS service on a machine. Each finding has its number, its arithmetic, its consequence, and
//! the command that changes it. This crate never changes the machine.
//!
//! In: /proc and /sys below a folder that the caller names, the kernel's list of sockets, files with keys, a process. Out: a
//! [`Report`], worst finding first, which also lists what could not be examined.
//!
//! | what | file |
//! |---|---|
//! | findings, facts, gaps; JSON | [`report`] |
//! | the same for people | [`text`] |
//! | reading /proc and /sys | [`machine`] |
//! | every TCP socket of the network namespace | [`sockets`] |
//! | the machine as a whole | [`exam`] |
//! | whether a configuration fits the machine | [`fit`] |
//! | resources for a planned load | [`size`], [`pairs`] |
//! | the cost of a connection, for both | [`costs`] |
//! | keys and certificates, in files and from servers | [`keys`] |
//! | one process: its threads, descriptors, sockets | [`process`] |
#![forbid(unsafe_code)]

pub mod costs;
pub mod exam;
pub mod fit;
pub mod keys;
pub mod machine;
pub mod pairs;
pub mod process;
pub mod report;
pub mod size;
pub mod sockets;
pub mod text;

pub use report::{Finding, Report, Severity};
