//! The handshake table as one page: tables, and a waterfall for each handshake. Nothing is fetched, nothing is run.

use std::fmt::Write;

use handfast_text::units;

use super::page::RESOURCES;
use super::report::{PUBLISHED, Report, Row, ServerReport, Step};

/// Width of a waterfall, in its own units.
const WIDTH: f64 = 1000.0;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#667;--line:#d8dce2;--paper:#fff;--tcp:#7a8aa0;--tls:#2f6fb3;--http:#3a9a6b;--mark:#1b1f24}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--dim:#9aa3ad;--line:#363c44;--paper:#15181c;--tcp:#8b99ad;--tls:#5b9be0;--http:#5cc08c;--mark:#e6e8eb}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2.5rem 0 .3rem}p{max-width:46rem}.dim{color:var(--dim)}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:.5rem 0 1rem}\
th,td{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:var(--dim)}td.fall{width:45%;padding:.1rem .5rem}\
svg{display:block;width:100%;height:2.1rem}.tcp{fill:var(--tcp)}.tls{fill:var(--tls)}.http{fill:var(--http)}\
.grid{stroke:var(--line);stroke-width:1}.mark{stroke:var(--mark);stroke-width:1.5}\
.key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em;vertical-align:-.05em}\
.small{width:auto;min-width:22rem}.scroll{overflow-x:auto}";

/// The page.
pub(super) fn page(report: &Report) -> String {
    let rtt = units::duration(report.rtt_ms * 1e6);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>What a handshake costs on a path of {rtt}</title><style>{STYLE}</style></head><body>\n\
         <h1>What a handshake costs on a path of {rtt}</h1>\n<p class=\"dim\">{}</p>\n",
        escaped(&report.circumstances())
    );
    page.push_str(
        "<p>A round trip is an answer that somebody waited for, counted from packets at both ends. Below each bar are the \
         client's packets, above it the server's, as the client sent and received them; the lines stand one round trip apart. \
         <em>Besides</em> is what is left of the last time without the round trips: computing, and waiting of other kinds.</p>\n\
         <p class=\"key\"><span style=\"background:var(--tcp)\"></span>TCP<span style=\"background:var(--tls)\"></span>TLS\
         <span style=\"background:var(--http)\"></span>request to first byte</p>\n",
    );
    page.push_str("<h2>As published in 2010, on a path of 114 ms</h2>\n<table class=\"small\"><tr><th></th><th>packets</th><th>ms</th></tr>\n");
    for (name, packets, ms) in PUBLISHED {
        let _ = writeln!(page, "<tr><td>{name}</td><td>{packets}</td><td>{ms:.0}</td></tr>");
    }
    page.push_str("</table>\n");
    let _ = writeln!(page, "<p class=\"dim\">{}</p>", escaped(super::report::READ_2010));
    let widest = report.servers.iter().flat_map(|server| &server.rows).map(Row::last_ms).fold(1.0, f64::max);
    for server in &report.servers {
        server_part(&mut page, server, report.rtt_ms, widest);
    }
    page.push_str("</body></html>\n");
    page
}

fn server_part(page: &mut String, server: &ServerReport, rtt: f64, widest: f64) {
    let (name, version) = (escaped(&server.name), escaped(&server.version));
    let _ = write!(
        page,
        "<h2>{name} <span class=\"dim\">{version}</span></h2>\n<div class=\"scroll\"><table><tr><th>handshake</th><th></th>\
         <th>packets</th><th>round trips</th><th>connected</th><th>secured</th><th>first byte</th><th>besides</th></tr>\n"
    );
    for row in &server.rows {
        if !row.done {
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td class=\"dim\" colspan=\"7\">not offered by this server</td></tr>",
                row.name
            );
            continue;
        }
        let last = row.first_byte.or(row.secured).unwrap_or(row.connected);
        let time = |step: Option<Step>| step.map_or(String::new(), |step| format!("{:.1}", step.ms));
        let trips = [Some(row.connected), row.secured, row.first_byte];
        let trips: Vec<_> = trips.into_iter().flatten().map(|step| step.round_trips.to_string()).collect();
        let _ = writeln!(
            page,
            "<tr><td title=\"{}\">{}</td><td class=\"fall\">{}</td><td>{} + {}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{:.1}</td></tr>",
            escaped(&row.agreed),
            row.name,
            waterfall(row, rtt, widest),
            row.packets_there,
            row.packets_back,
            trips.join(" · "),
            time(Some(row.connected)),
            time(row.secured),
            time(row.first_byte),
            last.besides_ms
        );
    }
    page.push_str("</table></div>\n");
    if server.pages.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<div class=\"scroll\"><table><tr><th>{RESOURCES} resources</th><th></th><th>packets</th><th>connections</th>\
         <th>round trips</th><th>ms</th><th>besides</th></tr>"
    );
    let longest = server.pages.iter().map(|row| row.total.ms).fold(1.0, f64::max);
    for row in &server.pages {
        let width = row.total.ms / longest * WIDTH;
        let _ = writeln!(
            page,
            "<tr><td>TLS {}, {}</td><td class=\"fall\"><svg viewBox=\"0 0 {WIDTH} 30\" preserveAspectRatio=\"none\">\
             <rect class=\"http\" x=\"0\" y=\"9\" width=\"{width:.1}\" height=\"12\"/></svg></td><td>{} + {}</td><td>{}</td>\
             <td>{}</td><td>{:.1}</td><td>{:.1}</td></tr>",
            row.tls,
            row.mode,
            row.packets_there,
            row.packets_back,
            row.connections,
            row.total.round_trips,
            row.total.ms,
            row.total.besides_ms
        );
    }
    page.push_str("</table></div>\n");
}

/// A handshake as a bar: TCP, TLS, request; the server's packets above it, the client's below.
fn waterfall(row: &Row, rtt: f64, widest: f64) -> String {
    let x = |ms: f64| ms / widest * (WIDTH - 4.0) + 2.0;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} 30\" preserveAspectRatio=\"none\">");
    let mut line = rtt;
    while rtt > 0.0 && line < widest {
        let _ = write!(svg, "<line class=\"grid\" x1=\"{0:.1}\" y1=\"0\" x2=\"{0:.1}\" y2=\"30\"/>", x(line));
        line += rtt;
    }
    let mut start = 0.0;
    for (class, step) in [("tcp", Some(row.connected)), ("tls", row.secured), ("http", row.first_byte)] {
        // With early data the response may be there before TLS is done.
        let Some(step) = step.filter(|step| step.ms > start) else { continue };
        let width = x(step.ms) - x(start);
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"10\" width=\"{width:.1}\" height=\"10\"/>",
            x(start)
        );
        start = step.ms;
    }
    for packet in &row.packets {
        let (from, to) = if packet.back { (1, 8) } else { (22, 29) };
        let _ = write!(
            svg,
            "<line class=\"mark\" x1=\"{0:.1}\" y1=\"{from}\" x2=\"{0:.1}\" y2=\"{to}\"/>",
            x(packet.ms)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself_is_text() {
        assert_eq!(escaped("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }
}
