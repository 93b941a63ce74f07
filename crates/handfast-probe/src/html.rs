//! The report as one HTML file: nothing is fetched, nothing is run; light and dark. In: reports. Out: the file's text. Everything that
//! came from elsewhere is escaped, and a Content-Security-Policy forbids what should slip through.

use std::fmt::Write;

use handfast_text::units::{self, plain};

use crate::report::{Kind, Report, Spread, Who};
use crate::text::page::ms;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#5c6673;--line:#d8dce2;--paper:#fff;--network:#2f6fb3;--server:#c77712;--client:#2a8f7a;--good:#137c47;--bad:#b3401f}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--dim:#9aa3ad;--line:#363c44;--paper:#15181c;--network:#5b9be0;--server:#eba14b;--client:#4cc5a8;--good:#4cc38a;--bad:#ff8a66}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2.2rem 0 .4rem}p{max-width:46rem;margin:.3rem 0}.dim{color:var(--dim)}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4rem 0}\
th,td{padding:.25rem .9rem .25rem 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}\
th:first-child,td:first-child,.left{text-align:left}th{font-weight:600;color:var(--dim)}.scroll{overflow-x:auto}\
svg{display:block;width:100%;height:auto}.network{fill:var(--network)}.server{fill:var(--server)}.client{fill:var(--client)}\
.grid{stroke:var(--line);stroke-width:1}text{fill:var(--dim);font:12px system-ui,sans-serif}text.row{fill:var(--ink);font-size:13px}\
.key span{display:inline-block;width:.8em;height:.8em;margin:0 .35em 0 1.1em;vertical-align:-.05em;border-radius:2px}\
ol,ul{padding-left:1.4rem;max-width:48rem}li{margin:.35rem 0}.good{color:var(--good)}.bad{color:var(--bad)}b.gain{white-space:nowrap}";

/// The whole file, for one target or several.
pub fn to_html(reports: &[Report]) -> String {
    let names: Vec<String> = reports.iter().map(|report| escape(&report.target.name)).collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Where the time goes: {}</title><style>{STYLE}</style></head><body>\n",
        names.join(", ")
    );
    for report in reports {
        one(&mut page, report);
    }
    page.push_str("</body></html>\n");
    page
}

fn escape(text: &str) -> String {
    plain(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

fn one(page: &mut String, report: &Report) {
    let agreed = &report.agreed;
    let words = [agreed.version, agreed.group, agreed.suite, agreed.signature, agreed.alpn.as_deref()];
    let words: Vec<String> = words.into_iter().flatten().map(escape).collect();
    let _ = write!(
        page,
        "<h1>{} → {}</h1>\n<p class=\"dim\">{} · {} full and {} resumed connections · {} · {}</p>\n",
        escape(&report.target.name),
        escape(&report.target.address),
        words.join(" · "),
        report.full.count,
        report.resumed.as_ref().map_or(0, |resumed| resumed.count),
        escape(&report.started),
        escape(&report.program),
    );
    waterfall(page, report);
    advice(page, report);
    timers(page, report);
    parts(page, report);
    bytes(page, report);
    if let Some(model) = &report.page {
        let _ = write!(
            page,
            "<h2>A page of {} × {}, computed</h2><div class=\"scroll\"><table><tr><th>way<th>connections<th>round trips<th>time</tr>",
            model.resources,
            units::bytes(model.bytes)
        );
        for way in &model.ways {
            let _ = write!(
                page,
                "<tr><td>{}<td>{}<td>{}<td>{}</tr>",
                escape(way.way),
                way.connections,
                way.round_trips,
                ms(way.ms)
            );
        }
        page.push_str("</table></div>\n");
    }
    page.push_str("<h2>Besides</h2><ul>");
    for note in &report.notes {
        let (class, sign) = if note.good { ("good", "✓") } else { ("bad", "⚠") };
        let _ = write!(page, "<li><span class=\"{class}\">{sign}</span> {}</li>", escape(&note.what));
    }
    for limit in &report.limits {
        let (class, word) = if limit.held { ("good", "held") } else { ("bad", "missed") };
        let found = limit.found_ms.map_or("no such figure".into(), ms);
        let _ = write!(
            page,
            "<li>limit {}: <span class=\"{class}\">{word}</span>, {found}</li>",
            escape(&limit.bound)
        );
    }
    page.push_str("</ul>\n");
}

fn waterfall(page: &mut String, report: &Report) {
    const LEFT: f64 = 90.0;
    const WIDTH: f64 = 880.0;
    const ROW: f64 = 34.0;
    let end = report.waterfall.iter().map(|span| span.to_ms).fold(0.001, f64::max);
    let mut rows: Vec<&str> = report.waterfall.iter().map(|span| span.row).collect();
    rows.dedup();
    let height = ROW * rows.len() as f64;
    let x = |at: f64| LEFT + at / end * WIDTH;
    let _ = write!(
        page,
        "<h2>One full connection, the median: {}</h2>\n<p class=\"key\">\
         <span style=\"background:var(--network)\"></span>network<span style=\"background:var(--server)\"></span>server\
         <span style=\"background:var(--client)\"></span>this program</p>\n\
         <div class=\"scroll\"><svg viewBox=\"0 0 1000 {:.0}\" role=\"img\" aria-label=\"waterfall\">",
        ms(end),
        height + 28.0
    );
    for mark in 0..=4 {
        let at = end * f64::from(mark) / 4.0;
        let _ = write!(
            page,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{height:.0}\"/><text x=\"{0:.1}\" y=\"{1:.0}\" text-anchor=\"middle\">{2}</text>",
            x(at),
            height + 18.0,
            ms(at)
        );
    }
    for (place, row) in rows.iter().enumerate() {
        let y = place as f64 * ROW;
        let _ = write!(page, "<text class=\"row\" x=\"0\" y=\"{:.0}\">{}</text>", y + 21.0, escape(row));
        for span in report.waterfall.iter().filter(|span| span.row == *row) {
            let class = match span.who {
                Who::Network => "network",
                Who::Server => "server",
                Who::Client => "client",
            };
            let _ = write!(
                page,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"22\"><title>{}: {} ({} to {})</title></rect>",
                x(span.from_ms),
                y + 5.0,
                (x(span.to_ms) - x(span.from_ms)).max(0.8),
                escape(&span.what),
                ms(span.to_ms - span.from_ms),
                ms(span.from_ms),
                ms(span.to_ms)
            );
        }
    }
    page.push_str("</svg></div>\n");
}

fn advice(page: &mut String, report: &Report) {
    if report.advice.is_empty() {
        page.push_str("<h2>Nothing to change that would save time</h2>\n");
        return;
    }
    page.push_str("<h2>What to change, by gain</h2><ol>");
    for advice in &report.advice {
        let _ = write!(
            page,
            "<li><b class=\"gain\">−{}</b> {}<br><span class=\"dim\">Seen: {}.</span></li>",
            ms(advice.saves_ms),
            escape(&advice.what),
            escape(&advice.evidence)
        );
    }
    page.push_str("</ol>\n");
}

fn timers(page: &mut String, report: &Report) {
    type Timer = fn(&Kind) -> Option<Spread>;
    let trips = report.full.round_trips;
    let rows: [(&str, Timer, String); 6] = [
        ("time_namelookup", |kind| Some(kind.timers.namelookup), "–".into()),
        ("time_connect", |kind| Some(kind.timers.connect), "1".into()),
        (
            "time_appconnect",
            |kind| Some(kind.timers.appconnect),
            (trips.starttls + trips.handshake).to_string(),
        ),
        ("time_pretransfer", |kind| kind.timers.pretransfer, "–".into()),
        (
            "time_starttransfer",
            |kind| kind.timers.starttransfer,
            trips.request.map_or("–".into(), |trips| trips.to_string()),
        ),
        ("time_total", |kind| kind.timers.total, "–".into()),
    ];
    page.push_str("<h2>Timers, as curl names them</h2><div class=\"scroll\"><table><tr><th><th>min<th>p50<th>p95<th>max<th>resumed p50<th>round trips</tr>");
    for (name, timer, trips) in rows {
        let Some(spread) = timer(&report.full) else { continue };
        let resumed = report.resumed.as_ref().and_then(timer).map_or("–".into(), |spread| ms(spread.p50));
        let _ = write!(
            page,
            "<tr><td>{name}<td>{}<td>{}<td>{}<td>{}<td>{resumed}<td>{trips}</tr>",
            ms(spread.min),
            ms(spread.p50),
            ms(spread.p95),
            ms(spread.max)
        );
    }
    page.push_str("</table></div>\n");
}

fn parts(page: &mut String, report: &Report) {
    let full = &report.full;
    let trips = full.round_trips.handshake;
    let network = f64::from(trips) * report.rtt_ms.p50;
    let rest = (full.handshake_ms.p50 - network - full.server_ms.p50 - full.own_ms.p50).max(0.0);
    let _ = writeln!(
        page,
        "<h2>Where {} of handshake go</h2><table>\
         <tr><td>{} × {}<td>{}</tr><tr><td>the server, before its flights<td>{}</tr><tr><td>our own computing<td>{}</tr>\
         <tr><td>bytes on their way, and waiting for a core<td>{}</tr></table>",
        ms(full.handshake_ms.p50),
        units::counted(trips.into(), "round trip"),
        ms(report.rtt_ms.p50),
        ms(network),
        ms(full.server_ms.p50),
        ms(full.own_ms.p50),
        ms(rest)
    );
}

fn bytes(page: &mut String, report: &Report) {
    let _ = write!(
        page,
        "<h2>Bytes on the wire</h2><div class=\"scroll\"><table><tr><th>what<th>bytes<th>packets<th class=\"left\"></tr><tr><td>ClientHello<td>{}<td>{}<td></tr>",
        units::count(report.hello.bytes as u64),
        report.hello.segments
    );
    for (place, flight) in report.full.flights.iter().enumerate() {
        let why =
            if flight.held_by_window { "waited for our acknowledgement: the window was full" } else { "" };
        let _ = write!(
            page,
            "<tr><td>server's flight {}<td>{}<td>{}<td class=\"left\">{why}</tr>",
            place + 1,
            units::count(flight.bytes as u64),
            flight.segments
        );
    }
    for one in &report.certificates.chain {
        let _ = write!(
            page,
            "<tr><td>certificate<td>{}<td><td class=\"left\">{}, {}, up to {}</tr>",
            units::count(one.bytes as u64),
            escape(&one.key),
            escape(&one.subject),
            escape(&one.not_after)
        );
    }
    page.push_str("</table></div>\n");
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
        assert!(page.contains("class=\"server\"") && page.ends_with("</html>\n"));
    }
}
