//! Record of one request at its end, beside the record of its connection.
//!
//! In: what the steps of the request have found. Out: its counts, and its line in the access log. Everything that a client chose is bounded.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use handfast_http::content_coding::ContentCoding;
use handfast_http::http1::Rule;

use crate::reason::CloseReason;
use crate::record::BackendFailures;
use crate::words::words;

words! {
    /// The HTTP version of a request, as ALPN names it.
    HttpVersion {
        /// HTTP/1.0.
        Http10 = "http/1.0";
        /// HTTP/1.1.
        Http11 = "http/1.1";
        /// HTTP/2.
        Http2 = "h2";
    }
}

/// Facts that all requests of a connection have in common: fixed after its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// The name of the service.
    pub service: Rc<str>,
    /// The generation of the configuration that the connection was accepted with.
    pub generation: u64,
    /// The client, as a trusted proxy in front reported it where there is one; `None`: a unix socket.
    pub client: Option<SocketAddr>,
    /// The name that the client's TLS asked for.
    pub server_name: Option<Box<str>>,
    /// The TLS version with the client; `None`: plain text.
    pub tls_version: Option<&'static str>,
    /// The subject of the client's certificate, if that was verified.
    pub client_subject: Option<Box<str>>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Its connection.
    pub connection: Rc<ConnectionFacts>,
    /// The time at which its head was complete.
    pub at: SystemTime,
    /// The HTTP version.
    pub protocol: HttpVersion,
    /// Its identifier, method, host and path; shared with the list of open requests.
    pub texts: Rc<RequestTexts>,
    /// The route that was chosen for it; `None`: that of the connection.
    pub route: Option<Rc<str>>,
    /// The backend that was tried last.
    pub backend: Option<Rc<str>>,
    /// True if its connection to the backend had served a request before; `None`: it was sent on no connection.
    pub is_reused: Option<bool>,
    /// Times it was sent again, on another connection.
    pub retries: u32,
    /// Backends that did not answer.
    pub backend_failures: BackendFailures,
    /// The status of the response; `None`: it had none.
    pub status: Option<u16>,
    /// Action of the service's cache, in a word; `None`: there is none, or it was not asked.
    pub cache: Option<&'static str>,
    /// The coding that its response was compressed with here, and the bytes of content before it; `None`: it was not.
    pub coded: Option<(ContentCoding, u64)>,
    /// Bytes of the request's content.
    pub bytes_from_client: u64,
    /// Bytes of the response's content.
    pub bytes_to_client: u64,
    /// Duration of each part.
    pub seconds: RequestTimes,
    /// The rule of HTTP that it broke, for which it was refused.
    pub broken_rule: Option<Rule>,
    /// Reason why no backend answered it completely, also where this proxy answered instead (`status`); `None`: one did, or the
    /// configuration asks for an answer without a backend (a redirect). For the operator: the client must not see it.
    pub failure: Option<CloseReason>,
    /// The name of the user, where the route asks for one.
    pub user: Option<Box<str>>,
    /// The client's `Referer`; only where the [log](crate::access_log::ThreadLog::has_client_fields) has it.
    pub referer: Option<Box<str>>,
    /// The client's `User-Agent`; likewise.
    pub user_agent: Option<Box<str>>,
    /// Its `traceparent` (W3C Trace Context); `None`: its service has no traces.
    pub trace: Option<Box<str>>,
}

impl RequestRecord {
    /// Bytes of a method that are recorded.
    const METHOD_BYTES: usize = 16;
    /// Bytes of a host or a path.
    const PATH_BYTES: usize = 512;
    /// Bytes of any other field.
    const FIELD_BYTES: usize = 256;

    /// A request whose head is complete; of what the client chose only the beginning is kept. An empty host is none.
    ///
    /// **Cost**: one allocation, and none if `id` has room for the rest.
    pub fn new(
        connection: &Rc<ConnectionFacts>,
        protocol: HttpVersion,
        id: String,
        [method, host, path]: [&[u8]; 3],
    ) -> Self {
        let method = beginning(method, Self::METHOD_BYTES);
        let [host, path] = [host, path].map(|text| beginning(text, Self::PATH_BYTES));
        Self {
            connection: Rc::clone(connection),
            at: SystemTime::now(),
            protocol,
            texts: Rc::new(RequestTexts::new(id, [method, host, path])),
            route: None,
            backend: None,
            is_reused: None,
            retries: 0,
            backend_failures: BackendFailures::default(),
            status: None,
            cache: None,
            coded: None,
            bytes_from_client: 0,
            bytes_to_client: 0,
            seconds: RequestTimes::default(),
            broken_rule: None,
            failure: None,
            user: None,
            referer: None,
            user_agent: None,
            trace: None,
        }
    }

    /// The identifier of its trace, in 32 hexadecimal digits.
    pub fn trace_id(&self) -> Option<&str> {
        self.trace.as_deref()?.split('-').nth(1)
    }

    /// Its identifier, which the backend receives too.
    pub fn id(&self) -> &str {
        self.texts.id()
    }

    /// The method.
    pub fn method(&self) -> &str {
        self.texts.method()
    }

    /// The host that it names.
    pub fn host(&self) -> Option<&str> {
        self.texts.host()
    }

    /// The path with its query.
    pub fn path(&self) -> &str {
        self.texts.path()
    }

    /// Notes `Referer`; of a long one the beginning.
    pub fn set_referer(&mut self, value: &[u8]) {
        self.referer = Some(lossy(beginning(value, Self::FIELD_BYTES)).into());
    }

    /// Notes `User-Agent`; of a long one the beginning.
    pub fn set_user_agent(&mut self, value: &[u8]) {
        self.user_agent = Some(lossy(beginning(value, Self::FIELD_BYTES)).into());
    }
}

/// The texts of a request, in one allocation because each request has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTexts {
    text: String,
    /// End offset of each text.
    ends: [usize; 4],
}

impl RequestTexts {
    fn new(first: String, others: [&[u8]; 3]) -> Self {
        let mut texts = Self { ends: [first.len(); 4], text: first };
        for (end, other) in texts.ends[1..].iter_mut().zip(others) {
            texts.text.push_str(&lossy(other));
            *end = texts.text.len();
        }
        texts
    }

    /// Its identifier, which the backend receives too.
    pub fn id(&self) -> &str {
        self.part(0)
    }

    /// The method.
    pub fn method(&self) -> &str {
        self.part(1)
    }

    /// The host that it names.
    pub fn host(&self) -> Option<&str> {
        Some(self.part(2)).filter(|host| !host.is_empty())
    }

    /// The path with its query.
    pub fn path(&self) -> &str {
        self.part(3)
    }

    /// The path without its query, which may have secrets.
    pub fn path_alone(&self) -> &str {
        self.path().split('?').next().unwrap_or_default()
    }

    fn part(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[index]]
    }
}

fn beginning(bytes: &[u8], limit: usize) -> &[u8] {
    &bytes[..bytes.len().min(limit)]
}

/// As text; what is not UTF-8 is replaced. Nearly all of it is ASCII, which the first look is quicker for.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// A part of a request that takes time, after its head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// See [`RequestTimes::queue`].
    Queue,
    /// See [`RequestTimes::connect`].
    Connect,
    /// See [`RequestTimes::answer`].
    Answer,
    /// See [`RequestTimes::relay`].
    Relay,
}

/// Durations of the parts of a request, to its end, whatever that was; zero for those that were not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// From the first byte of its head to the last one.
    pub hello: Duration,
    /// Until a backend had less than `max-requests` requests.
    pub queue: Duration,
    /// Until its sender was identified, where the route needs that, and a connection to a backend could be used.
    pub connect: Duration,
    /// From then to the first byte of the response, at every backend that was tried; or the same for a response that another request fetches.
    pub answer: Duration,
    /// From then to the end of the response.
    pub relay: Duration,
}

impl RequestPart {
    /// The word of the access log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Connect => "connect",
            Self::Answer => "response",
            Self::Relay => "relay",
        }
    }
}

impl RequestTimes {
    /// Adds the duration of a part.
    pub fn add(&mut self, part: RequestPart, duration: Duration) {
        *match part {
            RequestPart::Queue => &mut self.queue,
            RequestPart::Connect => &mut self.connect,
            RequestPart::Answer => &mut self.answer,
            RequestPart::Relay => &mut self.relay,
        } += duration;
    }

    /// All parts together.
    pub fn total(&self) -> Duration {
        self.hello + self.queue + self.connect + self.answer + self.relay
    }
}
