//! Prints a made-up report, to look at: `cargo run -p handfast-report --example sample -- html > report.html`.
//!
//! In: one word, a format. Out: the report in that format on standard output.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "standard output is what it is for")]

mod made_up;

use handfast_report::compare::{Compared, Sides};
use handfast_report::{Style, csv, hlog, openmetrics, to_html, to_json, to_text};

fn main() {
    let report = made_up::report();
    let name = std::env::args().nth(1).unwrap_or_default();
    let text = match name.as_str() {
        "html" => to_html(&report),
        "json" => to_json(&report),
        "csv" => csv::timeline(&report),
        "latencies" => csv::latencies(&report),
        "openmetrics" => openmetrics::to_openmetrics(&report),
        "hlog" => hlog::to_hlog(&report),

        "compare" => {
            let run = std::slice::from_ref(&report);
            let sides = Sides { a: run, b: run, names: ("before", "after"), across_targets: false };
            Compared::new(sides).text(Some(100))
        }
        "color" => to_text(&report, Style { color: true, columns: Some(100) }),
        _ => to_text(&report, Style::default()),
    };
    print!("{text}");
}
