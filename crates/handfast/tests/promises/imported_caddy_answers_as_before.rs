//! The answers of Caddy 2.11.9 for some sites are recorded; imported, ours answers the same. Where Caddy is installed, it receives the requests too.
//!
//! The sites are what `caddy adapt` prints of a Caddyfile.

use std::net::SocketAddr;

use super::imported_haproxy_answers_as_before::{FACTS, HASH, Request, SERVERS, answer};
use super::proxies_understand_each_others_headers::wait_until_listening;
use super::support::certificates::{KeyKind, authority};
use super::support::folder::Folder;
use super::support::proxy::Proxy;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::{self, Tool};

const SITES: &str = include_str!("../../../handfast-import/testdata/caddy-sites.json");

/// As those of the test of HAProxy; what the answer must have, a part a word.
const REQUESTS: [Request; 21] = [
    ("plain", "a.test", "/", &[], "200", "one a.test / | x-site: a | x-backend: one"),
    ("plain", "a.test", "/x?y=1", &[], "200", "one a.test /x?y=1"),
    (
        "plain",
        "a.test",
        "/api/x?y",
        &["-H", "X-Secret: 1"],
        "200",
        "two a.test /x?y | secret= | client=127. | for=127.",
    ),
    ("plain", "a.test", "/api", &[], "200", "one a.test /api | client= for=127."),
    ("plain", "a.test", "/apis", &[], "200", "one a.test /apis"),
    ("plain", "a.test", "/in/x?q", &[], "200", "one a.test /app/in/x?q"),
    ("plain", "a.test", "/exact", &[], "200", "two a.test /exact"),
    ("plain", "a.test", "/exact/x", &[], "200", "one a.test /exact/x"),
    ("plain", "a.test", "/old/x?y", &[], "301", "location: https://new.test/old/x?y | x-site: a"),
    ("plain", "a.test", "/old", &[], "200", "one a.test /old"),
    ("plain", "a.test", "/", &["-H", "X-Beta: on"], "200", "two a.test /"),
    ("plain", "a.test", "/", &["-H", "X-Beta: off"], "200", "one a.test /"),
    ("plain", "a.test", "/", &["-d", "x=1"], "405", "x-site: a"),
    ("plain", "a.test", "/in/x", &["-d", "x=1"], "200", "one a.test /app/in/x"),
    ("plain", "b.test", "/", &[], "200", "two b.test /"),
    ("plain", "c.test", "/", &[], "403", ""),
    ("plain", "d.test", "/", &[], "401", ""),
    ("plain", "d.test", "/", &["-u", "alice:wrong"], "401", ""),
    ("plain", "d.test", "/", &["-u", "alice:good"], "200", "two d.test / | client=alice"),
    ("plain", "e.test", "/x", &[], "200", "secure a.test /x"),
    ("plain", "other.test", "/", &[], "200", ""),
];

/// An answer without its type, which an empty response of ours has, too.
fn compared(address: SocketAddr, request: Request) -> String {
    let answer = answer(address, request);
    let is_kept = |line: &&str| !line.is_empty() && !line.starts_with("content-type:");
    answer.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

#[test]
fn requests_are_answered_as_before() {
    needs!("haproxy", "curl");
    let folder = Folder::new();
    folder.write("web.pem", authority().identity(&["a.test"], KeyKind::Rsa).combined());
    folder.write("ca.pem", &authority().pem);
    folder.write("caddy-users-1.htpasswd", format!("alice:{HASH}\n"));
    let servers: [SocketAddr; 4] = std::array::from_fn(|_| address_of_ones_own());
    let place = format!("{}/", folder.path().display());
    let written = |text: &str, plain: SocketAddr| {
        let text = text
            .replace("@FACTS@", FACTS)
            .replace("web.pem", &format!("{place}web.pem"))
            .replace("ca.pem", &format!("{place}ca.pem"));
        let words = ["@ONE@", "@TWO@", "@SECURE@", "@OTHER@"].into_iter().zip(servers);
        words
            .chain([("@PLAIN@", plain)])
            .fold(text, |text, (word, address)| text.replace(word, &address.to_string()))
    };
    let [there, here] = std::array::from_fn(|_| address_of_ones_own());
    let behind = folder.write("servers.cfg", written(SERVERS, there)).display().to_string();
    let haproxy = Tool::start("haproxy", &["-db", "-f", &behind]);
    wait_until_listening(&haproxy, servers[0]);
    let old =
        folder.write("old.json", written(SITES, there).replacen('{', "{\"admin\":{\"disabled\":true},", 1));
    let caddy =
        tools::find("caddy").map(|_| Tool::start("caddy", &["run", "--config", &old.display().to_string()]));
    if let Some(caddy) = &caddy {
        wait_until_listening(caddy, there);
    }
    let ours = folder.write("ours.json", written(SITES, here)).display().to_string();
    let ran = tools::handfast(&["import", "caddy", &ours]);
    assert!(!ran.all().contains(": refused: "), "{}", ran.all());
    let config = ran.output.replace("caddy-users-1", &format!("{place}caddy-users-1"));
    let _proxy = Proxy::start(format!("{config}\n[admin]\nlisten = \"127.0.0.1:0\"\n"));
    for request in REQUESTS {
        let (_, name, path, flags, status, contents) = request;
        let now = compared(here, request);
        let is_good = |answer: &str| {
            answer.starts_with(status) && contents.split(" | ").all(|part| answer.contains(part))
        };
        assert!(
            is_good(&now),
            "{name}{path} {flags:?}: expected {status} {contents}, but\n{now}\n{}",
            ran.all()
        );
        if caddy.is_some() {
            let before = compared(there, request);
            assert_eq!(before, now, "{name}{path} {flags:?}: Caddy, then ours\n{}", ran.all());
        }
    }
}
