//! The status as data: what `/status.json` answers and the page is drawn from.

use std::time::Instant;

use serde::Serialize;

use super::control::{Control, Overview};
use super::hour::Point;
use super::rates::{History, Rates, Recent};
use handfast_observe::metrics::{FailureSnapshot, Snapshot};

/// Version of the JSON; raised when a field changes its meaning or goes, not when one is added.
pub(super) const SCHEMA: u32 = 2;

#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) schema: u32,
    pub(super) ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_ready_because: Option<String>,
    pub(super) overview: Overview,
    /// What is not as it should be, the most urgent first, as at the top of the page; only in JSON.
    pub(super) attention: Vec<Attention>,
    pub(super) rates: Rates,
    pub(super) recent: Recent,
    pub(super) failures: Vec<FailureSnapshot>,
    /// The last hour, for the page.
    #[serde(skip)]
    pub(super) hour: Vec<Point>,
    #[serde(flatten)]
    pub(super) measured: Snapshot,
}

#[derive(Debug, Serialize)]
pub(super) struct Attention {
    /// `soon` or `bad`.
    pub(super) urgency: &'static str,
    pub(super) sentence: String,
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
            attention: Vec::new(),
            rates: history.rates(&measured, Instant::now()),
            recent: history.recent(&measured),
            failures: control.failures(),
            hour: history.hour(),
            measured,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::fake::{Fake, Script};

    /// Other programs read it. The parts of the snapshot that this leaves empty are compared in handfast-observe.
    #[test]
    fn the_json_is_as_recorded() {
        let mut status = Status::of(&Fake::new(Arc::new(Script::default())), &History::default());
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        let measured = &mut status.measured;
        measured.reload.last_at = Some(at(7));
        (measured.process.now, measured.process.started) = (at(300_000), at(0));
        (measured.process.pid, measured.process.version) = (4_711, "0.0.0");
        measured.process.process_cpu_seconds = Some(1.5);
        (measured.process.source_ports, measured.process.time_wait) = (Some((32_768, 60_999)), Some(9));
        for (days, certificate) in (1..).zip(&mut measured.certificates) {
            certificate.not_after = at(300_000 + days * 86_400);
            certificate.staple_until = None;
        }
        measured.revocation_lists[0].next_update = Some(at(300_000 + 86_400));
        measured.revocation_lists[0].late_at = Some(at(300_000 - 5));
        status.attention = crate::page::findings(&status);
        // A field on each line, so that a difference is easy to see.
        let json = serde_json::to_string(&status).expect("it is JSON").replace(",\"", ",\n\"") + "\n";
        let recorded = include_str!("recorded/status.json");
        for (now, before) in json.lines().zip(recorded.lines()) {
            assert_eq!(now, before);
        }
        assert_eq!(json, recorded);
    }
}
