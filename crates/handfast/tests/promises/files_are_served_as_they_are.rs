//! HTTP mode: files arrive byte for byte, whole or in part, by both versions of HTTP; conditions and ranges are answered as nginx answers them.

use std::fs::{self, File, FileTimes};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use super::proxies_understand_each_others_headers::nginx;
use super::support::files::{Answer, by_curl, config, get, noise, raw};
use super::support::folder::Folder;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::Tool;
use super::support::*;

const SIZES: [usize; 10] = [0, 1, 4095, 4096, 16_384, 65_535, 65_536, 65_537, 200_001, 3 << 20];

#[test]
fn byte_for_byte() {
    needs!("curl");
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    for (seed, size) in SIZES.into_iter().enumerate() {
        let content = noise(size, seed as u64);
        folder.write(&format!("www/{size}.bin"), &content);
        let path = format!("/{size}.bin");
        for version in ["--http1.1", "--http2"] {
            let whole = by_curl(&proxy, &folder, &[version], &path);
            assert_eq!(
                (whole.status, whole.field("content-length")),
                (200, &*size.to_string()),
                "{version} {path}"
            );
            assert!(whole.content == content, "{version} {path}: other bytes");
            let head = by_curl(&proxy, &folder, &[version, "--head"], &path);
            assert_eq!(
                (head.status, head.field("content-length")),
                (200, &*size.to_string()),
                "{version} {path}"
            );
            assert_eq!(head.content.len(), 0, "{version} {path}");
        }
        let (from, to) = (size / 3, size / 2);
        if from < to {
            let range = format!("{from}-{to}");
            let part = by_curl(&proxy, &folder, &["--http2", "-r", &range], &path);
            assert_eq!((part.status, part.field("content-range")), (206, &*format!("bytes {range}/{size}")));
            assert!(part.content == content[from..=to], "{path}: other bytes");
        }
    }
    assert_eq!(proxy.output.so_far().iter().find(|line| line.contains("\"failed\":true")), None);
}

#[test]
fn several_requests_of_one_connection() {
    needs!("curl");
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    for name in ["a", "b", "c"] {
        folder.write(&format!("www/{name}.txt"), noise(100_000, name.len() as u64));
    }
    let urls = "/{a,b,c,absent,a}.txt";
    for version in ["--http1.1", "--http2"] {
        let before = proxy.output.so_far().len();
        by_curl(&proxy, &folder, &[version], urls);
        let clients = wait_until("five requests in the log", || {
            let lines = proxy.output.so_far();
            let requests = lines[before..].iter().filter(|line| line.contains("\"path\":"));
            let clients: Vec<_> =
                requests.filter_map(|line| line.split('"').nth(11).map(str::to_owned)).collect();
            (clients.len() == 5).then_some(clients)
        });
        assert!(
            clients.iter().all(|client| *client == clients[0]),
            "{version}: one connection, not {clients:?}"
        );
    }
}

/// The same folder, served by nginx.
fn by_nginx(folder: &Folder, address: SocketAddr) -> Tool {
    let place = folder.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
        .concat();
    // Ours compares dates as RFC 9110 §13.1.3 has it.
    let config = format!(
        "user root;\nevents {{ }}\nhttp {{\n{temporary}access_log off;\nif_modified_since before;\nserver {{ listen {address}; root \
         {place}/www; }}\n}}\n"
    );
    nginx(folder, address, &config)
}

/// The parts that must be the same. Contents of errors are each program's own.
fn compared(answer: &Answer) -> (u16, String, String, Vec<u8>) {
    let content = if answer.status < 300 { answer.content.clone() } else { Vec::new() };
    let length = if answer.status < 300 { answer.field("content-length").to_owned() } else { String::new() };
    (answer.status, answer.field("content-range").to_owned(), length, content)
}

#[test]
fn ranges_and_conditions_as_nginx() {
    needs!("nginx");
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    folder.write("www/digits", "0123456789");
    folder.write("www/empty", "");
    folder.write("www/large", noise(300_000, 7));
    let day = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400));
    File::options()
        .write(true)
        .open(folder.file("www/digits"))
        .and_then(|file| file.set_times(day))
        .expect("it is ours");
    let (address, ours) = (address_of_ones_own(), proxy.address_of("plain"));
    let _nginx = by_nginx(&folder, address);
    // A tag is strong once a change would be seen.
    let tag = wait_until("a strong tag", || {
        let tag = get(ours, "/digits").field("etag").to_owned();
        tag.starts_with('"').then_some(tag)
    });
    let other = get(address, "/digits").field("etag").to_owned();
    let (date, before, after) =
        ("Fri, 02 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 1970 23:59:59 GMT", "Fri, 02 Jan 1970 00:00:01 GMT");
    assert_eq!(get(ours, "/digits").field("last-modified"), date.to_lowercase());
    let fields = [
        "Range: bytes=0-0",
        "Range: bytes=2-4",
        "Range: bytes=5-",
        "Range: bytes=-3",
        "Range: bytes=-1000",
        "Range: bytes=9-",
        "Range: bytes=10-",
        "Range: bytes=10-20",
        "Range: bytes=3-1000",
        "Range: bytes=1-1000000000000",
        "Range: bytes= 1-2",
        "Range: lines=1-2",
        "Range: bytes=0-1\r\nIf-Range: @TAG@",
        "Range: bytes=0-1\r\nIf-Range: \"other\"",
        "Range: bytes=0-1\r\nIf-Range: @DATE@",
        "Range: bytes=0-1\r\nIf-Range: @BEFORE@",
        "If-None-Match: @TAG@",
        "If-None-Match: W/@TAG@",
        "If-None-Match: \"a\", @TAG@",
        "If-None-Match: \"other\"",
        "If-None-Match: *",
        "If-None-Match: \"other\"\r\nIf-Modified-Since: @DATE@",
        "If-Modified-Since: @DATE@",
        "If-Modified-Since: @AFTER@",
        "If-Modified-Since: @BEFORE@",
        "If-Modified-Since: never",
        "If-Match: @TAG@",
        "If-Match: *",
        "If-Match: \"other\"",
        "If-Match: \"other\"\r\nRange: bytes=0-1",
        "If-Unmodified-Since: @DATE@",
        "If-Unmodified-Since: @AFTER@",
        "If-Unmodified-Since: @BEFORE@",
        "If-None-Match: @TAG@\r\nRange: bytes=0-1",
    ];
    for lines in fields {
        for path in ["/digits", "/empty", "/large"] {
            // Of an empty file nginx has 416 for some parts, and all of it for others.
            if path != "/digits" && lines.contains('@') || path == "/empty" && lines.contains("Range") {
                continue;
            }
            for method in ["GET", "HEAD"] {
                let ask = |address: SocketAddr, tag: &str| {
                    let lines = lines.replace("@TAG@", tag).replace("@DATE@", date);
                    let lines = lines.replace("@BEFORE@", before).replace("@AFTER@", after);
                    raw(address, path, (method, &format!("{lines}\r\n")))
                };
                // RFC 9110 §14.2: a range has a meaning for GET alone.
                if method == "HEAD" && lines.contains("Range: bytes") {
                    assert_eq!(ask(ours, &tag).field("content-range"), "", "{lines}");
                    continue;
                }
                let (own, expected) = (ask(ours, &tag), ask(address, &other));
                assert_eq!(compared(&own), compared(&expected), "{method} {path} {lines}: {}", own.fields);
            }
        }
    }
    // nginx answers several ranges in parts; a server may answer with all of it (RFC 9110 §14.2).
    let several = raw(ours, "/digits", ("GET", "Range: bytes=0-1,4-5\r\n"));
    assert_eq!((several.status, &*several.content), (200, &b"0123456789"[..]));
}

#[test]
fn a_folder_has_an_index_and_its_path_a_slash() {
    let folder = Folder::new();
    let more = format!(
        "[[service.route]]\npath = \"/app\"\nrewrite-path = \"/spa\"\nfiles = {{ folder = \"{0}\", index = [\"home.htm\", \"index.html\"], \
         extension = \".html\", fallback = \"/spa/index.html\" }}\n",
        folder.file("www").display()
    );
    let proxy = Proxy::start(config(&folder, &more));
    let address = proxy.address_of("plain");
    for (name, text) in [
        ("index.html", "home"),
        ("a:b/index.html", "colon"),
        ("docs/index.html", "docs"),
        ("empty/x", "x"),
        ("spa/index.html", "app"),
        ("spa/home.htm", "app home"),
        ("spa/about.html", "about"),
        ("a b.txt", "blank"),
        ("\u{e4}.txt", "umlaut"),
    ] {
        folder.folder(&format!("www/{}", name.rsplit_once('/').map_or("", |(above, _)| above)));
        folder.write(&format!("www/{name}"), text);
    }
    for (target, status, text) in [
        ("/", 200, "home"),
        ("/?x=/..", 200, "home"),
        ("/index.html", 200, "home"),
        ("/docs/", 200, "docs"),
        ("/docs", 308, "./docs/"),
        ("/docs?a=b&c", 308, "./docs/?a=b&c"),
        ("/%64ocs?a", 308, "./%64ocs/?a"),
        ("/a:b", 308, "./a:b/"),
        ("/empty", 404, ""),
        ("/empty/", 404, ""),
        ("/docs/index.html/", 404, ""),
        ("/about", 404, ""),
        ("/a%20b.txt", 200, "blank"),
        ("/%C3%A4.txt", 200, "umlaut"),
        ("/app", 308, "./app/"),
        ("/app/", 200, "app home"),
        ("/app/about", 200, "about"),
        ("/app/about.html", 200, "about"),
        ("/app/users/7?x", 200, "app"),
        ("/apps", 404, ""),
    ] {
        let answer = get(address, target);
        let found = match answer.status {
            200 => String::from_utf8_lossy(&answer.content).into_owned(),
            308 => answer.field("location").to_owned(),
            _ => String::new(),
        };
        assert_eq!((answer.status, &*found), (status, text), "{target}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        let answer = raw(address, "/index.html", (method, "Content-Length: 0\r\n"));
        assert_eq!((answer.status, answer.field("allow")), (405, "get, head"), "{method}");
    }
    let types =
        [("x.css", "text/css; charset=utf-8"), ("x.svg", "image/svg+xml"), ("x", "application/octet-stream")];
    for (name, expected) in types {
        folder.write(&format!("www/{name}"), "x");
        assert_eq!(get(address, &format!("/{name}")).field("content-type"), expected);
    }
}

#[test]
fn compressed_files_are_sent_to_those_that_accept_them() {
    let folder = Folder::new();
    let more = format!(
        "[[service.route]]\npath = \"/c\"\nrewrite-path = \"/\"\nset-response-headers = \"cache-control: max-age=60\"\nfiles = {{ folder = \
         \"{}\", precompressed = [\"br\", \"zstd\", \"gzip\"] }}\n",
        folder.file("www").display()
    );
    let proxy = Proxy::start(config(&folder, &more));
    let address = proxy.address_of("plain");
    for (name, text) in [
        ("a.js", "plain"),
        ("a.js.gz", "by gzip"),
        ("a.js.br", "by br"),
        ("b.js", "b"),
        ("b.js.gz", "b by gzip"),
    ] {
        folder.write(&format!("www/{name}"), text);
    }
    for (target, accepted, text, coding) in [
        ("/c/a.js", "gzip, deflate, br, zstd", "by br", "br"),
        ("/c/a.js", "gzip", "by gzip", "gzip"),
        ("/c/a.js", "br;q=0.2, gzip;q=0.8", "by gzip", "gzip"),
        ("/c/a.js", "br;q=0, *", "by gzip", "gzip"),
        ("/c/a.js", "identity", "plain", ""),
        ("/c/a.js", "", "plain", ""),
        ("/c/b.js", "br, gzip;q=0.1", "b by gzip", "gzip"),
        ("/a.js", "br", "plain", ""),
    ] {
        let fields =
            if accepted.is_empty() { String::new() } else { format!("Accept-Encoding: {accepted}\r\n") };
        let answer = raw(address, target, ("GET", &fields));
        assert_eq!(String::from_utf8_lossy(&answer.content), text, "{target} {accepted}");
        assert_eq!(answer.field("content-encoding"), coding, "{target} {accepted}");
        assert_eq!(answer.field("content-type"), "text/javascript; charset=utf-8", "{target}");
        let (vary, caching) =
            if target.starts_with("/c") { ("accept-encoding", "max-age=60") } else { ("", "") };
        assert_eq!((answer.field("vary"), answer.field("cache-control")), (vary, caching), "{target}");
    }
    let tags: Vec<String> = ["gzip", "br", "identity"]
        .map(|accepted| raw(address, "/c/a.js", ("GET", &format!("Accept-Encoding: {accepted}\r\n"))))
        .iter()
        .map(|answer| answer.field("etag").to_owned())
        .collect();
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
}

#[test]
fn access_rules_hold_for_files_however_a_path_is_written() {
    let folder = Folder::new();
    let more = "[[service.route]]\npath = \"/private\"\nrefuse-clients = \"127.0.0.1\"\n";
    let proxy = Proxy::start(config(&folder, more));
    let address = proxy.address_of("plain");
    folder.folder("www/private");
    folder.write("www/private/secret.txt", "secret");
    folder.write("www/open.txt", "open");
    assert_eq!(get(address, "/open.txt").status, 200);
    assert_eq!(get(address, "/private/secret.txt").status, 403);
    for target in [
        "/%70rivate/secret.txt",
        "//private/secret.txt",
        "/./private/secret.txt",
        "/x/../private/secret.txt",
        "/private%2fsecret.txt",
        "/%2e/private/secret.txt",
        "/private/../private/secret.txt",
        "/x/%2e%2e/private/secret.txt",
        "/;/private/secret.txt",
        "/%5cprivate/secret.txt",
        "/private;x/secret.txt",
        "/PRIVATE/secret.txt",
    ] {
        let answer = get(address, target);
        assert!(matches!(answer.status, 400 | 403 | 404), "{target}: {}", answer.status);
        assert!(!String::from_utf8_lossy(&answer.content).contains("secret"), "{target}");
    }
}

#[test]
fn wrong_folders_are_one_clear_error_each() {
    let folder = Folder::new();
    let text = config(&folder, "");
    let www = folder.file("www").display().to_string();
    folder.write("file", "x");
    let cases = [
        ("absent", "No such file or directory", "make the folder, or correct its path"),
        ("file", "Not a directory", "name the folder that the file is in"),
    ];
    for (name, problem, hint) in cases {
        let path = folder.file(name).display().to_string();
        let bad = folder
            .write("bad.toml", text.replace(&format!("files = \"{www}\""), &format!("files = \"{path}\"")));
        for command in ["check", "proxy"] {
            let ran = tools::handfast(&[command, "-c", &bad.display().to_string()]);
            assert_ne!(ran.code, Some(0), "{command} {name}");
            let said = ran.all();
            assert_eq!(said.matches(&format!("service plain: files of {path}")).count(), 1, "{said}");
            assert!(said.contains(problem) && said.contains(hint), "{said}");
        }
    }
    // A reload that names such a folder changes nothing.
    let proxy = Proxy::start(&text);
    folder.write("www/a.txt", "a");
    proxy.rewrite(text.replace(&format!("files = \"{www}\""), "files = \"/absent/folder\""));
    assert!(!proxy.reload());
    assert_eq!(get(proxy.address_of("plain"), "/a.txt").status, 200);
    // And one that names another folder inside of what is in reach takes effect.
    folder.folder("www/v2");
    folder.write("www/v2/a.txt", "second");
    proxy.rewrite(text.replace(&format!("files = \"{www}\""), &format!("files = \"{www}/v2\"")));
    assert!(proxy.reload());
    let address = proxy.address_of("plain");
    wait_until("the other folder", || (get(address, "/a.txt").content == b"second").then_some(()));
    fs::remove_file(folder.file("www/v2/a.txt")).expect("it is there");
    assert_eq!(get(address, "/a.txt").status, 404);
}
