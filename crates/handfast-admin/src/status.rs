//! The status as data: what `/status.json` answers, the page is drawn from, and `handfast top` and the tools with `--status` read.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::control::{Control, Overview};
use super::hour::Point;
use super::rates::{History, Rates, Recent};
use handfast_observe::metrics::{FailureSnapshot, RequestFailureSnapshot, Snapshot};
use handfast_observe::open::OpenSnapshot;

/// Version of the JSON; raised when a field changes its meaning or goes, not when one is added: a missing field has its default value.
pub const SCHEMA: u32 = 3;

/// The status of a proxy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// True if new connections should be sent to it.
    pub ready: bool,
    /// Reason why they should not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready_because: Option<String>,
    /// Description of the listeners and their backends.
    pub overview: Overview,
    /// Problems, the most urgent first, as at the top of the page; only in JSON.
    pub attention: Vec<Attention>,
    /// Events a second, over the last minute.
    pub rates: Rates,
    /// Events of the last minute.
    pub recent: Recent,
    /// The last failures, the newest first.
    pub failures: Vec<FailureSnapshot>,
    /// The last requests that failed, the newest first.
    pub request_failures: Vec<RequestFailureSnapshot>,
    /// Open requests and connected clients.
    pub open: OpenSnapshot,
    /// The last hour, for the page.
    #[serde(skip)]
    pub(super) hour: Vec<Point>,
    /// Counters and timers since the start.
    #[serde(flatten)]
    pub measured: Snapshot,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attention {
    /// Urgency of the problem.
    pub urgency: Urgency,
    /// Description of the problem.
    pub sentence: String,
}

/// Urgency of something that needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// Not at all.
    Good,
    /// In the next days.
    Soon,
    /// Now.
    Bad,
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
            request_failures: control.request_failures(),
            open: OpenSnapshot::default(),
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
    #[expect(clippy::disallowed_methods, reason = "records what a developer then looks at")]
    #[test]
    fn the_json_is_as_recorded() {
        let mut status = Status::of(&Fake::new(Arc::new(Script::default())), &History::default());
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        let measured = &mut status.measured;
        measured.reload.last_at = Some(at(7));
        (measured.process.now, measured.process.started) = (at(300_000), at(0));
        (measured.process.pid, measured.process.version) = (4_711, "0.0.0".into());
        measured.process.process_cpu_seconds = Some(1.5);
        (measured.process.source_ports, measured.process.time_wait) = (Some((32_768, 60_999)), Some(9));
        for (days, certificate) in (1..).zip(&mut measured.certificates) {
            certificate.not_after = at(300_000 + days * 86_400);
            certificate.staple_until = None;
        }
        status.request_failures.iter_mut().for_each(|failure| failure.time = at(299_000));
        let measured = &mut status.measured;
        measured.revocation_lists[0].next_update = Some(at(300_000 + 86_400));
        measured.revocation_lists[0].late_at = Some(at(300_000 - 5));
        status.attention = crate::page::findings(&status);
        // A field on each line, so that a difference is easy to see.
        let json = serde_json::to_string(&status).expect("it is JSON").replace(",\"", ",\n\"") + "\n";
        if std::env::var_os("HANDFAST_WRITE_RECORDED").is_some() {
            std::fs::write("src/recorded/status.json", &json).expect("a checkout");
        }
        let recorded = include_str!("recorded/status.json");
        for (now, before) in json.lines().zip(recorded.lines()) {
            assert_eq!(now, before);
        }
        assert_eq!(json, recorded);
        let read: Status = serde_json::from_str(&json).expect("what is written can be read");
        assert_eq!(
            serde_json::to_string(&read).expect("it is JSON").replace(",\"", ",\n\"") + "\n",
            recorded
        );
    }
}
