//! `handfast doctor` finds what was provoked, each with its number, and nothing where nothing was.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use serde_json::Value;

use super::support::config::Config;
use super::support::deadline::{DEADLINE, wait_until};
use super::support::folder::Folder;
use super::support::network::{in_a_network_of_its_own, set_parameter};
use super::support::proxy::PROGRAM;
use super::support::tools::{Ran, handfast, run_command};

/// Topics that are about the machine below this network, and may be true of it.
const MACHINE_TOPICS: [&str; 6] =
    ["open-files", "clock", "clock-source", "cpu-instructions", "steal", "tcp-memory"];

/// Its findings, which decide the exit code.
fn findings(ran: &Ran) -> Vec<Value> {
    let report: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(report["schema"], "handfast-doctor/1");
    let findings = report["findings"].as_array().expect("a list").clone();
    assert_eq!(ran.code, Some(i32::from(!findings.is_empty())), "{ran:?}");
    findings
}

fn doctor(more: &[&str]) -> Vec<Value> {
    findings(&handfast(&[&["doctor", "--json", "-", "--interval", "10ms"], more].concat()))
}

/// Severity and title of the findings on a topic.
fn about<'f>(topic: &str, findings: &'f [Value]) -> Vec<(&'f str, &'f str)> {
    let text = |finding: &'f Value, key: &str| finding[key].as_str().expect("a text");
    let on_it = findings.iter().filter(|finding| finding["topic"] == topic);
    on_it.map(|finding| (text(finding, "severity"), text(finding, "title"))).collect()
}

/// Opens and ends so many connections, one after the other; `client_first` says who ends them.
fn connections(count: usize, client_first: bool) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:9443").expect("this network has no other listener");
    let address = listener.local_addr().expect("a bound socket has an address");
    for _ in 0..count {
        let client = TcpStream::connect_timeout(&address, DEADLINE).expect("a port is free");
        let (server, _) = listener.accept().expect("a client waits");
        let (first, second) = if client_first { (client, server) } else { (server, client) };
        drop(first);
        // Its end has arrived, so that the order is what was meant.
        second.set_read_timeout(Some(DEADLINE)).expect("a socket takes a time limit");
        assert_eq!(std::io::Read::read(&mut &second, &mut [0]).expect("an end"), 0);
    }
    (listener, address)
}

#[test]
fn ports_that_run_out_where_this_side_ends_first() {
    in_a_network_of_its_own!();
    assert!(set_parameter("net.ipv4.ip_local_port_range", "20000 20399"));
    assert!(set_parameter("net.ipv4.tcp_tw_reuse", "0"));
    let (_listener, address) = connections(380, true);
    let found = doctor(&[]);
    let ports = about("source-ports", &found);
    let expected = format!("source ports from 127.0.0.1 to {address}: 380 of 400 in use (95 %)");
    assert!(ports.contains(&("critical", expected.as_str())), "{found:#?}");
    assert!(ports.iter().any(|(_, title)| title.starts_with("only 400 source ports")), "{found:#?}");
    let worst = &found[0];
    assert!(
        worst["arithmetic"]
            .as_str()
            .is_some_and(|words| words.contains("0 open + 380 in TIME_WAIT, which this side holds")),
        "{worst}"
    );
    assert!(worst["change"].to_string().contains("tcp_tw_reuse=1"), "{worst}");
    // With reuse they can be taken again a second after they began to rest.
    assert!(set_parameter("net.ipv4.tcp_tw_reuse", "1"));
    let only_the_range = || (about("source-ports", &doctor(&[])).len() == 1).then_some(());
    wait_until("ports in TIME_WAIT to be no finding", only_the_range);
}

#[test]
fn no_ports_where_the_other_side_ends_first() {
    in_a_network_of_its_own!();
    assert!(set_parameter("net.ipv4.ip_local_port_range", "20000 20399"));
    assert!(set_parameter("net.ipv4.tcp_tw_reuse", "0"));
    let (_listener, _) = connections(380, false);
    let found = doctor(&[]);
    let ports = about("source-ports", &found);
    assert!(
        matches!(ports[..], [("warning", title)] if title.starts_with("only 400 source ports")),
        "{found:#?}"
    );
}

#[test]
fn an_accept_queue_that_overflows() {
    in_a_network_of_its_own!();
    let waiting = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&waiting, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port");
    listen(&waiting, 3).expect("it is bound");
    let address: SocketAddr =
        getsockname(&waiting).expect("it is bound").try_into().expect("an address of IPv4");
    // The kernel takes one more than the backlog; the last ones are dropped.
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let clients: Vec<TcpStream> = (0..7).filter_map(connect).collect();
    assert_eq!(clients.len(), 4, "three wait as asked, and one as Linux counts");
    let found = doctor(&[]);
    let queues = about("accept-queue", &found);
    let full = format!("accept queue of {address}: 4 of 3 connections wait");
    assert!(
        queues.iter().any(|(severity, title)| *severity == "critical" && title.starts_with(&full)),
        "{found:#?}"
    );
    assert!(queues.iter().any(|(_, title)| title.starts_with("accept queues overflowed: ")), "{found:#?}");
}

#[test]
fn nothing_in_a_network_where_nothing_is_wrong() {
    in_a_network_of_its_own!();
    let (_listener, _) = connections(20, true);
    let found = doctor(&[]);
    let false_alarms: Vec<_> = found
        .iter()
        .filter(|finding| !MACHINE_TOPICS.iter().any(|topic| finding["topic"] == *topic))
        // Kernels before 5.4 begin with 128, and it is said of them with reason.
        .filter(|finding| finding["topic"] != "somaxconn")
        .collect();
    assert!(false_alarms.is_empty(), "{false_alarms:#?}");
}

#[test]
fn a_limit_on_open_files_that_is_low() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256 && exec \"$0\" doctor -v --json - --interval 10ms", PROGRAM]);
    let ran = run_command(&mut command, b"");
    let found = findings(&ran);
    let files = about("open-files", &found);
    let expected = "a process started from here may have 256 open files: 108 proxied connections at once";
    assert!(files.contains(&("warning", expected)), "{found:#?}");
    // People get the same in words.
    assert!(ran.talk.contains("(256 hard limit - 40 for everything else) / 2 descriptors"), "{}", ran.talk);
}

#[test]
fn a_thread_that_spins_and_none_that_sleeps() {
    let mut spins = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
    let mut sleeps = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    let looked = |pid: u32| {
        let pid = pid.to_string();
        findings(&handfast(&["doctor", "--json", "-", "--interval", "1s", "--pid", &pid]))
    };
    let (spinning, sleeping) = (looked(spins.id()), looked(sleeps.id()));
    let pid = spins.id();
    for child in [&mut spins, &mut sleeps] {
        let _ = child.kill();
        let _ = child.wait();
    }
    let expected = format!("thread sh ({pid}) never sleeps: ");
    let found = about("spinning-thread", &spinning);
    assert!(matches!(found[..], [("warning", title)] if title.starts_with(&expected)), "{spinning:#?}");
    assert_eq!(sleeping, Vec::<Value>::new());
}

#[test]
fn a_configuration_that_does_not_fit() {
    let folder = Folder::new();
    let limits = |connections: usize| {
        let config = Config::to(&folder, "10.0.0.1:80").set("process", "max-connections", connections);
        let file = folder.write("handfast.toml", config.to_string()).display().to_string();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "ulimit -n 4256 && exec \"$0\" doctor --json - --interval 10ms -c \"$1\"",
            PROGRAM,
            &file,
        ]);
        findings(&run_command(&mut command, b""))
    };
    let found = limits(3_000);
    let files = about("open-files", &found);
    assert!(
        files.contains(&("critical", "3,000 connections are wanted, and the open files allow 2,064")),
        "{found:#?}"
    );
    assert!(
        about("configuration", &found).iter().any(|(_, title)| title.contains("would not start")),
        "{found:#?}"
    );
    let found = limits(2_000);
    let wrong = ["open-files", "configuration", "weak-key", "chain-order", "threads"];
    assert!(wrong.iter().all(|topic| about(topic, &found).is_empty()), "{found:#?}");
}

#[test]
fn wrong_use_is_reported() {
    for (words, reported) in [
        (&["doctor", "--root", "/none"][..], "--root /none: expected a folder"),
        (&["doctor", "--pid", "4194305"], "--pid 4194305: there is no such process"),
        (&["doctor", "--interval", "2"], "invalid duration"),
        (&["doctor", "-c", "/none.toml"], "/none.toml"),
        (&["doctor", "keys"], "required"),
        (&["doctor", "keys", "/none.pem"], "/none.pem: no such file or folder, and not HOST:PORT"),
    ] {
        let ran = handfast(words);
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.talk.contains(reported), "{words:?}, expected {reported}: {ran:?}");
    }
}
