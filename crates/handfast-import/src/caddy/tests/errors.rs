//! Tests of handlers of errors.

use super::super::*;

/// A site with these handlers of errors: the result, and its notes.
fn converted(files: &[&str], routes: &str, errors: &str) -> (Imported, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    for name in files {
        std::fs::write(folder.path().join(name), "page").expect("written");
    }
    let text = format!(
        r#"{{"apps":{{"http":{{"servers":{{"s":{{"listen":["127.0.0.1:80"],"automatic_https":{{"disable":true}},
        "routes":[{routes}],"errors":{{"routes":[{errors}]}}}}}}}}}}}}"#
    );
    std::fs::write(folder.path().join("c"), text).expect("written");
    let imported = import(Path::new("c"), folder.path()).expect("it is JSON");
    let place = format!("{}/", folder.path().display());
    let config = imported.config.replace(&place, "");
    let notes = imported.notes.iter().map(|note| format!("{} {}", note.fate.word(), note.option)).collect();
    (Imported { config, ..imported }, notes)
}

const PROXY: &str = r#"{"handle":[{"handler":"vars","root":"."},{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:1"}]}]}"#;

#[test]
fn handlers_of_errors_become_pages() {
    let file = r#"{"handle":[{"handler":"subroute","routes":[{"group":"g","handle":[{"handler":"rewrite","uri":"@"}]},{"handle":[{"handler":"file_server","hide":["./Caddyfile"]}]}]}]}"#;
    let only = |status: &str, route: &str| {
        route.replacen(
            '{',
            &format!(r#"{{"match":[{{"expression":"{{http.error.status_code}} {status}"}}],"#),
            1,
        )
    };
    let text = r#"{"handle":[{"handler":"static_response","body":"Sorry","headers":{"Content-Type":["text/html"]}}]}"#;
    for (files, errors, expected) in [
        (
            vec!["404.html", "503.html", "x.html"],
            file.replace('@', "/{http.error.status_code}.html"),
            "error-pages = { 404 = \"./404.html\", 503 = \"./503.html\" }",
        ),
        (
            vec![],
            file.replace('@', "/error.html"),
            "error-pages = { 4xx = \"./error.html\", 5xx = \"./error.html\" }",
        ),
        (
            vec![],
            only("== 404", &file.replace('@', "/{http.error.status_code}.html")),
            "error-pages = { 404 = \"./404.html\" }",
        ),
        (vec![], text.to_owned(), "error-pages = { 4xx = \"caddy-error.html\", 5xx = \"caddy-error.html\" }"),
        (
            vec![],
            format!("{},{text}", only("in [404, 410]", &file.replace('@', "/gone.html"))),
            "error-pages = { 404 = \"./gone.html\", 410 = \"./gone.html\", 4xx = \"caddy-error.html\", 5xx = \"caddy-error.html\" }",
        ),
        // The first one has the last word.
        (
            vec![],
            format!(
                "{},{}",
                only(">= 400 && {http.error.status_code} <= 499", text),
                only("== 404", &file.replace('@', "/gone.html"))
            ),
            "error-pages = { 4xx = \"caddy-error.html\" }",
        ),
        (
            vec![],
            format!("{text},{}", only("== 404", &file.replace('@', "/gone.html"))),
            "error-pages = { 4xx = \"caddy-error.html\", 5xx = \"caddy-error.html\" }",
        ),
    ] {
        let (imported, notes) = converted(&files, PROXY, &errors);
        let config = imported.config.replace("\"./", "\"").replace("\".//", "\"");
        assert!(config.contains(&expected.replace("\"./", "\"")), "{errors}\n{config}\n{notes:?}");
    }
}

#[test]
fn what_is_no_page_is_noted() {
    let proxied = r#"{"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:2"}]}]}"#;
    let respond = |keys: &str| format!(r#"{{"handle":[{{"handler":"static_response",{keys}}}]}}"#);
    for errors in [
        proxied.to_owned(),
        respond(r#""body":"{http.error.message}""#),
        respond(r#""body":"Sorry","status_code":200"#),
        r#"{"handle":[{"handler":"file_server","root":"/srv"}]}"#.to_owned(),
        r#"{"handle":[{"handler":"rewrite","uri":"/{http.request.host}.html"},{"handler":"file_server","root":"/srv"}]}"#.to_owned(),
        r#"{"match":[{"path":["/api/*"]}],"handle":[{"handler":"static_response","body":"x"}]}"#.to_owned(),
        r#"{"match":[{"expression":"{http.error.status_code} != 404"}],"handle":[{"handler":"static_response","body":"x"}]}"#.to_owned(),
        r#"{"match":[{"expression":"{http.error.status_code} == 404"}],"handle":[{"handler":"rewrite","uri":"/a.html"}]}"#.to_owned(),
    ] {
        let (imported, notes) = converted(&[], PROXY, &errors);
        assert!(imported.config.contains("[[service]]") && !imported.config.contains("error-pages"), "{}", imported.config);
        assert!(notes.contains(&"approximated errors".to_owned()), "{errors}: {notes:?}");
    }
    let (imported, notes) =
        converted(&[], PROXY, &respond(r#""body":"{http.error.status_code} {http.error.status_text}""#));
    assert!(!imported.config.contains("error-pages"), "{}", imported.config);
    assert!(notes.contains(&"approximated static_response".to_owned()), "{notes:?}");
}

/// `respond` is no error to Caddy, and `error` is one.
#[test]
fn only_errors_have_pages() {
    let errors = r#"{"match":[{"host":["a.x"]}],"handle":[{"handler":"static_response","body":"x"}]}"#;
    let site = |host: &str, handler: &str| {
        format!(
            r#"{{"match":[{{"host":["{host}"]}}],"handle":[{{"handler":"{handler}","status_code":404}}],"terminal":true}}"#
        )
    };
    for (host, handler, has_page) in
        [("a.x", "error", true), ("a.x", "static_response", false), ("b.x", "error", false)]
    {
        let (imported, notes) = converted(&[], &site(host, handler), errors);
        assert!(imported.config.contains("respond = 404"), "{}\n{notes:?}", imported.config);
        assert_eq!(
            imported.config.contains("error-pages"),
            has_page,
            "{host} {handler}\n{}",
            imported.config
        );
    }
}
