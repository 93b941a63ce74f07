//! Incidents are on the status page, in `top` and by a command, with its cause: backends that hang or fail, clients that do not trust a
//! certificate, certificates of today, changes that did not take effect. Requests that change something need the token.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use super::support::backend::Peer;
use super::support::certificates::Authority;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Answers every request with this status; 0: never.
fn backend(status: u16) -> Backend {
    Backend::start(move |peer: &mut Peer| {
        while peer.head().is_some() {
            if status > 0 {
                peer.send(format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n").as_bytes());
            }
        }
    })
}

/// A service for HTTP in plain text with a route `api`.
fn config(backend: &Backend) -> Config {
    let config = Config::empty().service("web", backend.address).text("service", "mode", "http");
    config.set("service", "client-tls", false)
}

fn with_route(config: &Config) -> String {
    format!("{config}[[service.route]]\nname = \"api\"\npath = \"/api\"\n")
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n")
}

fn page(proxy: &Proxy) -> String {
    http::get(proxy.admin(), "/", "text/html").body
}

fn handfast(proxy: &Proxy, words: &[&str]) -> tools::Ran {
    tools::handfast(&[words, &[&proxy.admin().to_string()]].concat())
}

#[test]
fn requests_that_hang_are_listed_with_what_they_wait_for() {
    let backend = backend(0);
    let proxy = Proxy::start(with_route(&config(&backend)));
    let clients: Vec<_> = (0..3)
        .map(|number| {
            let mut client = dial(proxy.address()).expect("it listens");
            client.write_all(request(&format!("/api/{number}?token=secret")).as_bytes()).expect("it reads");
            client
        })
        .collect();
    let open = wait_until("the requests to be open", || {
        let open = proxy.status()["open"].clone();
        let waits =
            open["requests"].as_array()?.iter().filter(|request| request["part"] == "response").count();
        (waits == 3).then_some(open)
    });
    let requests = open["requests"].as_array().expect("a list");
    assert!(
        requests.is_sorted_by_key(|request| -request["seconds"].as_f64().unwrap_or(0.0)),
        "the oldest comes first: {open}"
    );
    let first = requests.iter().find(|request| request["path"] == "/api/0").expect("without its query");
    assert_eq!(
        (&first["method"], &first["host"], &first["path"], &first["route"], &first["service"]),
        (&"GET".into(), &"shop.example".into(), &"/api/0".into(), &"api".into(), &"web".into()),
        "{open}"
    );
    assert_eq!(
        (&first["backend"], &first["client"]),
        (&backend.address.to_string().into(), &"127.0.0.1".into())
    );
    let client = &open["clients"][0];
    assert_eq!((&client["connections"], &client["requests_open"]), (&3.into(), &3.into()), "{client}");
    assert_eq!((&open["requests_in_all"], &open["clients_in_all"]), (&3.into(), &1.into()));
    for (place, text) in [
        ("page", page(&proxy)),
        ("open", handfast(&proxy, &["open"]).output),
        ("top", handfast(&proxy, &["top", "--once"]).output),
    ] {
        for word in ["/api/0", "response", "127.0.0.1", &backend.address.to_string()] {
            assert!(text.contains(word), "{place} has no {word}:\n{text}");
        }
        assert!(!text.contains("secret"), "{place}");
    }
    drop(clients);
    wait_until("the requests to end", || {
        let open = proxy.status()["open"].clone();
        (open["requests_in_all"] == 0 && open["clients"] == Value::Array(Vec::new())).then_some(())
    });
}

/// Bytes move on the list while a response is under way.
#[test]
fn bytes_of_an_open_request_are_listed_as_they_move() {
    use std::io::{Read, Write};
    let backend = Backend::start(|peer: &mut Peer| {
        if peer.head().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
            peer.send(&[b'x'; 100_000]);
            peer.read_to_end();
        }
    });
    let proxy = Proxy::start(config(&backend));
    let mut client = dial(proxy.address()).expect("it listens");
    client.write_all(request("/").as_bytes()).expect("it reads");
    let mut part = vec![0; 100_000];
    client.read_exact(&mut part).expect("half of the response");
    let to_client = || proxy.status()["open"]["requests"][0]["bytes_to_client"].as_u64();
    wait_until("the bytes to be listed", || to_client().filter(|bytes| *bytes == 100_000));
}

/// A connection whose bytes are relayed has no requests, and its client is listed all the same.
#[test]
fn clients_are_listed_with_their_bytes_and_the_largest_comes_first() {
    let stage = Stage::echo();
    let mut client = stage.any_client();
    client.echo(&[b'x'; 5_000]);
    let listed = || {
        let open = stage.proxy.status()["open"].clone();
        let first = open["clients"][0].clone();
        let bytes = ["bytes_to_backend", "bytes_to_client"].map(|field| first[field].as_u64());
        (bytes == [Some(5_000); 2]).then_some((first, open))
    };
    let (first, open) = wait_until("its bytes to be listed", listed);
    assert_eq!(
        (&first["client"], &first["connections"], &first["requests"], &open["clients_in_all"]),
        (&"127.0.0.1".into(), &1.into(), &0.into(), &1.into()),
        "{open}"
    );
    let text = handfast(&stage.proxy, &["open"]).output;
    assert!(text.contains("4.88 KiB"), "{text}");
    client.finish();
    wait_until("the list to be empty", || {
        (stage.proxy.status()["open"]["clients_in_all"] == 0).then_some(())
    });
    stage.is_quiet();
}

#[test]
fn server_errors_are_seen_by_route_and_cause() {
    let failing = backend(500);
    let dead = Backend::refusing();
    let routes = format!(
        "{}[[service.route]]\nname = \"dead\"\npath = \"/dead\"\nbackend = \"{dead}\"\n",
        with_route(&config(&failing))
    );
    let proxy = Proxy::start(routes);
    for path in ["/api/a?token=secret", "/api/b?token=secret", "/dead?token=secret"] {
        let answer = http::exchange(
            proxy.address(),
            &request(path).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
        );
        assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    }
    let status = proxy.status();
    let routes =
        status["recent"]["services"]["web"]["requests"]["routes"].as_array().expect("a list").clone();
    let seen = |route: &str| {
        let end = routes
            .iter()
            .find(|end| end["route"] == route)
            .unwrap_or_else(|| panic!("{route} in {routes:?}"));
        (end["count"].clone(), end["status"].clone(), end["failure"][2].clone())
    };
    assert_eq!(seen("api"), (2.into(), "5xx".into(), Value::Null));
    assert_eq!(seen("dead"), (1.into(), "5xx".into(), "refused".into()));
    let failures = status["request_failures"].as_array().expect("a list");
    let of_route = |route: &str| failures.iter().filter(|failure| failure["route"] == route).count();
    assert_eq!((of_route("api"), of_route("dead")), (2, 1), "{failures:?}");
    assert_eq!(
        (&failures[0]["path"], &failures[0]["status"]),
        (&"/dead".into(), &502.into()),
        "the newest first"
    );
    for (place, text) in [("page", page(&proxy)), ("top", handfast(&proxy, &["top", "--once"]).output)] {
        for word in ["dead", "/api/a", "the backend answered with status 500", "onnection refused"] {
            assert!(text.to_lowercase().contains(word), "{place} has no {word}:\n{text}");
        }
        assert!(!text.contains("secret"), "{place}");
    }
    assert!(!status.to_string().contains("secret"));
}

#[test]
fn clients_that_do_not_trust_the_certificate_are_named() {
    let stage = Stage::echo();
    let distrustful = Trust::version(Version::Tls13).trusting(&Authority::new("Others")).config();
    for _ in 0..6 {
        assert!(Client::try_connect(stage.proxy.address(), &distrustful, "localhost").is_err());
        stage.any_client().finish();
    }
    stage.counts("client", "alert", 6);
    let attention = stage.proxy.status()["attention"].to_string();
    assert!(attention.contains("6 of 12 handshakes (50 %) of web failed at a certificate"), "{attention}");
    assert!(
        attention.contains("alert unknown_ca (48)") && attention.contains("\"urgency\":\"bad\""),
        "{attention}"
    );
    stage.serves_and_is_quiet();
}

#[test]
fn a_certificate_with_hours_left_is_a_warning_at_check_and_reload() {
    let folder = Folder::new();
    let (now, hour) = (std::time::SystemTime::now(), Duration::from_secs(3_600));
    let made = |before: u32, after: u32| {
        authority()
            .identity_valid(&["localhost"], now - hour * before, now + hour * after + hour / 2)
            .combined()
    };
    let file = folder.write("web.pem", made(24 * 90, 5));
    let text = Config::empty().service("web", "127.0.0.1:1").certificate(&file).to_string();
    let config = folder.write("handfast.toml", &text);
    let config = config.display().to_string();
    let check = |more: &[&str]| tools::handfast(&[&["check", "-c", &config], more].concat());
    let lax = check(&[]);
    assert_eq!(
        (lax.code, lax.output.trim()),
        (Some(0), format!("{config}: good, 1 warning").as_str()),
        "{}",
        lax.all()
    );
    assert!(lax.all().contains("the certificate for localhost expires in 5 hours, on "), "{}", lax.all());
    let strict = check(&["--strict"]);
    assert_eq!((strict.code, strict.output.trim()), (Some(2), ""), "{}", strict.all());
    assert!(strict.all().contains("1 warning, and none is allowed (--strict)"), "{}", strict.all());
    assert_eq!(check(&["--strict", "--explain"]).code, Some(2));
    // One that lives for a day has hours left for all its life.
    folder.write("web.pem", made(1, 23));
    let good = check(&["--strict"]);
    assert_eq!(
        (good.code, good.output.trim()),
        (Some(0), format!("{config}: good").as_str()),
        "{}",
        good.all()
    );
    let proxy = Proxy::start(&text);
    folder.write("web.pem", made(24 * 90, 5));
    assert!(proxy.reload());
    proxy.talk.find(0, "the warning of the reload", |line| line.contains("expires in 5 hours").then_some(()));
}

#[test]
fn a_reload_in_part_fails_and_says_what_did_not_take_effect() {
    let backend = backend(200);
    let proxy = Proxy::start(config(&backend));
    let reload = || handfast(&proxy, &["reload"]);
    assert_eq!(reload().code, Some(0));
    proxy.rewrite(config(&backend).set("process", "threads", 3).set("service", "max-connections", 77));
    let ran = reload();
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    for word in ["reloaded in part", "process.threads has changed, which takes effect only at a restart"] {
        assert!(ran.all().contains(word), "{word}: {}", ran.all());
    }
    let status = proxy.status();
    let web = &status["services"][0];
    assert_eq!(web["connections_limit"], 77, "the rest took effect");
    assert!(page(&proxy).contains("took effect only in part"), "the page");
    assert_eq!(proxy.reloads(), (1.0, 1.0));
    // It is still not in effect, however often the same file is read.
    assert_eq!(reload().code, Some(1));
    proxy.rewrite(config(&backend));
    assert_eq!(reload().code, Some(0));
    assert!(!page(&proxy).contains("took effect only in part"), "the page");
}

#[test]
fn what_changes_something_needs_the_token() {
    let folder = Folder::new();
    let token = folder.write("admin.token", format!("{TOKEN}\n"));
    let mode = |mode: u32| {
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    mode(0o600);
    let backend = backend(200);
    let text = config(&backend).text("admin", "token-file", token.display());
    let proxy = Proxy::start(&text);
    let file = token.display().to_string();
    let refused = handfast(&proxy, &["reload"]);
    assert_eq!(refused.code, Some(1), "{}", refused.all());
    assert!(refused.all().contains("admin.token-file"), "{}", refused.all());
    let reloaded = handfast(&proxy, &["reload", "--token-file", &file]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.all());
    assert_eq!(http::get(proxy.admin(), "/status.json", "*/*").status, 200, "the status needs none");
    // Another token takes effect by itself, like a certificate.
    folder.replace("admin.token", "another-token-of-enough-characters\n");
    wait_until("the other token to be needed", || {
        (handfast(&proxy, &["reload", "--token-file", &file]).code == Some(0)).then_some(())
    });
    assert_eq!(http::post(proxy.admin(), "/reload", "").status, 401);
    let config = folder.write("handfast.toml", text.to_string()).display().to_string();
    mode(0o644);
    let check = || tools::handfast(&["check", "-c", &config]).all();
    assert!(check().contains("all users of this machine can read it"), "{}", check());
    mode(0o600);
    for wrong in ["", "short\n"] {
        folder.write("admin.token", wrong);
        let output = check();
        assert!(output.contains("expected one line of at least 16 printable characters"), "{output}");
        assert!(!output.contains("short"), "{output}");
    }
}

/// While a proxy is stopped, any user of the machine can listen on its port. A command that meets such a program must not give it the token.
#[test]
fn a_program_that_took_the_admin_address_does_not_get_the_token() {
    let folder = Folder::new();
    let file = folder.write("admin.token", format!("{TOKEN}\n")).display().to_string();
    for challenge in [
        "Bearer",
        "Basic realm=\"handfast\"",
        "Digest realm=\"handfast\", nonce=\"a\", algorithm=MD5, qop=\"auth\"",
        "Digest realm=\"handfast\", nonce=\"a\", algorithm=SHA-256, qop=\"auth\"",
    ] {
        let (sender, heads) = std::sync::mpsc::sync_channel(8);
        let impostor = Backend::start(move |peer: &mut Peer| {
            if let Some(head) = peer.head() {
                sender.send(head).expect("the test waits");
                peer.send(
                    format!("HTTP/1.1 401 x\r\nWWW-Authenticate: {challenge}\r\nContent-Length: 0\r\n\r\n")
                        .as_bytes(),
                );
            }
        });
        let address = impostor.address.to_string();
        let refused = tools::handfast(&["reload", &address, "--token-file", &file]);
        assert_eq!(refused.code, Some(1), "{}", refused.all());
        let received: String = heads.try_iter().collect();
        assert!(received.starts_with("POST /reload HTTP/1.1\r\n") && !received.contains(TOKEN), "{received}");
        let is_proved = received.contains("Authorization: Digest ");
        assert_eq!(is_proved, challenge.contains("SHA-256"), "{challenge}: {received}");
    }
}

mod seconds {
    use std::io::{Read, Write};

    use super::*;

    /// Time between two bytes of an upload, and their number: all of them take longer than the ten seconds of `min-rate`.
    const PACE: Duration = Duration::from_millis(400);
    const BYTES: usize = 30;

    fn upload(address: std::net::SocketAddr, path: &str) -> std::net::TcpStream {
        let mut client = dial(address).expect("it listens");
        let head = format!(
            "POST {path}?token=secret HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {BYTES}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).expect("it reads");
        client
    }

    fn answer(mut client: std::net::TcpStream) -> String {
        let mut head = [0; 12];
        client.read_exact(&mut head).expect("an answer");
        String::from_utf8_lossy(&head[9..]).into_owned()
    }

    /// Ten seconds, since that is the time over which `min-rate` is measured.
    #[test]
    fn slow_uploads_are_listed_and_then_named_as_the_cause() {
        let backend = Backend::start(|peer: &mut Peer| {
            if peer.head().is_some() && peer.read_exactly(BYTES).len() == BYTES {
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        });
        let patient =
            config(&backend).service("patient", backend.address).set("service", "client-tls", false);
        let patient = patient.text("service", "mode", "http").set("service.http", "min-rate", 0);
        let proxy = Proxy::start(patient);
        let slow: Vec<_> =
            (0..12).map(|number| upload(proxy.address_of("web"), &format!("/upload/{number}"))).collect();
        let tolerated = upload(proxy.address_of("patient"), "/tolerated");
        for byte in 0..BYTES {
            slow.iter().chain([&tolerated]).for_each(|mut client| _ = client.write_all(b"x"));
            if byte == 5 {
                sees_open_uploads(&proxy, &backend);
            }
            pause(PACE);
        }
        assert_eq!(answer(tolerated), "200", "min-rate = 0");
        for client in slow {
            assert_eq!(answer(client), "408");
        }
        let lines = wait_until("the lines of all uploads", || {
            let lines = proxy.records().into_iter().filter(|line| line.text("path").starts_with("/upload/"));
            Some(lines.collect::<Vec<_>>()).filter(|lines| lines.len() == 12)
        });
        for line in lines {
            assert_eq!(line.reason(), "relay/client/request-timeout", "{line:?}");
            let detail = line.value("reason")["detail"].as_str().unwrap_or_default().to_owned();
            assert!(detail.contains("slower than `min-rate`, 240 bytes a second"), "{line:?}");
            let sent = line.number("bytes_from_client");
            assert!(sent > 0 && sent < BYTES as u64, "{line:?}");
        }
        let status = proxy.status();
        let attention = status["attention"].to_string();
        let places = [
            ("status", attention),
            ("page", page(&proxy)),
            ("top", handfast(&proxy, &["top", "--once"]).output),
        ];
        for (place, text) in places {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for words in ["12 of 12 requests of web ended", "their client was too slow", "a lower min-rate"] {
                assert!(text.contains(words), "{place} has no {words}:\n{text}");
            }
            assert!(!text.contains("secret"), "{place}");
        }
        let failures = status["request_failures"].as_array().expect("a list");
        assert!(failures.iter().all(|failure| failure["status"] == 408), "{failures:?}");
        let ended = proxy.metrics().sum(
            "handfast_requests_failed_total",
            &[("service", "web"), ("side", "client"), ("cause", "request-timeout")],
        );
        assert!((ended - 12.0).abs() < 0.5, "{ended} were counted");
    }

    /// While they are open: by path and client, with the few bytes that came.
    fn sees_open_uploads(proxy: &Proxy, backend: &Backend) {
        let open = proxy.status()["open"].clone();
        let requests = open["requests"].as_array().expect("a list");
        assert_eq!(requests.len(), 13, "{open}");
        for request in requests {
            let bytes = request["bytes_from_client"].as_u64().expect("a number");
            assert!((1..=10).contains(&bytes) && request["method"] == "POST", "{request}");
        }
        let address = backend.address.to_string();
        for (place, text) in [
            ("page", page(proxy)),
            ("open", handfast(proxy, &["open"]).output),
            ("top", handfast(proxy, &["top", "--once"]).output),
        ] {
            for word in ["/upload/", "127.0.0.1", &address] {
                assert!(text.contains(word), "{place} has no {word}:\n{text}");
            }
            assert!(!text.contains("secret"), "{place}");
        }
    }
}
