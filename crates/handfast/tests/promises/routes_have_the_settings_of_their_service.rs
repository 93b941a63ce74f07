//! HTTP mode: what `[service.http]` says holds for requests of each route and for those without one. A route replaces a field by its name, and
//! removes `basic-auth` and `forward-auth` by `false`. Conditions of service and route both apply, and a limit of the service counts the
//! requests of all routes together, over a reload too.

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// Permission comes back once in twelve minutes: not during this test.
const LIMITED: &str = r#"
[service.http]
rate-limit = { requests = 5, per = "1h", by = "route" }
[[service.route]]
path = "/a"
rate-limit = { requests = 2, per = "1h", by = "route" }
[[service.route]]
path = "/b"
"#;

const GUARDED: &str = r#"
[service.http]
allow-clients = ["127.0.0.1"]
set-response-headers = ["x-from: service", "x-other: both"]
basic-auth = { file = "FOLDER/users" }
[[service.route]]
path = "/open"
basic-auth = false
set-response-headers = "X-From: route"
[[service.route]]
path = "/none"
basic-auth = false
allow-clients = "192.0.2.0/24"
[[service.route]]
path = "/asked"
basic-auth = false
forward-auth = { to = "SERVER", path = "/auth" }
[[service.route]]
path = "/closed"
"#;

/// Answers each request.
fn answering(peer: &mut Peer) {
    while peer.head().is_some() {
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-From: backend\r\n\r\nok");
    }
}

/// Refuses each request that it is asked about.
fn refusing(peer: &mut Peer) {
    while peer.head().is_some() {
        peer.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    }
}

struct Stage {
    _backends: [Backend; 2],
    folder: Folder,
    config: String,
    proxy: Proxy,
}

fn stage(routes: &str) -> Stage {
    let (folder, backend, server) = (Folder::new(), Backend::start(answering), Backend::start(refusing));
    // `htpasswd -nbB -C 4 alice wonderland`
    folder.write("users", "alice:$2y$04$.QqgIUhog8c.srso2zmNGOjywx7AvnfefKghJnaD7BxJB7nDUMDvy\n");
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let place = folder.path().display().to_string();
    let routes = routes.replace("FOLDER", &place).replace("SERVER", &server.address.to_string());
    let config = format!("{config}{routes}");
    let proxy = Proxy::start(&config);
    Stage { _backends: [backend, server], folder, config, proxy }
}

impl Stage {
    /// The status of a request, and the value of `X-From` and `X-Other`.
    fn request(&self, version: &str, path: &str, more: &[&str]) -> String {
        let ca = self.folder.write("ca.pem", &authority().pem).display().to_string();
        let address = self.proxy.address();
        let url = format!("https://localhost:{}{path}", address.port());
        let to = format!("localhost:{}:{}", address.port(), address.ip());
        let form = "%{http_code} %header{x-from} %header{x-other}";
        let words = ["-sS", "-o", "/dev/null", "-w", form, version, "--cacert", &ca, "--resolve", &to];
        let ran = tools::run("curl", &[&words, more, &[&url]].concat(), b"");
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        ran.output.trim().to_owned()
    }
}

#[test]
fn guards_and_fields() {
    needs!("curl");
    let stage = stage(GUARDED);
    for version in ["--http1.1", "--http2"] {
        for (path, expected) in [
            ("/", "401 service both"),
            ("/closed", "401 service both"),
            ("/open", "200 route both"),
            ("/none", "403 service both"),
            ("/asked", "403 service both"),
        ] {
            assert_eq!(stage.request(version, path, &[]), expected, "{version} {path}");
        }
        // A backend may read these as paths behind the password of the service.
        for path in ["/open/../secret", "/open/..%2fsecret", "/%6fpen", "/open/%2e%2e/closed"] {
            let answer = stage.request(version, path, &["--path-as-is"]);
            assert!(answer.starts_with("400 ") || answer.starts_with("401 "), "{version} {path}: {answer}");
        }
        for (path, user, expected) in [
            ("/closed", "alice:wrong", "401 service both"),
            ("/closed", "alice:wonderland", "200 service both"),
            ("/", "alice:wonderland", "200 service both"),
        ] {
            assert_eq!(stage.request(version, path, &["-u", user]), expected, "{version} {path} {user}");
        }
    }
    // The service's own condition is that of every route.
    stage
        .proxy
        .rewrite(stage.config.replace("allow-clients = [\"127.0.0.1\"]", "refuse-clients = \"127.0.0.1\""));
    assert!(stage.proxy.reload());
    for (path, expected) in
        [("/", "403 service both"), ("/open", "403 route both"), ("/closed", "403 service both")]
    {
        assert_eq!(stage.request("--http2", path, &["-u", "alice:wonderland"]), expected, "{path}");
    }
}

#[test]
fn a_server_that_is_asked() {
    needs!("curl");
    let routes = "[service.http]\nforward-auth = { to = \"SERVER\", path = \"/auth\" }\n[[service.route]]\npath = \"/open\"\n\
                  forward-auth = false\n[[service.route]]\npath = \"/a\"\n";
    let stage = stage(routes);
    for (path, expected) in [("/", "403"), ("/a", "403"), ("/open", "200 backend")] {
        assert_eq!(stage.request("--http2", path, &[]), expected, "{path}");
    }
}

#[test]
fn a_limit_counts_all_routes_together() {
    needs!("curl");
    let stage = stage(LIMITED);
    let status = |path: &str| stage.request("--http1.1", path, &[]);
    let of = |paths: &[&str]| paths.iter().map(|path| status(path)).collect::<Vec<_>>().join(" ");
    // Each request counts for the service once, and two of them for the route.
    assert_eq!(of(&["/a", "/a", "/a"]), "200 backend 200 backend 429");
    stage.proxy.rewrite(stage.config.replace("requests = 5,", "requests = 5, burst = 5,"));
    assert!(stage.proxy.reload());
    assert_eq!(of(&["/b", "/", "/b"]), "200 backend 200 backend 429");
}
