//! The programs side by side as one page of HTML that needs nothing else.
//!
//! In: a [`Report`]. Out: a table, a cell of which opens to what happened in each mode and the command that plays it again.

use handfast_html::{Table, with_small};
use maud::{Markup, html};

use crate::report::{Experiment, Outcome, Report};
use crate::table::{Cell, Mark, command, rows};
use crate::text::word;

/// The page.
pub fn page(report: &Report) -> String {
    let titles: Vec<&str> = report.programs.iter().map(|program| program.title.as_str()).collect();
    let headings = format!("case|{}", titles.join("|"));
    let mut table = Table::new("Cases and programs", &headings);
    for row in rows(report) {
        let Experiment { case, step, fault, must, .. } = row.case;
        let name = with_small(case, &format!("{step}: {fault}. Must hold: {must}"));
        table.row(std::iter::once(name).chain(row.cells.iter().map(cell)));
    }
    let versions = report.programs.iter().map(|program| (&program.title, &program.version));
    let body = html! { main {
        h1 { "Faults against TLS proxies" }
        p {
            (report.day) ", Linux " (report.kernel) ". A cell opens to what happened in each mode. " b { "Kept" }
            ": everything that can be seen from outside held. " b { "Broken" } ": it did not in at least one mode."
        }
        (handfast_html::card("Versions", "", &handfast_html::pairs(versions)))
        (handfast_html::card("Cases", "", &table.draw()))
    } };
    handfast_html::page("Faults against TLS proxies", None, &body)
}

fn cell(cell: &Cell<'_>) -> Markup {
    let class = match cell.mark() {
        Mark::Kept => "good",
        Mark::Broken => "bad",
        Mark::Unknown => "soon",
        Mark::NotPossible => "soft",
    };
    let words = cell.words().replace("**", "");
    if cell.mark() == Mark::NotPossible {
        return html! { span class=(class) { (words) } };
    }
    html! { details {
        summary class=(class) { (words) }
        @for experiment in &cell.experiments { p {
            b { (experiment.mode) ": " (word(&experiment.outcome)) } " " (why(experiment)) " " code { (command(experiment)) }
        } }
    } }
}

fn why(experiment: &Experiment) -> &str {
    match &experiment.outcome {
        Outcome::Kept => &experiment.figures.happened,
        Outcome::Broken(why) | Outcome::Skipped(why) | Outcome::NotPossible(why) | Outcome::Unknown(why) => {
            why
        }
    }
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
