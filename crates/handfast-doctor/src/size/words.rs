//! A size for people: unmet needs as findings, met needs as facts, each with its arithmetic.
//!
//! In: a [`Size`]. Out: a [`Report`], which `text.rs` writes.

use handfast_text::units::{bytes, count, counted, duration, rate, share};

use super::{Cost, First, Need, PlannedLoad, Size};
use crate::report::{Finding, Report};

/// As a report.
pub fn to_report(size: &Size) -> Report {
    let mut report = Report::new(&size.program, size.started.clone(), size.subject.clone());
    for need in size.needs.iter().filter(|need| need.is_short()) {
        let title = format!("{}: {}", need.topic, figures(need));
        let mut finding = Finding::warning(need.topic, title, need.consequence).because(format!(
            "{}; {} is {}",
            need.arithmetic,
            need.from,
            amount(need, need.here.unwrap_or(0.0))
        ));
        finding.change.clone_from(&need.change);
        report.find(finding);
    }
    report.fact("wanted", planned(&size.planned));
    for cost in &size.costs.each {
        report.fact(cost.name, one(cost, size));
    }
    report.fact("costs from", size.costs.source.clone());
    if let Some(pairs) = &size.kernel {
        report.fact(
            "a socket pair",
            format!(
                "{} of the kernel's memory: {} ({}, {} opened and closed again); {} of them in buffers",
                bytes(pairs.bytes_each),
                pairs.arithmetic,
                pairs.by,
                counted(pairs.pairs, "pair"),
                bytes(pairs.buffer_bytes_each)
            ),
        );
    }
    for need in size.needs.iter().filter(|need| !need.is_short()) {
        // A name that fits the column.
        let name = if need.topic == "time-wait-buckets" { "time-wait" } else { need.topic };
        report.fact(name, format!("{}: {}", figures(need), need.arithmetic));
    }
    if let Some(first) = &size.first {
        report.fact("gives out first", gives_out(first));
    }
    report.unseen.clone_from(&size.unseen);
    report
}

fn planned(load: &PlannedLoad) -> String {
    let behind = match (load.backend_tls, load.backends) {
        (true, _) => "TLS with the backends too, resumed",
        (false, 0) => "backends on unix sockets",
        (false, _) => "plain to the backends",
    };
    format!(
        "{} full handshakes ({}, {}), {} resumed; {} open; {} a second in and out together; {behind}",
        rate(load.full_per_second),
        load.key,
        load.group,
        rate(load.resumed_per_second),
        counted(load.open, "connection"),
        bytes(load.bytes_per_second)
    )
}

/// The cost of one operation.
fn one(cost: &Cost, size: &Size) -> String {
    let is_byte = cost.name == "byte";
    let time = |ns: f64| if is_byte { format!("{ns:.3} ns") } else { duration(ns) };
    let terms: Vec<String> =
        cost.terms.iter().map(|term| format!("{} {}", time(term.ns), term.name)).collect();
    let most =
        if is_byte { format!("{} a second", bytes(cost.per_second as u64)) } else { rate(cost.per_second) };
    format!(
        "{} = {} of a core; {} fully busy with nothing else: {most}",
        terms.join(" + "),
        time(cost.ns),
        counted(size.planned.cores, "core")
    )
}

/// `2.84 cores of 2 (142 %)`.
fn figures(need: &Need) -> String {
    let needed = amount(need, need.needed);
    match need.here.zip(need.share()) {
        Some((here, part)) => format!("{needed} of {} ({})", amount(need, here), share(part)),
        None => format!("{needed}; the available amount is unknown"),
    }
}

fn amount(need: &Need, figure: f64) -> String {
    match need.unit {
        "bytes" => bytes(figure as u64),
        "cores" => format!("{figure:.2} cores"),
        _ if figure >= u64::MAX as f64 => format!("unlimited {}", need.unit),
        unit => format!("{} {unit}", count(figure.ceil() as u64)),
    }
}

fn gives_out(first: &First) -> String {
    let mut parts = Vec::new();
    if first.connections_per_second > 0.0 {
        parts.push(format!("{} new connections", rate(first.connections_per_second)));
    }
    if first.open > 0 {
        parts.push(counted(first.open, "open connection"));
    }
    if first.bytes_per_second > 0 {
        parts.push(format!("{} a second", bytes(first.bytes_per_second)));
    }
    format!("{}, at {} of the planned load: {}", first.topic, share(first.at), parts.join(", "))
}
