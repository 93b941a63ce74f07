//! `handfast probe --from-pcap` says of a capture what its connections took, without a key; `--pcap` makes one that opens decrypted;
//! a user without permission to capture learns what is missing; a file that is cut off or no capture is distinguished from a whole one.

use rustix::process::Signal;
use serde_json::Value;

use super::support::backend::Backend;
use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::proxy::{PROGRAM, Proxy};
use super::support::skip::{needs, skipped};
use super::support::tools::{self, Ran, Tool};

fn json(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("it was written")).expect("it is JSON")
}

/// A key, a certificate, and the command of a server with them.
fn server(folder: &Folder) -> String {
    let identity = localhost();
    let key = folder.write("key.pem", &identity.key_pem).display().to_string();
    let certificate = folder.write("cert.pem", &identity.certificate_pem).display().to_string();
    format!("openssl s_server -quiet -www -accept 8443 -cert {certificate} -key {key}")
}

/// Runs the probe against it in a lab of 60 ms; `None` where there can be none.
fn in_lab(folder: &Folder, lab: &[&str], probe: &[&str]) -> Option<Ran> {
    let server = server(folder);
    if tools::run(PROGRAM, &["lab", "--quiet", "--", "true"], b"").code != Some(0) {
        return None;
    }
    let before = ["lab", "--quiet", "--rtt", "60ms", "--server", &server];
    let words = ["--", PROGRAM, "probe", "-v", "--insecure", "--runs", "1", "https://server:8443/"];
    Some(tools::run(PROGRAM, &[&before[..], lab, &words, probe].concat(), b""))
}

#[test]
fn a_capture_shows_what_its_connections_took_wherever_it_was_made() {
    needs!("openssl");
    let folder = Folder::new();
    let file = |name: &str| folder.file(name).display().to_string();
    let capture = file("run.pcapng");
    let Some(ran) = in_lab(&folder, &["--capture", &capture], &[]) else {
        skipped!("no lab");
    };
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let read = tools::handfast(&["probe", "--from-pcap", &capture, "--json", &file("report.json")]);
    assert_eq!(read.code, Some(0), "{}", read.all());
    assert!(read.output.lines().all(|line| line.chars().count() <= 80), "{}", read.output);
    let report = json(&folder.file("report.json"));
    assert_eq!((&report["format"], &report["broken"]), (&Value::from("pcapng"), &Value::Null));
    let all = report["connections"].as_array().expect("a list");
    // The link has two ends, and the server's sends no request to see whether it listens.
    let of = |interface: &str| -> Vec<&Value> {
        all.iter().filter(|one| one["interface"] == interface && !one["tls"].is_null()).collect()
    };
    let (client, server) = (of("client"), of("server"));
    assert!(client.len() >= 3 && client.len() == server.len(), "{}", read.output);
    for (near, connections) in [("client", client), ("server", server)] {
        for (number, one) in connections.into_iter().enumerate() {
            assert_eq!(one["near"], near, "{one}");
            assert_eq!((&one["round_trips"], &one["window_round_trips"]), (&1.into(), &0.into()), "{one}");
            assert_eq!(
                (&one["tls"]["version"], &one["tls"]["server_name"]),
                (&"TLSv1.3".into(), &"server".into())
            );
            // Look, full, resumed.
            assert_eq!(one["tls"]["resumed"], number == 2, "{one}");
            assert!(one["rtt_ms"].as_f64().is_some_and(|rtt| rtt >= 60.0), "{one}");
            assert_eq!(one["from_server"]["retransmitted"], 0, "{one}");
        }
    }
}

#[test]
fn what_is_no_capture_or_not_all_of_one_is_reported() {
    let folder = Folder::new();
    let text = folder.write("text", "no capture").display().to_string();
    let ran = tools::handfast(&["probe", "--from-pcap", &text]);
    assert_eq!((ran.code, ran.talk.contains("expected pcap or pcapng")), (Some(2), true), "{}", ran.all());
    let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    let whole = folder.write("whole", header).display().to_string();
    let ran = tools::handfast(&["probe", "--from-pcap", &whole]);
    assert_eq!((ran.code, ran.output.contains("0 packets")), (Some(0), true), "{}", ran.all());
    let cut = folder.write("cut", [&header[..], &[1, 2, 3]].concat()).display().to_string();
    let ran = tools::handfast(&["probe", "--from-pcap", &cut, "--json", "-"]);
    assert_eq!((ran.code, ran.talk.contains("cut off: 3 bytes")), (Some(1), true), "{}", ran.all());
    let report: Value = serde_json::from_str(&ran.output).expect("JSON alone on standard output");
    assert!(report["broken"].as_str().is_some_and(|why| why.starts_with("cut off")));
    for words in [&["--from-pcap", "a", "b"][..], &["--from-pcap", "a", "--html", "b"]] {
        assert_eq!(tools::handfast(&[&["probe"], words].concat()).code, Some(2));
    }
}

#[test]
fn its_own_capture_opens_decrypted() {
    needs!("openssl");
    let folder = Folder::new();
    let file = |name: &str| folder.file(name).display().to_string();
    let (capture, report) = (file("own.pcapng"), file("own.json"));
    let Some(ran) = in_lab(&folder, &[], &["--pcap", &capture, "--json", &report]) else {
        skipped!("no lab");
    };
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let wire = &json(&folder.file("own.json"))["wire"];
    let packets = wire["packets"].as_array().expect("its packets");
    assert_eq!((&packets[0]["flags"][0], &packets[1]["flags"][0]), (&"SYN".into(), &"SYN".into()), "{wire}");
    let with = |what: &str| {
        let of = |packet: &&Value| packet["what"].as_array().is_some_and(|all| all.contains(&what.into()));
        packets.iter().filter(of).count()
    };
    assert_eq!((with("ClientHello"), with("ServerHello")), (1, 1), "{wire}");
    assert_eq!((&wire["missed"], &wire["connection"]["round_trips"]), (&0.into(), &1.into()), "{wire}");
    assert!(ran.output.contains("Packets of the median connection"), "{}", ran.output);
    let read = tools::handfast(&["probe", "--from-pcap", &capture]);
    assert!(read.code == Some(0) && read.output.contains("3 TCP connections, 3 of them"), "{}", read.all());
    let bytes = std::fs::read(&capture).expect("it was written");
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(holds(b"CLIENT_TRAFFIC_SECRET_0 ") && holds(b"SERVER_TRAFFIC_SECRET_0 "));
    assert!(!holds(b"GET / HTTP"), "it is encrypted");
    needs!("tshark");
    let shown = tools::run(
        "tshark",
        &[
            "-r",
            &capture,
            "-d",
            "tcp.port==8443,tls",
            "-Y",
            "http.request",
            "-T",
            "fields",
            "-e",
            "http.host",
        ],
        b"",
    );
    assert_eq!(shown.output.lines().collect::<Vec<_>>(), ["server:8443"; 3], "{}", shown.all());
}

#[test]
fn a_user_without_the_right_to_capture_gets_the_missing_permission() {
    needs!("setpriv");
    let folder = Folder::new();
    let file = folder.file("a.pcapng").display().to_string();
    let drop: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["--bounding-set=-net_raw", "--inh-caps=-net_raw"],
        false => &[],
    };
    let words = [drop, &[PROGRAM, "probe", "--insecure", "--pcap", &file, "127.0.0.1:9"]].concat();
    let ran = tools::run("setpriv", &words, b"");
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    for part in ["--pcap: open a socket for packets", "hint: ", "CAP_NET_RAW", "--from-pcap"] {
        assert!(ran.talk.contains(part), "{part}: {}", ran.talk);
    }
    assert!(!folder.file("a.pcapng").exists());
}

/// A proxy that has a certificate, and its backend.
fn served(folder: &Folder) -> (Backend, Proxy) {
    let certificate = folder.write("leaf.pem", localhost().combined()).display().to_string();
    let backend = Backend::echo();
    let proxy = Proxy::start(format!(
        "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:0\"\nbackend = \"{}\"\ncertificate = \"{certificate}\"\n",
        backend.address
    ));
    (backend, proxy)
}

#[test]
fn each_round_is_a_line_for_programs() {
    let folder = Folder::new();
    let (_backend, proxy) = served(&folder);
    let (address, nobody) = (proxy.address().to_string(), Backend::refusing().to_string());
    let file = folder.file("rounds.json");
    for place in ["-", file.to_str().expect("a path")] {
        let words = ["probe", "--insecure", "--watch=0.1", "--json", place, &address, &nobody];
        let watching = Tool::start(PROGRAM, &words);
        let lines = || match place {
            "-" => watching.output.so_far(),
            _ => std::fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect(),
        };
        super::support::deadline::wait_until("three rounds", || (lines().len() > 3).then_some(()));
        let lines = lines();
        watching.process().signal(Signal::INT);
        let ran = watching.ended();
        for (number, line) in lines.iter().take(3).enumerate() {
            let round: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(round["schema"], "handfast-probe-watch/1", "{line}");
            assert_eq!(round["round"], number + 1, "{line}");
            let [one, other] = [&round["targets"][0], &round["targets"][1]];
            assert_eq!(
                (&one["target"], &one["version"]),
                (&address.as_str().into(), &"TLSv1.3".into()),
                "{line}"
            );
            assert!(one["appconnect_ms"].as_f64() > one["connect_ms"].as_f64(), "{line}");
            assert_eq!(
                (&other["appconnect_ms"], &other["error"]["cause"]),
                (&Value::Null, &"refused".into()),
                "{line}"
            );
        }
        let text = if place == "-" { &ran.talk } else { &ran.output };
        assert!(text.contains("connect and full handshake "), "people get the same: {}", ran.all());
    }
}

#[test]
fn it_watches_until_it_is_ended() {
    let folder = Folder::new();
    let (_backend, proxy) = served(&folder);
    let (address, nobody) = (proxy.address().to_string(), Backend::refusing().to_string());
    let words = ["probe", "--insecure", "--watch=0.1", &address, &nobody];
    let watching = Tool::start(PROGRAM, &words);
    let measured = |lines: &[String]| lines.iter().filter(|line| line.contains("TLSv1.3")).count() >= 3;
    super::support::deadline::wait_until("three rounds", || {
        measured(&watching.output.so_far()).then_some(())
    });
    watching.process().signal(Signal::INT);
    let ran = watching.ended();
    assert_eq!(ran.code, Some(1), "one of them does not answer: {}", ran.all());
    let last: Vec<&str> = ran.output.lines().rev().take(3).collect();
    assert!(
        last[2].starts_with("connect and full handshake ") && last[1].starts_with(&address),
        "{}",
        ran.output
    );
    assert!(last[1].contains("  0 of ") && last[0].contains(" –  "), "{}", ran.output);
    assert!(!ran.output.contains('\u{1b}'), "no terminal, no picture: {}", ran.output);
    assert_eq!(
        ran.talk.matches("connect: refused").count(),
        1,
        "the same error is reported once: {}",
        ran.talk
    );
    for wrong in ["--watch=0", "--watch=x", "--watch=1e9"] {
        assert_eq!(tools::handfast(&["probe", wrong, &address]).code, Some(2), "{wrong}");
    }
}
