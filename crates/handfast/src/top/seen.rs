//! What answers at an address: a proxy, or a run of `handfast load` with `--metrics`.
//!
//! In: the JSON of `/status.json`. Out: a [`Seen`], with text that is fit for a terminal.

use handfast_report::run::{Run, SCHEMA};
use serde_json::Value;

use super::sample::Sample;
use super::tolerant;

/// One answer.
pub(crate) enum Seen {
    /// A moment of a proxy, and perhaps an earlier one.
    Proxy(Box<(Sample, Option<Sample>)>),
    /// A run at this moment.
    Run(Box<Run>),
}

impl Seen {
    /// Reads the answer to a request of the time `at`. A part that is missing is empty.
    ///
    /// **Errors**: what it is instead, as a sentence.
    pub(crate) fn read(text: &str, at: f64) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        if json["schema"] == SCHEMA {
            return tolerant::read(json).map(Self::Run).map_err(|error| error.to_string());
        }
        Sample::read(json, at).map(|moments| Self::Proxy(moments.into()))
    }
}
