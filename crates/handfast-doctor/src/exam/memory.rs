//! Memory of TCP, orphans, and connection tracking: tables that refuse when they are full.
//!
//! In: /proc/net/sockstat and sysctls. Out: findings, and how full each is.

use handfast_text::units::{bytes, count, share_of};

use super::Exam;
use crate::machine::field;
use crate::report::{Finding, Severity};

/// Shares from which on it is a finding.
const WARNING_SHARE: f64 = 0.6;
const NOW: f64 = 0.9;
/// Bytes of a page; what /proc counts TCP's memory in.
const PAGE: u64 = 4096;

fn severity(used: u64, most: u64) -> Option<Severity> {
    match used as f64 / most.max(1) as f64 {
        share if share >= NOW => Some(Severity::Critical),
        share if share >= WARNING_SHARE => Some(Severity::Warning),
        _ => None,
    }
}

pub(super) fn examine(exam: &mut Exam<'_>) {
    tcp(exam);
    lost(exam);
    tracking(exam);
}

/// `TCP: inuse 4 orphan 0 tw 0 alloc 4 mem 292`.
fn tcp(exam: &mut Exam<'_>) {
    let stat = exam.machine.read("/proc/net/sockstat").unwrap_or_default();
    let words: Vec<&str> = field(&stat, "TCP").unwrap_or_default().split_whitespace().collect();
    let value = |name: &str| -> Option<u64> {
        words.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair.get(1)?.parse().ok())
    };
    let limits = exam.machine.numbers("net.ipv4.tcp_mem");
    match (value("mem"), &limits[..]) {
        (Some(used), [_, pressure, most]) => memory(exam, used, *pressure, *most),
        _ => exam
            .report
            .not_seen("memory of TCP", "no net.ipv4.tcp_mem here; a container's kernel does not show it"),
    }
    let Some((orphans, most)) = value("orphan").zip(exam.machine.number("net.ipv4.tcp_max_orphans")) else {
        exam.report.not_seen("orphaned connections", "no net.ipv4.tcp_max_orphans here");
        return;
    };
    if let Some(severity) = severity(orphans, most) {
        let title = format!(
            "orphaned connections: {} of {} ({})",
            count(orphans),
            count(most),
            share_of(orphans, most)
        );
        let consequence = "an orphan was closed by its program with bytes unsent; when there are too many, connections are reset \
                           instead of ended, and their last bytes are lost";
        exam.report.find(
            Finding::new(severity, "orphans", title, consequence)
                .because("each may hold up to 64 KiB of memory that cannot be swapped (Documentation/networking/ip-sysctl)")
                .change(format!("sysctl -w net.ipv4.tcp_max_orphans={}", most.saturating_mul(2)))
                .change("sysctl -w net.ipv4.tcp_fin_timeout=30   (FIN_WAIT2 of orphans ends sooner)"),
        );
    }
}

fn memory(exam: &mut Exam<'_>, used: u64, pressure: u64, most: u64) {
    let sentence = format!(
        "{} of {} in buffers; from {} on the kernel makes windows smaller (tcp_mem, in pages of {PAGE} bytes)",
        bytes(used * PAGE),
        bytes(most * PAGE),
        bytes(pressure * PAGE)
    );
    exam.report.fact("memory of TCP", sentence);
    if let Some(severity) = severity(used, most) {
        let title = format!(
            "memory of TCP: {} of {} ({})",
            bytes(used * PAGE),
            bytes(most * PAGE),
            share_of(used, most)
        );
        let consequence = "above the second figure of tcp_mem windows shrink and everything gets slow; at the third connections are \
                           dropped (\"out of memory\" in dmesg)";
        let twice =
            [pressure, pressure.saturating_mul(2), most.saturating_mul(2)].map(|pages| pages.to_string());
        exam.report.find(
            Finding::new(severity, "tcp-memory", title, consequence)
                .because(format!("{} pages × {PAGE} bytes = {}", count(used), bytes(used * PAGE)))
                .change(format!("sysctl -w net.ipv4.tcp_mem='{}'", twice.join(" ")))
                .change("who holds it: ss -tm"),
        );
    }
}

/// Losses caused by missing memory.
fn lost(exam: &mut Exam<'_>) {
    let lost = exam.counted_loss(&["TCPAbortOnMemory"], "tcp-memory", |how_many| {
        let title = format!(
            "connections reset because of too little memory or too many orphans: {how_many} (TCPAbortOnMemory)"
        );
        (title, "each was a client's or a backend's connection that ended in the middle".to_owned())
    });
    if let Some(finding) = lost {
        exam.report.find(finding.change("dmesg | grep -i tcp   (says which of both it was)"));
    }
    let pressed = exam.counted_loss(&["TCPMemoryPressures"], "tcp-memory", |how_many| {
        let title = format!("TCP came under memory pressure: {how_many} (TCPMemoryPressures)");
        (title, "windows shrink meanwhile, and all connections get slow".to_owned())
    });
    if let Some(finding) = pressed {
        exam.report.find(finding.change("sysctl net.ipv4.tcp_mem, and ss -tm for who holds it"));
    }
}

fn tracking(exam: &mut Exam<'_>) {
    let count_of = exam.machine.number("net.netfilter.nf_conntrack_count");
    let Some((used, most)) = count_of.zip(exam.machine.number("net.netfilter.nf_conntrack_max")) else {
        // Without the module, connections are not tracked.
        exam.report.fact("conntrack", "off, or not visible in this container");
        return;
    };
    let sentence =
        format!("{} of {} connections are tracked; a proxied one is two of them", count(used), count(most));
    exam.report.fact("conntrack", sentence);
    let dropped = dropped(&exam.machine.read("/proc/net/stat/nf_conntrack").unwrap_or_default());
    let severity = severity(used, most).or_else(|| (dropped > 0).then_some(Severity::Warning));
    let Some(severity) = severity else { return };
    let title = format!(
        "conntrack: {} of {} connections ({}), {} dropped since the start",
        count(used),
        count(most),
        share_of(used, most),
        count(dropped)
    );
    let consequence = "when the table is full, packets of new connections are dropped (\"nf_conntrack: table full\" in dmesg), and \
                       everything looks like loss on the network";
    exam.report.find(
        Finding::new(severity, "conntrack", title, consequence)
            .because("a connection stays there for as long as it is open, and 120 s more in TIME_WAIT (nf_conntrack_tcp_timeout_time_wait)")
            .change(format!("sysctl -w net.netfilter.nf_conntrack_max={}", most.saturating_mul(2)))
            .change("or do not track the proxy's ports: nft add rule … tcp dport 443 notrack"),
    );
}

/// Sum of the column `drop` over all CPUs, whose figures are hexadecimal.
fn dropped(stat: &str) -> u64 {
    let mut lines = stat.lines();
    let names = lines.next().unwrap_or_default();
    let Some(column) = names.split_whitespace().position(|name| name == "drop") else { return 0 };
    let of_line = |line: &str| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok();
    lines.filter_map(of_line).sum()
}
