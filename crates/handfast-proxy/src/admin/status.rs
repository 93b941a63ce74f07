//! The status as data: what `/status.json` answers and the page is drawn from.

use serde::Serialize;

use super::control::{Control, Overview};
use super::rates::{History, Rates, Recent};
use crate::metrics::Snapshot;

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
    pub(super) rates: Rates,
    /// What happened in the last minute.
    pub(super) recent: Recent,
    #[serde(flatten)]
    pub(super) measured: Snapshot,
}

impl Status {
    pub(super) fn of(control: &dyn Control, history: &History) -> Self {
        let measured = control.snapshot();
        let not_ready_because = control.ready().err().map(|reason| reason.to_string());
        Self {
            schema: SCHEMA,
            ready: not_ready_because.is_none(),
            not_ready_because,
            overview: control.overview(),
            rates: history.rates(&measured),
            recent: history.recent(&measured),
            measured,
        }
    }
}
