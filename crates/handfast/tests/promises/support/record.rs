//! One line of the access log: what the program says of one connection.

use std::fmt;

use serde_json::Value;

/// A line.
#[derive(Clone)]
pub(crate) struct Record(Value);

impl Record {
    /// Reads a line; `None` for lines that are not about a connection.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        value.get("reason").is_some().then_some(Self(value))
    }

    /// A field as text; empty when it is left out.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or("")
    }

    /// A field as a number; 0 when it is left out.
    pub(crate) fn number(&self, field: &str) -> u64 {
        self.0[field].as_u64().unwrap_or(0)
    }

    /// A field as it is; null when it is left out.
    pub(crate) fn value(&self, field: &str) -> &Value {
        &self.0[field]
    }

    /// A field as yes or no.
    pub(crate) fn flag(&self, field: &str) -> Option<bool> {
        self.0[field].as_bool()
    }

    /// Seconds that a step took.
    pub(crate) fn seconds(&self, step: &str) -> f64 {
        self.0["seconds"][step].as_f64().unwrap_or(0.0)
    }

    /// `step/side/cause`.
    pub(crate) fn reason(&self) -> String {
        let word = |key: &str| self.0["reason"][key].as_str().unwrap_or("?");
        format!("{}/{}/{}", word("step"), word("side"), word("cause"))
    }

    /// Detail of the reason; empty without one.
    pub(crate) fn detail(&self) -> &str {
        self.0["reason"]["detail"].as_str().unwrap_or("")
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
