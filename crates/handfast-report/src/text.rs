//! The report for a person at a terminal: the verdict first, then its evidence, then everything else; or all that matters on one screen.
//!
//! In: a report, and how it may look. Out: lines that are wrapped at the terminal's width, and nowhere in a pipe. Text that came
//! from peers is made harmless on the way.

mod summary;
mod tables;

#[cfg(test)]
mod tests;

use handfast_text::table::{padded, width};
use handfast_text::wrap::wrapped;

use crate::model::{Report, VerdictWord};
use crate::units::{bytes, nanos, plain};
use crate::words;

pub use summary::to_summary;

/// Longest rule beside the verdict.
const RULE: usize = 100;
/// The same where there is no terminal.
const RULE_IN_A_PIPE: usize = 72;

/// Style of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// True to use ANSI colours: a terminal, and no NO_COLOR.
    pub color: bool,
    /// The terminal's columns, at which sentences are wrapped; `None`: nowhere, as in a pipe. A row of a table stays whole, and so
    /// does the command, which is to be pasted.
    pub columns: Option<usize>,
}

/// The whole report.
pub fn to_text(report: &Report, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    verdict(report, &mut page);
    if !report.verdict.evidence.is_empty() {
        page.section("Why");
        page.bullets(&report.verdict.evidence);
    }
    page.section("What was done");
    page.pairs(&words::done(report));
    tables::latencies(report, &mut page);
    rates(report, &mut page);
    tables::mix(report, &mut page);
    tables::members(report, &mut page);
    tables::requests(report, &mut page);
    tables::errors(report, &mut page);
    tables::limits(report, &mut page);
    tables::search(report, &mut page);
    generator(report, &mut page);
    server(report, &mut page);
    tables::both_ends(report, &mut page);
    if !report.notes.is_empty() {
        page.section("Notes");
        page.bullets(&report.notes);
    }
    repeat(report, &mut page);
    last(report, &mut page);
    page.text
}

/// Colours by what they mean.
#[derive(Clone, Copy)]
enum Ink {
    Good,
    Bad,
    Warn,
    Strong,
    Faint,
}

/// Text so far, and its style.
struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn ink(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Good => "1;32",
            Ink::Bad => "1;31",
            Ink::Warn => "1;33",
            Ink::Strong => "1",
            Ink::Faint => "2",
        };
        if self.style.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn lines(&self) -> usize {
        self.text.lines().count()
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn section(&mut self, title: &str) {
        let title = self.ink(Ink::Strong, title);
        self.line("");
        self.line(&title);
    }

    /// Words with their sentences, in two columns.
    fn pairs<K: AsRef<str>>(&mut self, pairs: &[(K, String)]) {
        let widest = pairs.iter().map(|(word, _)| width(word.as_ref())).max().unwrap_or(0);
        for (word, sentence) in pairs {
            let first = format!("  {}  ", padded(word.as_ref(), widest, false));
            self.wrapped(&first, &" ".repeat(widest + 4), sentence);
        }
    }

    fn bullets<T: AsRef<str>>(&mut self, sentences: &[T]) {
        for sentence in sentences {
            self.wrapped("  - ", "    ", sentence.as_ref());
        }
    }

    /// An explanation that may be skipped, within the width.
    fn faint(&mut self, first: &str, sentence: &str) {
        let (rest, columns) = (" ".repeat(width(first)), self.style.columns.unwrap_or(usize::MAX));
        for line in wrapped(first, &rest, sentence, columns) {
            let line = self.ink(Ink::Faint, &line);
            self.line(&line);
        }
    }

    /// One sentence within the width; its lines begin with `first`, then with `rest`.
    fn wrapped(&mut self, first: &str, rest: &str, sentence: &str) {
        let width = self.style.columns.unwrap_or(usize::MAX);
        wrapped(first, rest, sentence, width).iter().for_each(|line| self.line(line));
    }
}

/// The word between two rules, what it means, and the result.
fn verdict(report: &Report, page: &mut Page) {
    let word = report.verdict.word;
    let ink = ink_of(word);
    let rule =
        page.ink(ink, &"━".repeat(page.style.columns.map_or(RULE_IN_A_PIPE, |columns| columns.min(RULE))));
    let name = page.ink(ink, word.name());
    page.line(&rule);
    page.line(&format!("  {name}"));
    if let Some(search) = &report.search {
        page.wrapped("  ", "  ", &words::search_result(search));
    }
    page.wrapped("  ", "  ", words::meaning(report));
    page.line(&rule);
    page.line("");
    for part in words::headline(report) {
        page.wrapped("  ", "  ", &part);
    }
    if let Some(missed) = words::missed(report) {
        let text = page.ink(Ink::Bad, &format!("{missed} (below)."));
        page.line(&format!("  {text}"));
    }
}

const fn ink_of(word: VerdictWord) -> Ink {
    match word {
        VerdictWord::Valid => Ink::Good,
        VerdictWord::TargetLimited => Ink::Warn,
        _ => Ink::Bad,
    }
}

/// The verdict again, in one line: the first lines have scrolled away on a terminal, the last one has not.
fn last(report: &Report, page: &mut Page) {
    let word = report.verdict.word;
    let columns = page.style.columns.unwrap_or(usize::MAX);
    page.line("");
    for line in wrapped("", "  ", &words::in_a_line(report), columns) {
        let line = match line.strip_prefix(word.name()) {
            Some(rest) => format!("{}{rest}", page.ink(ink_of(word), word.name())),
            None => line,
        };
        page.line(&line);
    }
}

fn rates(report: &Report, page: &mut Page) {
    page.section("Rates and counts");
    page.pairs(&words::counts(report));
}

fn generator(report: &Report, page: &mut Page) {
    let mut lines = words::health(report);
    if let Some(ports) = &report.ports {
        lines.push(format!("ports: {}", ports.sentence));
    }
    let moved: Vec<_> = report.kernel.iter().filter(|(_, value)| **value != 0).collect();
    if !moved.is_empty() {
        let each = moved.iter().take(12).map(|(name, value)| format!("{name} {value:+}"));
        lines.push(format!("kernel counters that moved: {}", each.collect::<Vec<_>>().join(", ")));
    }
    if !lines.is_empty() {
        page.section("The load generator");
        page.bullets(&lines);
    }
}

fn server(report: &Report, page: &mut Page) {
    let Some(server) = &report.server else { return };
    page.section("The server's processes");
    let each = nanos(server.cpu_ns_per_transaction.max(0.0) as u64);
    page.wrapped(
        "  ",
        "  ",
        &format!(
            "{}: {:.1} s of CPU, {each} for each transaction, {} of memory at most",
            server.who,
            server.cpu_seconds,
            bytes(server.resident_bytes)
        ),
    );
}

fn repeat(report: &Report, page: &mut Page) {
    if report.manifest.command.is_empty() {
        return;
    }
    page.section("To repeat it");
    page.line(&format!("  {}", plain(&words::again(report))));
    let (program, started) = (&report.manifest.program, &report.manifest.started);
    page.wrapped("  ", "  ", &format!("This one was run by {program} at {started}."));
}
