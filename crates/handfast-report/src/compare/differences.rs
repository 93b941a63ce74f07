//! Differences between runs, field by field: those that make them incomparable, and those to warn about.
//!
//! In: the reports of both sides. Out: sentences that name the field and both values.
//!
//! | differs | then |
//! |---|---|
//! | the work (model, TLS, mix, requests, close), the target, the program or its report | no comparison |
//! | duration, threads, machine, negotiated parameters | a warning: it may be the cause |
//! | seed, source addresses | ignored: they differ from run to run |

use std::collections::{BTreeMap, BTreeSet};

use super::sides::Sides;
use crate::model::{Member, Report};
use crate::plan::{Header, Model, Plan, Request, Stage, Tls, Verify, Work};

/// Most sentences about one part, so that two completely different jobs do not fill the screen.
const MAX_SENTENCES: usize = 12;

/// Differences between the runs' settings.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Reasons why nothing can be compared.
    pub(super) reasons: Vec<String>,
    /// Differences that may explain a difference of the figures.
    pub(super) warnings: Vec<String>,
}

/// The effect of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Runs that differ in it did different work.
    Same,
    /// It may explain a difference.
    Circumstance,
}

type Facts = BTreeMap<(Weight, String), String>;

/// All differences of a run from the first run of A, also for other runs of A.
pub(super) fn of(sides: &Sides<'_>) -> Differences {
    let mut found = Differences::default();
    let Some(first) = sides.a.first() else { return found };
    let mut named = BTreeSet::new();
    let numbered = sides.each().into_iter().flat_map(|(side, reports)| {
        reports.iter().enumerate().map(move |(place, report)| (side, place + 1, report))
    });
    for (side, run, report) in numbered {
        for ((weight, field), mine, theirs) in differing(first, report, sides.across_targets) {
            let into = match weight {
                Weight::Same => &mut found.reasons,
                Weight::Circumstance => &mut found.warnings,
            };
            if into.len() < MAX_SENTENCES && named.insert(field.clone()) {
                into.push(format!("{field} differs: {mine} in run 1 of A, {theirs} in run {run} of {side}"));
            }
        }
        if !report.stalled.is_empty() {
            let seconds = crate::units::counted(report.stalled.len() as u64, "second");
            found.warnings.push(format!("in run {run} of {side} the target stalled for {seconds}"));
        }
    }
    found
}

/// Each kind of client with its share and what it offers; names that follow the target's are no difference.
fn clients(report: &Report) -> String {
    let offered = |place: usize, member: &Member| match report.plan().and_then(|plan| plan.mix.get(place)) {
        Some(expected) => expected.tls.sentence_without_names(),
        None => member.offered.clone(),
    };
    let each = report.members.iter().enumerate().map(|(place, member)| {
        let resumed = crate::units::share(member.wanted_resumed);
        let share = crate::units::share(member.share);
        format!("{share} {} ({}; {resumed} resumed)", member.name, offered(place, member))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Each of several requests with its share.
fn requests(report: &Report) -> String {
    let each = report.requests.iter().map(|request| {
        let more = [request.headers.join(", "), request.body.clone().unwrap_or_default()];
        let more: String =
            more.iter().filter(|more| !more.is_empty()).map(|more| format!(" ({more})")).collect();
        format!("{} {} {}{more}", crate::units::share(request.share), request.method, request.path)
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Facts that differ, with both values.
fn differing(a: &Report, b: &Report, across_targets: bool) -> Vec<((Weight, String), String, String)> {
    let (mut left, mut right) = (facts(a, across_targets), facts(b, across_targets));
    let names: BTreeSet<(Weight, String)> = left.keys().chain(right.keys()).cloned().collect();
    let mut take = |name: &(Weight, String)| {
        let value = |side: &mut Facts| {
            side.remove(name).filter(|value| !value.is_empty()).unwrap_or_else(|| "none".into())
        };
        (name.clone(), value(&mut left), value(&mut right))
    };
    names.iter().map(&mut take).filter(|(_, mine, theirs)| mine != theirs).collect()
}

/// All facts that should be equal, as a flat list.
fn facts(report: &Report, across_targets: bool) -> Facts {
    let mut facts = Facts::new();
    let mut put = |weight: Weight, name: &str, value: String| facts.insert((weight, name.to_owned()), value);
    put(Weight::Same, "the version of the report", report.schema.clone());
    put(Weight::Same, "the program", report.manifest.program.clone());
    put(Weight::Same, "the certificate's verification", report.mix.verification.clone());
    put(Weight::Same, "the mix of clients", clients(report));
    put(Weight::Same, "the list of requests", requests(report));
    put(Weight::Same, "job", if report.plan().is_some() { "recorded" } else { "not recorded" }.to_owned());
    match report.plan() {
        Some(plan) => {
            of_plan(plan).into_iter().for_each(|(weight, name, value)| {
                put(weight, &format!("job {name}"), value);
            });
            if !across_targets {
                let all = [&plan.target].into_iter().chain(&plan.also);
                let all: Vec<_> = all.map(|target| format!("{}:{}", target.host, target.port)).collect();
                put(Weight::Same, "the target", all.join(", "));
            }
        }
        None => {
            put(Weight::Same, "the work", report.work.clone());
        }
    }
    put(Weight::Circumstance, "the file of the program (SHA-256)", report.manifest.binary.clone());
    put(Weight::Circumstance, "the number of workers", report.workers.len().to_string());
    let agreed: Vec<&str> = report.mix.agreed.keys().map(String::as_str).collect();
    put(Weight::Circumstance, "TLS as agreed", agreed.join(", "));
    for (place, worker) in report.workers.iter().enumerate() {
        put(Weight::Circumstance, &format!("worker {} threads", place + 1), worker.threads.to_string());
        for (name, value) in &worker.machine {
            put(Weight::Circumstance, &format!("worker {} {name}", place + 1), value.clone());
        }
    }
    facts
}

/// The facts of a plan, except those that should differ. Destructuring by field makes the compiler report a new one.
fn of_plan(plan: &Plan) -> Vec<(Weight, &'static str, String)> {
    // The mix and the target's address are separate facts.
    let Plan { target, work, model, think, tls, mix: _, close, connections, .. } = plan;
    let Plan { exchanges, duration, timeout, threads, sources: _, seed: _, .. } = plan;
    let mut same = vec![
        ("close", close.name().to_owned()),
        ("connections", connections.to_string()),
        ("exchanges", exchanges.map_or("unlimited".to_owned(), |number| number.to_string())),
    ];
    same.extend(think.map(|think| ("think", think.sentence())));
    of_work(work, &mut same);
    of_model(model, &mut same);
    match target.plain {
        true => same.push(("tls", "none".to_owned())),
        false => of_tls(tls, &mut same),
    }
    let circumstances = [
        ("duration", format!("{} s", duration.as_secs_f64())),
        ("timeout", format!("{} s", timeout.as_secs_f64())),
        ("threads", threads.to_string()),
    ];
    let weighed = |weight: Weight| move |(name, value): (&'static str, String)| (weight, name, value);
    same.into_iter()
        .map(weighed(Weight::Same))
        .chain(circumstances.map(weighed(Weight::Circumstance)))
        .collect()
}

fn of_work(work: &Work, facts: &mut Vec<(&'static str, String)>) {
    let (name, parts): (&str, Vec<(&'static str, String)>) = match work {
        Work::Handshake => ("handshake", Vec::new()),
        Work::Exchange { send, receive, echo } => (
            "exchange",
            vec![
                ("work.send", send.to_string()),
                ("work.receive", receive.to_string()),
                ("work.echo", echo.to_string()),
            ],
        ),
        Work::Bulk { send, receive } => {
            ("bulk", vec![("work.send", send.to_string()), ("work.receive", receive.to_string())])
        }
        Work::Idle { send, receive } => {
            ("idle", vec![("work.send", send.to_string()), ("work.receive", receive.to_string())])
        }
        Work::Http { version, authority: _, requests, streams, expect, in_order } => (
            "http",
            vec![
                ("work.version", version.name().to_owned()),
                ("work.requests", requests.iter().map(request).collect::<Vec<_>>().join(", ")),
                ("work.streams", streams.to_string()),
                ("work.expect", expect.to_string()),
                ("work.in_order", in_order.to_string()),
            ],
        ),
    };
    facts.push(("work", name.to_owned()));
    facts.extend(parts);
}

/// A request with its headers and body, without secrets.
fn request(request: &Request) -> String {
    let Request { weight, method, path, headers, body, take } = request;
    let headers: Vec<String> = headers.iter().map(Header::shown).collect();
    let body = body.as_ref().map_or(String::new(), |body| format!(" with {}", body.shown()));
    let taken =
        take.iter().map(|take| format!(" {} from {}", take.name, take.from.shown())).collect::<String>();
    format!("{weight} {method} {path} [{}]{body}{taken}", headers.join(", "))
}

fn of_model(model: &Model, facts: &mut Vec<(&'static str, String)>) {
    let Model::Open { stages, arrivals } = model else {
        facts.push(("model", "closed".to_owned()));
        return;
    };
    match stages.as_slice() {
        [one] if one.is_even() => {
            facts.extend([("model", "open".to_owned()), ("model.rate", one.from.to_string())]);
        }
        [one] => {
            facts.push(("model", "ramp".to_owned()));
            facts.extend([("model.from", one.from.to_string()), ("model.to", one.to.to_string())]);
        }
        several => {
            let stage = |stage: &Stage| format!("{}..{} for {}", stage.from, stage.to, stage.share);
            let stages = several.iter().map(stage).collect::<Vec<_>>().join(", ");
            facts.extend([("model", "stages".to_owned()), ("model.stages", stages)]);
        }
    }
    facts.push(("model.arrivals", arrivals.name().to_owned()));
}

fn of_tls(tls: &Tls, facts: &mut Vec<(&'static str, String)>) {
    let Tls { versions, suites, groups, server_name: _, server_names, alpn, .. } = tls;
    let Tls { client_certificate, verify, resume, early_data, .. } = tls;
    let names = server_names.iter().map(|name| format!("{} {}", name.weight, name.name));
    facts.extend([
        ("tls.versions", format!("{versions:?}")),
        ("tls.suites", format!("{suites:?}")),
        ("tls.groups", format!("{groups:?}")),
        ("tls.server_names", names.collect::<Vec<_>>().join(", ")),
        ("tls.alpn", format!("{alpn:?}")),
        (
            "tls.client_certificate",
            match client_certificate {
                Some((chain, key)) => format!("{} with {}", chain.display(), key.display()),
                None => "none".to_owned(),
            },
        ),
        (
            "tls.verify",
            match verify {
                Verify::Off => "off".to_owned(),
                Verify::System => "system".to_owned(),
                Verify::File(path) => path.display().to_string(),
            },
        ),
        ("tls.resume", resume.to_string()),
        ("tls.early_data", early_data.to_string()),
    ]);
}
