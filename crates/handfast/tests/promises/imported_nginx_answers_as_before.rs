//! The same servers, run by nginx and, imported, by ours: requests have the same status, the same fields of backends and routes, and, where
//! a backend or a written text answers, the same content.

use super::proxies_understand_each_others_headers::nginx;
use super::support::certificates::{KeyKind, authority};
use super::support::folder::Folder;
use super::support::proxy::Proxy;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools;

/// Configuration to import. `@LISTEN@`, `@PLAIN@`, `@ONE@`, `@TWO@`, `@TLS@` are addresses.
const SERVERS: &str = "\
ssl_certificate web.pem;
ssl_certificate_key web.pem;
upstream two { server @TWO@; }
server { listen @LISTEN@ ssl http2 default_server; server_name _; return 404; }
server {
    listen @LISTEN@ ssl http2;
    server_name a.test;
    client_max_body_size 1k;
    add_header X-Site a always;
    location / {
        proxy_pass http://@ONE@;
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Client \"$remote_addr {$scheme}\";
    }
    location /two/ { proxy_pass http://two/v2/; }
    location /two/deep/ { proxy_pass http://two; }
    location = /health { default_type text/plain; return 200 \"good\\n\"; }
    location ^~ /private/ { return 403; }
    location /old { return 301 https://$host/new$request_uri; }
    location /tls/ { proxy_pass https://@TLS@/; client_max_body_size 1k; }
}
server {
    listen @LISTEN@ ssl http2;
    server_name *.w.test b.test;
    client_max_body_size 1k;
    location / { proxy_pass http://two; proxy_set_header Host $http_host; }
}
server { listen @PLAIN@; server_name a.test; return 302 https://$host$request_uri; }
";

/// Servers behind both, which say what they received.
const BACKENDS: &str = "\
server {
    listen @ONE@;
    add_header X-Backend one;
    location /fail { return 502 \"bad\\n\"; }
    location / {
        return 200 \"one $http_host $request_uri $http_x_real_ip $http_x_forwarded_for $http_x_forwarded_proto $http_x_client\\n\";
    }
}
server { listen @TWO@; location / { return 200 \"two $request_uri\\n\"; } }
server { listen @TLS@ ssl; ssl_certificate web.pem; ssl_certificate_key web.pem; location / { return 200 \"tls $http_host $request_uri\\n\"; } }
";

/// Name, path, more arguments of curl, and the status that both must have.
const REQUESTS: [(&str, &str, &[&str], &str); 17] = [
    ("a.test", "/", &[], "200"),
    ("a.test", "/x?y=1", &["--http1.1"], "200"),
    ("a.test", "/two/a/b?c=d", &[], "200"),
    ("a.test", "/two", &[], "301"),
    ("a.test", "/two/deep/x", &[], "200"),
    ("a.test", "/twofold", &[], "200"),
    ("a.test", "/health", &[], "200"),
    ("a.test", "/private/x", &[], "403"),
    ("a.test", "/old?x=1", &[], "301"),
    ("a.test", "/old/y", &["--http1.1"], "301"),
    ("a.test", "/tls/t?u", &[], "200"),
    ("a.test", "/fail", &[], "502"),
    ("a.test", "/", &["-F", "a=@old.conf"], "413"),
    ("b.test", "/b", &[], "200"),
    ("c.w.test", "/c", &[], "200"),
    ("other.test", "/", &[], "404"),
    ("a.test", "/plain?q", &["plain"], "302"),
];

/// The parts of a response that must be the same. Pages for errors and redirects are each program's own.
fn answer(listen: &str, plain: &str, (name, path, flags): (&str, &str, &[&str]), folder: &Folder) -> String {
    let is_plain = flags == ["plain"];
    let (scheme, address) = if is_plain { ("http", plain) } else { ("https", listen) };
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    let (url, resolve) = (format!("{scheme}://{name}:{port}{path}"), format!("{name}:{port}:{host}"));
    let old = format!("a=@{}", folder.file("old.conf").display());
    let flags = flags.iter().map(|flag| if *flag == "a=@old.conf" { old.as_str() } else { flag });
    let flags: Vec<&str> = flags.filter(|flag| *flag != "plain").collect();
    let common = ["-sk", "-i", "--max-time", "20", "-H", "Expect:", "--resolve", &resolve, &url];
    let ran = tools::run("curl", &[&common[..], &flags].concat(), b"");
    let text = ran.output.replace('\r', "").replace(&format!(":{port}"), "");
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or("none");
    let is_kept = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("x-")
            || line.starts_with("location:")
            || status == "200" && line.starts_with("content-type:")
    };
    let mut fields: Vec<_> =
        head.lines().filter(is_kept).map(|line| line.replace("https://a.test/two/", "/two/")).collect();
    fields.sort_unstable();
    let body = if ["200", "502"].contains(&status) { body } else { "" };
    format!("{status}\n{}\n{body}", fields.join("\n"))
}

#[test]
fn requests_are_answered_as_before() {
    needs!("nginx", "curl");
    let folder = Folder::new();
    folder.write("web.pem", authority().identity(&["a.test", "b.test", "*.w.test"], KeyKind::Rsa).combined());
    let [one, two, tls, there, there_plain, here, here_plain] =
        std::array::from_fn(|_| address_of_ones_own());
    let written = |text: &str, listen: &dyn ToString, plain: &dyn ToString| {
        let backends = [("@ONE@", one), ("@TWO@", two), ("@TLS@", tls)];
        let text = text.replace("@LISTEN@", &listen.to_string()).replace("@PLAIN@", &plain.to_string());
        backends.iter().fold(text, |text, (word, address)| text.replace(word, &address.to_string()))
    };
    folder.write("old.conf", written(SERVERS, &there, &there_plain));
    folder.write("backends.conf", written(BACKENDS, &there, &there_plain));
    let place = folder.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
        .concat();
    let config = format!(
        "events {{ }}\nhttp {{\n{temporary}access_log off;\ninclude old.conf;\ninclude backends.conf;\n}}\n"
    );
    let _nginx = nginx(&folder, there, &config);
    let ours = folder.write("ours.conf", format!("http {{\n{}}}\n", written(SERVERS, &here, &here_plain)));
    let ran = tools::handfast(&["import", "nginx", &ours.display().to_string()]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let _proxy = Proxy::start(format!("{}\n[admin]\nlisten = \"127.0.0.1:0\"\n", ran.output));
    for (name, path, flags, status) in REQUESTS {
        let ask = |listen: &dyn ToString, plain: &dyn ToString| {
            answer(&listen.to_string(), &plain.to_string(), (name, path, flags), &folder)
        };
        let (before, now) = (ask(&there, &there_plain), ask(&here, &here_plain));
        assert!(before.starts_with(status), "nginx: {name}{path}: expected {status}, but\n{before}");
        assert_eq!(before, now, "{name}{path} {flags:?}: nginx, then ours\n{}", ran.output);
    }
}
