//! HTTP mode: a route for a share of the requests, copies for a server that no client waits for, and a backend that fails too often.

use std::sync::{Arc, Mutex};

use super::support::backend::Peer;
use super::support::deadline::wait_until_seeing;
use super::support::*;

/// One request as a server received it: its head, and its content.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Reads one request; `None`: the connection ended.
fn request(peer: &mut Peer) -> Option<(String, String)> {
    let head = peer.head()?;
    let lower = head.to_ascii_lowercase();
    let content = match lower.split("content-length: ").nth(1) {
        Some(length) => {
            let length = length.split("\r\n").next().and_then(|length| length.parse().ok());
            peer.read_exactly(length.expect("a number"))
        }
        None if lower.contains("transfer-encoding: chunked") => {
            let mut content = Vec::new();
            while !content.ends_with(b"0\r\n\r\n") {
                content.extend(peer.read_exactly(1));
            }
            content
        }
        None => Vec::new(),
    };
    let content = String::from_utf8(content).expect("text");
    let content = if lower.contains("chunked") { http::unchunk(&content)? } else { content };
    Some((head, content))
}

/// Answers each request by `status`, which is given how many were before, and notes it.
fn answering(seen: &Seen, status: impl Fn(usize) -> u16 + Send + Sync + 'static) -> Backend {
    let seen = Arc::clone(seen);
    Backend::start(move |peer| {
        while let Some(request) = request(peer) {
            let before = {
                let mut seen = seen.lock().expect("no one panics");
                seen.push(request);
                seen.len() - 1
            };
            let status = status(before);
            peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    })
}

fn config(backend: &Backend) -> Config {
    Config::empty()
        .service("web", backend.address)
        .set("service", "client-tls", false)
        .text("service", "mode", "http")
        .set("process", "threads", 2)
}

fn count(seen: &Seen) -> usize {
    seen.lock().expect("no one panics").len()
}

#[test]
fn by_the_share_of_a_route() {
    let (old, new) = (Seen::default(), Seen::default());
    let (stable, canary) = (answering(&old, |_| 200), answering(&new, |_| 200));
    let route = |share: &str| {
        format!(
            "{}[[service.route]]\nname = \"canary\"\npath = \"/api\"\nshare = \"{share}\"\nbackend = \"{}\"\n",
            config(&stable),
            canary.address
        )
    };
    let proxy = Proxy::start(route("25%"));
    let sent = 400;
    for _ in 0..sent {
        assert_eq!(http::get(proxy.address(), "/api/x", "*/*").status, 200);
        assert_eq!(http::get(proxy.address(), "/other", "*/*").status, 200);
    }
    // 100 are expected, with a deviation of 8.7: this is six of them to either side.
    assert!((48..152).contains(&count(&new)), "{} of {sent}", count(&new));
    assert_eq!(count(&new) + count(&old), 2 * sent);
    assert!(new.lock().expect("no one panics").iter().all(|(head, _)| head.starts_with("GET /api/x ")));
    proxy.rewrite(route("100%"));
    assert!(proxy.reload());
    let before = count(&new);
    (0..20).for_each(|_| drop(http::get(proxy.address(), "/api", "*/*")));
    assert_eq!(count(&new) - before, 20);
}

fn mirrored(backend: &Backend, mirror: impl std::fmt::Display, more: &str) -> String {
    format!(
        "{}[[service.route]]\nmirror = {{ to = \"{mirror}\", content = \"16B\"{more} }}\nset-request-headers = \"x-set: by us\"\n",
        config(backend)
    )
}

#[test]
fn as_a_copy_with_its_content() {
    let (seen, copies) = (Seen::default(), Seen::default());
    let (backend, mirror) = (answering(&seen, |_| 200), answering(&copies, |_| 500));
    let proxy = Proxy::start(mirrored(&backend, mirror.address, ""));
    assert_eq!(http::get(proxy.address(), "/a?b=c", "*/*").status, 200, "whatever the mirror answers");
    assert_eq!(http::post(proxy.address(), "/form", "16 bytes of text").status, 200);
    let chunked = "POST /chunked HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nabcde\r\n2\r\nfg\r\n0\r\n\r\n";
    assert!(http::exchange(proxy.address(), chunked).starts_with("HTTP/1.1 200 "));
    assert_eq!(http::post(proxy.address(), "/large", "17 bytes of text.").status, 200, "its copy is dropped");
    let large =
        chunked.replace("/chunked", "/large").replace("2\r\nfg", "a\r\n0123456789\r\na\r\n0123456789");
    assert!(http::exchange(proxy.address(), &large).starts_with("HTTP/1.1 200 "));
    let ends = || {
        let metrics = proxy.metrics();
        let of = |end: &str| metrics.sum("handfast_request_copies_total", &[("end", end)]);
        (of("answered"), of("failed"), of("dropped"))
    };
    wait_until_seeing("the copies", || (ends() == (3.0, 0.0, 1.0)).then_some(()), || format!("{:?}", ends()));
    let mut copies = copies.lock().expect("no one panics").clone();
    copies.sort();
    let seen = seen.lock().expect("no one panics").clone();
    let mut expected: Vec<_> = seen.into_iter().filter(|(head, _)| !head.contains("/large")).collect();
    expected.sort();
    assert_eq!(copies.len(), 3);
    for ((copy, content), (original, original_content)) in copies.iter().zip(&expected) {
        assert_eq!((copy, content.ends_with(original_content)), (original, true));
        assert!(
            copy.contains("x-set: by us\r\n") && copy.contains("X-Forwarded-For: 127.0.0.1\r\n"),
            "{copy}"
        );
    }
}

#[test]
fn as_a_copy_that_nobody_waits_for() {
    let seen = Seen::default();
    let backend = answering(&seen, |_| 200);
    let silent = Backend::start(|peer| peer.read_to_end());
    let refusing = Backend::refusing();
    for mirror in [silent.address, refusing] {
        let proxy = Proxy::start(mirrored(&backend, mirror, ""));
        for _ in 0..600 {
            assert_eq!(http::get(proxy.address(), "/", "*/*").status, 200);
        }
        let copies = |end: &str| proxy.metrics().sum("handfast_request_copies_total", &[("end", end)]);
        if mirror == refusing {
            wait_until("the copies to fail", || (copies("failed") == 600.0).then_some(()));
        } else {
            // A thread has 256 of them.
            wait_until("some to be dropped", || (copies("dropped") >= 600.0 - 512.0).then_some(()));
        }
        assert_eq!(proxy.metrics().sum("handfast_requests_total", &[]), 600.0, "copies are none");
        let (code, took) = proxy.stop();
        assert_eq!(code, Some(0));
        assert!(took.as_secs() < 5, "no copy is waited for");
    }
    assert_eq!(count(&seen), 1_200);
}

#[test]
fn when_too_many_of_a_backend_fail() {
    let (bad, good) = (Seen::default(), Seen::default());
    let (failing, well) =
        (answering(&bad, |before| if before % 3 == 0 { 200 } else { 503 }), answering(&good, |_| 200));
    let lines =
        |share: &str| format!("failure-ratio = \"{share}\"\n[service.limits]\nbackend-retry = \"1h\"\n");
    let text = config(&failing).backend(well.address).to_string();
    let proxy = Proxy::start(format!("{text}[service.http]\n{}", lines("60%")));
    let mut unanswered = 0;
    for _ in 0..100 {
        unanswered += u32::from(http::get(proxy.address(), "/", "*/*").status != 200);
    }
    // Two of three fail: it is found with its twentieth.
    assert_eq!((count(&bad), unanswered), (20, 13));
    proxy.talk.containing(
        "is marked down for 3600s after 13 of 20 requests failed within 10s, at last: http-response",
    );
    // A larger share is allowed.
    let proxy = Proxy::start(format!("{text}[service.http]\n{}", lines("70%")));
    for _ in 0..100 {
        http::get(proxy.address(), "/", "*/*");
    }
    assert_eq!(count(&bad), 20 + 50);
}
