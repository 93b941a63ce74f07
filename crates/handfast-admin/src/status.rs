//! The status as data: what `/status.json` answers and the page is drawn from.

use serde::Serialize;

use super::control::{Control, Overview};
use super::hour::Point;
use super::page::{self, Urgency};
use super::rates::{History, Rates, Recent};
use handfast_observe::metrics::{FailureSnapshot, Snapshot};

/// Version of the JSON; raised when a field changes its meaning or goes, not when one is added.
pub(super) const SCHEMA: u32 = 2;

/// Everything known at one moment.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) schema: u32,
    pub(super) ready: bool,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_ready_because: Option<String>,
    pub(super) overview: Overview,
    /// What is not as it should be, the most urgent first, as at the top of the page; only in JSON.
    pub(super) attention: Vec<Attention>,
    pub(super) rates: Rates,
    /// What happened in the last minute.
    pub(super) recent: Recent,
    /// The last connections that failed, the newest first.
    pub(super) failures: Vec<FailureSnapshot>,
    /// The last hour, for the page.
    #[serde(skip)]
    pub(super) hour: Vec<Point>,
    #[serde(flatten)]
    pub(super) measured: Snapshot,
}

/// Something that is not as it should be.
#[derive(Debug, Serialize)]
pub(super) struct Attention {
    /// `soon` or `bad`.
    pub(super) urgency: &'static str,
    pub(super) sentence: String,
}

impl Status {
    /// The same, as JSON.
    ///
    /// **Errors**: none that is known.
    pub(super) fn into_json(mut self) -> serde_json::Result<String> {
        let point = |(urgency, sentence): (Urgency, _)| Attention { urgency: urgency.class(), sentence };
        self.attention = page::points(&self).into_iter().map(point).collect();
        serde_json::to_string(&self)
    }

    pub(super) fn of(control: &dyn Control, history: &History) -> Self {
        let measured = control.snapshot();
        let not_ready_because = control.ready().err().map(|reason| reason.to_string());
        Self {
            schema: SCHEMA,
            ready: not_ready_because.is_none(),
            not_ready_because,
            overview: control.overview(),
            attention: Vec::new(),
            rates: history.rates(&measured),
            recent: history.recent(&measured),
            failures: control.failures(),
            hour: history.hour(),
            measured,
        }
    }
}
