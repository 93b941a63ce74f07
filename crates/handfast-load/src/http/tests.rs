//! Runs against a server that does what each test wants, with plain sockets and a thread for each connection.
//!
//! Long: every kind of run over HTTP uses the one server of this file.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime};

use handfast_pki::throwaway;
use handfast_tls::buffer::Buffer;
use handfast_tls::policy;
use handfast_tls::server::{Server, ServerSession, ServerSettings};
use handfast_tls::session::Session;
use handfast_tls::store::{CertificateStore, Resolver, UnknownName};
use handfast_tls::ticket::{TicketKeys, TicketSettings};
use handfast_wire::{Peek, peek};

use super::*;
use crate::generator::{Generator, Share};
use crate::plan::{self, HttpVersion, Model, Plan};
use crate::sample::{Interval, Series};
use handfast_report::ToolError;

/// One connection of the server.
struct Tls {
    socket: TcpStream,
    session: ServerSession,
    plaintext: Buffer,
    outgoing: Buffer,
    over: bool,
}

impl Tls {
    fn accept(mut socket: TcpStream, server: &Server) -> Option<Self> {
        socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        socket.set_nodelay(true).ok()?;
        let mut bytes = Vec::new();
        let session = loop {
            let mut some = [0; 4096];
            match socket.read(&mut some).ok()? {
                0 => return None,
                count => bytes.extend_from_slice(&some[..count]),
            }
            if let Peek::Complete(hello) = peek(&bytes, 1 << 16) {
                break server.accept(&hello).ok()?;
            }
        };
        let (plaintext, outgoing) = (Buffer::default(), Buffer::default());
        let mut tls = Self { socket, session, plaintext, outgoing, over: false };
        tls.take(bytes)?;
        while !tls.session.is_established() {
            tls.more()?;
        }
        Some(tls)
    }

    fn take(&mut self, bytes: Vec<u8>) -> Option<()> {
        let mut incoming = [self.session.kept(), &bytes].concat();
        let received = self.session.receive(&mut incoming, &mut self.plaintext, &mut self.outgoing);
        self.over |= received.closed || received.failure.is_some();
        self.flush()
    }

    fn flush(&mut self) -> Option<()> {
        self.socket.write_all(self.outgoing.filled()).ok()?;
        self.outgoing.clear();
        Some(())
    }

    /// Waits for more plaintext; `None` at the client's end.
    fn more(&mut self) -> Option<()> {
        let mut some = [0; 16_384];
        let count = self.socket.read(&mut some).ok()?;
        if count == 0 || self.over {
            return None;
        }
        self.take(some[..count].to_vec())
    }

    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.session.encrypt(bytes, &mut self.outgoing).ok()?;
        self.flush()
    }

    fn exactly(&mut self, size: usize) -> Option<Vec<u8>> {
        while self.plaintext.len() < size {
            self.more()?;
        }
        let bytes = self.plaintext.filled()[..size].to_vec();
        self.plaintext.take(size);
        Some(bytes)
    }

    /// The head of the next HTTP/1.1 request.
    fn request(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.plaintext.filled().windows(4).position(|four| four == b"\r\n\r\n") {
                return String::from_utf8(self.exactly(end + 4)?).ok();
            }
            self.more()?;
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Option<()> {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.write(&[&head[..], payload].concat())
    }

    /// Kind, flags and stream of the next HTTP/2 frame.
    fn next_frame(&mut self) -> Option<(u8, u8, u32)> {
        let head = self.exactly(9)?;
        self.exactly(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize)?;
        Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
    }

    /// Reads HTTP/2's preface and settings; says ours.
    fn preface(&mut self) -> Option<()> {
        // RFC 9113 §3.4.
        assert_eq!(self.exactly(24)?, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        self.frame(SETTINGS, 0, 0, &[])
    }

    /// The stream of the next request.
    fn next_stream(&mut self) -> Option<u32> {
        loop {
            match self.next_frame()? {
                (HEADERS, _, stream) => return Some(stream),
                (SETTINGS, 0, _) => self.frame(SETTINGS, 1, 0, &[])?,
                _ => {}
            }
        }
    }

    /// Closes cleanly.
    fn goodbye(mut self) {
        self.session.close(&mut self.outgoing);
        let _ = self.flush();
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        while self.more().is_some() {}
    }
}

// Frame types (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// `:status: 200` by its place in the static table (RFC 7541 §A).
const OK: &[u8] = &[0x88];

fn tls(alpn: &str) -> Server {
    let now = SystemTime::now();
    let made = throwaway::make(None, now).expect("a certificate");
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let (store, _) = CertificateStore::new(vec![made.certificate], seconds as i64);
    let settings = ServerSettings {
        policy: policy::resolve(policy::DEFAULT, None, None, None).expect("the default policy"),
        resolver: Arc::new(Resolver::new(Arc::new(store), UnknownName::First)),
        client_certificates: None,
        alpn: vec![alpn.to_owned()],
        tickets_per_handshake: 1,
        ticket_lifetime: Duration::from_secs(3600),
        scope: "test".into(),
    };
    let rotation = TicketSettings { rotate: Duration::from_secs(3600), lifetime: Duration::from_secs(3600) };
    let keys = TicketKeys::random(now, rotation).expect("random bytes").keys();
    Server::new(settings, keys).expect("a server")
}

/// Handler of each connection.
type Deed = fn(Tls) -> Option<()>;

/// A server that stops when it is dropped.
struct Target {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Target {
    fn new(alpn: &'static str, deed: Deed) -> Self {
        let server = tls(alpn);
        Self::serving(move |socket| Tls::accept(socket, &server).and_then(deed))
    }

    /// Without TLS.
    fn serving(deed: impl Fn(TcpStream) -> Option<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let deed = Arc::new(deed);
        let accept = move || {
            while let Ok((socket, _)) = listener.accept() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let deed = Arc::clone(&deed);
                let serve = move || deed(socket).unwrap_or_default();
                Builder::new().name("target-connection".into()).spawn(serve).expect("a thread");
            }
        };
        let accepting = Builder::new().name("target".into()).spawn(accept).expect("a thread");
        Self { address, stopping, accepting: Some(accepting) }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        drop(TcpStream::connect_timeout(&self.address, Duration::from_secs(1)));
        if let Some(accepting) = self.accepting.take() {
            accepting.join().expect("it did not panic");
        }
    }
}

fn plan(target: &Target, version: HttpVersion, streams: u32, exchanges: Option<u32>) -> Plan {
    let requests = vec![plan::Request { path: "/a?b".into(), ..plan::Request::default() }];
    let work = Work::Http {
        version,
        authority: "localhost".into(),
        requests,
        streams,
        expect: plan::ExpectedStatuses::default(),
        in_order: false,
    };
    Plan {
        target: plan::Target { host: "127.0.0.1".into(), port: target.address.port(), plain: false },
        work,
        connections: 2,
        exchanges,
        duration: Duration::from_millis(300),
        timeout: Duration::from_secs(2),
        threads: 1,
        ..Plan::default()
    }
}

fn run(plan: &Plan) -> Result<Interval, ToolError> {
    let generator = Generator::prepare(plan, Share { index: 0, of: 1 })?;
    let (seconds, _) = sync_channel(16);
    Ok(generator.start(Moment::now(), seconds)?.join().totals)
}

fn causes(totals: &Interval) -> Vec<(&str, &str)> {
    totals.failures.iter().map(|failures| (failures.step.name(), failures.cause.name())).collect()
}

fn hello_http1(mut tls: Tls) -> Option<()> {
    loop {
        let request = tls.request()?;
        assert!(request.starts_with("GET /a?b HTTP/1.1\r\nhost: localhost\r\n"), "{request}");
        tls.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")?;
    }
}

#[test]
fn http1_on_new_and_on_kept_connections() {
    let target = Target::new("http/1.1", hello_http1);
    for (exchanges, each) in [(Some(1), 1), (Some(3), 3), (None, 1)] {
        let totals = run(&plan(&target, HttpVersion::Http11, 1, exchanges)).expect("it runs");
        let tally = &totals.tally;
        assert_eq!(causes(&totals), [], "{:?}", totals.failures);
        assert!(tally.transactions > 2 && tally.failed == 0, "{tally:?}");
        assert_eq!(tally.exchanges, tally.transactions * each);
        assert_eq!(tally.http_status, [0, tally.exchanges, 0, 0, 0]);
        assert_eq!(totals.series[&Series::Exchange].count(), tally.exchanges);
        assert_eq!(totals.series[&Series::FirstByte].count(), tally.exchanges);
        assert!(tally.received >= 5 * tally.exchanges && tally.sent > 0, "{tally:?}");
        assert_eq!(tally.open, 0);
        if exchanges.is_none() {
            assert_eq!(tally.connections, 2, "kept connections are kept");
        }
    }
}

#[test]
fn a_chunked_body_is_read_to_its_end() {
    let target = Target::new("http/1.1", |mut tls| {
        loop {
            tls.request()?;
            tls.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            for _ in 0..20 {
                tls.write(&[b"2710\r\n", &[b'x'; 10_000][..], b"\r\n"].concat())?;
            }
            tls.write(b"0\r\n\r\n")?;
        }
    });
    let totals = run(&plan(&target, HttpVersion::Http11, 1, None)).expect("it runs");
    assert_eq!(causes(&totals), []);
    assert!(totals.tally.received >= 200_000 * totals.tally.exchanges, "{:?}", totals.tally);
}

/// The server speaks of 1000 bytes and ends after a few, in order or not.
fn cut_short(tls: &mut Tls) -> Option<()> {
    tls.request()?;
    tls.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhello")
}

#[test]
fn a_body_cut_short_is_an_error_however_it_ends() {
    let deeds: [Deed; 2] = [
        |mut tls| {
            cut_short(&mut tls)?;
            tls.goodbye();
            None
        },
        |mut tls| {
            cut_short(&mut tls)?;
            let _ = tls.socket.shutdown(std::net::Shutdown::Write);
            while tls.more().is_some() {}
            None
        },
    ];
    for deed in deeds {
        let target = Target::new("http/1.1", deed);
        let refusal = run(&plan(&target, HttpVersion::Http11, 1, Some(1))).expect_err("it does not work");
        assert!(refusal.to_string().contains("exchange: "), "{refusal}");
        assert!(refusal.to_string().contains("body"), "{refusal}");
    }
}

/// Well the first time, for the rehearsal; then as `deed` says.
fn later(mut tls: Tls, deed: impl FnOnce(Tls) -> Option<()>) -> Option<()> {
    static SEEN: AtomicBool = AtomicBool::new(false);
    if SEEN.swap(true, Ordering::Relaxed) {
        return deed(tls);
    }
    tls.request()?;
    tls.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
}

#[test]
fn failures_are_counted_with_their_cause() {
    let target = Target::new("http/1.1", |tls| {
        later(tls, |mut tls| {
            cut_short(&mut tls)?;
            tls.goodbye();
            None
        })
    });
    let totals = run(&plan(&target, HttpVersion::Http11, 1, None)).expect("the rehearsal was good");
    assert_eq!(causes(&totals), [("exchange", "truncated")]);
    assert!(totals.tally.failed > 0 && totals.tally.transactions == 0, "{:?}", totals.tally);
}

#[test]
fn a_status_of_an_error_is_one_and_the_connection_lives_on() {
    let target = Target::new("http/1.1", |mut tls| {
        let mut first = true;
        loop {
            tls.request()?;
            let status = if first { "200 OK" } else { "503 Service Unavailable" };
            first = false;
            tls.write(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())?;
        }
    });
    let totals = run(&plan(&target, HttpVersion::Http11, 1, None)).expect("it runs");
    let tally = &totals.tally;
    assert_eq!(causes(&totals), [("exchange", "http-status")]);
    assert!(tally.http_status[4] > 2 && tally.http_status[1] == 2, "{tally:?}");
    assert_eq!((tally.connections, tally.failed), (2, tally.http_status[4]));
}

/// HTTP/1.1 and, for a client that begins with its preface, HTTP/2; without TLS.
fn plain(mut socket: TcpStream) -> Option<()> {
    let mut first = [0; 24];
    socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    socket.read_exact(&mut first).ok()?;
    if first.starts_with(b"GET /a?b HTTP/1.1\r\n") {
        let mut head = first.to_vec();
        loop {
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).ok()?;
                head.push(byte[0]);
            }
            head.clear();
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").ok()?;
        }
    }
    assert_eq!(&first, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    socket.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).ok()?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        socket.read_exact(&mut payload).ok()?;
        match (head[3], head[4]) {
            (HEADERS, _) => {
                let answer = [&[0, 0, 1, HEADERS, 5], &head[5..], OK].concat();
                socket.write_all(&answer).ok()?;
            }
            (SETTINGS, 0) => socket.write_all(&[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0]).ok()?,
            _ => {}
        }
    }
}

#[test]
fn http_without_tls_has_no_handshake() {
    let target = Target::serving(plain);
    for version in [HttpVersion::Http11, HttpVersion::Http2] {
        for (exchanges, close) in [
            (Some(1), plan::Close::Fin),
            (None, plan::Close::Fin),
            (None, plan::Close::Reset),
            (Some(2), plan::Close::Notify),
        ] {
            let mut plan = Plan { close, ..plan(&target, version, 1, exchanges) };
            plan.target.plain = true;
            let totals = run(&plan).expect("it runs");
            let tally = &totals.tally;
            assert_eq!(causes(&totals), [], "{:?}", totals.failures);
            assert!(
                tally.transactions > 2 && tally.http_status == [0, tally.exchanges, 0, 0, 0],
                "{tally:?}"
            );
            assert!(tally.sent > 0 && tally.received > 0, "{tally:?}");
            assert_eq!(tally.full + tally.resumed, 0);
            assert!(!totals.series.contains_key(&Series::Handshake), "{:?}", totals.series.keys());
            assert!(totals.series[&Series::Connect].count() >= 1);
        }
    }
}

#[test]
fn plain_http_to_a_port_with_tls_is_named() {
    let target = Target::new("http/1.1", hello_http1);
    let mut plan =
        Plan { timeout: Duration::from_millis(200), ..plan(&target, HttpVersion::Http11, 1, None) };
    plan.target.plain = true;
    let refusal = run(&plan).expect_err("it waits for a hello");
    assert!(refusal.to_string().contains("if this port serves TLS, the target is https://"), "{refusal}");
}

/// Gives each connection a number at /login, and wants it at the next request; without a number if `fails`.
fn expect_number(mut tls: Tls, fails: bool) -> Option<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(100);
    loop {
        let head = tls.request()?;
        assert!(head.starts_with("GET /login HTTP/1.1"), "{head}");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let body = if fails { "{}".to_owned() } else { format!("{{\"token\": {number}}}") };
        tls.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        if fails {
            continue;
        }
        for _ in 0..2 {
            let head = tls.request()?;
            let right = head.starts_with(&format!("GET /items/{number} HTTP/1.1\r\n"))
                && head.contains(&format!("\r\nx-token: t{number}\r\n"));
            let status = if right { "200 OK" } else { "401 Unauthorized" };
            tls.write(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())?;
        }
    }
}

/// A plan whose second and third requests need a value of the first.
fn in_order(target: &Target, exchanges: Option<u32>) -> Plan {
    let mut plan = plan(target, HttpVersion::Http11, 1, exchanges);
    if let Work::Http { requests, in_order, .. } = &mut plan.work {
        let (_, token) = plan::take::parse("t=json:/token").expect("a value");
        let header = plan::request::header("X-Token: t{t}").expect("a header");
        let login = plan::Request { path: "/login".into(), take: vec![token], ..plan::Request::default() };
        let item =
            plan::Request { path: "/items/{t}".into(), headers: vec![header], ..plan::Request::default() };
        (*requests, *in_order) = (vec![login, item.clone(), item], true);
    }
    plan
}

#[test]
fn requests_in_order_have_values_of_earlier_answers() {
    let target = Target::new("http/1.1", |tls| expect_number(tls, false));
    for exchanges in [Some(3), None] {
        let totals = run(&in_order(&target, exchanges)).expect("it runs");
        assert_eq!(causes(&totals), [], "{:?}", totals.failures);
        assert!(totals.tally.exchanges > 6, "{:?}", totals.tally);
        let done: Vec<u64> = totals.requests.iter().map(|request| request.done).collect();
        // Each connection is at most one round ahead of its last request.
        assert!(done[0] >= done[1] && done[1] >= done[2] && done[0] <= done[2] + 2, "{done:?}");
    }
}

#[test]
fn an_answer_without_the_value_is_a_failure() {
    let target = Target::new("http/1.1", |tls| expect_number(tls, true));
    let refusal = run(&in_order(&target, None)).expect_err("the rehearsal fails");
    assert!(
        refusal.to_string().contains("the answer has no JSON value at `/token` to GET /login"),
        "{refusal}"
    );
}

#[test]
fn a_status_that_is_expected_is_no_failure() {
    let target = Target::new("http/1.1", |mut tls| {
        loop {
            tls.request()?;
            tls.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
        }
    });
    let mut expecting = plan(&target, HttpVersion::Http11, 1, None);
    let refusal = run(&expecting).expect_err("404 is a failure unless it is expected");
    assert!(refusal.to_string().contains("hint: --expect 2xx,3xx,404"), "{refusal}");
    if let Work::Http { expect, .. } = &mut expecting.work {
        *expect = plan::ExpectedStatuses::parse("404").expect("a status");
    }
    let totals = run(&expecting).expect("it runs");
    let tally = &totals.tally;
    assert_eq!(causes(&totals), [], "{:?}", totals.failures);
    assert!(tally.transactions > 2 && tally.http_status[3] == tally.exchanges, "{tally:?}");
}

#[test]
fn a_server_that_ends_kept_connections_now_and_then_costs_nothing_but_new_ones() {
    // Announced, and not announced.
    let deeds: [Deed; 2] = [
        |mut tls| {
            for _ in 0..3 {
                tls.request()?;
                tls.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
            }
            tls.request()?;
            tls.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
            tls.goodbye();
            None
        },
        |mut tls| {
            tls.request()?;
            tls.session.encrypt(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", &mut tls.outgoing).ok()?;
            tls.goodbye();
            None
        },
    ];
    for deed in deeds {
        let target = Target::new("http/1.1", deed);
        let totals = run(&plan(&target, HttpVersion::Http11, 1, None)).expect("it runs");
        assert_eq!(causes(&totals), [], "{:?}", totals.failures);
        assert!(totals.tally.connections > 2 && totals.tally.transactions > 2, "{:?}", totals.tally);
    }
}

fn hello_http2(mut tls: Tls) -> Option<()> {
    tls.preface()?;
    loop {
        let stream = tls.next_stream()?;
        tls.frame(HEADERS, 4, stream, OK)?;
        tls.frame(DATA, 0, stream, b"hel")?;
        tls.frame(DATA, 1, stream, b"lo")?;
    }
}

#[test]
fn http2_on_new_and_on_kept_connections() {
    let target = Target::new("h2", hello_http2);
    for (exchanges, each) in [(Some(1), 1), (Some(5), 5), (None, 1)] {
        for streams in [1, 4] {
            let totals = run(&plan(&target, HttpVersion::Http2, streams, exchanges)).expect("it runs");
            let tally = &totals.tally;
            assert_eq!(causes(&totals), [], "{:?}", totals.failures);
            assert!(tally.transactions > 2, "{tally:?}");
            assert_eq!(tally.exchanges, tally.transactions * each);
            assert_eq!(tally.http_status, [0, tally.exchanges, 0, 0, 0]);
            if exchanges.is_none() {
                assert_eq!(tally.connections, 2);
            }
        }
    }
}

/// The server answers only when four requests are there.
#[test]
fn streams_are_in_flight_together() {
    let target = Target::new("h2", |mut tls| {
        tls.preface()?;
        // The rehearsal has one only.
        let first = tls.next_stream()?;
        static REHEARSED: AtomicBool = AtomicBool::new(false);
        let mut streams = vec![first];
        if REHEARSED.swap(true, Ordering::Relaxed) {
            for _ in 0..3 {
                streams.push(tls.next_stream()?);
            }
        }
        for stream in streams.into_iter().rev() {
            tls.frame(HEADERS, 5, stream, OK)?;
        }
        while tls.more().is_some() {}
        None
    });
    let totals =
        run(&Plan { connections: 1, ..plan(&target, HttpVersion::Http2, 4, Some(4)) }).expect("it runs");
    assert_eq!(causes(&totals), [], "{:?}", totals.failures);
    assert!(totals.tally.exchanges >= 4);
}

#[test]
fn what_a_server_going_away_has_not_seen_is_asked_again() {
    let target = Target::new("h2", |mut tls| {
        tls.preface()?;
        let first = tls.next_stream()?;
        tls.frame(HEADERS, 5, first, OK)?;
        // Later streams are not processed: GOAWAY with the last stream seen, and no error (RFC 9113 §6.8).
        let second = tls.next_stream()?;
        assert!(second > first);
        tls.frame(GOAWAY, 0, 0, &[first.to_be_bytes(), [0; 4]].concat())?;
        tls.goodbye();
        None
    });
    let totals = run(&plan(&target, HttpVersion::Http2, 3, None)).expect("it runs");
    assert_eq!(causes(&totals), [], "{:?}", totals.failures);
    assert!(totals.tally.transactions > 2 && totals.tally.connections > 2, "{:?}", totals.tally);
}

#[test]
fn arrivals_are_timed_from_when_they_were_due() {
    let target = Target::new("h2", hello_http2);
    let model = Model::open(200.0, plan::Arrivals::Fixed);
    for exchanges in [Some(1), None] {
        let plan = Plan { model: model.clone(), ..plan(&target, HttpVersion::Http2, 4, exchanges) };
        let totals = run(&plan).expect("it runs");
        let tally = &totals.tally;
        assert_eq!(causes(&totals), [], "{:?}", totals.failures);
        // A busy machine may see the last ones only when the run is over.
        assert!((50..=60).contains(&(tally.transactions + tally.unserved)), "{tally:?}");
        // Most where the processors are free; how many of them a busy machine serves is not the question.
        assert!(tally.transactions > 10, "{tally:?}");
        for series in [Series::Total, Series::Service, Series::Lag] {
            assert_eq!(totals.series[&series].count(), tally.transactions, "{series:?}");
        }
    }
}

#[test]
fn a_server_that_says_nothing_runs_into_the_deadline() {
    for (alpn, version) in [("http/1.1", HttpVersion::Http11), ("h2", HttpVersion::Http2)] {
        let target = Target::new(alpn, |mut tls| {
            while tls.more().is_some() {}
            None
        });
        let timeout = Duration::from_millis(100);
        let plan = Plan { timeout, ..plan(&target, version, 2, Some(1)) };
        let refusal = run(&plan).expect_err("nobody answers");
        assert!(refusal.to_string().contains("exchange: the timeout passed"), "{refusal}");
    }
}

/// The last part of the handshake waits for the first request; it has to go all the same when there is none.
#[test]
fn a_connection_without_a_request_ends_in_order() {
    let target = Target::new("http/1.1", hello_http1);
    let model = Model::open(0.1, plan::Arrivals::Fixed);
    let plan = Plan { model, ..plan(&target, HttpVersion::Http11, 1, None) };
    let totals = run(&plan).expect("it runs");
    assert_eq!(causes(&totals), [], "{:?}", totals.failures);
    assert_eq!(totals.tally.connections, 2);
}

#[test]
fn a_target_that_does_not_speak_http2_is_reported() {
    let target = Target::new("http/1.1", hello_http1);
    let refusal = run(&plan(&target, HttpVersion::Http2, 1, Some(1))).expect_err("no ALPN in common");
    assert!(refusal.to_string().contains("handshake: "), "{refusal}");
}

/// A server that answers the rehearsal well, and every later connection with `$bytes`, after which it ends.
macro_rules! after_the_rehearsal {
    ($bytes:expr) => {
        Target::new("http/1.1", |mut tls| {
            static REHEARSED: AtomicBool = AtomicBool::new(false);
            tls.request()?;
            match REHEARSED.swap(true, Ordering::Relaxed) {
                false => tls.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")?,
                true => {
                    tls.write($bytes)?;
                    tls.goodbye();
                    return None;
                }
            }
            while tls.more().is_some() {}
            None
        })
    };
}

#[track_caller]
fn fails_with(target: &Target, exchanges: Option<u32>, cause: &str) {
    let totals = run(&plan(target, HttpVersion::Http11, 1, exchanges)).expect("it runs");
    assert_eq!(causes(&totals), [("exchange", cause)], "{:?}", totals.failures);
    assert_eq!(totals.tally.transactions, 0, "{:?}", totals.tally);
}

#[test]
fn more_than_the_announced_length_is_no_answer() {
    let target = after_the_rehearsal!(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more");
    fails_with(&target, None, "http");
    let target = after_the_rehearsal!(
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello and more"
    );
    fails_with(&target, Some(1), "http");
}

#[test]
fn a_final_answer_of_1xx_is_no_success() {
    let target = after_the_rehearsal!(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n"
    );
    fails_with(&target, Some(1), "http-status");
}

#[test]
fn what_is_no_http_is_called_so_also_when_an_end_follows() {
    let target = after_the_rehearsal!(b"220 mail.example ESMTP\r\n\r\n");
    fails_with(&target, Some(1), "http");
    let target = after_the_rehearsal!(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnone\r\n");
    fails_with(&target, Some(1), "http");
}
