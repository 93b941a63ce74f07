//! The tables of the page.
//!
//! In: a report. Out: HTML, every text escaped.

use std::fmt::Write;

use super::escape::{escape, prose};
use crate::job;
use crate::model::{Report, Worker};
use crate::units::{bytes, count, nanos, rate, share};
use crate::words;

/// A table; the first cell of a row is its heading. Cells are text, and escaped here.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let names: String =
        header.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let few = if header.len() < 6 { " few" } else { "" };
    let mut html =
        format!("<div class=\"scroll{few}\" tabindex=\"0\"><table><thead><tr>{names}</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match place {
                0 => write!(html, "<th scope=\"row\">{cell}</th>"),
                _ => write!(html, "<td{}>{cell}</td>", class(&cell)),
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// Colours words that mean good or bad, and allows long sentences to wrap.
fn class(cell: &str) -> &'static str {
    match cell {
        "held" | "yes" => " class=\"yes\"",
        "missed" | "no" => " class=\"no\"",
        long if long.len() > 48 => " class=\"wrap\"",
        _ => "",
    }
}

pub(super) fn pairs<K: AsRef<str>>(pairs: &[(K, String)]) -> String {
    let each = pairs
        .iter()
        .map(|(word, text)| format!("<dt>{}</dt><dd>{}</dd>", escape(word.as_ref()), prose(text)));
    format!("<dl>{}</dl>", each.collect::<String>())
}

pub(super) fn latencies(report: &Report) -> String {
    const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "p99.99"];
    let rows = report.series.iter().map(|series| {
        let mut row = vec![series.name.clone()];
        row.extend(PERCENTILES.map(|name| words::percentile(series, name).map_or("–".into(), nanos)));
        row.extend([nanos(series.max_ns), crate::units::duration(series.mean_ns), nanos(series.min_ns)]);
        row.push(count(series.count));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let explained =
        report.series.iter().map(|series| (series.name.as_str(), words::step(&series.name).to_owned()));
    let explained: Vec<(&str, String)> = explained.filter(|(_, text)| !text.is_empty()).collect();
    format!(
        "{}<details><summary>What the steps are</summary><div class=\"card\">{}</div></details>",
        table(&["step", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean", "min", "count"], &rows),
        pairs(&explained)
    )
}

pub(super) fn mix(report: &Report) -> String {
    let mut rows = words::mix(report);
    rows.push(("wanted resumed", share(report.mix.wanted_resumed)));
    let agreed: Vec<Vec<String>> =
        report.mix.agreed.iter().map(|(what, number)| vec![what.clone(), count(*number)]).collect();
    let agreed = if agreed.is_empty() { String::new() } else { table(&["agreed on", "handshakes"], &agreed) };
    format!("{}{agreed}", pairs(&rows))
}

/// Each kind of client of a mix: its results, then its TLS offer.
pub(super) fn members(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report.members.iter().map(words::member).collect();
    let offers: Vec<(&str, String)> =
        report.members.iter().map(|member| (member.name.as_str(), words::member_offers(member))).collect();
    format!("{}{}", table(&words::MEMBER_COLUMNS, &rows), pairs(&offers))
}

/// Each of several requests.
pub(super) fn requests(report: &Report) -> String {
    table(&words::REQUEST_COLUMNS, &report.requests.iter().map(words::request).collect::<Vec<_>>())
}

pub(super) fn errors(report: &Report) -> String {
    if report.errors.is_empty() {
        return "<p class=\"soft\">None.</p>".into();
    }
    let mut html = String::from(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">cause</th><th scope=\"col\" class=\"left\">step</th>\
         <th scope=\"col\">count</th><th scope=\"col\" class=\"left\">for example</th></tr></thead><tbody>\n",
    );
    for row in &report.errors {
        let examples = words::examples(report, row)
            .iter()
            .map(|example| escape(example))
            .collect::<Vec<_>>()
            .join("<br>");
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"left\">{}</td><td>{}</td><td class=\"wrap\">{examples}</td></tr>",
            escape(&row.cause),
            escape(&row.step),
            count(row.count)
        );
    }
    html.push_str("</tbody></table></div>");
    html
}

pub(super) fn limits(report: &Report) -> String {
    let held = |held: bool| if held { "held" } else { "missed" }.to_owned();
    let rows =
        report.limits.iter().map(|limit| vec![limit.wanted.clone(), limit.found.clone(), held(limit.held)]);
    table(&["limit", "found", ""], &rows.collect::<Vec<_>>())
}

pub(super) fn search(search: &crate::model::Search) -> String {
    let rows = search.steps.iter().map(|step| {
        let held = if step.held { "held" } else { "missed" };
        let verdict = step.verdict.name().to_owned();
        vec![rate(step.offered_rate), rate(step.rate), step.found.clone(), held.to_owned(), verdict]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let result = escape(&words::search_result(search));
    format!("<p>{result}</p>{}", table(&["offered", "reached", "found", "bound", "verdict"], &rows))
}

pub(super) fn counts(report: &Report) -> String {
    let mut rows = words::counts(report);
    if report.totals.queued > 0 {
        let queued = count(report.totals.queued);
        rows.push(("queued", format!("{queued} arrivals waited for a free connection")));
    }
    if let Some(ports) = &report.ports {
        rows.push(("ports", ports.sentence.clone()));
    }
    if let Some(server) = &report.server {
        let each = nanos(server.cpu_ns_per_transaction.max(0.0) as u64);
        let used = format!("{:.1} s of CPU, {each} for each transaction", server.cpu_seconds);
        rows.push((
            "server",
            format!("{}: {used}, {} of memory at most", server.who, bytes(server.resident_bytes)),
        ));
    }
    let moved = report
        .kernel
        .iter()
        .filter(|(_, value)| **value != 0)
        .map(|(name, value)| format!("{name} {value:+}"));
    let moved: Vec<String> = moved.collect();
    if !moved.is_empty() {
        rows.push(("kernel counters", moved.join(", ")));
    }
    pairs(&rows)
}

pub(super) fn workers(report: &Report) -> String {
    let row = |worker: &Worker| {
        let clock = format!(
            "{:+.3} ± {:.3} ms",
            worker.clock_offset_ns as f64 / 1e6,
            worker.clock_error_ns as f64 / 1e6
        );
        vec![
            worker.name.clone(),
            worker.threads.to_string(),
            count(worker.transactions),
            share(worker.cpu),
            clock,
            format!("{:+.3} ms", worker.start_error_ns as f64 / 1e6),
            if worker.sums_agree { "yes" } else { "no" }.to_owned(),
            worker.lost.clone().unwrap_or_else(|| "–".into()),
        ]
    };
    let header = ["worker", "threads", "transactions", "CPU", "clock", "start", "sums agree", "lost"];
    let mut html = table(&header, &report.workers.iter().map(row).collect::<Vec<_>>());
    for worker in &report.workers {
        let facts: Vec<(&String, String)> =
            worker.machine.iter().map(|(name, value)| (name, value.clone())).collect();
        let name = escape(&worker.name);
        let _ = write!(
            html,
            "<details><summary>The machine of {name}</summary><div class=\"card\">{}</div></details>",
            pairs(&facts)
        );
    }
    html
}

pub(super) fn manifest(report: &Report) -> String {
    let manifest = &report.manifest;
    let libraries: Vec<String> =
        manifest.libraries.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let rows = [
        ("program", manifest.program.clone()),
        ("SHA-256 of it", manifest.binary.clone()),
        ("libraries", libraries.join(", ")),
        ("started", manifest.started.clone()),
        ("seed", manifest.seed.to_string()),
        ("addresses", manifest.addresses.join(", ")),
        ("starts apart by", nanos(manifest.start_skew_ns)),
        ("schema", report.schema.clone()),
    ];
    let job = job::pretty(manifest.job.as_ref());
    let job: String = job.lines().map(|line| escape(line) + "\n").collect();
    format!(
        "{}<h3 style=\"margin-top:18px\">To repeat it</h3><pre>{}</pre><p class=\"soft\">Or, with every option as it was resolved: \
         <code>handfast load --replay</code> and the JSON report.</p>\
         <details><summary>Every option as it was resolved</summary><pre>{job}</pre></details>",
        pairs(&rows),
        escape(&words::again(report))
    )
}
