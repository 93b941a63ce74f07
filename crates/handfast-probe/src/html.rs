//! The report as one HTML file: nothing is fetched, nothing is run. In: reports. Out: the file's text.

mod packets;

use handfast_html::{Table, bar, card, legend, list, prose};
use handfast_report::both_ends;
use handfast_text::units;
use maud::{Markup, html};

use crate::report::{Party, Report, Span};
use crate::rows;
use crate::text::page::ms;

/// The whole file, for one target or several.
pub fn to_html(reports: &[Report]) -> String {
    let names: Vec<&str> = reports.iter().map(|report| report.target.name.as_str()).collect();
    let body = html! { main { @for report in reports { (one(report)) } } };
    handfast_html::page(&format!("Where the time goes: {}", names.join(", ")), None, &body)
}

/// A part that takes the whole width.
fn wide(title: &str, content: &Markup) -> Markup {
    html! { div.wide { (card(title, "", content)) } }
}

fn one(report: &Report) -> Markup {
    let target = &report.target;
    html! {
        header {
            h1 {
                (target.name) " → " (target.address)
                @if report.addresses.len() > 1 { " (1 of " (report.addresses.len()) " addresses)" }
                @if let Some(name) = target.starttls { ", STARTTLS of " (name) }
            }
            p { (rows::agreed(report).join(" · ")) }
            p.soft { (rows::connections(report)) " · " (report.started) " · " (report.program) }
            @for failed in &report.failures { p.bad { (failed.count) " × " (failed.error.what) } }
        }
        div.cards {
            (waterfall(report))
            (advice(report))
            (timers(report))
            (parts(report))
            (bytes(report))
            (addresses(report))
            (page_model(report))
            (proxy(report))
            (packets::packets(report))
            (notes(report))
        }
    }
}

fn colour(party: Party) -> &'static str {
    match party {
        Party::Network => "blue",
        Party::Server => "orange",
        Party::Client => "teal",
    }
}

fn waterfall(report: &Report) -> Markup {
    let end = report.waterfall.iter().map(|span| span.to_ms).fold(0.001, f64::max);
    let share = |ms: f64| format!("{:.2}%", ms / end * 100.0);
    let mut rows: Vec<&str> = report.waterfall.iter().map(|span| span.row).collect();
    rows.dedup();
    let words = |span: &Span| {
        let [length, from, to] = [span.to_ms - span.from_ms, span.from_ms, span.to_ms].map(ms);
        format!("{}: {length} ({from} to {to})", span.what)
    };
    let of_row = |row: &str| {
        let spans: Vec<&Span> = report.waterfall.iter().filter(|span| span.row == row).collect();
        let label: Vec<String> = spans.iter().map(|span| words(span)).collect();
        html! {
            span { (row) }
            svg role="img" aria-label=(label.join("; ")) { @for span in spans {
                rect class=(colour(span.who)) x=(share(span.from_ms)) y="15%"
                    width=(share(span.to_ms - span.from_ms)) height="70%" { title { (words(span)) } }
            } }
        }
    };
    let content = html! {
        (legend([("blue", "network"), ("orange", "server"), ("teal", "this program")]))
        div.falls {
            @for row in rows { (of_row(row)) }
            svg.xs aria-hidden="true" { @for (place, anchor) in ["start", "middle", "middle", "middle", "end"].iter().enumerate() {
                text.odd[place % 2 == 1] x={ (place * 25) "%" } y="14" text-anchor=(anchor) { (ms(end * place as f64 / 4.0)) }
            } }
        }
    };
    wide(&format!("One full connection, the median: {}", ms(end)), &content)
}

fn advice(report: &Report) -> Markup {
    if report.advice.is_empty() {
        return wide("Nothing to change that would save time", &Markup::default());
    }
    let content = html! { ol { @for advice in &report.advice { li {
        b.good { "−" (ms(advice.saves_ms)) } " " (prose(&advice.what))
        small { "Seen: " (prose(&advice.evidence)) ". More: " code { "handfast explain " (advice.topic) } }
    } } } };
    wide("What to change, by gain", &content)
}

fn timers(report: &Report) -> Markup {
    let headings = "timer|#p50|#p95|#resumed, p50|#round trips|#min|#max";
    let mut table = Table::new("Timers", headings);
    for row in rows::timers(report) {
        let trips =
            html! { (row.trips) @if let Some(least) = row.could_be { small.bad { "could be " (least) } } };
        let [p50, p95, min, max] =
            [row.full.p50, row.full.p95, row.full.min, row.full.max].map(|time| html! { (ms(time)) });
        let resumed = html! { (row.resumed.map_or("–".into(), |spread| ms(spread.p50))) };
        table.row([html! { (row.name) }, p50, p95, resumed, trips, min, max]);
    }
    wide("Timers, as curl names them", &table.draw())
}

/// Table of the parts of the handshake's time, and of a resumed one.
fn parts(report: &Report) -> Markup {
    let mut table = Table::new("Parts of the handshake", "part|share of the time|#time|#share");
    for (part, colour) in rows::parts(report).iter().zip(["blue", "orange", "teal", "blue"]) {
        table.row([
            html! { (part.what) },
            bar(&part.what, &[(colour, part.share)]),
            html! { (ms(part.ms)) },
            html! { (units::share(part.share)) },
        ]);
    }
    let (second, lines) = rows::resumed(report);
    let content = html! {
        (table.draw())
        @if let Some(request) = rows::request(report) { p.soft { (request) } }
        h2 { (second) }
        @for line in lines { p { (line) } }
    };
    card(&format!("Where {} of handshake go", ms(report.full.handshake_ms.p50)), "", &content)
}

fn bytes(report: &Report) -> Markup {
    let mut table = Table::new("Bytes on the wire", "what|#bytes|remark");
    for row in rows::bytes(report) {
        table.row([html! { (row.what) }, html! { (units::count(row.bytes as u64)) }, html! { (row.more) }]);
        for one in report.certificates.chain.iter().filter(|_| row.what == "certificates") {
            let facts = format!("{}, {}, up to {}", one.key, one.subject, one.not_after);
            table.row([
                html! { span.soft { "· one" } },
                html! { (units::count(one.bytes as u64)) },
                html! { span.soft { (facts) } },
            ]);
        }
    }
    card("Bytes on the wire", &rows::window(report), &table.draw())
}

fn addresses(report: &Report) -> Markup {
    if report.addresses.len() < 2 {
        return Markup::default();
    }
    let time = |time: Option<f64>| time.map_or("–".into(), ms);
    let row = |one: &crate::report::AddressReport| {
        vec![one.address.clone(), time(one.connect_ms), time(one.appconnect_ms), rows::address(one)]
    };
    let headings = "address|#connect|#handshake too|remark";
    card("Addresses", "", &Table::of_text("Addresses", headings, report.addresses.iter().map(row)))
}

fn page_model(report: &Report) -> Markup {
    let Some(model) = &report.page else { return Markup::default() };
    let row = |way: &crate::report::Way| {
        vec![way.way.to_owned(), way.connections.to_string(), way.round_trips.to_string(), ms(way.ms)]
    };
    let title = format!("A page of {} × {}, computed", model.resources, units::bytes(model.bytes));
    let headings = "way|connections|round trips|time";
    card(&title, "", &Table::of_numbers("Ways to load a page", headings, model.ways.iter().map(row)))
}

/// The proxy's own counters, if requested.
fn proxy(report: &Report) -> Markup {
    let Some(both) = &report.both_ends else { return Markup::default() };
    let (head, notes) = both_ends::sentences(both);
    let mut table = Table::new("Both ends", "part|share of the time|#mean|#share|what it is");
    for [name, mean, share, what] in &both_ends::rows(both) {
        let colour = match name.as_str() {
            "client" => "teal",
            "network" | "unexplained" => "blue",
            _ => "orange",
        };
        let part = both.parts.iter().find(|part| part.name == *name).map_or(0.0, |part| part.share);
        table.row([
            html! { (name) },
            bar(name, &[(colour, part)]),
            html! { (mean) },
            html! { (share) },
            html! { (what) },
        ]);
    }
    let content = html! {
        p { (head) }
        (table.draw())
        (list("soft", notes.iter().map(|note| html! { (note) })))
    };
    wide("Both ends: all connections, by what the proxy counted itself", &content)
}

fn notes(report: &Report) -> Markup {
    let note = |note: &crate::report::Note| {
        let (class, sign) = if note.good { ("good", "✓") } else { ("bad", "⚠") };
        html! { span class=(class) { (sign) } " " (prose(&note.what)) }
    };
    let limit = |limit: &crate::report::LimitReport| {
        let (class, word) = if limit.held { ("good", "held") } else { ("bad", "missed") };
        let found = limit.found_ms.map_or("no such figure".into(), ms);
        html! { "limit " (limit.bound) ": " span class=(class) { (word) } ", " (found) }
    };
    wide("Besides", &list("", report.notes.iter().map(note).chain(report.limits.iter().map(limit))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::tests::sample;

    #[test]
    fn what_comes_from_elsewhere_is_escaped() {
        let mut report = sample();
        report.target.name = "<script>".into();
        let page = to_html(&[report]);
        assert!(
            !page.contains("<script") && page.contains("&lt;script&gt;") && page.contains("keys &lt;&gt;")
        );
        assert!(page.contains("<rect class=\"orange\"") && page.ends_with("</html>\n"));
    }

    #[test]
    fn it_has_what_a_terminal_shows() {
        let page = to_html(&[sample()]);
        let all = [
            "1 × connect: connect: refused",
            "could be 1",
            "the extra round trip",
            "good for 2 h",
            "takes the first one's tickets",
            "Both ends",
            "Packets of the median connection",
            "<code>ip route change",
            "limit appconnect=60ms: <span class=\"bad\">missed</span>",
        ];
        for report in all {
            assert!(page.contains(report), "no {report:?} in {page}");
        }
    }
}
