//! Configuration of a case beside the usual one.

use std::time::Duration;

/// Configuration of a case beside the usual one. Limits, backends and the request for certificates are for every program; the rest is
/// Handfast's own text, in which `FOLDER`, `CLIENT` and `BACKEND` are replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Lines of `[process]`.
    pub(crate) process: &'static str,
    /// Sections before the services.
    pub(crate) globals: &'static str,
    /// Lines of the service under test.
    pub(crate) service: &'static str,
    /// Lines of its `[service.limits]`.
    pub(crate) limits: &'static str,
    /// Sections of it.
    pub(crate) tables: &'static str,
    /// Its backends, if not the one.
    pub(crate) backend: &'static str,
    /// Destination of the access log.
    pub(crate) log: &'static str,
    /// True if the service requests a certificate of clients, which they need not have.
    pub(crate) asks_for_certificates: bool,
}

/// Nothing beside the usual.
pub(crate) const USUAL: Setup = Setup {
    process: "",
    globals: "",
    service: "",
    limits: "",
    tables: "",
    backend: "",
    log: "stdout",
    asks_for_certificates: false,
};

/// The usual, with other limits.
pub(crate) const fn limits(limits: &'static str) -> Setup {
    Setup { limits, ..USUAL }
}

impl Setup {
    /// The limits of the case, by name: those of the service, and `drain`.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        let lines = self.limits.lines().chain(self.process.lines());
        lines.filter_map(|line| {
            let (name, value) = line.split_once(" = ")?;
            Some((name, handfast_text::duration::parse(value.trim_matches('"')).ok()?))
        })
    }

    /// One of them.
    pub(crate) fn limit(&self, name: &str) -> Option<Duration> {
        self.limits().find(|(known, _)| *known == name).map(|(_, limit)| limit)
    }
}
