//! What makes runs incomparable, field by field.
//!
//! In: the reports of both sides. Out: sentences that name the field and both values.

use std::collections::{BTreeMap, BTreeSet};

use handfast_text::sort::IntoOrder as _;

use crate::model::{Member, Report, VerdictWord};
use crate::plan::{Header, Model, Plan, Request, Tls, Verify, Work};

/// Most sentences about one part, so that two wholly different jobs do not fill the screen.
const MOST: usize = 12;

/// What a report says of something.
type Said = fn(&Report) -> String;

/// Why the figures of both sides are of different things: another mix of clients, or other requests. Then no ratio of
/// them means anything.
pub(super) fn incomparable(a: &[Report], b: &[Report]) -> Vec<String> {
    let Some(first) = a.first() else { return Vec::new() };
    let parts: [(&str, Said); 2] = [("the mix of clients", clients), ("the list of requests", requests)];
    let mut found = Vec::new();
    for (what, said) in parts {
        let mine = said(first);
        let others = a.iter().chain(b).map(said);
        if let Some(theirs) = others.into_iter().find(|theirs| *theirs != mine) {
            let none = |said: &str| if said.is_empty() { "none".to_owned() } else { said.to_owned() };
            found.push(format!(
                "{what} differs: {} on one side, {} on the other",
                none(&mine),
                none(&theirs)
            ));
        }
    }
    found
}

/// Each kind of client with its share and what it offers; names that follow the target's are no difference.
fn clients(report: &Report) -> String {
    let offered = |place: usize, member: &Member| match report.plan().and_then(|plan| plan.mix.get(place)) {
        Some(wanted) => wanted.tls.sentence_without_names(),
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

/// Everything that keeps the figures from being compared as they stand.
pub(super) fn warnings(a: &[Report], b: &[Report]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (side, reports) in [("A", a), ("B", b)] {
        for (place, report) in reports.iter().enumerate() {
            if report.verdict.word != VerdictWord::Valid {
                let word = report.verdict.word.name();
                warnings.push(format!(
                    "run {} of {side} is {word}: its figures are not the target's, or do not hold",
                    place + 1
                ));
            }
        }
    }
    for (side, reports) in [("A", a), ("B", b)] {
        for (place, report) in reports.iter().enumerate().filter(|(_, report)| !report.stalled.is_empty()) {
            let seconds = crate::units::counted(report.stalled.len() as u64, "second");
            warnings.push(format!("in run {} of {side} the target stalled for {seconds}", place + 1));
        }
    }
    warnings.extend(one_after_the_other(a, b));
    let Some((first, rest)) = a.first().and_then(|first| Some((first, a.get(1..)?))) else { return warnings };
    // Against the first of A, so that a difference is told once; the runs of A among themselves too.
    let mut told = BTreeSet::new();
    let others = rest.iter().enumerate().map(|(place, report)| ("A", place + 2, report));
    for (side, run, report) in
        others.chain(b.iter().enumerate().map(|(place, report)| ("B", place + 1, report)))
    {
        for (field, mine, theirs) in differing(first, report) {
            if told.len() < MOST && told.insert(field.clone()) {
                warnings
                    .push(format!("{field} differs: {mine} in run 1 of A, {theirs} in run {run} of {side}"));
            }
        }
    }
    warnings
}

/// That all runs of one side came before all of the other, so that whatever drifted meanwhile is in the difference. Of one run
/// each nothing is said: they can be in no other order.
fn one_after_the_other(a: &[Report], b: &[Report]) -> Option<String> {
    if a.len() + b.len() <= 2 {
        return None;
    }
    let runs = a.iter().map(|report| ('A', report)).chain(b.iter().map(|report| ('B', report)));
    // RFC 3339 in UTC, all of the same length: their order as text is that of time.
    let mut runs: Vec<(&str, char)> =
        runs.map(|(side, report)| (report.manifest.started.as_str(), side)).collect();
    runs.sort_unstable();
    // Unknown, or within the same second: their order is not known.
    if runs.iter().any(|(started, _)| started.is_empty()) || runs.windows(2).any(|two| two[0].0 == two[1].0) {
        return None;
    }
    let changes = runs.windows(2).filter(|two| two[0].1 != two[1].1).count();
    let order: Vec<String> = runs.iter().map(|(_, side)| side.to_string()).collect();
    (changes == 1).then(|| {
        format!(
            "the runs were made one side after the other ({}), so what changed on the machine meanwhile looks like a \
             difference: make them in turn, A B B A",
            order.join(" ")
        )
    })
}

/// Fields that differ, with both values.
fn differing(a: &Report, b: &Report) -> Vec<(String, String, String)> {
    let (mut left, mut right) = (facts(a), facts(b));
    let names: BTreeSet<String> = left.keys().chain(right.keys()).cloned().into_set();
    let mut take = |name: &String| {
        let value = |side: &mut BTreeMap<String, String>| {
            side.remove(name).filter(|value| !value.is_empty()).unwrap_or_else(|| "none".into())
        };
        (name.clone(), value(&mut left), value(&mut right))
    };
    names.iter().map(&mut take).filter(|(_, mine, theirs)| mine != theirs).collect()
}

/// Everything that should be equal, flat. What is meant to differ (the target's address, the seed) is not among it.
fn facts(report: &Report) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    facts.insert("work".into(), report.work.clone());
    facts.insert("the certificate's verification".into(), report.mix.verification.clone());
    facts.insert("the program".into(), report.manifest.program.clone());
    facts.insert("the number of workers".into(), report.workers.len().to_string());
    let agreed: Vec<&str> = report.mix.agreed.keys().map(String::as_str).collect();
    facts.insert("TLS as agreed".into(), agreed.join(", "));
    for (name, value) in report.plan().map(of_plan).unwrap_or_default() {
        facts.insert(format!("job {name}"), value);
    }
    for (place, worker) in report.workers.iter().enumerate() {
        facts.insert(format!("worker {} threads", place + 1), worker.threads.to_string());
        for (name, value) in &worker.machine {
            facts.insert(format!("worker {} {name}", place + 1), value.clone());
        }
    }
    facts
}

/// What a plan says, but what is meant to differ. Each part is taken apart by its fields, so that a new one is not forgotten.
fn of_plan(plan: &Plan) -> Vec<(&'static str, String)> {
    // The mix is told apart, and then nothing is compared.
    let Plan { target: _, work, model, tls, mix: _, close, connections, .. } = plan;
    let Plan { exchanges, duration, timeout, threads, sources: _, seed: _, .. } = plan;
    let mut facts = vec![
        ("close", close.name().to_owned()),
        ("connections", connections.to_string()),
        ("exchanges", exchanges.map_or("unlimited".to_owned(), |number| number.to_string())),
        ("duration", format!("{} s", duration.as_secs_f64())),
        ("timeout", format!("{} s", timeout.as_secs_f64())),
        ("threads", threads.to_string()),
    ];
    of_work(work, &mut facts);
    of_model(model, &mut facts);
    of_tls(tls, &mut facts);
    facts
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
        Work::Http { version, authority: _, requests, streams } => (
            "http",
            vec![
                ("work.version", version.name().to_owned()),
                ("work.requests", requests.iter().map(request).collect::<Vec<_>>().join(", ")),
                ("work.streams", streams.to_string()),
            ],
        ),
    };
    facts.push(("work", name.to_owned()));
    facts.extend(parts);
}

/// A request with everything that it is sent with, but what may be secret.
fn request(request: &Request) -> String {
    let Request { weight, method, path, headers, body } = request;
    let headers: Vec<String> = headers.iter().map(Header::shown).collect();
    let body = body.as_ref().map_or(String::new(), |body| format!(" with {}", body.shown()));
    format!("{weight} {method} {path} [{}]{body}", headers.join(", "))
}

fn of_model(model: &Model, facts: &mut Vec<(&'static str, String)>) {
    let spaced = match model {
        Model::Closed => {
            facts.push(("model", "closed".to_owned()));
            return;
        }
        Model::Open { rate, arrivals } => {
            facts.extend([("model", "open".to_owned()), ("model.rate", rate.to_string())]);
            arrivals
        }
        Model::Ramp { from, to, arrivals } => {
            let rates = [("model.from", from.to_string()), ("model.to", to.to_string())];
            facts.push(("model", "ramp".to_owned()));
            facts.extend(rates);
            arrivals
        }
    };
    facts.push(("model.arrivals", spaced.name().to_owned()));
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
