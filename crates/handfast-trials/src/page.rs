//! The programs side by side as one page of HTML that needs nothing else.
//!
//! In: a [`Report`]. Out: a table, a cell of which opens to what happened in each mode and the command that plays it again.

use std::fmt::Write;

use crate::report::{Experiment, Outcome, Report};
use crate::table::{Cell, Mark, command, rows};
use crate::text::word;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;width:100%}th,td{border:1px solid #ccc;padding:.3em .5em;text-align:left;vertical-align:top}\
thead th{position:sticky;top:0;background:#f4f4f4}.kept{background:#e5f5e5}.broken{background:#fbdcd8}.unknown{background:#fff3c4}\
.not-possible{color:#666}small,code{font-size:.85em}details p{margin:.4em 0}code{overflow-wrap:anywhere}";

/// The page.
pub fn page(report: &Report) -> String {
    let mut text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Faults against TLS proxies</title><style>{STYLE}</style>\n<h1>Faults against TLS proxies</h1>\n\
         <p>{}, Linux {}. A cell opens to what happened in each mode. <b>Kept</b>: everything that can be seen from outside held. \
         <b>Broken</b>: it did not in at least one mode.</p>\n<table><thead><tr><th>case",
        escaped(&report.day),
        escaped(&report.kernel)
    );
    for program in &report.programs {
        let _ =
            write!(text, "<th>{}<br><small>{}</small>", escaped(&program.title), escaped(&program.version));
    }
    text.push_str("</thead><tbody>\n");
    for row in rows(report) {
        let Experiment { case, step, fault, must, .. } = row.case;
        let _ = write!(
            text,
            "<tr><th>{}<br><small>{}: {}. <i>Must hold:</i> {}</small>",
            escaped(case),
            escaped(step),
            escaped(fault),
            escaped(must)
        );
        row.cells.iter().for_each(|one| cell(&mut text, one));
        text.push('\n');
    }
    text.push_str("</tbody></table></html>\n");
    text
}

fn cell(text: &mut String, cell: &Cell<'_>) {
    let class = match cell.mark() {
        Mark::Kept => "kept",
        Mark::Broken => "broken",
        Mark::Unknown => "unknown",
        Mark::NotPossible => "not-possible",
    };
    let words = escaped(&cell.words().replace("**", ""));
    if class == "not-possible" {
        let _ = write!(text, "<td class=\"{class}\">{words}");
        return;
    }
    let _ = write!(text, "<td class=\"{class}\"><details><summary>{words}</summary>");
    for experiment in &cell.experiments {
        let happened = &experiment.figures.happened;
        let why = match &experiment.outcome {
            Outcome::Kept => happened.clone(),
            Outcome::Broken(why)
            | Outcome::Skipped(why)
            | Outcome::NotPossible(why)
            | Outcome::Unknown(why) => why.clone(),
        };
        let _ = write!(
            text,
            "<p><b>{}: {}</b> {}<br><code>{}</code>",
            escaped(&experiment.mode),
            word(&experiment.outcome),
            escaped(&why),
            escaped(&command(experiment))
        );
    }
    text.push_str("</details>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;

    #[test]
    fn what_programs_and_cases_say_is_escaped_and_every_cell_has_its_command() {
        let page = page(&sample());
        assert!(
            page.contains("a &lt;clean&gt; end") && page.contains("the &lt;backend&gt; resets"),
            "{page}"
        );
        assert!(!page.contains("<clean>"), "{page}");
        assert!(page.contains("--proxy hitch --only b --mode terminate&quot;"), "{page}");
        assert!(!page.contains("src=") && !page.contains("href="), "it needs nothing else");
    }
}
