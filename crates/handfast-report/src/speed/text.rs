//! The speed report for a person at a terminal: one screen of 100 columns and 50 rows when nothing extra was asked for.
//!
//! In: a report. Out: text, with tables whose columns line up.

use handfast_text::wrap::wrapped;

use super::limit::{compared, limit};
use super::{AllCores, Handshake, Operation, Prediction, SpeedReport, What};
use crate::text::Style;
use crate::units::{count, duration, plain, rate};

/// Columns that no line exceeds where there is no terminal, but for names that are longer.
const WIDTH: usize = 100;

/// The whole report.
pub fn to_text(report: &SpeedReport, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    head(report, &mut page);
    signatures(report, &mut page);
    exchanges(report, &mut page);
    ciphers(report, &mut page);
    handshakes(report, &mut page);
    predictions(report, &mut page);
    if let Some(found) = &report.limit {
        page.lines(&limit(found));
    }
    if let Some(found) = &report.compared {
        page.lines(&compared(found));
    }
    for note in &report.notes {
        page.wrapped("note: ", note);
    }
    page.text
}

struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A table's title and the names of its columns, which belong to the same line.
    fn title(&mut self, title: &str, columns: &str) {
        let bold = if self.style.color { format!("\u{1b}[1m{title}\u{1b}[0m") } else { title.to_owned() };
        self.line(&format!("{bold}{columns}"));
    }

    /// Lines of which the first is a title.
    fn lines(&mut self, lines: &[String]) {
        if let Some((title, rest)) = lines.split_first() {
            self.title(title, "");
            rest.iter().for_each(|line| self.line(line));
        }
    }

    /// A sentence within the width; further lines are indented to its first word.
    fn wrapped(&mut self, first: &str, sentence: &str) {
        let rest = " ".repeat(handfast_text::table::width(first));
        let width = self.style.columns.unwrap_or(WIDTH);
        wrapped(first, &rest, sentence, width).iter().for_each(|line| self.line(line));
    }
}

impl What {
    /// The word for it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Sign => "sign",
            Self::Verify => "verify",
            Self::Share => "key share",
            Self::Agree => "agreement",
            Self::Answer => "key exchange",
            Self::Seal => "encrypt",
            Self::Open => "decrypt",
            Self::Hash => "hash",
        }
    }
}

/// Nanoseconds as microseconds without their unit: `18.0`, `1,204`.
pub(super) fn micros(ns: f64) -> String {
    let micros = ns / 1e3;
    match micros {
        few if few < 9.995 => format!("{few:.2}"),
        some if some < 999.95 => format!("{some:.1}"),
        many => count(many.round() as u64),
    }
}

/// `4.87 GB/s`, `812 MB/s`: decimal, as usual for ciphers.
pub(super) fn bytes_rate(per_second: f64) -> String {
    match per_second {
        many if many >= 0.9995e9 => format!("{:.2} GB/s", many / 1e9),
        some => format!("{:.0} MB/s", some / 1e6),
    }
}

/// Name of a handshake, for people.
pub(super) fn name_of(certificate: Option<&str>, group: &str) -> String {
    match certificate {
        Some(kind) => format!("full {kind} {group}"),
        None => format!("resumed {group}"),
    }
}

fn head(report: &SpeedReport, page: &mut Page) {
    let cores = if report.cores == 1 { "1 core".to_owned() } else { format!("{} cores", report.cores) };
    let cpu = if report.cpu.is_empty() { "an unnamed CPU" } else { &report.cpu };
    page.title(&format!("{}, {cores}", plain(cpu)), &format!("; {}", report.program));
    page.wrapped("  has:   ", &words(report.features_found.iter().map(String::as_str)));
    // Features whose absence has the same cost share one line.
    let mut lacks: Vec<(Vec<&str>, &str)> = Vec::new();
    for missing in &report.features_missing {
        match lacks.iter_mut().find(|(_, cost)| *cost == missing.cost) {
            Some((names, _)) => names.push(&missing.name),
            None => lacks.push((vec![&missing.name], &missing.cost)),
        }
    }
    let lacks: Vec<String> =
        lacks.iter().map(|(names, cost)| format!("{} ({cost})", names.join(", "))).collect();
    page.wrapped("  lacks: ", &words(lacks.iter().map(String::as_str)));
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { "nothing that would help".to_owned() } else { words.join(", ") }
}

/// `all cores` of a table: how many a second, and how many times one core's.
fn on_all(all: Option<AllCores>, show: impl Fn(f64) -> String) -> String {
    all.map_or_else(String::new, |all| format!("{} ({:.2} ×)", show(all.per_second), all.factor))
}

fn percent(spread: f64) -> String {
    format!("{:.1} %", spread * 100.0)
}

fn signatures(report: &SpeedReport, page: &mut Page) {
    let columns = format!(
        "{:>13}{:>11}{:>12}{:>11}{:>8}{:>25}",
        "sign each", "/s", "verify each", "/s", "±", "sign, all cores"
    );
    page.title(&format!("{:<20}", "Signatures"), &columns);
    for sign in report.operations.iter().filter(|row| row.what == What::Sign) {
        let verify = report.operation(What::Verify, &sign.name, None);
        page.line(&format!(
            "  {:<18}{:>13}{:>11}{:>12}{:>11}{:>8}{:>25}",
            sign.name,
            duration(sign.time.ns),
            rate(sign.per_second),
            verify.map_or_else(String::new, |row| duration(row.time.ns)),
            verify.map_or_else(String::new, |row| rate(row.per_second)),
            percent(worst([Some(sign), verify])),
            on_all(sign.all_cores, rate),
        ));
    }
}

/// The largest spread of a line.
fn worst<'a>(rows: impl IntoIterator<Item = Option<&'a Operation>>) -> f64 {
    rows.into_iter().flatten().map(|row| row.time.spread).fold(0.0, f64::max)
}

fn exchanges(report: &SpeedReport, page: &mut Page) {
    let columns = format!(
        "{:>13}{:>11}{:>12}{:>11}{:>8}{:>25}",
        "key share", "agreement", "server's", "/s", "±", "server's, all cores"
    );
    page.title(&format!("{:<20}", "Key exchanges"), &columns);
    for answer in report.operations.iter().filter(|row| row.what == What::Answer) {
        let [share, agree] =
            [What::Share, What::Agree].map(|what| report.operation(what, &answer.name, None));
        let each = |row: Option<&Operation>| row.map_or_else(String::new, |row| duration(row.time.ns));
        page.line(&format!(
            "  {:<18}{:>13}{:>11}{:>12}{:>11}{:>8}{:>25}",
            answer.name,
            each(share),
            each(agree),
            duration(answer.time.ns),
            rate(answer.per_second),
            percent(worst([share, agree, Some(answer)])),
            on_all(answer.all_cores, rate),
        ));
    }
}

fn ciphers(report: &SpeedReport, page: &mut Page) {
    let columns = format!(
        "{:>12}{:>12}{:>12}{:>12}{:>7}{:>25}",
        "encrypt 16K", "decrypt 16K", "encrypt 1K", "decrypt 1K", "±", "encrypt 16K, all cores"
    );
    page.title(&format!("{:<20}", "Ciphers and hash"), &columns);
    let mut names: Vec<&str> = Vec::new();
    for row in report.operations.iter().filter(|row| matches!(row.what, What::Seal | What::Hash)) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    for name in names {
        let row = |what, bytes| report.operation(what, name, Some(bytes));
        let first = |bytes| row(What::Seal, bytes).or_else(|| row(What::Hash, bytes));
        let [big, small] = [16_384, 1_024].map(first);
        let [open_big, open_small] = [16_384, 1_024].map(|bytes| row(What::Open, bytes));
        let speed = |row: Option<&Operation>| {
            let each = |row: &Operation| bytes_rate(row.per_second * f64::from(row.bytes.unwrap_or(0)));
            row.map_or_else(String::new, each)
        };
        page.line(&format!(
            "  {:<18}{:>12}{:>12}{:>12}{:>12}{:>7}{:>25}",
            name,
            speed(big),
            speed(open_big),
            speed(small),
            speed(open_small),
            percent(worst([big, open_big, small, open_small])),
            on_all(big.and_then(|row| row.all_cores), |per_second| bytes_rate(per_second * 16_384.0)),
        ));
    }
}

fn handshakes(report: &SpeedReport, page: &mut Page) {
    if report.handshakes.is_empty() {
        return;
    }
    let columns =
        format!("{:>10}{:>10}{:>12}{:>8}{:>25}", "server", "client", "server/s", "±", "server, all cores");
    page.title(&format!("{:<34}", "TLS 1.3 handshakes in memory"), &columns);
    let line = |row: &Handshake| {
        format!(
            "  {:<32}{:>10}{:>10}{:>12}{:>8}{:>25}",
            name_of(row.certificate.as_deref(), &row.group),
            duration(row.server.ns),
            duration(row.client.ns),
            rate(row.per_second),
            percent(row.server.spread.max(row.client.spread)),
            on_all(row.all_cores, rate),
        )
    };
    report.handshakes.iter().for_each(|row| page.line(&line(row)));
}

fn predictions(report: &SpeedReport, page: &mut Page) {
    if report.predictions.is_empty() && report.bulk.is_empty() {
        return;
    }
    let columns = format!(
        "{:>6} + {:>6} + {:>6} + {:>5} = {:>6}   {:>11}  {:>9}",
        "share", "agree", "sign", "rest", "sum µs", "each core", "in memory"
    );
    page.title(&format!("{:<33}", "Prediction for a server"), &columns);
    let (mut basis, mut file) = (false, None);
    for one in &report.predictions {
        basis |= one.basis;
        if one.file.is_some() && one.file != file {
            page.wrapped("  for ", one.file.as_deref().unwrap_or_default());
        }
        file.clone_from(&one.file);
        page.line(&prediction(one));
    }
    for bulk in &report.bulk {
        page.line(&format!(
            "  bulk {:<19}(decrypt {:.3} + encrypt {:.3}) / 2 = {:.3} ns a byte → {:>10}",
            bulk.name,
            bulk.open_ns,
            bulk.seal_ns,
            bulk.ns,
            bytes_rate(bulk.bytes_per_second)
        ));
    }
    page.wrapped(
        "  ",
        "* the best here. The rest: an Ed25519 handshake without its share, agreement, signature. This is the library alone: \
         sockets and kernel come on top, see --limit.",
    );
    if basis {
        page.wrapped("  ", "= the rest was taken from this row, so it agrees with memory by itself.");
    }
}

/// `full ECDSA-P256 X25519   18.0 +   40.1 +   21.3 +  30.2 =  109.6 →  9,124/s  9,030/s`.
fn prediction(one: &Prediction) -> String {
    let term = |name: &str| one.terms.iter().find(|term| term.name == name).map(|term| micros(term.ns));
    let exchange = match term("key exchange") {
        Some(both) => format!("{both:^15}"),
        None => format!(
            "{:>6} + {:>6}",
            term("key share").unwrap_or_default(),
            term("agreement").unwrap_or_default()
        ),
    };
    let signature = term("signature").unwrap_or_else(|| "–".into());
    let rest = term("the rest").unwrap_or_default();
    let measured = match one.measured_ns {
        Some(_) if one.basis => "=".to_owned(),
        Some(ns) => rate(1e9 / ns),
        None => String::new(),
    };
    let best = if one.best { "* " } else { "  " };
    format!(
        "{best}{:<31}{exchange} + {signature:>6} + {rest:>5} = {:>6} → {:>11}  {measured:>9}",
        one.name,
        micros(one.ns),
        rate(one.per_second),
    )
}
