//! Reasons why an operation cannot begin, in words for people: act, object, problem, a hint, and the side at fault.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Reason why an operation cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Act, object, what happened, what was expected.
    pub what: String,
    /// The hint, if there is one.
    pub hint: Option<String>,
    /// True if the request is wrong (exit code 2), and not the machine or the target (1).
    pub wrong_use: bool,
}

impl Refusal {
    /// The request cannot be fulfilled.
    pub fn wrong_use(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, wrong_use: true }
    }

    /// It could be done, and something is in the way.
    pub fn failed(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, wrong_use: false }
    }

    /// Adds the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
