//! `--watch` for programs: each round of measurements as one line of JSON. Published in `docs/reference/probe-watch.schema.json`: a change
//! that programs notice is another [`SCHEMA`].
//!
//! In: what was measured of each target. Out: a line. **Units**: milliseconds; each figure is of one connection of its kind.

pub use handfast_report::to_line;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ProbeError;
use crate::report::{LimitReport, Report};

/// Name and version of the format.
pub const SCHEMA: &str = "handfast-probe-watch/1";

/// All targets, measured once.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Round {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Its number; the first one is 1.
    pub round: u64,
    /// Time at which its last target was measured (UTC).
    pub ended: String,
    /// Each target, in the order in which they were given.
    pub targets: Vec<Sample>,
}

/// One target.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Sample {
    /// As it was given, with the port.
    pub target: String,
    /// Reason why it could not be measured; then all other fields are absent.
    pub error: Option<ProbeError>,
    /// The address that was measured.
    pub address: Option<String>,
    /// The version agreed on.
    pub version: Option<&'static str>,
    /// curl's `time_namelookup`, `time_connect` and `time_appconnect`, of a full handshake.
    pub namelookup_ms: Option<f64>,
    /// To the end of connect.
    pub connect_ms: Option<f64>,
    /// To the end of the handshake.
    pub appconnect_ms: Option<f64>,
    /// The same of a resumed handshake; `null` where none was possible.
    pub resumed_appconnect_ms: Option<f64>,
    /// The round trip of the network.
    pub rtt_ms: Option<f64>,
    /// Time for which the server was busy in the full handshake.
    pub server_ms: Option<f64>,
    /// Round trips of the full handshake.
    pub round_trips: Option<u32>,
    /// True if the certificate is trusted; `null`: not verified.
    pub trusted: Option<bool>,
    /// Bounds of `--max`.
    pub limits: Vec<LimitReport>,
}

impl Sample {
    /// Summarizes the measurement of a target.
    pub fn of(target: &str, outcome: Result<&Report, &ProbeError>) -> Self {
        let target = target.to_owned();
        let report = match outcome {
            Ok(report) => report,
            Err(error) => return Self { target, error: Some(error.clone()), ..Self::default() },
        };
        let full = &report.full;
        Self {
            target,
            error: None,
            address: Some(report.target.address.clone()),
            version: report.agreed.version,
            namelookup_ms: Some(full.timers.namelookup.p50),
            connect_ms: Some(full.timers.connect.p50),
            appconnect_ms: Some(full.timers.appconnect.p50),
            resumed_appconnect_ms: report.resumed.as_ref().map(|resumed| resumed.timers.appconnect.p50),
            rtt_ms: Some(report.rtt_ms.p50),
            server_ms: Some(full.server_ms.p50),
            round_trips: Some(full.round_trips.handshake),
            trusted: report.certificates.trusted,
            limits: report.limits.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::advice::tests::sample;
    use crate::error::Step;
    use crate::report::tests::faults;

    #[test]
    fn the_published_schema_describes_it() {
        let schema = include_str!("../../../docs/reference/probe-watch.schema.json");
        let error =
            ProbeError::new(Step::Connect, "refused", "connect: refused").hint("nothing listens there");
        let targets = vec![
            Sample::of("a:443", Ok(&sample())),
            Sample::of("b:443", Err(&error)),
            Sample::of("c:443", Ok(&Report { resumed: None, ..sample() })),
        ];
        let round = Round { schema: SCHEMA, round: 1, ended: "2026-11-23T04:00:00Z".into(), targets };
        let line = to_line(&round);
        assert_eq!(line.lines().count(), 1);
        let mut value: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(faults(&value, schema), [""; 0]);
        assert_eq!(
            (&value["targets"][0]["appconnect_ms"], &value["targets"][1]["appconnect_ms"]),
            (&91.7.into(), &Value::Null)
        );
        // The check itself can fail.
        value["schema"] = "handfast-probe-watch/2".into();
        value["targets"][0]["target"] = 1.into();
        value["targets"][1].as_object_mut().expect("an object").remove("error");
        assert_eq!(faults(&value, schema).len(), 3);
    }
}
