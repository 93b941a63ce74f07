//! Programs that a service starts, and clients that do not connect.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The program's file.
    pub path: PathBuf,
    /// Its arguments, without its name.
    pub arguments: Vec<String>,
}

impl fmt::Display for Program {
    /// As in a shell, where no argument has spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// The one client of a service that listens nowhere (`only-client`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnlyClient {
    /// The peer at standard input and output: of inetd, or a program that started this one. The process ends with it.
    Stdin,
    /// A program that is started with the process. Its standard input and output are the connection.
    Program {
        /// The program and its arguments.
        program: Program,
        /// Time from its end to its next start; `None`: it is started once.
        again: Option<Duration>,
    },
}
