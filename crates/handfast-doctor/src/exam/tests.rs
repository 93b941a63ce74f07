//! Each finding from files that show it, and none from files that do not.

use super::testing::Planted;
use crate::report::{Report, Severity};

/// The only finding of a machine that is healthy but for one file.
fn with(path: &str, text: &str) -> (Severity, &'static str, String) {
    let planted = Planted::healthy();
    planted.put(path, text);
    let report = planted.examined();
    let [finding] = &report.findings[..] else { panic!("{path}: {:#?}", report.findings) };
    assert!(!finding.consequence.is_empty() && !finding.change.is_empty(), "{finding:?}");
    (finding.severity, finding.topic, format!("{}; {}", finding.title, finding.arithmetic))
}

fn sysctl(name: &str, text: &str) -> (Severity, &'static str, String) {
    with(&format!("/proc/sys/{name}"), text)
}

fn fact<'r>(report: &'r Report, name: &str) -> &'r str {
    &report.facts.iter().find(|fact| fact.name == name).expect("the fact").value
}

#[test]
fn a_healthy_machine_has_no_findings_and_its_arithmetic_is_shown() {
    let report = Planted::healthy().examined();
    assert_eq!(report.findings, []);
    assert_eq!(report.subject, "web-7, Linux 6.1.0, 2 CPUs, 15.6 GiB");
    let ports = fact(&report, "source ports");
    assert!(ports.contains("28,232 / 60 s = 470 new connections/s"), "{ports}");
    assert!(fact(&report, "open files").contains("(524,288 - 128) / 2 = 262,080 proxied"), "{report:?}");
    // There is no /dev/urandom below it.
    assert!(report.unseen.iter().any(|unseen| unseen.what.contains("duplicate test")), "{:?}", report.unseen);
}

#[test]
fn an_empty_machine_says_what_it_could_not_see() {
    let report = Planted::new().examined();
    assert_eq!(report.findings, []);
    for what in [
        "TCP sockets",
        "source ports",
        "backlog",
        "lost connections",
        "open files",
        "memory of TCP",
        "instructions",
        "clock source",
    ] {
        assert!(
            report.unseen.iter().any(|unseen| unseen.what.contains(what)),
            "{what}: {:#?}",
            report.unseen
        );
    }
}

#[test]
fn every_setting_that_limits_is_found() {
    use Severity::{Critical, Warning};
    let has_finding = |(severity, topic, words): (Severity, &'static str, String),
                       expected: (Severity, &str, &str)| {
        assert_eq!((severity, topic), (expected.0, expected.1), "{words}");
        assert!(words.contains(expected.2), "{words}");
    };
    has_finding(
        sysctl("net/ipv4/ip_local_port_range", "20000 20499"),
        (Warning, "source-ports", "only 500 source ports"),
    );
    has_finding(sysctl("net/ipv4/tcp_tw_recycle", "1"), (Critical, "tcp-tw-recycle", "is 1"));
    has_finding(sysctl("net/core/somaxconn", "128"), (Warning, "somaxconn", "is 128"));
    has_finding(sysctl("net/ipv4/tcp_syncookies", "0"), (Warning, "syn-cookies", "is 0"));
    has_finding(
        sysctl("net/netfilter/nf_conntrack_count", "250000"),
        (Critical, "conntrack", "250,000 of 262,144"),
    );
    has_finding(
        sysctl("fs/file-nr", "2000000 0 2466183"),
        (Warning, "open-files", "2,000,000 of 2,466,183 (81 %)"),
    );
    let limits = "Max open files            256                  1024               files\n";
    has_finding(
        with("/proc/self/limits", limits),
        (Warning, "open-files", "448 proxied connections at once"),
    );
    let stat = "TCP: inuse 4 orphan 100000 tw 0 alloc 4 mem 292\n";
    has_finding(with("/proc/net/sockstat", stat), (Warning, "orphans", "100,000 of 131,072 (76 %)"));
    let stat = "TCP: inuse 4 orphan 0 tw 0 alloc 4 mem 570000\n";
    has_finding(with("/proc/net/sockstat", stat), (Critical, "tcp-memory", "2.17 GiB of 2.20 GiB"));
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    has_finding(with(source, "hpet\n"), (Warning, "clock-source", "hpet"));
    let dropped = "entries searched drop\n00000005 00000000 0000000a\n00000005 00000000 00000001\n";
    has_finding(with("/proc/net/stat/nf_conntrack", dropped), (Warning, "conntrack", "11 dropped"));
}

#[test]
fn losses_since_the_start_are_warnings() {
    let lost = "TcpExt: ListenOverflows ListenDrops\nTcpExt: 40 42\n";
    let (severity, topic, words) = with("/proc/net/netstat", lost);
    assert_eq!((severity, topic), (Severity::Warning, "accept-queue"));
    assert!(
        words.contains("overflowed: 40 since the start, at most 10 days ago, none in the last"),
        "{words}"
    );
    assert!(words.contains("ListenDrops 42 = ListenOverflows 40 + 2 for other reasons"), "{words}");
    for (counter, topic) in [
        ("TCPReqQFullDoCookies", "syn-cookies"),
        ("TCPAbortOnMemory", "tcp-memory"),
        ("TCPMemoryPressures", "tcp-memory"),
    ] {
        let found = with("/proc/net/netstat", &format!("TcpExt: {counter}\nTcpExt: 3\n"));
        assert_eq!((found.0, found.1), (Severity::Warning, topic));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_cpu_without_aes_is_found() {
    let (severity, topic, words) = with("/proc/cpuinfo", "flags\t: hypervisor pclmulqdq avx2\n");
    assert_eq!((severity, topic), (Severity::Warning, "cpu-instructions"));
    assert!(words.contains("no aes"), "{words}");
}

#[test]
fn a_generator_that_repeats_itself_is_found() {
    // 1,000 numbers of 40 bytes, a hundred times over.
    let once: String = (0..1_000).map(|number| format!("{number:040}")).collect();
    let (severity, topic, words) = with("/dev/urandom", &once.repeat(100));
    assert_eq!((severity, topic), (Severity::Critical, "random-numbers"));
    assert!(words.contains("99,000 of 100,000 were repetitions, one number came 100 times"), "{words}");
}

/// /proc/net/tcp with `count` sockets in a state; each has a different port from 32,768 on. `when` is in hundredths of a second.
fn sockets(count: u16, local: &str, remote: &str, state: &str, when: u32) -> String {
    (0..count)
        .map(|port| format!("0: {local}:{:04X} {remote} {state} 0:0 03:{when:08X} 0 0 0 0\n", 32_768 + port))
        .collect()
}

#[test]
fn ports_that_run_out_are_found_with_the_side_that_holds_them() {
    let (here, there) = ("0100000A", "0200000A:01BB");
    let resting = format!("head\n{}", sockets(26_000, here, there, "06", 1_000));
    let (severity, topic, words) = with("/proc/net/tcp", &resting);
    assert_eq!((severity, topic), (Severity::Critical, "source-ports"));
    assert!(words.contains("from 10.0.0.1 to 10.0.0.2:443: 26,000 of 28,232 in use (92 %)"), "{words}");
    assert!(words.contains("0 open + 26,000 in TIME_WAIT, which this side holds"), "{words}");
    // Fewer, and at a rate that does not last: 3,000 began within the last five seconds.
    let rate = format!("head\n{}", sockets(3_000, here, there, "06", 5_900));
    let (severity, _, words) = with("/proc/net/tcp", &rate);
    assert_eq!(severity, Severity::Warning);
    assert!(words.contains("600/s ended, it comes to 600/s × 60 s = 36,000"), "{words}");
}

#[test]
fn what_rests_and_does_not_hurt_is_no_finding() {
    let quiet = |text: &str, reuse: &str| {
        let planted = Planted::healthy();
        planted.put("/proc/net/tcp", text);
        planted.put("/proc/sys/net/ipv4/tcp_tw_reuse", reuse);
        let report = planted.examined();
        assert_eq!(report.findings, [], "{:?}", report.findings);
        report
    };
    // Ports in TIME_WAIT that can be taken again: by tcp_tw_reuse, and on loopback by the kernel's own choice.
    quiet(&format!("head\n{}", sockets(26_000, "0100000A", "0200000A:01BB", "06", 3_000)), "1");
    quiet(&format!("head\n{}", sockets(26_000, "0100007F", "0100007F:01BB", "06", 3_000)), "2");
    // This machine was the server: many client ports, one port here.
    let listener = "0: 00000000:01BB 00000000:0000 0A 0:0 00:0 0 0 0 9\n";
    let served: String = (0..26_000)
        .map(|port| format!("0: 0100000A:01BB 0200000A:{:04X} 06 0:0 03:00000500 0 0 0 0\n", 20_000 + port))
        .collect();
    let report = quiet(&format!("head\n{listener}{served}"), "2");
    assert!(fact(&report, "TIME_WAIT").contains("26,000 where it was the server"), "{report:?}");
    // One for each of many destinations.
    let many: String = (0..20_000)
        .map(|port| {
            format!(
                "0: 0100000A:{:04X} 0200000A:{:04X} 06 0:0 03:00000500 0 0 0 0\n",
                33_000 + port,
                1 + port
            )
        })
        .collect();
    quiet(&format!("head\n{many}"), "2");
}

#[test]
fn a_full_accept_queue_is_found() {
    let text = "head\n0: 00000000:01BB 00000000:0000 0A 00000000:00001000 00:0 0 0 0 9\n";
    let (severity, topic, words) = with("/proc/net/tcp", text);
    assert_eq!((severity, topic), (Severity::Critical, "accept-queue"));
    assert!(words.contains("0.0.0.0:443: 4,096 of 4,096 connections wait (100 %)"), "{words}");
}
