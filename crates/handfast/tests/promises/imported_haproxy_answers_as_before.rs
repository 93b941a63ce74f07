//! The same sections, run by HAProxy and, imported, by ours: requests have the same status, the same fields of backends and rules, and,
//! where a backend or a written text answers, the same content.

use std::net::SocketAddr;

use super::proxies_understand_each_others_headers::wait_until_listening;
use super::support::certificates::{KeyKind, authority};
use super::support::folder::Folder;
use super::support::proxy::Proxy;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::{self, Tool};

/// A configuration and requests. `@TLS@` and `@PLAIN@` are addresses of it; `@ONE@`, `@TWO@`, `@SECURE@` and `@NONE@` those of servers.
struct Case {
    sections: &'static str,
    requests: &'static [Request],
}

/// `tls` or `plain`, host, path, more arguments of curl, the status that both must have, and what both contents must have.
pub(super) type Request =
    (&'static str, &'static str, &'static str, &'static [&'static str], &'static str, &'static str);

const CASES: [Case; 5] = [
    // A site with several backends, and the usual redirect of plain text.
    Case {
        sections: "\
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
    option forwardfor
frontend web
    bind @PLAIN@
    bind @TLS@ ssl crt web.pem alpn h2,http/1.1
    http-request redirect scheme https code 301 unless { ssl_fc }
    http-request set-header X-Forwarded-Proto https if { ssl_fc }
    http-request set-header X-Client \"%[src] {x}\"
    http-request add-header X-More 1
    http-request del-header X-Secret
    http-response set-header X-Site a
    http-response del-header X-Backend-Only
    acl is_api path_beg /api/
    acl is_exact path /exact
    acl other hdr(host),host_only -i b.test c.test
    acl beta req.hdr(x-beta) on
    http-request deny deny_status 429 if { path_beg /slow/ }
    http-request return status 200 content-type text/plain string \"good\" if { path /health }
    http-request redirect location https://new.test/x code 302 if { path_beg /old/ }
    http-request redirect prefix https://pre.test code 307 if { path_beg /pre/ }
    use_backend two if is_api or is_exact
    use_backend two if other !METH_POST
    use_backend two if beta
    default_backend one
backend one
    balance leastconn
    server a @ONE@ weight 3
    server b @NONE@ backup
backend two
    http-request replace-path ^/api/(.*) /v2/\\1
    http-response add-header X-Two 2
    server a @TWO@
",
        requests: &[
            ("tls", "a.test", "/", &[], "200", "one a.test /"),
            ("tls", "a.test", "/x?y=1", &["--http1.1"], "200", "one a.test /x?y=1"),
            ("tls", "a.test", "/api/x?y", &[], "200", "two a.test /v2/x?y"),
            ("tls", "a.test", "/api", &[], "200", "one a.test /api"),
            ("tls", "a.test", "/apis", &[], "200", "one a.test /apis"),
            ("tls", "a.test", "/exact?q", &[], "200", "two"),
            ("tls", "a.test", "/exact/more", &[], "200", "one"),
            ("tls", "b.test", "/b", &[], "200", "two"),
            ("tls", "b.test", "/b", &["-d", "x=1"], "200", "one"),
            ("tls", "a.test", "/", &["-H", "X-Beta: on"], "200", "two"),
            ("tls", "a.test", "/", &["-H", "X-Beta: off"], "200", "one"),
            ("tls", "a.test", "/", &["-H", "X-Secret: 1", "-H", "X-More: 0"], "200", "secret= more=0,1"),
            ("tls", "a.test", "/health", &[], "200", "good"),
            ("tls", "a.test", "/slow/x", &[], "429", ""),
            ("tls", "a.test", "/old/x", &[], "302", ""),
            ("tls", "a.test", "/pre/x?y", &[], "307", ""),
            ("plain", "a.test", "/p?q=1", &[], "301", ""),
            ("plain", "a.test", "/slow/x", &[], "301", ""),
        ],
    },
    // Refusals, in an order that matters, by path, method and address.
    Case {
        sections: "\
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend web
    bind @PLAIN@
    acl inside src 127.0.0.0/8
    acl outside src 192.0.2.0/24
    acl private path_beg /private/
    use_backend two if private
    http-request allow if { path_beg /private/open/ }
    http-request deny if private !{ method GET }
    http-request deny if private outside
    http-request deny if { path_beg /never/ } inside
    http-request deny unless inside
    http-request tarpit deny_status 400 if { hdr_cnt(x-bad) gt 0 }
    use_backend none if { path_beg /gone/ }
    use_backend down if { path_beg /down/ }
    use_backend two if { hdr(host),host_only b.test }
backend two
    http-request deny if { path_beg /private/deep/ }
    server a @TWO@
backend none
backend down
    server a @NONE@
",
        requests: &[
            ("plain", "a.test", "/private/x", &[], "200", "two"),
            ("plain", "a.test", "/private/x", &["-X", "DELETE"], "403", ""),
            ("plain", "a.test", "/private/open/x", &["-X", "DELETE"], "200", "two"),
            ("plain", "a.test", "/private/deep/x", &[], "403", ""),
            ("plain", "a.test", "/never/x", &[], "403", ""),
            ("plain", "b.test", "/", &[], "200", "two"),
            ("plain", "b.test", "/never/x", &[], "403", ""),
            ("plain", "b.test", "/private/x", &["-X", "PUT"], "403", ""),
            ("plain", "a.test", "/gone/x", &[], "503", ""),
            ("plain", "a.test", "/", &[], "503", ""),
        ],
    },
    // Hosts from a map, a backend with TLS, and paths with another beginning.
    Case {
        sections: "\
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend web
    bind @TLS@ ssl crt web.pem
    http-request set-path /app%[path] if { path_beg /in/ }
    use_backend %[req.hdr(host),host_only,lower,map(hosts.map,one)]
backend one
    server a @ONE@
backend two
    http-request set-header X-Client %[ssl_fc_sni]
    server a @TWO@
backend secure
    server a @SECURE@ ssl verify required ca-file ca.pem sni str(a.test)
backend lax
    http-request set-header Host inside.test
    server a @SECURE@ ssl verify none
",
        requests: &[
            ("tls", "a.test", "/", &[], "200", "secure a.test /"),
            ("tls", "b.test", "/x", &[], "200", "client=b.test"),
            ("tls", "c.w.test", "/x", &[], "200", "secure inside.test /x"),
            ("tls", "other.test", "/x", &[], "200", "one other.test /x"),
            ("tls", "a.test", "/in/x?y", &[], "200", "secure a.test /app/in/x?y"),
            ("tls", "b.test", "/in", &[], "200", "two b.test /in"),
        ],
    },
    // Names and passwords, and cookies that keep clients at a server.
    Case {
        sections: "\
userlist staff
    user alice password @HASH@
listen web
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
    bind @PLAIN@
    balance roundrobin
    cookie SRV insert indirect nocache
    http-request auth realm Staff if { path_beg /staff/ } !{ http_auth(staff) }
    http-request set-header X-Client %[http_auth_user] if { path_beg /staff/ }
    server a @ONE@ cookie a
    server b @NONE@ cookie b disabled
",
        requests: &[
            ("plain", "a.test", "/", &[], "200", "one"),
            ("plain", "a.test", "/staff/x", &[], "401", ""),
            ("plain", "a.test", "/staff/x", &["-u", "alice:wrong"], "401", ""),
            ("plain", "a.test", "/staff/x", &["-u", "alice:good"], "200", "client=alice"),
            ("plain", "a.test", "/stafford", &[], "200", "one"),
        ],
    },
    // TLS that is passed through by its name, and plain text that becomes TLS.
    Case {
        sections: "\
defaults
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend names
    bind @TLS@
    tcp-request inspect-delay 5s
    tcp-request content accept if { req.ssl_hello_type 1 }
    use_backend secure if { req.ssl_sni -i a.test b.test }
    default_backend other
listen bridge
    bind @PLAIN@
    tcp-request connection reject if { src 192.0.2.0/24 }
    server a @SECURE@ ssl verify none
backend secure
    server a @SECURE@
backend other
    server a @OTHER@
",
        requests: &[
            ("tls", "a.test", "/", &["--http1.1"], "200", "secure a.test /"),
            ("tls", "c.w.test", "/", &["--http1.1"], "200", "other c.w.test /"),
            ("plain", "x.test", "/", &[], "200", "secure x.test /"),
        ],
    },
];

/// Servers behind both, which say what they received.
pub(super) const SERVERS: &str = "\
defaults servers
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
listen s1 from servers
    bind @ONE@
    http-request return status 200 content-type text/plain lf-string \"one @FACTS@\" hdr X-Backend one hdr X-Backend-Only 1
listen s2 from servers
    bind @TWO@
    http-request return status 200 content-type text/plain lf-string \"two @FACTS@\" hdr X-Backend two
listen s3 from servers
    bind @SECURE@ ssl crt web.pem
    http-request return status 200 content-type text/plain lf-string \"secure @FACTS@\" hdr X-Backend secure
listen s4 from servers
    bind @OTHER@ ssl crt web.pem
    http-request return status 200 content-type text/plain lf-string \"other @FACTS@\" hdr X-Backend other
";
pub(super) const FACTS: &str = "%[req.hdr(host),host_only] %[pathq] secret=%[req.hdr(x-secret)] more=%[req.fhdr(x-more,1)],%[req.fhdr(x-more,2)] \
                     client=%[req.hdr(x-client)] for=%[req.hdr(x-forwarded-for)]";
/// `good`, by bcrypt.
pub(super) const HASH: &str = "$2b$04$uB/kMnfaJQzqvHP3kQ9Rh.gCPnwnE9zsrUJYU6uoQKEin5YHGglI2";

/// The parts of a response that must be the same. Pages for errors and redirects are each program's own.
pub(super) fn answer(address: SocketAddr, (kind, name, path, flags, ..): Request) -> String {
    let (host, port) = (address.ip(), address.port());
    let scheme = if kind == "tls" { "https" } else { "http" };
    let (url, resolve) = (format!("{scheme}://{name}:{port}{path}"), format!("{name}:{port}:{host}"));
    let common = ["-sk", "-i", "--max-time", "20", "--resolve", &resolve, &url];
    let ran = tools::run("curl", &[&common[..], flags].concat(), b"");
    let text = ran.output.replace('\r', "").replace(&format!(":{port}"), "");
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or("none");
    let is_kept = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("x-")
            || line.starts_with("location:")
            || status == "200" && line.starts_with("content-type:")
    };
    let mut fields: Vec<_> = head.lines().filter(is_kept).map(str::to_ascii_lowercase).collect();
    fields.sort_unstable();
    let body = if status == "200" { body } else { "" };
    format!("{status}\n{}\n{body}", fields.join("\n"))
}

fn case(Case { sections, requests }: &Case) {
    let folder = Folder::new();
    let names = ["a.test", "b.test", "*.w.test", "other.test"];
    folder.write("web.pem", authority().identity(&names, KeyKind::Rsa).combined());
    folder.write("ca.pem", &authority().pem);
    folder.write("hosts.map", "# host backend\na.test secure\nb.test two\nc.w.test lax\n");
    folder.write("staff.htpasswd", format!("alice:{HASH}\n"));
    let servers: [SocketAddr; 5] = std::array::from_fn(|_| address_of_ones_own());
    let place = format!("{}/", folder.path().display());
    let written = |text: &str, tls: SocketAddr, plain: SocketAddr| {
        let text = ["web.pem", "ca.pem", "hosts.map"]
            .iter()
            .fold(text.replace("@FACTS@", FACTS).replace("@HASH@", HASH), |text, name| {
                text.replace(name, &format!("{place}{name}"))
            });
        let words = ["@ONE@", "@TWO@", "@SECURE@", "@OTHER@", "@NONE@"].into_iter().zip(servers);
        words
            .chain([("@TLS@", tls), ("@PLAIN@", plain)])
            .fold(text, |text, (word, address)| text.replace(word, &address.to_string()))
    };
    let [there, there_plain, here, here_plain] = std::array::from_fn(|_| address_of_ones_own());
    let old = folder.write("old.cfg", written(sections, there, there_plain)).display().to_string();
    let behind = folder.write("servers.cfg", written(SERVERS, there, there_plain)).display().to_string();
    let haproxy = Tool::start("haproxy", &["-db", "-f", &old, "-f", &behind]);
    wait_until_listening(&haproxy, servers[0]);
    let ours = folder.write("ours.cfg", written(sections, here, here_plain));
    let ran = tools::handfast(&["import", "haproxy", &ours.display().to_string()]);
    let config = ran.output.replace("staff.htpasswd", &format!("{place}staff.htpasswd"));
    // The file of users is beside the new configuration, and there is none here.
    let is_alone = sections.contains("userlist");
    assert!(ran.code == Some(0) || is_alone, "{}", ran.all());
    assert!(!ran.all().contains(": refused: "), "{}", ran.all());
    let _proxy = Proxy::start(format!("{config}\n[admin]\nlisten = \"127.0.0.1:0\"\n"));
    for request in *requests {
        let (kind, name, path, flags, status, content) = *request;
        let is_tls = kind == "tls";
        let before = answer(if is_tls { there } else { there_plain }, *request);
        let now = answer(if is_tls { here } else { here_plain }, *request);
        let what = format!("{kind} {name}{path} {flags:?}");
        assert!(before.starts_with(status), "HAProxy: {what}: expected {status}, but\n{before}");
        assert!(before.contains(content), "HAProxy: {what}: expected {content:?}, but\n{before}");
        assert_eq!(before, now, "{what}: HAProxy, then ours\n{}", ran.all());
    }
}

#[test]
fn requests_are_answered_as_before() {
    needs!("haproxy", "curl");
    CASES.iter().for_each(case);
}

/// A page is taken out of a file of HAProxy, and the first line counts what was left out.
#[test]
fn pages_are_written_beside_a_configuration_that_says_what_it_lacks() {
    needs!("curl");
    let folder = Folder::new();
    let [here, other, none] = std::array::from_fn(|_| address_of_ones_own());
    let page = "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n<p>Sorry</p>\n";
    let page = folder.write("503.http", page).display().to_string();
    let sections = format!(
        "defaults\n mode http\n errorfile 503 {page}\nfrontend web\n bind {here}\n default_backend down\n\
         backend down\n server a {none}\nfrontend other\n bind {other}\n http-request lua.x\n default_backend down\n"
    );
    let old = folder.write("old.cfg", sections).display().to_string();
    let new = folder.path().join("new.toml").display().to_string();
    let import = || tools::handfast(&["import", "haproxy", &old, "-o", &new]);
    let read = |name: &str| std::fs::read_to_string(folder.file(name)).expect("it is there");
    let ran = import();
    let counts = "services: 0 as before, 1 with differences, 1 not converted";
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.talk.starts_with(counts), "{}", ran.all());
    let config = read("new.toml");
    assert_eq!(config.lines().next(), Some(&*format!("# Made of {old} by `handfast import`; {counts}.")));
    assert_eq!(read("haproxy-503.html"), "<p>Sorry</p>\n");
    // Neither file is replaced.
    assert_eq!(import().code, Some(2));
    let config = config.replace("haproxy-503", &folder.path().join("haproxy-503").display().to_string());
    let _proxy = Proxy::start(format!("{config}\n[admin]\nlisten = \"127.0.0.1:0\"\n"));
    let ran = tools::run("curl", &["-s", "--max-time", "20", &format!("http://{here}/")], b"");
    assert_eq!(ran.output, "<p>Sorry</p>\n", "{}", ran.all());
}
