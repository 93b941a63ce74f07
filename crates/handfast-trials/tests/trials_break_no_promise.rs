//! `handfast-trials`: every fault that it knows is made, on the real program, and everything that has to hold holds; what does not
//! hold is found out; and nothing of the machine's own network changes.
//!
//! Here some cases of each kind have one of their modes; `scripts/lab` tries all of both. Each case makes network interfaces, which the
//! kernel does one after the other for the whole machine: many at once would hold up every other test that makes some.
#![forbid(unsafe_code)]

use std::fs;
use std::process::Command;

use handfast_testkit::folder::Folder;
use handfast_testkit::tools::Ran;
use handfast_testkit::{needs, skipped};
use serde_json::Value;

fn trials(words: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_handfast-trials"));
    // It has a separate limit, longer than that of other programs.
    let ended = command.args(words).env("RUST_BACKTRACE", "0").output().expect("it was built with this test");
    let text = |bytes| String::from_utf8(bytes).expect("it speaks UTF-8");
    Ran { code: ended.status.code(), output: text(ended.stdout), talk: text(ended.stderr) }
}

/// Returns the reason why there can be no laboratory here, from its output.
fn no_laboratory(talk: &str) -> Option<&str> {
    let refusals = ["make namespaces", "/dev/net/tun", "/proc shows"];
    refusals
        .into_iter()
        .any(|refusal| talk.contains(refusal))
        .then(|| talk.lines().next().unwrap_or_default())
}

/// Names of the interfaces of the machine's own network, and its routes.
fn own_network() -> (Vec<String>, String) {
    let interfaces = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names =
        interfaces.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
    (names.collect(), fs::read_to_string("/proc/net/route").unwrap_or_default())
}

/// Of every step of the path and of every kind, and none that waits for long.
const HERE: [&str; 30] = [
    "split-hello",
    "not-tls",
    "broken-records",
    "silent-client",
    "close-notify-in-handshake",
    "reset-in-handshake",
    "header-broken",
    "backend-refuses",
    "icmp-host",
    "route-blackhole",
    "backend-refuses-tls",
    "backend-injects",
    "another-backend",
    "backend-resets",
    "client-truncates",
    "backend-half-closes",
    "record-tampered-by-backend",
    "tiny-writes",
    "ambiguous-requests",
    "upload-cut",
    "response-cut",
    "kept-backend-dies",
    "reset-by-path",
    "socket-destroyed",
    "log-full",
    "resumption-after-policy",
    "reload-bad-configuration",
    "kill-and-restart",
    "stop-drains",
    "start-impossible",
];

#[test]
fn each_in_one_of_its_modes() {
    let folder = Folder::new();
    let json = folder.file("trials.json");
    let before = own_network();
    let json_path = json.display().to_string();
    let mut words = vec!["--quick", "--limit", "5m", "--json", &json_path];
    HERE.iter().for_each(|case| words.extend(["--only", case]));
    let ended = trials(&words);
    let (screen, talk) = (&ended.output, &ended.talk);
    if let Some(why) = no_laboratory(talk) {
        skipped!("{why}");
    }
    assert_eq!(ended.code, Some(0), "{screen}\n{talk}");
    assert_eq!(own_network(), before, "the machine's own network is as it was");

    let report: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("it was written")).expect("JSON");
    assert_eq!(report["schema"], "handfast-trials/1");
    let experiments = report["experiments"].as_array().expect("experiments");
    assert_eq!(experiments.len(), HERE.len());
    for experiment in experiments {
        let figures = &experiment["figures"];
        assert!(figures["happened"].as_str().is_some_and(|happened| !happened.is_empty()), "{experiment}");
        assert_eq!(figures["lost"], 0, "{experiment}");
        assert!(screen.contains(experiment["case"].as_str().expect("a name")), "{experiment}");
    }
    assert!(report["absent"].as_array().is_some_and(|absent| !absent.is_empty()), "{report}");
}

#[test]
fn a_program_that_does_not_serve_does_not_pass() {
    // Neither is a proxy: one ends at once, and the other is not there.
    let ended = trials(&["--program", "/bin/true", "--only", "client-resets", "--mode", "plain"]);
    let (screen, talk) = (&ended.output, &ended.talk);
    if let Some(why) = no_laboratory(talk) {
        skipped!("{why}");
    }
    assert_eq!(ended.code, Some(1), "{screen}\n{talk}");
    assert!(screen.contains("broken client-resets in plain: the proxy ended at once"), "{screen}");
    let ended = trials(&["--program", "/nowhere/handfast"]);
    assert_eq!(ended.code, Some(125), "{}", ended.talk);
    assert!(ended.talk.contains("--program /nowhere/handfast: "), "{}", ended.talk);
}

#[test]
fn cases_are_listed_and_a_wrong_word_is_refused() {
    let listed = trials(&["--list"]).output;
    for word in ["  backend-resets: ", "  starttls-out ", "  haproxy ", "Not tried:"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    for (words, expected) in [
        (["--only", "backend-reset"], "case \"backend-reset\": there is no such case"),
        (["--mode", "terminated"], "--mode terminated: unknown"),
        (["--limit", "soon"], "--limit"),
        (["--proxy", "hitched"], "--proxy hitched: unknown"),
    ] {
        let ended = trials(&words);
        assert_eq!(ended.code, Some(2), "{words:?}");
        assert!(ended.talk.contains(expected), "{words:?}: {}", ended.talk);
    }
}

/// A proxy that makes a clean end of every end, started as if it were hitch.
#[test]
fn a_proxy_that_turns_resets_into_clean_ends_is_found_out() {
    needs!("python3");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/naive.py");
    let mut words = vec!["--proxy", "hitch", "--program", program, "--mode", "terminate"];
    let cases = ["tiny-writes", "backend-resets", "client-resets"];
    cases.iter().for_each(|case| words.extend(["--only", case]));
    let ended = trials(&words);
    let (screen, talk) = (&ended.output, &ended.talk);
    if let Some(why) = no_laboratory(talk) {
        skipped!("{why}");
    }
    assert_eq!(ended.code, Some(1), "{screen}\n{talk}");
    // It serves: what is wrong with it is the lie alone.
    assert!(screen.lines().any(|line| line.starts_with("kept") && line.contains("tiny-writes")), "{screen}");
    for lie in [
        "broken backend-resets in terminate, hitch: the client received 100 bytes, close_notify, FIN: not an abort",
        "broken client-resets in terminate, hitch: the backend received 0 bytes, FIN: not an abort",
    ] {
        assert!(screen.contains(lie), "{lie}\n{screen}");
    }
}
