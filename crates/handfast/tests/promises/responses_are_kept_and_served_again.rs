//! HTTP mode with `[service.cache]`: what may be kept is asked of the backend once, and what was not received whole is never served.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;

use super::support::backend::Peer;
use super::support::client::{dial, with_deadline};
use super::support::deadline::wait_until_seeing;
use super::support::folder::Folder;
use super::support::http2::{self, END_HEADERS, END_STREAM, HEADERS, frame, preface};
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_handfast");

/// The requests that an origin has received: first line and fields.
type Seen = Arc<Mutex<Vec<String>>>;

/// An origin whose responses are made by `respond`, which is given the path and the number of requests before.
fn origin(respond: impl Fn(&mut Peer, &str, usize) + Send + Sync + 'static) -> (Backend, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let backend = Backend::start(move |peer| {
        while let Some(head) = peer.head() {
            let path = head.split(' ').nth(1).expect("a path").to_owned();
            let before = {
                let mut seen = noted.lock().expect("no one panics");
                seen.push(head);
                seen.len() - 1
            };
            respond(peer, &path, before);
        }
    });
    (backend, seen)
}

fn count(seen: &Seen) -> usize {
    seen.lock().expect("no one panics").len()
}

/// A response with this content.
fn ok(fields: &str, content: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{content}", content.len()).into_bytes()
}

fn config(folder: &Folder, backend: &Backend, more: &str) -> String {
    let config = Config::empty()
        .service("web", backend.address)
        .set("service", "client-tls", false)
        .text("service", "mode", "http")
        .set("process", "threads", 2);
    format!(
        "{config}[service.cache]\nfolder = \"{}\"\nsize = \"64MiB\"\n{more}",
        folder.file("cache").display()
    )
}

/// Starts a proxy, and waits until its cache is open.
fn start(text: &str) -> Proxy {
    let proxy = Proxy::start(text);
    wait_until("the cache to be open", || {
        (proxy.metrics().sum("handfast_cache_up", &[]) == 1.0).then_some(())
    });
    proxy
}

fn get(proxy: &Proxy, path: &str, fields: &str) -> http::Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n{fields}\r\n");
    http::parse(&http::exchange(proxy.address(), &request)).expect("an answer")
}

/// The parameter of `Cache-Status` behind the name.
fn status(answer: &http::Response) -> &str {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("cache-status: handfast; "));
    line.unwrap_or_default().split(';').next().unwrap_or_default()
}

#[test]
fn over_a_reload_a_restart_and_a_kill() {
    let folder = Folder::new();
    let (backend, seen) = origin(|peer, path, before| {
        peer.send(&ok("Cache-Control: max-age=600\r\n", &format!("{path} {before}")));
    });
    let text = config(&folder, &backend, "");
    let mut proxy = start(&text);
    assert_eq!(status(&get(&proxy, "/a", "")), "fwd=uri-miss");
    for _ in 0..3 {
        let answer = get(&proxy, "/a", "");
        assert_eq!((status(&answer), answer.body.as_str()), ("hit", "/a 0"));
        assert!(answer.head.contains("\r\nage: "), "{}", answer.head);
    }
    proxy.rewrite(format!("{text}stale-if-error = \"1d\"\n"));
    assert!(proxy.reload());
    assert_eq!(get(&proxy, "/a", "").body, "/a 0");
    proxy.signal(Signal::KILL);
    proxy.ended();
    let proxy = start(&text);
    wait_until("what is in the folder to be read", || {
        (status(&get(&proxy, "/a", "")) == "hit").then_some(())
    });
    let found = count(&seen);
    assert_eq!(get(&proxy, "/a", "").body, get(&proxy, "/a", "").body);
    assert_eq!(count(&seen), found);
    // Another URL, another host, another method: none of them is /a.
    for (request, expected) in [
        ("GET /a?x HTTP/1.1\r\nHost: www.example", "fwd=uri-miss"),
        ("GET /a HTTP/1.1\r\nHost: other.example", "fwd=uri-miss"),
        ("OPTIONS /a HTTP/1.1\r\nHost: www.example", "fwd=method"),
    ] {
        let answer = http::exchange(proxy.address(), &format!("{request}\r\nConnection: close\r\n\r\n"));
        assert_eq!(status(&http::parse(&answer).expect("an answer")), expected, "{request}");
    }
}

#[test]
fn by_what_their_origin_says() {
    let folder = Folder::new();
    let (backend, seen) = origin(|peer, path, before| {
        let fields = match path {
            "/private" => "Cache-Control: private, max-age=600\r\n",
            "/cookie" => "Cache-Control: max-age=600\r\nSet-Cookie: a=b\r\n",
            "/nothing" | "/maven2/..%2fnothing" => "",
            "/varied" => "Cache-Control: max-age=600\r\nVary: X-Kind\r\n",
            _ => "Cache-Control: max-age=600\r\n",
        };
        peer.send(&ok(fields, &before.to_string()));
    });
    let proxy = start(&format!(
        "{}immutable = [\"/maven2/**\"]\n[[service.route]]\npath = \"/never\"\ncache = false\n",
        config(&folder, &backend, "")
    ));
    let answers = |path: &str, fields: &str| {
        let before = count(&seen);
        get(&proxy, path, fields);
        get(&proxy, path, fields);
        count(&seen) - before
    };
    for (path, fields, requested) in [
        ("/fresh", "", 1),
        ("/private", "", 2),
        ("/cookie", "", 2),
        ("/nothing", "", 2),
        ("/never", "", 2),
        ("/maven2/a.jar", "", 1),
        // A backend may read these as the path of a page, or of a route that is not cached.
        ("/maven2/..%2fnothing", "", 2),
        ("/%6eever", "", 2),
        ("/no-store", "Cache-Control: no-store\r\n", 2),
        ("/authorized", "Authorization: Bearer x\r\n", 2),
        ("/unkeyed", "X-Original-URL: /admin\r\n", 2),
        ("/varied", "X-Kind: one\r\n", 1),
        ("/varied", "X-Kind: two\r\n", 1),
        ("/varied", "X-Kind: one\r\n", 0),
    ] {
        assert_eq!(answers(path, fields), requested, "{path} {fields}");
    }
    let answer = get(&proxy, "/fresh", "Range: bytes=0-0\r\n");
    assert_eq!((answer.status, answer.body.len()), (206, 1));
    let line = proxy.output.containing("\"status\":206");
    let hit: serde_json::Value = serde_json::from_str(&line).expect("a line of the log");
    assert!(hit["cache"] == "hit" && hit["seconds"]["relay"].as_f64() > Some(0.0), "{line}");
}

/// Reads the head of an answer.
fn read_head(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("it is not cut off") > 0, "{head}");
    }
    head
}

/// Asks, and returns when the head has come.
fn begin(proxy: &Proxy, path: &str) -> BufReader<TcpStream> {
    let mut stream = dial(proxy.address()).expect("it listens");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).expect("it reads");
    let mut reader = BufReader::new(stream);
    assert!(read_head(&mut reader).starts_with("HTTP/1.1 200 "));
    reader
}

#[test]
fn once_for_a_thousand_clients() {
    const CLIENTS: usize = 1_000;
    let folder = Folder::new();
    let gate = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
    let open = Arc::clone(&gate);
    let (backend, seen) = origin(move |peer, _, _| {
        peer.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 200000\r\n\r\n");
        peer.send(&[b'a'; 100_000]);
        let (is_open, changed) = &*open;
        drop(changed.wait_while(is_open.lock().expect("no one panics"), |is_open| !*is_open));
        peer.send(&[b'b'; 100_000]);
    });
    let proxy = start(&config(&folder, &backend, ""));
    // All of them have the first half before the second one is sent.
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| begin(&proxy, "/big")).collect();
    for client in &mut clients {
        let mut half = vec![0; 100_000];
        client.read_exact(&mut half).expect("it arrives while the response is fetched");
        assert!(half.iter().all(|byte| *byte == b'a'));
    }
    *gate.0.lock().expect("no one panics") = true;
    gate.1.notify_all();
    for client in &mut clients {
        let mut half = vec![0; 100_000];
        client.read_exact(&mut half).expect("it arrives");
        assert!(half.iter().all(|byte| *byte == b'b'));
    }
    assert_eq!(count(&seen), 1);
    let shared = proxy.metrics().sum("handfast_cache_requests_total", &[("result", "shared")]);
    assert_eq!(shared, (CLIENTS - 1) as f64);
}

/// Otherwise a client that begins and leaves would send all the others to the backend at once.
#[test]
fn once_also_when_the_client_that_began_leaves() {
    const CLIENTS: usize = 20;
    let folder = Folder::new();
    let gate = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
    let open = Arc::clone(&gate);
    let (backend, seen) = origin(move |peer, _, _| {
        let (is_open, changed) = &*open;
        drop(changed.wait_while(is_open.lock().expect("no one panics"), |is_open| !*is_open));
        peer.send(&ok("Cache-Control: max-age=600\r\n", "all"));
    });
    let proxy = start(&config(&folder, &backend, ""));
    let begin = || {
        let mut client = dial(proxy.address()).expect("it listens");
        client
            .write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        client
    };
    let first = begin();
    wait_until("the backend to receive a request", || (count(&seen) == 1).then_some(()));
    let others: Vec<_> = (0..CLIENTS).map(|_| begin()).collect();
    let requests = || proxy.metrics().sum("handfast_requests_open", &[]);
    wait_until("all of them to wait", || (requests() > CLIENTS as f64 + 0.5).then_some(()));
    first.shutdown(std::net::Shutdown::Write).expect("it is open");
    pause(Duration::from_millis(200));
    *gate.0.lock().expect("no one panics") = true;
    gate.1.notify_all();
    for mut client in others {
        let mut response = String::new();
        client.read_to_string(&mut response).expect("a response");
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("all"), "{response}");
    }
    assert_eq!(count(&seen), 1);
}

#[test]
fn and_one_that_reads_slowly_delays_no_other() {
    let folder = Folder::new();
    let (backend, seen) = origin(|peer, _, _| {
        peer.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 20000000\r\n\r\n");
        peer.send(&vec![b'x'; 20_000_000]);
    });
    let proxy = start(&config(&folder, &backend, ""));
    let slow = begin(&proxy, "/big");
    let mut quick = begin(&proxy, "/big");
    let mut all = vec![0; 20_000_000];
    quick.read_exact(&mut all).expect("it need not wait for the first one");
    assert_eq!(count(&seen), 1);
    drop(slow);
}

#[test]
fn never_in_part() {
    let folder = Folder::new();
    let (backend, seen) = origin(|peer, _, before| {
        if before == 0 {
            peer.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1000\r\n\r\nhalf");
            peer.fin();
        } else {
            peer.send(&ok("Cache-Control: max-age=600\r\n", "whole"));
        }
    });
    let proxy = start(&config(&folder, &backend, ""));
    let mut client = begin(&proxy, "/a");
    let mut rest = Vec::new();
    let read = client.read_to_end(&mut rest);
    assert!(read.is_err() || rest.len() < 1000, "it is cut off: {}", rest.len());
    assert_eq!(get(&proxy, "/a", "").body, "whole");
    wait_until("the whole one to be kept", || (status(&get(&proxy, "/a", "")) == "hit").then_some(()));
    assert_eq!(count(&seen), 2);
}

#[test]
fn also_when_their_origin_fails() {
    let folder = Folder::new();
    let (backend, seen) = origin(|peer, _, before| {
        if before == 0 {
            peer.send(&ok("Cache-Control: max-age=1, stale-if-error=600\r\nETag: \"one\"\r\n", "once"));
        } else {
            peer.send(b"HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\ngone");
        }
    });
    let proxy = start(&config(&folder, &backend, ""));
    assert_eq!(get(&proxy, "/a", "").body, "once");
    wait_until_seeing(
        "it to be stale",
        || (status(&get(&proxy, "/a", "")) == "fwd=stale").then_some(()),
        || get(&proxy, "/a", "").head,
    );
    let answer = get(&proxy, "/a", "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "once"));
    let heads = seen.lock().expect("no one panics").clone();
    assert!(heads[1..].iter().all(|head| head.contains("If-None-Match: \"one\"\r\n")), "{heads:?}");
}

#[test]
fn also_when_their_origin_cannot_be_reached() {
    let folder = Folder::new();
    let (backend, _) = origin(|peer, path, _| {
        let more = if path == "/strict" { ", must-revalidate" } else { "" };
        peer.send(&ok(&format!("Cache-Control: max-age=1{more}\r\n"), "once"));
    });
    let text = config(&folder, &backend, "[service.http]\npool = 0\n");
    let proxy = start(&text);
    for path in ["/a", "/strict"] {
        assert_eq!(get(&proxy, path, "").body, "once");
    }
    let socket = backend.refuse();
    wait_until_seeing(
        "it to be stale",
        || (status(&get(&proxy, "/a", "")) == "fwd=stale").then_some(()),
        || get(&proxy, "/a", "").head,
    );
    assert_eq!(get(&proxy, "/a", "").body, "once");
    // The backend forbids it.
    wait_until("it to be stale too", || (get(&proxy, "/strict", "").status >= 500).then_some(()));
    // An error that the backend sends is forwarded.
    let back = Backend::on_bound(socket, |peer| {
        while peer.head().is_some() {
            peer.send(b"HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\ngone");
        }
    });
    wait_until("the backend to be used again", || (get(&proxy, "/a", "").body == "gone").then_some(()));
    let socket = back.refuse();
    assert_eq!(get(&proxy, "/a", "").body, "once");
    // And the operator.
    proxy.rewrite(text.replace("[service.http]", "stale-if-error = \"off\"\n[service.http]"));
    assert!(proxy.reload());
    assert!(get(&proxy, "/a", "").status >= 500);
    drop(socket);
}

#[test]
fn and_interim_responses_are_for_those_who_wait() {
    let folder = Folder::new();
    let (backend, _) = origin(|peer, _, _| {
        let early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n";
        peer.send(&[early.as_slice(), &ok("Cache-Control: max-age=600\r\n", "page")].concat());
    });
    let proxy = start(&config(&folder, &backend, ""));
    let request = "GET /a HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n\r\n";
    let first = http::exchange(proxy.address(), request);
    assert!(
        first.starts_with("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\nHTTP/1.1 200 "),
        "{first}"
    );
    assert!(first.ends_with("page"), "{first}");
    let again = http::exchange(proxy.address(), request);
    assert!(again.starts_with("HTTP/1.1 200 ") && again.contains("Handfast; hit"), "{again}");
}

/// The flags of the next HEADERS frame.
fn headers(stream: &mut TcpStream) -> u8 {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; length]).expect("its payload");
        if head[3] == HEADERS {
            return head[4];
        }
    }
}

/// With `early-hints`, a client of HTTP/2 has the links of a stored response while the backend validates it.
#[test]
fn and_their_links_come_before_the_backend_answers() {
    needs!("curl");
    let (answers, permission) = sync_channel(10);
    let permission = Mutex::new(permission);
    let (backend, seen) = origin(move |peer, _, before| {
        if before > 0 {
            permission.lock().expect("no one panics").recv_timeout(DEADLINE).expect("the test goes on");
        }
        let links = "Link: </a.css>; rel=preload; as=style\r\nLink: </b.js>; rel=modulepreload\r\n";
        peer.send(&ok(&format!("Cache-Control: max-age=0\r\nETag: \"v\"\r\n{links}"), "page"));
    });
    let folder = Folder::new();
    let proxy = start(&config(&folder, &backend, "early-hints = true\n"));
    let first = "GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(http::exchange(proxy.address(), first).starts_with("HTTP/1.1 200 "));
    let mut client = dial(proxy.address()).expect("it listens");
    with_deadline(&client).expect("a socket");
    client.write_all(&preface(&[])).expect("it reads");
    client.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &http2::get("/a"))).expect("it reads");
    assert_eq!(headers(&mut client) & END_STREAM, 0, "the hints");
    wait_until("the request at the backend", || (count(&seen) == 2).then_some(()));
    answers.send(()).expect("the backend waits");
    assert_eq!(headers(&mut client) & END_STREAM, 0, "the response, with content");

    let url = format!("http://{}/a", proxy.address());
    let by_curl = |version: &str| {
        answers.send(()).expect("the backend waits");
        tools::run(
            "curl",
            &["-sS", "-i", "--noproxy", "*", "--max-time", "20", "-H", "Host: localhost", version, &url],
            b"",
        )
        .output
    };
    let text = by_curl("--http2-prior-knowledge");
    let hints = "HTTP/2 103 \r\nlink: </a.css>; rel=preload; as=style\r\nlink: </b.js>; rel=modulepreload\r\n\r\nHTTP/2 200 ";
    assert!(text.starts_with(hints) && text.ends_with("page"), "{text}");
    let text = by_curl("--http1.1");
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("page"), "{text}");

    // What the service takes from responses is in no hint.
    let text =
        config(&folder, &backend, "early-hints = true\n[service.http]\nremove-response-headers = \"link\"\n");
    proxy.rewrite(text);
    assert!(proxy.reload(), "{:?}", proxy.talk.so_far());
    let text = by_curl("--http2-prior-knowledge");
    assert!(text.starts_with("HTTP/2 200 ") && !text.contains("link:"), "{text}");
}

#[test]
fn until_an_operator_removes_them() {
    let folder = Folder::new();
    let (backend, seen) = origin(|peer, path, _| {
        peer.send(&ok(&format!("Cache-Control: max-age=600\r\nCache-Tag: all, t{path}\r\n"), "x"));
    });
    let proxy = start(&config(&folder, &backend, ""));
    let admin = proxy.admin().to_string();
    let ask = |words: &[&str]| tools::run(PROGRAM, &[&["cache"], words, &["--at", &admin]].concat(), b"");
    let fill = || {
        for path in ["/a", "/b", "/b/c"] {
            get(&proxy, path, "");
        }
        // A hit may still be on its way to the disk, and is in no list then.
        let kept = || proxy.metrics().sum("handfast_cache_objects", &[]);
        wait_until("them to be kept", || (kept() == 3.0).then_some(()));
    };
    let requests_of = |path: &str| {
        let before = count(&seen);
        get(&proxy, path, "");
        count(&seen) - before
    };
    fill();
    let listed = ask(&["list", "--prefix", "http://www.example/b"]);
    assert_eq!(listed.output.lines().count(), 2, "{}", listed.all());
    assert!(listed.output.contains(" http://www.example/b/c\n"), "{}", listed.all());
    for (words, gone, stays) in [
        (&["purge", "http://www.example/b"][..], "/b", "/b/c"),
        (&["purge", "--prefix", "http://www.example/b"], "/b/c", "/a"),
        (&["purge", "--tag", "t/a"], "/a", "/b"),
    ] {
        fill();
        let ran = ask(words);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        assert_eq!((requests_of(gone), requests_of(stays)), (1, 0), "{words:?}: {}", ran.all());
    }
    assert_eq!(ask(&["purge", "--tag", "none"]).output, "0 objects removed\n");
    let wrong = ask(&["purge", "--tag", "x", "--service", "other"]);
    assert!(
        wrong.code == Some(1) && wrong.talk.contains("no service of this name has a cache"),
        "{}",
        wrong.all()
    );
    let stats = tools::run(PROGRAM, &["cache", "stats", "--at", &admin], b"");
    assert!(
        stats.code == Some(0) && stats.output.contains("requests: ") && stats.output.contains("purged"),
        "{}",
        stats.all()
    );
}

#[test]
fn nowhere_else_than_in_their_folder() {
    let folder = Folder::new();
    let (backend, _) = origin(|peer, _, _| peer.send(&ok("Cache-Control: max-age=600\r\n", "x")));
    let text = config(&folder, &backend, "");
    let proxy = start(&text);
    // A second proxy with the same folder serves, without it.
    let other = Proxy::start(&text);
    other.talk.containing("another process uses it");
    assert_eq!(status(&get(&other, "/a", "")), "", "no cache was asked");
    assert_eq!(other.metrics().sum("handfast_cache_up", &[]), 0.0);
    get(&proxy, "/a", "");
    drop(proxy);
    wait_until("the second one to have it", || {
        (other.metrics().sum("handfast_cache_up", &[]) == 1.0).then_some(())
    });
    pause(Duration::from_millis(1));
    wait_until("what was kept to be read", || (status(&get(&other, "/a", "")) == "hit").then_some(()));
}
