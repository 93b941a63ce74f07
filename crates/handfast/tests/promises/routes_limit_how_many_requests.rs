//! HTTP mode: a route with `rate-limit` takes as many requests as it says, over all versions, connections and threads, and a reload resets
//! nothing. Each one too many gets 429 with `Retry-After`, no backend gets it, and its connection stays open.

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// Permission comes back once in twelve minutes: not during this test.
const ROUTES: &str = r#"
[[service.route]]
path = "/client"
rate-limit = { requests = 5, per = "1h" }

[[service.route]]
path = "/key"
rate-limit = { requests = 1, per = "1h", burst = 2, by = "header:x-key" }

[[service.route]]
path = "/crowd"
rate-limit = { requests = 10, per = "1h", by = "route" }
"#;

/// Answers each request.
fn answering(peer: &mut Peer) {
    while peer.head().is_some() {
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

/// The statuses of requests on one connection, and the number of connections that curl made.
fn statuses(
    proxy: &Proxy,
    ca: &str,
    version: &str,
    (path, count): (&str, usize),
    more: &[&str],
) -> Vec<String> {
    let address = proxy.address();
    let url = format!("https://localhost:{}{path}", address.port());
    let to = format!("localhost:{}:{}", address.port(), address.ip());
    let form = "%{http_code} %header{retry-after} %{num_connects}\\n";
    let mut words = vec!["-sS", "-o", "/dev/null", "-w", form, version, "--cacert", ca, "--resolve", &to];
    words.extend_from_slice(more);
    let urls = vec![url.as_str(); count];
    // Each URL has its own `-o`.
    let outputs: Vec<&str> = (1..count).flat_map(|_| ["-o", "/dev/null"]).collect();
    let ran = tools::run("curl", &[words, outputs, urls].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    ran.output.lines().map(str::to_owned).collect()
}

fn count(lines: &[String], beginning: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(beginning)).count()
}

#[test]
fn whatever_their_version_and_over_a_reload() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(answering));
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let config =
        Config::to(&folder, backend.address).text("service", "mode", "http").set("process", "threads", 2);
    let proxy = Proxy::start(format!("{config}{ROUTES}"));
    let first = statuses(&proxy, &ca, "--http1.1", ("/client", 4), &[]);
    assert_eq!(count(&first, "200 "), 4, "{first:?}");
    // Another way to write its path is counted, too.
    for (path, status) in [("//client", "200 "), ("/%63lient", "429 "), ("/x/../client", "429 ")] {
        let answer = statuses(&proxy, &ca, "--http1.1", (path, 1), &["--path-as-is"]);
        assert_eq!(count(&answer, status), 1, "{path}: {answer:?}");
    }
    let second = statuses(&proxy, &ca, "--http2", ("/client", 4), &[]);
    assert_eq!((count(&second, "200 "), count(&second, "429 720")), (0, 4), "{second:?}");
    assert_eq!(count(&second, "429 720 0"), 3, "the connection stays open: {second:?}");
    proxy.rewrite(format!("{config}{}", ROUTES.replace("requests = 5,", "requests = 5, burst = 5,")));
    assert!(proxy.reload());
    let third = statuses(&proxy, &ca, "--http1.1", ("/client", 3), &[]);
    assert_eq!((count(&third, "429 720 1"), count(&third, "429 720 0")), (1, 2), "{third:?}");
    let other = statuses(&proxy, &ca, "--http1.1", ("/clients", 7), &[]);
    assert_eq!(count(&other, "200 "), 7, "{other:?}");

    let record = proxy.record("a request too many", |record| {
        record.number("status") == 429 && record.text("path") == "/client"
    });
    assert_eq!(record.reason(), "route/operator/request-rate");
    assert_eq!(record.detail(), "127.0.0.1 had used its 5 in 1h and 5 at once");
    assert_eq!(record.text("route"), "route 1");
    assert_eq!(record.text("backend"), "");
    let labels = [("cause", "request-rate"), ("side", "operator"), ("step", "route")];
    assert!((proxy.metrics().sum("handfast_requests_failed_total", &labels) - 9.0).abs() < 0.1);
}

#[test]
fn by_the_value_of_a_field() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(answering));
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let proxy = Proxy::start(format!("{config}{ROUTES}"));
    for (key, expected) in
        [("X-Key: a", 2), ("X-Key: b", 2), ("X-Key: a", 0), ("X-Other: a", 2), ("X-Key;", 2)]
    {
        let seen = statuses(&proxy, &ca, "--http2", ("/key", 3), &["-H", key]);
        assert_eq!((count(&seen, "200 "), count(&seen, "429 ")), (expected, 3 - expected), "{key}: {seen:?}");
    }
}

#[test]
fn of_many_at_once() {
    needs!("h2load");
    let (folder, backend) = (Folder::new(), Backend::start(answering));
    let config =
        Config::to(&folder, backend.address).text("service", "mode", "http").set("process", "threads", 2);
    let proxy = Proxy::start(format!("{config}{ROUTES}"));
    let url = format!("https://localhost:{}/crowd", proxy.address().port());
    let ran = tools::run("h2load", &["-n", "400", "-c", "8", "-m", "10", &url], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.output.contains("status codes: 10 2xx, 0 3xx, 390 4xx, 0 5xx"), "{}", ran.all());
}
