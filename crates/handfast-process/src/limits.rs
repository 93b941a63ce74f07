//! How many connections this process can serve with the open files that it may have.

use std::ops::RangeInclusive;

use handfast_net::limits::FileLimit;

use crate::error::Error;
use handfast_config::model::Config;
use handfast_text::units::counted;

/// Descriptors kept for everything but connections (listeners, logs, certificates being read, admin): an eighth, within these bounds.
const RESERVED_FILES: RangeInclusive<u64> = 40..=128;
/// The default of `process.max-connections`, where the limit on open files allows more.
const MAX_CONNECTIONS: usize = 1_000_000;

/// The number of connections that may be served at once: two descriptors each, and some for everything else. `check_slots`: the number of
/// health checks that may run at once, with a descriptor each.
///
/// **Errors**: the limit on open files is too low for the number in the configuration, or for any connection.
pub fn max_connections(config: &Config, limit: FileLimit, check_slots: u32) -> Result<usize, Error> {
    let allowed = limit.now;
    let reserved = (allowed / 8).clamp(*RESERVED_FILES.start(), *RESERVED_FILES.end());
    let is_checked = config.services.iter().any(|service| service.check.is_some());
    let reserved = reserved + if is_checked { u64::from(check_slots) } else { 0 };
    let possible = usize::try_from(allowed.saturating_sub(reserved) / 2).unwrap_or(usize::MAX);
    if possible == 0 {
        return Err(Error::TooFewFiles { allowed, reserved });
    }
    match config.process.max_connections {
        Some(wanted) if wanted > possible => {
            Err(Error::TooManyConnections { wanted, possible, allowed, reserved })
        }
        Some(wanted) => Ok(wanted),
        None => Ok(possible.min(MAX_CONNECTIONS)),
    }
}

/// Logs how many connections there may be, and why.
pub fn log_limits(limit: FileLimit, max_connections: usize, threads: usize) {
    let raised =
        if limit.now == limit.before { String::new() } else { format!(" (raised from {})", limit.before) };
    tracing::info!(
        "up to {}: {} allowed{raised}, {}",
        counted(max_connections as u64, "connection"),
        counted(limit.now, "open file"),
        counted(threads as u64, "worker thread")
    );
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn connections(now: u64, wanted: Option<usize>) -> Result<usize, String> {
        let mut config = Config::embedded(PathBuf::from("ca.pem"));
        config.process.max_connections = wanted;
        max_connections(&config, FileLimit { before: now, now }, 64).map_err(|error| error.to_string())
    }

    #[test]
    fn an_eighth_of_the_files_is_kept_but_neither_less_than_40_nor_more_than_128() {
        assert_eq!(connections(240, None), Ok(100), "40 of 240");
        assert_eq!(connections(800, None), Ok(350), "100 of 800");
        assert_eq!(connections(65_536, None), Ok(32_704), "128 of 65536");
        assert_eq!(connections(u64::MAX, None), Ok(MAX_CONNECTIONS));
    }

    #[test]
    fn a_number_that_is_too_high_is_refused_with_the_highest_possible() {
        assert_eq!(connections(240, Some(100)), Ok(100));
        let refused = connections(240, Some(101)).expect_err("242 files are needed");
        assert!(refused.starts_with(
            "process.max-connections: 242 open files are needed for 101 connections, this process may have 240\n"
        ));
        assert!(refused.ends_with("set max-connections to 100 or less"), "{refused}");
        let refused = connections(41, None).expect_err("not even one");
        assert!(refused.starts_with("this process may have 41 open files, it needs 40 and two for each"));
    }
}
