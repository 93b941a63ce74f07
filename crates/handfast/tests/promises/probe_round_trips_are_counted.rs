//! `handfast probe` counts the round trips of each kind of handshake right, sees the initial window, finds a server's own time, and
//! ends with the exit code that it says.

use std::time::Duration;

use serde_json::Value;

use super::support::backend::Backend;
use super::support::certificates::{authority, localhost};
use super::support::delays::{Manners, TlsServer};
use super::support::folder::Folder;
use super::support::proxy::{PROGRAM, Proxy};
use super::support::skip::{needs, skipped};
use super::support::tools;

/// Rows: port, options, round trips of the full and of the resumed handshake, of the first those that the window cost. Sources: RFC 5246 §7.3,
/// RFC 9846 §2, RFC 9846 §4.2.4; RFC 6928: a chain of 20 kB does not fit ten segments.
const ROWS: [(u16, &[&str], u64, u64, u64); 4] = [
    (8441, &[], 1, 1, 0),
    (8441, &["--tls", "1.2"], 2, 1, 0),
    // A share for the first is sent, and the server wants the second.
    (8442, &["--groups", "secp384r1,X25519"], 2, 2, 0),
    (8443, &[], 2, 1, 1),
];

/// The command of an nginx with three ports: as it is, with one group, with a long chain.
fn nginx() -> (Folder, String) {
    let folder = Folder::new();
    let identity = localhost();
    let key = folder.write("key.pem", &identity.key_pem).display().to_string();
    let short = folder.write("short.pem", &identity.certificate_pem).display().to_string();
    let names = (0..150).map(|number| format!("a-name-that-only-makes-it-longer-{number}.example"));
    let filler = rcgen::CertificateParams::new(names.collect::<Vec<_>>()).expect("names");
    let filler =
        filler.self_signed(&rcgen::KeyPair::generate().expect("a key")).expect("a certificate").pem();
    let long = folder.write("long.pem", format!("{}{}", identity.certificate_pem, filler.repeat(3)));
    let place = folder.file("").display().to_string();
    let server = |port: u16, chain: &str, more: &str| {
        format!(
            "server {{ listen {port} ssl; ssl_certificate {chain}; ssl_certificate_key {key}; {more}\n\
             location / {{ return 200 hello; }} }}\n"
        )
    };
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
        .concat();
    let config = format!(
        "daemon off; worker_processes 1; pid {place}/nginx.pid; error_log stderr crit;\nevents {{ }}\n\
         http {{ access_log off; {folders}ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:probe:1m;\n{}{}{}}}\n",
        server(8441, &short, ""),
        server(8442, &short, "ssl_ecdh_curve X25519;"),
        server(8443, &long.display().to_string(), ""),
    );
    let config = folder.write("nginx.conf", config).display().to_string();
    let program = tools::find("nginx").expect("asked before").display().to_string();
    (folder, format!("{program} -p {place} -e stderr -c {config}"))
}

/// A row's report, in a separate lab.
fn measured(port: u16, options: &[&str]) -> Value {
    let (folder, server) = nginx();
    let json = folder.file("report.json").display().to_string();
    let target = format!("server:{port}");
    let lab = ["lab", "--quiet", "--rtt", "100ms", "--server", &server, "--", PROGRAM];
    let probe = ["probe", "--insecure", "--runs", "5", "--json", &json, &target];
    let ran = tools::run(PROGRAM, &[&lab[..], &probe, options].concat(), b"");
    assert_eq!(ran.code, Some(0), "{options:?}: {}", ran.all());
    serde_json::from_str(&std::fs::read_to_string(&json).expect("it was written")).expect("JSON")
}

#[test]
fn each_kind_of_handshake_has_its_round_trips() {
    needs!("nginx");
    let ran = tools::run(PROGRAM, &["lab", "--quiet", "--", "true"], b"");
    if ran.code != Some(0) {
        skipped!("no lab: {}", ran.talk);
    }
    // All at the same time: they wait for the path, most of the time.
    let reports: Vec<Value> = std::thread::scope(|scope| {
        let begun = ROWS.map(|(port, options, ..)| scope.spawn(move || measured(port, options)));
        begun.map(|row| row.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).into()
    });
    for ((port, options, full, resumed, window), report) in ROWS.iter().zip(reports) {
        assert_eq!(report["schema"], "handfast-probe/1");
        let trips = |kind: &str, of: &str| report[kind]["round_trips"][of].as_u64();
        let found = (trips("full", "handshake"), trips("resumed", "handshake"), trips("full", "window"));
        assert_eq!(found, (Some(*full), Some(*resumed), Some(*window)), "port {port}, {options:?}: {report}");
        assert_eq!(trips("full", "connect"), Some(1));
        assert_eq!(report["agreed"]["hello_retry"], *port == 8442, "{report}");
        let seen = &report["window"];
        assert_eq!(seen["full"], *window == 1, "{seen}");
        if *window == 1 {
            // Ten segments, of which one need not be full.
            assert!((9..=10).contains(&seen["first_segments"].as_u64().expect("a count")), "{seen}");
            assert_eq!(report["advice"][0]["topic"], "initial-window", "{report}");
        }
        // Nothing is faster than the path.
        assert!(report["rtt_ms"]["min"].as_f64().expect("a figure") >= 100.0, "{}", report["rtt_ms"]);
    }
}

#[test]
fn a_flight_in_two_pieces_costs_a_round_trip_that_is_explained() {
    needs!("gnutls-serv");
    let ran = tools::run(PROGRAM, &["lab", "--quiet", "--", "true"], b"");
    if ran.code != Some(0) {
        skipped!("no lab: {}", ran.talk);
    }
    let folder = Folder::new();
    let identity = localhost();
    let key = folder.write("key.pem", &identity.key_pem).display().to_string();
    let certificate = folder.write("leaf.pem", &identity.certificate_pem).display().to_string();
    // It writes its flight with several calls, and leaves Nagle's algorithm on.
    let program = tools::find("gnutls-serv").expect("asked before").display().to_string();
    let server =
        format!("{program} --http --port 8444 --x509certfile {certificate} --x509keyfile {key} --quiet");
    let json = folder.file("report.json").display().to_string();
    let lab = ["lab", "--quiet", "--rtt", "100ms", "--server", &server, "--", PROGRAM];
    let probe = ["probe", "-v", "--insecure", "--runs", "5", "--json", &json, "https://server:8444/"];
    let ran = tools::run(PROGRAM, &[&lab[..], &probe].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
    let trips = &report["full"]["round_trips"];
    assert_eq!(
        (&trips["handshake"], &trips["window"], &trips["nagle"]),
        (&2.into(), &0.into(), &1.into()),
        "{report:#}"
    );
    let mut advice = report["advice"].as_array().expect("a list").iter();
    let advice = advice.find(|advice| advice["topic"] == "nagle").unwrap_or_else(|| panic!("{report:#}"));
    let saves = advice["saves_ms"].as_f64().expect("a figure");
    assert!(saves >= 100.0, "a round trip: {saves}");
    for words in
        ["2 ◄ could be 1", "the rest was held (Nagle)", "TCP_NODELAY", "the server worked on the request for"]
    {
        assert!(ran.output.contains(words), "{words}: {}", ran.output);
    }
}

/// A proxy of ours on loopback, and a file with the authority to trust.
fn served(folder: &Folder) -> (Backend, Proxy, String) {
    let backend = Backend::echo();
    let identity = localhost();
    let certificate = folder.write("leaf.pem", identity.combined()).display().to_string();
    let text = format!(
        "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:0\"\nbackend = \"{}\"\ncertificate = \"{certificate}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
        backend.address
    );
    (backend, Proxy::start(text), folder.write("authority.pem", &authority().pem).display().to_string())
}

#[test]
fn a_server_that_is_slow_by_itself_is_found_out() {
    let slow = TlsServer::start(Manners { handshake_takes: Duration::from_millis(60), ..Manners::default() });
    let folder = Folder::new();
    let authority = folder.write("authority.pem", &authority().pem).display().to_string();
    let (json, address) = (folder.file("slow.json").display().to_string(), slow.address.to_string());
    let words = ["probe", "--runs", "3", "--sni", "localhost", "--ca", &authority, "--json", &json, &address];
    let ran = tools::run(PROGRAM, &words, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
    let least = report["full"]["server_ms"]["min"].as_f64().expect("a figure");
    // Its kernel may acknowledge the hello a moment after the server has read it.
    assert!(least >= 50.0, "{least}: {}", ran.all());
    assert_eq!(report["full"]["round_trips"]["handshake"], 1, "late is not far: {}", ran.all());
    let topics = report["advice"].as_array().expect("a list").iter().map(|advice| &advice["topic"]);
    assert!(topics.clone().any(|topic| topic == "early-termination"), "{}", ran.all());
    assert_eq!(report["tickets"]["taken"], 3, "{}", ran.all());
}

#[test]
fn the_exit_code_and_the_forms_are_those_that_it_says() {
    let folder = Folder::new();
    let (_backend, proxy, authority) = served(&folder);
    let address = proxy.address().to_string();
    let probe = |words: &[&str]| {
        let all = ["probe", "--runs", "2", "--sni", "localhost"];
        tools::run(PROGRAM, &[&all[..], words].concat(), b"")
    };
    let good = probe(&["-v", "--ca", &authority, "--page", "10x40KiB", &address]);
    assert_eq!(good.code, Some(0), "{}", good.all());
    for part in [
        "time_appconnect",
        "Where ",
        "Bytes on the wire",
        "Resumed ",
        "A page of 10",
        "the certificate is trusted",
    ] {
        assert!(good.output.contains(part), "{part}: {}", good.output);
    }
    assert!(!good.output.contains('\u{1b}'), "colours are for terminals: {}", good.output);
    assert!(good.output.lines().all(|line| line.chars().count() <= 80), "{}", good.output);

    let short = probe(&["--ca", &authority, "--page", "10x40KiB", &address]);
    assert!(short.output.lines().count() < 24 && short.output.contains("secured after"), "{}", short.output);

    let html = folder.file("report.html").display().to_string();
    let stranger = probe(&["--html", &html, &address]);
    assert_eq!(stranger.code, Some(1), "not the system's authority: {}", stranger.all());
    assert!(stranger.output.contains("the certificate is not trusted: "), "{}", stranger.output);
    let page = std::fs::read_to_string(&html).expect("written");
    // A waterfall has a row for each step, and each row a bar.
    assert!(page.contains("<span>TLS</span>") && page.contains("<rect class=\"orange\""), "{page}");

    let missed = probe(&["-v", "--insecure", "--max", "appconnect=1us", "--max", "connect=20s", &address]);
    assert_eq!(missed.code, Some(4), "{}", missed.all());
    assert!(
        missed.output.contains("limit appconnect=1us: missed") && missed.output.contains("connect=20s: held")
    );

    let curl = probe(&["--insecure", "--format", "curl", &address]);
    let lines: Vec<&str> = curl.output.lines().collect();
    assert!(lines.len() == 6 && lines[2].starts_with("time_appconnect: 0."), "{}", curl.output);

    let closed = Backend::refusing().to_string();
    let both = probe(&["--insecure", "--json", "-", &closed, &address]);
    assert_eq!(both.code, Some(1), "{}", both.all());
    assert!(
        both.talk.contains("connect: refused") && both.talk.contains("hint: nothing listens"),
        "{}",
        both.talk
    );
    let report: Value = serde_json::from_str(&both.output).expect("the one that answers, and nothing else");
    assert_eq!(report["target"]["name"], address);

    let list =
        folder.write("targets.txt", format!("# ours\n{address}\n{closed} # closed\n")).display().to_string();
    let many = probe(&["--insecure", "--file", &list]);
    assert_eq!((many.code, many.output.lines().count()), (Some(1), 2), "{}", many.all());

    for (wrong, why) in [
        (&["--max", "fast=1s", "a"][..], "unknown figure"),
        (&["https://a/ b"], "expected HOST"),
        (&["--starttls", "smpt", "a"], "smtp"),
        (&["--max", "total=1s", "a"], "https://HOST/PATH"),
    ] {
        let ran = probe(wrong);
        assert_eq!(ran.code, Some(2), "{}", ran.all());
        assert!(ran.talk.contains(why), "{}", ran.talk);
    }
    let topic = tools::run(PROGRAM, &["explain", "rsa"], b"");
    assert!(topic.code == Some(0) && topic.output.contains("ECDSA"), "{}", topic.all());
    assert_eq!(tools::run(PROGRAM, &["explain", "rzz"], b"").code, Some(2));
}
