//! The admin listener over real sockets, with clients that misbehave.

#![expect(clippy::disallowed_methods, reason = "a test's own files, threads and loopback sockets")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::oneshot;

use super::fake::{Fake, Script};
use super::*;
use handfast_config::model::Address;

/// The listener on a separate thread, as on the control thread.
struct Running {
    address: Address,
    script: Arc<Script>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        Self::on(&Address::Ip(SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    fn on(address: &Address) -> Self {
        let listener = bind(address).expect("an address is free");
        let address = listener.address().expect("it has an address");
        let script = Arc::new(Script::default());
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&script);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let serving = async {
                tokio::select! {
                    _ = stopped => {}
                    ended = serve(listener, Rc::new(Fake::new(for_thread)), Rc::default()) => ended.expect("it serves"),
                }
            };
            tokio::task::LocalSet::new().block_on(&runtime, serving);
        });
        Self { address, script, stop: Some(stop), thread: Some(thread) }
    }

    fn tcp(&self) -> TcpStream {
        let Address::Ip(address) = &self.address else { panic!("not TCP") };
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("settable");
        stream
    }

    /// Sends a whole request and reads the whole answer.
    fn request(&self, request: &str) -> String {
        let mut stream = self.tcp();
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer and an end");
        answer
    }

    fn get(&self, path: &str) -> String {
        self.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    fn post(&self, path: &str, headers: &str) -> String {
        self.request(&format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:9\r\nContent-Length: 0\r\n{headers}\r\n"
        ))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the listener does not panic");
        }
    }
}

fn status_of(answer: &str) -> u16 {
    let code = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    code.and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no status in {answer:?}"))
}

fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no body in {answer:?}")).1
}

#[test]
fn what_changes_something_needs_the_token_and_nothing_else_does() {
    let running = Running::start();
    *running.script.token.lock().expect("no test panicked") = Some("0123456789abcdef".into());
    let changes = [
        "/reload",
        "/reopen",
        "/drain",
        "/hand-over",
        "/backends/web/10.0.0.7:8080?state=drain",
        "/acme/a.example?do=renew",
        "/maintenance/web?state=on",
        "/cache?purge=https://a.example/",
    ];
    for path in changes {
        for wrong in
            ["", "Authorization: Bearer 0123456789abcdeF\r\n", "Authorization: Basic 0123456789abcdef\r\n"]
        {
            let answer = running.post(path, wrong);
            assert!(answer.starts_with("HTTP/1.1 401 "), "{path} {wrong}: {answer}");
            assert!(answer.contains("admin.token-file") && !answer.contains("0123"), "{answer}");
        }
    }
    let (reloads, drains) = (&running.script.reloads, &running.script.drains);
    assert_eq!((reloads.load(Ordering::SeqCst), drains.load(Ordering::SeqCst)), (0, 0));
    for path in changes {
        let answer = running.post(path, "Authorization: bearer 0123456789abcdef\r\n");
        assert!(!answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
    }
    assert_eq!((reloads.load(Ordering::SeqCst), drains.load(Ordering::SeqCst)), (1, 1));
    // It lists URLs with their queries.
    assert!(running.get("/cache").starts_with("HTTP/1.1 401 "));
    for path in ["/", "/status.json", "/metrics", "/live"] {
        assert!(running.get(path).starts_with("HTTP/1.1 200 "), "{path}");
    }
}

/// Clients that read the status need no password.
#[test]
fn no_query_is_in_the_status() {
    let running = Running::start();
    for path in ["/", "/status.json"] {
        let answer = running.get(path);
        assert!(answer.contains("/api/orders") && answer.contains("/api/export"), "{path}");
        assert!(!answer.contains("secret"), "{path}");
    }
}

#[test]
fn every_page_is_there() {
    let running = Running::start();
    for (path, content_type, part) in [
        ("/", "text/html", "<h1>Handfast</h1>"),
        ("/status", "text/html", "TLSv1.3 full"),
        ("/status?refresh=5", "text/html", "http-equiv=\"refresh\" content=\"5\""),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "\n# EOF\n"),
        ("/ready", "text/plain", "ready\n"),
        ("/live", "text/plain", "alive\n"),
    ] {
        let answer = running.get(path);
        assert_eq!(status_of(&answer), 200, "{path}: {answer}");
        assert!(answer.contains(&format!("content-type: {content_type}")), "{path}: {answer}");
        assert!(answer.contains("x-content-type-options: nosniff"), "{path}");
        assert!(answer.contains("content-security-policy: default-src 'none';"), "{path}");
        assert!(body_of(&answer).contains(part), "{path}: {answer}");
    }
}

#[test]
fn the_json_has_a_schema_and_the_numbers() {
    let running = Running::start();
    let direct = running.get("/status.json");
    let negotiated = running.request("GET / HTTP/1.1\r\nHost: [::1]\r\nAccept: application/json\r\n\r\n");
    for answer in [direct, negotiated] {
        assert!(answer.contains("content-type: application/json"), "{answer}");
        let json: Value = serde_json::from_str(body_of(&answer)).expect("JSON");
        assert_eq!(json["schema"], crate::SCHEMA);
        assert_eq!(json["ready"], true);
        assert_eq!(json["overview"]["services"][0]["name"], "web");
        assert_eq!(json["services"][1]["accepted"], 3_100);
        assert_eq!(json["handshakes"][0]["phases"][1]["count"], 1_800);
        assert_eq!(json["reload"]["generation"], 3);
        assert!(json["recent"]["handshakes"]["full"]["phases"][3]["count"].is_u64(), "{json}");
        assert!(json["recent"]["loop_lag"]["worker-1"]["count"].is_u64(), "{json}");
        assert_eq!(json["process"]["pid"], std::process::id());
        assert_eq!(json["attention"][0]["urgency"], "bad");
        let finished = &json["services"][1]["ends"][0];
        assert_eq!((&finished["failed"], &finished["cause"]), (&false.into(), &"finished".into()));
        let failures = json["failures"].as_array().expect("some failed");
        let alert = failures.iter().find(|failure| failure["cause"] == "alert").expect("an alert");
        assert_eq!(alert["client"], "192.0.2.44:50123");
        assert_eq!(alert["sentence"], "during the handshake, the client sent a fatal TLS alert");
        assert_eq!(alert["detail"], "received fatal alert: UnknownCA");
        assert!(json["certificates"][0]["not_after"].as_str().is_some_and(|time| time.ends_with('Z')));
    }
}

#[test]
fn not_ready_reports_the_reason() {
    let running = Running::start();
    *running.script.not_ready.lock().expect("no test panicked") =
        Some(NotReady::Draining { connections: 12 });
    let answer = running.get("/ready");
    assert_eq!((status_of(&answer), body_of(&answer)), (503, "not ready: draining: 12 connections left\n"));
    assert_eq!(status_of(&running.get("/live")), 200, "it lives all the same");
    let json: Value = serde_json::from_str(body_of(&running.get("/status.json"))).expect("JSON");
    assert_eq!(json["not_ready_because"], "draining: 12 connections left");
}

#[test]
fn a_reload_answers_with_its_outcome() {
    let running = Running::start();
    let answer = running.post("/reload", "");
    assert_eq!((status_of(&answer), body_of(&answer)), (200, "generation 4 is served\n"));
    *running.script.reload_problem.lock().expect("no test panicked") =
        Some(ReloadRefusal::Refused { problems: "handfast.toml:3: no".into() });
    let answer = running.post("/reload", "");
    assert_eq!((status_of(&answer), body_of(&answer)), (409, "handfast.toml:3: no\n"));
    assert_eq!(running.script.reloads.load(Ordering::SeqCst), 2);
    assert_eq!(status_of(&running.post("/reopen", "")), 202);
    assert_eq!(running.script.reopens.load(Ordering::SeqCst), 1);
    assert_eq!(status_of(&running.post("/drain", "")), 202);
    assert_eq!(running.script.drains.load(Ordering::SeqCst), 1);
}

#[test]
fn a_backend_is_set_by_its_name() {
    let running = Running::start();
    for (path, status, body) in [
        ("web/[::1]:80?state=drain", 200, "[::1]:80 is set to drain\n"),
        ("web/%5B%3a%3A1%5d:80?x&state=up", 200, "[::1]:80 is set to up\n"),
        ("web/unix:/run/x.sock?state=down", 200, "unix:/run/x.sock is set to down\n"),
        ("web/10.0.0.1:80?state=up", 404, "the service has no such backend; it has:\n[::1]:80\n"),
        ("mail/[::1]:80?state=up", 404, "there is no such service; there is: web\n"),
        ("web?state=up", 400, "/backends/web is not /backends/SERVICE/BACKEND\n"),
        // Invalid percent-encodings stay as they are.
        ("web/%zz?state=up", 404, "the service has no such backend; it has:\n[::1]:80\n"),
        ("web/%ff?state=up", 400, "/backends/web/%ff is not /backends/SERVICE/BACKEND\n"),
        ("web/%f?state=up", 404, "the service has no such backend; it has:\n[::1]:80\n"),
    ] {
        let answer = running.post(&format!("/backends/{path}"), "");
        assert_eq!((status_of(&answer), body_of(&answer)), (status, body), "{path}");
    }
    for wrong in ["", "?state=", "?state=gone", "?up"] {
        let answer = running.post(&format!("/backends/web/[::1]:80{wrong}"), "");
        assert_eq!(status_of(&answer), 400, "{answer}");
        assert!(body_of(&answer).contains("?state=drain  no new connections"), "{answer}");
    }
    assert_eq!(status_of(&running.get("/backends/web/[::1]:80?state=drain")), 405);
    let foreign = running.post("/backends/web/[::1]:80?state=down", "Origin: http://example.org\r\n");
    assert_eq!(status_of(&foreign), 403, "{foreign}");
}

#[test]
fn wrong_paths_and_methods_get_the_right_ones() {
    let running = Running::start();
    let answer = running.get("/metric");
    assert_eq!(status_of(&answer), 404);
    assert!(body_of(&answer).contains("GET  /metrics"), "{answer}");
    let answer = running.get("/reload");
    assert_eq!(status_of(&answer), 405);
    assert!(answer.contains("allow: POST\r\n") && answer.contains("curl -X POST …/reload"), "{answer}");
    let answer = running.post("/metrics", "");
    assert_eq!(status_of(&answer), 405);
    assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    assert_eq!(running.script.reloads.load(Ordering::SeqCst), 0, "nothing was reloaded by a GET");
}

#[test]
fn a_head_has_no_body() {
    let answer = Running::start().request("HEAD /live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((status_of(&answer), body_of(&answer)), (200, ""));
}

#[test]
fn a_browser_cannot_be_tricked_into_it() {
    let running = Running::start();
    let rebound = running.request("GET /status.json HTTP/1.1\r\nHost: evil.example:9090\r\n\r\n");
    assert_eq!(status_of(&rebound), 403);
    assert!(rebound.contains("ask by IP address or as localhost"), "{rebound}");
    let absolute = running.request("GET http://evil.example/status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status_of(&absolute), 403, "{absolute}");
    for headers in [
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: https://127.0.0.1:9\r\n",
    ] {
        assert_eq!(status_of(&running.post("/reload", headers)), 403, "{headers}");
    }
    assert_eq!(running.script.reloads.load(Ordering::SeqCst), 0);
    for headers in
        ["Sec-Fetch-Site: same-origin\r\n", "Sec-Fetch-Site: none\r\n", "Origin: http://127.0.0.1:9\r\n"]
    {
        assert_eq!(status_of(&running.post("/reload", headers)), 200, "{headers}");
    }
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let running = Running::start();
    let mut stream = running.tcp();
    let request = format!("GET /live HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    // It may close before it has read everything; what matters is its answer and that it lives on.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || status_of(&answer) == 431, "{answer}");
    assert_eq!(status_of(&running.get("/live")), 200);
}

#[test]
fn what_is_not_http_is_refused() {
    let running = Running::start();
    let mut stream = running.tcp();
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    assert_eq!(status_of(&running.get("/live")), 200);
}

#[test]
fn a_client_that_drips_its_head_is_cut_and_blocks_nobody() {
    let running = Running::start();
    let begun = Instant::now();
    let mut slow: Vec<_> = (0..8).map(|_| running.tcp()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /live HTTP/1.1\r\nHost:").expect("it reads"));
    assert_eq!(status_of(&running.get("/live")), 200, "others are answered meanwhile");
    assert!(begun.elapsed() < Duration::from_secs(9), "before the slow ones' deadline");
    // One drips on; neither drip nor silence holds the connection beyond the deadline of 10 s.
    let dripping = &mut slow[0];
    dripping.set_read_timeout(Some(Duration::from_millis(200))).expect("settable");
    let mut byte = [0; 512];
    loop {
        assert!(begun.elapsed() < Duration::from_secs(25), "a dripping client is not cut");
        match dripping.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let _ = dripping.write_all(b"x");
            }
            Err(_) => break,
        }
    }
    assert!(begun.elapsed() >= Duration::from_secs(8), "not before its time");
    let mut rest = Vec::new();
    let _ = slow[7].read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "a silent one is cut too");
}

#[test]
fn a_name_that_is_allowed_is_answered() {
    let running = Running::start();
    for name in ["metrics.example.org", "Metrics.Example.ORG:7643", "metrics.example.org."] {
        let answer = running.request(&format!("GET /live HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert_eq!(status_of(&answer), 200, "{name}: {answer}");
    }
    let answer = running.request("GET /metrics HTTP/1.1\r\nHost: prometheus.example.org:7643\r\n\r\n");
    assert_eq!(status_of(&answer), 403);
    let cure = "[admin]\n  hosts = [\"prometheus.example.org\"]\n";
    assert!(body_of(&answer).contains(cure), "it says what to set: {answer}");
}

#[test]
fn the_address_is_handed_over_by_who_is_stopping_and_by_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    for address in
        [Address::Ip(SocketAddr::from(([127, 0, 0, 1], 0))), Address::Unix(folder.path().join("admin.sock"))]
    {
        let running = Running::on(&address);
        let address = running.address.clone();
        assert_eq!(neighbour(&address), Some(Neighbour { process: std::process::id() }));
        assert!(!request_address(&address, 2, None).expect("it answers"), "it serves");
        assert!(bind(&address).is_err());
        *running.script.not_ready.lock().expect("no test panicked") =
            Some(NotReady::Draining { connections: 1 });
        assert!(request_address(&address, 2, None).expect("it answers"), "it stops");
        let given = Instant::now();
        while bind(&address).is_err() {
            assert!(given.elapsed() < Duration::from_secs(30), "it was not given up");
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_is_no_handfast_is_no_neighbour() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = Address::Ip(other.local_addr().expect("it is bound"));
    let answers = ["", "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\r\n", "220 mail (process 1)\r\n"];
    let thread = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = other.accept().expect("a client asks");
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    assert!(answers.iter().all(|_| neighbour(&address).is_none()));
    thread.join().expect("it does not panic");
    assert_eq!(neighbour(&address), None, "no process listens");
}

#[test]
fn a_unix_socket_is_private_and_replaced_when_left_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("admin.sock");
    let address = Address::Unix(path.clone());
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a left-over socket"));
    let running = Running::on(&address);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&path).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o660);
    let error = bind(&address).expect_err("a process listens");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.write_all(b"GET /live HTTP/1.1\r\nHost: whatever.example\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert_eq!(status_of(&answer), 200, "no browser asks through a unix socket, so any name will do");
    drop(running);

    let file = folder.path().join("file");
    std::fs::write(&file, "precious").expect("writable");
    assert!(bind(&Address::Unix(file.clone())).is_err());
    assert_eq!(std::fs::read(&file).expect("it is still there"), b"precious");
}

#[test]
fn clients_that_send_nothing_keep_no_probe_waiting() {
    let running = Running::start();
    let mut idle: Vec<_> = (0..70).map(|_| running.tcp()).collect();
    assert_eq!(status_of(&running.get("/ready")), 200);
    // The oldest has made room: its connection ends, long before the deadline for a request.
    assert!(matches!(idle[0].read(&mut [0; 1]), Ok(0)), "it is closed");
    let newest = idle.last_mut().expect("there are others");
    newest.set_nonblocking(true).expect("settable");
    assert!(newest.read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}
