//! Tests of nginx's grammar, of the order of names, and of options that are left out.

mod cache;
mod subrequests;

use super::grammar::{Directive, directives};
use super::*;
use crate::note::UnknownVariable;

/// Files in a folder; the first one is read.
fn read(files: &[(&str, &str)]) -> Result<Vec<Directive>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let first = folder.path().join(files[0].0);
    let place = format!("{}/", folder.path().display());
    directives(&[first], folder.path()).map_err(|error| error.to_string().replace(&place, ""))
}

#[test]
fn words_are_taken_apart_as_nginx_does() {
    let text = "a 'b c' \"d\\\"e\" f\"g;#h;# i\nj ${k}l{m\\;n;}o \\.p$;";
    let read = read(&[("nginx.conf", text)]).expect("nginx reads it");
    let texts: Vec<_> =
        read.iter().map(|directive| (directive.name.as_str(), directive.arguments.clone())).collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        texts,
        [("a", words(&["b c", "d\"e", "f\"g"])), ("j", words(&["${k}l"])), ("o", words(&["\\.p$"]))],
        "{read:?}"
    );
}

#[test]
fn included_files_are_read_from_the_folder_of_the_first() {
    let files = [
        ("nginx.conf", "http { include sites/*.conf; include none/*; }"),
        ("sites/b.conf", "b;\ninclude snippets/c;"),
        ("sites/a.conf", "a;"),
        ("snippets/c", "\n\nc;"),
    ];
    let read = read(&files).expect("they are there");
    let names: Vec<_> = read[0].inner().iter().map(|inner| inner.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let place = read[0].inner()[2].place.to_string();
    assert!(place.ends_with("/snippets/c:3"), "{place}");
}

#[test]
fn mistakes_have_a_file_and_a_line() {
    for (files, expected) in [
        (vec![("n", "a;\nb { c;\n")], "n:2: the file ends, expected `}`"),
        (vec![("n", "a;\n}")], "n:2: `}` closes nothing"),
        (vec![("n", "\n;")], "n:2: expected the name of a directive"),
        (vec![("n", "a\n'b")], "n:2: the text has no closing quote"),
        (vec![("n", "a {\nb }")], "n:2: b: expected `;` or `{` at its end"),
        (
            vec![("n", "\ninclude gone;")],
            "n:2: include: cannot read gone: No such file or directory (os error 2)",
        ),
        (vec![("n", "include m;"), ("m", "\n\n}")], "m:3: `}` closes nothing"),
        (vec![("n", "a;\ninclude n;")], "n:2: include: more than 16 blocks or files within each other"),
    ] {
        let error = read(&files).expect_err(expected);
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
}

#[test]
fn blocks_and_files_are_bounded() {
    let deep = "a {".repeat(100_000);
    assert!(read(&[("n", &deep)]).expect_err("too deep").contains("more than 16"));
    // Each of sixteen files includes the next one twice.
    let files: Vec<_> =
        (0..16).map(|at| (format!("f{at}"), format!("include f{0}; include f{0};", at + 1))).collect();
    let mut files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("f16", "a;"));
    assert!(read(&files).expect_err("too many").contains("more than 1000 files"));
}

fn converted(server: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, server).expect("written");
    let imported = import(&[file], Path::new("")).expect("nginx reads it");
    (
        imported.config,
        imported.notes.iter().map(|note| format!("{} {}", note.fate.word(), note.option)).collect(),
    )
}

#[test]
fn exact_names_come_before_wildcards_and_the_default_server_last() {
    let (config, _) = converted(
        "server { listen 80; server_name d.b; return 301 http://default; }\n\
         server { listen 80; server_name *.b x.a; return 301 http://one; }\n\
         server { listen 80; server_name *.a y.b; return 301 http://two; }\n",
    );
    let order: Vec<_> =
        config.lines().filter(|line| line.starts_with("hosts") || line.starts_with("redirect")).collect();
    assert_eq!(
        order,
        [
            "hosts = [\"d.b\"]",
            "redirect = { to = \"http://default\", status = 301 }",
            "hosts = [\"x.a\"]",
            "redirect = { to = \"http://one\", status = 301 }",
            "hosts = [\"y.b\"]",
            "redirect = { to = \"http://two\", status = 301 }",
            "hosts = [\"*.b\"]",
            "redirect = { to = \"http://one\", status = 301 }",
            "hosts = [\"*.a\"]",
            "redirect = { to = \"http://two\", status = 301 }",
            "redirect = { to = \"http://default\", status = 301 }",
        ],
        "{config}"
    );
}

#[test]
fn a_server_that_cannot_be_kept_takes_its_addresses_with_it() {
    let (config, notes) = converted(
        "server { listen 80; listen 81; location ~ a { return 403; } }\n\
         server { listen 81; server_name b; return 301 http://b; }\n\
         server { listen 82; return 301 http://c; }\n",
    );
    assert!(
        config.contains("The service http-80 is not here")
            && config.contains("The service http-81 is not here"),
        "{config}"
    );
    assert_eq!(config.matches("[[service]]").count(), 1, "{config}");
    assert!(notes.contains(&"refused location ~ a".to_owned()), "{notes:?}");
}

#[test]
fn files_are_served_where_nginx_would() {
    let of = |text: &str| converted(&format!("server {{ listen 80; {text} }}"));
    for (text, expected) in [
        ("root /srv;", "[[service.route]]\nfiles = \"/srv\"\n"),
        ("root www; location / { }", "www\"\n"),
        (
            "root /srv; index a.htm index.html; location / { }",
            "files = { folder = \"/srv\", index = [\"a.htm\", \"index.html\"] }",
        ),
        ("root /srv; location / { try_files $uri $uri/ =404; }", "files = \"/srv\""),
        ("root /srv; location / { try_files $uri =404; }", "files = { folder = \"/srv\", index = [] }"),
        (
            "root /srv; location / { try_files $uri $uri/ /index.html?$args; }",
            "files = { folder = \"/srv\", fallback = \"/index.html\" }",
        ),
        (
            "root /srv; location / { try_files $uri $uri.html $uri/ =404; gzip_static on; }",
            "files = { folder = \"/srv\", extension = \".html\", precompressed = [\"gzip\"] }",
        ),
        ("location /a/ { root /srv; } location / { return 404; }", "path = \"/a/\"\nfiles = \"/srv\""),
        (
            "location /a/ { alias /srv/b/; } location / { return 404; }",
            "path = \"/a/\"\nrewrite-path = \"/\"\nfiles = \"/srv/b/\"",
        ),
        (
            "location = /robots.txt { alias /srv/b/r.txt; } location / { return 404; }",
            "path = \"/robots.txt\"\nrewrite-path = \"/r.txt\"\nfiles = \"/srv/b\"",
        ),
        (
            "root /srv; error_page 404 /404.html; error_page 500 502 /50x.html; location = /50x.html { root /usr/share/html; }",
            "error-pages = { 404 = \"/srv/404.html\", 500 = \"/usr/share/html/50x.html\", 502 = \"/usr/share/html/50x.html\" }",
        ),
    ] {
        let (config, notes) = of(text);
        assert!(config.contains(expected), "{text}\n{config}\n{notes:?}");
    }
    for (text, refused) in [
        ("location / { }", "location /"),
        ("root /srv; location / { try_files $uri @app; }", "try_files $uri @app"),
        (
            "root /srv; location / { try_files $uri $uri/ /index.php?$query_string; }",
            "try_files $uri $uri/ /index.php?$query_string",
        ),
        ("root /srv/$host; location / { }", "root /srv/$host"),
        ("root /srv; index index.php; autoindex on;", "autoindex on"),
        ("root /srv; index /a.html;", "index /a.html"),
    ] {
        let (config, notes) = of(text);
        assert!(!config.contains("[[service]]"), "{text}\n{config}");
        assert!(notes.contains(&format!("refused {refused}")), "{text}: {notes:?}");
    }
}

/// Returns the converted lines about a location's access, and the options that are refused.
fn access(server: &str) -> (Vec<String>, Vec<String>) {
    let (config, notes) = converted(server);
    let is_access = |line: &&str| {
        ["path", "allow-clients", "refuse-clients", "basic-auth", "rate-limit"]
            .iter()
            .any(|key| line.starts_with(&format!("{key} ")))
    };
    let refused = notes.iter().filter_map(|note| note.strip_prefix("refused ")).map(str::to_owned);
    (config.lines().filter(is_access).map(str::to_owned).collect(), refused.collect())
}

#[test]
fn the_first_network_that_fits_decides() {
    let proxy = "proxy_pass http://a:1;";
    for (rules, expected) in [
        ("allow 10.0.0.0/8; deny all;", vec!["allow-clients = [\"10.0.0.0/8\"]"]),
        (
            "deny 10.0.0.1; allow 10.0.0.0/8; deny all; allow 192.0.2.1;",
            vec!["allow-clients = [\"10.0.0.0/8\"]", "refuse-clients = [\"10.0.0.1\"]"],
        ),
        ("deny 10.0.0.1; allow all; deny all;", vec!["refuse-clients = [\"10.0.0.1\"]"]),
        ("deny 10.0.0.1;", vec!["refuse-clients = [\"10.0.0.1\"]"]),
        ("deny all;", vec!["refuse-clients = [\"0.0.0.0/0\", \"::/0\"]"]),
        // Without `deny all` these have no effect.
        ("allow 10.0.0.0/8;", vec![]),
    ] {
        let (written, refused) = access(&format!("server {{ listen 80; location / {{ {rules} {proxy} }} }}"));
        assert_eq!(
            (written, refused),
            (expected.iter().map(|line| (*line).to_owned()).collect(), vec![]),
            "{rules}"
        );
    }
    let (written, refused) = access(&format!(
        "server {{ listen 80; location / {{ allow 10.0.0.0/8; deny 10.0.0.1; deny all; {proxy} }} }}"
    ));
    assert_eq!((written, refused), (vec![], vec!["deny 10.0.0.1".to_owned()]));
}

#[test]
fn a_password_is_required_where_nginx_requires_it() {
    let (written, refused) = access(
        "auth_basic Intern; auth_basic_user_file /u;
         server { listen 80; location / { auth_basic off; proxy_pass http://a:1; } }
         server { listen 81; location /open/ { auth_basic off; proxy_pass http://a:1; }
         location / { proxy_pass http://a:1; } }",
    );
    let expected =
        ["path = \"/open/\"", "path = \"/open\"", "basic-auth = { file = \"/u\", realm = \"Intern\" }"];
    assert_eq!((written, refused), (expected.map(str::to_owned).into(), vec![]));
    // Without a file of users nginx requires no user.
    assert_eq!(
        access("server { listen 80; auth_basic Intern; location / { proxy_pass http://a:1; } }"),
        (vec![], vec![])
    );
}

#[test]
fn a_guarded_location_never_becomes_larger_or_smaller_unseen() {
    let guard = "auth_basic a; auth_basic_user_file /u;";
    let of = |locations: &str| {
        access(&format!("server {{ listen 80; {} }}", locations.replace("PASS", "proxy_pass http://a:1;"))).1
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(of(&format!("location / {{ PASS }} location /admin {{ {guard} PASS }}")), none);
    assert_eq!(of(&format!("location / {{ PASS }} location /admin/ {{ {guard} PASS }}")), none);
    assert_eq!(of(&format!("{guard} location / {{ PASS }} location /admin {{ PASS }}")), none);
    // `/health/a` would be open.
    assert_eq!(
        of(&format!("location / {{ {guard} PASS }} location = /health {{ PASS }}")),
        ["location = /health"]
    );
    assert_eq!(
        of(&format!(
            "location / {{ {guard} PASS }} location = /health {{ PASS }} location /health/ {{ {guard} PASS }}"
        )),
        none
    );
    assert_eq!(of(&format!("location / {{ PASS }} location = /admin {{ {guard} PASS }}")), none);
}

#[test]
fn a_limit_has_the_rate_of_its_zone() {
    let of = |zone: &str, limit: &str| {
        access(&format!(
            "{zone} upstream u {{ server a:1; }} server {{ listen 80; location / {{ {limit} proxy_pass http://a:1; }} }}"
        ))
    };
    let zone = "limit_req_zone $binary_remote_addr zone=z:10m rate=30r/m;";
    let (written, refused) = of(zone, "limit_req zone=z burst=20 nodelay; limit_req_status 429;");
    assert_eq!(
        (written, refused),
        (vec!["rate-limit = { requests = 30, per = \"1m\", burst = 21 }".to_owned()], vec![])
    );
    let (written, _) = of("limit_req_zone $http_x_api_key zone=z:1m rate=2r/s;", "limit_req zone=z;");
    assert_eq!(
        written,
        ["rate-limit = { requests = 2, per = \"1s\", burst = 1, by = \"header:x-api-key\" }"]
    );
    for (zone, limit, expected) in [
        (zone, "limit_req zone=y;", "limit_req zone=y"),
        (zone, "limit_req zone=z; limit_req zone=z burst=2;", "limit_req zone=z burst=2"),
        (
            "limit_req_zone $uri zone=z:1m rate=1r/s;",
            "limit_req zone=z;",
            "limit_req_zone $uri zone=z:1m rate=1r/s",
        ),
        ("limit_req_zone $remote_addr zone=z:1m rate=1r/h;", "limit_req zone=z;", "limit_req zone=z"),
    ] {
        assert_eq!(of(zone, limit), (vec![], vec![expected.to_owned()]), "{zone} {limit}");
    }
    // A zone that nothing uses refuses nothing.
    assert_eq!(of(zone, "").1, Vec::<String>::new());
}

#[test]
fn a_query_is_kept() {
    let facts = super::value::ServerFacts { server_name: "a", port: None, verified: None };
    let template = |text| super::value::template(text, facts);
    assert_eq!(template("/new$is_args$args").as_deref(), Ok("/new{query}"));
    assert_eq!(template("/new$is_args$query_string/$host").as_deref(), Ok("/new{query}/{host}"));
    assert_eq!(template("/new$is_args$argsx"), Err(UnknownVariable("$is_args".to_owned())));
    let (config, _) = converted("server { listen 80; location /a/ { proxy_pass http://a:1; } }");
    assert!(config.contains("redirect = { to = \"/a/{query}\", status = 301 }"), "{config}");
}

/// Directives of nginx 1.29 and of its ACME module, and those that a single location cannot have.
#[test]
fn newer_directives_are_converted() {
    let server = |text: &str| format!("server {{ listen 80; {text} }}");
    let pass = "proxy_pass http://a:1; proxy_redirect off;";
    for (text, expected) in [
        (server(&format!("location / {{ proxy_http_version 2; {pass} }}")), "backend-version = \"h2\""),
        (server(&format!("max_headers 50; location / {{ {pass} }}")), "max-headers = 50"),
        (server(&format!("ignore_invalid_headers off; location / {{ {pass} }}")), "underscores = \"forward\""),
        (
            format!(
                "upstream u {{ server a:1; server b:1; sticky cookie srv samesite=lax; }} {}",
                server("location / { proxy_pass http://u; proxy_redirect off; }")
            ),
            "sticky = { cookie = \"srv\", same-site = \"lax\" }",
        ),
        (
            "acme_issuer le { uri https://a.example/d; contact a@b.example; accept_terms_of_service; challenge http; }
             server { listen 443 ssl; server_name c.example; acme_certificate le; ssl_certificate $acme_certificate;
             ssl_certificate_key $acme_certificate_key; return 204; }"
                .to_owned(),
            "[acme]\naccept-terms-of-service = true\nfolder = \"/var/lib/handfast/acme\"\ndirectory = \"https://a.example/d\"\n\
             contact = [\"a@b.example\"]\nchallenges = [\"http-01\"]\n",
        ),
    ] {
        let (config, notes) = converted(&text);
        assert!(config.contains(expected), "{text}\n{config}\n{notes:?}");
    }
    for text in [
        server(&format!("location / {{ proxy_http_version 2; {pass} }} location /a/ {{ {pass} }}")),
        server("location / { proxy_pass http://a:1; future_directive on; }"),
        "acme_issuer le { uri https://a.example/d; } server { listen 443 ssl; server_name c.example; acme_certificate le;
         ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; return 204; }
         server { listen 443 ssl; server_name d.example; ssl_certificate d.pem; ssl_certificate_key d.key; return 204; }"
            .to_owned(),
    ] {
        let (config, notes) = converted(&text);
        assert!(!config.contains("[[service]]"), "{text}\n{config}\n{notes:?}");
    }
}

/// nginx would change what backends send.
#[test]
fn a_redirect_that_nginx_changes_is_noted() {
    for (rule, is_noted) in [("off", false), ("default", false), ("http:// https://", true)] {
        let (_, notes) = converted(&format!(
            "server {{ listen 80; location / {{ proxy_pass http://a:1; proxy_set_header Host $http_host; proxy_redirect {rule}; }} }}"
        ));
        assert_eq!(notes.iter().any(|note| note.contains("proxy_pass")), is_noted, "{rule}: {notes:?}");
    }
}

/// As public collections of sites write their backends.
#[test]
fn a_variable_with_a_fixed_text_is_that_text() {
    let of = |text: &str| converted(&format!("server {{ listen 80; {text} }}"));
    let set = "set $app one; set $app_port 81; set $proto https;";
    let (config, notes) =
        of(&format!("location / {{ {set} proxy_pass $proto://$app:$app_port; proxy_redirect off; }}"));
    assert!(
        config.contains("backend = [\"one:81\"]") && config.contains("[service.route.backend-tls]"),
        "{config}\n{notes:?}"
    );
    let (config, _) = of(&format!(
        "{set} location /a/ {{ proxy_pass http://${{app}}b:81; proxy_redirect off; }} return 204;"
    ));
    assert!(!config.contains("oneb"), "{config}");
    for text in [
        "location / { set $app one; set $app two; proxy_pass http://$app:81; }",
        "location / { set $app $host; proxy_pass http://$app:81; }",
        "location /a/ { set $app one; proxy_pass http://$app:81/b/; }",
        "set $app one; if ($app = two) { return 403; } location / { proxy_pass http://one:81; }",
    ] {
        let (config, notes) = of(text);
        assert!(!config.contains("[[service]]"), "{text}\n{config}\n{notes:?}");
    }
}

#[test]
fn a_target_as_the_client_sent_it_is_no_path() {
    let (config, notes) = converted(
        "server { listen 80; location / { proxy_pass http://a:1$request_uri; proxy_set_header Proxy ''; } }",
    );
    assert!(
        config.contains("backend = [\"a:1\"]") && !config.contains("remove-request-headers"),
        "{config}\n{notes:?}"
    );
    let (config, _) = converted("server { listen 80; location / { proxy_pass http://a:1/b$request_uri; } }");
    assert!(!config.contains("[[service]]"), "{config}");
}

/// Expressions come before other locations, in the order of the file, but not before those with `^~`.
#[test]
fn beginnings_in_expressions_are_routes() {
    let of = |text: &str| converted(&format!("server {{ listen 80; {text} }}")).0;
    let order = |config: &str| {
        let lines = config.lines().filter_map(|line| line.strip_prefix("path = "));
        lines.map(|path| path.trim_matches('"').to_owned()).collect::<Vec<_>>()
    };
    let config = of(
        "location /a/b/ { return 201; } location ~ ^/(a|c) { return 202; } location ~ ^/a/b/c { return 203; }
        location ^~ /a/x/ { return 204; } location / { return 205; }",
    );
    assert_eq!(order(&config), ["/a/x/", "/a*", "/c*", "/a/b/c*", "/a/b/"], "{config}");
    for text in [
        "location = /a/b { return 201; } location ~ ^/a { return 202; } location / { return 205; }",
        "location ^~ /a/ { return 201; } location /a/b/ { return 203; } location ~ ^/a { return 202; } location / { return 205; }",
        "location ~ ^/a.b { return 202; } location / { return 205; }",
        "location ~* ^/a { return 202; } location / { return 205; }",
    ] {
        assert!(!of(text).contains("[[service]]"), "{text}");
    }
    assert!(
        !of("location ~ ^/a/ { proxy_pass http://b:1; } location / { return 205; }").contains("redirect")
    );
}
