//! HTTP mode: a route with conditions is for the clients that meet them, whatever version they speak and however they write the path: by address, by
//! certificate, by password. Files of passwords are read again, and what can be guessed quickly is refused with its line.

use super::support::backend::Peer;
use super::support::certificates::KeyKind;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// Answers each request with its head as the content.
fn mirror(peer: &mut Peer) {
    while let Some(head) = peer.head() {
        let length = head.len();
        peer.send(
            &[format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), head.as_bytes()]
                .concat(),
        );
    }
}

/// Output of curl for a response: its head, and its content.
fn curl(proxy: &Proxy, folder: &Folder, path: &str, more: &[&str]) -> String {
    let address = proxy.address();
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let url = format!("https://localhost:{}{path}", address.port());
    let to = format!("localhost:{}:{}", address.port(), address.ip());
    let words = ["-sS", "-i", "--path-as-is", "--cacert", &ca, "--resolve", &to, &url];
    let ran = tools::run("curl", &[&words, more].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    ran.output.to_lowercase()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// The file that `htpasswd -B` makes of a user.
fn htpasswd(name: &str, password: &str) -> String {
    let ran = tools::run("htpasswd", &["-nbB", "-C", "5", name, password], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    format!("{}\n", ran.output.trim())
}

fn config(folder: &Folder, backend: &Backend, routes: &str) -> String {
    let config = Config::to(folder, backend.address).text("service", "mode", "http");
    format!("{config}{routes}")
}

#[test]
fn by_address() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    let routes = r#"
[[service.route]]
path = "/ours"
allow-clients = ["10.0.0.0/8"]

[[service.route]]
path = "/theirs"
refuse-clients = "127.0.0.0/8"

[[service.route]]
path = "/mine"
allow-clients = "127.0.0.1"
"#;
    let proxy = Proxy::start(config(&folder, &backend, routes));
    for version in ["--http1.1", "--http2"] {
        for (path, expected) in [("/ours", "403"), ("/theirs/x", "403"), ("/mine", "200"), ("/", "200")] {
            assert_eq!(status(&curl(&proxy, &folder, path, &[version])), expected, "{version} {path}");
        }
        // However it is written: a backend would read these as /ours.
        for path in ["/%6furs", "/x/../ours", "//ours", "/mine/..%2fours", "/ours;x", "/./ours/"] {
            let answer = curl(&proxy, &folder, path, &[version]);
            assert!(matches!(status(&answer), "400" | "403"), "{version} {path}: {answer}");
        }
        for path in ["/%6fur", "/x/../other", "//other"] {
            assert_eq!(status(&curl(&proxy, &folder, path, &[version])), "200", "{version} {path}");
        }
    }
    let record = proxy.record("a refused client", |record| record.text("path") == "/ours");
    assert_eq!(record.reason(), "route/operator/forbidden");
    assert_eq!(record.detail(), "allow-clients does not have 127.0.0.1");
    let record = proxy.record("a path with two meanings", |record| record.text("path") == "/%6furs");
    assert_eq!((record.reason().as_str(), record.number("status")), ("route/client/ambiguous-path", 400));
}

/// The client that a trusted proxy names counts, and no other.
#[test]
fn by_the_address_that_a_proxy_in_front_reports() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    for (trusted, field, expected) in [
        ("127.0.0.1", "X-Forwarded-For: 192.0.2.9", "200"),
        ("127.0.0.1", "X-Forwarded-For: 192.0.2.9, 127.0.0.1", "200"),
        ("127.0.0.1", "X-Forwarded-For: 192.0.2.9, 198.51.100.1", "403"),
        ("127.0.0.1", "X-Forwarded-For: nonsense", "403"),
        ("10.0.0.1", "X-Forwarded-For: 192.0.2.9", "403"),
    ] {
        let routes = format!(
            "[service.http]\ntrust-forwarded-from = \"{trusted}\"\n[[service.route]]\nallow-clients = \"192.0.2.0/24\"\n"
        );
        let proxy = Proxy::start(config(&folder, &backend, &routes));
        assert_eq!(status(&curl(&proxy, &folder, "/", &["-H", field])), expected, "{trusted} {field}");
    }
}

#[test]
fn by_certificate() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    let ca = folder.write("clients.pem", &authority().pem).display().to_string();
    let alice = authority().identity(&["alice.clients.example"], KeyKind::Ecdsa);
    let mallory = authority().identity(&["mallory.example"], KeyKind::Ecdsa);
    let files = [("alice", &alice), ("mallory", &mallory)].map(|(name, identity)| {
        folder.write(&format!("{name}.pem"), identity.combined()).display().to_string()
    });
    let routes = format!(
        "[service.client-certificates]\nmode = \"request\"\nca = \"{ca}\"\n[[service.route]]\npath = \"/inside\"\n\
         allow-certificates = [\"dns:*.clients.example\", \"spiffe://example.org/web/*\"]\n"
    );
    let proxy = Proxy::start(config(&folder, &backend, &routes));
    for version in ["--http1.1", "--http2"] {
        for (file, path, expected) in [
            (Some(&files[0]), "/inside", "200"),
            (Some(&files[1]), "/inside", "403"),
            (None, "/inside", "403"),
            (Some(&files[1]), "/", "200"),
            (None, "/", "200"),
        ] {
            let certificate: Vec<&str> = file.iter().flat_map(|file| ["--cert", file.as_str()]).collect();
            let answer = curl(&proxy, &folder, path, &[&certificate[..], &[version]].concat());
            assert_eq!(status(&answer), expected, "{version} {file:?} {path}");
        }
    }
    let record = proxy.record("one without", |record| record.detail() == "the client has no certificate");
    assert_eq!(record.reason(), "route/operator/forbidden");
}

/// An application gets the certificate in the forms of RFC 9440, of nginx and of HAProxy, and never what a client sends under these names.
#[test]
fn an_application_gets_the_certificate() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    let ca = folder.write("clients.pem", &authority().pem).display().to_string();
    let alice = authority().identity(&["alice.clients.example"], KeyKind::Ecdsa);
    let file = folder.write("alice.pem", format!("{}{}", alice.combined(), authority().pem));
    let file = file.display().to_string();
    let routes = format!(
        "[service.client-certificates]\nmode = \"request\"\nca = \"{ca}\"\n[service.http]\ntrust-forwarded-from = \"127.0.0.1\"\n\
         [[service.route]]\npath = \"/app\"\nset-request-headers = [\"Client-Cert: {{client-certificate}}\", \
         \"Client-Cert-Chain: {{client-certificate-chain}}\", \"X-SSL-Client-DER: {{client-certificate-der}}\", \
         \"ssl-client-cert: {{client-certificate-pem}}\"]\n"
    );
    let proxy = Proxy::start(config(&folder, &backend, &routes));
    let base64 = |pem: &str| {
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        lines.map(str::trim).collect::<String>().to_lowercase()
    };
    let (own, issuer) = (base64(&alice.certificate_pem), base64(&authority().pem));
    let claims = [
        "-H",
        "Client-Cert: :claimed:",
        "-H",
        "Client-Cert-Chain: :claimed:",
        "-H",
        "x-ssl-client-der: claimed",
    ];
    for version in ["--http1.1", "--http2"] {
        let see = |path: &str, more: &[&str]| {
            curl(&proxy, &folder, path, &[&claims[..], more, &[version]].concat())
        };
        let shown = see("/app", &["--cert", &file]);
        for (name, value) in [
            ("client-cert", &format!(":{own}:")),
            ("client-cert-chain", &format!(":{issuer}:")),
            ("x-ssl-client-der", &own),
        ] {
            assert_eq!(
                shown.matches(&format!("\r\n{name}: {value}\r\n")).count(),
                1,
                "{version} {name}: {shown}"
            );
        }
        let pem = shown.lines().find_map(|line| line.strip_prefix("ssl-client-cert: ")).expect("the PEM");
        let decoded = ["%20", "%0a", "%2b", "%2f", "%3d"].into_iter().zip([" ", "", "+", "/", "="]);
        let pem = decoded.fold(pem.to_owned(), |pem, (code, text)| pem.replace(code, text));
        assert_eq!(pem, format!("-----begin certificate-----{own}-----end certificate-----"), "{version}");
        for (path, certificate) in [("/app", &[][..]), ("/", &[][..]), ("/", &["--cert", &file])] {
            let shown = see(path, certificate);
            assert_eq!(status(&shown), "200");
            for name in ["client-cert", "ssl-client-cert"] {
                assert!(!shown.contains(&format!("\r\n{name}")), "{version} {path} {certificate:?}: {shown}");
            }
        }
    }
}

fn passwords(folder: &Folder) -> String {
    let file = folder.file("users");
    let file = file.display();
    format!(
        "[[service.route]]\npath = \"/pass\"\nbasic-auth = {{ file = \"{file}\", realm = \"The House\" }}\n\
         [[service.route]]\npath = \"/drop\"\nbasic-auth = {{ file = \"{file}\", pass = false }}\n\
         set-request-headers = \"x-user: {{user}}\"\n"
    )
}

#[test]
fn by_password() {
    needs!("curl", "htpasswd");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    folder.write("users", htpasswd("alice", "wonderland"));
    let proxy = Proxy::start(config(&folder, &backend, &passwords(&folder)));
    for version in ["--http1.1", "--http2"] {
        let see = |path: &str, more: &[&str]| curl(&proxy, &folder, path, &[more, &[version]].concat());
        let requested = see("/pass", &[]);
        assert_eq!(status(&requested), "401");
        assert!(
            requested.contains("www-authenticate: basic realm=\"the house\", charset=\"utf-8\"\r\n"),
            "{requested}"
        );
        let wrong = see("/pass", &["-u", "alice:looking-glass"]);
        assert_eq!(status(&wrong), "401");
        assert_eq!(status(&see("/pass", &["-u", "bob:wonderland"])), "401");
        // Twice: verified, and remembered. With content, which waits.
        for _ in 0..2 {
            let right = see("/pass", &["-u", "alice:wonderland", "-d", "content"]);
            assert_eq!(status(&right), "200", "{right}");
            assert!(right.contains("authorization: basic ywxpy2u6d29uzgvybgfuza==\r\n"), "{right}");
            let dropped = see("/drop", &["-u", "alice:wonderland", "-H", "X-User: mallory"]);
            assert!(dropped.contains("x-user: alice\r\n") && !dropped.contains("mallory"), "{dropped}");
            assert!(!dropped.contains("authorization"), "{dropped}");
        }
        assert_eq!(status(&see("/pas", &[])), "200");
    }
    // Two threads write lines: those of the other route may come first.
    let of_alice =
        |line: &str| ["\"user\":\"alice\"", "\"path\":\"/pass\""].iter().all(|part| line.contains(part));
    let (_, line) = proxy.output.find(0, "a line of alice", |line| of_alice(line).then(|| line.to_owned()));
    assert!(line.contains("\"route\":\"route 1\"") && line.contains("\"status\":200"), "{line}");
    let record =
        proxy.record("a wrong password", |record| record.detail().starts_with("the password of `alice`"));
    assert_eq!(
        (record.reason().as_str(), record.detail()),
        ("route/client/unauthenticated", "the password of `alice` is wrong")
    );

    // Another password is in force soon, without a command, and the one that was remembered is not.
    folder.replace("users", htpasswd("alice", "looking-glass"));
    wait_until("the file is read again", || {
        let answer = curl(&proxy, &folder, "/pass", &["-u", "alice:looking-glass"]);
        (status(&answer) == "200").then_some(())
    });
    assert_eq!(status(&curl(&proxy, &folder, "/pass", &["-u", "alice:wonderland"])), "401");
    // One that cannot be used changes nothing, and is named.
    folder.replace("users", "alice:$apr1$tSx2y3uM$6zLpCBZUDyF0dzgNPwT1x.\n");
    proxy.talk.containing("users of its old version are let in");
    assert_eq!(status(&curl(&proxy, &folder, "/pass", &["-u", "alice:looking-glass"])), "200");
}

#[test]
fn hashes_that_are_guessed_quickly_are_refused_by_line() {
    needs!("htpasswd");
    let folder = Folder::new();
    folder.write("users", format!("{}bob:$apr1$x$y\ncarol:secret\n", htpasswd("alice", "x")));
    let to = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let text = format!("{}{}", Config::to(&folder, to).text("service", "mode", "http"), passwords(&folder));
    let file = folder.write("handfast.toml", text).display().to_string();
    let ran = tools::handfast(&["check", "--config", &file]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    for line in [
        "line 2: apr1 is MD5",
        "line 3: this is no hash; a password in plain text",
        "hint: make the line by `handfast hash-password NAME`",
    ] {
        assert!(ran.all().contains(line), "{line}: {}", ran.all());
    }
}

/// Wrong passwords keep the threads for them busy, and no one else waits.
#[test]
fn those_who_guess_delay_no_other_requests() {
    needs!("curl", "h2load", "htpasswd");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    let ran = tools::run("htpasswd", &["-nbB", "-C", "11", "alice", "wonderland"], b"");
    folder.write("users", ran.output);
    let proxy = Proxy::start(config(&folder, &backend, &passwords(&folder)));
    let url = format!("https://localhost:{}/pass", proxy.address().port());
    let header = "authorization: Basic YWxpY2U6d3Jvbmc=";
    let mut guesser =
        tools::Tool::start("h2load", &["-n", "5000", "-c", "10", "-m", "20", "-H", header, &url]);
    let full =
        proxy.record("the queue is full", |record| record.detail() == "the queue of passwords is full");
    assert_eq!(full.reason(), "route/local/authentication-busy");
    for _ in 0..20 {
        let began = std::time::Instant::now();
        assert_eq!(status(&curl(&proxy, &folder, "/", &["--http1.1"])), "200");
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }
    assert!(
        guesser.has_ended()
            || proxy.metrics().sum("handfast_requests_failed_total", &[("cause", "authentication-busy")])
                > 0.0
    );
}

/// Routes have their own limits of content and time.
#[test]
fn each_route_by_its_own_limits() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    let silent = Backend::start(|peer: &mut Peer| peer.read_to_end());
    let routes = format!(
        "[service.http]\nmax-body = \"100B\"\n[[service.route]]\npath = \"/large\"\nmax-body = \"1MiB\"\n\
         [[service.route]]\npath = \"/small\"\nmax-body = \"10B\"\n\
         [[service.route]]\npath = \"/soon\"\nbackend = \"{}\"\nresponse-timeout = \"200ms\"\n",
        silent.address
    );
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let proxy = Proxy::start(format!("{config}{routes}"));
    for version in ["--http1.1", "--http2"] {
        for (path, size, expected) in [
            ("/", 50, " 200"),
            ("/", 200, " 413"),
            ("/large", 5000, " 200"),
            ("/small", 5, " 200"),
            ("/small", 50, " 413"),
        ] {
            for chunked in [&[][..], &["-H", "Transfer-Encoding: chunked"]] {
                if !chunked.is_empty() && version == "--http2" {
                    continue;
                }
                let content = "c".repeat(size);
                let file = folder.write("content", &content).display().to_string();
                let data = format!("@{file}");
                let answer = curl(
                    &proxy,
                    &folder,
                    path,
                    &[&[version][..], chunked, &["--data-binary", &data]].concat(),
                );
                let status = answer.lines().next().unwrap_or_default();
                assert!(status.contains(expected), "{version} {path} {size} {chunked:?}: {answer}");
            }
        }
        let began = std::time::Instant::now();
        let answer = curl(&proxy, &folder, "/soon", &[version]);
        assert!(answer.lines().next().unwrap_or_default().contains(" 504"), "{answer}");
        assert!(began.elapsed().as_secs() < 30, "not after the minute of the service");
    }
}
