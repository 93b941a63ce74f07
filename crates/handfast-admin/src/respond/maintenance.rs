//! Requests about the maintenance of a service: `?state=on&allow=10.0.0.0/8&retry-after=10m`, `?state=off`.

use std::ops::RangeInclusive;
use std::time::Duration;

use handfast_config::model::Maintenance;
use handfast_net::prefix::PrefixError;
use handfast_text::duration::{DurationError, parse, written};

use super::{decoded, parameter};

const RANGE: RangeInclusive<Duration> = Maintenance::RETRY_AFTER;

/// A request about maintenance that makes no sense.
#[derive(Debug, thiserror::Error)]
pub(super) enum MaintenanceRequestError {
    #[error("the query has no state, or an unknown one; expected ?state=on or ?state=off")]
    State,
    #[error("allow and retry-after go with state=on")]
    OffWithSettings,
    #[error("allow: {0}")]
    Allow(#[from] PrefixError),
    #[error("retry-after: {0}")]
    RetryAfter(#[from] DurationError),
    #[error("retry-after: {} is out of range, expected {} to {}", written(*.0), written(*RANGE.start()), written(*RANGE.end()))]
    Range(Duration),
}

/// Reads the requested maintenance; the inner `None`: none.
pub(super) fn requested(query: Option<&str>) -> Result<Option<Maintenance>, MaintenanceRequestError> {
    let value = |name: &str| parameter(query, name).and_then(decoded);
    let (allow, retry_after) = (value("allow"), value("retry-after"));
    match parameter(query, "state") {
        Some("on") => {}
        Some("off") if allow.is_some() || retry_after.is_some() => {
            return Err(MaintenanceRequestError::OffWithSettings);
        }
        Some("off") => return Ok(None),
        _ => return Err(MaintenanceRequestError::State),
    }
    let allow = allow.unwrap_or_default();
    let allow = allow.split(',').map(str::trim).filter(|prefix| !prefix.is_empty()).map(str::parse);
    let allow = allow.collect::<Result<_, PrefixError>>()?;
    let retry_after = retry_after.as_deref().map(parse).transpose()?;
    let retry_after = retry_after.unwrap_or(Maintenance::DEFAULT_RETRY_AFTER);
    match RANGE.contains(&retry_after) {
        true => Ok(Some(Maintenance { allow, retry_after })),
        false => Err(MaintenanceRequestError::Range(retry_after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_state_and_settings_within_bounds() {
        let read = |query: &str| requested(Some(query)).map_err(|error| error.to_string());
        let good = |allow: &[&str], seconds: u64| {
            let allow = allow.iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
            Ok(Some(Maintenance { allow, retry_after: Duration::from_secs(seconds) }))
        };
        assert_eq!(read("state=on"), good(&[], 300));
        assert_eq!(
            read("state=on&allow=10.0.0.0%2F8,2001:db8::7&retry-after=1h"),
            good(&["10.0.0.0/8", "2001:db8::7"], 3_600)
        );
        assert_eq!(read("state=off"), Ok(None));
        for (query, expected) in [
            ("", "the query has no state, or an unknown one; expected ?state=on or ?state=off"),
            ("state=maybe", "the query has no state, or an unknown one; expected ?state=on or ?state=off"),
            ("state=off&allow=10.0.0.0/8", "allow and retry-after go with state=on"),
            ("state=on&retry-after=0s", "retry-after: 0s is out of range, expected 1s to 1d"),
            ("state=on&retry-after=25h", "retry-after: 1d1h is out of range, expected 1s to 1d"),
            ("state=on&retry-after=5", "retry-after: invalid duration `5`: no unit"),
            ("state=on&allow=10.0.0.0/33", "allow: "),
            ("state=on&allow=localhost", "allow: "),
        ] {
            let problem = read(query).expect_err(query);
            assert!(problem.starts_with(expected), "{query}: {problem}");
        }
        assert!(requested(None).is_err());
    }
}
