//! Rates over restarts, keys, widths, and what the screen says.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::model::{KeyAction, Model};
use super::picture::whole;
use super::{Seen, draw};
use crate::screen::{Look, Pieces};

const PLAIN: Look = Look { color: false, unicode: true, terminal: false };

mod caches;
mod requests;

/// A status as the proxy gives it.
fn status(process: u64, accepted: u64) -> Value {
    // About 2 ms each: between 1.4 and 2, and one of four.
    let times = |count: u64, seconds: f64| json!({ "count": count, "sum_seconds": seconds, "buckets_ns": [[2_000_000, count - count / 4], [4_000_000, count / 4]] });
    let each = accepted as f64 / 1_000.0;
    json!({
        "schema": 3,
        "ready": true,
        "attention": [{ "urgency": "bad", "sentence": "The backend 10.0.0.8:80 of web is down for 12 s." }],
        "overview": { "configuration": "/etc/h.toml", "services": [{ "name": "web", "listen": ["0.0.0.0:443"] }] },
        "rates": { "over_seconds": 0.0, "services": {}, "cpu": {} },
        "recent": { "over_seconds": 0.0, "services": {}, "loop_lag": { "worker-0": times(10, 0.001) } },
        "services": [{
            "name": "web", "accepted": accepted, "closed": accepted - 3, "connections_limit": 1000,
            "handshakes_full": accepted / 2, "handshakes_resumed": 0, "bytes_to_backend": 0, "bytes_to_client": accepted * 1024,
            "waiting": { "service": 0 },
            "ends": [
                { "step": "relay", "side": "client", "cause": "finished", "count": accepted, "failed": false, "sentence": "in order" },
                { "step": "hello", "side": "client", "cause": "not-tls", "count": 2, "failed": true, "sentence": "spoke no TLS" },
            ],
            "backends": [
                { "name": "10.0.0.7:80", "state": "up", "connected": accepted, "disconnected": accepted, "failures": {},
                  "connect": times(1, 1.0), "response": times(1, 1.0), "check": null },
                { "name": "10.0.0.8:80", "state": "down", "connected": 7, "disconnected": 7, "failures": { "refused": 4 },
                  "last_failure": "refused", "connect": times(1, 1.0), "response": times(0, 0.0),
                  "check": { "last_at": "2026-11-23T12:00:00.000Z", "last_failure": "status 503" } },
            ],
        }],
        "handshakes": [{ "version": "TLSv1.3", "group": "X25519", "signature": "RSA-2048", "resumed": false,
            "total": times(accepted / 2, each * 4.0),
            "phases": [times(1, each), times(1, each * 2.0), times(1, each), times(1, 0.0)] }],
        "certificates": [
            { "service": "web", "name": "www.example.org", "kind": "RSA-2048", "not_after": "2026-11-30T00:00:00.000Z" },
            { "service": "web", "name": "old.example.org", "kind": "RSA-2048", "not_after": "2026-11-01T00:00:00.000Z" },
        ],
        "threads": [{ "name": "worker-0", "turns": accepted, "tasks": 5, "loop_lag": times(accepted, 1.0) }],
        "failures": [{ "time": "2026-11-23T12:00:01.000Z", "service": "web", "client": "192.0.2.7:4000", "step": "hello", "side": "client", "cause": "not-tls",
            "sentence": "spoke \u{1b}[31mno TLS", "detail": null }],
        "reload": { "generation": 3 },
        "process": { "pid": process, "version": "0.1.0", "started": format!("2026-11-23T1{}:00:00.000Z", process % 2),
            "now": "2026-11-23T12:00:00.000Z", "cpu_seconds": { "worker-0": accepted as f64 / 100.0, "control": 0.5 } },
    })
}

fn seen(process: u64, accepted: u64) -> Seen {
    Seen::read(&status(process, accepted).to_string()).expect("a status")
}

fn answered(model: &mut Model, process: u64, accepted: u64, at: f64) {
    model.answered(at, seen(process, accepted));
}

fn model() -> Model {
    let mut model = Model::new("http://127.0.0.1:7643/status.json".into());
    answered(&mut model, 1, 1_000, 0.0);
    answered(&mut model, 1, 1_050, 2.0);
    model
}

fn text(model: &Model, width: usize, height: usize) -> String {
    let size = [width, height].map(|size| u16::try_from(size).expect("a screen"));
    let mut terminal = Terminal::new(TestBackend::new(size[0], size[1])).expect("it is memory");
    terminal.draw(|frame| draw(model, frame, PLAIN)).expect("it is memory");
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(width.max(1));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n")
        .collect()
}

fn press(model: &mut Model, typed: &str) {
    for letter in typed.chars() {
        assert_eq!(key(model, KeyCode::Char(letter)), KeyAction::Nothing);
    }
}

fn key(model: &mut Model, code: KeyCode) -> KeyAction {
    model.press(KeyEvent::from(code))
}

#[test]
fn rates_are_differences_between_two_moments() {
    let mut model = model();
    let seen = text(&model, 160, 60);
    assert!(seen.contains("25.0/s new") && seen.contains("25.0 KiB/s to clients"), "{seen}");
    assert!(seen.contains("25 %"), "the worker's share of a core: {seen}");
    answered(&mut model, 1, 1_060, 2.0);
    assert!(
        text(&model, 160, 60).contains("rates follow"),
        "no time has passed, and nothing is divided by it"
    );
}

#[test]
fn a_restart_makes_no_negative_rates_and_is_reported() {
    let mut model = model();
    model.failed(3.0, "refused".into());
    model.failed(14.0, "refused".into());
    let seen = text(&model, 160, 24);
    assert!(seen.contains("no answer for 11 s (refused)") && seen.contains("process 1 "), "{seen}");
    answered(&mut model, 2, 10, 15.0);
    let seen = text(&model, 160, 24);
    assert!(seen.contains("process 2 has replaced 1"), "{seen}");
    assert!(seen.contains("– new") && !seen.contains("no answer"), "no rate over two processes: {seen}");
    answered(&mut model, 2, 30, 17.0);
    let seen = text(&model, 160, 24);
    let figures: String = seen.lines().take(8).collect();
    assert!(figures.contains("10.0/s new") && !figures.contains('-'), "{seen}");
    // Of the same process counters do not go back; if they do all the same, nothing came.
    answered(&mut model, 2, 20, 19.0);
    assert!(text(&model, 160, 24).contains("0/s new"), "{}", text(&model, 160, 24));
}

#[test]
fn the_first_moment_has_the_rates_of_the_last_minute() {
    let mut whole = status(1, 1_000);
    whole["rates"] = json!({ "over_seconds": 50.0, "services": { "web": { "connections": 2.0, "bytes_to_client": 2048.0 } },
        "cpu": { "worker-0": 0.41 } });
    whole["recent"]["over_seconds"] = 50.0.into();
    let seen = Seen::read(&whole.to_string()).expect("a status");
    let mut model = Model::new("here".into());
    model.answered(0.0, seen);
    let seen = text(&model, 160, 60);
    for expected in ["rates over 50 s", "2.00/s new", "2.00 KiB/s to clients", "41 %"] {
        assert!(seen.contains(expected), "{expected}: {seen}");
    }
}

#[test]
fn keys_that_are_apart_are_reported() {
    let mut model = model();
    let mut status = status(1, 8);
    status["key_process"] = serde_json::json!({ "answers": true, "restarts": 0 });
    let seen = Seen::read(&status.to_string()).expect("a status");
    model.answered(20.0, seen);
    let text = text(&model, 80, 24);
    assert!(text.contains("generation 3 · keys apart · ready"), "{text}");
}

#[test]
fn every_size_has_what_matters_and_nothing_is_too_wide() {
    let mut model = model();
    for (width, height) in [(80, 24), (200, 60), (40, 10), (20, 5), (1, 1), (0, 0), (400, 200)] {
        for table in '1'..='8' {
            key(&mut model, KeyCode::Char(table));
            text(&model, width, height);
        }
    }
    key(&mut model, KeyCode::Char('2'));
    let small = text(&model, 80, 24);
    assert!(small.contains("generation 3 · ready"), "{small}");
    for expected in [
        "Handfast 0.1.0",
        "8 Alerts 9 Cache",
        "generation 3",
        "ready",
        "10.0.0.8:80",
        "down",
        "q quit",
        "The backend 10.0.0.8:80 of web",
    ] {
        assert!(small.contains(expected), "{expected}: {small}");
    }
    let large = text(&model, 200, 60);
    for expected in [
        "worker-0",
        "www.example.org",
        "expired",
        "6 days",
        "hello / client / not-tls",
        "status 503",
        "192.0.2.7:4000",
    ] {
        assert!(large.contains(expected), "{expected}: {large}");
    }
    assert!(large.contains("spoke \\u{1b}[31mno TLS"), "a peer's text cannot speak to the terminal: {large}");
}

#[test]
fn once_is_everything_without_an_escape() {
    let lines = whole(&model(), 160, PLAIN);
    let text: Vec<String> = lines.iter().map(|line| line.clone().fit_for(PLAIN).bytes()).collect();
    let text = text.join("\n");
    for expected in [
        "Services",
        "Backends",
        "Failures",
        "Recent",
        "Handshakes",
        "Certificates",
        "Threads",
        "Attention",
        "Caches",
    ] {
        assert!(text.contains(&format!("\n{expected}\n")), "{expected}: {text}");
    }
    assert!(!text.contains('\u{1b}'));
    let color = Look { color: true, terminal: true, ..PLAIN };
    let colored: String =
        whole(&model(), 160, color).iter().map(|line| line.clone().fit_for(color).bytes()).collect();
    assert!(colored.contains("\u{1b}[38;5;1m\u{1b}[1m") && colored.contains("\u{1b}[38;5;3m█"), "{colored}");
    let ascii = Look { unicode: false, ..PLAIN };
    assert!(lines.iter().all(|line| line.clone().fit_for(ascii).bytes().is_ascii()));
}

#[test]
fn keys_choose_sort_filter_and_pause() {
    let mut model = model();
    let places = |model: &Model| {
        let seen = text(model, 120, 24);
        let rows: Vec<&str> = seen.lines().filter(|line| line.starts_with("10.0.0.")).collect();
        rows.iter().map(|row| row.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    press(&mut model, "2");
    assert_eq!(places(&model), ["10.0.0.8:80", "10.0.0.7:80"], "what fails comes first");
    press(&mut model, ">");
    assert_eq!(places(&model), ["10.0.0.7:80", "10.0.0.8:80"], "by name");
    press(&mut model, "r");
    assert_eq!(places(&model), ["10.0.0.8:80", "10.0.0.7:80"], "by name, the other way round");
    press(&mut model, "r>>>>>");
    assert!(text(&model, 120, 24).contains("failing▼"), "{}", text(&model, 120, 24));
    press(&mut model, "/8:8");
    assert_eq!(places(&model), ["10.0.0.8:80"], "{}", text(&model, 120, 24));
    key(&mut model, KeyCode::Backspace);
    press(&mut model, "x");
    assert!(text(&model, 120, 24).contains("no row holds 8:x"));
    key(&mut model, KeyCode::Esc);
    assert_eq!(places(&model).len(), 2);
    press(&mut model, "p");
    answered(&mut model, 1, 9_000, 4.0);
    assert!(text(&model, 120, 24).contains("paused") && text(&model, 120, 24).contains("25.0/s new"));
    press(&mut model, "p?");
    assert!(text(&model, 80, 24).contains("while its thread worked on others;"), "nothing of it is cut");
    assert!(text(&model, 120, 24).contains("Any key goes back."));
    assert_eq!(key(&mut model, KeyCode::Char('q')), KeyAction::Nothing, "any key goes back, also this one");
    for code in
        [KeyCode::Up, KeyCode::PageDown, KeyCode::Down, KeyCode::Tab, KeyCode::BackTab, KeyCode::F(12)]
    {
        assert_eq!(key(&mut model, code), KeyAction::Nothing);
    }
    assert_eq!(key(&mut model, KeyCode::Char('q')), KeyAction::End);
    let mut control = |letter| model.press(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
    assert_eq!((control('c'), control('z')), (KeyAction::End, KeyAction::Suspend));
}

#[test]
fn long_tables_are_moved_in_and_say_how_much_is_left() {
    let mut whole = status(1, 1_000);
    let backend = whole["services"][0]["backends"][0].clone();
    let many = (0..50).map(|number| {
        let mut backend = backend.clone();
        backend["name"] = format!("10.0.1.{number}:80").into();
        backend
    });
    whole["services"][0]["backends"] = many.collect();
    let seen = Seen::read(&whole.to_string()).expect("a status");
    let mut model = Model::new("here".into());
    model.answered(0.0, seen);
    key(&mut model, KeyCode::Char('2'));
    let seen = text(&model, 80, 24);
    assert!(seen.contains("10.0.1.0:80") && seen.contains(" more"), "{seen}");
    for _ in 0..20 {
        assert_eq!(key(&mut model, KeyCode::PageDown), KeyAction::Nothing);
    }
    let seen = text(&model, 80, 24);
    assert!(seen.contains("10.0.1.49:80") && !seen.contains(" more"), "{seen}");
}

/// A run of `handfast load` as it says it is.
fn run(seconds: u32) -> Value {
    let latency = |name: &str, count: u64, mean: f64| {
        json!({ "name": name, "count": count, "mean_ns": mean, "p50_ns": 900_000,
        "p90_ns": 2_000_000, "p99_ns": 4_000_000, "max_ns": 9_000_000 })
    };
    let part = |name: &str| {
        json!({ "name": name, "done": 40, "failed": 1, "series": { "name": "exchange", "count": 40,
        "percentiles_ns": { "p50": 700_000, "p99": 800_000 }, "max_ns": 850_000 } })
    };
    json!({
        "schema": "handfast-run/1", "program": "handfast 0.1.0", "process": 77, "title": "localhost:8443, 32 connections",
        "part": "step 2 at 500/s", "duration_seconds": 10.0, "ending": false, "counts": "exchanges", "seconds": seconds,
        "tail": false, "rates": [1000.0, 2000.0, 4000.0], "mean_rate": 2333.3, "so_far": latency("exchange", 7_000, 1e6),
        "last": latency("exchange", 4_000, 1e6),
        "steps": [latency("connect", 40, 100_000.0), latency("handshake", 40, 500_000.0), latency("exchange", 40, 400_000.0)],
        "failures": [{ "step": "connect", "cause": "refused", "count": 5, "last": 2 },
            { "step": "handshake", "cause": "deadline\u{1b}[2J", "count": 1200, "last": 0 }],
        "full": 7000, "resumed": 60, "wanted_resumed": 0.7, "open": 32, "queued": 12,
        "threads": [{ "cpu": 0.95, "starved": 0.1 }, { "cpu": 0.25, "starved": 0.0 }], "lag_p99_ns": 20_000,
        "members": [part("old")], "requests": [part("GET /"), part("GET /big")],
    })
}

fn watched(seconds: u32) -> Model {
    let mut model = Model::new("http://127.0.0.1:9464/status.json".into());
    model.answered(1.0, Seen::read(&run(seconds).to_string()).expect("a run"));
    model
}

#[test]
fn a_run_is_shown_with_its_tables() {
    let mut model = watched(3);
    assert!(model.has_rates());
    let small = text(&model, 80, 24);
    for expected in [
        "Handfast load 0.1.0 · process 77 · localhost:8443, 32 connections",
        "/status.json · last second · step 2 at 500/s",
        "3 s of 10 s, 7 s left",
        "4,000/s  mean 2,333/s (exchanges)  ",
        "1,205  2 in the last second; most often: handshake deadline",
        "12 starts had to wait",
        "cpu 95 % 25 %  lag p99 20.0 µs",
        "1 Steps 2 Failures 3 Requests 4 Clients of the mix 5 Generator threads",
        "1-5 table",
    ] {
        assert!(small.contains(expected), "{expected}: {small}");
    }
    let large = text(&model, 200, 60);
    for expected in
        ["GET /big", "700 µs", "old", "deadline\\u{1b}[2J", "connect 100 µs handshake 500 µs exchange 400 µs"]
    {
        assert!(large.contains(expected), "{expected}: {large}");
    }
    let bar = large.lines().find(|line| line.starts_with("time")).expect("there is one");
    assert!(bar.contains(&format!("{}{}{}", "c".repeat(2), "h".repeat(12), "e".repeat(10))), "{bar}");
    for (width, height) in [(80, 24), (40, 10), (20, 5), (1, 1), (0, 0), (400, 200)] {
        for letter in '1'..='9' {
            key(&mut model, KeyCode::Char(letter));
            text(&model, width, height);
        }
    }
    assert_eq!(model.table, 4, "there are no more than five");
    press(&mut model, "2>>>>r");
    let seen = text(&model, 80, 24);
    let (_, table) = seen.split_once("cause▲").expect("sorted by it, the other way round");
    assert!(table.find("refused") < table.find("deadline"), "{seen}");
    let once = whole(&model, 160, PLAIN);
    assert!(once.iter().any(|line| line.to_string() == "Generator threads"));
}

#[test]
fn a_run_that_is_prepared_shows_no_figures() {
    let seen = text(&watched(0), 80, 24);
    assert!(seen.contains("no second yet") && seen.contains("preparing: one transaction"), "{seen}");
    assert!(!seen.contains("4,000/s") && !seen.contains("7,000"), "{seen}");
}

#[test]
fn figures_that_cannot_be_do_no_harm() {
    for (field, value) in [
        ("duration_seconds", json!(-1.0)),
        ("duration_seconds", json!(1e300)),
        ("duration_seconds", json!(0.0)),
        ("rates", json!([-5.0, 1e300])),
        ("threads", json!([{ "cpu": -1e300, "starved": 1e300 }])),
        ("seconds", json!(u32::MAX)),
        ("full", json!(u64::MAX)),
    ] {
        let mut run = run(3);
        run[field] = value;
        let mut model = Model::new("here".into());
        model.answered(1.0, Seen::read(&run.to_string()).expect("a run"));
        text(&model, 200, 60);
    }
}

#[test]
fn a_proxy_in_the_place_of_a_run_begins_anew() {
    let mut model = watched(3);
    key(&mut model, KeyCode::Char('5'));
    answered(&mut model, 1, 1_000, 2.0);
    assert!(model.table == 0 && text(&model, 80, 24).contains("8 Alerts"));
    assert_eq!(super::tables::TABLES[super::tables::ATTENTION].0, "Attention", "the head names its key");
    key(&mut model, KeyCode::Char('8'));
    model.answered(3.0, Seen::read(&run(4).to_string()).expect("a run"));
    assert!(text(&model, 80, 24).contains("1-5 table"), "{}", text(&model, 80, 24));
    let mut next = run(1);
    next["process"] = 78.into();
    model.answered(4.0, Seen::read(&next.to_string()).expect("a run"));
    assert!(text(&model, 200, 24).contains("process 78 has replaced 77"), "{}", text(&model, 200, 24));
    model.failed(6.0, "refused".into());
    model.failed(9.0, "refused".into());
    assert!(text(&model, 80, 24).contains("the run is over, or gone (no answer for 3 s)"));
}
