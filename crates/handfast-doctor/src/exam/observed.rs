//! The observations of a machine, which all parts of the examination use.

use std::time::Duration;

use crate::machine::{Counters, Machine};
use crate::report::Report;
use crate::sockets::Socket;

/// The observations.
pub(crate) struct Exam<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) before: Counters,
    pub(crate) now: Counters,
    pub(crate) interval: Duration,
    /// `None` where they could not be listed.
    pub(crate) sockets: Option<Vec<Socket>>,
    /// Uptime of the kernel.
    pub(crate) uptime: Option<Duration>,
    pub(crate) report: Report,
}
