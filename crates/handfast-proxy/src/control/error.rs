//! Failures of the proxy outside of a single connection: while starting, reloading, or keeping its workers.
//!
//! Its text is *act, object, what happened*, with its cure as a `hint:` line where there is one. The end of a connection is a cause in
//! `record.rs`.

use std::fmt;
use std::io;

use handfast_config::ReadError;
use handfast_process::error::Error as ProcessError;

/// Outcome of the program; the exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Good,
    /// It failed while starting or running: a port in use, a thread that ended.
    Failed,
    /// The configuration or the flags are wrong.
    WrongUse,
}

/// A failure in words, and how the program ends that cannot start because of it.
#[derive(Debug)]
pub(crate) struct Error {
    text: String,
    outcome: Outcome,
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self { text: error.problems, outcome: Outcome::WrongUse }
    }
}

impl From<ProcessError> for Error {
    fn from(error: ProcessError) -> Self {
        let outcome = if error.is_configuration() { Outcome::WrongUse } else { Outcome::Failed };
        Self { text: error.to_string(), outcome }
    }
}

impl Error {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), outcome: Outcome::Failed }
    }

    /// The configuration is right in itself, and its files cannot be served.
    pub(crate) fn not_servable(problems: &[String]) -> Self {
        Self { text: problems.join("\nerror: "), outcome: Outcome::WrongUse }
    }

    /// An error of the system, which needs no object but that of `act` to be understood.
    pub(crate) fn system(act: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::failed(format!("{act}: {source}"))
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_config::accounts::find_user;

    #[test]
    fn wrong_input_is_distinguished_from_a_failure() {
        let unknown = find_user("nobdoy").expect_err("there is none");
        let wrong = Error::from(ProcessError::from(unknown));
        assert_eq!(wrong.to_string(), "process.user: there is no user nobdoy on this machine");
        assert_eq!(wrong.outcome(), Outcome::WrongUse);
        let failed = Error::system("listen for signals")(io::ErrorKind::OutOfMemory.into());
        assert_eq!(failed.outcome(), Outcome::Failed);
    }
}
