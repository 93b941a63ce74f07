//! `handfast lab` runs a command on a path with the delay, the losses and the rate that were asked for, says what really
//! happened, hands over exit code, output and signals, and leaves nothing behind.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::deadline::wait_until;
use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::skip::{needs, skipped};
use super::support::tools::{self, Ran, Tool};

/// Answers each line with itself.
const SERVER: &str = "socat TCP-LISTEN:9000,fork,reuseaddr EXEC:cat";

/// Reason why there can be no lab here, if there can be none.
fn refusal() -> Option<String> {
    let ran = lab(&["--quiet", "--", "true"]);
    (ran.code != Some(0)).then_some(ran.talk)
}

/// Skips the test where this machine allows no namespaces.
macro_rules! needs_a_lab {
    () => {
        if let Some(refusal) = refusal() {
            skipped!("no lab: {refusal}");
        }
    };
}

fn lab(words: &[&str]) -> Ran {
    tools::run(PROGRAM, &[&["lab"], words].concat(), b"")
}

fn report(path: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the report was written");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn a_connection_takes_the_round_trips_that_it_needs() {
    needs!("socat", "python3");
    needs_a_lab!();
    let folder = Folder::new();
    let json = folder.file("lab.json").display().to_string();
    let client = "import socket, time\n\
        for _ in range(4):\n \
        begun = time.monotonic()\n \
        s = socket.create_connection(('server', 9000))\n \
        connected = time.monotonic()\n \
        s.sendall(b'x\\n'); s.recv(2)\n \
        print(connected - begun, time.monotonic() - connected)\n";
    for engine in ["veth", "tun"] {
        let words = ["--engine", engine, "--rtt", "80ms", "--json", &json, "--server", SERVER, "--"];
        let ran = lab(&[&words[..], &["python3", "-c", client]].concat());
        if engine == "tun" && ran.talk.contains("/dev/net/tun") {
            skipped!("no TUN device: {}", ran.talk);
        }
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let took: Vec<f64> =
            ran.output.split_whitespace().map(|took| took.parse().expect("seconds")).collect();
        // Never less than a round trip; and not two, where the machine was not busy just then.
        assert!(took.iter().all(|took| *took >= 0.080), "{engine}: {took:?} {}", ran.talk);
        let least = |offset: usize| took.iter().skip(offset).step_by(2).copied().fold(f64::MAX, f64::min);
        assert!(least(0) < 0.160 && least(1) < 0.160, "{engine}: {took:?} {}", ran.talk);
        assert!(ran.talk.contains("client to server, asked for 40.0 ms"), "{}", ran.talk);
        let report = report(&folder.file("lab.json"));
        assert_eq!((&report["schema"], &report["engine"]), (&"handfast-lab/1".into(), &engine.into()));
        // Figures of a distribution have three digits.
        for direction in report["links"][0]["directions"].as_array().expect("a link has directions") {
            let count = |key: &str| direction[key].as_u64().expect("a count");
            // SYN, ACK, data, ACK, FIN and the like: the client sends at least five, the server at least three.
            assert!(
                count("packets") >= 3 && count("lost") + count("dropped") + count("missed") == 0,
                "{direction}"
            );
            assert!(direction["delay_ms"]["min"].as_f64().expect("a figure") >= 39.9, "{direction}");
        }
    }
}

#[test]
fn losses_and_rates_are_as_asked_and_a_seed_repeats_them() {
    needs!("python3");
    needs_a_lab!();
    let folder = Folder::new();
    let json = folder.file("lab.json").display().to_string();
    let client = "import socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        for _ in range(500): s.sendto(bytes(972), ('server', 9))\n";
    let run = |words: &[&str]| {
        let words = [words, &["--seed", "5", "--json", &json, "--", "python3", "-c", client]].concat();
        let ran = lab(&words);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        report(&folder.file("lab.json"))["links"][0]["directions"][0].clone()
    };
    let lossy = run(&["--loss", "20%"]);
    assert_eq!(lossy["packets"], 500, "{lossy}");
    assert!((70..130).contains(&lossy["lost"].as_u64().expect("a count")), "{lossy}");
    assert_eq!(run(&["--loss", "20%"])["lost"], lossy["lost"], "the same seed loses the same packets");
    // 1,000 bytes at 80 kbit/s take 100 ms: the first is being sent, ten wait, and one or two more had their turn meanwhile, or a few.
    let slow = run(&["--rate", "80kbit", "--queue", "10"]);
    assert!((400..=489).contains(&slow["dropped"].as_u64().expect("a count")), "{slow}");
    assert_eq!(slow["longest_queue"], 10, "{slow}");
}

#[test]
fn exit_codes_output_and_input_are_the_commands() {
    needs_a_lab!();
    let ran =
        tools::run(PROGRAM, &["lab", "--quiet", "--", "sh", "-c", "cat; exit 7"], b"through and through");
    assert_eq!((ran.code, ran.output.as_str(), ran.talk.as_str()), (Some(7), "through and through", ""));
    assert_eq!(lab(&["--quiet", "--", "sh", "-c", "kill -9 $$"]).code, Some(137));
    let ran = lab(&["--", "no-such-command-anywhere"]);
    assert_eq!(ran.code, Some(127), "{}", ran.talk);
    assert!(ran.talk.contains("error: run no-such-command-anywhere: "), "{}", ran.talk);
    let ran = lab(&["--server", "sh -c 'exit 3'", "--", "true"]);
    assert_eq!(ran.code, Some(125), "{}", ran.talk);
    assert!(ran.talk.contains("ended with exit code 3 before it listened"), "{}", ran.talk);
    let ran = lab(&["--server", "sleep 100", "--server-timeout", "100ms", "--", "true"]);
    assert_eq!(ran.code, Some(125), "{}", ran.talk);
    assert!(ran.talk.contains("did not listen on a TCP port within 100ms"), "{}", ran.talk);
}

#[test]
fn wrong_use_is_reported_at_once_and_without_a_lab() {
    let ran = lab(&["--rtt", "5", "--loss", "2", "--", "true"]);
    assert_eq!(ran.code, Some(2), "{}", ran.talk);
    assert!(ran.talk.contains("--rtt: ") && ran.talk.contains("--loss: invalid share"), "{}", ran.talk);
}

#[test]
fn a_user_without_privileges_may_have_one() {
    needs!("setpriv");
    needs_a_lab!();
    let words =
        ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", PROGRAM, "lab", "--rtt", "20ms"];
    let ran =
        tools::run("setpriv", &[&words[..], &["--", "sh", "-c", "id -u; cat /proc/net/dev"]].concat(), b"");
    if ran.code != Some(0) {
        // This user cannot become another one, or the kernel reports why another one cannot have a network.
        assert!(ran.talk.contains("setpriv: ") || ran.talk.contains("hint: the lab needs"), "{}", ran.all());
        skipped!("{}", ran.talk);
    }
    assert!(ran.output.starts_with("0\n"), "root in its namespace only: {}", ran.output);
    let interfaces: Vec<_> = ran.output.lines().filter_map(|line| line.split_once(':')).collect();
    let named = |name: &str| interfaces.iter().any(|(interface, _)| interface.trim() == name);
    assert!(named("lo") && named("eth0") && interfaces.len() == 2, "{}", ran.output);
}

#[test]
fn a_signal_reaches_the_command() {
    needs_a_lab!();
    let script = "trap 'echo got it; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let lab = Tool::start(PROGRAM, &["lab", "--quiet", "--", "sh", "-c", script]);
    lab.output.containing("ready");
    let pid = lab.process().0.to_string();
    assert_eq!(tools::run("kill", &["-TERM", &pid], b"").code, Some(0));
    let ran = lab.ended();
    assert_eq!((ran.code, ran.output.contains("got it")), (Some(9), true), "{}", ran.all());
}

/// Numbers of the processes that have a word in their command line.
fn processes_with(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let mut found = Vec::new();
    for process in all {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|part| part == word.as_bytes()) {
            found.push(process.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn nothing_is_left_behind_when_it_is_killed() {
    needs_a_lab!();
    // A word that no other process has, in a command that would stay for long.
    let word = format!("lab-{}-is-killed", std::process::id());
    let script = "trap '' TERM INT HUP; echo ready; while :; do sleep 1; done";
    let mut child = Command::new(PROGRAM)
        .args(["lab", "--quiet", "--rtt", "10ms", "--", "sh", "-c", script, &word])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut output = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).expect("the command writes");
    assert_eq!(line, "ready\n");
    assert!(processes_with(&word).len() >= 3, "two of the lab, and the command");
    let begun = Instant::now();
    child.kill().expect("it is ours to kill");
    child.wait().expect("it was killed");
    wait_until("everything to end", || processes_with(&word).is_empty().then_some(()));
    assert!(begun.elapsed() < Duration::from_secs(5), "ended by the kernel, not by a timeout");
}

#[test]
fn a_capture_has_the_packets_of_both_hosts_and_the_secrets() {
    needs!("openssl", "curl");
    needs_a_lab!();
    let folder = Folder::new();
    let file = |name: &str| folder.file(name).display().to_string();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    tools::self_signed("server", &key, &certificate, &[]);
    let server = format!("openssl s_server -quiet -accept 8443 -cert {certificate} -key {key} -www");
    let capture = file("run.pcapng");
    let words = ["--quiet", "--capture", &capture, "--server", &server, "--"];
    let client = ["curl", "-s", "--cacert", &certificate, "-o", "/dev/null", "https://server:8443/"];
    let ran = lab(&[&words[..], &client].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let bytes = std::fs::read(folder.file("run.pcapng")).expect("the capture was written");
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let at = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text);
    let secrets = at(b"CLIENT_TRAFFIC_SECRET_0 ").or(at(b"CLIENT_RANDOM "));
    // A curl whose library does not write secrets gives a capture without them.
    if secrets.is_none() {
        skipped!("curl writes no SSLKEYLOGFILE here");
    }
    // The hello, with the server's name, once when it was sent and once when it was received, behind the secrets.
    let hellos = bytes.windows(11).enumerate().filter(|(_, window)| window == b"\x00\x00\x06server\x00\x0b");
    let hellos: Vec<_> = hellos.map(|(at, _)| Some(at)).collect();
    assert!(hellos.iter().all(|hello| *hello > secrets), "{hellos:?} {secrets:?}");
    assert!(at(b"server, on its link to client").is_some());
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn a_lab_within_a_lab_adds_its_link() {
        needs!("socat", "python3");
        needs_a_lab!();
        let client = "import socket, time\n\
            took = []\n\
            for _ in range(4):\n \
            begun = time.monotonic()\n \
            socket.create_connection(('server', 9000))\n \
            took.append(time.monotonic() - begun)\n\
            print(min(took))\n";
        let outer = ["--quiet", "--rtt", "30ms", "--server", SERVER, "--"];
        let inner = [PROGRAM, "lab", "--quiet", "--rtt", "50ms", "--", "python3", "-c", client];
        let ran = lab(&[&outer[..], &inner].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let took: f64 = ran.output.trim().parse().expect("seconds");
        assert!((0.080..0.160).contains(&took), "{took}");
    }
}
