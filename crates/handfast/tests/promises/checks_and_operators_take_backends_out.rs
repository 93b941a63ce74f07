//! A backend whose checks fail gets no connections, and comes back after `rise`; what an operator takes out gets no new
//! connections, keeps its open ones, and stays out over a reload. Each is said in log, metrics and status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use super::support::*;

/// Answers a check over HTTP with the status of the moment, and echoes anything else.
fn checked(status: &Arc<AtomicU16>) -> Backend {
    let status = Arc::clone(status);
    Backend::start(move |peer| {
        let first = peer.read_exactly(1);
        if first != b"G" {
            peer.send(&first);
            peer.read_to_end();
            return;
        }
        let status = status.load(Ordering::SeqCst);
        peer.send(format!("HTTP/1.1 {status} Text\r\nContent-Length: 0\r\n\r\n").as_bytes());
    })
}

fn served(proxy: &Proxy) -> String {
    let before = proxy.records().len();
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    client.echo(b"x");
    client.finish();
    wait_until("its line", || (proxy.records().len() > before).then_some(()));
    proxy.records().last().expect("there is one").text("backend").to_owned()
}

pub(super) fn up(proxy: &Proxy, backend: &Backend) -> bool {
    proxy.metrics().sum("handfast_backend_up", &[("backend", &backend.address.to_string())]) > 0.5
}

fn set(proxy: &Proxy, backend: &Backend, state: &str) -> http::Response {
    let path = format!("/backends/web/{}?state={state}", backend.address);
    http::request(proxy.admin(), "POST", &path, "*/*")
}

pub(super) fn count_lines(proxy: &Proxy, words: &[&str]) -> usize {
    let has = |line: &&String| words.iter().all(|word| line.contains(word));
    proxy.talk.so_far().iter().filter(has).count()
}

/// It is out of use, or back, a moment before that is said.
fn assert_logged_once(proxy: &Proxy, words: &[&str]) {
    wait_until("it to be logged", || (count_lines(proxy, words) > 0).then_some(()));
    assert_eq!(count_lines(proxy, words), 1, "{words:?}");
}

#[test]
fn a_backend_that_fails_its_check_gets_no_connections_and_comes_back() {
    let status = [(); 2].map(|()| Arc::new(AtomicU16::new(200)));
    let [one, other] = status.each_ref().map(checked);
    let folder = folder::Folder::new();
    let config = Config::to(&folder, one.address)
        .backend(other.address)
        .set("process", "threads", 1)
        .text("service.check", "type", "http")
        .text("service.check", "interval", "100ms")
        .text("service.check", "timeout", "100ms");
    let proxy = Proxy::start(config.clone());
    let passed = || {
        let name = one.address.to_string();
        let labels = [("service", "web"), ("backend", &*name), ("result", "passed")];
        proxy.metrics().sum("handfast_backend_checks_total", &labels)
    };
    wait_until("its checks to pass", || (passed() > 1.5).then_some(()));
    let mut both = [served(&proxy), served(&proxy)];
    both.sort();
    let mut addresses = [one.address.to_string(), other.address.to_string()];
    addresses.sort();
    assert_eq!(both, addresses, "both serve");
    status[0].store(503, Ordering::SeqCst);
    wait_until("it to be out", || (!up(&proxy, &one)).then_some(()));
    for _ in 0..6 {
        assert_eq!(served(&proxy), other.address.to_string());
    }
    let name = one.address.to_string();
    assert_logged_once(
        &proxy,
        &[&name, "is down: 3 checks in a row failed: status 503, expected 200 to 399"],
    );
    let page = http::get(proxy.admin(), "/status", "text/html").body;
    assert!(
        page.contains("by its checks: the last ") && page.contains("status 503, expected 200 to 399"),
        "{page}"
    );
    let seen = proxy.status();
    let of_backend = |seen: &serde_json::Value| {
        let backends = seen["services"][0]["backends"].as_array().expect("a list").clone();
        backends.into_iter().find(|backend| backend["name"] == *name).expect("it is configured")
    };
    let backend = of_backend(&seen);
    assert_eq!(
        (&backend["state"], &backend["check"]["up"]),
        (&"check-failed".into(), &false.into()),
        "{backend}"
    );
    // A reload keeps what checks have found.
    assert!(proxy.reload());
    assert!(!up(&proxy, &one), "also when it is reloaded");
    assert_eq!(served(&proxy), other.address.to_string());
    status[0].store(204, Ordering::SeqCst);
    wait_until("it to be back", || up(&proxy, &one).then_some(()));
    assert_logged_once(&proxy, &[&name, "is up again after", "2 checks in a row passed"]);
    let mut both = [served(&proxy), served(&proxy)];
    both.sort();
    assert_eq!(both, addresses, "both serve again");
    // Without checks, what they found does not count any more.
    status[0].store(500, Ordering::SeqCst);
    wait_until("it to be out again", || (!up(&proxy, &one)).then_some(()));
    let text = config.to_string();
    let (without, _) = text.split_once("[service.check]").expect("it is the last section");
    proxy.rewrite(without);
    assert!(proxy.reload());
    wait_until("it to be used unchecked", || up(&proxy, &one).then_some(()));
}

#[test]
fn a_service_whose_backends_all_fail_their_checks_refuses_its_clients() {
    let may_send = Arc::new(AtomicBool::new(false));
    let word = Arc::clone(&may_send);
    let silent = Backend::start(move |peer| {
        if word.load(Ordering::SeqCst) {
            peer.send(b"220 ready\r\n");
        }
        peer.read_to_end();
    });
    let stage = Stage::with(silent, |config, _| {
        config
            .text("service.check", "type", "send-expect")
            .text("service.check", "expect", "220 ")
            .text("service.check", "interval", "100ms")
            .text("service.check", "timeout", "50ms")
            .set("service.check", "rise", 1)
    });
    wait_until("it to be found silent", || (!up(&stage.proxy, &stage.backend)).then_some(()));
    let name = stage.backend.address.to_string();
    let words = [&*name, "its first check failed: connected, but no whole answer within 50ms"];
    assert_logged_once(&stage.proxy, &words);
    if let Ok(mut client) =
        Client::try_connect(stage.proxy.address(), &Trust::version(Version::Tls13).config(), "localhost")
    {
        assert!(!client.read_to_end().close_notify);
    }
    stage.proxy.record_of("connect/operator/no-backend");
    may_send.store(true, Ordering::SeqCst);
    wait_until("it to be back", || up(&stage.proxy, &stage.backend).then_some(()));
}

#[test]
fn what_an_operator_takes_out_keeps_its_open_connections_and_stays_out() {
    let (folder, [one, other]) = (folder::Folder::new(), [(); 2].map(|()| Backend::echo()));
    let config = Config::to(&folder, one.address).backend(other.address).set("process", "threads", 1);
    let proxy = Proxy::start(config);
    let trust = Trust::version(Version::Tls13).config();
    let mut open = [(); 2].map(|()| Client::connect(proxy.address(), &trust));
    open.iter_mut().for_each(|client| client.echo(b"before"));
    let answer = set(&proxy, &one, "drain");
    assert_eq!(answer.status, 200, "{answer:?}");
    let mark = format!("service web: backend {} is set to drain: no new connections", one.address);
    assert!(answer.body.starts_with(&mark), "{answer:?}");
    assert!(proxy.reload());
    for _ in 0..4 {
        assert_eq!(served(&proxy), other.address.to_string());
    }
    open.iter_mut().for_each(|client| client.echo(b"after"));
    assert!(!up(&proxy, &one) && up(&proxy, &other));
    let still = format!("service web: backend {} is still set to drain by an operator", one.address);
    assert_eq!(count_lines(&proxy, &[&still]), 1, "after the reload");
    let answer = set(&proxy, &other, "down");
    assert!(answer.body.contains("no backend of this service is in use now"), "{answer:?}");
    assert_eq!(set(&proxy, &one, "up").status, 200);
    for _ in 0..4 {
        assert_eq!(served(&proxy), one.address.to_string());
    }
    let unknown = http::request(proxy.admin(), "POST", "/backends/web/10.0.0.1:1?state=up", "*/*");
    assert!(unknown.status == 404 && unknown.body.contains(&one.address.to_string()), "{unknown:?}");
    open.into_iter().for_each(Client::finish);
}

/// A backend that lets only some addresses in is found as connections find it.
#[test]
fn checks_come_from_where_connections_come_from() {
    let let_in = Arc::new(Mutex::new(BTreeSet::from(["127.0.0.5", "127.0.0.6"])));
    let seen = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let (door, noted) = (Arc::clone(&let_in), Arc::clone(&seen));
    let backend = Backend::start(move |peer| {
        let from = peer.stream.peer_addr().expect("it is connected").ip().to_string();
        *noted.lock().expect("no thread panics").entry(from.clone()).or_default() += 1;
        if door.lock().expect("no thread panics").contains(&*from) {
            peer.send(b"+OK\r\n");
        }
    });
    let stage = Stage::with(backend, |config, _| {
        config
            .set("service", "source", "[\"127.0.0.5\", \"127.0.0.6\"]")
            .text("service.check", "type", "send-expect")
            .text("service.check", "expect", "+OK")
            .text("service.check", "interval", "100ms")
            .text("service.check", "timeout", "50ms")
            .set("service.check", "fall", 2)
            .set("service.check", "rise", 2)
    });
    let times = |source: &str| seen.lock().expect("no thread panics").get(source).copied().unwrap_or(0);
    wait_until("checks from both", || (times("127.0.0.5") > 2 && times("127.0.0.6") > 2).then_some(()));
    assert!(up(&stage.proxy, &stage.backend));
    let all: Vec<String> = seen.lock().expect("no thread panics").keys().cloned().collect();
    assert_eq!(all, ["127.0.0.5", "127.0.0.6"], "and from nowhere else");
    // A reload that changes the sources changes those of checks.
    stage.proxy.rewrite(
        stage
            .config()
            .text("service", "source", "127.0.0.7")
            .text("service.check", "type", "send-expect")
            .text("service.check", "expect", "+OK")
            .text("service.check", "interval", "100ms")
            .text("service.check", "timeout", "50ms")
            .set("service.check", "fall", 2),
    );
    assert!(stage.proxy.reload());
    wait_until("the stranger to be kept out", || (!up(&stage.proxy, &stage.backend)).then_some(()));
    assert!(times("127.0.0.7") > 1);
    let_in.lock().expect("no thread panics").insert("127.0.0.7");
    wait_until("it to be let in", || up(&stage.proxy, &stage.backend).then_some(()));
}
