//! A report for a person at a terminal: findings first, then facts, then what could not be examined.
//!
//! In: a report, the terminal's columns. Out: text with lines of that width; only long words and commands exceed it. Or one screen with what
//! matters most.

use handfast_text::units::{counted, plain};
use handfast_text::wrap::{SCREEN, SCREEN_COLUMNS, in_lines, wrapped};

use crate::report::{Finding, Report, Severity};

/// The narrowest width that text wraps well in, and the widest that is easy to read.
const WIDTHS: (usize, usize) = (40, 110);
/// Columns of the names in front of sentences.
const NAME: usize = 16;

/// The style of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// True to show severities in color.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
}

/// The whole report.
pub fn to_text(report: &Report, style: Style) -> String {
    let width = style.width.clamp(WIDTHS.0, WIDTHS.1);
    let mut page = Page { text: String::new(), style, width };
    page.wrapped("", &headline(report));
    for (index, finding) in report.findings.iter().enumerate() {
        page.finding(index + 1, finding);
    }
    if !report.facts.is_empty() {
        page.title("What is here");
        for fact in &report.facts {
            page.named(fact.name, &fact.value);
        }
    }
    if !report.unseen.is_empty() {
        page.title("Not seen");
        for unseen in &report.unseen {
            page.wrapped("  - ", &format!("{}: {}", unseen.what, unseen.why));
        }
    }
    page.text
}

/// Findings on one screen.
const MAX_FINDINGS: usize = 3;

/// Summarizes a report for most readers, in at most 24 lines of 80 columns; [`to_text`] has everything.
pub fn to_summary(report: &Report, style: Style) -> String {
    let width = style.width.clamp(WIDTHS.0, SCREEN_COLUMNS);
    let mut page = Page { text: String::new(), style, width };
    page.wrapped("", &headline(report));
    let finding = |(place, finding): (usize, &Finding)| {
        let change =
            finding.change.first().map(|change| format!(". To change it: {change}")).unwrap_or_default();
        let first = format!("{:>2}  {}: ", place + 1, finding.severity.name());
        (first, format!("{}{change}", finding.title))
    };
    let findings: Vec<_> = report.findings.iter().take(MAX_FINDINGS).enumerate().map(finding).collect();
    // A blank line before them, and the last line.
    let room = SCREEN.saturating_sub(page.text.lines().count() + 2);
    if !findings.is_empty() {
        page.line("");
        in_lines(&findings, "    ", width, room).iter().for_each(|line| page.line(line));
    }
    let facts = page.facts_that_fit(report);
    let left = [
        (report.findings.len() - findings.len(), "finding"),
        (report.facts.len() - facts, "fact"),
        (report.unseen.len(), "unexamined thing"),
    ];
    let left: Vec<_> = left.iter().filter(|(count, _)| *count > 0).collect();
    let left: Vec<_> = left.iter().map(|(count, what)| counted(*count as u64, what)).collect();
    if !left.is_empty() {
        page.line(&format!("and {} (-v)", left.join(", ")));
    }
    page.text
}

fn headline(report: &Report) -> String {
    let counts = |severity| report.count(severity);
    let found = match (counts(Severity::Critical), counts(Severity::Warning)) {
        (0, 0) => "no findings".to_owned(),
        (critical, warnings) => format!(
            "{} ({critical} critical, {})",
            counted((critical + warnings) as u64, "finding"),
            counted(warnings as u64, "warning")
        ),
    };
    format!("{found}: {}", report.subject)
}

struct Page {
    text: String,
    style: Style,
    width: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn title(&mut self, title: &str) {
        let title = if self.style.color { format!("\u{1b}[1m{title}\u{1b}[0m") } else { title.to_owned() };
        self.line(&format!("\n{title}"));
    }

    fn finding(&mut self, number: usize, finding: &Finding) {
        let name = finding.severity.name();
        let word = match (self.style.color, finding.severity) {
            (false, _) => name.to_owned(),
            (true, Severity::Critical) => format!("\u{1b}[1;31m{name}\u{1b}[0m"),
            (true, Severity::Warning) => format!("\u{1b}[1;33m{name}\u{1b}[0m"),
        };
        let before = self.text.len();
        self.text.push('\n');
        self.wrapped(&format!("{number:>2}  {name}: "), &finding.title);
        // Colors have no width, so they come in after the wrapping.
        let colored = self.text[before..].replacen(name, &word, 1);
        self.text.truncate(before);
        self.text.push_str(&colored);
        if !finding.arithmetic.is_empty() {
            self.named("  arithmetic", &finding.arithmetic);
        }
        if !finding.consequence.is_empty() {
            self.named("  consequence", &finding.consequence);
        }
        for (index, command) in finding.change.iter().enumerate() {
            let name = if index == 0 { "  to change it" } else { "" };
            match is_command(command) {
                // Commands stay whole, so that they can be copied.
                true => self.line(&format!("  {name:<NAME$}{}", plain(command))),
                false => self.named(name, command),
            }
        }
    }

    /// The first facts, as many as leave a line for the last one; the number of them.
    fn facts_that_fit(&mut self, report: &Report) -> usize {
        for (place, fact) in report.facts.iter().enumerate() {
            let kept = self.text.len();
            if place == 0 {
                self.title("What is here");
            }
            self.named(fact.name, &fact.value);
            if self.text.lines().count() >= SCREEN {
                self.text.truncate(kept);
                return place;
            }
        }
        report.facts.len()
    }

    fn named(&mut self, name: &str, sentence: &str) {
        self.wrapped(&format!("  {name:<NAME$}"), sentence);
    }

    /// A sentence within the width; further lines are indented to its first word, at most 18 columns.
    fn wrapped(&mut self, first: &str, sentence: &str) {
        let rest = " ".repeat(handfast_text::table::width(first).min(NAME + 2));
        wrapped(first, &rest, sentence, self.width).iter().for_each(|line| self.line(line));
    }
}

/// Returns true if these words are for a shell.
fn is_command(words: &str) -> bool {
    const PROGRAMS: [&str; 13] = [
        "cat", "chmod", "chronyc", "dmesg", "echo", "handfast", "iconv", "openssl", "perf", "prlimit",
        "strace", "sysctl", "ulimit",
    ];
    words.split(' ').next().is_some_and(|first| PROGRAMS.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("handfast", String::new(), "web-7".to_owned());
        let title = "source ports to 10.0.0.7:443 run out: 27,001 of 28,232 in use";
        let consequence = "connections to it fail with EADDRNOTAVAIL, \"cannot assign requested address\"";
        report.find(
            Finding::critical("source-ports", title, consequence)
                .because("27,001 = 1 open + 27,000 in TIME_WAIT".to_owned())
                .change("sysctl -w net.ipv4.tcp_tw_reuse=1")
                .change("sysctl -w net.ipv4.ip_local_port_range='1024 65535'"),
        );
        report.fact("source ports", "28,232");
        report.not_seen("conntrack", "no /proc/sys/net/netfilter here");
        report
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        let narrow = to_text(&report(), Style { color: false, width: 50 });
        assert!(
            narrow.contains("sysctl -w net.ipv4.ip_local_port_range='1024 65535'\n"),
            "a command stays whole: {narrow}"
        );
        for width in [80, 120] {
            let text = to_text(&report(), Style { color: false, width });
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|longest| longest <= width), "{width}: {text}");
            assert!(
                text.starts_with("1 finding (1 critical, 0 warnings): web-7\n\n 1  critical: source ports")
            );
            assert!(text.contains("    to change it  sysctl -w net.ipv4.tcp_tw_reuse=1\n"), "{text}");
        }
    }

    #[test]
    fn one_screen_has_the_worst_and_the_rest_is_counted() {
        let mut all = report();
        for number in 0..20 {
            let title = format!("finding {number}: {}", "words of some length ".repeat(number));
            all.find(
                Finding::warning("files", title, "it fails").change("sysctl -w fs.file-max=1".repeat(number)),
            );
            all.fact("files", "words of some length ".repeat(number));
        }
        let text = to_summary(&all, Style { color: false, width: 200 });
        assert!(text.lines().count() <= SCREEN, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= SCREEN_COLUMNS), "{text}");
        assert!(
            text.contains(" 1  critical: source ports") && text.contains("To change it: sysctl -w"),
            "{text}"
        );
        assert!(text.contains(" 3  warning: finding 1") && !text.contains("finding 2"), "{text}");
        assert!(text.contains("\nand 18 findings, ") && text.contains("(-v)"), "{text}");
        let whole = to_text(&all, Style { color: false, width: 80 });
        assert!((0..20).all(|number| whole.contains(&format!("finding {number}:"))), "{whole}");
    }

    #[test]
    fn colors_change_no_letter() {
        let plain = to_text(&report(), Style { color: false, width: 80 });
        let colored = to_text(&report(), Style { color: true, width: 80 });
        let mut stripped = colored.clone();
        for code in ["\u{1b}[1;31m", "\u{1b}[1m", "\u{1b}[0m"] {
            stripped = stripped.replace(code, "");
        }
        assert!(colored.contains("\u{1b}[1;31mcritical"), "{colored:?}");
        assert_eq!(stripped, plain);
    }

    #[test]
    fn nothing_found_is_reported() {
        let report = Report::new("handfast", String::new(), "web-7".to_owned());
        assert_eq!(to_text(&report, Style { color: false, width: 80 }), "no findings: web-7\n");
    }
}
