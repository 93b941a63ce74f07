//! Tests of the requests that a route matches, and of refused configurations.

mod chance;
mod errors;

use super::*;

/// The new configuration, and the words and options of its notes.
fn converted(server: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c");
    std::fs::write(&file, format!(r#"{{"apps":{{"http":{{"servers":{{"s":{server}}}}}}}}}"#))
        .expect("written");
    let imported = import(&file, Path::new("")).expect("it is JSON");
    let notes = imported.notes.iter().map(|note| format!("{} {}", note.fate.word(), note.option));
    (imported.config.clone(), notes.collect())
}

/// The routes of a server that listens in plain text, a line each, or what was refused.
fn routes(routes: &str) -> Vec<String> {
    let proxy =
        |port: u16| format!(r#"{{"handler":"reverse_proxy","upstreams":[{{"dial":"127.0.0.1:{port}"}}]}}"#);
    let routes = routes
        .replace("@A", &proxy(1))
        .replace("@B", &proxy(2))
        .replace("@403", r#"{"handler":"static_response","status_code":403}"#);
    let (config, notes) = converted(&format!(
        r#"{{"listen":["127.0.0.1:8080"],"automatic_https":{{"disable":true}},"routes":[{routes}]}}"#
    ));
    let mut lines: Vec<String> = notes.into_iter().filter(|note| note.starts_with("refused")).collect();
    for line in config.lines().skip_while(|line| *line != "[[service.route]]").filter(|line| !line.is_empty())
    {
        match (line, lines.last_mut()) {
            ("[[service.route]]", _) => lines.push(String::new()),
            (line, Some(last)) => {
                let line =
                    line.replace("[\"127.0.0.1:", "").replace("\"]", "").replace("[\"", "").replace('"', "");
                last.push_str(&format!("{}{line}", if last.is_empty() { "" } else { "; " }));
            }
            _ => {}
        }
    }
    lines
}

#[test]
fn routes_run_in_their_order() {
    for (text, expected) in [
        (r#"{"handle":[@A]}"#, vec!["backend = 1"]),
        // No handler answers: an empty 200.
        (
            r#"{"match":[{"method":["POST"]}],"handle":[@A]}"#,
            vec!["methods = POST; backend = 1", "respond = 200"],
        ),
        // Of a group, one.
        (
            r#"{"group":"g","match":[{"method":["POST"]}],"handle":[{"handler":"headers","request":{"set":{"X":["1"]}}}]},
               {"group":"g","handle":[{"handler":"headers","request":{"set":{"X":["2"]}}}]},{"handle":[@A]}"#,
            vec![
                "methods = POST; backend = 1; set-request-headers = X: 1",
                "backend = 1; set-request-headers = X: 2",
            ],
        ),
        // Without one, both; a terminal route is the last.
        (
            r#"{"match":[{"method":["POST"]}],"handle":[{"handler":"headers","request":{"set":{"X":["1"]}}}]},
               {"match":[{"host":["a.x"]}],"handle":[@B],"terminal":true},{"handle":[@A]}"#,
            vec![
                "hosts = a.x; methods = POST; backend = 2; set-request-headers = X: 1",
                "methods = POST; backend = 1; set-request-headers = X: 1",
                "hosts = a.x; backend = 2",
                "backend = 1",
            ],
        ),
        // A terminal route is the last one for the routes around it, too; and a group is one wherever its routes are.
        (
            r#"{"handle":[{"handler":"subroute","routes":[{"match":[{"method":["POST"]}],"handle":[],"terminal":true}]}]},{"handle":[@A]}"#,
            vec!["methods = POST; respond = 200", "backend = 1"],
        ),
        (
            r#"{"group":"g","handle":[{"handler":"subroute","routes":[{"group":"g","handle":[@B]}]}]},{"handle":[@A]}"#,
            vec!["backend = 1"],
        ),
        // A subroute that answers nothing goes on behind it.
        (
            r#"{"handle":[{"handler":"subroute","routes":[{"match":[{"path":["/a/*"]}],"handle":[@A]}]}]},{"handle":[@B]}"#,
            vec!["path = /a/; ignore-case = true; backend = 1", "backend = 2"],
        ),
        (
            r#"{"match":[{"path":["/a/*"]}],"handle":[{"handler":"rewrite","strip_path_prefix":"/a"},@A]},{"handle":[@B]}"#,
            vec!["path = /a/; ignore-case = true; backend = 1; rewrite-path = /", "backend = 2"],
        ),
        (
            r#"{"match":[{"path":["/a"]}],"handle":[@A]},{"handle":[@B]}"#,
            vec![
                "path = /a/; ignore-case = true; backend = 2",
                "path = /a; ignore-case = true; backend = 1",
                "backend = 2",
            ],
        ),
        // The field of the first handler that is deferred wins; without an answer it is not sent.
        (
            r#"{"handle":[{"handler":"headers","response":{"deferred":true,"set":{"X":["1"]}}}]},
               {"handle":[{"handler":"headers","response":{"deferred":true,"set":{"X":["2"]}}}]},{"match":[{"method":["POST"]}],"handle":[@A]}"#,
            vec!["methods = POST; backend = 1; set-response-headers = X: 1", "respond = 200"],
        ),
        // One that is not deferred is sent in addition to that of the backend, and is the only one of a fixed response.
        (
            r#"{"handle":[{"handler":"headers","response":{"set":{"X":["1"]}}}]},{"match":[{"method":["POST"]}],"handle":[@A]},{"handle":[{"handler":"static_response"}]}"#,
            vec![
                "methods = POST; backend = 1; add-response-headers = X: 1",
                "respond = 200; set-response-headers = X: 1",
            ],
        ),
        // Addresses refuse.
        (
            r#"{"match":[{"remote_ip":{"ranges":["10.0.0.0/8"]}}],"handle":[@A]},{"handle":[@403]}"#,
            vec!["backend = 1; allow-clients = 10.0.0.0/8"],
        ),
        (
            r#"{"match":[{"not":[{"remote_ip":{"ranges":["10.0.0.0/8"]}},{"client_ip":{"ranges":["::1"]}}]}],"handle":[@403]},{"handle":[@A]}"#,
            vec!["backend = 1; allow-clients = 10.0.0.0/8, ::1"],
        ),
        (
            r#"{"match":[{"remote_ip":{"ranges":["10.0.0.0/8"]}}],"handle":[@403]},{"handle":[@A]}"#,
            vec!["backend = 1; refuse-clients = 10.0.0.0/8"],
        ),
        (
            r#"{"match":[{"host":["a.x"]}],"handle":[{"handler":"subroute","routes":[
                 {"match":[{"not":[{"remote_ip":{"ranges":["10.0.0.0/8"]}}]}],"handle":[@403]},{"handle":[@A]}]}],"terminal":true},{"handle":[@B]}"#,
            vec!["hosts = a.x; backend = 1; allow-clients = 10.0.0.0/8", "backend = 2"],
        ),
    ] {
        let expected: Vec<String> = expected.into_iter().map(ToOwned::to_owned).collect();
        assert_eq!(routes(text), expected, "{text}");
    }
}

#[test]
fn what_would_let_clients_through_is_refused() {
    for text in [
        // Caddy compares paths without regard to case, and decoded: /ADMIN/ would be let in.
        r#"{"match":[{"path":["/admin/*"]}],"handle":[@403]},{"handle":[@A]}"#,
        r#"{"match":[{"path":["/admin/*"]}],"handle":[{"handler":"authentication","providers":{"http_basic":{"accounts":[]}}}]},{"handle":[@A]}"#,
        r#"{"match":[{"not":[{"path":["/admin/*"]}]}],"handle":[@A]},{"handle":[@403]}"#,
        r#"{"match":[{"path":["/admin/*"]}],"handle":[{"handler":"subroute","routes":[{"match":[{"remote_ip":{"ranges":["10.0.0.0/8"]}}],"handle":[@A]}]}]},{"handle":[@B]}"#,
        // Conditions that are no routes.
        r#"{"match":[{"path":["*.php"]}],"handle":[@A]}"#,
        r#"{"match":[{"expression":"true"}],"handle":[@A]}"#,
        r#"{"match":[{"header":{"X":["a*"]}}],"handle":[@A]}"#,
        r#"{"match":[{"remote_ip":{"ranges":["10.0.0.0/8"]}}],"handle":[@A]},{"handle":[@B]}"#,
        r#"{"match":[{"host":["{env.HOST}"]}],"handle":[@A]}"#,
        // Conditions about something that an earlier handler changes.
        r#"{"handle":[{"handler":"rewrite","uri":"/b{http.request.uri}"}]},{"match":[{"path":["/a/*"]}],"handle":[@A]}"#,
        // Handlers and keys that are not known.
        r#"{"handle":[{"handler":"file_server"}]}"#,
        r#"{"handle":[{"handler":"frobnicate"},@A]}"#,
        r#"{"handle":[{"handler":"reverse_proxy","frobnicate":1,"upstreams":[{"dial":"127.0.0.1:1"}]}]}"#,
        r#"{"handle":[{"handler":"headers","request":{"set":{"A":["{http.request.header.B}"]}}},@A]}"#,
    ] {
        let routes = routes(text);
        assert!(
            routes.iter().all(|route| route.starts_with("refused")) && !routes.is_empty(),
            "{text}: {routes:?}"
        );
    }
}

#[test]
fn many_routes_are_no_recursion() {
    let many = |route: &dyn Fn(usize) -> String| (0..20_000).map(route).collect::<Vec<_>>().join(",");
    let fields = many(&|at| {
        format!(
            r#"{{"match":[{{"header":{{"C{at}":["*"]}}}}],"handle":[{{"handler":"headers","request":{{"set":{{"H":["1"]}}}}}}]}}"#
        )
    });
    assert_eq!(routes(&fields), ["refused routes"]);
    let clients = many(&|at| {
        format!(
            r#"{{"match":[{{"remote_ip":{{"ranges":["10.{}.{}.1"]}}}}],"handle":[@403]}}"#,
            at / 250,
            at % 250
        )
    });
    assert_eq!(routes(&format!("{clients},{{\"handle\":[@A]}}")), ["refused routes"]);
}

#[test]
fn a_file_that_is_no_json_gets_a_hint_how_to_convert_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("Caddyfile");
    std::fs::write(&file, "example.org {\n}\n").expect("written");
    let error = import(&file, Path::new("")).expect_err("no JSON").to_string();
    assert!(error.contains("Caddyfile:1: expected Caddy's JSON") && error.contains("caddy adapt"), "{error}");
}

#[test]
fn sites_have_certificates_and_redirects() {
    let (config, _) = converted(
        r#"{"listen":[":443"],"routes":[{"match":[{"host":["a.example.org"]}],"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:1"}]}],"terminal":true}]}"#,
    );
    for expected in [
        "certificate = \"acme\"",
        "[acme]",
        "listen = [\"*:80\"]",
        "redirect = \"https\"",
        "listen = [\"*:443\"]",
    ] {
        assert!(config.contains(expected), "{expected}\n{config}");
    }
    let (config, notes) = converted(
        r#"{"listen":[":443"],"routes":[{"match":[{"host":["a.internal"]}],"handle":[{"handler":"static_response"}]}]}"#,
    );
    assert!(
        notes.iter().any(|note| note == "refused automatic_https")
            && config.contains("The service s is not here"),
        "{notes:?}"
    );
}

#[test]
fn placeholders_become_variables() {
    for (text, expected) in [
        ("a {http.request.host} {http.request.uri}", Ok("a {host} {target}")),
        ("\\{a}", Ok("{{a}}")),
        ("{http.request.port}", Ok("443")),
        ("{env.X}", Err("{env.X}")),
        ("{a", Err("{a")),
    ] {
        assert_eq!(
            template(text, Some(443)).as_deref().map_err(|unknown| unknown.0.as_str()),
            expected,
            "{text}"
        );
    }
}

#[test]
fn a_backend_without_a_check_is_not_requested_the_page_of_another_one() {
    let checked = r#"{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:1"}],"health_checks":{"active":{"uri":"/up"}}}"#;
    let server = |second: &str| {
        format!(
            r#"{{"listen":["127.0.0.1:8080"],"automatic_https":{{"disable":true}},"routes":[{{"match":[{{"host":["a.x"]}}],"handle":[{checked}],"terminal":true}},{{"handle":[{second}]}}]}}"#
        )
    };
    assert!(converted(&server(checked)).0.contains("path = \"/up\""));
    let (config, _) =
        converted(&server(r#"{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:2"}]}"#));
    assert!(config.contains("type = \"tcp\"") && !config.contains("/up"), "{config}");
}

#[test]
fn settings_of_names_do_not_become_those_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c");
    let text = r#"{"apps":{"http":{"servers":{"s":{"listen":[":8443"],"routes":[{"handle":[{"handler":"static_response"}]}],
        "tls_connection_policies":[{"match":{"sni":["a.x"]}},{"match":{"sni":["b.x"]},"protocol_min":"tls1.3"},
        {"client_authentication":{"mode":"require_and_verify","trusted_ca_certs_pem_files":["/c/ca.pem"]}}]}}},
        "tls":{"certificates":{"load_files":[{"certificate":"/c/a.pem","key":"/c/a.key"}]}}}}"#;
    std::fs::write(&file, text).expect("written");
    let config = import(&file, Path::new("")).expect("it is JSON").config;
    assert_eq!(config.matches("mode = \"off\"").count(), 2, "{config}");
    assert_eq!(config.matches("mode = \"require\"").count(), 1, "{config}");
}

/// A transport is that of a service, so sites with different ones are refused, whichever is first.
#[test]
fn the_transport_of_one_site_is_not_that_of_others() {
    let site = |host: &str, transport: &str| {
        format!(
            r#"{{"match":[{{"host":["{host}"]}}],"handle":[{{"handler":"reverse_proxy","upstreams":[{{"dial":"127.0.0.1:1"}}]{transport}}}]}}"#
        )
    };
    let written = |transport: &str| format!(r#","transport":{{"protocol":"http",{transport}}}"#);
    let converted = |first: &str, second: &str| {
        let routes = format!("{},{}", site("a.example", first), site("b.example", second));
        converted(&format!(
            r#"{{"listen":["127.0.0.1:8080"],"automatic_https":{{"disable":true}},"routes":[{routes}]}}"#
        ))
    };
    for (transport, expected) in [
        (r#""versions":["h2c","2"]"#, "backend-version = \"h2\""),
        (r#""proxy_protocol":"v2""#, "send = \"v2\""),
        (r#""local_address":"127.0.0.2""#, "source = \"127.0.0.2\""),
    ] {
        let transport = written(transport);
        let (config, notes) = converted(&transport, &transport);
        assert!(config.contains(expected) && !notes.contains(&"refused transport".to_owned()), "{config}");
        for (first, second) in [(transport.as_str(), ""), ("", transport.as_str())] {
            let (config, notes) = converted(first, second);
            assert!(notes.contains(&"refused transport".to_owned()), "{notes:?}");
            assert!(!config.contains("[[service]]"), "{config}");
        }
    }
}
