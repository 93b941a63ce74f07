//! Reasons why an experiment failed: the proxy did not keep a promise, the laboratory failed, or the fault cannot be made here.

use std::io;

use handfast_lab::error::LabError;
use handfast_lab::sockets::Failure;
use handfast_testkit::connection::Failed;
use handfast_testkit::ending::Ending;

/// Reason why an experiment did not succeed.
#[derive(Debug)]
pub(crate) enum CaseError {
    /// The proxy did not do what it has to.
    Broken(String),
    /// The laboratory failed: there is no result for the proxy.
    Lab(String),
    /// This machine cannot make the fault.
    Skipped(String),
    /// The program under test cannot play it.
    NotPossible(String),
}

/// The proxy did not do what it has to.
pub(crate) fn broken<T>(what: impl Into<String>) -> Result<T, CaseError> {
    Err(CaseError::Broken(what.into()))
}

/// A step of the laboratory's own that failed, for `map_err`.
pub(crate) fn lab<E: std::fmt::Display>(act: &'static str) -> impl FnOnce(E) -> CaseError {
    move |error| CaseError::Lab(format!("{act}: {error}"))
}

impl From<Failure> for CaseError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Skipped(reason) => Self::Skipped(reason),
            other => Self::Lab(other.to_string()),
        }
    }
}

impl From<LabError> for CaseError {
    fn from(error: LabError) -> Self {
        Self::Lab(error.to_string())
    }
}

impl From<io::Error> for CaseError {
    fn from(error: io::Error) -> Self {
        Self::Lab(format!("a socket of the laboratory's own: {error}"))
    }
}

impl From<Failed> for CaseError {
    fn from(failed: Failed) -> Self {
        Self::Broken(failed.to_string())
    }
}

/// Demands on the end of a connection.
pub(crate) trait MustEnd {
    /// An abort on one side has to be one on the other.
    fn must_abort(&self, peer: &str) -> Result<(), CaseError>;
    /// A clean close has to be seen as one.
    fn must_be_clean(&self, peer: &str) -> Result<(), CaseError>;
}

impl MustEnd for Ending {
    fn must_abort(&self, peer: &str) -> Result<(), CaseError> {
        if self.is_truncated() { Ok(()) } else { broken(format!("{peer} received {self}: not an abort")) }
    }

    fn must_be_clean(&self, peer: &str) -> Result<(), CaseError> {
        if self.is_clean() { Ok(()) } else { broken(format!("{peer} received {self}: not a clean end")) }
    }
}
