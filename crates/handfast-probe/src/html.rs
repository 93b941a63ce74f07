//! The report as one HTML file: nothing is fetched, nothing is run; light and dark, for wide screens and phones. In: reports. Out: the
//! file's text. All foreign text is escaped, and a Content-Security-Policy blocks what escaping might miss.

mod packets;

use std::fmt::Write;

use handfast_report::both_ends;
use handfast_text::units::{self, plain};

use crate::report::{Report, Who};
use crate::rows;
use crate::text::page::ms;

/// The whole file, for one target or several.
pub fn to_html(reports: &[Report]) -> String {
    let names: Vec<String> = reports.iter().map(|report| escape(&report.target.name)).collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Where the time goes: {}</title><style>\n{}</style></head><body>\n",
        names.join(", "),
        include_str!("html/style.css")
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

/// A sentence: text between backticks is code.
fn prose(text: &str) -> String {
    let safe = escape(text);
    let parts: Vec<&str> = safe.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return safe;
    }
    let part = |(place, part): (usize, &&str)| match place % 2 {
        0 => (*part).to_owned(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

fn card(page: &mut String, title: &str, wide: bool, content: &str) {
    let class = if wide { "card wide" } else { "card" };
    let _ = writeln!(page, "<section class=\"{class}\"><h2>{}</h2>{content}</section>", escape(title));
}

fn table(head: &str, rows: &str) -> String {
    format!("<div class=\"scroll\"><table>{head}{rows}</table></div>")
}

fn one(page: &mut String, report: &Report) {
    let agreed: Vec<String> = rows::agreed(report).iter().map(|word| escape(word)).collect();
    let others = match report.addresses.len() {
        0 | 1 => String::new(),
        all => format!(" (1 of {all} addresses)"),
    };
    let starttls = report.target.starttls.map(|name| format!(", STARTTLS of {name}")).unwrap_or_default();
    let _ = write!(
        page,
        "<div class=\"target\"><h1>{} → {}{others}{starttls}</h1>\n<p>{}</p><p class=\"dim\">{} · {} · {}</p>\n",
        escape(&report.target.name),
        escape(&report.target.address),
        agreed.join(" · "),
        rows::connections(report),
        escape(&report.started),
        escape(&report.program),
    );
    for failed in &report.failures {
        let _ = write!(page, "<p class=\"bad\">{} × {}</p>", failed.count, escape(&failed.trouble.what));
    }
    page.push_str("<div class=\"grid\">\n");
    waterfall(page, report);
    advice(page, report);
    timers(page, report);
    parts(page, report);
    bytes(page, report);
    addresses(page, report);
    page_model(page, report);
    proxy(page, report);
    packets::packets(page, report);
    notes(page, report);
    page.push_str("</div></div>\n");
}

fn class(who: Who) -> &'static str {
    match who {
        Who::Network => "network",
        Who::Server => "server",
        Who::Client => "client",
    }
}

fn waterfall(page: &mut String, report: &Report) {
    let end = report.waterfall.iter().map(|span| span.to_ms).fold(0.001, f64::max);
    let share = |ms: f64| ms / end * 100.0;
    let mut rows: Vec<&str> = report.waterfall.iter().map(|span| span.row).collect();
    rows.dedup();
    let mut content = "<p class=\"key\"><span><i class=\"network\"></i>network</span><span><i class=\"server\"></i>server</span>\
                       <span><i class=\"client\"></i>this program</span></p>\n"
        .to_owned();
    for row in rows {
        let _ = write!(content, "<div class=\"step\"><span>{row}</span><div class=\"track\">");
        for span in report.waterfall.iter().filter(|span| span.row == row) {
            let _ = write!(
                content,
                "<i class=\"{}\" style=\"left:{:.2}%;width:{:.2}%\" title=\"{}: {} ({} to {})\"></i>",
                class(span.who),
                share(span.from_ms),
                share(span.to_ms - span.from_ms),
                escape(&span.what),
                ms(span.to_ms - span.from_ms),
                ms(span.from_ms),
                ms(span.to_ms)
            );
        }
        content.push_str("</div></div>\n");
    }
    content.push_str("<div class=\"axis\"><span></span><div class=\"marks\">");
    for mark in 0..=4 {
        let few = if mark % 2 == 1 { " class=\"few\"" } else { "" };
        let _ = write!(content, "<b{few}>{}</b>", ms(end * f64::from(mark) / 4.0));
    }
    content.push_str("</div></div>");
    card(page, &format!("One full connection, the median: {}", ms(end)), true, &content);
}

fn advice(page: &mut String, report: &Report) {
    if report.advice.is_empty() {
        card(page, "Nothing to change that would save time", true, "");
        return;
    }
    let item = |advice: &crate::report::Advice| {
        format!(
            "<li><b class=\"gain\">−{}</b> {}<br><span class=\"dim\">Seen: {}. More: <code>handfast explain {}</code></span></li>",
            ms(advice.saves_ms),
            prose(&advice.what),
            prose(&advice.evidence),
            advice.topic
        )
    };
    let items: String = report.advice.iter().map(item).collect();
    card(page, "What to change, by gain", true, &format!("<ol>{items}</ol>"));
}

fn timers(page: &mut String, report: &Report) {
    let mut rows = String::new();
    for row in rows::timers(report) {
        let better = row.could_be.map(|least| format!("<br><span class=\"bad\">could be {least}</span>"));
        let _ = write!(
            rows,
            "<tr><td>{}<td>{}<td class=\"few\">{}<td>{}<td>{}{}<td class=\"few\">{}<td class=\"few\">{}</tr>",
            row.name,
            ms(row.full.p50),
            ms(row.full.p95),
            row.resumed.map_or("–".into(), |spread| ms(spread.p50)),
            row.trips,
            better.unwrap_or_default(),
            ms(row.full.min),
            ms(row.full.max)
        );
    }
    let head = "<tr><th><th>p50<th class=\"few\">p95<th>resumed,<br>p50<th>round<br>trips<th class=\"few\">min<th class=\"few\">max</tr>";
    card(page, "Timers, as curl names them", false, &table(head, &rows));
}

/// Where the handshake's time went, and what a resumed one takes.
fn parts(page: &mut String, report: &Report) {
    let classes = ["network", "server", "client", "network"];
    let mut rows = String::new();
    for (part, class) in rows::parts(report).iter().zip(classes) {
        let _ = write!(
            rows,
            "<tr><td class=\"text\">{}<td class=\"bars\"><span class=\"bar {class}\" style=\"width:{:.1}%\"></span><td>{}<td>{}</tr>",
            part.what,
            part.share.min(1.0) * 100.0,
            ms(part.ms),
            units::share(part.share)
        );
    }
    let title = format!("Where {} of handshake go", ms(report.full.handshake_ms.p50));
    let (second, lines) = rows::resumed(report);
    let lines: String = lines.iter().map(|line| format!("<p>{}</p>", escape(line))).collect();
    let resumed = format!("<h2 class=\"second\">{}</h2>{lines}", escape(&second));
    let request = rows::request(report).map(|request| format!("<p class=\"dim\">{}</p>", escape(&request)));
    card(page, &title, false, &(table("", &rows) + &request.unwrap_or_default() + &resumed));
}

fn bytes(page: &mut String, report: &Report) {
    let mut rows = String::new();
    for row in rows::bytes(report) {
        let bytes = units::count(row.bytes as u64);
        let _ = write!(rows, "<tr><td>{}<td>{bytes}<td class=\"text\">{}</tr>", row.what, escape(&row.more));
        if row.what == "certificates" {
            for one in &report.certificates.chain {
                let _ = write!(
                    rows,
                    "<tr class=\"dim\"><td><td>{}<td class=\"text\">{}, {}, up to {}</tr>",
                    units::count(one.bytes as u64),
                    escape(&one.key),
                    escape(&one.subject),
                    escape(&one.not_after)
                );
            }
        }
    }
    let content = table("<tr><th><th>bytes<th></tr>", &rows);
    card(
        page,
        "Bytes on the wire",
        false,
        &format!("{content}<p class=\"dim\">{}</p>", rows::window(report)),
    );
}

fn addresses(page: &mut String, report: &Report) {
    if report.addresses.len() < 2 {
        return;
    }
    let time = |ms_: Option<f64>| ms_.map_or("–".into(), ms);
    let row = |one: &crate::report::AddressReport| {
        format!(
            "<tr><td>{}<td>{}<td>{}<td class=\"text\">{}</tr>",
            escape(&one.address),
            time(one.connect_ms),
            time(one.appconnect_ms),
            escape(&rows::address(one))
        )
    };
    let rows: String = report.addresses.iter().map(row).collect();
    card(page, "Addresses", false, &table("<tr><th><th>connect<th>handshake<br>too<th></tr>", &rows));
}

fn page_model(page: &mut String, report: &Report) {
    let Some(model) = &report.page else { return };
    let mut rows = String::new();
    for way in &model.ways {
        let _ = write!(
            rows,
            "<tr><td class=\"text\">{}<td>{}<td>{}<td>{}</tr>",
            escape(way.way),
            way.connections,
            way.round_trips,
            ms(way.ms)
        );
    }
    let title = format!("A page of {} × {}, computed", model.resources, units::bytes(model.bytes));
    let head = "<tr><th><th>connec-<br>tions<th>round<br>trips<th>time</tr>";
    card(page, &title, false, &table(head, &rows));
}

/// The proxy's own counters, if requested.
fn proxy(page: &mut String, report: &Report) {
    let Some(both) = &report.both_ends else { return };
    let (head, notes) = both_ends::sentences(both);
    let mut rows = String::new();
    for [name, mean, share, what] in &both_ends::rows(both) {
        let class = match name.as_str() {
            "client" => "client",
            "network" | "unexplained" => "network",
            _ => "server",
        };
        let _ = write!(
            rows,
            "<tr><td>{}<td class=\"bars\"><span class=\"bar {class}\" style=\"width:{:.1}%\"></span><td>{mean}<td>{share}<td class=\"text\">{}</tr>",
            escape(name),
            both.parts
                .iter()
                .find(|part| part.name == *name)
                .map_or(0.0, |part| part.share.clamp(0.0, 1.0) * 100.0),
            escape(what)
        );
    }
    let notes: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    let content = format!("<p>{}</p>{}<ul class=\"dim\">{notes}</ul>", escape(&head), table("", &rows));
    card(page, "Both ends: all connections, by what the proxy counted itself", true, &content);
}

fn notes(page: &mut String, report: &Report) {
    let mut items = String::new();
    for note in &report.notes {
        let (class, sign) = if note.good { ("good", "✓") } else { ("bad", "⚠") };
        let _ = write!(items, "<li><span class=\"{class}\">{sign}</span> {}</li>", prose(&note.what));
    }
    for limit in &report.limits {
        let (class, word) = if limit.held { ("good", "held") } else { ("bad", "missed") };
        let found = limit.found_ms.map_or("no such figure".into(), ms);
        let bound = escape(&limit.bound);
        let _ = write!(items, "<li>limit {bound}: <span class=\"{class}\">{word}</span>, {found}</li>");
    }
    card(page, "Besides", true, &format!("<ul class=\"notes\">{items}</ul>"));
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

    #[test]
    fn it_has_what_a_terminal_shows() {
        let page = to_html(&[sample()]);
        let all = [
            "1 × connect: connect: refused",
            "could be 1",
            "the extra round trip",
            "good for 2 h",
            "takes the first one&#39;s tickets",
            "Both ends",
            "Packets of the median connection",
            "<code>ip route change",
            "limit appconnect=60ms: <span class=\"bad\">missed</span>",
        ];
        for wanted in all {
            assert!(page.contains(wanted), "no {wanted:?} in {page}");
        }
        let opened = |tag: &str| {
            (page.matches(&format!("<{tag}")).count(), page.matches(&format!("</{tag}>")).count())
        };
        for tag in ["section", "div", "table", "tr", "svg", "details"] {
            let (opened, closed) = opened(tag);
            assert_eq!(opened, closed, "{tag}");
        }
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(prose("a `b <c>` d"), "a <code>b &lt;c&gt;</code> d");
        assert_eq!(prose("one ` alone"), "one ` alone");
    }
}
