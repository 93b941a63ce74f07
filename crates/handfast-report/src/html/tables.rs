//! The tables of the page.
//!
//! In: a report. Out: HTML.

use handfast_html::{Table, details, pairs, text};
use maud::{Markup, html};

use crate::job;
use crate::model::{Report, Worker};
use crate::units::{bytes, count, nanos, rate, share};
use crate::words;

pub(super) fn latencies(report: &Report) -> Markup {
    const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "p99.99"];
    let rows = report.series.iter().map(|series| {
        let mut row = vec![series.name.clone()];
        row.extend(PERCENTILES.map(|name| words::percentile(series, name).map_or("–".into(), nanos)));
        row.extend([nanos(series.max_ns), crate::units::duration(series.mean_ns), nanos(series.min_ns)]);
        row.push(count(series.count));
        row
    });
    let explained = report.series.iter().map(|series| (&series.name, words::step(&series.name)));
    let explained = explained.filter(|(_, text)| !text.is_empty());
    let headings = "step|p50|p90|p99|p99.9|p99.99|max|mean|min|count";
    html! {
        (Table::of_numbers("Latencies by step", headings, rows))
        (details("What the steps are", &pairs(explained)))
    }
}

pub(super) fn mix(report: &Report) -> Markup {
    let mut rows = words::mix(report);
    rows.push(("wanted resumed", share(report.mix.wanted_resumed)));
    let agreed = report.mix.agreed.iter().map(|(what, number)| vec![what.clone(), count(*number)]);
    html! {
        (pairs(rows))
        @if !report.mix.agreed.is_empty() {
            (Table::of_numbers("What was agreed on", "agreed on|handshakes", agreed))
        }
    }
}

/// Each kind of client of a mix: its results, then its TLS offer.
pub(super) fn members(report: &Report) -> Markup {
    let offers = report.members.iter().map(|member| (&member.name, words::member_offers(member)));
    html! {
        (Table::of_numbers("Kinds of client", &words::MEMBER_COLUMNS.join("|"), report.members.iter().map(words::member)))
        (pairs(offers))
    }
}

/// Each of several requests.
pub(super) fn requests(report: &Report) -> Markup {
    Table::of_numbers(
        "Requests",
        &words::REQUEST_COLUMNS.join("|"),
        report.requests.iter().map(words::request),
    )
}

pub(super) fn errors(report: &Report) -> Markup {
    if report.errors.is_empty() {
        return html! { p.soft { "None." } };
    }
    let mut table = Table::new("Errors", "cause|step|#count|for example");
    for row in &report.errors {
        let examples = words::examples(report, row);
        table.row([
            text(&row.cause),
            text(&row.step),
            text(count(row.count)),
            html! { @for example in &examples { (example) br; } },
        ]);
    }
    table.draw()
}

fn held(held: bool) -> String {
    if held { "held" } else { "missed" }.to_owned()
}

pub(super) fn limits(report: &Report) -> Markup {
    let rows =
        report.limits.iter().map(|limit| vec![limit.wanted.clone(), limit.found.clone(), held(limit.held)]);
    Table::of_text("Limits", "limit|found|outcome", rows)
}

pub(super) fn search(search: &crate::model::Search) -> Markup {
    let rows = search.steps.iter().map(|step| {
        let verdict = step.verdict.name().to_owned();
        vec![rate(step.offered_rate), rate(step.rate), step.found.clone(), held(step.held), verdict]
    });
    Table::of_text("Steps of the search", "offered|#reached|#found|bound|verdict", rows)
}

pub(super) fn counts(report: &Report) -> Vec<(&'static str, String)> {
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
    let moved = report.kernel.iter().filter(|(_, value)| **value != 0);
    let moved: Vec<String> = moved.map(|(name, value)| format!("{name} {value:+}")).collect();
    if !moved.is_empty() {
        rows.push(("kernel counters", moved.join(", ")));
    }
    rows
}

pub(super) fn workers(report: &Report) -> Markup {
    let row = |worker: &Worker| {
        let [offset, error, start] =
            [worker.clock_offset_ns as f64, worker.clock_error_ns as f64, worker.start_error_ns as f64]
                .map(|nanos| nanos / 1e6);
        vec![
            worker.name.clone(),
            worker.threads.to_string(),
            count(worker.transactions),
            share(worker.cpu),
            format!("{offset:+.3} ± {error:.3} ms"),
            format!("{start:+.3} ms"),
            if worker.sums_agree { "yes" } else { "no" }.to_owned(),
            worker.lost.clone().unwrap_or_else(|| "–".into()),
        ]
    };
    let header = "worker|#threads|#transactions|#CPU|#clock|#start|sums agree|lost";
    html! {
        (Table::of_text("Workers", header, report.workers.iter().map(row)))
        @for worker in &report.workers {
            (details(&format!("The machine of {}", worker.name), &pairs(&worker.machine)))
        }
    }
}

pub(super) fn manifest(report: &Report) -> Markup {
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
    html! {
        (pairs(rows))
        h3 { "To repeat it" }
        pre { (words::again(report)) }
        p.soft {
            "Or, with every option as it was resolved: " code { "handfast load --replay" } " and the JSON report."
        }
        (details("Every option as it was resolved", &html! { pre { (job::pretty(manifest.job.as_ref())) } }))
    }
}
