//! The report for a person at a terminal: one screen, of 80 columns or more. In: a report, columns, whether colours. Out: text.

mod both_ends;
pub(crate) mod page;

use std::fmt::Write;

use handfast_text::units::{self, plain};

use crate::report::{Kind, Report, Spread, Who};

pub use page::Style;
use page::{Page, ms};

/// The whole text.
pub fn to_text(report: &Report, style: Style) -> String {
    let mut page = Page::new(style);
    page.head(report);
    page.timers(report);
    page.fall(report);
    page.parts(report);
    both_ends::show(report, &mut page);
    page.bytes(report);
    page.packets(report);
    page.resumed(report);
    page.addresses(report);
    page.page_model(report);
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
    fn head(&mut self, report: &Report) {
        let target = &report.target;
        let others = match report.addresses.len() {
            0 | 1 => String::new(),
            all => format!(" (1 of {all} addresses)"),
        };
        let name = self.paint("1", &plain(&target.name));
        let starttls =
            target.starttls.map(|protocol| format!(", STARTTLS of {protocol}")).unwrap_or_default();
        self.line(&format!("{name} → {}{others}{starttls}", target.address));
        let agreed = &report.agreed;
        let words = [agreed.version, agreed.group, agreed.suite, agreed.signature, agreed.alpn.as_deref()];
        let words: Vec<String> = words.into_iter().flatten().map(plain).collect();
        self.wrapped(&words.join(" · "), "", 0);
        let resumed = report.resumed.as_ref().map_or(0, |resumed| resumed.count);
        let failed: usize = report.failures.iter().map(|failed| failed.count).sum();
        let early = report
            .early
            .as_ref()
            .map(|early| format!(" + {} with early data", early.count))
            .unwrap_or_default();
        self.line(&format!(
            "{} full + {resumed} resumed{early} connections, in turn; {failed} failed",
            report.full.count
        ));
        for failed in &report.failures {
            let what = self.paint("31", &format!("{} × {}", failed.count, plain(&failed.trouble.what)));
            self.line(&what);
        }
    }

    fn timers(&mut self, report: &Report) {
        let full = &report.full;
        let resumed = report.resumed.as_ref();
        let trips = full.round_trips;
        let least = if report.agreed.version == Some("TLSv1.2") { 2 } else { 1 };
        let better = if trips.handshake > least { format!(" ◄ could be {least}") } else { String::new() };
        let handshake = match trips.starttls {
            0 => format!("{}{better}", trips.handshake),
            starttls => format!("{starttls} + {}{better}", trips.handshake),
        };
        let request = trips.request.map_or("–".to_owned(), |trips| trips.to_string());
        type Timer = fn(&Kind) -> Option<Spread>;
        let rows: [(&str, Timer, String); 6] = [
            ("time_namelookup", |kind| Some(kind.timers.namelookup), "–".into()),
            ("time_connect", |kind| Some(kind.timers.connect), "1".into()),
            ("time_appconnect", |kind| Some(kind.timers.appconnect), handshake),
            ("time_pretransfer", |kind| kind.timers.pretransfer, "–".into()),
            ("time_starttransfer", |kind| kind.timers.starttransfer, request),
            ("time_total", |kind| kind.timers.total, "–".into()),
        ];
        self.line("");
        self.line(&format!("{:<20}{:>10}{:>10}{:>14}   {}", "", "p50", "p95", "resumed p50", "round trips"));
        for (name, timer, trips) in rows {
            let spread = timer(full);
            if spread.is_none() {
                continue;
            }
            let line = format!(
                "{name:<20}{:>10}{:>10}{:>14}   {trips}",
                cell(spread, |spread| spread.p50),
                cell(spread, |spread| spread.p95),
                cell(resumed.and_then(timer), |spread| spread.p50),
            );
            self.line(&line);
        }
    }

    /// The median connection, a row for each step.
    fn fall(&mut self, report: &Report) {
        const LABEL: usize = 9;
        let end = report.waterfall.iter().map(|span| span.to_ms).fold(0.0, f64::max);
        if end <= 0.0 {
            return;
        }
        self.title("One full connection, the median");
        let width = self.columns - LABEL - 2;
        let place = |at: f64| ((at / end * width as f64).round() as usize).min(width);
        let mut rows: Vec<&str> = report.waterfall.iter().map(|span| span.row).collect();
        rows.dedup();
        for row in rows {
            let mut cells = vec![(' ', None); width];
            for span in report.waterfall.iter().filter(|span| span.row == row) {
                let (from, to) = (place(span.from_ms), place(span.to_ms));
                let (sign, color) = match span.who {
                    Who::Network => ('█', "34"),
                    Who::Server => ('▓', "33"),
                    Who::Client => ('▒', "36"),
                };
                // What is too short for a column gets one where nothing longer is.
                let to = to.max(from + usize::from(cells.get(from).is_some_and(|cell| cell.0 == ' ')));
                cells[from..to.min(width)].fill((sign, Some(color)));
            }
            let mut line = format!("  {row:<LABEL$}");
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
        self.line(&format!("  {:<LABEL$}{left}{before}{key}{after}{right}", ""));
    }

    fn parts(&mut self, report: &Report) {
        let full = &report.full;
        let whole = full.handshake_ms.p50;
        self.title(&format!("Where {} of handshake go", ms(whole)));
        let trips = full.round_trips.handshake;
        let network = f64::from(trips) * report.rtt_ms.p50;
        let how = if full.server_known_by == "acknowledgement" { "" } else { ", at most" };
        let rest = (whole - network - full.server_ms.p50 - full.own_ms.p50).max(0.0);
        let rows = [
            (format!("{} × {}", units::counted(trips.into(), "round trip"), ms(report.rtt_ms.p50)), network),
            (format!("the server, before its flights{how}"), full.server_ms.p50),
            ("our own computing".to_owned(), full.own_ms.p50),
            ("bytes on their way, and waiting for a core".to_owned(), rest),
        ];
        for (what, part) in rows {
            let share = if whole > 0.0 { units::share(part / whole) } else { String::new() };
            self.line(&format!("  {what:<44}{:>10}{share:>8}", ms(part)));
        }
    }

    fn bytes(&mut self, report: &Report) {
        self.title("Bytes on the wire");
        let packets = |count: usize| units::counted(count as u64, "packet");
        let mut row = |what: &str, bytes: usize, more: &str| {
            let line = format!("  {what:<20}{:>10} B   {more}", number(bytes));
            self.line(&line);
        };
        let hello = report.hello;
        row("ClientHello", hello.bytes, &packets(hello.segments as usize));
        for (place, flight) in report.full.flights.iter().enumerate() {
            let next = report.full.flights.get(place + 1);
            let why = match (
                next.is_some_and(|next| next.held_by_window),
                flight.held_by_window,
                flight.after_pause,
            ) {
                (true, ..) => ", window full: it had to wait",
                (_, true, _) => " ◄ the extra round trip",
                (_, _, true) => ", after a pause",
                _ => "",
            };
            row(
                &format!("server's flight {}", place + 1),
                flight.bytes,
                &format!("{}{why}", packets(flight.segments)),
            );
        }
        let certificates = &report.certificates;
        let keys: Vec<&str> = certificates.chain.iter().map(|one| one.key.as_str()).collect();
        row(
            "certificates",
            certificates.bytes,
            &format!("{}: {}", certificates.chain.len(), keys.join(", ")),
        );
        if certificates.staple_bytes > 0 {
            row("OCSP response", certificates.staple_bytes, "");
        }
        let window = report.window;
        let sign = if window.full { "=" } else { "≥" };
        let loss = report.loss;
        let line = format!(
            "  initial window {sign} {} segments of {} B; {} sent again, {} out of order",
            window.first_segments,
            number(window.segment),
            loss.retransmitted,
            loss.out_of_order
        );
        self.line(&line);
    }

    /// The packets of the median connection, where they were captured.
    fn packets(&mut self, report: &Report) {
        /// What a screen has room for; JSON has them all.
        const MOST: usize = 40;
        let Some(wire) = &report.wire else { return };
        self.title("Packets of the median connection, as captured");
        for packet in wire.packets.iter().take(MOST) {
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
        let more = wire.packets.len().saturating_sub(MOST);
        if more > 0 {
            self.line(&format!("  … and {} (--json has them all)", units::counted(more as u64, "packet")));
        }
        if wire.missed > 0 {
            let missed = units::counted(wire.missed, "packet");
            self.line(&format!("  {missed} of all connections found no room"));
        }
    }

    fn resumed(&mut self, report: &Report) {
        let tickets = report.tickets;
        let Some(resumed) = &report.resumed else {
            self.title("Resumed: no ticket came");
            return;
        };
        let saved = report.full.timers.appconnect.p50 - resumed.timers.appconnect.p50;
        self.title(&format!("Resumed {}, {} less", ms(resumed.timers.appconnect.p50), ms(saved.max(0.0))));
        let lifetime = tickets
            .lifetime_seconds
            .map_or("not said".into(), |seconds| units::long(std::time::Duration::from_secs(seconds)));
        self.line(&format!(
            "  {}, server {}",
            units::counted(resumed.round_trips.handshake.into(), "round trip"),
            ms(resumed.server_ms.p50)
        ));
        self.line(&format!(
            "  {} after a full handshake, good for {lifetime}; {} of {} taken",
            units::counted(tickets.count as u64, "ticket"),
            tickets.taken,
            tickets.offered
        ));
        match &report.early {
            Some(early) => {
                let first = early.timers.starttransfer.map_or(0.0, |spread| spread.p50);
                self.line(&format!("  0-RTT: first byte after {} (early data can be replayed)", ms(first)));
            }
            None if tickets.early_data_bytes > 0 => {
                self.line(&format!(
                    "  0-RTT: the server allows {} bytes (they can be replayed)",
                    number(tickets.early_data_bytes as usize)
                ));
            }
            None => {}
        }
    }

    fn addresses(&mut self, report: &Report) {
        if report.addresses.len() < 2 {
            return;
        }
        self.title("Addresses");
        for one in &report.addresses {
            let time = |ms_: Option<f64>| ms_.map_or("–".into(), ms);
            let what = match (&one.trouble, one.takes_tickets_of_first) {
                (Some(trouble), _) => plain(&trouble.what),
                (None, Some(true)) => "takes the first one's tickets".into(),
                (None, Some(false)) => "does not take the first one's tickets".into(),
                (None, None) => String::new(),
            };
            self.line(&format!(
                "  {:<26}{:>10}{:>10}   {what}",
                one.address,
                time(one.connect_ms),
                time(one.appconnect_ms)
            ));
        }
    }

    fn page_model(&mut self, report: &Report) {
        let Some(page) = &report.page else { return };
        self.title(&format!("A page of {} × {}, computed", page.resources, units::bytes(page.bytes)));
        for way in &page.ways {
            let ms = units::duration(way.ms * 1e6);
            self.line(&format!("  {:<36}{:>10}{:>6} round trips", way.way, ms, way.round_trips));
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

    fn notes(&mut self, report: &Report) {
        self.line("");
        for note in &report.notes {
            let (sign, code) = if note.good { ("✓", "32") } else { ("⚠", "33") };
            // The sign is painted behind the breaking of lines, which counts columns.
            let from = self.text.len();
            self.wrapped(&plain(&note.what), &format!("{sign} "), 2);
            let painted = self.paint(code, sign);
            self.text.replace_range(from..from + sign.len(), &painted);
        }
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

/// What stands over [`to_line`]'s lines.
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
