//! `handfast lab --topology` carries a client's connection over two links of different length, through the proxy on a host between
//! them, to nginx behind it: each link has the round trips that the protocols need there, and each takes as long as its link says.

use std::collections::BTreeMap;
use std::path::Path;

use handfast_wire::capture::{CaptureReader, Next};
use handfast_wire::packet::segment;

use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::skip::{needs, skipped};
use super::support::tools;

/// There and back, in milliseconds: from the client to the proxy, from there to nginx.
const NEAR: u64 = 30;
const FAR: u64 = 70;

const TOPOLOGY: &str = "client = \"client\"\n\
    [[link]]\nbetween = [\"client\", \"proxy\"]\nrtt = \"30ms\"\n\
    [[link]]\nbetween = [\"proxy\", \"web\"]\nrtt = \"70ms\"\n\
    [[server]]\nhost = \"web\"\nrun = \"nginx -p FOLDER -c nginx.conf\"\nport = 8080\n\
    [[server]]\nhost = \"proxy\"\nrun = \"PROGRAM proxy -c FOLDER/handfast.toml\"\nport = 8443\n";

const NGINX: &str = "daemon off; pid nginx.pid; error_log stderr; events { }\n\
    http { access_log off; TEMPORARY\nserver { listen 8080; return 200 \"from behind\\n\"; } }\n";

const PROXY: &str = "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"web\"\n\
    listen = \"0.0.0.0:8443\"\nbackend = \"web:8080\"\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n";

/// Bytes of an alert in TLS 1.3 (RFC 9846 §5.2, §6): what close_notify takes, which no side waits for.
const ALERT: u32 = 24;

/// Writes everything that the hosts need; gives the file with the topology.
fn prepare(folder: &Folder) -> String {
    let path = folder.path().display().to_string();
    tools::self_signed("proxy", &format!("{path}/key.pem"), &format!("{path}/cert.pem"), &[]);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind}; "))
        .concat();
    folder.write("nginx.conf", NGINX.replace("TEMPORARY", &temporary));
    folder.write("handfast.toml", PROXY);
    let topology = TOPOLOGY.replace("FOLDER", &path).replace("PROGRAM", PROGRAM);
    folder.write("net.toml", topology).display().to_string()
}

/// Packets of a connection at the client's end of a link: nanoseconds, whether it came in, whether it has content (SYN, or data).
type Seen = Vec<(u64, bool, bool)>;

/// The connections to `port`, as their client's interface saw them.
fn connections(capture: &Path, port: u16) -> Vec<Seen> {
    let bytes = std::fs::read(capture).expect("the capture was written");
    let mut reader = CaptureReader::default();
    let mut seen: BTreeMap<(String, u16), Seen> = BTreeMap::new();
    let mut rest = &bytes[..];
    loop {
        let passed = match reader.next(rest).expect("the lab writes whole captures") {
            Next::Frame(frame, length) => {
                if let Some(segment) = segment(frame.bytes) {
                    let at = reader.interface_name(frame.interface).unwrap_or_default().to_owned();
                    let back = segment.from.port() == port;
                    let client = if back { segment.to.port() } else { segment.from.port() };
                    let has_content = segment.syn || segment.data > ALERT;
                    if back || segment.to.port() == port {
                        let moment = frame.at.expect("a packet has its time");
                        seen.entry((at, client)).or_default().push((moment, back, has_content));
                    }
                }
                length
            }
            Next::Passed(length) => usize::try_from(length).expect("it is in memory"),
            Next::More(_) => break,
        };
        rest = rest.get(passed..).unwrap_or_default();
    }
    // Both ends have seen the same packets: the one that sent the first of them before it had come to the other.
    let mut ends: BTreeMap<u16, Seen> = BTreeMap::new();
    for ((_, client), packets) in seen {
        let first = packets.first().map(|packet| packet.0);
        if ends.get(&client).is_none_or(|other| first < other.first().map(|packet| packet.0)) {
            ends.insert(client, packets);
        }
    }
    ends.into_values().collect()
}

/// Round trips in which the client could not continue without an answer, with the time of each: from the first packet with content that
/// it sent since the last answer to the first one that came.
fn round_trips(seen: &Seen) -> Vec<u64> {
    let mut requested = None;
    let mut took = Vec::new();
    for (at, back, _) in seen.iter().filter(|(_, _, has_content)| *has_content) {
        match (back, requested) {
            (false, None) => requested = Some(*at),
            (true, Some(begun)) => {
                took.push(at - begun);
                requested = None;
            }
            _ => {}
        }
    }
    took
}

#[test]
fn each_link_has_its_own_round_trips_and_its_own_time() {
    needs!("nginx", "openssl", "curl");
    let ran = tools::run(PROGRAM, &["lab", "--quiet", "--", "true"], b"");
    if ran.code != Some(0) {
        skipped!("no lab: {}", ran.talk);
    }
    let folder = Folder::new();
    let topology = prepare(&folder);
    let file = |name: &str| folder.file(name).display().to_string();
    let (capture, json, certificate) = (file("run.pcapng"), file("run.json"), file("cert.pem"));
    let words = ["lab", "--topology", &topology, "--capture", &capture, "--json", &json, "--"];
    // Ten requests over one connection to the proxy, which has one to nginx for it.
    let urls = vec!["https://proxy:8443/"; 10];
    let client = ["curl", "-sS", "--http1.1", "--tlsv1.3", "--cacert", &certificate];
    let ran = tools::run(PROGRAM, &[&words[..], &client, &urls].concat(), b"");
    assert_eq!(
        (ran.code, ran.output.as_str()),
        (Some(0), "from behind\n".repeat(10).as_str()),
        "{}",
        ran.talk
    );

    let (near, far) =
        (connections(&folder.file("run.pcapng"), 8443), connections(&folder.file("run.pcapng"), 8080));
    assert_eq!((near.len(), far.len()), (1, 1), "one connection on each link");
    let (near, far) = (round_trips(&near[0]), round_trips(&far[0]));
    // TCP, TLS 1.3, ten requests; behind the proxy TCP and ten requests.
    assert_eq!((near.len(), far.len()), (12, 11), "{near:?} {far:?}");
    let ms = |milliseconds: u64| milliseconds * 1_000_000;
    // An answer is never sooner than its link allows; one for which the proxy asks nginx, not sooner than both.
    assert!(far.iter().all(|took| *took >= ms(FAR)), "{far:?}");
    assert!(near[..2].iter().all(|took| *took >= ms(NEAR)), "{near:?}");
    assert!(near[2..].iter().all(|took| *took >= ms(NEAR + FAR)), "{near:?}");

    let report = std::fs::read_to_string(folder.file("run.json")).expect("the report was written");
    let report: serde_json::Value = serde_json::from_str(&report).expect("it is JSON");
    for (link, (hosts, delay)) in
        [(["client", "proxy"], NEAR / 2), (["proxy", "web"], FAR / 2)].into_iter().enumerate()
    {
        let link = &report["links"][link];
        assert_eq!(link["between"], serde_json::json!(hosts), "{link}");
        for direction in link["directions"].as_array().expect("a link has directions") {
            let figure = |of: &str, key: &str| direction[of][key].as_f64().expect("a figure");
            assert_eq!(figure("asked", "delay_ms"), delay as f64, "{direction}");
            // Figures of a distribution have three digits.
            assert!(figure("delay_ms", "min") >= delay as f64 * 0.998, "{direction}");
            let missing = ["lost", "dropped", "missed", "undelivered"].map(|key| direction[key].as_u64());
            assert_eq!(missing, [Some(0); 4], "{direction}");
        }
    }
}
