//! ghostunnel's time limits, its defaults included: they differ from ours.
//!
//! In: flags such as `--connect-timeout=7s`, as Go writes durations. Out: our limits. Their meaning is from ghostunnel's `proxy/proxy.go`:
//!
//! - `--connect-timeout` is the deadline of the client's handshake, and separately that of the connect and handshake with the backend.
//! - `--close-timeout` starts when one direction has ended, and is a deadline of the whole connection, even if the other is busy.
//! - An idle connection never times out.

use std::time::Duration;

use handfast_text::duration::{parse, written};

use super::Import;
use crate::note::Fate::{Approximated, Refused};

const TENTH: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

/// ghostunnel's own default of connecting and of closing.
const TEN_SECONDS: Duration = Duration::from_secs(10);
/// ghostunnel's own default of a stop.
const SHUTDOWN: Duration = Duration::from_secs(300);

impl Import<'_> {
    /// Writes all limits.
    pub(super) fn durations(&mut self) {
        // Zero means no timed reload; files are always watched.
        if let Some(interval) = self.duration("timed-reload", (TENTH, DAY), true) {
            self.whole.process.put("watch-interval", written(interval));
        }
        let drain = self.duration("shutdown-timeout", (Duration::ZERO, DAY), false).unwrap_or(SHUTDOWN);
        self.whole.process.put("drain", written(drain));
        let connect = self.duration("connect-timeout", (TENTH, HOUR / 2), false).unwrap_or(TEN_SECONDS);
        self.draft.put("limits", "connect", written(connect));
        self.draft.put("limits", "handshake", written(2 * connect));
        let close = self.duration("close-timeout", (TENTH, MONTH), false).unwrap_or(TEN_SECONDS);
        self.draft.put("limits", "half-closed-client", written(close));
        self.draft.put("limits", "half-closed", written(close));
        self.draft.put("limits", "idle", "none");
        if let Some(lifetime) = self.duration("max-conn-lifetime", (SECOND, MONTH), true) {
            self.draft.put("limits", "lifetime", written(lifetime));
        }
    }

    /// A flag's duration within what ours takes; `None` when it is not given, or zero where `zero_is_none`.
    fn duration(
        &mut self,
        name: &'static str,
        (least, most): (Duration, Duration),
        zero_is_none: bool,
    ) -> Option<Duration> {
        let text = self.get(name)?;
        let duration = match text.as_str() {
            // Go allows 0 without a unit.
            "0" => Some(Duration::ZERO),
            text => parse(text.trim_start_matches('+')).ok(),
        };
        let Some(duration) = duration else {
            self.note(name, Refused, "expected a duration such as 10s or 1m30s");
            return None;
        };
        if zero_is_none && duration.is_zero() {
            return None;
        }
        let nearest = duration.clamp(least, most);
        if nearest != duration {
            let what = format!("{} is written, the nearest to {text} that there is", written(nearest));
            self.note(name, Approximated, &what);
        }
        Some(nearest)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::note::Fate;
    use crate::{Imported, ghostunnel};

    fn imported(flags: &str) -> Imported {
        let usual = "server --listen=127.0.0.1:1 --target=127.0.0.1:2 --cert=a.pem --disable-authentication";
        let arguments: Vec<_> = usual.split(' ').chain(flags.split_whitespace()).map(str::to_owned).collect();
        ghostunnel(&arguments, Path::new("")).expect("ghostunnel takes it")
    }

    fn lines(flags: &str) -> Vec<String> {
        let all = imported(flags).config;
        let keys = [
            "watch-interval",
            "drain",
            "connect",
            "handshake",
            "half-closed-client",
            "half-closed",
            "idle",
            "lifetime",
        ];
        let is_limit = |line: &&str| keys.iter().any(|key| line.starts_with(&format!("{key} = ")));
        all.lines().filter(is_limit).map(str::to_owned).collect()
    }

    #[test]
    fn its_own_defaults_are_written() {
        let limits = [
            "connect = \"10s\"",
            "handshake = \"20s\"",
            "half-closed-client = \"10s\"",
            "half-closed = \"10s\"",
            "idle = \"none\"",
        ];
        assert_eq!(lines(""), [&["drain = \"5m\""], &limits[..]].concat());
        assert_eq!(lines("--timed-reload=0 --max-conn-lifetime=0s"), lines(""));
        assert!(imported("").notes.is_empty());
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let flags = "--connect-timeout=1500ms --close-timeout=1m30s --shutdown-timeout 0 --timed-reload=1.5h --max-conn-lifetime=1h0m0s";
        let expected = [
            "watch-interval = \"1h30m\"",
            "drain = \"0s\"",
            "connect = \"1s500ms\"",
            "handshake = \"3s\"",
            "half-closed-client = \"1m30s\"",
            "half-closed = \"1m30s\"",
            "idle = \"none\"",
            "lifetime = \"1h\"",
        ];
        assert_eq!(lines(flags), expected);
    }

    #[test]
    fn values_out_of_bounds_are_reported() {
        let has_note = |flags: &str, fate: Fate| {
            let notes = imported(flags).notes;
            let found =
                notes.iter().filter(|note| note.fate == fate).map(ToString::to_string).collect::<Vec<_>>();
            found.join("\n")
        };
        assert!(has_note("--timed-reload=1us", Fate::Approximated).contains("100ms is written"));
        assert!(has_note("--connect-timeout=2h", Fate::Approximated).contains("30m is written"));
        assert!(has_note("--shutdown-timeout=48h", Fate::Approximated).contains("1d is written"));
        for wrong in ["--close-timeout=10", "--close-timeout=-1s", "--shutdown-timeout=soon"] {
            assert!(has_note(wrong, Fate::Refused).contains("expected a duration such as 10s"), "{wrong}");
        }
    }
}
