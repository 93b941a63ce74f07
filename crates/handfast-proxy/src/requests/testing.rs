//! Parts that unit tests of requests share: the connection of a client, whose service is configured as text, and a leg over memory.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_config::model::AccessLog;
use handfast_http::http1::{Field, HeadLimits, HeadProgress, OwnedRequest, RequestHead, parse_request};
use handfast_net::clock::Moment;
use handfast_observe::access_log::{self, AccessLogHandle};
use handfast_observe::metrics::{Registry, RequestSnapshot};
use handfast_observe::request_record::{ConnectionFacts, HttpVersion};
use handfast_pki::certificate::Certificate;

use crate::admission::permits::{Pool, Share};
use crate::backends::names::Addresses;
use crate::requests::decide::connection::{HttpConnection, client_address};
use crate::requests::decide::request::{Refused, Request};
use crate::state::{self, CarriedOver};
use crate::testing::Folder;
use crate::worker::context::WorkerContext;
use crate::worker::services::{Chosen, ThreadState};

/// The names in the certificate of [`Fixture::with_tls`].
const NAMES: [&str; 3] = ["localhost", "api.example", "*.shop.example"];

/// A service in HTTP mode, and one of its clients.
pub(crate) struct Fixture {
    pub(crate) connection: HttpConnection,
    registry: Arc<Registry>,
    log: AccessLogHandle,
    folder: Folder,
}

impl Fixture {
    /// Without TLS; `more` is in the service's section. The client is 192.0.2.7.
    pub(crate) fn new(more: &str) -> Self {
        Self::of(&format!("client-tls = false\n{more}"))
    }

    /// With TLS for the name `localhost`; the certificate covers [`NAMES`].
    pub(crate) fn with_tls(more: &str) -> Self {
        Self::try_with_tls(more).unwrap_or_else(|| panic!("it is wrong: {more}"))
    }

    /// The same; `None`: the configuration is wrong.
    pub(crate) fn try_with_tls(more: &str) -> Option<Self> {
        let mut fixture = Self::try_of(&format!("certificate = \"names.pem\"\n{more}"))?;
        let pem = std::fs::read(fixture.folder.path("names.pem")).expect("it was written");
        let (certificate, findings) = Certificate::from_pem(&pem, Path::new("names.pem"), 0);
        let certificate = certificate.unwrap_or_else(|| panic!("{findings:?}"));
        fixture.connection.names = Some(Arc::clone(certificate.names()));
        fixture.change_facts(|facts| {
            facts.tls_version = Some("TLSv1.3");
            facts.server_name = Some("localhost".into());
        });
        Some(fixture)
    }

    fn of(service: &str) -> Self {
        Self::try_of(service).unwrap_or_else(|| panic!("it is wrong: {service}"))
    }

    /// `None`: the configuration is wrong.
    fn try_of(service: &str) -> Option<Self> {
        let folder = Folder::new();
        folder.certificate_for("names.pem", &NAMES);
        let text = format!(
            "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\n\
             mode = \"http\"\nbackend = \"127.0.0.1:1\"\n{service}\n"
        );
        let (config, _) = folder.configure_as(&text, &[]).read(false).ok()?;
        let mut carried = CarriedOver::with_threads(1);
        let built = state::build(config, 1, None, &mut carried, SystemTime::now());
        let shared = Arc::new(built.state.unwrap_or_else(|| panic!("{:?}", built.report)));
        let registry = Registry::new();
        let metrics = registry.thread("worker-0");
        let state =
            ThreadState::new(shared, None, &metrics, &Addresses::default(), 0).expect("TLS is set up");
        let service = Rc::clone(&state.services[0]);
        let log = access_log::start(&AccessLog::File(folder.path("access.log"))).expect("the folder is ours");
        let share = Share::new(&Pool::new(10, 1));
        let thread = WorkerContext::new(metrics, log.for_thread(), share, Rc::new(state), None, None);
        let facts = ConnectionFacts {
            service: Rc::clone(&service.name),
            generation: 1,
            client: Some(SocketAddr::from(([192, 0, 2, 7], 50_000))),
            server_name: None,
            tls_version: None,
            client_subject: None,
        };
        let connection = HttpConnection {
            thread,
            http: service.http.clone().expect("it is in HTTP mode"),
            service,
            chosen: Chosen::SERVICE,
            client_certificate: None,
            client_chain: Rc::default(),
            client_address: client_address(facts.client),
            facts: Rc::new(facts),
            is_trusted: false,
            names: None,
            is_http2: false,
            proxy_header: Vec::new(),
            proxy_facts: Rc::default(),
            accepted: Moment::now(),
            tied: Rc::default(),
            totals: Rc::default(),
        };
        Some(Self { connection, registry, log, folder })
    }

    pub(crate) fn trusted(mut self) -> Self {
        self.connection.is_trusted = true;
        self
    }

    pub(crate) fn change_facts(&mut self, change: impl FnOnce(&mut ConnectionFacts)) {
        change(Rc::make_mut(&mut self.connection.facts));
        self.connection.client_address = client_address(self.connection.facts.client);
    }

    /// The request with this head.
    ///
    /// **Errors**: why it is refused although its head was accepted.
    pub(crate) fn try_request(&self, text: &str) -> Result<Box<Request>, Refused> {
        let limits = &self.connection.http.model.head;
        with_head(text, limits, |head| {
            Request::new(head, &self.connection, HttpVersion::Http11, Duration::ZERO)
        })
    }

    pub(crate) fn request(&self, text: &str) -> Box<Request> {
        self.try_request(text).unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    /// Returns the head that a backend receives for it, without the empty line at the end.
    pub(crate) fn forwarded(&self, text: &str) -> String {
        let request = self.request(text);
        let parsed = OwnedRequest::of_written(request.head.text()).expect("a head").expect("a whole head");
        assert_eq!(described(&request.head), described(&parsed), "{}", request.head.text().escape_ascii());
        let text = String::from_utf8(request.head.text().to_vec()).expect("the tests send text");
        text.strip_suffix("\r\n\r\n").expect("a whole head").to_owned()
    }

    /// Returns the counters of requests so far.
    pub(crate) fn counted(&self) -> RequestSnapshot {
        self.registry.snapshot().services.swap_remove(0).requests.expect("there was a request")
    }

    /// The lines in the log; it ends with this.
    pub(crate) fn lines(self) -> Vec<serde_json::Value> {
        self.connection.thread.flush_log();
        assert!(self.log.stop(Duration::from_secs(20)).finished, "its thread has written everything");
        let text = std::fs::read_to_string(self.folder.path("access.log")).expect("it was written");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Returns the request of a backend of HTTP/2, for comparison.
fn described(head: &OwnedRequest) -> String {
    let head = head.head();
    let fields = head.fields.iter().filter(|field| field.kind().is_forwarded());
    let fields: Vec<_> = fields
        .map(|field| (field.name(head.text).escape_ascii(), field.value(head.text).escape_ascii()))
        .collect();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {fields:?}",
        head.method,
        head.target.path(),
        head.host,
        head.framing,
        head.upgrade
    )
}

/// Calls `action` with a head that the strict parser has accepted.
pub(crate) fn with_head<T>(text: &str, limits: &HeadLimits, action: impl FnOnce(&RequestHead<'_>) -> T) -> T {
    let mut fields: Vec<Field> = Vec::new();
    let parsed = parse_request(text.as_bytes(), &mut HeadProgress::default(), &mut fields, limits);
    let head = parsed.unwrap_or_else(|error| panic!("{error:?}: {text}")).expect("a whole head");
    action(&head)
}

/// A request line, the fields and the empty line, each on a separate line.
pub(crate) fn head(lines: &[&str]) -> String {
    format!("{}\r\n\r\n", lines.join("\r\n"))
}
