//! `--status` of `load` and `probe` sets what the proxy counted beside what was seen from outside: a slow backend's time is the
//! backend's; and where others use the proxy meanwhile, nothing is attributed.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::Value;

use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::load::Load;
use super::support::tools::handfast;
use super::support::*;

/// Delay of the backend.
const LATE: Duration = Duration::from_millis(60);

/// A backend that answers each request late: with what came, or as HTTP.
fn late(answer: Option<&'static str>) -> Stage {
    Stage::new(move |peer| {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = peer.stream.read(&mut buffer) {
            pause(LATE);
            let answer = answer.map_or(&buffer[..count], str::as_bytes);
            if peer.stream.write_all(answer).is_err() {
                return;
            }
        }
    })
}

/// Milliseconds of a part.
fn part(both: &Value, name: &str) -> f64 {
    let parts = both["parts"].as_array().unwrap_or_else(|| panic!("{both}"));
    let part = parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no {name}: {both}"));
    part["ns"].as_f64().expect("a number") / 1e6
}

/// The backend took its time, and no other part did.
fn is_the_backends(both: &Value) {
    assert_eq!(both["refused"], Value::Null, "{both}");
    let backend = part(both, "backend");
    let late = LATE.as_secs_f64() * 1e3;
    assert!(backend >= late, "{both}");
    let seen = both["seen_ns"].as_f64().expect("a number") / 1e6;
    assert!(backend <= seen, "{both}");
    let sum: f64 =
        both["parts"].as_array().expect("a list").iter().map(|part| part["ns"].as_f64().unwrap_or(0.0)).sum();
    assert!(sum / 1e6 >= seen * 0.999, "the parts and what is unexplained are the whole: {both}");
    for other in ["crypto", "hello", "queue", "connect", "client"] {
        assert!(part(both, other) < backend, "{other} took longer than the backend: {both}");
    }
}

/// The admin address may be a unix socket; and of a handshake alone the kernel's stamps tell what neither end counted.
#[test]
fn a_status_may_be_behind_a_unix_socket() {
    let folder = Folder::new();
    let certificate = folder.write("leaf.pem", localhost().combined()).display().to_string();
    let (backend, socket) = (Backend::echo(), folder.file("admin.sock"));
    let proxy = Proxy::start(format!(
        "[admin]\nlisten = \"unix:{}\"\n[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:0\"\nbackend = \"{}\"\ncertificate = \"{certificate}\"\n",
        socket.display(),
        backend.address
    ));
    let (status, target) = (format!("unix:{}", socket.display()), proxy.address().to_string());
    let ran = handfast(&["probe", "-v", "-k", "-n", "3", "--json", "-", "--status", &status, &target]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let both = &report["both_ends"];
    assert_eq!((&both["refused"], &both["answers_each"]), (&Value::Null, &0.0.into()), "{both}");
    assert!(part(both, "wakeup") >= 0.0 && part(both, "crypto") > 0.0, "{both}");
    let ended = Load::at(proxy.address()).with("--send 100 -c 2 -d 1s --status").word(&status).run_well();
    let both = ended.value("/both_ends");
    assert_eq!(both["refused"], Value::Null, "{both}");
    assert!(part(both, "crypto") > 0.0, "{both}");
    let absent = format!("unix:{}", folder.file("absent.sock").display());
    let ran = handfast(&["probe", "-k", "--status", &absent, &target]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.talk.contains(&format!("--status: read {absent}: ")), "{ran:?}");
}

/// The connections that find out how long one is kept are in the proxy's counts, and in ours.
#[test]
fn connections_that_are_kept_to_see_for_how_long_count_too() {
    let stage = Stage::new(|peer| {
        let mut buffer = vec![0; 65_536];
        while let Ok(1..) = peer.stream.read(&mut buffer) {
            if peer.stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    });
    let target = format!("https://{}/", stage.proxy.address());
    let status = stage.proxy.admin().to_string();
    let words =
        ["probe", "-k", "-n", "3", "--keep-alive", "200ms", "--json", "-", "--status", &status, &target];
    let ran = handfast(&words);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let both = &report["both_ends"];
    // One to look around, three of each kind, and two that are kept.
    assert_eq!((&both["refused"], &both["handshakes"]), (&Value::Null, &9.into()), "{both}");
    let requested = report["http"]["kept"]["requests"].as_f64().expect("a number");
    let answers = both["answers_each"].as_f64().expect("a number") * 9.0;
    // Two while it looks around, one on each of six, one that is then left alone, and those of the last one.
    assert!((answers - (2.0 + 6.0 + 1.0 + requested)).abs() < 0.01, "{answers}, {requested}: {both}");
}

#[test]
fn nothing_is_attributed_where_others_use_the_proxy() {
    let stage = late(None);
    let status = format!("http://{}/", stage.proxy.admin());
    let running =
        Load::at(stage.proxy.address()).with("--send 100 -c 1 -d 3s --status").word(&status).start();
    running.seconds(1);
    let mut other = stage.any_client();
    other.echo(b"x");
    other.finish();
    let ended = running.ended().well();
    let both = ended.value("/both_ends");
    let why = both["refused"].as_str().unwrap_or_else(|| panic!("{both}"));
    assert!(why.starts_with("other traffic was on the proxy: it accepted "), "{why}");
    assert_eq!(both["parts"], serde_json::json!([]));
    assert!(ended.output.contains("Not attributed: other traffic was on the proxy"), "{}", ended.output);
}

#[test]
fn a_status_that_cannot_be_read_is_reported_before_the_run() {
    let stage = Stage::echo();
    let target = stage.proxy.address().to_string();
    let gone = Backend::refusing().to_string();
    for verb in [&["load", "-d", "1s"][..], &["probe", "-k"]] {
        let ran = handfast(&[verb, &["--status", "https://x/", &target]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.talk.contains("--status: invalid address `https://x/`, expected http://HOST:PORT/"),
            "{ran:?}"
        );
        let ran = handfast(&[verb, &["--status", &gone, &target]].concat());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.talk.contains(&format!("--status: read http://{gone}/status.json: ")), "{ran:?}");
        // The target itself is no status.
        let ran = handfast(&[verb, &["--status", &target, &target]].concat());
        assert_eq!(ran.code, Some(1), "{ran:?}");
    }
    assert_eq!(stage.backend.accepted(), 0, "nothing was begun");
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn load_finds_a_slow_backend() {
        let stage = late(None);
        let status = format!("http://{}/", stage.proxy.admin());
        let options = "--send 100 -c 2 -d 1s --status";
        let ended = Load::at(stage.proxy.address()).with(options).word(&status).run_well();
        is_the_backends(ended.value("/both_ends"));
        let screen = &ended.output;
        assert!(
            screen.contains("Both ends\n") && screen.contains("  backend "),
            "people get the same: {screen}"
        );
    }

    #[test]
    fn probe_finds_a_slow_backend() {
        let stage = late(Some("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        let target = format!("https://{}/", stage.proxy.address());
        let status = stage.proxy.admin().to_string();
        let ran = handfast(&["probe", "-v", "-k", "-n", "3", "--json", "-", "--status", &status, &target]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let report: Value =
            serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        is_the_backends(&report["both_ends"]);
        assert!(
            ran.talk.contains("Both ends: ") && ran.talk.contains("  backend "),
            "people get the same: {}",
            ran.talk
        );
    }
}
