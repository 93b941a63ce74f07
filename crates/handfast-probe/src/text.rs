//! The report for a person at a terminal: one screen, of 80 columns or more. In: a report, columns, whether colours. Out: text.

mod both_ends;
pub(crate) mod page;
mod summary;

use std::fmt::Write;

use handfast_text::units::{self, plain};

use crate::report::{Note, Party, Report, Spread};
use crate::rows;

pub use page::Style;
use page::{Page, ms};
pub use summary::to_summary;

/// The whole text.
pub fn to_text(report: &Report, style: Style) -> String {
    let mut page = Page::new(style);
    page.head(report);
    page.beside(|page| page.timers(rows::timers(report)), |page| page.fall(report));
    let wide = page.is_wide();
    if wide {
        let left = |page: &mut Page| {
            page.parts(report);
            page.resumed(report);
        };
        let right = |page: &mut Page| {
            page.bytes(report);
            page.page_model(report);
        };
        page.beside(left, right);
    } else {
        page.parts(report);
        page.bytes(report);
        page.resumed(report);
        page.page_model(report);
    }
    page.addresses(report);
    both_ends::show(report, &mut page);
    page.packets(report);
    page.advice(report);
    page.notes(report);
    page.limits(report);
    page.text
}

fn cell(spread: Option<Spread>, figure: fn(&Spread) -> f64) -> String {
    spread.filter(|spread| spread.count > 0).map_or("–".into(), |spread| ms(figure(&spread)))
}

fn number(count: usize) -> String {
    units::count(count as u64)
}

impl Page {
    fn target(&mut self, report: &Report) {
        let target = &report.target;
        let others = match report.addresses.len() {
            0 | 1 => String::new(),
            all => format!(" (1 of {all} addresses)"),
        };
        let name = self.paint("1", &plain(&target.name));
        let starttls =
            target.starttls.map(|protocol| format!(", STARTTLS of {protocol}")).unwrap_or_default();
        self.line(&format!("{name} → {}{others}{starttls}", target.address));
    }

    fn head(&mut self, report: &Report) {
        self.target(report);
        self.wrapped(&rows::agreed(report).join(" · "), "", 0);
        self.line(&rows::connections(report));
        for failed in &report.failures {
            let what = self.paint("31", &format!("{} × {}", failed.count, plain(&failed.error.what)));
            self.line(&what);
        }
    }

    fn timers(&mut self, timers: impl IntoIterator<Item = rows::Timer>) {
        let (label, cells, last, head) =
            if self.is_part() { (18, 8, 9, "resumed") } else { (20, 10, 14, "resumed p50") };
        self.line("");
        self.line(&format!(
            "{:<label$}{:>cells$}{:>cells$}{head:>last$}  {}",
            "", "p50", "p95", "round trips"
        ));
        for row in timers {
            let better = row.could_be.map(|least| self.paint("33", &format!(" ◄ could be {least}")));
            let line = format!(
                "{:<label$}{:>cells$}{:>cells$}{:>last$}  {}{}",
                row.name,
                cell(Some(row.full), |spread| spread.p50),
                cell(Some(row.full), |spread| spread.p95),
                cell(row.resumed, |spread| spread.p50),
                row.trips,
                better.unwrap_or_default()
            );
            self.line(&line);
        }
    }

    /// The median connection, a row for each step.
    fn fall(&mut self, report: &Report) {
        let end = report.waterfall.iter().map(|span| span.to_ms).fold(0.0, f64::max);
        if end <= 0.0 {
            return;
        }
        self.title("One full connection, the median");
        let mut rows: Vec<&str> = report.waterfall.iter().map(|span| span.row).collect();
        rows.dedup();
        let label = 1 + rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let width = self.columns - label - 2;
        let place = |at: f64| ((at / end * width as f64).round() as usize).min(width);
        for row in rows {
            let mut cells = vec![(' ', None); width];
            for span in report.waterfall.iter().filter(|span| span.row == row) {
                let (from, to) = (place(span.from_ms), place(span.to_ms));
                let (sign, color) = match span.who {
                    Party::Network => ('█', "34"),
                    Party::Server => ('▓', "33"),
                    Party::Client => ('▒', "36"),
                };
                // A part too short for a column gets one if no longer part is there.
                let to = to.max(from + usize::from(cells.get(from).is_some_and(|cell| cell.0 == ' ')));
                cells[from..to.min(width)].fill((sign, Some(color)));
            }
            let mut line = format!("  {row:<label$}");
            for chunk in cells.chunk_by(|one, other| one.1 == other.1) {
                let text: String = chunk.iter().map(|cell| cell.0).collect();
                line.push_str(&chunk[0].1.map_or_else(|| text.clone(), |code| self.paint(code, &text)));
            }
            self.line(&line);
        }
        let (left, right) = ("0".to_owned(), ms(end));
        let key = "█ network  ▓ server  ▒ this program";
        let room = width.saturating_sub(left.len() + right.chars().count() + key.chars().count());
        let (before, after) = (" ".repeat(room / 2), " ".repeat(room - room / 2));
        self.line(&format!("  {:<label$}{left}{before}{key}{after}{right}", ""));
    }

    fn parts(&mut self, report: &Report) {
        let (label, cells, shares) = if self.is_part() { (43, 8, 7) } else { (44, 10, 8) };
        self.title(&format!("Where {} of handshake go", ms(report.full.handshake_ms.p50)));
        for part in rows::parts(report) {
            let share = units::share(part.share);
            self.line(&format!("  {:<label$}{:>cells$}{share:>shares$}", part.what, ms(part.ms)));
        }
        if let Some(request) = rows::request(report) {
            self.wrapped(&request, "  ", 2);
        }
    }

    fn bytes(&mut self, report: &Report) {
        let (label, cells) = if self.is_part() { (17, 8) } else { (20, 10) };
        self.title("Bytes on the wire");
        for row in rows::bytes(report) {
            let first = format!("  {:<label$}{:>cells$} B  ", row.what, number(row.bytes));
            self.wrapped(&row.more, &first, first.chars().count());
        }
        self.wrapped(&rows::window(report), "  ", 2);
    }

    /// The packets of the median connection, where they were captured.
    fn packets(&mut self, report: &Report) {
        /// Number of packets that fit a screen; JSON has them all.
        const MAX_PACKETS: usize = 40;
        let Some(wire) = &report.wire else { return };
        self.title("Packets of the median connection, as captured");
        for packet in wire.packets.iter().take(MAX_PACKETS) {
            let way = if packet.from == "client" { "→" } else { "←" };
            let bytes =
                if packet.bytes > 0 { format!("{} B", number(packet.bytes as usize)) } else { String::new() };
            let line = format!(
                "  {:>9}  {way} {:<8}{bytes:>10}  {}",
                ms(packet.at_ms),
                packet.flags.join(" "),
                packet.what.join(", ")
            );
            self.line(&line);
        }
        let more = wire.packets.len().saturating_sub(MAX_PACKETS);
        if more > 0 {
            self.line(&format!("  … and {} (--json has them all)", units::counted(more as u64, "packet")));
        }
        if wire.missed > 0 {
            let missed = units::counted(wire.missed, "packet");
            self.line(&format!("  {missed} of all connections found no room"));
        }
    }

    fn resumed(&mut self, report: &Report) {
        let (title, lines) = rows::resumed(report);
        self.title(&title);
        lines.iter().for_each(|line| self.wrapped(line, "  ", 2));
    }

    fn addresses(&mut self, report: &Report) {
        if report.addresses.len() < 2 {
            return;
        }
        self.title("Addresses: connect, and with the handshake");
        for one in &report.addresses {
            let time = |ms_: Option<f64>| ms_.map_or("–".into(), ms);
            let first =
                format!("  {:<26}{:>9}{:>9}  ", one.address, time(one.connect_ms), time(one.appconnect_ms));
            self.wrapped(&rows::address(one), &first, first.chars().count());
        }
    }

    fn page_model(&mut self, report: &Report) {
        let Some(page) = &report.page else { return };
        self.title(&format!("A page of {} × {}, computed", page.resources, units::bytes(page.bytes)));
        let (label, cells, trips) = if self.is_part() { (31, 8, "trips") } else { (36, 10, "round trips") };
        for way in &page.ways {
            self.line(&format!("  {:<label$}{:>cells$}{:>5} {trips}", way.way, ms(way.ms), way.round_trips));
        }
    }

    fn advice(&mut self, report: &Report) {
        if report.advice.is_empty() {
            self.title("Nothing to change that would save time");
            return;
        }
        self.title("What to change, by gain");
        for (place, advice) in report.advice.iter().enumerate() {
            let saves = format!("−{}", ms(advice.saves_ms));
            let first = format!("{:>2}  {saves:<9} ", place + 1);
            self.wrapped(&plain(&advice.what), &first, 14);
            self.wrapped(
                &format!("seen: {}; more: handfast explain {}", plain(&advice.evidence), advice.topic),
                &" ".repeat(14),
                14,
            );
        }
    }

    /// Good notes on the left, others on the right, if there is room.
    fn notes(&mut self, report: &Report) {
        if !self.is_wide() {
            self.line("");
            report.notes.iter().for_each(|note| self.note(note));
            return;
        }
        let of = |good: bool| {
            move |page: &mut Self| {
                page.line("");
                report.notes.iter().filter(|note| note.good == good).for_each(|note| page.note(note));
            }
        };
        self.beside(of(true), of(false));
    }

    fn note(&mut self, note: &Note) {
        let (sign, code) = if note.good { ("✓", "32") } else { ("⚠", "33") };
        // The sign is coloured after lines are wrapped, since wrapping counts columns.
        let from = self.text.len();
        self.wrapped(&plain(&note.what), &format!("{sign} "), 2);
        let painted = self.paint(code, sign);
        self.text.replace_range(from..from + sign.len(), &painted);
    }

    fn limits(&mut self, report: &Report) {
        for limit in &report.limits {
            let found = limit.found_ms.map_or("no such figure".into(), ms);
            let (word, code) = if limit.held { ("held", "32") } else { ("missed", "31") };
            let word = self.paint(code, word);
            self.line(&format!("limit {}: {word}, {found}", plain(&limit.bound)));
        }
    }
}

/// One line for a target of many.
pub fn to_line(report: &Report) -> String {
    let mut line = String::new();
    let full = &report.full;
    // Writing to a string does not fail.
    let _ = write!(
        line,
        "{:<32} {:>9} {:>9} {:>9}  {} + {}  {}",
        plain(&report.target.name),
        ms(full.timers.connect.p50),
        ms(full.timers.appconnect.p50),
        ms(full.server_ms.p50),
        full.round_trips.connect,
        full.round_trips.handshake,
        report.agreed.version.unwrap_or("–"),
    );
    line
}

/// The heading over [`to_line`]'s lines.
pub fn line_head() -> String {
    format!("{:<32} {:>9} {:>9} {:>9}  {}", "target", "connect", "appconn.", "server", "round trips, TLS")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::tests::sample;

    #[test]
    fn every_line_fits_the_screen_it_is_for() {
        for columns in [80, 120] {
            let text = to_text(&sample(), Style { color: false, columns });
            let long = text.lines().find(|line| line.chars().count() > columns);
            assert_eq!(long, None, "{columns}\n{text}");
            assert!(text.contains("2 ◄ could be 1") && text.contains("window full"), "{text}");
            assert!(text.contains("ServerHello, ChangeCipherSpec, encrypted"), "{text}");
        }
        let painted = to_text(&sample(), Style { color: true, columns: 80 });
        assert!(painted.contains("\u{1b}[32m✓\u{1b}[0m"), "{painted}");
    }
}
