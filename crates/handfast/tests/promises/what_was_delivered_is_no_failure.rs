//! A connection over which everything was delivered is no failure, however its peers close: curl with HTTP/1.1 and HTTP/2, Python's urllib,
//! nginx as a backend with TLS, which ends without close_notify, and HAProxy's health checks with a PROXY header.
//!
//! The access log, the metrics and `handfast log` agree on that. A truncated response stays an abort: `an_abort_stays_an_abort`.

use std::net::SocketAddr;
use std::process::Command;

use super::proxies_understand_each_others_headers::{haproxy, nginx};
use super::support::certificates::localhost;
use super::support::deadline::wait_until_seeing;
use super::support::folder::Folder;
use super::support::record::Record;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::{self, Tool};
use super::support::*;

/// A request of each kind is made so often: some of what was called a failure depends on which segment comes first.
const TIMES: usize = 10;

const PAGE: &str = "served by nginx, through the proxy, over TLS on both sides\n";

/// nginx that ends TLS itself, with HTTP/1.1 and HTTP/2.
fn nginx_with_tls(folder: &Folder, address: SocketAddr) -> Tool {
    let place = folder.path().display();
    let pem = folder.write("both.pem", localhost().combined());
    let pem = pem.display();
    folder.write("index.html", PAGE);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {place}/{kind};\n"))
        .concat();
    let config = format!(
        "events {{ }}\nhttp {{\n{temporary}  access_log off;\n  server {{\n    listen {address} ssl http2;\n    root {place};\n    \
         ssl_certificate {pem};\n    ssl_certificate_key {pem};\n  }}\n}}\n"
    );
    nginx(folder, address, &config)
}

/// Every connection so far has ended, there were at least so many, and none of them failed; in the log, in the metrics, and in
/// `handfast log`.
fn none_failed(proxy: &Proxy, at_least: usize) {
    let ended = || proxy.records().len();
    wait_until_seeing(
        &format!("{at_least} connections to end"),
        || (ended() >= at_least).then_some(()),
        || format!("{} did", ended()),
    );
    for record in proxy.records() {
        assert_eq!(record.value("reason")["failed"], serde_json::Value::Null, "{record:?}");
    }
    let metrics = proxy.metrics();
    let name = "handfast_connections_closed_total";
    assert_eq!(metrics.sum(name, &[("failed", "true")]), 0.0, "{}", metrics.text());
    assert!(metrics.sum(name, &[("failed", "false")]) >= at_least as f64, "{}", metrics.text());
    let lines: String = proxy.records().iter().map(|record| format!("{record:?}\n")).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_handfast"));
    let ran = tools::run_command(command.args(["log", "-", "--failures"]), lines.as_bytes());
    assert_eq!((ran.code, ran.output.as_str()), (Some(0), ""), "{ran:?}");
}

/// A proxy in front of nginx, with TLS on both sides; and what curl says to trust it.
struct Scene {
    folder: Folder,
    proxy: Proxy,
    _nginx: Tool,
}

impl Scene {
    fn new(alpn: &str) -> Self {
        let (folder, address) = (Folder::new(), address_of_ones_own());
        let nginx = nginx_with_tls(&folder, address);
        let ca = folder.write("ca.pem", &authority().pem);
        let config = Config::to(&folder, address)
            .set("service", "alpn", alpn)
            .text("service.backend-tls", "ca", ca.display())
            .text("service.backend-tls", "name", "localhost")
            .text("service.backend-tls", "alpn", "client");
        Self { folder, proxy: Proxy::start(config), _nginx: nginx }
    }

    fn ca(&self) -> String {
        self.folder.file("ca.pem").display().to_string()
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/index.html", self.proxy.address().port())
    }
}

#[test]
fn curl_through_to_nginx() {
    needs!("curl");
    needs!("nginx");
    for (flag, version, alpn) in
        [("--http1.1", "1.1", "[\"http/1.1\"]"), ("--http2", "2", "[\"h2\", \"http/1.1\"]")]
    {
        let scene = Scene::new(alpn);
        let (ca, url) = (scene.ca(), scene.url());
        let resolve = format!("localhost:{}:127.0.0.1", scene.proxy.address().port());
        let common =
            ["-sS", "--noproxy", "*", "--max-time", "20", "--cacert", &ca, "--resolve", &resolve, flag];
        for tls in ["1.2", "1.3"] {
            for _ in 0..TIMES {
                let written = ["--tls-max", tls, "-w", "%{http_version}", &url];
                let ran = tools::run("curl", &[&common[..], &written[..]].concat(), b"");
                assert_eq!((ran.code, ran.output), (Some(0), format!("{PAGE}{version}")), "{}", ran.talk);
            }
        }
        none_failed(&scene.proxy, 2 * TIMES);
    }
}

const URLLIB: &str = "
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
for _ in range(int(sys.argv[3])):
    with opener.open(sys.argv[1], timeout=20) as answer:
        sys.stdout.write(answer.read().decode())
";

#[test]
fn urllib_through_to_nginx() {
    needs!("python3");
    needs!("nginx");
    let scene = Scene::new("[\"http/1.1\"]");
    let ran = tools::run("python3", &["-c", URLLIB, &scene.url(), &scene.ca(), &TIMES.to_string()], b"");
    assert_eq!((ran.code, ran.output), (Some(0), PAGE.repeat(TIMES)), "{}", ran.talk);
    none_failed(&scene.proxy, TIMES);
}

/// Its backend ends first, and Python closes before it has read our close_notify.
#[test]
fn urllib_to_a_backend_that_ends_first() {
    needs!("python3");
    let stage = Stage::with(super::real_clients_are_served::http_backend(), |config, _| config);
    let ca = stage.folder.write("ca.pem", &authority().pem).display().to_string();
    let url = format!("https://localhost:{}/", stage.proxy.address().port());
    let ran = tools::run("python3", &["-c", URLLIB, &url, &ca, &TIMES.to_string()], b"");
    assert_eq!((ran.code, ran.output), (Some(0), "served through the proxy\n".repeat(TIMES)), "{}", ran.talk);
    none_failed(&stage.proxy, TIMES);
}

#[test]
fn the_health_checks_of_haproxy() {
    needs!("haproxy");
    for checks in ["check check-send-proxy", "check check-send-proxy check-ssl verify none"] {
        let stage = Stage::with(Backend::echo(), |config, _| {
            config.set("service.proxy-protocol", "accept-from", "[\"127.0.0.0/8\"]")
        });
        let (folder, address) = (Folder::new(), address_of_ones_own());
        let sections = format!(
            "frontend front\n    mode tcp\n    bind {address}\n    default_backend back\nbackend back\n    mode tcp\n    \
             server us {} {checks} send-proxy-v2 inter 50ms\n",
            stage.proxy.address()
        );
        let haproxy = haproxy(&folder, address, &sections);
        // The test's own connection to see whether HAProxy listens came through it as a client, and is no check.
        let is_check = |record: &Record| record.text("client") == record.text("proxied_by");
        let checked = || stage.proxy.records().into_iter().filter(is_check).collect::<Vec<_>>();
        wait_until_seeing(
            "some checks",
            || (checked().len() >= 2 * TIMES).then_some(()),
            || format!("{:?}", stage.proxy.records()),
        );
        drop(haproxy);
        for record in checked() {
            assert_eq!(record.value("reason")["failed"], serde_json::Value::Null, "{checks}: {record:?}");
        }
    }
}
