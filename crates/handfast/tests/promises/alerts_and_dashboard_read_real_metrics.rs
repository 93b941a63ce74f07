//! The alert rules and the dashboard in `contrib`: Prometheus itself, which scrapes a running proxy, has an answer to every expression
//! in them, and those alerts fire whose reason is there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;

use serde_json::Value;

use super::support::backend::Backend;
use super::support::certificates::{Authority, authority, localhost};
use super::support::client::{Client, dial};
use super::support::config::Config;
use super::support::deadline::{wait_until, wait_until_seeing};
use super::support::folder::Folder;
use super::support::http;
use super::support::proxy::Proxy;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::{self, Tool};
use super::support::trust::{Trust, Version};

const RULES: &str = include_str!("../../../../contrib/prometheus/handfast.rules.yml");
const DASHBOARD: &str = include_str!("../../../../contrib/grafana/handfast.json");

/// A Prometheus that scrapes one proxy five times a second.
struct Prometheus {
    address: SocketAddr,
    _tool: Tool,
}

impl Prometheus {
    fn start(folder: &Folder, proxy: &Proxy) -> Self {
        // Reasons are there at once or not at all: nothing is waited for.
        let lines = RULES.lines().map(|line| {
            if line.trim_start().starts_with("for: ") {
                "        for: 0s\n".into()
            } else {
                format!("{line}\n")
            }
        });
        let rules = folder.write("handfast.rules.yml", lines.collect::<String>());
        let checked = tools::run("promtool", &["check", "rules", &rules.display().to_string()], b"");
        assert_eq!(checked.code, Some(0), "{}", checked.all());
        let config = folder.write(
            "prometheus.yml",
            format!(
                "global: {{ scrape_interval: 200ms, evaluation_interval: 200ms }}\nrule_files: [{}]\nscrape_configs:\n  \
                 - job_name: handfast\n    static_configs: [{{ targets: ['{}'] }}]\n",
                rules.display(),
                proxy.admin()
            ),
        );
        let address = address_of_ones_own();
        let tool = Tool::start(
            "prometheus",
            &[
                &format!("--config.file={}", config.display()),
                &format!("--storage.tsdb.path={}", folder.file("data").display()),
                &format!("--web.listen-address={address}"),
                "--log.level=warn",
            ],
        );
        wait_until("Prometheus to listen", || dial(address).ok());
        // Until then it answers every question with 503.
        let is_ready = || (http::get(address, "/-/ready", "*/*").status == 200).then_some(());
        wait_until("Prometheus to be ready", is_ready);
        Self { address, _tool: tool }
    }

    fn get(&self, path: &str) -> Value {
        let answer = http::get(self.address, path, "*/*");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.body))
    }

    /// Number of series that an expression has now.
    fn series(&self, expression: &str) -> usize {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}"));
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().map_or(0, Vec::len)
    }

    /// Names of the alerts that fire.
    fn firing(&self) -> Vec<String> {
        let answer = self.get("/api/v1/alerts");
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        let mut names: Vec<_> =
            firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap_or("").to_owned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Every expression of the dashboard, as it is asked for when nothing is chosen.
fn of_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let whole = |target: Value| target["expr"].as_str().expect("an expression").to_owned();
    let all = targets.map(whole).map(|expression| {
        expression.replace("$__rate_interval", "10s").replace("$instance", ".*").replace("$service", ".*")
    });
    all.collect()
}

/// Every expression of the alerts, without what it is compared with: what is watched must be there on quiet days too.
fn of_rules() -> Vec<(String, String)> {
    let value = |line: &str, key: &str| line.trim_start().strip_prefix(key).map(str::to_owned);
    let names = RULES.lines().filter_map(|line| value(line, "- alert: "));
    let expressions = RULES.lines().filter_map(|line| value(line, "expr: ")).map(|text| {
        let text: String = serde_json::from_str(&text).expect("a text in quotes");
        let end =
            [" > ", " < ", " == "].iter().filter_map(|sign| text.rfind(sign)).max().expect("a comparison");
        text[..end].to_owned()
    });
    names.zip(expressions).collect()
}

/// Serves the requests of a connection until it ends.
fn http_backend() -> Backend {
    Backend::start(|peer| {
        let stream = peer.stream.try_clone().expect("it is open");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        while lines.any(|line| line.is_empty()) {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    })
}

/// Requests of one client, enough of them for a rate over five minutes, and one that no backend answers.
fn request(proxy: &Proxy) {
    let mut stream = dial(proxy.address_of("api")).expect("it listens");
    let mut requests = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(99);
    requests.push_str("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(requests.as_bytes()).expect("it reads");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("it closes cleanly");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 100, "{answers}");
    assert!(http::get(proxy.address_of("dead-api"), "/", "*/*").status >= 500, "nothing listens there");
}

/// Two services and two for requests, each once with a backend that is up and once without, a backend that is known by name, a revocation list
/// near its end, private keys apart.
fn proxy(folder: &Folder, echo: &Backend, api: &Backend) -> Proxy {
    let certificate = folder.write("web.pem", localhost().combined());
    let ca = folder.write("ca.pem", &authority().pem);
    let list = folder.write("list.pem", authority().revocation_list(&[], 1));
    let config = Config::empty()
        .text("process", "private-keys", "separate-process")
        .service("web", format!("localhost:{}", echo.address.port()))
        .backend(Backend::refusing())
        .certificate(&certificate)
        .set("service.limits", "backend-failures", 1)
        .text("service.client-certificates", "mode", "request")
        .text("service.client-certificates", "ca", ca.display())
        .text("service.client-certificates", "crl", list.display())
        .service("dead", Backend::refusing())
        .certificate(&certificate)
        .set("service.limits", "backend-failures", 1)
        .service("api", api.address)
        .set("service", "client-tls", false)
        .text("service", "mode", "http")
        .text("service.http", "header-timeout", "1s")
        .service("dead-api", Backend::refusing())
        .set("service", "client-tls", false)
        .text("service", "mode", "http");
    Proxy::start(config)
}

#[test]
fn every_expression_has_an_answer_and_reasons_fire() {
    needs!("prometheus");
    let (folder, echo, api) = (Folder::new(), Backend::echo(), http_backend());
    let proxy = proxy(&folder, &echo, &api);
    let prometheus = Prometheus::start(&folder, &proxy);
    let trust = Trust::version(Version::Tls13).config();
    let distrust = Trust::version(Version::Tls13).trusting(&Authority::new("Others")).config();
    let mut slow = Vec::new();
    let mut work = || {
        // An alert of a client, and a request that comes too slowly.
        let _ = Client::try_connect(proxy.address_of("web"), &distrust, "localhost");
        let mut client = dial(proxy.address_of("api")).expect("it listens");
        client.write_all(b"GET / HTTP/1.1\r\n").expect("it reads");
        slow.push(client);
        for _ in 0..4 {
            if let Ok(mut client) = Client::try_connect(proxy.address_of("web"), &trust, "localhost") {
                client.echo(b"hello");
                client.finish();
            }
        }
        let _ = Client::try_connect(proxy.address_of("dead"), &trust, "localhost");
        request(&proxy);
    };
    // Rates need two scrapes with something between them.
    let requested = of_dashboard()
        .into_iter()
        .map(|expression| ("the dashboard".to_owned(), expression))
        .chain(of_rules());
    // They need an issuer, a bus or a cache: certificates_are_ordered_and_renewed, a_fleet_shares_what_it_needs and
    // responses_are_kept_and_served_again read their metrics.
    const ELSEWHERE: [&str; 5] = [
        "HandfastOcspResponseExpires",
        "HandfastCacheDown",
        "HandfastOrdered",
        "HandfastFleetBusDown",
        "HandfastTicketKeysNotShared",
    ];
    let is_elsewhere = |of: &str| ELSEWHERE.iter().any(|start| of.starts_with(start));
    for (of, expression) in requested.filter(|(of, _)| !is_elsewhere(of)) {
        wait_until_seeing(
            &format!("{of} to have an answer"),
            || {
                work();
                (prometheus.series(&expression) > 0).then_some(())
            },
            || expression.clone(),
        );
    }
    proxy.rewrite("this is no configuration");
    assert!(!proxy.reload(), "it is refused");
    const DUE: [&str; 5] = [
        "HandfastBackendDown",
        "HandfastReloadFailed",
        "HandfastRequestsFail",
        "HandfastRevocationListExpires",
        "HandfastServiceHasNoBackend",
    ];
    let due = |names: &[String]| DUE.iter().all(|name| names.iter().any(|fires| fires == name));
    wait_until_seeing(
        "the alerts",
        || due(&prometheus.firing()).then_some(()),
        || prometheus.firing().join(", "),
    );
    let quiet = [
        "HandfastDown",
        "HandfastAcceptsNothing",
        "HandfastPanicked",
        "HandfastNearItsLimit",
        "HandfastNameNotResolved",
        "HandfastResponsesAreSlow",
        "HandfastBackendConnectionsAreNotReused",
    ];
    let firing = prometheus.firing();
    assert!(quiet.iter().all(|name| !firing.iter().any(|fires| fires == name)), "{firing:?}");
}

/// Two hours of requests, a minute for each value. `distrusted`: a fifth of its clients; `late`: a fiftieth of its requests; `fails`: a tenth
/// of its requests; `maintained`: it is in maintenance; `slow`: each response takes 8 s; `unused`: connections are not reused any more after
/// the first hour. `well` has none of that, `fresh` never reuses a connection, and `rare` is as `unused`, with six requests a minute.
const REQUESTS: &str = r#"
rule_files: [original.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - { series: 'handfast_requests_total{instance="a", service="fails", status="2xx"}', values: '0+540x120' }
      - { series: 'handfast_requests_total{instance="a", service="fails", status="5xx"}', values: '0+60x120' }
      - { series: 'handfast_maintenance{instance="a", service="fails"}', values: '0x120' }
      - { series: 'handfast_requests_total{instance="a", service="maintained", status="5xx"}', values: '0+60x120' }
      - { series: 'handfast_maintenance{instance="a", service="maintained"}', values: '1x120' }
      - { series: 'handfast_requests_total{instance="a", service="well", status="2xx"}', values: '0+590x120' }
      - { series: 'handfast_requests_total{instance="a", service="well", status="5xx"}', values: '0+10x120' }
      - { series: 'handfast_requests_total{instance="a", service="late", status="2xx"}', values: '0+590x120' }
      - { series: 'handfast_requests_failed_total{instance="a", service="late", side="client", cause="body-timeout"}', values: '0+12x120' }
      - { series: 'handfast_requests_failed_total{instance="a", service="well", side="client", cause="body-timeout"}', values: '0+3x120' }
      - { series: 'handfast_requests_failed_total{instance="a", service="well", side="backend", cause="body-timeout"}', values: '0+60x120' }
      - { series: 'handfast_connections_accepted_total{instance="a", service="distrusted"}', values: '0+60x120' }
      - { series: 'handfast_connections_closed_total{instance="a", service="distrusted", step="handshake", side="client", cause="alert"}', values: '0+12x120' }
      - { series: 'handfast_connections_accepted_total{instance="a", service="well"}', values: '0+60x120' }
      - { series: 'handfast_connections_closed_total{instance="a", service="well", step="handshake", side="client", cause="alert"}', values: '0+3x120' }
      - { series: 'handfast_connections_closed_total{instance="a", service="well", step="handshake", side="client", cause="closed-early"}', values: '0+30x120' }
      - { series: 'handfast_request_first_byte_seconds_bucket{instance="a", service="slow", le="1"}', values: '0x120' }
      - { series: 'handfast_request_first_byte_seconds_bucket{instance="a", service="slow", le="10"}', values: '0+60x120' }
      - { series: 'handfast_request_first_byte_seconds_bucket{instance="a", service="slow", le="+Inf"}', values: '0+60x120' }
      - { series: 'handfast_request_first_byte_seconds_bucket{instance="a", service="well", le="1"}', values: '0+60x120' }
      - { series: 'handfast_request_first_byte_seconds_bucket{instance="a", service="well", le="+Inf"}', values: '0+60x120' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="unused", connection="reused"}', values: '0+540x60 32400x60' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="unused", connection="new"}', values: '0+60x60 3600+600x60' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="rare", connection="reused"}', values: '0+5x60 300x60' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="rare", connection="new"}', values: '0+1x60 60+6x60' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="well", connection="reused"}', values: '0+540x120' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="well", connection="new"}', values: '0+60x120' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="fresh", connection="reused"}', values: '0x120' }
      - { series: 'handfast_request_backend_connections_total{instance="a", service="fresh", connection="new"}', values: '0+600x120' }
    promql_expr_test:
      - expr: 'count by (alertname, service) (ALERTS{alertstate="firing", service!=""})'
        eval_time: 80m
        exp_samples:
          - { labels: '{alertname="HandfastRequestsFail", service="fails"}', value: 1 }
          - { labels: '{alertname="HandfastHandshakesFailAtCertificates", service="distrusted"}', value: 1 }
          - { labels: '{alertname="HandfastUploadsAreTooSlow", service="late"}', value: 1 }
          - { labels: '{alertname="HandfastResponsesAreSlow", service="slow"}', value: 1 }
          - { labels: '{alertname="HandfastBackendConnectionsAreNotReused", service="unused"}', value: 1 }
"#;

#[test]
fn alerts_about_requests_fire_where_they_should_and_nowhere_else() {
    needs!("promtool");
    let folder = Folder::new();
    folder.write("original.yml", RULES);
    let cases = folder.write("cases.yml", REQUESTS);
    let ran = tools::run("promtool", &["test", "rules", &cases.display().to_string()], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
}
