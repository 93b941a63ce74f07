//! The figures of a running test can be followed: a line of JSON for each second that together are the report, and a page
//! for Prometheus.

use std::time::Duration;

use serde_json::Value;

use super::support::delays::{Manners, TlsServer};
use super::support::folder::Folder;
use super::support::http;
use super::support::load::Load;
use super::support::tools;

#[test]
fn the_lines_are_complete_and_agree_with_the_report() {
    let (server, folder) = (TlsServer::start(Manners::late_by(Duration::from_millis(1))), Folder::new());
    let lines = folder.file("live.jsonl");
    let load = Load::at(server.address).with("--rate 50 -d 2s").file("--live-json", &lines);
    let ended =
        load.word("--mix").word("share=1 name=new").word("--mix").word("share=1 name=old tls=1.2").run_well();
    let text = std::fs::read_to_string(&lines).expect("it was written");
    assert!(text.ends_with('\n'), "{text}");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let [begin, seconds @ .., end] = lines.as_slice() else { panic!("{text}") };
    assert_eq!((&begin["kind"], &begin["schema"]), (&"begin".into(), &"handfast-live/1".into()), "{text}");
    assert_eq!((&end["kind"], &end["lost_lines"]), (&"end".into(), &0.into()), "{text}");
    assert_eq!(end["verdict"], *ended.value("/verdict/word"), "{text}");
    assert!(seconds.iter().all(|second| second["kind"] == "second"), "{text}");
    assert_eq!(Some(seconds.len()), ended.value("/timeline").as_array().map(Vec::len), "{text}");
    let sum = |name: &str| seconds.iter().filter_map(|second| second[name].as_u64()).sum::<u64>();
    assert_eq!(sum("done"), ended.count("/totals/transactions"), "{text}");
    assert_eq!(sum("started"), sum("done") + sum("failed"), "{text}");
    assert_eq!(seconds.last().and_then(|last| last["in_flight"].as_u64()), Some(0), "{text}");
    assert_eq!(seconds[0]["offered_rate"], 50.0, "{text}");
    let members = |place: usize| {
        seconds.iter().filter_map(|second| second["members"][place]["done"].as_u64()).sum::<u64>()
    };
    assert_eq!(
        (members(0), members(1)),
        (ended.count("/members/0/transactions"), ended.count("/members/1/transactions"))
    );
    assert!(members(0).abs_diff(members(1)) <= 8, "{text}");
}

#[test]
fn standard_output_may_have_the_lines_and_nothing_else() {
    let server = TlsServer::start(Manners::default());
    let ended = Load::at(server.address).with("-c 1 -d 300ms --live-json -").run_well();
    let kinds: Vec<Value> = ended
        .output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(kinds.len() >= 3, "{}", ended.all());
    assert!(ended.talk.contains("What was done"), "the report is on the other one: {}", ended.all());
    let wrong = Load::at(server.address).with("--live-json - --csv -").run();
    assert_eq!(wrong.code, Some(2), "{}", wrong.all());
}

#[test]
fn a_page_has_the_figures_while_it_runs() {
    let server = TlsServer::start(Manners::default());
    let running = Load::at(server.address).with("--rate 20 -d 30s --metrics 0").start();
    let line = running.talk.containing("figures at http://");
    let address =
        line.rsplit_once("http://").and_then(|(_, rest)| rest.split('/').next()).expect("an address");
    let address: std::net::SocketAddr = address.parse().expect("an address");
    assert!(address.ip().is_loopback(), "{line}");
    running.seconds(1);
    let page = http::get(address, "/metrics", "*/*").body;
    assert!(page.contains("handfast_load_live_done_total ") && page.ends_with("# EOF\n"), "{page}");
    assert!(page.contains("handfast_load_live_latency_seconds{step=\"total\",quantile=\"0.99\"}"), "{page}");
    running.process().signal(rustix::process::Signal::INT);
    let ended = running.ended();
    assert!(ended.count("/totals/transactions") > 0, "{}", ended.all());
}

#[test]
fn top_shows_it_while_it_runs() {
    let server = TlsServer::start(Manners::default());
    let running = Load::at(server.address).with("--rate 20 -d 30s --metrics 0").start();
    let line = running.talk.containing("figures at http://");
    let address =
        line.rsplit_once("http://").and_then(|(_, rest)| rest.split('/').next()).expect("an address");
    running.seconds(2);
    let page = http::get(address.parse().expect("an address"), "/status.json", "*/*").body;
    let run: Value = serde_json::from_str(&page).expect("JSON");
    assert_eq!(
        (&run["schema"], &run["counts"]),
        (&"handfast-run/1".into(), &"transactions".into()),
        "{page}"
    );
    assert!(run["seconds"].as_u64() >= Some(2) && run["so_far"]["count"].as_u64() > Some(10), "{page}");
    let top = tools::handfast(&["top", address, "--once"]);
    assert_eq!(top.code, Some(0), "{}", top.all());
    for expected in [
        &format!("process {} ", running.process().0),
        &format!("{}, 20.0/s offered", server.address),
        " of 30 s, ",
        "\nSteps\n",
        "\nhandshake ",
        "\nGenerator threads\n",
        "time         ",
    ] {
        assert!(top.output.contains(expected), "{expected}: {}", top.all());
    }
    running.process().signal(rustix::process::Signal::INT);
    running.ended();
    let top = tools::handfast(&["top", address, "--once"]);
    assert_eq!(top.code, Some(1), "the run is over: {}", top.all());
    assert!(top.talk.contains("handfast load --metrics"), "{}", top.all());
}
