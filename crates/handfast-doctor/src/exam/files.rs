//! Open files: the limit of a process started here, and that of the machine.
//!
//! In: /proc/self/limits, fs.nr_open, fs.file-nr. Out: findings, and the possible number of connections.

use handfast_text::units::{count, counted, share_of};

use super::Exam;
use crate::report::{Finding, Severity};

/// Descriptors that a proxied connection takes: the client's and the backend's.
pub(crate) const FOR_EACH: u64 = 2;
/// Descriptors that a proxy needs beside connections: an eighth of the limit, within these bounds.
const RESERVED: (u64, u64) = (40, 128);
/// Connections below which the limit is called low.
const MIN_CONNECTIONS: u64 = 2_000;
/// Shares of the machine's files from which on it is a finding.
const WARNING_SHARE: f64 = 0.7;
const ERROR_SHARE: f64 = 0.9;

/// Proxied connections that a limit on open files allows.
pub(crate) fn connections(limit: u64) -> u64 {
    let reserved = (limit / 8).clamp(RESERVED.0, RESERVED.1);
    limit.saturating_sub(reserved) / FOR_EACH
}

/// A limit in words.
pub(crate) fn words(limit: u64) -> String {
    if limit == u64::MAX { "unlimited".to_owned() } else { count(limit) }
}

pub(super) fn examine(exam: &mut Exam<'_>) {
    match exam.machine.file_limits("self") {
        Some((soft, hard)) => own(exam, soft, hard),
        None => exam.report.not_seen("the limit on open files", "no /proc/self/limits here"),
    }
    let numbers = exam.machine.numbers("fs.file-nr");
    let [used, _, most] = numbers[..] else {
        exam.report.not_seen("open files of the whole machine", "no /proc/sys/fs/file-nr here");
        return;
    };
    let share = used as f64 / most.max(1) as f64;
    if share >= WARNING_SHARE {
        let severity = if share >= ERROR_SHARE { Severity::Critical } else { Severity::Warning };
        let title = format!(
            "open files of the machine: {} of {} ({})",
            count(used),
            count(most),
            share_of(used, most)
        );
        let consequence = "at the end every program gets ENFILE, \"too many open files in system\"";
        exam.report.find(
            Finding::new(severity, "open-files", title, consequence)
                .change(format!("sysctl -w fs.file-max={}", most.saturating_mul(2))),
        );
    }
}

fn own(exam: &mut Exam<'_>, soft: u64, hard: u64) {
    let possible = connections(hard);
    let sentence = format!(
        "{} for a process started from here (soft limit), which it may raise to {} (hard limit): Handfast does, which makes \
         ({} - {}) / {FOR_EACH} = {} proxied connections",
        words(soft),
        words(hard),
        words(hard),
        (hard / 8).clamp(RESERVED.0, RESERVED.1),
        if hard == u64::MAX { "no limit of".to_owned() } else { count(possible) }
    );
    exam.report.fact("open files", sentence);
    if possible >= MIN_CONNECTIONS {
        return;
    }
    let title = format!(
        "a process started from here may have {}: {} at once",
        counted(hard, "open file"),
        counted(possible, "proxied connection")
    );
    let arithmetic = format!(
        "({} hard limit - {} for everything else) / {FOR_EACH} descriptors for each connection = {}",
        count(hard),
        (hard / 8).clamp(RESERVED.0, RESERVED.1),
        count(possible)
    );
    let consequence = "further clients wait in the accept queue until one leaves; programs that do not count get EMFILE, \"too many \
                       open files\"";
    let most = exam.machine.number("fs.nr_open").unwrap_or(1_048_576);
    exam.report.find(
        Finding::warning("open-files", title, consequence)
            .because(arithmetic)
            .change(format!("ulimit -Hn {}   (as root, at most fs.nr_open)", most.min(524_288)))
            .change("LimitNOFILE=524288   (in the [Service] section of a systemd unit)"),
    );
}
