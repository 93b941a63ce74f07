//! The timers as `curl -w` prints them, for scripts that read those. In: a report. Out: lines of `name: seconds`.

use std::fmt::Write;

use crate::report::{Report, Spread};

/// The medians of full connections.
pub fn to_curl(report: &Report) -> String {
    let timers = &report.full.timers;
    let last = timers.total.or(timers.starttransfer).unwrap_or(timers.appconnect);
    let all: [(&str, Spread); 6] = [
        ("time_namelookup", timers.namelookup),
        ("time_connect", timers.connect),
        ("time_appconnect", timers.appconnect),
        ("time_pretransfer", timers.pretransfer.unwrap_or(timers.appconnect)),
        ("time_starttransfer", timers.starttransfer.unwrap_or_default()),
        ("time_total", last),
    ];
    all.iter().fold(String::new(), |mut text, (name, spread)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {:.6}", spread.p50 / 1e3);
        text
    })
}
