//! Out of descriptors is slower, never spinning: open connections go on, new ones wait in the kernel's queue, it is logged
//! once, and when there is room again they are served automatically.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::support::cached;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::http2::{END_HEADERS, END_STREAM, HEADERS, frame, get, preface};
use super::support::skip::needs;
use super::support::*;

const CROWD: usize = 100;

/// Watches the proxy doing nothing; gives the CPU it spent and the lines it wrote.
fn watch(proxy: &Proxy, time: Duration) -> (Duration, usize) {
    let (cpu, lines) = (proxy.process().cpu(), proxy.talk.so_far().len());
    pause(time);
    (proxy.process().cpu() - cpu, proxy.talk.so_far().len() - lines)
}

/// The worst that may be spent on waiting: 2 % of a core, and one tick of the clock it is measured with.
fn is_calm(proxy: &Proxy) {
    // Earlier requests are answered first; one that spins never is at rest.
    wait_until("the proxy to be at rest", || {
        (watch(proxy, Duration::from_millis(200)).0 <= Duration::from_millis(10)).then_some(())
    });
    let (cpu, lines) = watch(proxy, Duration::from_secs(2));
    assert!(cpu <= Duration::from_millis(50), "{cpu:?} of CPU in 2 s: it spins");
    assert!(lines <= 2, "{lines} lines in 2 s");
}

#[test]
fn a_reload_works_while_connections_wait() {
    needs!("prlimit");
    let folder = folder::Folder::new();
    let backend = Backend::echo();
    let proxy = Proxy::start_under(&["prlimit", "--nofile=64:64"], Config::to(&folder, backend.address));
    let _crowd: Vec<TcpStream> =
        (0..CROWD).map(|_| dial(proxy.address()).expect("the kernel takes connections")).collect();
    assert!(proxy.reload(), "there is a reserve for it: {:?}", proxy.talk.so_far());
}

#[test]
fn more_connections_than_descriptors_allow_are_refused_at_start() {
    needs!("prlimit");
    let folder = folder::Folder::new();
    let config = Config::to(&folder, "127.0.0.1:1").set("process", "max-connections", 10_000);
    let file = folder.write("handfast.toml", config.to_string());
    let file = file.display().to_string();
    let ran = tools::run("prlimit", &["--nofile=64:64", proxy::PROGRAM, "proxy", "-c", &file], b"");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.talk.contains("process.max-connections: 20040 open files are needed for 10,000 connections"),
        "{ran:?}"
    );
    assert!(ran.talk.contains("this process may have 64\n"), "{ran:?}");
}

/// The cure that the page on resources names.
#[test]
fn clients_that_wait_are_served_when_the_limit_is_raised() {
    let folder = folder::Folder::new();
    let backend = Backend::echo();
    let proxy = Proxy::start(Config::to(&folder, backend.address));
    proxy.process().limit_files(40);
    proxy.talk.containing(" to 40: connections have the descriptors below number 20");
    let _crowd: Vec<TcpStream> =
        (0..CROWD).map(|_| dial(proxy.address()).expect("the kernel takes connections")).collect();
    proxy.talk.containing("out-of-files");
    proxy.process().limit_files(400);
    proxy.talk.containing("from 40 to 400: connections have the descriptors below number 380");
    let mut fresh = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    fresh.echo(b"served");
    fresh.finish();
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn when_the_limit_falls_below_what_is_needed() {
        let stage = Stage::echo();
        let config = Trust::version(Version::Tls13).config();
        let mut standing = stage.client(&config);
        standing.echo(b"before");
        let now = u64::try_from(stage.proxy.process().descriptors()).expect("few");
        // Room for a few more, then for what is reserved alone.
        let limit = now + 30;
        stage.proxy.process().limit_files(limit);
        stage.proxy.talk.containing(&format!(" to {limit}: connections have the descriptors below number "));
        let crowd: Vec<TcpStream> =
            (0..CROWD).map(|_| dial(stage.proxy.address()).expect("the kernel takes connections")).collect();
        wait_until("the proxy to notice", || {
            let metrics = stage.proxy.metrics();
            (metrics.sum("handfast_accept_errors_total", &[("cause", "out-of-files")]) > 0.5).then_some(())
        });
        is_calm(&stage.proxy);
        assert_eq!(http::get(stage.proxy.admin(), "/live", "*/*").status, 200);
        standing.echo(b"what stands goes on");
        let count = stage.proxy.talk.so_far().iter().filter(|line| line.contains("out-of-files")).count();
        assert!((1..=4).contains(&count), "said {count} times");
        drop(crowd);
        let start = Instant::now();
        let mut fresh = stage.client(&config);
        fresh.echo(b"served again");
        assert!(start.elapsed() < Duration::from_secs(2), "served again after {:?}", start.elapsed());
        fresh.finish();
        standing.finish();
        stage.is_quiet();
    }

    #[test]
    fn when_it_was_started_with_few() {
        needs!("prlimit");
        let folder = folder::Folder::new();
        let backend = Backend::echo();
        let proxy = Proxy::start_under(&["prlimit", "--nofile=64:64"], Config::to(&folder, backend.address));
        let config = Trust::version(Version::Tls13).config();
        let before = proxy.process().descriptors();
        let crowd: Vec<TcpStream> =
            (0..CROWD).map(|_| dial(proxy.address()).expect("the kernel takes connections")).collect();
        is_calm(&proxy);
        // The admin page has its own reserve: this is the moment when it is needed.
        assert_eq!(http::get(proxy.admin(), "/live", "*/*").status, 200);
        drop(crowd);
        let mut fresh = Client::connect(proxy.address(), &config);
        fresh.echo(b"served");
        fresh.finish();
        proxy.settles_at(before);
    }

    const FILES: u64 = 200;
    fn request(path: usize) -> Vec<u8> {
        format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
    }

    /// Lets clients hold as many descriptors as they can: each `begin` makes one and sends its requests.
    fn crowd_out(proxy: &Proxy, begin: impl Fn(usize) -> TcpStream) {
        let is_ready = |clients: usize| {
            let begun = Instant::now();
            assert_eq!(http::get(proxy.admin(), "/ready", "*/*").status, 200, "{clients} clients");
            let took = begun.elapsed();
            assert!(took < Duration::from_millis(500), "{clients} clients: an answer after {took:?}");
        };
        let mut crowd = Vec::new();
        for number in 0..CROWD {
            crowd.push(begin(number));
            is_ready(number);
        }
        is_calm(proxy);
        is_ready(CROWD);
        assert!(proxy.process().descriptors() < FILES as usize, "some are left");
        drop(crowd);
        let begun = Instant::now();
        // Until their connections to the backend are closed, too, the answer is 503.
        while !is_served(proxy) {
            assert!(begun.elapsed() < Duration::from_secs(1), "not served after {:?}", begun.elapsed());
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "served again after {:?}", begun.elapsed());
    }

    /// Returns true if a new client's request is served.
    fn is_served(proxy: &Proxy) -> bool {
        let mut fresh = dial(proxy.address()).expect("the kernel takes connections");
        fresh.write_all(&request(0)).expect("it is open");
        let mut status = [0; 12];
        fresh.read_exact(&mut status).expect("a response");
        &status == b"HTTP/1.1 200"
    }

    /// Starts the proxy with few descriptors and waits for its cache.
    fn start_with_few(config: &str) -> Proxy {
        let limit = format!("--nofile={FILES}:{FILES}");
        let proxy = Proxy::start_under(&["prlimit", &limit], config);
        cached::wait_until_open(&proxy);
        proxy
    }

    /// A response that is stored while it comes has three: the client's, the backend's, and a file of the cache.
    #[test]
    fn when_responses_are_stored_that_do_not_end() {
        needs!("prlimit");
        let folder = Folder::new();
        let backend = cached::origin(|peer, path| {
            if path == "/0" {
                return peer.send(&[cached::head(2).as_bytes(), b"ok"].concat());
            }
            peer.send(&[cached::head(1 << 20).as_bytes(), &[b'x'; 10_000]].concat());
            peer.read_to_end();
        });
        let proxy = start_with_few(&cached::config(&folder, &backend));
        crowd_out(&proxy, |number| {
            let mut client = dial(proxy.address()).expect("the kernel takes connections");
            client.write_all(&request(number + 1)).expect("it is open");
            client
        });
    }

    /// Requests that no cache answers have connections to backends, of which each client of HTTP/2 may have a hundred.
    #[test]
    fn when_requests_hold_connections_to_backends() {
        needs!("prlimit");
        let folder = Folder::new();
        let backend = cached::origin(|peer, path| match path {
            "/0" => peer.send(&[cached::head(2).as_bytes(), b"ok"].concat()),
            // No response.
            _ => peer.read_to_end(),
        });
        let proxy = start_with_few(&cached::config(&folder, &backend));
        crowd_out(&proxy, |number| {
            let mut client = dial(proxy.address()).expect("the kernel takes connections");
            let head = |stream| {
                frame(HEADERS, END_STREAM | END_HEADERS, stream, &get(&format!("/{number}/{stream}")))
            };
            let streams = (0..100).flat_map(|stream| head(2 * stream + 1));
            let _ = client.write_all(&preface(&[]).into_iter().chain(streams).collect::<Vec<_>>());
            client
        });
    }
}
