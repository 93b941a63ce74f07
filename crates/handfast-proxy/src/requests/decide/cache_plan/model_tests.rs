//! Thousands of requests by configurations and clients that are drawn from a seed: no client is given a response that its own request could not
//! have produced, and none invalidates a response that only others can read.
//!
//! The model knows nothing of keys: it compares what the backends of two requests receive. A draw that fails prints its seed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use handfast_cache::bypass;
use handfast_http::http1::HeadLimits;
use handfast_leg::memory::{Dice, dice};
use handfast_pki::ShownCertificate;
use handfast_testkit::cases::draws;

use super::*;
use crate::backends::group::Group;
use crate::backends::tls::BackendTlsClient;
use crate::requests::client_address;
use crate::requests::decide::request::{Action, Request};
use crate::requests::head::sender::Identified;
use crate::requests::testing::{Fixture, head, with_head};
use crate::worker::services::Chosen;

/// Configurations; and where there is time.
const CONFIGURATIONS: (u64, u64) = (100, 1_000);
/// Requests by each configuration.
const REQUESTS: usize = 40;

struct Draw(Dice);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        (self.0)() as usize % limit
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    /// A configuration; most are right.
    fn configuration(&mut self) -> String {
        let mut text = String::new();
        if self.one_in(3) {
            text.push_str("http = { trust-forwarded-from = \"10.0.0.0/8\" }\n");
        }
        text.push_str("[service.cache]\nfolder = \"kept\"\nsize = \"1MiB\"\n");
        text.push_str("[service.client-certificates]\nca = \"names.pem\"\n");
        text.push_str(
            self.of(&["mode = \"request\"\n", "mode = \"require\"\nfallback-backend = \"127.0.0.1:70\"\n"]),
        );
        for name in ["api.example", "a.shop.example"].iter().take(self.below(3)) {
            let backend =
                self.of(&["", "backend = \"127.0.0.1:71\"\n", "backend-tls = { name = \"rule.example\" }\n"]);
            text.push_str(&format!("[[service.rule]]\nnames = \"{name}\"\n{backend}"));
        }
        for index in 0..self.below(4) {
            text.push_str(&format!("[[service.route]]\nname = \"r{index}\"\n{}", self.route()));
        }
        text
    }

    fn route(&mut self) -> String {
        [
            self.of(&["", "", "path = \"/a\"\n", "path = \"/a/b\"\n"]),
            self.of(&["", "", "methods = \"GET\"\n", "methods = [\"GET\", \"HEAD\"]\n", "methods = \"POST\"\n"]),
            self.of(&["", "", "", "headers = \"x-beta\"\n"]),
            self.of(&["", "", "", "share = \"50%\"\n"]),
            self.of(&["", "backend = \"127.0.0.1:72\"\n", "backend = \"127.0.0.1:73\"\n"]),
            self.of(&["", "", "", "allow-clients = \"10.0.0.0/8\"\n", "allow-certificates = \"dns:api.example\"\n"]),
            self.of(&["", "", "", "forward-auth = { to = \"127.0.0.1:74\", path = \"/\", copy = \"x-group\" }\n"]),
            self.of(&["", "", "", "", "cache = false\n"]),
            self.of(&[
                "",
                "",
                "set-request-headers = [\"x-tls: {tls-version}\", \"x-name: {server-name}\"]\n",
                "set-request-headers = [\"x-dn: {client-subject}\", \"x-user: {user}\"]\n",
                "set-request-headers = [\"host: {client-fingerprint}.example\", \"x-address: {client-address} {request-id}\"]\n",
            ]),
        ]
        .concat()
    }

    /// Another client of the fixture. `has_place`: clients without a certificate have backends; `sends_header`: backends receive PROXY headers.
    fn client(&mut self, fixture: &mut Fixture, has_place: bool, sends_header: bool) {
        let version = self.of(&["TLSv1.2", "TLSv1.3"]);
        let name = self.of(&["localhost", "api.example", "a.shop.example", ""]);
        let name = (!name.is_empty()).then_some(name);
        let address = self.of(&["10.0.0.1", "192.0.2.7"]);
        fixture.change_facts(|facts| {
            (facts.tls_version, facts.server_name) = (Some(version), name.map(Into::into));
            facts.client = Some((address.parse::<IpAddr>().expect("an address"), 5).into());
        });
        let certificate = self.of(&["", "one", "other"]);
        let connection = &mut fixture.connection;
        let (route, _) = connection.service.table.choose(name, &[]);
        connection.chosen = Chosen { route, failed: has_place && certificate.is_empty() };
        connection.client_address = client_address(connection.facts.client);
        connection.is_trusted =
            connection.http.trusted.as_ref().is_some_and(|it| it.has(connection.facts.client));
        let shown = (!certificate.is_empty()).then(|| ShownCertificate {
            subject: certificate.into(),
            serial: "".into(),
            fingerprint: certificate.into(),
        });
        connection.client_certificate =
            shown.filter(|_| connection.http.writes(Variable::is_about_certificate)).map(Rc::new);
        let facts = format!("{version} {name:?} {certificate}");
        connection.proxy_facts = if sends_header { facts.into_bytes().into() } else { Rc::default() };
    }
}

/// A request as its backend receives it, and which one does: two requests of which this is the same have the same response.
#[derive(Clone, Debug, PartialEq)]
struct Sight {
    backends: *const Group,
    tls: Option<*const BackendTlsClient>,
    head: String,
    proxy_facts: Rc<[u8]>,
}

/// A request that its route has admitted.
struct Admitted {
    request: Box<Request>,
    sight: Sight,
}

/// Fields about which the backend decides: it names those of the client in `Vary`, and must not be cached where it answers by an address.
const BACKEND_FIELDS: [&str; 5] = ["a:", "x-beta:", "x-forwarded-for:", "x-request-id:", "x-address:"];

fn is_of_backends(line: &str) -> bool {
    BACKEND_FIELDS.iter().any(|name| line.to_ascii_lowercase().starts_with(name))
}

fn sight(fixture: &Fixture, request: &Request, chosen: Chosen) -> Sight {
    let connection = &fixture.connection;
    let text = String::from_utf8(request.head.text().to_vec()).expect("text");
    let text = text.strip_prefix("HEAD").map_or(text.clone(), |rest| format!("GET{rest}"));
    let lines: Vec<&str> = text.lines().filter(|line| !is_of_backends(line)).collect();
    Sight {
        backends: connection.service.group(chosen),
        tls: connection.service.dialler(chosen).map(Rc::as_ptr),
        head: lines.join("\n"),
        proxy_facts: Rc::clone(&connection.proxy_facts),
    }
}

/// A request of the fixture's client; `None`: it is refused, or its backend is not asked.
fn admitted(draw: &mut Draw, fixture: &Fixture, line: &str, fields: &[&str]) -> Option<Admitted> {
    let text = head(&[&[line], fields].concat());
    let mut request = fixture.try_request(&text).ok()?;
    if matches!(request.action, Action::Authenticate(_)) {
        let user = draw.of(&["alice", "bob"]);
        let added =
            if draw.one_in(2) { vec![("x-group".into(), draw.of(&["a", "b"]).into())] } else { Vec::new() };
        let sender = Identified { user: Some(user.into()), added };
        with_head(&text, &HeadLimits::default(), |head| request.admit(head, &fixture.connection, &sender));
    }
    let Action::Forward(chosen) = request.action else { return None };
    let sight = sight(fixture, &request, chosen);
    Some(Admitted { request, sight })
}

/// Plays one configuration; the number of pairs that share a key.
fn play(fixture: &mut Fixture, has_place: bool, draw: &mut Draw) -> usize {
    let mut stored: HashMap<Key, Vec<Admitted>> = HashMap::new();
    let sends_header = draw.one_in(3);
    let mut pairs = 0;
    for _ in 0..REQUESTS {
        draw.client(fixture, has_place, sends_header);
        let method = draw.of(&["GET", "GET", "GET", "HEAD", "POST"]);
        let line = format!("{method} {} HTTP/1.1", draw.of(&["/a", "/a/b", "/c"]));
        let host = draw.of(&["Host: localhost", "Host: api.example"]);
        let more = draw.of(&["A: b", "x-beta: 1", "x-beta: 2", "X-Forwarded-Host: evil.example"]);
        let Some(one) = admitted(draw, fixture, &line, &[host, more]) else { continue };
        // Its backend receives the request as that of the client.
        let again = one.request.own_with_head(one.request.head.clone(), &fixture.connection);
        let Action::Forward(chosen) = again.action else { panic!("it is forwarded") };
        assert_eq!(sight(fixture, &again, chosen), one.sight, "a request of the proxy's own");
        let Some(plan) = &one.request.cached else { continue };
        let is_past = |head: &RequestHead<'_>| bypass(head, &plan.policy).is_some();
        let text = String::from_utf8(one.request.head.text().to_vec()).expect("text");
        let is_past = with_head(&text, &HeadLimits::default(), is_past);
        let known = stored.entry(plan.key.clone()).or_default();
        for other in known.iter() {
            pairs += 1;
            let is_open = other.request.route.gate.is_none();
            assert!(
                is_open || Rc::ptr_eq(&other.request.route, &one.request.route),
                "{line} reaches what another gate guards, of {:?}",
                other.sight
            );
            assert!(
                is_past || other.sight == one.sight,
                "{line} {more}: {:#?} {:#?}",
                other.sight,
                one.sight
            );
        }
        if !is_past && text.starts_with("GET ") {
            known.push(one);
        }
    }
    pairs
}

#[test]
fn no_client_receives_what_its_own_request_could_not_produce() {
    let seeds = match std::env::var("HANDFAST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("HANDFAST_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..draws(CONFIGURATIONS.0, CONFIGURATIONS.1),
    };
    let mut pairs = 0;
    for seed in seeds {
        let mut draw = Draw(dice(seed));
        let (text, mut fixture) = loop {
            let text = draw.configuration();
            if let Some(fixture) = Fixture::try_with_tls(&text) {
                break (text, fixture);
            }
        };
        let has_place = text.contains("fallback-backend");
        let play = || play(&mut fixture, has_place, &mut draw);
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(play));
        match played {
            Ok(number) => pairs += number,
            Err(panic) => {
                eprintln!("the draw that failed: HANDFAST_SEED={seed}\n{text}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(pairs > 1_000, "too few requests could have shared a response: {pairs}");
}
