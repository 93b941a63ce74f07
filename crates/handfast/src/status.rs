//! Sends requests to a running proxy at its admin address: for its counters, which `load` and `probe` compare with their measurements;
//! and for a reload, a drain and the like.
//!
//! In: the admin address as typed. Out: [`Seen`], [`Counted`], or an answer; or why there is none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fmt, io};

use handfast_admin::{AdminRequest, SCHEMA, Status, send_request};
use handfast_config::model::Address;
use handfast_observe::metrics::Distribution;
use handfast_report::ToolError;
use handfast_report::both_ends::{Counted, Seen as SeenHere, Sum};
use handfast_report::run::{self, Run};
use handfast_text::units::plain;
use serde_json::Value;

/// Timeout of a request and its answer.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Longest answer that is read: that of some ten thousand backends.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Most lines of an answer that are shown: a reload can find many problems.
const LINES: usize = 100;
/// Time limit for the proxy to count our last connections.
const SETTLING: Duration = Duration::from_secs(2);

/// The admin address of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminAddress {
    /// HOST:PORT.
    Tcp(String),
    /// A unix socket.
    Unix(PathBuf),
}

/// A text that is no address of an admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidAddress(String);

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(f, "invalid address `{text}`, expected http://HOST:PORT/ or unix:/PATH")?;
        match text.ends_with(".toml") {
            true => write!(f, "\n  hint: a configuration is named by `-c {text}`"),
            false => Ok(()),
        }
    }
}

impl std::error::Error for InvalidAddress {}

/// Reason why a status is unavailable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    #[error(transparent)]
    Request(#[from] io::Error),
    #[error("it answered {first_line:?}, expected status 200")]
    OtherAnswer { first_line: String },
    #[error("not JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// Text of the peer is in the library's error.
    #[error("not a status of this version: {}", plain(&.0.to_string()))]
    Fields(#[source] serde_json::Error),
    #[error(
        "its schema is {found} (version {version:.60}), expected {SCHEMA} (version {}): use the handfast of that version",
        env!("CARGO_PKG_VERSION")
    )]
    OtherSchema { found: String, version: String },
    #[error("it is a run of `handfast load`, expected a proxy")]
    Run,
}

/// Reason why a proxy is not known to be ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadinessError {
    #[error("no answer: {0}")]
    Request(#[from] io::Error),
    /// The reason of the proxy.
    #[error("{reason}")]
    NotReady { reason: String },
}

impl AdminAddress {
    /// Reads `http://HOST:PORT/`, `HOST:PORT` or `unix:/PATH`.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let wrong = || InvalidAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') { Ok(Self::Unix(path.into())) } else { Err(wrong()) };
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let is_good = port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
            && authority.chars().all(|letter| letter.is_ascii_graphic())
            && ["", "status.json"].contains(&path);
        if is_good { Ok(Self::Tcp(authority.to_owned())) } else { Err(wrong()) }
    }

    /// Reads its counters. **Cost**: one request; waits for at most four seconds for each address.
    pub(crate) fn counted(&self) -> Result<Counted, ToolError> {
        let wrong = |error: StatusError| {
            ToolError::failed(format!("--status: read {self}: {error}"))
                .hint("it is the admin address of the Handfast proxy that is the target (admin.listen)")
        };
        match self.seen().map_err(wrong)? {
            Seen::Proxy(status) => Ok(counted(&status)),
            Seen::Run(_) => Err(wrong(StatusError::Run)),
        }
    }

    /// The status; or why it is unavailable. **Cost**: one request; waits for at most some seconds.
    pub(crate) fn seen(&self) -> Result<Seen, StatusError> {
        let answer = self.request("GET", "/status.json", TIMEOUT)?;
        match answer.status {
            200 => Seen::read(&answer.body),
            _ => Err(StatusError::OtherAnswer { first_line: answer.first_line() }),
        }
    }

    /// Reads its counters until they include everything measured since `before`, or for two seconds.
    pub(crate) fn settled(&self, before: &Counted, seen: &SeenHere) -> Result<Counted, ToolError> {
        let until = Instant::now() + SETTLING;
        loop {
            let after = self.counted()?;
            if after.covers(before, seen) || Instant::now() >= until {
                return Ok(after);
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// The admin address of a configuration; a wildcard address becomes loopback.
    pub(crate) fn of(address: &Address) -> Self {
        match address {
            Address::Unix(path) => Self::Unix(path.clone()),
            Address::Ip(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                    ip => ip,
                };
                Self::Tcp(SocketAddr::new(ip, address.port()).to_string())
            }
        }
    }

    /// Checks whether it is ready for clients. **Cost**: one request; waits for at most some seconds.
    ///
    /// **Errors**: it does not answer, or is not ready, with its reason; for people.
    pub(crate) fn ready(&self) -> Result<(), ReadinessError> {
        let answer = self.request("GET", "/ready", TIMEOUT)?;
        if answer.status == 200 { Ok(()) } else { Err(ReadinessError::NotReady { reason: answer.text() }) }
    }

    /// Sends a request and reads the answer, within `timeout` for each address.
    ///
    /// **Errors**: no answer, or none that is HTTP.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        timeout: Duration,
    ) -> std::io::Result<AdminResponse> {
        self.request_with_token(None, method, path, timeout)
    }

    /// The same with the token of `admin.token-file`, for requests that change something.
    ///
    /// **Errors**: as [`request`](Self::request).
    pub(crate) fn request_with_token(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        timeout: Duration,
    ) -> std::io::Result<AdminResponse> {
        let request = AdminRequest { method, target: path, token };
        match self {
            Self::Tcp(authority) => {
                let mut last = std::io::Error::other("the name has no address");
                for address in authority.to_socket_addrs()? {
                    match whole(&Address::Ip(address), request, timeout) {
                        Ok(answer) => return Ok(answer),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Self::Unix(socket) => whole(&Address::Unix(socket.clone()), request, timeout),
        }
    }
}

/// The received answer, without terminal control characters in its texts and without numbers that overflow a sum.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A proxy.
    Proxy(Box<Status>),
    /// A run of `handfast load`.
    Run(Box<Run>),
}

impl Seen {
    /// Reads a status.
    ///
    /// **Errors**: why it is none of this version, as a sentence.
    pub(crate) fn read(text: &str) -> Result<Self, StatusError> {
        let mut json: Value = serde_json::from_str(text).map_err(StatusError::Json)?;
        tame(&mut json);
        let invalid = StatusError::Fields;
        match &json["schema"] {
            schema if *schema == run::SCHEMA => serde_json::from_value(json).map(Self::Run).map_err(invalid),
            schema if *schema == SCHEMA => serde_json::from_value(json).map(Self::Proxy).map_err(invalid),
            schema => {
                let found = schema.to_string().chars().take(60).collect();
                let version = json["process"]["version"].as_str().unwrap_or("unknown").to_owned();
                Err(StatusError::OtherSchema { found, version })
            }
        }
    }
}

/// Makes what a peer sent fit for a terminal and for arithmetic.
fn tame(json: &mut Value) {
    /// The largest integer that a double holds exactly (RFC 8259 §6).
    const MAX_EXACT_INTEGER: u64 = 1 << 53;
    match json {
        Value::String(text) => *text = plain(text),
        Value::Number(number)
            if number.as_f64().is_none_or(|value| !(0.0..=MAX_EXACT_INTEGER as f64).contains(&value)) =>
        {
            let is_negative = number.as_f64().is_some_and(|value| value < 0.0);
            *json = if is_negative { 0 } else { MAX_EXACT_INTEGER }.into();
        }
        Value::Array(all) => all.iter_mut().for_each(tame),
        Value::Object(all) => {
            all.values_mut().for_each(tame);
            *all = std::mem::take(all).into_iter().map(|(key, value)| (plain(&key), value)).collect();
        }
        _ => {}
    }
}

/// Returns the counters by which both ends are compared.
fn counted(status: &Status) -> Counted {
    let sum = |times: &Distribution| Sum { count: times.count(), seconds: times.sum_seconds() };
    let mut counted = Counted::default();
    for service in &status.measured.services {
        counted.accepted += service.accepted;
        for backend in &service.backends {
            counted.connect.add(sum(&backend.connect));
            counted.answer.add(sum(&backend.response));
        }
    }
    for seen in &status.measured.handshakes {
        let kind = &mut counted.kinds[usize::from(seen.resumed)];
        kind.total.add(sum(&seen.total));
        kind.phases.iter_mut().zip(&seen.phases).for_each(|(to, more)| to.add(sum(more)));
    }
    counted
}

/// An answer of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct AdminResponse {
    /// The HTTP status; 0 if the answer is no HTTP.
    pub(crate) status: u16,
    head: String,
    body: String,
}

impl AdminResponse {
    /// The body for people: bounded, and without terminal control characters.
    pub(crate) fn text(&self) -> String {
        let lines = self.body.trim().lines().take(LINES).map(plain);
        lines.collect::<Vec<_>>().join("\n")
    }

    fn first_line(&self) -> String {
        let first: String = self.head.lines().next().unwrap_or_default().chars().take(60).collect();
        plain(&first)
    }
}

impl AdminAddress {
    /// Its address, for messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Tcp(authority) => authority.clone(),
            Self::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl std::fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}/status.json"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Sends a request; the answer ends with the connection.
fn whole(address: &Address, request: AdminRequest<'_>, timeout: Duration) -> std::io::Result<AdminResponse> {
    let answer = send_request(address, request, timeout, MAX_RESPONSE_BYTES, |_| false)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok(AdminResponse { status, head: head.to_owned(), body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn an_address_may_be_written_in_several_ways() {
        let tcp = |text: &str| Ok(AdminAddress::Tcp(text.to_owned()));
        for text in [
            "http://127.0.0.1:7643",
            "http://127.0.0.1:7643/",
            "127.0.0.1:7643",
            "127.0.0.1:7643/status.json",
        ] {
            assert_eq!(AdminAddress::parse(text), tcp("127.0.0.1:7643"), "{text}");
        }
        assert_eq!(AdminAddress::parse("http://[::1]:7643/"), tcp("[::1]:7643"));
        assert_eq!(AdminAddress::parse("unix:/run/a.sock"), Ok(AdminAddress::Unix("/run/a.sock".into())));
        for text in ["", "https://a:1/", "http://a/", "a:0", "a:b", ":7643", "unix:a", "a:1/metrics", "a b:1"]
        {
            let wrong = AdminAddress::parse(text).expect_err(text).to_string();
            assert!(wrong.contains("expected http://HOST:PORT/ or unix:/PATH"), "{wrong}");
        }
    }

    #[test]
    fn a_proxy_is_asked_by_its_address_not_by_its_name() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let requested = std::thread::scope(|scope| {
            let requested = scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = [0; 512];
                let length = stream.read(&mut request).expect("a request");
                String::from_utf8_lossy(&request[..length]).into_owned()
            });
            let _ = AdminAddress::Tcp(format!("localhost:{}", address.port())).seen();
            requested.join().expect("it received the request")
        });
        assert!(requested.contains(&format!("\r\nHost: {address}\r\n")), "{requested}");
    }

    #[test]
    fn another_schema_is_refused_with_both_versions() {
        for (text, why) in [
            ("<html>", "not JSON"),
            ("[]", "its schema is null (version unknown), expected 3 (version 0.1.0)"),
            (
                r#"{"schema":2,"process":{"version":"0.0.7\u001b[2J"}}"#,
                r"its schema is 2 (version 0.0.7\u{1b}[2J), expected 3",
            ),
            (r#"{"schema":3,"services":7}"#, "not a status of this version: invalid type: integer `7`"),
            (r#"{"schema":3,"process":{"now":"\u001b"}}"#, r"not a status of this version: invalid time"),
            (
                r#"{"schema":"handfast-run/1","seconds":{}}"#,
                "not a status of this version: invalid type: map",
            ),
        ] {
            let wrong = Seen::read(text).expect_err(text).to_string();
            assert!(wrong.starts_with(why) && !wrong.contains('\u{1b}'), "{wrong}");
        }
    }

    #[test]
    fn what_a_proxy_sends_cannot_harm_a_terminal_or_a_sum() {
        let text = r#"{"schema":3,"unknown":[{}],"services":[{"name":"a\u001b[2Jb","accepted":18446744073709551615,"closed":-1},
            {"accepted":18446744073709551615}],"process":{"cpu_seconds":{"w\u001b":-1e300}}}"#;
        let Seen::Proxy(status) = Seen::read(text).expect("a status") else { panic!("a proxy") };
        let measured = &status.measured;
        assert_eq!((&*measured.services[0].name, measured.services[0].closed), ("a\\u{1b}[2Jb", 0));
        assert_eq!(counted(&status).accepted, 2 << 53);
        assert_eq!(measured.process.cpu_seconds.get("w\\u{1b}"), Some(&0.0));
        assert_eq!(measured.reload.generation, None, "what is missing has its default value");
    }

    #[test]
    fn a_proxy_that_does_not_answer_is_reported() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let answers = std::thread::scope(|scope| {
            scope.spawn(|| {
                for answer in ["HTTP/1.1 403 Forbidden\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n<html>"] {
                    let (mut stream, _) = listener.accept().expect("a client");
                    let _ = stream.read(&mut [0; 512]);
                    stream.write_all(answer.as_bytes()).expect("it waits");
                }
            });
            let status = AdminAddress::Tcp(address.to_string());
            [status.counted(), status.counted()].map(|answer| answer.expect_err("no status").what)
        });
        assert!(
            answers[0].ends_with("it answered \"HTTP/1.1 403 Forbidden\", expected status 200"),
            "{answers:?}"
        );
        assert!(answers[1].contains("not JSON"), "{answers:?}");
        drop(listener);
        let gone = AdminAddress::Tcp(address.to_string()).counted().expect_err("no process listens");
        assert!(gone.what.contains("--status: read http://127.0.0.1:") && gone.hint.is_some(), "{gone:?}");
    }
}
