//! HTTP mode: with `sticky` the requests of a client go to the backend that it had before, by a cookie or by the value of a field, and to another
//! one only while that is down.

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// Answers each request with this name.
fn named(name: &'static str) -> impl Fn(&mut Peer) + Send + Sync + 'static {
    move |peer| {
        while peer.head().is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).as_bytes());
        }
    }
}

/// Output of curl for a response.
fn curl(proxy: &Proxy, folder: &Folder, more: &[&str]) -> String {
    let address = proxy.address();
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let url = format!("https://localhost:{}/", address.port());
    let to = format!("localhost:{}:{}", address.port(), address.ip());
    let ran = tools::run("curl", &[&["-sSi", "--cacert", &ca, "--resolve", &to, &url], more].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    ran.output
}

/// The backend that answered, and the cookie that it set.
fn seen(answer: &str) -> (String, Option<String>) {
    let cookie = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("set-cookie").then(|| value.trim().to_owned())
    });
    (answer.rsplit("\r\n").next().unwrap_or_default().to_owned(), cookie)
}

fn config(folder: &Folder, backends: &[&Backend], sticky: &str) -> String {
    let list: Vec<String> = backends.iter().map(|backend| format!("\"{}\"", backend.address)).collect();
    let config =
        Config::to(folder, backends[0].address).text("service", "mode", "http").set("process", "threads", 2);
    format!("{config}[[service.route]]\nbackend = [{}]\nsticky = {sticky}\n", list.join(", "))
}

#[test]
fn by_a_cookie() {
    needs!("curl");
    let folder = Folder::new();
    let (one, two) = (Backend::start(named("one")), Backend::start(named("two")));
    let key = folder.write("key", "0123456789abcdef0123456789abcdef\n");
    let sticky = format!("{{ cookie = \"srv\", key-file = \"{}\", same-site = \"strict\" }}", key.display());
    let text = config(&folder, &[&one, &two], &sticky);
    let proxy = Proxy::start(&text);
    let mut cookies = std::collections::HashMap::new();
    wait_until("both have answered", || {
        let (name, cookie) = seen(&curl(&proxy, &folder, &[]));
        cookies.insert(name, cookie.expect("a client without a cookie gets one"));
        (cookies.len() == 2).then_some(())
    });
    for (name, cookie) in &cookies {
        let (pair, attributes) = cookie.split_once("; ").expect("it has attributes");
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict; Secure");
        assert!(!cookie.contains("127.0.0.1"), "{cookie}");
        let sent = format!("Cookie: a=b; {pair}");
        for version in ["--http1.1", "--http2"] {
            for _ in 0..6 {
                assert_eq!(
                    seen(&curl(&proxy, &folder, &[version, "-H", &sent])),
                    (name.clone(), None),
                    "{version}"
                );
            }
        }
    }
    // Another proxy with the same key knows them; one without that backend sets its own.
    let another = Proxy::start(config(&folder, &[&two, &one], &sticky));
    let pair = cookies["two"].split(';').next().expect("a pair").to_owned();
    let sent = format!("Cookie: {pair}");
    for _ in 0..4 {
        assert_eq!(seen(&curl(&another, &folder, &["-H", &sent])), ("two".to_owned(), None));
    }
    let alone = Proxy::start(config(&folder, &[&one], &sticky));
    let (name, cookie) = seen(&curl(&alone, &folder, &["-H", &sent]));
    assert_eq!(name, "one");
    assert_eq!(cookie.as_deref(), Some(cookies["one"].as_str()));
    // A value that this proxy did not make is none.
    let (_, cookie) = seen(&curl(&proxy, &folder, &["-H", "Cookie: srv=AAAAAAAAAAAAAAAAAAAAAA"]));
    assert!(cookie.is_some());
}

/// The other way of being down, a refused connection, is that of every request: the next backend is tried.
#[test]
fn by_a_cookie_except_while_its_backend_is_out() {
    needs!("curl");
    let folder = Folder::new();
    let (one, two) = (Backend::start(named("one")), Backend::start(named("two")));
    let proxy = Proxy::start(config(&folder, &[&one, &two], "{ cookie = \"srv\" }"));
    let of_two = wait_until("the cookie of the second", || {
        let (name, cookie) = seen(&curl(&proxy, &folder, &[]));
        cookie.filter(|_| name == "two")
    });
    let sent = format!("Cookie: {}", of_two.split(';').next().unwrap_or_default());
    let see = || seen(&curl(&proxy, &folder, &["-H", &sent]));
    let set = |state: &str| {
        let path = format!("/backends/web/{}?state={state}", two.address);
        let answer = http::request(proxy.admin(), "POST", &path, "*/*");
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    assert_eq!(see(), ("two".to_owned(), None));
    set("drain");
    let (name, cookie) = see();
    assert_eq!(name, "one");
    assert!(cookie.is_some_and(|cookie| cookie.starts_with("srv=") && cookie != of_two));
    set("up");
    assert_eq!(see(), ("two".to_owned(), None));
}

#[test]
fn by_the_value_of_a_field() {
    needs!("curl");
    let folder = Folder::new();
    let (one, two) = (Backend::start(named("one")), Backend::start(named("two")));
    let sticky = "{ header = \"X-User\" }";
    let proxies = [&[&one, &two], &[&two, &one]].map(|list| Proxy::start(config(&folder, list, sticky)));
    let mut names = std::collections::HashSet::new();
    for user in 0..16 {
        let field = format!("x-user: {user}");
        let of = |proxy: &Proxy| seen(&curl(proxy, &folder, &["-H", &field]));
        let (name, cookie) = of(&proxies[0]);
        assert_eq!(cookie, None);
        for proxy in [&proxies[0], &proxies[1], &proxies[1]] {
            assert_eq!(of(proxy).0, name, "{user}");
        }
        names.insert(name);
    }
    assert_eq!(names.len(), 2, "16 values are spread");
}
