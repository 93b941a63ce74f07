//! What answers at an address: a proxy, or a run of `handfast load` with `--metrics`.
//!
//! In: the JSON of `/status.json`. Out: a [`Seen`], with text that is fit for a terminal.

use handfast_report::run::{Run, SCHEMA};
use handfast_text::units::plain;
use serde_json::Value;

use super::sample::Sample;

/// One answer.
pub(crate) enum Seen {
    /// A moment of a proxy, and perhaps an earlier one.
    Proxy(Box<(Sample, Option<Sample>)>),
    /// A run as it stands.
    Run(Box<Run>),
}

impl Seen {
    /// Reads what was asked for at `at`.
    ///
    /// **Errors**: what it is instead, as a sentence.
    pub(crate) fn read(text: &str, at: f64) -> Result<Self, String> {
        let whole: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        if whole["schema"] != SCHEMA {
            return Sample::read(&whole, at).map(|moments| Self::Proxy(moments.into()));
        }
        let mut run: Run = serde_json::from_value(whole).map_err(|error| plain(&error.to_string()))?;
        texts(&mut run).into_iter().for_each(|text| *text = plain(text));
        Ok(Self::Run(run.into()))
    }
}

/// Everything in it that is shown as it came.
fn texts(run: &mut Run) -> Vec<&mut String> {
    let mut texts = vec![&mut run.program, &mut run.title, &mut run.part];
    texts.extend(
        [&mut run.so_far, &mut run.last].into_iter().chain(&mut run.steps).map(|step| &mut step.name),
    );
    texts.extend(run.failures.iter_mut().flat_map(|failed| [&mut failed.step, &mut failed.cause]));
    texts.extend(run.members.iter_mut().chain(&mut run.requests).map(|part| &mut part.name));
    texts
}
