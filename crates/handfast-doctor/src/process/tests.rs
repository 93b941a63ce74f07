//! Threads, descriptors and sockets from files, and of this very process.

use std::net::TcpListener;

use super::*;
use crate::exam::testing::Planted;
use crate::report::Severity;

fn examined(planted: &Planted) -> Report {
    let settings = ProcessExamSettings {
        machine: planted.machine(),
        pid: 7,
        interval: Duration::from_millis(40),
        program: String::new(),
    };
    examine(&settings).expect("there is one")
}

/// A process with a thread that has used no CPU since.
fn quiet() -> Planted {
    let planted = Planted::new();
    planted.put("/proc/7/comm", "server\n");
    planted.put("/proc/7/limits", "Max open files            10                 20               files\n");
    planted.put("/proc/7/task/7/comm", "worker-0\n");
    planted.put(
        "/proc/7/task/7/stat",
        "7 (work (er) 0) S 1 7 7 0 -1 4194560 1 0 0 0 500 300 0 0 20 0 1 0 1 1 1\n",
    );
    planted.put("/proc/7/task/7/syscall", &format!("{} 0x3 0x0\n", libc::SYS_epoll_pwait));
    planted
}

#[test]
fn a_process_that_waits_has_no_findings() {
    let planted = quiet();
    std::fs::create_dir_all(planted.machine().path("/proc/7/fd")).expect("the temporary folder is writable");
    let report = examined(&planted);
    assert_eq!(report.findings, []);
    let facts: Vec<_> = report.facts.iter().map(|fact| fact.value.as_str()).collect();
    assert!(facts[1].starts_with("worker-0 (7): 0 % of a CPU; epoll_pwait in 20 of 20 looks"), "{facts:?}");
    assert!(facts[2].starts_with("0 open"), "{facts:?}");
}

#[test]
fn descriptors_that_run_out_are_found() {
    let planted = quiet();
    let folder = planted.machine().path("/proc/7/fd");
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    for number in 0..10 {
        let target = format!("socket:[{}]", 100 + number);
        std::os::unix::fs::symlink(target, folder.join(number.to_string())).expect("a link can be made");
    }
    planted.put("/proc/7/net/tcp", "head\n0: 0100007F:01BB 0100007F:9000 08 0:0 00:0 0 0 0 100\n0: 0100007F:01BB 0100007F:9001 01 0:0 00:0 0 0 0 999\n");
    let report = examined(&planted);
    let [finding] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!((finding.severity, finding.topic), (Severity::Critical, "open-files"));
    assert_eq!(finding.title, "10 of 10 open files are in use");
    assert_eq!(finding.change, ["prlimit --pid 7 --nofile=20:20"]);
    assert!(report.facts.iter().any(|fact| fact.value == "1 CLOSE_WAIT"), "only its own: {:?}", report.facts);
}

#[test]
fn a_process_that_is_not_there_is_reported() {
    let settings = ProcessExamSettings {
        machine: Planted::new().machine(),
        pid: 7,
        interval: Duration::ZERO,
        program: String::new(),
    };
    assert_eq!(examine(&settings).expect_err("none").to_string(), "--pid 7: there is no such process");
}

#[test]
fn sockets_of_this_process_are_reported_by_state() {
    let _listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let settings = ProcessExamSettings {
        machine: Machine::here(),
        pid: std::process::id(),
        interval: Duration::ZERO,
        program: String::new(),
    };
    let report = examine(&settings).expect("it runs");
    let fact = |name: &str| report.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
    assert!(fact("TCP sockets").is_some_and(|words| words.contains("LISTEN")), "{:?}", report.facts);
    assert!(fact("descriptors").is_some_and(|words| words.contains("socket")), "{:?}", report.facts);
}

#[test]
fn calls_have_names() {
    assert_eq!(calls::number("running\n"), None);
    assert_eq!(calls::number("-1 0x7ffd 0x7f"), None);
    assert!(calls::number("7 0x1 0x2").map(calls::name).is_some());
    assert_eq!(calls::name(libc::SYS_accept4), "accept4");
    assert_eq!(calls::name(99_999), "system call 99999");
}
