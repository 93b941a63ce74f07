//! Tests of HAProxy's grammar, of the requests that a rule matches, and of refused configurations.

mod chance;
mod pages;

use super::grammar::sections;
use super::*;

/// A file; its words, or what is wrong with it.
fn read(text: &str) -> Result<Vec<Vec<String>>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("h");
    std::fs::write(&file, text).expect("written");
    let place = format!("{}/", folder.path().display());
    let read = sections(&[file]).map_err(|error| error.to_string().replace(&place, ""))?;
    Ok(read.0.into_iter().flat_map(|section| section.lines).map(|line| line.words).collect())
}

#[test]
fn words_are_taken_apart_as_haproxy_does() {
    for (text, expected) in [
        ("a  b\tc # d", vec!["a", "b", "c"]),
        ("a\\ b c\\#d", vec!["a b", "c#d"]),
        ("a\"b c\"d 'e \\f'", vec!["ab cd", "e \\f"]),
        ("\\.php$ \\\\x", vec!["\\.php$", "\\x"]),
        ("a\\x41 \\n", vec!["aA", "\n"]),
        ("\"${X-y}\" \"\\$z\" $w", vec!["y", "$z", "$w"]),
        ("a#b", vec!["a"]),
        ("a ''", vec!["a", ""]),
    ] {
        let read = read(&format!("global\n {text}\n")).expect("HAProxy reads it");
        assert_eq!(read, [expected.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()], "{text}");
    }
}

#[test]
fn mistakes_have_a_file_and_a_line() {
    for (text, expected) in [
        ("global\n a \"b", "h:2: the text has no closing quote"),
        ("global\n a 'b\n c 'd", "h:2: the text has no closing quote\nh:3: the text has no closing quote"),
        ("\nbind :80", "h:2: expected a section such as `frontend`, but found bind"),
        ("global\n a \"${b", "h:2: `${` has no closing brace"),
        ("global\n a \\xg", "h:2: expected two hexadecimal digits after `\\x`"),
    ] {
        assert_eq!(read(text).expect_err(expected), expected);
    }
}

#[test]
fn lines_are_bounded() {
    let error = read(&"global\n".repeat(200_001)).expect_err("too many");
    assert!(error.ends_with("h:200001: more than 200000 lines"), "{error}");
}

/// The new configuration, and the words and options of its notes.
fn converted(text: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("h");
    std::fs::write(&file, text).expect("written");
    let imported = import(&[file], Path::new("")).expect("HAProxy reads it");
    let notes = imported.notes.iter().map(|note| format!("{} {}", note.fate.word(), note.option));
    (imported.config.clone(), notes.collect())
}

/// The routes of a frontend with these rules, a line each.
fn routes(rules: &str) -> Vec<String> {
    let text = format!(
        "defaults\n mode http\nfrontend f\n bind 127.0.0.1:80\n{rules}\n default_backend z\n\
         backend a\n server s 127.0.0.1:1\nbackend b\n server s 127.0.0.1:2\nbackend z\n server s 127.0.0.1:9\nbackend none\n"
    );
    let (config, notes) = converted(&text);
    let mut routes: Vec<String> = notes.into_iter().filter(|note| note.starts_with("refused")).collect();
    for line in config.lines().skip_while(|line| *line != "[[service.route]]").filter(|line| !line.is_empty())
    {
        match (line, routes.last_mut()) {
            ("[[service.route]]", _) => routes.push(String::new()),
            (line, Some(last)) => {
                let line =
                    line.replace("[\"127.0.0.1:", "").replace("\"]", "").replace("[\"", "").replace('"', "");
                last.push_str(&format!("{}{line}", if last.is_empty() { "" } else { "; " }));
            }
            _ => {}
        }
    }
    routes
}

#[test]
fn rules_become_routes_in_their_order() {
    for (rules, expected) in [
        ("", vec!["backend = 9"]),
        ("use_backend a if { method POST }", vec!["methods = POST; backend = 1", "backend = 9"]),
        ("use_backend a unless { method POST }", vec!["methods = POST; backend = 9", "backend = 1"]),
        // Either of two conditions, then both.
        (
            "use_backend a if { method POST } || { path_beg /x/ }",
            vec!["methods = POST; backend = 1", "path = /x/; backend = 1", "backend = 9"],
        ),
        (
            "use_backend a if { method POST } { path_beg /x/ }",
            vec!["path = /x/; methods = POST; backend = 1", "methods = POST; backend = 9", "backend = 9"],
        ),
        // An exact path, as those below it are the next rule's.
        (
            "use_backend a if { path /x }",
            vec!["path = /x/; backend = 9", "path = /x; backend = 1", "backend = 9"],
        ),
        // Letters behind it, and letters of any case.
        ("http-request deny if { path_beg /x }", vec!["path = /x*; respond = 403", "backend = 9"]),
        (
            "http-request deny if { path_beg -i /x/ }",
            vec!["path = /x/; ignore-case = true; respond = 403", "backend = 9"],
        ),
        (
            "use_backend a if { path_beg /X/y } { path_beg -i /x/ }",
            vec!["path = /X/y*; backend = 1", "backend = 9"],
        ),
        // A refusal comes before backends wherever it is written, and is for all of its path.
        (
            "use_backend a if { path_beg /x/ }\n http-request deny if { path_beg /x/y/ }",
            vec!["path = /x/y/; respond = 403", "path = /x/; backend = 1", "backend = 9"],
        ),
        // The next rule takes the decision of an earlier one into account.
        (
            "use_backend a if { hdr(host) a.x }\n use_backend b if { hdr(host) a.x b.x }",
            vec!["hosts = a.x; backend = 1", "hosts = a.x, b.x; backend = 2", "backend = 9"],
        ),
        // Changes of fields come together.
        (
            "http-request set-header A 1\n http-request set-header B 2 if { path_beg /x/ }",
            vec![
                "path = /x/; backend = 9; set-request-headers = A: 1, B: 2",
                "backend = 9; set-request-headers = A: 1",
            ],
        ),
        // `allow` spares later refusals of requests, and no choice of backends.
        (
            "http-request allow if { path_beg /x/ }\n http-request deny\n use_backend a if { method POST }",
            vec!["path = /x/; methods = POST; backend = 1", "path = /x/; backend = 9", "respond = 403"],
        ),
        // A backend without servers answers 503.
        ("use_backend none if { path_beg /x/ }", vec!["path = /x/; respond = 503", "backend = 9"]),
        // Refusals by address belong to the route.
        (
            "http-request deny if { path_beg /x/ } !{ src 10.0.0.0/8 }",
            vec!["path = /x/; backend = 9; allow-clients = 10.0.0.0/8", "backend = 9"],
        ),
        // Several lists of addresses are one.
        (
            "acl in src 10.0.0.0/8\n acl in src ::1\n http-request deny if { path_beg /x/ } !in !{ src 10.1.0.1 }",
            vec!["path = /x/; backend = 9; allow-clients = 10.0.0.0/8, ::1, 10.1.0.1", "backend = 9"],
        ),
        (
            "http-request allow if { src 10.0.0.0/8 } || { src ::1 }\n http-request deny",
            vec!["backend = 9; allow-clients = 10.0.0.0/8, ::1"],
        ),
        (
            "http-request allow if { src 10.0.0.0/8 }\n http-request deny if { path_beg /x/ }",
            vec!["path = /x/; backend = 9; allow-clients = 10.0.0.0/8", "backend = 9"],
        ),
        (
            "acl inside src 10.0.0.0/8\n acl inside src ::1\n http-request deny if inside",
            vec!["backend = 9; refuse-clients = 10.0.0.0/8, ::1"],
        ),
    ] {
        let expected: Vec<String> = expected.into_iter().map(ToOwned::to_owned).collect();
        let routes: Vec<_> = routes(rules).into_iter().map(|route| route.replace("\", \"", ", ")).collect();
        assert_eq!(routes, expected, "{rules}");
    }
}

#[test]
fn what_would_let_clients_through_is_refused() {
    for rules in [
        // Some requests that were refused would not be.
        "http-request deny if { hdr(x) y }",
        "http-request deny if { hdr_end(host) .x }",
        // Conditions that are no routes.
        // No route has the beginning of a path with and the rest without regard to case.
        "use_backend a if { path_beg /X } { path_beg -i /x/y }",
        "http-request deny if { path_end .php }",
        "http-request deny if { hdr(user-agent) -m sub bot }",
        "use_backend a if { src 10.0.0.0/8 }",
        "http-request set-header A b if { src 10.0.0.0/8 }",
        "http-request allow if { src 10.0.0.0/8 }\n http-request redirect location /x",
        "http-request deny if { src 10.0.0.0/8 } !{ src 10.0.0.1 }",
        "http-request deny if { path / }",
        // Conditions about what an earlier rule changes.
        "http-request set-path /y%[path]\n http-request deny if { path_beg /x/ }",
        "http-request set-header Host a.x\n use_backend a if { hdr(host) a.x }",
        "http-request set-header X y\n use_backend a if { hdr(x) y }",
        // Names and files that do not exist.
        "http-request deny if gone",
        "use_backend gone",
        "http-request deny if { src -f /gone }",
        "http-request lua.filter",
        "http-request frobnicate",
        "frobnicate",
        "http-request set-header A \"${B}\"",
        "http-request set-header A %[req.hdr(b)]",
        "http-response set-header A b if { res.hdr(c) d }",
    ] {
        let routes = routes(rules);
        assert!(routes.len() == 1 && routes[0].starts_with("refused"), "{rules}: {routes:?}");
    }
}

#[test]
fn independent_conditions_are_bounded() {
    let rules: String = (0..12)
        .map(|at| format!("http-request set-header H{at} 1 if {{ hdr(c{at}) -m found }}\n "))
        .collect();
    let routes = routes(&rules);
    assert!(routes.len() == 1 && routes[0].starts_with("refused frontend f"), "{routes:?}");
}

#[test]
fn many_rules_are_no_recursion() {
    let rules = |what: &dyn Fn(usize) -> String, count: usize| {
        (0..count).map(|at| format!("{}\n ", what(at))).collect::<String>()
    };
    let fields = rules(&|at| format!("http-request set-header H{at} 1 if {{ hdr(c{at}) -m found }}"), 20_000);
    let refused = routes(&fields);
    assert!(refused.len() == 1 && refused[0].starts_with("refused frontend f"), "{}", refused.len());
    let hosts = rules(&|at| format!("use_backend {} if {{ hdr(host) h{at}.x }}", ["a", "b"][at % 2]), 1_500);
    assert_eq!(routes(&hosts).len(), 1_501);
}

#[test]
fn an_exact_name_behind_a_wildcard_does_not_come_first() {
    let (config, _) = converted(
        "listen l\n bind 127.0.0.1:80\n tcp-request content accept if { req.ssl_hello_type 1 }\n \
         use_backend a if { req.ssl_sni -m end .x }\n use_backend b if { req.ssl_sni a.x b.y }\n server s 127.0.0.1:9\n\
         backend a\n server s 127.0.0.1:1\nbackend b\n server s 127.0.0.1:2\n",
    );
    assert!(config.contains("names = [\"*.x\"]") && config.contains("names = [\"b.y\"]"), "{config}");
}

#[test]
fn addresses_without_tls_are_a_service_of_their_own() {
    let (config, notes) = converted(
        "defaults\n mode http\nfrontend f\n bind :80,:8080\n bind :443 ssl crt c.pem\n bind 127.0.0.1:444 ssl crt c.pem\n \
         http-request redirect scheme https unless { ssl_fc }\n default_backend b\nbackend b\n server s 127.0.0.1:1\n",
    );
    assert_eq!(config.matches("[[service]]").count(), 2, "{config}");
    assert!(config.contains("listen = [\"0.0.0.0:80\", \"0.0.0.0:8080\"]"), "{config}");
    assert!(config.contains("listen = [\"0.0.0.0:443\", \"127.0.0.1:444\"]"), "{config}");
    assert_eq!(config.matches("redirect = ").count(), 1, "{config}");
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn conditional_lines_leave_everything_out() {
    let (config, notes) =
        converted("global\n.if defined(X)\n maxconn 5\n.endif\nlisten l\n bind :80\n server s 127.0.0.1:1\n");
    assert!(!config.contains("[[service]]") && config.contains("The service l is not here"), "{config}");
    assert_eq!(notes, ["refused .if defined(X)"]);
}

#[test]
fn defaults_are_those_before_or_those_that_are_named() {
    let (config, _) = converted(
        "defaults one\n mode http\n timeout server 1s\ndefaults two from one\n timeout server 2s\ndefaults\n mode tcp\n\
         listen a from one\n bind :1\n server s 127.0.0.1:1\nlisten b from two\n bind :2\n server s 127.0.0.1:1\n\
         listen c\n bind :3\n server s 127.0.0.1:1\n",
    );
    let lines: Vec<_> = config
        .lines()
        .filter(|line| {
            ["name", "mode", "response-timeout"].iter().any(|key| line.starts_with(&format!("{key} =")))
        })
        .collect();
    assert_eq!(
        lines,
        [
            "name = \"a\"",
            "mode = \"http\"",
            "response-timeout = \"1s\"",
            "name = \"b\"",
            "mode = \"http\"",
            "response-timeout = \"2s\"",
            "name = \"c\""
        ],
        "{config}"
    );
}

#[test]
fn a_backend_without_a_check_is_not_requested_the_page_of_another_one() {
    let text = |second: &str| {
        format!(
            "defaults\n mode http\nfrontend f\n bind :80\n use_backend a if {{ method POST }}\n default_backend b\n\
             backend a\n option httpchk GET /up\n server s 127.0.0.1:1 check\nbackend b\n{second}\n"
        )
    };
    let (config, _) = converted(&text(" option httpchk GET /up\n server s 127.0.0.1:2 check"));
    assert!(config.contains("path = \"/up\""), "{config}");
    for second in [" server s 127.0.0.1:2", " option httpchk GET /other\n server s 127.0.0.1:2 check"] {
        let (config, notes) = converted(&text(second));
        assert!(config.contains("type = \"tcp\"") && !config.contains("/up"), "{config}");
        assert!(notes.contains(&"approximated check".to_owned()), "{notes:?}");
    }
}

#[test]
fn a_folder_has_its_files_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("2.cfg", "listen b\n bind :2\n server s 127.0.0.1:1\n"),
        ("1.cfg", "defaults\n mode http\nlisten a\n bind :1\n server s 127.0.0.1:1\n server t 127.0.0.1:1\n"),
        ("3.old", "frobnicate"),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let imported = import(&[folder.path().to_owned()], Path::new("")).expect("HAProxy reads it");
    let names: Vec<_> =
        imported.config.lines().filter(|line| line.starts_with("name") || line.starts_with("mode")).collect();
    assert_eq!(
        names,
        ["name = \"a\"", "mode = \"http\"", "name = \"b\"", "mode = \"http\""],
        "{}",
        imported.config
    );
    let notes: Vec<_> = imported.notes.iter().map(|note| note.option.as_str()).collect();
    assert_eq!(notes, ["server t 127.0.0.1:1"], "an address is there once");
}

/// Certificates of stores, and those that HAProxy orders.
#[test]
fn a_certificate_has_the_name_of_its_store() {
    let of = |store: &str, bind: &str| {
        converted(&format!(
            "global\n crt-base /g\n{store}\nacme LE\n directory https://a.example/d\n challenge HTTP-01\n map virt@acme\n\
             defaults\n mode http\nfrontend f\n bind :443 ssl {bind}\n default_backend b\nbackend b\n server s 127.0.0.1:80\n"
        ))
    };
    let site = "crt-store site\n crt-base /c\n key-base /k\n load crt a.pem key a.key alias one";
    let ordered = "crt-store\n load crt a.pem alias one acme LE domains \"a.example,b.example\"";
    for (store, bind, expected) in [
        (site, "crt @site/one", "certificate = [{ certificate = \"/c/a.pem\", key = \"/k/a.key\" }]"),
        (site, "crt @site/a.pem", "certificate = [{ certificate = \"/c/a.pem\", key = \"/k/a.key\" }]"),
        (
            "crt-store\n load crt a.pem ocsp a.ocsp",
            "crt a.pem",
            "{ certificate = \"/g/a.pem\", ocsp = \"a.ocsp\" }",
        ),
        (ordered, "crt @/one", "certificate = \"acme\"\nacme-names = [\"a.example\", \"b.example\"]"),
        (ordered, "crt a.pem", "directory = \"https://a.example/d\"\nchallenges = [\"http-01\"]"),
    ] {
        let (config, notes) = of(store, bind);
        assert!(config.contains(expected), "{store} {bind}\n{config}\n{notes:?}");
    }
    for (store, bind) in
        [(site, "crt @site/two"), (ordered, "crt a.pem crt other.pem"), (ordered, "crt other.pem crt a.pem")]
    {
        let (config, notes) = of(store, bind);
        assert!(!config.contains("[[service]]"), "{store} {bind}\n{config}\n{notes:?}");
    }
}
