//! The CPU and the clock: instructions that make TLS faster, CPU time that a hypervisor steals, a clock that is slow to read or
//! wrong.
//!
//! In: /proc/cpuinfo, counters, /sys/devices/system/clocksource, adjtimex(2). Out: findings and facts.

use std::time::{Duration, SystemTime};

use handfast_net::clock::{Synchronised, synchronised};
use handfast_text::calendar::Utc;
use handfast_text::units::{duration, share};
use handfast_tls::features::features_of;

use super::Exam;
use crate::machine::field;
use crate::report::Finding;

/// Without these AES-GCM, which nearly every connection uses, is done in software.
const NEEDED: [&str; 3] = ["aes", "pclmulqdq", "pmull"];
/// Share of stolen CPU time from which on it is a finding.
const STOLEN: f64 = 0.05;
/// Clock sources that are read without a system call.
const QUICK: [&str; 5] =
    ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"];
/// 2025-01-01: a clock before it was never set.
const NEVER_SET: u64 = 1_735_689_600;
/// A clock error without effect on certificates and tickets.
const TOLERATED: Duration = Duration::from_secs(1);

pub(super) fn examine(exam: &mut Exam<'_>) {
    instructions(exam);
    stolen(exam);
    clock_source(exam);
    time(exam);
}

fn instructions(exam: &mut Exam<'_>) {
    let Ok(text) = exam.machine.read("/proc/cpuinfo") else {
        exam.report.not_seen("instructions of the CPU", "no /proc/cpuinfo here");
        return;
    };
    let flags = field(&text, "flags").or_else(|| field(&text, "Features")).unwrap_or_default();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    if flags.is_empty() {
        exam.report.not_seen("instructions of the CPU", "/proc/cpuinfo names none");
        return;
    }
    let (found, missing) = features_of(&flags);
    let mut sentence = found.join(" ");
    if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().map(|(name, cost)| format!("{name} ({cost})")).collect();
        sentence.push_str(&format!("; missing: {}", missing.join(", ")));
    }
    exam.report.fact("instructions", sentence);
    for (name, cost) in missing.into_iter().filter(|(name, _)| NEEDED.contains(name)) {
        let guest = flags.contains(&"hypervisor");
        let change = if guest {
            "give the virtual machine the host's CPU model (QEMU: -cpu host; libvirt: <cpu mode='host-passthrough'/>)"
        } else {
            "prefer ChaCha20-Poly1305 here (suites in handfast.toml), or another machine; see the BIOS for disabled AES"
        };
        exam.report.find(
            Finding::warning("cpu-instructions", format!("the CPU shows no {name}"), cost).change(change),
        );
    }
}

fn stolen(exam: &mut Exam<'_>) {
    let stolen = exam.now.stolen_since(&exam.before);
    if stolen >= STOLEN {
        let title = format!("the hypervisor took {} of the CPUs' time for others just now", share(stolen));
        let consequence =
            "handshakes wait although the CPUs look idle, and latencies depend on other virtual machines";
        exam.report
            .find(Finding::warning("steal", title, consequence).change("another host, or dedicated CPUs"));
    }
}

fn clock_source(exam: &mut Exam<'_>) {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let Some(current) = exam.machine.line(&format!("{folder}/current_clocksource")) else {
        exam.report.not_seen("the clock source", format!("no {folder} here"));
        return;
    };
    if QUICK.contains(&current.as_str()) {
        return;
    }
    let available = exam.machine.line(&format!("{folder}/available_clocksource")).unwrap_or_default();
    let title = format!("the clock source is {current} (available: {available})");
    let consequence = "each look at the clock is a system call of about a microsecond instead of 30 ns, and a proxy looks several \
                       times for each connection";
    let finding = Finding::warning("clock-source", title, consequence);
    let quick = available.split_whitespace().find(|name| QUICK.contains(name));
    exam.report.find(match quick {
        Some(quick) => finding.change(format!("echo {quick} > {folder}/current_clocksource")),
        None => finding.change("dmesg | grep -i clocksource   (shows why the kernel rejected tsc)"),
    });
}

fn time(exam: &mut Exam<'_>) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if now.as_secs() < NEVER_SET {
        let title = format!("the clock says {}", Utc::of(SystemTime::now()).for_people());
        let consequence = "certificates look as if they were not valid yet, and no peer is trusted";
        exam.report
            .find(Finding::critical("clock", title, consequence).change("chronyc makestep   (or: ntpd -gq)"));
    }
    if !exam.machine.is_real() {
        return;
    }
    match synchronised() {
        Ok(Synchronised::Yes { error }) if error <= TOLERATED => {
            let sentence = format!("synchronised, wrong by {} at most", duration(error.as_nanos() as f64));
            exam.report.fact("clock", sentence);
        }
        Ok(Synchronised::Yes { error }) => {
            let title = format!("the clock may be wrong by {}", duration(error.as_nanos() as f64));
            let consequence = "certificates, OCSP responses and tickets are judged by it";
            exam.report.find(Finding::warning("clock", title, consequence).change("chronyc tracking"));
        }
        // The host may set it without the kernel's knowledge, so this is no finding.
        Ok(Synchronised::No) => exam.report.fact(
            "clock",
            "nothing here synchronises it (by adjtimex); certificates, OCSP responses and tickets are judged by it, so \
             have chrony or the host do it",
        ),
        Err(error) => exam.report.not_seen("whether the clock is synchronised", error.to_string()),
    }
}
