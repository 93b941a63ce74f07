//! The handshake table as one page: tables, and a waterfall for each handshake. Nothing is fetched, nothing is run.

use handfast_html::{Table, bar, card, legend};
use handfast_text::units;
use maud::{Markup, html};

use super::page::RESOURCES;
use super::report::{PUBLISHED, PageRow, Report, Row, ServerReport, Step};

/// Width of a waterfall, in its own units.
const WIDTH: f64 = 1000.0;

/// The page.
pub(super) fn page(report: &Report) -> String {
    let title = format!("What a handshake costs on a path of {}", units::duration(report.rtt_ms * 1e6));
    let widest = report.servers.iter().flat_map(|server| &server.rows).map(Row::last_ms).fold(1.0, f64::max);
    let published = PUBLISHED
        .iter()
        .map(|(name, packets, ms)| vec![(*name).to_owned(), packets.to_string(), format!("{ms:.0}")]);
    let published = Table::of_numbers("Published in 2010", "what|packets|ms", published);
    let body = html! { main {
        h1 { (title) }
        p.soft { (report.circumstances()) }
        p {
            "A round trip is an answer that one side waited for, counted from packets at both ends. Below each bar are the client's \
             packets, above it the server's, as the client sent and received them. The lines are one round trip apart. "
            em { "Besides" } " is the rest of the last time without the round trips: computing, and waiting of other kinds."
        }
        (legend([("mauve", "TCP"), ("blue", "TLS"), ("teal", "request to first byte")]))
        (card("As published in 2010, on a path of 114 ms", super::report::READ_2010, &published))
        @for server in &report.servers { (server_part(server, report.rtt_ms, widest)) }
    } };
    handfast_html::page(&title, None, &body)
}

fn server_part(server: &ServerReport, rtt: f64, widest: f64) -> Markup {
    let headings =
        "handshake|packets over time|#packets|#round trips|#connected|#secured|#first byte|#besides";
    let mut table = Table::new(&server.name, headings);
    server.rows.iter().for_each(|row| table.row(cells(row, rtt, widest)));
    let pages = format!("{RESOURCES} resources");
    let content = html! {
        (table.draw())
        @if !server.pages.is_empty() { (page_table(&pages, &server.pages)) }
    };
    card(&server.name, &server.version, &content)
}

fn cells(row: &Row, rtt: f64, widest: f64) -> Vec<Markup> {
    let name = html! { (row.name) @if row.done { small { (row.agreed) } } };
    if !row.done {
        return vec![name, html! { span.soft { "not offered by this server" } }];
    }
    let last = row.first_byte.or(row.secured).unwrap_or(row.connected);
    let steps = [Some(row.connected), row.secured, row.first_byte];
    let trips: Vec<_> = steps.iter().flatten().map(|step| step.round_trips.to_string()).collect();
    let time = |step: Option<Step>| step.map(|step| html! { (format_args!("{:.1}", step.ms)) });
    let mut cells = vec![name, waterfall(row, rtt, widest), packets(row.packets_there, row.packets_back)];
    cells.push(html! { (trips.join(" · ")) });
    cells.extend(steps.map(|step| time(step).unwrap_or_default()));
    cells.push(html! { (format_args!("{:.1}", last.besides_ms)) });
    cells
}

fn packets(there: u64, back: u64) -> Markup {
    html! { (there) " + " (back) }
}

fn page_table(title: &str, rows: &[PageRow]) -> Markup {
    let headings = format!("{title}|time|#packets|#connections|#round trips|#ms|#besides");
    let mut table = Table::new(title, &headings);
    let longest = rows.iter().map(|row| row.total.ms).fold(1.0, f64::max);
    for row in rows {
        let name = format!("TLS {}, {}", row.tls, row.mode);
        table.row([
            html! { (name) },
            bar(&name, &[("teal", row.total.ms / longest)]),
            packets(row.packets_there, row.packets_back),
            html! { (row.connections) },
            html! { (row.total.round_trips) },
            html! { (format_args!("{:.1}", row.total.ms)) },
            html! { (format_args!("{:.1}", row.total.besides_ms)) },
        ]);
    }
    table.draw()
}

/// A handshake as a bar: TCP, TLS, request; the server's packets above it, the client's below.
fn waterfall(row: &Row, rtt: f64, widest: f64) -> Markup {
    let x = |ms: f64| format!("{:.1}", ms / widest * (WIDTH - 4.0) + 2.0);
    let round_trips = (1..).map(|number| f64::from(number) * rtt).take_while(|ms| rtt > 0.0 && *ms < widest);
    let mut start = 0.0;
    let mut boxes = Vec::new();
    for (colour, step) in [("mauve", Some(row.connected)), ("blue", row.secured), ("teal", row.first_byte)] {
        // With early data the response may be there before TLS is done.
        let Some(step) = step.filter(|step| step.ms > start) else { continue };
        let width = format!("{:.1}", (step.ms - start) / widest * (WIDTH - 4.0));
        boxes.push(html! { rect class=(colour) x=(x(start)) y="10" width=(width) height="10" {} });
        start = step.ms;
    }
    html! {
        svg.fall viewBox={ "0 0 " (WIDTH) " 30" } preserveAspectRatio="none" role="img" aria-label=(row.name) {
            @for ms in round_trips { line.rule x1=(x(ms)) x2=(x(ms)) y1="0" y2="30" {} }
            @for part in &boxes { (part) }
            @for packet in &row.packets {
                @let (from, to) = if packet.back { (1, 8) } else { (22, 29) };
                line.ink x1=(x(packet.ms)) x2=(x(packet.ms)) y1=(from) y2=(to) {}
            }
        }
    }
}
