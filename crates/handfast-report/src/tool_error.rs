//! Error of a tool, for people: act, object, problem, a hint, and the exit code that follows from its kind.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a [`ToolError`], from which the exit code follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolErrorKind {
    /// The request is wrong: exit code 2.
    WrongUse,
    /// The request is right, and something is in the way: exit code 1.
    Failed,
}

/// Reason why a tool cannot do what was requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolError {
    /// Act, object, what happened, what was expected.
    pub what: String,
    /// The hint, if there is one.
    pub hint: Option<String>,
    /// Request, or machine and target.
    pub kind: ToolErrorKind,
}

impl ToolError {
    /// The request cannot be fulfilled.
    pub fn wrong_use(what: impl ToString) -> Self {
        Self { what: what.to_string(), hint: None, kind: ToolErrorKind::WrongUse }
    }

    /// It could be done, and something is in the way.
    pub fn failed(what: impl ToString) -> Self {
        Self { what: what.to_string(), hint: None, kind: ToolErrorKind::Failed }
    }

    /// Adds the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns true if the request is wrong.
    pub fn is_wrong_use(&self) -> bool {
        self.kind == ToolErrorKind::WrongUse
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ToolError {}
