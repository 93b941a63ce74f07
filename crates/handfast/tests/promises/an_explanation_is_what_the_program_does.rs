//! `check --explain URL` describes exactly what the running program does: configurations and requests are drawn from a seed, the sentences are
//! read as a person reads them, and the request is sent. A draw that fails prints its seed, its configuration and the sentences.

use std::collections::HashSet;
use std::net::SocketAddr;

use serde_json::Value;

use super::support::backend::Peer;
use super::support::certificates::KeyKind;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::*;
use handfast_testkit::cases::draws;

/// Requests; and where there is time.
const REQUESTS: (u64, u64) = (240, 10_000);
/// Requests by each configuration.
const EACH: u64 = 12;
const HOSTS: [&str; 3] = ["a.example", "b.example", "c.test"];
/// Every request has its own query, so that its line is found and no response is in a cache.
const PATHS: [&str; 14] = [
    "/",
    "/a",
    "/a/b",
    "/a/b/c",
    "/ab",
    "/b",
    "/B",
    "/a%2fb",
    "/%61",
    "//a",
    "/a/../b",
    "/b/..%2fa",
    "/a;x",
    "/c/a",
];
/// A password that no request sends.
const USERS: &str = "u:$2y$05$.QqgIUhog8c.srso2zmNGOjywx7AvnfefKghJnaD7BxJB7nDUMDvy\n";

/// Numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((number ^ (number >> 31)) % limit as u64) as usize
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    /// A configuration; most are right.
    fn configuration(&mut self, scene: &Scene, number: u64) -> String {
        let backend = |draw: &mut Self| format!("backend = \"{}\"\n", scene.backends[draw.below(4)].address);
        let (folder, is_tls) = (scene.folder.path().display(), self.one_in(2));
        let mut text = format!(
            "process = {{ threads = 2 }}\naccess-log = {{ to = \"stdout\" }}\nadmin = {{ listen = \"127.0.0.1:0\" }}\n\
             [[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nmode = \"http\"\n{}",
            if is_tls {
                format!("certificate = \"{folder}/web.pem\"\n")
            } else {
                "client-tls = false\n".to_owned()
            }
        );
        let routes: Vec<String> =
            (0..self.below(6)).map(|index| self.route(scene, &format!("r{number}-{index}"))).collect();
        let has_all = !routes.is_empty() && self.one_in(4);
        if !has_all || self.one_in(2) {
            text.push_str(&backend(self));
        }
        text.push_str(self.of(&["", "http = { max-body = \"2KiB\" }\n", "http = { retries = 0 }\n"]));
        if self.one_in(2) {
            text.push_str(&format!("[service.cache]\nfolder = \"{folder}/cache\"\nsize = \"1MiB\"\n"));
        }
        if is_tls && self.one_in(2) {
            let own = if self.one_in(2) { backend(self) } else { String::new() };
            text.push_str(&format!(
                "[[service.rule]]\nnames = \"{}\"\n{own}",
                self.of(&["b.example", "*.example"])
            ));
        }
        text.push_str(&routes.concat());
        if has_all {
            let action = self
                .of(&["respond = { status = 404 }\n", "redirect = \"https\"\n", "own"])
                .replace("own", &backend(self));
            text.push_str(&format!("[[service.route]]\nname = \"all{number}\"\n{action}"));
        }
        text
    }

    fn route(&mut self, scene: &Scene, name: &str) -> String {
        let own = format!("backend = \"{}\"\n", scene.backends[self.below(4)].address);
        let two =
            format!("backend = [\"{}\", \"{}\"]\n", scene.backends[0].address, scene.backends[1].address);
        let users = format!("basic-auth = {{ file = \"{}/users\" }}\n", scene.folder.path().display());
        let forwards = !self.one_in(4);
        let action = match forwards {
            true => self.of(&["", "", &own, &two]).to_owned(),
            false => self
                .of(&[
                    "respond = { status = 410 }\n",
                    "redirect = { to = \"https://d.test{target}\", status = 307 }\n",
                ])
                .to_owned(),
        };
        let mut text = format!("[[service.route]]\nname = \"{name}\"\n{action}");
        for part in [
            self.of(&["", "", "hosts = \"a.example\"\n", "hosts = [\"*.example\", \"c.test\"]\n"]),
            self.of(&[
                "",
                "path = \"/a\"\n",
                "path = \"/a*\"\n",
                "path = \"/a/b\"\n",
                "path = \"/b\"\nignore-case = true\n",
            ]),
            self.of(&["", "", "methods = \"GET\"\n", "methods = [\"PUT\", \"POST\"]\n"]),
            self.of(&["", "", "", "headers = \"x-beta\"\n"]),
            self.of(&[
                "",
                "",
                "",
                "allow-clients = \"10.0.0.0/8\"\n",
                "allow-clients = \"127.0.0.0/8\"\n",
                "refuse-clients = \"127.0.0.1/32\"\n",
                &users,
            ]),
            self.of(&["", "", "", "rate-limit = { requests = 1, per = \"1h\" }\n"]),
            self.of(&["", "", "max-body = \"1KiB\"\n", "max-body = \"64KiB\"\n"]),
        ] {
            text.push_str(part);
        }
        if forwards {
            text.push_str(self.of(&[
                "",
                "",
                "response-timeout = \"20s\"\n",
                "sticky = { cookie = \"at\" }\n",
            ]));
            if text.contains("path = ") {
                text.push_str(self.of(&["", "", "rewrite-path = \"/new\"\n"]));
            }
        }
        text
    }
}

/// Answers with its own port after the whole request, and ends.
fn backend() -> Backend {
    Backend::start(|peer: &mut Peer| {
        let Some(head) = peer.head() else { return };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        peer.read_exactly(length.unwrap_or(0));
        peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok");
    })
}

struct Scene {
    folder: Folder,
    backends: Vec<Backend>,
}

/// A request.
#[derive(Debug)]
struct Drawn {
    method: &'static str,
    host: &'static str,
    path: String,
    has_field: bool,
    content: usize,
}

/// The outcome of a request, by the sentences.
#[derive(Debug, PartialEq)]
struct Expected {
    route: Option<String>,
    statuses: Vec<u16>,
    /// Empty: none receives it.
    backends: Vec<String>,
    /// `None`: the sentences have no cache.
    is_cached: Option<bool>,
}

/// Lines of the text about this request: its route's name, and what is indented below.
fn lines_of<'t>(text: &'t str, request: &Drawn) -> (Option<String>, Vec<&'t str>) {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let begins = |start: &str| lines.iter().position(|line| line.trim_start().starts_with(start));
    let with = format!("by {} with x-beta it takes ", request.method);
    let usual = format!("a request for {} ({}) takes ", request.path, request.method);
    let first = request
        .has_field
        .then(|| begins(&with))
        .flatten()
        .or_else(|| begins(&usual))
        .expect("the request is described");
    let name =
        lines[first].split_once("takes the route `").map(|(_, name)| name.trim_end_matches('`').to_owned());
    let below = lines[first + 1..].iter().take_while(|line| indent(line) > indent(lines[first]));
    (name, below.map(|line| line.trim_start()).collect())
}

fn places(text: &str) -> Vec<String> {
    let places = text.split(';').next().unwrap_or_default().split(", one after").next().unwrap_or_default();
    places.replace(" and ", ", ").split(", ").map(str::to_owned).collect()
}

/// Reads the sentences. `used`: routes whose limit of one request has been used. A request with too much content uses limits too.
fn read(text: &str, request: &Drawn, used: &mut HashSet<String>) -> Expected {
    let (route, lines) = lines_of(text, request);
    let expected = decided(text, &lines, (&route, used));
    let most = lines.iter().filter_map(|line| line.strip_prefix("content of at most ")?.strip_suffix("KiB"));
    let mut most = most.map(|most| most.parse::<usize>().expect("a number") * 1024);
    match most.any(|most| request.content > most) {
        true => Expected { statuses: vec![413], backends: Vec::new(), is_cached: None, route },
        false => expected,
    }
}

fn decided(text: &str, lines: &[&str], (route, used): (&Option<String>, &mut HashSet<String>)) -> Expected {
    let refused = |status| Expected {
        route: route.clone(),
        statuses: vec![status],
        backends: Vec::new(),
        is_cached: None,
    };
    let mut expected = refused(0);
    for line in lines {
        if line.contains("is refused with status 400") {
            return refused(400);
        } else if *line == "only clients from 10.0.0.0/8 are let in"
            || *line == "clients from 127.0.0.1 are refused"
        {
            return refused(403);
        } else if line.contains(" may send 1 request in 1h") {
            let other = line
                .strip_prefix("as the route `")
                .and_then(|rest| rest.split_once('`'))
                .map(|(name, _)| name.to_owned());
            if !used.insert(other.or(route.clone()).expect("limits are of routes")) {
                return refused(429);
            }
        } else if line.starts_with("clients need a password of ") {
            return refused(401);
        } else if let Some((_, status)) = line.split_once(" with status ") {
            return refused(status.parse().expect("a status"));
        } else if let Some(to) = line.strip_prefix("they go to ") {
            (expected.statuses, expected.backends) = (vec![200], places(to));
        } else if *line == "to the backends of their connection" {
            let of_connection = text.lines().take_while(|line| !line.contains("a request for "));
            let to = of_connection.filter_map(|line| line.split_once("goes to ")).map(|(_, to)| to).last();
            (expected.statuses, expected.backends) = (vec![200], places(to.expect("its backends are named")));
        } else if line.starts_with("responses are ") {
            expected.is_cached = Some(!line.contains("not kept"));
        }
    }
    expected
}

/// Sends the request, and returns the status of the response.
fn send(address: SocketAddr, is_tls: bool, request: &Drawn) -> u16 {
    let Drawn { method, host, path, has_field, content } = request;
    let field = if *has_field { "x-beta: 1\r\n" } else { "" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {content}\r\nConnection: close\r\n{field}\r\n"
    );
    let bytes = [head.into_bytes(), vec![b'x'; *content]].concat();
    let answer = if is_tls {
        let config = Trust::version(Version::Tls13).config();
        let mut client = Client::try_connect(address, &config, host).expect("a handshake");
        client.send(&bytes);
        client.read_to_end().bytes
    } else {
        use std::io::{Read, Write};
        let mut stream = dial(address).expect("the proxy listens");
        stream.write_all(&bytes).expect("the proxy reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("a response");
        answer
    };
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

/// The outcome of the request, by the log: its route, its backend, and whether a cache took part.
fn seen(proxy: &Proxy, request: &Drawn) -> (Option<String>, Option<String>, bool) {
    let of_request = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["path"] == *request.path).then_some(line)
    };
    let (_, line) = proxy.output.find(0, "the line of the request", of_request);
    let text = |field: &str| line[field].as_str().map(str::to_owned);
    (text("route"), text("backend"), text("cache").is_some())
}

/// Draws a configuration and its requests, and compares; returns the statuses that came. `None`: the configuration is wrong.
fn tried(scene: &Scene, seed: u64) -> Option<Vec<u16>> {
    let mut draw = Draw(seed);
    let text = draw.configuration(scene, seed);
    let file = scene.folder.write("drawn.toml", &text);
    let check =
        |words: &[&str]| tools::handfast(&[&["check", "-c", &file.display().to_string()], words].concat());
    // A route that no request reaches is an error.
    if check(&[]).code != Some(0) {
        return None;
    }
    let is_tls = text.contains("certificate = ");
    let proxy = Proxy::start(&text);
    let mut used = HashSet::new();
    let mut requests = Vec::new();
    for number in 0..EACH {
        let (method, content) = (draw.of(&["GET", "GET", "POST"]), [0, 0, 1_500, 3_000][draw.below(4)]);
        let request = Drawn {
            method,
            host: draw.of(&HOSTS),
            path: format!("{}?n={seed}.{number}", draw.of(&PATHS)),
            has_field: draw.one_in(3),
            content: if method == "GET" { 0 } else { content },
        };
        let scheme = if is_tls { "https" } else { "http" };
        let explained =
            check(&["--explain", &format!("{method} {scheme}://{}{}", request.host, request.path)]);
        let expected = read(&explained.output, &request, &mut used);
        let status = send(proxy.address(), is_tls, &request);
        requests.push((request, explained.output, expected, status));
    }
    for (request, explained, expected, status) in &requests {
        let (route, backend, is_cached) = seen(&proxy, request);
        let goes = match &backend {
            Some(backend) => expected.backends.contains(backend),
            None => expected.backends.is_empty(),
        };
        // Other methods pass a cache by.
        let is_kept =
            request.method != "GET" || expected.is_cached.is_none_or(|expected| expected == is_cached);
        assert!(
            route == expected.route && expected.statuses == [*status] && goes && is_kept,
            "seed {seed}: {request:?}\nexpected {expected:?}\nseen {route:?} {status} {backend:?} {is_cached}\n{text}\n{explained}"
        );
    }
    Some(requests.into_iter().map(|(.., status)| status).collect())
}

#[test]
fn of_drawn_requests_by_drawn_configurations() {
    let folder = Folder::new();
    folder.write("web.pem", authority().identity(&HOSTS, KeyKind::Ecdsa).combined());
    folder.write("users", USERS);
    let scene = Scene { folder, backends: (0..4).map(|_| backend()).collect() };
    let count = usize::try_from(draws(REQUESTS.0, REQUESTS.1)).expect("a small number");
    let (mut statuses, mut wrong) = (Vec::new(), 0);
    for seed in 0.. {
        match tried(&scene, seed) {
            Some(more) => statuses.extend(more),
            None => wrong += 1,
        }
        if statuses.len() >= count {
            assert!(wrong * 2 < seed, "most configurations are right: {wrong} of {seed} were not");
            break;
        }
    }
    assert!(statuses.iter().any(|status| (300..400).contains(status)), "redirects are among {statuses:?}");
    for status in [200, 400, 401, 403, 410, 413, 429] {
        assert!(statuses.contains(&status), "{status} is among {statuses:?}");
    }
}
