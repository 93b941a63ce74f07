//! HTTP mode: with `compression`, clients that accept a coding get it, and exactly what the backend sent when they decode it; a response that is cut
//! off never looks complete; and everything that must not be compressed is what the backend sent.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::*;

const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];
/// Ways in which a message ends towards a client.
const VERSIONS: [&str; 2] = ["--http1.1", "--http2"];

/// Text with and without repetitions.
fn page(length: usize) -> String {
    let mut random = 1_u64;
    let mut page = String::new();
    while page.len() < length {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        page.push_str(&format!("<li class=\"item\">{:x}</li>\n", random >> 40));
    }
    page.truncate(length);
    page
}

/// A service with TLS, so that clients may speak either version.
fn config(folder: &Folder, backend: &Backend, compression: &str) -> String {
    let config = Config::to(folder, backend.address).text("service", "mode", "http");
    format!("{config}[service.http]\ncompression = {compression}\n")
}

fn plain_config(backend: &Backend, compression: &str) -> String {
    let config = Config::empty()
        .service("web", backend.address)
        .set("service", "client-tls", false)
        .set("process", "threads", 1)
        .text("service", "mode", "http");
    format!("{config}[service.http]\ncompression = {compression}\n")
}

/// Answers each request of a connection with `respond`, which receives its head.
fn answering(respond: impl Fn(&mut Peer, &str) + Send + Sync + 'static) -> Backend {
    Backend::start(move |peer| {
        while let Some(head) = peer.head() {
            respond(peer, &head);
        }
    })
}

/// The words of curl for this path, which decodes by itself.
fn curl(proxy: &Proxy, ca: &str, path: &str, more: &[&str]) -> Vec<String> {
    let port = proxy.address().port();
    let (url, resolve) = (format!("https://localhost:{port}{path}"), format!("localhost:{port}:127.0.0.1"));
    let words =
        ["-sS", "-N", "--noproxy", "*", "--max-time", "20", "--cacert", ca, "--resolve", &resolve, &url];
    words.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn run_curl(proxy: &Proxy, ca: &str, path: &str, more: &[&str]) -> tools::Ran {
    let words = curl(proxy, ca, path, more);
    tools::run("curl", &words.iter().map(String::as_str).collect::<Vec<_>>(), b"")
}

/// Sends a request with these fields and reads to the end of the connection; the head, and what follows it.
fn exchange(address: SocketAddr, line: &str, fields: &[&str]) -> (String, Vec<u8>) {
    let mut stream = client::dial(address).expect("it listens");
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("it ends");
    let end = received.windows(4).position(|part| part == b"\r\n\r\n").expect("a head") + 4;
    (String::from_utf8(received[..end].to_vec()).expect("text"), received[end..].to_vec())
}

/// The fields of a head with this name, in lower case.
fn values(head: &str, name: &str) -> Vec<String> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.to_ascii_lowercase())
        .collect()
}

/// Takes chunks apart; the content, and the trailer section.
fn unchunked(mut rest: &[u8]) -> (Vec<u8>, String) {
    let mut content = Vec::new();
    loop {
        let end = rest.windows(2).position(|part| part == b"\r\n").expect("the size of a chunk");
        let size = usize::from_str_radix(str::from_utf8(&rest[..end]).expect("text"), 16).expect("a number");
        rest = &rest[end + 2..];
        if size == 0 {
            return (content, String::from_utf8(rest.to_vec()).expect("text"));
        }
        content.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

/// The content of a response, however its message ends.
fn whole(head: &str, rest: &[u8]) -> Vec<u8> {
    let is_chunked = !values(head, "transfer-encoding").is_empty();
    if is_chunked { unchunked(rest).0 } else { rest.to_vec() }
}

fn gunzip(coded: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(coded).read_to_end(&mut content).expect("a whole gzip file");
    content
}

#[test]
fn in_each_coding_and_version_however_the_backend_frames_it() {
    needs!("curl");
    let page = page(300_000);
    let sent = page.clone();
    let backend = answering(move |peer, head| {
        let fields = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
        match head.split(' ').nth(1).expect("a path") {
            "/length" => {
                peer.send(format!("{fields}Content-Length: {}\r\n\r\n{sent}", sent.len()).as_bytes())
            }
            "/chunked" => {
                peer.send(format!("{fields}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
                for piece in sent.as_bytes().chunks(7001) {
                    peer.send(format!("{:x}\r\n", piece.len()).as_bytes());
                    peer.send(piece);
                    peer.send(b"\r\n");
                }
                peer.send(b"0\r\n\r\n");
            }
            _ => {
                peer.send(format!("{fields}Connection: close\r\n\r\n{sent}").as_bytes());
                peer.fin();
            }
        }
    });
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let proxy = Proxy::start(config(&folder, &backend, "true"));
    for coding in CODINGS {
        for version in VERSIONS {
            for path in ["/length", "/chunked", "/close"] {
                let accept = format!("Accept-Encoding: {coding}");
                let more = [
                    version,
                    "--compressed",
                    "-H",
                    &accept,
                    "-w",
                    "%{stderr}%header{content-encoding} %{size_download}",
                ];
                let ran = run_curl(&proxy, &ca, path, &more);
                let what = format!("{coding} {version} {path}: {}", ran.talk);
                assert_eq!(ran.code, Some(0), "{what}");
                assert!(ran.output == page, "{what}: {} bytes", ran.output.len());
                let (received, size) = ran.talk.trim().split_once(' ').expect("what was written");
                assert_eq!(received, coding, "{what}");
                assert!(size.parse::<usize>().expect("a number") < page.len() / 3, "{what}");
            }
        }
        let metrics = proxy.metrics();
        let labels = [("coding", coding)];
        let [count, before, after] = [
            "responses_compressed_total",
            "response_uncompressed_bytes_total",
            "response_compressed_bytes_total",
        ]
        .map(|name| metrics.sum(&format!("handfast_{name}"), &labels));
        assert_eq!((count, before), (6.0, 6.0 * page.len() as f64), "{coding}");
        assert!(after > 0.0 && after < before / 3.0, "{coding}: {after} of {before}");
    }
}

#[test]
fn for_python_too() {
    needs!("python3");
    const PYTHON: &str = r#"
import http.client, sys, zlib
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
for accept in ["gzip", "identity", "gzip;q=0"]:
    connection.request("GET", "/", headers={"Accept-Encoding": accept})
    response = connection.getresponse()
    content = response.read()
    coding = response.getheader("Content-Encoding")
    if coding == "gzip":
        content = zlib.decompress(content, 16 + zlib.MAX_WBITS)
    print(coding, response.getheader("Vary"), response.getheader("Content-Length"), zlib.crc32(content))
"#;
    let page = page(40_000);
    let sum = {
        let mut sum = flate2::Crc::new();
        sum.update(page.as_bytes());
        sum.sum()
    };
    let length = page.len();
    let backend = answering(move |peer, _| {
        peer.send(
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: {length}\r\n\r\n{page}")
                .as_bytes(),
        );
    });
    let proxy = Proxy::start(plain_config(&backend, "true"));
    let ran = tools::run("python3", &["-c", PYTHON, &proxy.address().port().to_string()], b"");
    let plain = format!("None Accept-Encoding {length} {sum}\n");
    assert_eq!(ran.output, format!("gzip Accept-Encoding None {sum}\n{plain}{plain}"), "{ran:?}");
    assert_eq!(backend.accepted(), 1, "the connections stay usable");
}

#[test]
fn as_soon_as_the_backend_has_written_something() {
    needs!("curl");
    for coding in CODINGS {
        for version in VERSIONS {
            let (next, wait): (SyncSender<()>, Receiver<()>) = sync_channel(1);
            let wait = Mutex::new(wait);
            let backend = answering(move |peer, _| {
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
                for number in 1..=3 {
                    // The next event is sent when the client has shown that it has the one before.
                    peer.send(format!("9\r\ndata: {number}\n\n\r\n").as_bytes());
                    wait.lock()
                        .expect("no one panics")
                        .recv_timeout(DEADLINE)
                        .expect("the client has the event");
                }
                peer.send(b"0\r\n\r\n");
            });
            let folder = Folder::new();
            let ca = folder.write("ca.pem", &authority().pem).display().to_string();
            let proxy = Proxy::start(config(&folder, &backend, "true"));
            let accept = format!("Accept-Encoding: {coding}");
            let words = curl(&proxy, &ca, "/", &[version, "--compressed", "-H", &accept]);
            let client = tools::Tool::start("curl", &words.iter().map(String::as_str).collect::<Vec<_>>());
            for number in 1..=3 {
                client.output.containing(&format!("data: {number}"));
                next.send(()).expect("the backend waits");
            }
            let ran = client.ended();
            assert_eq!(ran.code, Some(0), "{coding} {version}: {ran:?}");
        }
    }
}

#[test]
fn and_what_is_cut_off_never_looks_complete() {
    needs!("curl");
    let page = page(100_000);
    let backend = answering(move |peer, head| {
        let is_chunked = head.starts_with("GET /chunked ");
        let framing = if is_chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 100000" };
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{framing}\r\n\r\n").as_bytes());
        if is_chunked {
            peer.send(b"c350\r\n");
        }
        peer.send(&page.as_bytes()[..50_000]);
        // A clean end of the connection is none of the message.
        peer.fin();
    });
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let proxy = Proxy::start(config(&folder, &backend, "true"));
    for coding in CODINGS {
        for version in VERSIONS {
            for path in ["/chunked", "/length"] {
                let accept = format!("Accept-Encoding: {coding}");
                let ran = run_curl(&proxy, &ca, path, &[version, "--compressed", "-H", &accept]);
                assert!(matches!(ran.code, Some(code) if code != 0), "{coding} {version} {path}: {ran:?}");
            }
        }
    }
}

#[test]
fn with_the_head_that_belongs_to_it_and_trailers() {
    let page = page(20_000);
    let sent = page.clone();
    let backend = answering(move |peer, head| {
        let fields = "Content-Type: text/html\r\nETag: \"v1\"\r\nAccept-Ranges: bytes";
        let length = sent.len();
        let (line, path) = (head.lines().next().expect("a line"), head.split(' ').nth(1).expect("a path"));
        let response = match path {
            _ if head.to_ascii_lowercase().contains("if-none-match: w/\"v1\"") => {
                "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".to_owned()
            }
            "/trailers" => format!(
                "HTTP/1.1 200 OK\r\n{fields}\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{sent}\r\n0\r\nX-Sum: 7\r\n\
                 Repr-Digest: sha-256=:YQ==:\r\n\r\n"
            ),
            "/range" => format!(
                "HTTP/1.1 206 Partial Content\r\n{fields}\r\nContent-Range: bytes 0-9999/{length}\r\nContent-Length: 10000\r\n\r\n{}",
                &sent[..10_000]
            ),
            _ if line.starts_with("HEAD") => {
                format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {length}\r\n\r\n")
            }
            _ => format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{sent}"),
        };
        peer.send(response.as_bytes());
    });
    let proxy = Proxy::start(plain_config(&backend, "{ algorithms = \"gzip\" }"));
    let address = proxy.address();
    let gzip = "Accept-Encoding: gzip";

    let (head, rest) = exchange(address, "GET /", &[gzip]);
    assert_eq!(values(&head, "content-encoding"), ["gzip"], "{head}");
    assert_eq!(values(&head, "etag"), ["w/\"v1\""], "{head}");
    assert_eq!(values(&head, "vary"), ["accept-encoding"], "{head}");
    assert!(
        values(&head, "content-length").is_empty() && values(&head, "accept-ranges").is_empty(),
        "{head}"
    );
    assert_eq!(gunzip(&unchunked(&rest).0), page.as_bytes());

    let (of_head, rest) = exchange(address, "HEAD /", &[gzip]);
    let same = |head: &str| {
        head.lines().filter(|line| !line.starts_with("Transfer-")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((same(&of_head), rest.len()), (same(&head), 0), "the head of GET, and no content");

    // A client without a coding gets everything as it is, and caches on the way learn that others do not.
    let (head, rest) = exchange(address, "GET /", &[]);
    assert_eq!(
        (values(&head, "vary"), values(&head, "etag")),
        (vec!["accept-encoding".into()], vec!["\"v1\"".into()])
    );
    assert_eq!((values(&head, "accept-ranges"), rest), (vec!["bytes".to_owned()], page.clone().into_bytes()));

    // The weak tag is compared weakly (RFC 9110 §13.1.2), and confirmed in the form that the client has.
    let (head, rest) = exchange(address, "GET /", &[gzip, "If-None-Match: W/\"v1\""]);
    assert!(head.starts_with("HTTP/1.1 304 ") && rest.is_empty(), "{head}");
    assert_eq!(values(&head, "etag"), ["w/\"v1\""], "{head}");

    let (head, rest) = exchange(address, "GET /range", &[gzip, "Range: bytes=0-9999"]);
    assert!(values(&head, "content-encoding").is_empty() && values(&head, "vary").is_empty(), "{head}");
    assert_eq!(
        (values(&head, "etag"), rest),
        (vec!["\"v1\"".to_owned()], page.as_bytes()[..10_000].to_vec())
    );

    let (_, rest) = exchange(address, "GET /trailers", &[gzip, "TE: trailers"]);
    let (content, trailers) = unchunked(&rest);
    assert_eq!(gunzip(&content), page.as_bytes());
    assert_eq!(trailers, "X-Sum: 7\r\n\r\n", "and no checksum of bytes that the client does not have");
}

#[test]
fn within_their_memory() {
    let (next, wait): (SyncSender<()>, Receiver<()>) = sync_channel(1);
    let wait = Mutex::new(wait);
    let page = page(5000);
    let backend = answering(move |peer, head| {
        let fields = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
        if head.starts_with("GET /open ") {
            peer.send(format!("{fields}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").as_bytes());
            wait.lock().expect("no one panics").recv_timeout(DEADLINE).expect("the test goes on");
            peer.send(b"0\r\n\r\n");
        } else {
            peer.send(format!("{fields}Content-Length: 5000\r\n\r\n{page}").as_bytes());
        }
    });
    let config = plain_config(&backend, "{ algorithms = \"br\" }")
        .replace("[process]\n", "[process]\ncompression-memory = \"1MiB\"\n");
    let proxy = Proxy::start(config);
    let coding = |path: &str| {
        let (head, _) = exchange(proxy.address(), &format!("GET {path}"), &["Accept-Encoding: br"]);
        values(&head, "content-encoding")
    };
    assert_eq!(coding("/"), ["br"]);
    let mut open = client::dial(proxy.address()).expect("it listens");
    open.write_all(
        b"GET /open HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: br\r\nConnection: close\r\n\r\n",
    )
    .expect("it reads");
    let mut head = [0; 17];
    open.read_exact(&mut head).expect("it answers");
    let skipped = || proxy.metrics().sum("handfast_compression_skipped_total", &[]);
    assert_eq!((coding("/"), skipped()), (Vec::<String>::new(), 1.0), "the open one has all of it");
    next.send(()).expect("the backend waits");
    open.read_to_end(&mut Vec::new()).expect("it ends");
    assert_eq!((coding("/"), skipped()), (vec!["br".to_owned()], 1.0), "it was given back");
}

#[test]
fn also_from_the_cache() {
    let page = page(30_000);
    let sent = page.clone();
    let requests = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&requests);
    let backend = answering(move |peer, head| {
        counted.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        let vary = if head.starts_with("GET /varies ") { "Vary: Accept-Encoding\r\n" } else { "" };
        peer.send(
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\nETag: \"v1\"\r\n{vary}Content-Length: {}\r\n\r\n{sent}",
                sent.len()
            )
            .as_bytes(),
        );
    });
    let folder = Folder::new();
    let proxy =
        cached::start(&format!("{}[service.http]\ncompression = true\n", cached::config(&folder, &backend)));
    let address = proxy.address();
    let get = |path: &str, fields: &[&str]| exchange(address, &format!("GET {path}"), fields);
    let mut expected = 0;
    for path in ["/", "/varies"] {
        // Browsers write it in many ways, and mean one of these sets.
        let sets: [&[&str]; 2] =
            [&["gzip, br;q=0", "gzip;q=0.5", "x-gzip, deflate"], &["", "identity", "deflate"]];
        for (index, set) in sets.iter().enumerate() {
            for accept in *set {
                let (head, rest) = get(path, &[&format!("Accept-Encoding: {accept}")]);
                let content = if index == 0 { gunzip(&whole(&head, &rest)) } else { rest };
                assert!(content == page.as_bytes(), "{path} {accept}: {head}");
                assert_eq!(values(&head, "vary"), ["accept-encoding"], "{path} {accept}: {head}");
            }
            // One response for all where the backend does not vary, and one for each set where it does.
            expected += usize::from(index == 0 || path == "/varies");
            assert_eq!(requests.load(std::sync::atomic::Ordering::Acquire), expected, "{path} {set:?}");
        }
    }
    let (head, _) = get("/", &["Accept-Encoding: gzip", "If-None-Match: W/\"v1\""]);
    assert!(head.starts_with("HTTP/1.1 304 ") && values(&head, "etag") == ["w/\"v1\""], "{head}");
    let (head, rest) = get("/", &["Accept-Encoding: gzip", "Range: bytes=5-9"]);
    assert!(head.starts_with("HTTP/1.1 206 ") && values(&head, "content-encoding").is_empty(), "{head}");
    assert_eq!(rest, page.as_bytes()[5..10]);
}

/// The first client for which a stored response is compressed pays for it; the others receive the same bytes from the cache.
#[test]
fn once_for_all_clients_of_a_cache() {
    let page = page(300_000);
    let sent = page.clone();
    let backend = answering(move |peer, _| {
        let fields = "Content-Type: text/html\r\nCache-Control: max-age=600\r\nETag: \"v1\"";
        let length = sent.len();
        peer.send(
            format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{sent}").as_bytes(),
        );
    });
    let folder = Folder::new();
    let proxy =
        cached::start(&format!("{}[service.http]\ncompression = true\n", cached::config(&folder, &backend)));
    let address = proxy.address();
    let counted = || proxy.metrics().sum("handfast_responses_compressed_total", &[]);
    assert_eq!(exchange(address, "GET /", &["Accept-Encoding: identity"]).1, page.as_bytes(), "it is stored");
    for (number, coding) in CODINGS.into_iter().enumerate() {
        let accept = format!("Accept-Encoding: {coding}");
        let get = || exchange(address, "GET /", &[&accept]);
        // Until the disk has it, each is compressed.
        let (head, kept) = wait_until("the compressed content to be stored", || {
            let (head, content) = get();
            assert_eq!(values(&head, "content-encoding"), [coding], "{head}");
            (!values(&head, "content-length").is_empty()).then_some((head, content))
        });
        assert_eq!(values(&head, "content-length"), [kept.len().to_string()], "{head}");
        assert_eq!(values(&head, "etag"), ["w/\"v1\""], "{head}");
        assert_eq!(values(&head, "vary"), ["accept-encoding"], "{head}");
        assert_eq!(values(&head, "cache-status").len(), 1, "{head}");
        let before = counted();
        assert!(before >= (number + 1) as f64, "{before}");
        for _ in 0..5 {
            assert!(get().1 == kept, "{coding}");
        }
        assert_eq!(counted(), before, "{coding} is not compressed again");
        if coding == "gzip" {
            assert!(gunzip(&kept) == page.as_bytes());
        }
        for conditional in ["If-None-Match: \"v1\"", "If-None-Match: W/\"v1\""] {
            let (head, rest) = exchange(address, "GET /", &[&accept, conditional]);
            assert!(head.starts_with("HTTP/1.1 304 ") && rest.is_empty(), "{head}");
        }
        let (head, rest) = exchange(address, "HEAD /", &[&accept]);
        assert!(rest.is_empty() && values(&head, "content-encoding") == [coding], "{head}");
    }
    assert_eq!(exchange(address, "GET /", &["Accept-Encoding: identity"]).1, page.as_bytes());
    let (head, part) = exchange(address, "GET /", &["Accept-Encoding: gzip", "Range: bytes=5-9"]);
    assert!(part == page.as_bytes()[5..10] && values(&head, "content-encoding").is_empty(), "{head}");
}
