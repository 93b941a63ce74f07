//! The sentences that the text and the HTML report share.
//!
//! In: a report. Out: what the verdict means, the headline, and what was done, as pairs of a word and a sentence.

use crate::model::{ErrorRow, Report, Second, Series, VerdictWord};
use crate::plan::{self, Arrivals, Model, Plan, Target};
use crate::units::{count, counted, duration, nanos, rate, share};

mod headline;
mod parts;
mod search;

pub(crate) use headline::{RunKind, counts, headline, in_a_line, missed, tiles};
pub(crate) use parts::{MEMBER_COLUMNS, REQUEST_COLUMNS, member, member_offers, request};
pub(crate) use search::search_result;

/// Share of the offered rate from which on it was taken: the verdict's own measure.
const TAKEN: f64 = 0.97;
/// Share of p99 that p99 of the lag is from which p99 is not the target's.
const LAG_SHARE_LIMIT: f64 = 0.5;

/// Explains a report's verdict to its reader.
pub(crate) fn meaning(report: &Report) -> &'static str {
    let totals = &report.totals;
    match report.verdict.word {
        VerdictWord::Valid if totals.offered_rate.is_none() && !report.stalled.is_empty() => {
            "The results describe the target, but it stalled for a while, and the percentiles of a closed model hide that."
        }
        VerdictWord::Valid if report.timeline.iter().any(|second| second.generator_paused_ns > 0) => {
            "The results describe the target up to p99; the generator was paused, and higher percentiles contain its pauses."
        }
        VerdictWord::Valid if is_mostly_lag(report) => {
            "The results describe the target, but for the higher percentiles of total: they are mostly lag, the wait before a transaction started."
        }
        VerdictWord::Valid => "The results describe the target and are stable.",
        VerdictWord::GeneratorLimited => {
            "The load generator was the bottleneck: these figures are its own, and say nothing of the target's limit."
        }
        VerdictWord::PortLimited => {
            "Source ports ran out: these figures are those of the machines that made the load, not the target's."
        }
        VerdictWord::TargetLimited
            if totals.offered_rate.is_some_and(|offered| totals.rate >= offered * TAKEN) =>
        {
            "Everything offered was handled, but some of it had to wait for a free connection, and that wait is in the latencies: the limit is the target's, or that of --connections."
        }
        VerdictWord::TargetLimited => {
            "Less was handled than was offered, and the generator had spare capacity: the rate is the limit of the target, or of --connections."
        }
        VerdictWord::Errors if totals.transactions == 0 && totals.failed == 0 => {
            "Nothing was measured: no transaction succeeded or failed."
        }
        VerdictWord::Errors if totals.failed.saturating_mul(100) < decided(report) => {
            "The run did not do what it was to do, although few transactions failed: the first line below says what was missing."
        }
        VerdictWord::Errors => {
            "Too many transactions failed: the latencies are only those of the ones that succeeded."
        }
    }
}

/// Returns true if p99 of the times from the intended start is mostly the lateness of the start.
fn is_mostly_lag(report: &Report) -> bool {
    let p99 = |name: &str| {
        let series = report.series.iter().find(|series| series.name == name)?;
        series.percentiles_ns.get("p99").copied()
    };
    let both = p99("lag").zip(p99("total"));
    both.is_some_and(|(lag, total)| lag as f64 >= total as f64 * LAG_SHARE_LIMIT)
}

/// The series that the timeline's histograms are of.
pub(crate) fn main_series(report: &Report) -> Option<&Series> {
    let counted: u64 = report.timeline.iter().map(|second| second.main.count()).sum();
    let named = |name: &&str| report.series.iter().find(|series| series.name == **name);
    // Of open connections, the seconds hold their handshakes, as many as there are totals.
    let candidates: &[&str] = match RunKind::of(report) {
        RunKind::Transactions => &["total", "exchange", "handshake"],
        RunKind::Bulk | RunKind::Idle => &["handshake"],
    };
    let exact = candidates.iter().filter_map(named).find(|series| series.count == counted);
    exact.or_else(|| candidates.iter().find_map(named)).or(report.series.first())
}

/// Explains a step's name.
pub(crate) fn step(name: &str) -> &'static str {
    match name {
        "connect" => "from dialling to an established TCP connection",
        "handshake" => "from the ClientHello to the end of the TLS handshake",
        "handshake-full" => "full handshakes only",
        "handshake-resumed" => "resumed handshakes only",
        "first-byte" => "from the first byte of a request to the first of its answer",
        "exchange" => "from the first byte of a request to the last of its answer",
        "total" => "from the intended start of a transaction to its last byte",
        "service" => "the same from its true start; in a stall it is large too, for those in flight",
        "lag" => "from the intended to the true start: our own delay, or no connection was free",
        _ => "",
    }
}

/// Transactions that were decided, well or badly.
fn decided(report: &Report) -> u64 {
    report.totals.transactions.saturating_add(report.totals.failed)
}

/// Failed ones in words: `0 of 48,120 failed`, `212 of 48,120 failed (0.44 %)`.
pub(crate) fn failed(report: &Report) -> String {
    let (failed, all) = (report.totals.failed, decided(report));
    match failed {
        0 if all == 0 => "nothing finished, and nothing failed".to_owned(),
        0 => format!("0 of {} failed", count(all)),
        _ => format!("{} of {} failed ({})", count(failed), count(all), share(failed as f64 / all as f64)),
    }
}

/// A percentile by its name in the report; `None` where fewer samples than one lie above it: it would be the maximum under another name.
pub(crate) fn percentile(series: &Series, name: &str) -> Option<u64> {
    let above = 1.0 - name.strip_prefix('p')?.parse::<f64>().ok()? / 100.0;
    // 0.999 of a thousand is 999 and a rounding error. A median is one of any number.
    let has_enough = above > 0.49 || series.count as f64 * above > 1.0 - 1e-6;
    has_enough.then(|| series.percentiles_ns.get(name).copied())?
}

pub(crate) fn per_second(value: f64) -> String {
    rate(value).trim_end_matches("/s").to_owned()
}

/// Describes the run: pairs of a word and a sentence, in the order in which a reader asks for them.
pub(crate) fn done(report: &Report) -> Vec<(&'static str, String)> {
    let plan = report.plan();
    // The model has a separate row.
    let work = plan.map_or_else(|| report.work.clone(), plan::transaction);
    let mut facts = vec![("target", target(report, plan)), ("work", work)];
    facts.extend(plan.map(|plan| ("model", model(report, plan))));
    match is_plain(report) {
        true => facts.push(("TLS", "none: the target is plain HTTP".to_owned())),
        false => tls(report, plan, &mut facts),
    }
    facts.extend(plan.map(|plan| ("close", plan.close.sentence().to_owned())));
    facts.push(("load from", machines(report)));
    facts
}

/// Returns true if the target was plain HTTP, so that there were no handshakes.
pub(crate) fn is_plain(report: &Report) -> bool {
    report.plan().is_some_and(|plan| plan.target.plain)
}

fn tls(report: &Report, plan: Option<&Plan>, facts: &mut Vec<(&'static str, String)>) {
    facts.push(("TLS", agreed(report)));
    let mix = Some(report.mix.offered.clone()).filter(|mix| !mix.is_empty());
    facts.extend(mix.or_else(|| plan.map(|plan| plan.tls.sentence())).map(|offered| ("offered", offered)));
    if !report.mix.verification.is_empty() {
        facts.push(("certificate", report.mix.verification.clone()));
    }
    facts.push(("resumption", resumption(report, plan)));
}

fn target(report: &Report, plan: Option<&Plan>) -> String {
    let addresses = report.manifest.addresses.join(", ");
    match plan.map(|plan| &plan.target) {
        Some(Target { host, port, .. }) if addresses.is_empty() => format!("{host} port {port}"),
        Some(Target { host, port, .. }) => format!("{host} port {port}, dialled as {addresses}"),
        None if addresses.is_empty() => "not recorded".into(),
        None => addresses,
    }
}

fn model(report: &Report, plan: &Plan) -> String {
    let connections = count(plan.connections.into());
    let seconds = duration(report.totals.duration_seconds * 1e9);
    let spaced = |arrivals: Arrivals| match arrivals {
        Arrivals::Poisson => "independently (Poisson)",
        Arrivals::Fixed => "at even distances",
    };
    let most = format!(", at most {connections} in flight");
    match &plan.model {
        Model::Closed => {
            let after = plan.think.map_or_else(
                || "when".to_owned(),
                |think| format!("after a think time of {} when", think.sentence()),
            );
            let each = match (RunKind::of(report), plan.exchanges) {
                (RunKind::Transactions, Some(_)) => format!("each starts again {after} it has ended"),
                (RunKind::Transactions, None) => {
                    format!("each starts its next exchange {after} the last one has ended")
                }
                (RunKind::Bulk | RunKind::Idle, _) => "each stays open to the end".to_owned(),
            };
            format!("closed: {connections} connections, {each}, for {seconds}")
        }
        Model::Open { stages, arrivals } => {
            let spaced = spaced(*arrivals);
            match (plan.model.only_rate(), stages.as_slice()) {
                (Some(rate), _) => {
                    // The job of a search has its first rate; the step that is shown has another.
                    let shown = report.search.as_ref().and(report.totals.offered_rate);
                    let rate = per_second(shown.unwrap_or(rate));
                    format!("open: {rate} start each second, {spaced}, for {seconds}{most}")
                }
                (None, [one]) => {
                    let (from, to) = (per_second(one.from), per_second(one.to));
                    format!("ramp: from {from} to {to} start each second, {spaced}, in {seconds}{most}")
                }
                (None, _) => format!("open: {} start, {spaced}{most}", plan::rates(plan)),
            }
        }
    }
}

/// Agreed parameters, the most frequent first.
fn agreed(report: &Report) -> String {
    let mut agreed: Vec<(&String, u64)> =
        report.mix.agreed.iter().map(|(what, count)| (what, *count)).collect();
    agreed.sort_by_key(|(what, count)| (std::cmp::Reverse(*count), *what));
    match agreed.as_slice() {
        [] => "no handshake succeeded".into(),
        [(only, _)] => format!("{only} in every handshake"),
        several => {
            let each = several.iter().map(|(what, times)| format!("{what} ({})", count(*times)));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

fn resumption(report: &Report, plan: Option<&Plan>) -> String {
    let mut text = match report.mix.wanted_resumed {
        0.0 => "not offered: every handshake was meant to be full".to_owned(),
        share_resumed => format!("wanted in {} of the handshakes", share(share_resumed)),
    };
    if plan.is_some_and(|plan| plan.tls.early_data) {
        text.push_str(", with the request as 0-RTT data");
    }
    text
}

fn machines(report: &Report) -> String {
    let threads: u32 = report.workers.iter().map(|worker| worker.threads).sum();
    let names = report.workers.iter().map(|worker| worker.name.as_str()).collect::<Vec<_>>();
    let threads = counted(threads.into(), "generator thread");
    match names.as_slice() {
        [] => "not recorded".into(),
        [only] => format!("{only}, {threads}"),
        few if few.len() <= 4 => format!("{} workers ({}), {threads}", few.len(), few.join(", ")),
        many => format!("{} workers, {threads}", many.len()),
    }
}

/// The observed mix: pairs of a word and a figure.
pub(crate) fn mix(report: &Report) -> Vec<(&'static str, String)> {
    let mix = &report.mix;
    let all = mix.full.saturating_add(mix.resumed);
    let of = |part: u64| match all {
        0 => count(part),
        _ => format!("{} ({})", count(part), share(part as f64 / all as f64)),
    };
    let mut rows = vec![("full", of(mix.full)), ("resumed", of(mix.resumed))];
    let mut rare = |name, value: u64| {
        if value > 0 {
            rows.push((name, of(value)));
        }
    };
    rare("HelloRetryRequest", mix.hello_retry);
    rare("0-RTT accepted", mix.early_data_accepted);
    rare("0-RTT refused", mix.early_data_refused);
    rare("no ticket left", mix.without_ticket);
    rows
}

/// Mean of a per-second gauge, and its greatest, over the seconds in which the gauges mean something.
pub(crate) fn gauge(report: &Report, of: fn(&Second) -> f64) -> Option<(f64, f64)> {
    let known = |row: &&Second| {
        row.generator_cpu + row.busiest_thread + row.generator_starved + row.machine_cpu > 0.0
    };
    let values = report.timeline.iter().filter(known).map(of).filter(|value| value.is_finite());
    let (sum, most, number) = values.fold((0.0, 0.0_f64, 0.0), |(s, m, n), v| (s + v, m.max(v), n + 1.0));
    (number > 0.0).then(|| (sum / number, most))
}

/// Describes the load of the generator, in sentences.
pub(crate) fn health(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let figures = |of| {
        gauge(report, of).map(|(mean, most)| format!("{} on average, {} at most", share(mean), share(most)))
    };
    lines.extend(figures(|s| s.generator_cpu).map(|t| format!("generator threads used their CPU: {t}")));
    lines.extend(figures(|s| s.busiest_thread).map(|t| format!("the busiest of them: {t}")));
    lines.extend(figures(|s| s.generator_starved).map(|t| format!("waited for a CPU: {t} of the time")));
    lines.extend(figures(|s| s.machine_cpu).map(|t| format!("the whole machine: {t}")));
    if report.totals.queued > 0 {
        let queued = count(report.totals.queued);
        lines.push(format!(
            "{queued} arrivals waited because as many as allowed were in flight (counted in total and lag)"
        ));
    }
    if report.workers.len() > 1 {
        lines.push(format!(
            "the workers started within {} of each other",
            nanos(report.manifest.start_skew_ns)
        ));
    }
    for worker in &report.workers {
        if let Some(lost) = &worker.lost {
            lines.push(format!("{} was lost: {lost}", worker.name));
        }
        // A lost one had no final word that could disagree.
        if worker.lost.is_none() && !worker.sums_agree {
            lines.push(format!("{}: its final totals are not the sum of its seconds", worker.name));
        }
    }
    lines
}

/// Examples of a failure, each once and with the address that was dialled where there is only one.
pub(crate) fn examples(report: &Report, row: &ErrorRow) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    for example in &row.examples {
        let bare = example.strip_prefix(&format!("{}: ", row.step)).unwrap_or(example);
        let addresses = match report.manifest.addresses.as_slice() {
            [address] if !bare.contains(address.as_str()) => format!("{address}: {bare}"),
            _ => bare.to_owned(),
        };
        if !examples.contains(&addresses) {
            examples.push(addresses);
        }
    }
    examples
}

/// Command line that repeats the run with the same choices: the command, with the seed that was drawn for it.
pub(crate) fn again(report: &Report) -> String {
    let command = &report.manifest.command;
    let has = |option: &str| {
        command.iter().any(|word| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    let mut words = command.clone();
    // A replayed report has its seed. The steps of a search have others, made of the job's.
    if !has("--seed") && !has("--replay") {
        let seed = report.plan().map_or(report.manifest.seed, |plan| plan.seed);
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    shell(&words)
}

/// A command line as a shell reads it.
pub(crate) fn shell(command: &[String]) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%[]".contains(c);
    let quoted = command.iter().map(|word| match word.as_str() {
        "" => "''".to_owned(),
        word if word.chars().all(safe) && !word.contains('[') => word.to_owned(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;
    use crate::model::Worker;

    #[test]
    fn what_was_done_names_group_verification_and_close() {
        let done = done(&made_up::report());
        let of =
            |name: &str| done.iter().find(|(word, _)| *word == name).map(|(_, text)| text.as_str()).unwrap();
        assert!(of("TLS").contains("X25519"), "{}", of("TLS"));
        assert!(of("offered").contains("groups X25519"), "{}", of("offered"));
        assert!(of("certificate").contains("not verified"), "{}", of("certificate"));
        assert!(of("close").contains("we end first"), "{}", of("close"));
        assert!(of("model").starts_with("open: 5,000 start each second"), "{}", of("model"));
        assert!(of("resumption").contains("50 %"), "{}", of("resumption"));
    }

    #[test]
    fn a_report_without_a_job_is_described_too() {
        let done = done(&Report::default());
        assert!(done.iter().any(|(word, text)| *word == "target" && text == "not recorded"));
        assert_eq!(
            headline(&Report::default()),
            ["0 transactions a second", "nothing finished, and nothing failed"]
        );
    }

    #[test]
    fn what_a_verdict_means_agrees_with_the_figures() {
        let mut report = made_up::report();
        let with = |word, rate, offered, report: &mut Report| {
            report.verdict.word = word;
            (report.totals.rate, report.totals.offered_rate) = (rate, offered);
            meaning(report).to_owned()
        };
        let target = VerdictWord::TargetLimited;
        assert!(
            with(target, 250.0, Some(300.0), &mut report).starts_with("Less was handled than was offered")
        );
        let waited = with(target, 315.0, Some(300.0), &mut report);
        assert!(waited.starts_with("Everything offered was handled, but some of it had to wait"), "{waited}");
        assert_eq!(
            with(VerdictWord::Valid, 9.0, None, &mut report),
            "The results describe the target and are stable."
        );
        report.stalled = vec![4, 5];
        let stood_still = with(VerdictWord::Valid, 9.0, None, &mut report);
        assert!(stood_still.contains("stalled") && !stood_still.contains("are stable"), "{stood_still}");
        assert!(
            with(VerdictWord::Valid, 9.0, Some(9.0), &mut report).ends_with("are stable."),
            "an open one shows it"
        );
        report.totals.failed = report.totals.transactions;
        assert!(
            with(VerdictWord::Errors, 0.0, None, &mut report).starts_with("Too many transactions failed")
        );
        (report.totals.transactions, report.totals.failed) = (0, 0);
        let nothing = with(VerdictWord::Errors, 0.0, Some(1.0), &mut report);
        assert!(nothing.starts_with("Nothing was measured"), "{nothing}");
    }

    #[test]
    fn work_and_model_do_not_say_the_same() {
        let mut report = made_up::report();
        let work_of = |report: &Report| done(report).into_iter().find(|(word, _)| *word == "work").unwrap().1;
        report.work = "another sentence".into();
        let plan = &mut report.manifest.job.as_mut().unwrap().plan;
        plan.exchanges = Some(3);
        plan.work = plan::Work::Exchange { send: 1, receive: 0, echo: false };
        assert_eq!(
            work_of(&report),
            "connect, TLS handshake (resumed where wanted), 3 times of: send 1 byte, receive 0 bytes; close"
        );
        report.manifest.job = None;
        assert_eq!(work_of(&report), report.work);
    }

    #[test]
    fn an_example_is_reported_once_with_its_source() {
        let mut report = made_up::report();
        let row = |step: &str, examples: &[&str]| ErrorRow {
            step: step.into(),
            examples: examples.iter().map(|example| (*example).to_owned()).collect(),
            ..ErrorRow::default()
        };
        let refused = row("connect", &["connect: refused", "connect: refused", "connect: reset"]);
        assert_eq!(examples(&report, &refused), ["10.0.0.7:8443: refused", "10.0.0.7:8443: reset"]);
        let named = row("exchange", &["read from 10.0.0.7:8443: late"]);
        assert_eq!(examples(&report, &named), ["read from 10.0.0.7:8443: late"]);
        report.manifest.addresses.push("10.0.0.8:8443".into());
        assert_eq!(examples(&report, &refused), ["refused", "reset"]);
    }

    #[test]
    fn to_repeat_a_run_takes_its_seed() {
        let mut report = made_up::report();
        assert!(again(&report).ends_with(" --duration 60s --seed 11"), "{}", again(&report));
        for own in ["--seed", "--seed=11", "--replay=run.json"] {
            report.manifest.command = ["handfast", "load", own].map(str::to_owned).into();
            assert_eq!(again(&report), format!("handfast load {own}"));
        }
    }

    #[test]
    fn seconds_without_gauges_do_not_count() {
        let row = |generator_cpu| Second { generator_cpu, machine_cpu: generator_cpu, ..Second::default() };
        let timeline = vec![row(0.2), row(0.4), row(0.0)];
        let report = Report { timeline, ..Report::default() };
        let (mean, most) = gauge(&report, |second| second.generator_cpu).unwrap();
        assert!((mean - 0.3).abs() < 1e-9 && (most - 0.4).abs() < 1e-9, "{mean} {most}");
        assert_eq!(gauge(&Report { timeline: vec![row(0.0)], ..Report::default() }, |s| s.machine_cpu), None);
    }

    #[test]
    fn errors_of_another_kind_do_not_contradict_the_count() {
        let mut report = Report::default();
        report.verdict.word = VerdictWord::Errors;
        (report.totals.transactions, report.totals.failed) = (2_432, 0);
        assert!(meaning(&report).contains("although few transactions failed"), "{}", meaning(&report));
        report.totals.failed = 100;
        assert!(meaning(&report).starts_with("Too many transactions failed"));
    }

    #[test]
    fn a_search_is_described_by_the_step_that_is_shown() {
        let mut report = made_up::report();
        report.search = Some(crate::model::Search::default());
        report.totals.offered_rate = Some(155.0);
        let model = |report: &Report| done(report).into_iter().find(|(word, _)| *word == "model").unwrap().1;
        assert!(model(&report).starts_with("open: 155 start each second"), "{}", model(&report));
    }

    #[test]
    fn a_percentile_of_too_few_samples_is_not_shown() {
        let shown = |count: u64| {
            let names = ["p50", "p90", "p99", "p99.9", "p99.99"];
            let percentiles_ns = names.map(|name| (name.to_owned(), 7)).into();
            let series = Series { count, percentiles_ns, ..Series::default() };
            names.iter().filter(|name| percentile(&series, name).is_some()).count()
        };
        for (count, expected) in
            [(1, 1), (9, 1), (10, 2), (16, 2), (99, 2), (100, 3), (1_000, 4), (9_999, 4), (10_000, 5)]
        {
            assert_eq!(shown(count), expected, "{count} samples");
        }
    }

    #[test]
    fn figures_with_the_generators_own_delay_do_not_hold() {
        let series = |name: &str, p99: u64| {
            let percentiles_ns = [("p99".to_owned(), p99)].into();
            Series { name: name.into(), percentiles_ns, ..Series::default() }
        };
        let with = |lag: u64, generator_paused_ns: u64| {
            let series = vec![series("total", 10_000_000), series("lag", lag)];
            let timeline = vec![Second { generator_paused_ns, ..Second::default() }];
            meaning(&Report { series, timeline, ..Report::default() })
        };
        assert!(with(4_900_000, 0).ends_with("are stable."));
        assert!(with(5_000_000, 0).contains("they are mostly lag"));
        assert!(with(0, 20_000_000).contains("the generator was paused"));
    }

    #[test]
    fn a_lost_worker_had_no_final_word() {
        let sentence_of = |lost: Option<&str>| {
            let worker = Worker { name: "w2".into(), lost: lost.map(str::to_owned), ..Worker::default() };
            health(&Report { workers: vec![worker], ..Report::default() }).join("\n")
        };
        assert_eq!(sentence_of(Some("silent")), "w2 was lost: silent");
        assert_eq!(sentence_of(None), "w2: its final totals are not the sum of its seconds");
    }

    #[test]
    fn a_command_can_be_pasted() {
        let command = ["handfast", "load", "a b", "it's", "", "$(x)", "[::1]:8443"].map(str::to_owned);
        assert_eq!(shell(&command), r"handfast load 'a b' 'it'\''s' '' '$(x)' '[::1]:8443'");
    }
}
