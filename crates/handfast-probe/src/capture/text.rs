//! Report of a capture, for a person at a terminal: of few connections everything, of many a line each. In: a report, columns. Out: text.

use std::fmt::Write;

use handfast_text::table::{Column, lines};
use handfast_text::units::{self, plain};
use handfast_text::wrap::{SCREEN, SCREEN_COLUMNS};

use super::report::{CaptureReport, ConnectionReport, FlightReport, TlsReport};
use crate::text::Style;
use crate::text::page::{Page, ms};

/// More connections than these have a line each.
const MAX_DETAILED_CONNECTIONS: usize = 6;
/// Columns of what a row is about.
const LABEL: usize = 27;

/// The whole text.
pub fn to_text(report: &CaptureReport, style: Style) -> String {
    let mut page = Page::new(style);
    page.file(report);
    let few = report.connections.len() <= MAX_DETAILED_CONNECTIONS;
    if !few {
        page.table(&report.connections);
    }
    for (place, one) in report.connections.iter().enumerate().filter(|_| few) {
        page.line("");
        page.connection(place + 1, one);
    }
    page.text
}

/// The same on one screen: of one connection everything, if there is room, or else a line for each.
pub fn to_summary(report: &CaptureReport, style: Style) -> String {
    let mut page = Page::new(Style { columns: style.columns.min(SCREEN_COLUMNS), ..style });
    page.file(report);
    let all = &report.connections;
    if let [one] = &all[..] {
        let kept = page.text.len();
        page.line("");
        page.connection(1, one);
        if page.text.lines().count() <= SCREEN {
            return page.text;
        }
        page.text.truncate(kept);
    }
    // Without the heading, and a line for those that are left out.
    let room = SCREEN.saturating_sub(page.text.lines().count() + 3);
    page.table(&all[..all.len().min(room)]);
    match all.len().saturating_sub(room) {
        0 if all.is_empty() => {}
        0 => page.line("flights, times and ends of each: -v"),
        more => page.line(&format!("  - and {more} more (-v)")),
    }
    page.text
}

fn cell(figure: Option<f64>) -> String {
    figure.map_or("–".into(), ms)
}

fn counted(count: usize, one: &str) -> String {
    units::counted(count as u64, one)
}

impl Page {
    fn warn(&mut self, what: &str) {
        let from = self.text.len();
        self.wrapped(what, "⚠ ", 2);
        let painted = self.paint("33", "⚠");
        self.text.replace_range(from..from + "⚠".len(), &painted);
    }

    fn file(&mut self, report: &CaptureReport) {
        let hellos = report.connections.iter().filter(|one| one.tls.is_some()).count();
        let text = format!(
            "{}: {}, {} in {} from {}; {}, {hellos} of them with a ClientHello",
            report.file,
            report.format,
            units::counted(report.packets, "packet"),
            ms(report.lasted_ms),
            report.started,
            counted(report.connections.len(), "TCP connection"),
        );
        self.wrapped(&text, "", 2);
        if let Some(broken) = &report.broken {
            self.warn(&format!("the file is {broken}"));
        }
        let warnings = [
            (report.other_packets, "not TCP over IP, or of a link type that is not known"),
            (report.cut_packets, "cut by the capture: what is behind the cut is not known"),
        ];
        for (count, what) in warnings.into_iter().filter(|(count, _)| *count > 0) {
            self.warn(&format!("{}: {what}", units::counted(count, "packet")));
        }
        if report.not_kept > 0 {
            self.warn(&format!(
                "{} more: only the first {} are kept",
                units::counted(report.not_kept, "connection"),
                super::MAX_CONNECTIONS
            ));
        }
    }

    fn table(&mut self, all: &[ConnectionReport]) {
        const COLUMNS: [Column<'_>; 8] = [
            Column::figures("", 0),
            Column::words("server", 8, 0),
            Column::figures("connect", 0),
            Column::figures("server", 0),
            Column::figures("TLS", 0),
            Column::figures("trips", 0),
            Column::figures("again", 0),
            Column::words("end", 0, 0),
        ];
        let row = |(one, place): (&ConnectionReport, usize)| {
            let name = one.tls.as_ref().and_then(|tls| tls.server_name.as_ref()).unwrap_or(&one.server);
            let handshake = one.at_ms.secured.zip(one.at_ms.client_hello).map(|(end, begin)| end - begin);
            let trips = one.round_trips.map_or("–".into(), |trips| trips.to_string());
            let again = (one.from_client.retransmitted + one.from_server.retransmitted).to_string();
            let times = [one.rtt_ms, one.server_ms, handshake].map(cell);
            [place.to_string(), plain(name)]
                .into_iter()
                .chain(times)
                .chain([trips, again, one.end.how.to_string()])
                .collect()
        };
        let rows: Vec<_> = all.iter().zip(1..).map(row).collect();
        let mut lines = lines(&COLUMNS, &rows, self.columns).into_iter();
        self.line("");
        let titles = lines.next().unwrap_or_default();
        self.line(&self.paint("1", &titles));
        lines.for_each(|line| self.line(&line));
    }

    fn row(&mut self, label: &str, figure: Option<f64>, more: &str) {
        self.line(&format!("   {label:<LABEL$}{:>9}   {more}", cell(figure)));
    }

    fn connection(&mut self, number: usize, one: &ConnectionReport) {
        let mut place = match one.near {
            Some("between") => ", captured on the way".to_owned(),
            Some(end) => format!(", captured near the {end}"),
            None => String::new(),
        };
        if let Some(interface) = &one.interface {
            let _ = write!(place, " ({})", plain(interface));
        }
        let title = self.paint("1", &format!("{number}  {} → {}", one.client, one.server));
        self.line(&format!("{title}{place}"));
        match &one.tls {
            Some(tls) => self.wrapped(&hello(tls), "   ", 3),
            None => self.line("   no ClientHello in it"),
        }
        self.times(one);
        if !one.flights.is_empty() {
            self.line("   flights, as captured");
        }
        one.flights.iter().for_each(|flight| self.flight(flight));
        self.rest(one);
    }

    fn times(&mut self, one: &ConnectionReport) {
        let at = one.at_ms;
        let between = |from: Option<f64>, to: Option<f64>| from.zip(to).map(|(from, to)| to - from);
        if let Some(rtt) = one.rtt_ms {
            self.row("TCP handshake", at.connected, &format!("round trip {}", ms(rtt)));
        }
        if one.tls.is_none() {
            return;
        }
        let server =
            one.server_ms.map_or(String::new(), |server| format!("of which the server {}", ms(server)));
        self.row("ClientHello → ServerHello", between(at.client_hello, at.server_hello), &server);
        let trips = one.round_trips.map_or(String::new(), |trips| {
            let window = match one.window_round_trips {
                Some(held @ 1..) => format!(", {held} of them by its window"),
                _ => String::new(),
            };
            format!("{}{window}", units::counted(trips.into(), "round trip"))
        });
        self.row("ClientHello → Finished", between(at.client_hello, at.secured), &trips);
        if at.secured.is_some() {
            self.row("Finished → client's data", between(at.secured, at.client_data), "");
            let ticket = one.tls.as_ref().is_some_and(|tls| tls.version.as_deref() == Some("TLSv1.3"));
            let ticket = if ticket { "a ticket looks the same" } else { "" };
            self.row("Finished → server's data", between(at.secured, at.server_data), ticket);
        }
    }

    fn flight(&mut self, flight: &FlightReport) {
        let line = format!(
            "    {} {:>9}{:>10} B  {:<10} ",
            if flight.from == "client" { "→" } else { "←" },
            ms(flight.at_ms),
            units::count(flight.bytes),
            units::counted(flight.packets.into(), "packet"),
        );
        self.wrapped(&flight.what.join(", "), &line, line.chars().count());
    }

    fn rest(&mut self, one: &ConnectionReport) {
        if one.first_bytes > 0 {
            let sign = if one.window_full { "=" } else { "≥" };
            self.line(&format!(
                "   initial window {sign} {} segments of {} B",
                one.first_bytes.div_ceil(one.segment.max(1)),
                units::count(one.segment as u64)
            ));
        }
        let (there, back) = (one.from_client, one.from_server);
        self.line(&format!(
            "   → {}, {}; ← {}, {}",
            units::counted(there.packets, "packet"),
            units::bytes(there.bytes),
            units::counted(back.packets, "packet"),
            units::bytes(back.bytes)
        ));
        self.line(&format!(
            "   sent again: → {}, ← {}; out of order: → {}, ← {}",
            there.retransmitted, back.retransmitted, there.out_of_order, back.out_of_order
        ));
        let end = &one.end;
        let by = end.by.unwrap_or("nobody");
        let mut how = match end.how {
            "fin" if end.both => {
                format!("closed cleanly, by the {by} first, after {}", cell(one.at_ms.ended))
            }
            "fin" => format!("ended by the {by} alone, after {}", cell(one.at_ms.ended)),
            "reset" => format!("broken off by the {by} (RST) after {}", cell(one.at_ms.ended)),
            _ => "its end is not in the capture".to_owned(),
        };
        if !end.closed_by.is_empty() {
            let _ =
                write!(how, "; last came an encrypted alert of the {}", end.closed_by.join(" and of the "));
        }
        self.wrapped(&how, "   ", 3);
        for alert in &end.alerts {
            let line = self.paint("31", &format!("   alert of the {alert}"));
            self.line(&line);
        }
        for note in &one.notes {
            self.line(&format!("   note: {note}"));
        }
    }
}

/// Describes the hellos.
fn hello(tls: &TlsReport) -> String {
    let mut words: Vec<String> = Vec::new();
    words.push(tls.server_name.as_deref().map_or("no SNI".into(), plain));
    words.extend([&tls.version, &tls.group, &tls.suite].into_iter().flatten().cloned());
    if tls.hello_retry {
        words.push("hello retry".into());
    }
    words.extend(tls.resumed.map(|resumed| if resumed { "resumed" } else { "full" }.to_owned()));
    if tls.early_data {
        words.push("early data".into());
    }
    match &tls.alpn {
        Some(alpn) => words.push(plain(alpn)),
        None if tls.alpn_offered.is_empty() => {}
        None => words.push(format!("offers {}", plain(&tls.alpn_offered.join(", ")))),
    }
    words.extend(tls.certificate_bytes.map(|bytes| format!("Certificate {} B", units::count(bytes as u64))));
    words.join(" · ")
}
