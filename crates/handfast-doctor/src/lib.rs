//! What on a machine limits or endangers TLS service: findings, each with its number, its arithmetic, what follows from it, and
//! the command that changes it. Nothing is ever changed here.
//!
//! In: /proc and /sys below a folder that the caller names, the kernel's list of sockets, files with keys, a process. Out: a
//! [`Report`], worst finding first, that also says what could not be seen.
//!
//! | what | file |
//! |---|---|
//! | a finding, a fact, what was not seen; JSON | [`report`] |
//! | the same for people | [`text`] |
//! | reading /proc and /sys | [`machine`] |
//! | every TCP socket of the network namespace | [`sockets`] |
//! | the machine as a whole | [`exam`] |
//! | whether a configuration fits the machine | [`fit`] |
//! | what a wanted load needs | [`size`], [`pairs`] |
//! | what a connection takes: the figures of both | [`costs`] |
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
