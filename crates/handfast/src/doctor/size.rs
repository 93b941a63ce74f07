//! `handfast doctor size`: the required load, and its cost according to the figures of `handfast speed`.
//!
//! In: [`SizeWords`], a [`SpeedReport`] of this machine or of another one. Out: what the load needs, for people and as JSON.

use std::path::Path;
use std::thread::available_parallelism;

use handfast_doctor::costs::{SHARE, SHARE_BULK};
use handfast_doctor::machine::Machine;
use handfast_doctor::pairs;
use handfast_doctor::size::{self, Costs, PlannedLoad, Term, to_report};
use handfast_load::speed;
use handfast_load::speed::operations::{Group, Signature};
use handfast_pki::files::read_input;
use handfast_report::ToolError;
use handfast_report::speed::{Limit, SpeedReport, Transaction, What, from_json};
use handfast_text::suggest::did_you_mean_or_all;
use handfast_text::units::counted;

use super::{ReportWithJson, program};
use crate::words::doctor::SizeWords;
use handfast_load::plan::values::{self, ValueError};

/// Most connections, backends and the like.
const MAX_COUNT: u64 = 1_000_000_000;
/// Bytes of a report of `handfast speed`.
const MAX_REPORT_BYTES: u64 = 16 << 20;
/// Most pairs of sockets: this number fits the source ports of any machine.
const MAX_PAIRS: u64 = 20_000;
/// The transaction whose limit the others are computed from.
const BASE: (Signature, Group) = (Signature::EcdsaP256, Group::X25519);

/// The resources for the load.
///
/// **Errors**: all mistakes of the command line; a bad file of `--from`; a failed measurement.
pub(super) fn size(words: &SizeWords) -> Result<ReportWithJson, ToolError> {
    let mut planned = planned_load(words)?;
    let machine = Machine::here();
    let costs = costs(words, &mut planned)?;
    let pairs = values::number(&words.pairs, 1, MAX_PAIRS).unwrap_or(1);
    let kernel = pairs::measure(&machine, pairs);
    let size = size::size(&machine, &program(), planned, costs, kernel);
    let mut report = to_report(&size);
    report.sort();
    Ok((report, size.to_json()))
}

/// The parsed options, and all mistakes.
fn planned_load(words: &SizeWords) -> Result<PlannedLoad, ToolError> {
    let mut wrong = Vec::new();
    let mut note = |option: &str, what: String| wrong.push(format!("--{option}: {what}"));
    let mut figure = |option: &str, read: Result<f64, ValueError>| {
        read.unwrap_or_else(|error| {
            note(option, error.to_string());
            1.0
        })
    };
    let whole = |text: &str, least| values::number(text, least, MAX_COUNT).map(|number| number as f64);
    let rate = |text: &Option<String>| text.as_deref().map_or(Ok(0.0), values::rate);
    let made = PlannedLoad {
        full_per_second: figure("full", rate(&words.full)),
        resumed_per_second: figure("resumed", rate(&words.resumed)),
        open: figure("open", words.open.as_deref().map_or(Ok(0.0), |text| whole(text, 1))) as u64,
        bytes_per_second: figure(
            "bytes",
            words.bytes.as_deref().map_or(Ok(0.0), |text| values::size(text).map(|size| size as f64)),
        ) as u64,
        backend_tls: words.backend_tls,
        backends: figure("backends", whole(&words.backends, 0)) as u64,
        sources: figure("sources", whole(&words.sources, 1)) as u64,
        busy: figure("busy", values::share(&words.busy)),
        rtt_seconds: figure("rtt", values::time(&words.rtt).map(|time| time.as_secs_f64())),
        cores: figure("cores", words.cores.as_deref().map_or(Ok(0.0), |text| whole(text, 1))) as u64,
        key: String::new(),
        group: String::new(),
    };
    figure("pairs", values::number(&words.pairs, 1, MAX_PAIRS).map(|number| number as f64));
    let keys = Signature::ALL.map(Signature::name);
    let key = keys.into_iter().find(|name| name.eq_ignore_ascii_case(&words.key));
    let groups = Group::ALL.map(Group::name);
    let group = Group::ALL.into_iter().find(|group| {
        [group.name(), group.iana()].iter().any(|name| name.eq_ignore_ascii_case(&words.group))
    });
    for (option, text, all, known) in
        [("key", &words.key, &keys[..], key.is_some()), ("group", &words.group, &groups[..], group.is_some())]
    {
        if !known {
            note(option, format!("{text:?}: {}", did_you_mean_or_all(text, all)));
        }
    }
    if made.busy <= 0.0 {
        note("busy", "nothing may be busy, expected a share above 0 such as 70%".to_owned());
    }
    if made.full_per_second + made.resumed_per_second == 0.0 && made.open + made.bytes_per_second == 0 {
        wrong.push(
            "nothing is wanted, expected at least one of --full, --resumed, --open, --bytes".to_owned(),
        );
    }
    if !wrong.is_empty() {
        return Err(ToolError::wrong_use(wrong.join("\n")));
    }
    let name = |name: Option<&str>| name.unwrap_or_default().to_owned();
    Ok(PlannedLoad { key: name(key), group: name(group.map(Group::name)), ..made })
}

/// The cost of the required load; nothing is measured for connections that only stay open.
fn costs(words: &SizeWords, planned: &mut PlannedLoad) -> Result<Costs, ToolError> {
    let computes = planned.full_per_second + planned.resumed_per_second > 0.0 || planned.bytes_per_second > 0;
    let report = match &words.from {
        Some(path) => read(path)?,
        None if computes => {
            let settings = speed::SpeedSettings { limit: true, ..speed::SpeedSettings::default() };
            crate::speed::measured(&settings, "handfast doctor size")?
        }
        None => {
            if planned.cores == 0 {
                planned.cores = available_parallelism().map_or(1, |cores| cores.get() as u64);
            }
            return Ok(Costs {
                source: "nothing is computed for connections that only stay open".to_owned(),
                ..Costs::default()
            });
        }
    };
    if planned.cores == 0 {
        planned.cores = u64::from(report.cores.max(1));
    }
    let source = match &words.from {
        Some(path) => format!("{} ({}, {})", path.display(), report.started, report.program),
        None => "handfast speed --limit of this machine, now".to_owned(),
    };
    computed(&report, planned, source).ok_or_else(|| {
        let what = words
            .from
            .as_deref()
            .map_or("handfast speed".to_owned(), |path| format!("--from {}", path.display()));
        ToolError::wrong_use(format!(
            "{what}: it has not what {} with {} takes, expected the limit, and the operations of both",
            planned.key, planned.group
        ))
        .hint("make it with `handfast speed --limit --json FILE`")
    })
}

fn read(path: &Path) -> Result<SpeedReport, ToolError> {
    let wrong = |what: String| ToolError::wrong_use(format!("--from {}: {what}", path.display()));
    let text = read_input(path, MAX_REPORT_BYTES).map_err(|error| wrong(error.to_string()))?;
    let text = str::from_utf8(&text).map_err(|error| wrong(error.to_string()))?;
    from_json(text).map_err(|error| wrong(error.to_string()))
}

/// The costs of the required load; `None`: the report lacks figures for them.
fn computed(report: &SpeedReport, planned: &PlannedLoad, source: String) -> Option<Costs> {
    let limit = report.limit.as_ref()?;
    let signature = Signature::ALL.into_iter().find(|kind| kind.name() == planned.key)?;
    let group = Group::ALL.into_iter().find(|group| group.name() == planned.group)?;
    let base = transaction(limit, Some(BASE.0), BASE.1)?;
    // The overhead does not depend on the kind of key: with RSA-2048 the proxy reaches 88 % of the limit, and this predicts 92 %.
    let own = base.ns * (1.0 / SHARE.value - 1.0);
    let mut costs = Costs {
        cpu: report.cpu.clone(),
        source: format!("{source}: {}, {}", report.cpu, counted(u64::from(report.cores), "core")),
        efficiency: efficiency(report),
        carried_bytes: 2 * u64::from(limit.exchange_bytes),
        each: Vec::new(),
    };
    for (name, kind) in [("full", Some(signature)), ("resumed", None)] {
        let mut terms = vec![
            library(report, limit, kind, group)?,
            term("sockets (a bare relay)", limit.relay.time.ns),
            term(&format!("the proxy's own ({})", SHARE.source), own),
        ];
        terms.extend(behind(report, limit, planned)?);
        costs.add(name, terms, planned.cores);
    }
    let sides = if planned.backend_tls { 2.0 } else { 1.0 };
    let terms = vec![
        term("TLS", limit.library_byte_ns * sides),
        term("sockets (a bare relay)", limit.relay_byte_ns),
        term(
            &format!("the proxy's own ({})", SHARE_BULK.source),
            limit.byte_ns * (1.0 / SHARE_BULK.value - 1.0),
        ),
    ];
    costs.add("byte", terms, planned.cores);
    Some(costs)
}

fn term(name: &str, ns: f64) -> Term {
    Term { name: name.to_owned(), ns }
}

/// The throughput of all cores, divided by that of one core and their number.
fn efficiency(report: &SpeedReport) -> f64 {
    let base = report
        .handshakes
        .iter()
        .find(|one| one.certificate.as_deref() == Some(BASE.0.name()) && one.group == BASE.1.name());
    let factor = base.and_then(|one| one.all_cores).map(|all| all.factor);
    factor.map_or(1.0, |factor| (factor / f64::from(report.cores.max(1))).clamp(0.01, 1.0))
}

fn transaction(limit: &Limit, kind: Option<Signature>, group: Group) -> Option<&Transaction> {
    let name = kind.map(Signature::name);
    limit.transactions.iter().find(|one| one.certificate.as_deref() == name && one.group == group.name())
}

/// The TLS library's part of a connection: measured, or computed from another measurement.
fn library(report: &SpeedReport, limit: &Limit, kind: Option<Signature>, group: Group) -> Option<Term> {
    let with = kind.map_or("resumed".to_owned(), |kind| format!("with {}", kind.name()));
    let name = format!("TLS ({with}, {}, {} bytes each way", group.name(), limit.exchange_bytes);
    if let Some(measured) = transaction(limit, kind, group) {
        return Some(term(&format!("{name})"), measured.library.ns));
    }
    let nearest = kind.map(|kind| transaction(limit, Some(kind), BASE.1).map_or(BASE.0, |_| kind));
    let measured = transaction(limit, nearest, BASE.1)?;
    let time = |what, name: &str| Some(report.operation(what, name, None)?.time.ns);
    let exchange = |group: Group| match group {
        Group::X25519Mlkem768 => time(What::Answer, group.name()),
        _ => Some(time(What::Share, group.name())? + time(What::Agree, group.name())?),
    };
    let sign = |kind: Option<Signature>| kind.map_or(Some(0.0), |kind| time(What::Sign, kind.name()));
    let ns = measured.library.ns + exchange(group)? - exchange(BASE.1)? + sign(kind)? - sign(nearest)?;
    let instead = nearest.map_or("resumed".to_owned(), |kind| kind.name().to_owned());
    Some(term(&format!("{name}; from {instead}, {}, with the other operations)", BASE.1.name()), ns.max(0.0)))
}

/// The additional cost of TLS with the backend, if requested: a resumed session on our side, and the bytes once more.
fn behind(report: &SpeedReport, limit: &Limit, planned: &PlannedLoad) -> Option<Vec<Term>> {
    if !planned.backend_tls {
        return Some(Vec::new());
    }
    let resumed =
        report.handshakes.iter().find(|one| one.certificate.is_none() && one.group == BASE.1.name())?;
    let bytes = limit.library_byte_ns * 2.0 * f64::from(limit.exchange_bytes);
    Some(vec![term("TLS with the backend (resumed)", resumed.client.ns + bytes)])
}

#[cfg(test)]
mod tests {
    use handfast_report::speed::{Handshake, Operation, Relay, Time};

    use super::*;

    fn time(ns: f64) -> Time {
        Time { ns, spread: 0.0 }
    }

    fn report() -> SpeedReport {
        let operation = |(what, name, ns): (What, &str, f64)| Operation {
            what,
            name: name.into(),
            bytes: None,
            time: time(ns),
            per_second: 1e9 / ns,
            all_cores: None,
        };
        let operations = [
            (What::Share, "X25519", 20e3),
            (What::Agree, "X25519", 30e3),
            (What::Answer, "X25519MLKEM768", 90e3),
            (What::Sign, "ECDSA-P256", 20e3),
            (What::Sign, "RSA-4096", 4_000e3),
        ];
        let transaction = |certificate: Option<&str>, ns: f64| Transaction {
            certificate: certificate.map(str::to_owned),
            group: "X25519".into(),
            library: time(ns),
            ns: ns + 50e3,
            per_second: 0.0,
        };
        let handshake = Handshake {
            certificate: None,
            group: "X25519".into(),
            server: time(90e3),
            client: time(95e3),
            per_second: 0.0,
            all_cores: None,
        };
        SpeedReport {
            cores: 2,
            operations: operations.map(operation).into(),
            handshakes: vec![handshake],
            limit: Some(Limit {
                exchange_bytes: 4096,
                relay: Relay { time: time(50e3), busy: 1.0, one_cpu: true },
                transactions: vec![transaction(Some("ECDSA-P256"), 100e3), transaction(None, 85e3)],
                relay_exchange_ns: 1.0,
                library_exchange_ns: 1.0,
                exchange_ns: 2.0,
                relay_byte_ns: 0.2,
                library_byte_ns: 0.3,
                byte_ns: 0.5,
                bytes_per_second: 2e9,
            }),
            ..SpeedReport::default()
        }
    }

    fn sums(key: &str, group: &str, backend_tls: bool) -> Option<Vec<u64>> {
        let planned = PlannedLoad {
            key: key.into(),
            group: group.into(),
            backend_tls,
            cores: 2,
            ..PlannedLoad::default()
        };
        let costs = computed(&report(), &planned, String::new())?;
        Some(costs.each.iter().map(|cost| (cost.ns * 1e3).round() as u64).collect())
    }

    #[test]
    fn costs_are_library_sockets_and_the_proxys_own() {
        // 100 + 50 µs, of which a third again is the proxy's own; 0.5 ns / 0.71.
        assert_eq!(sums("ECDSA-P256", "X25519", false), Some(vec![200_000_000, 185_000_000, 704]));
        let signed = 4_000_000_000 - 20_000_000;
        assert_eq!(sums("RSA-4096", "X25519", false), Some(vec![200_000_000 + signed, 185_000_000, 704]));
        assert_eq!(
            sums("ECDSA-P256", "X25519MLKEM768", false),
            Some(vec![240_000_000, 225_000_000, 704]),
            "the other key exchange"
        );
        let both = 95_000_000 + 2_457_600;
        assert_eq!(
            sums("ECDSA-P256", "X25519", true),
            Some(vec![200_000_000 + both, 185_000_000 + both, 1_004])
        );
        assert_eq!(sums("RSA-2048", "X25519", false), None, "it was not measured");
    }
}
