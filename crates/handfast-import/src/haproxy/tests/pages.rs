//! Tests of pages for errors, and of responses from files.

use super::super::*;

/// Files in a folder, and a frontend in it with these lines: the result, and its notes.
fn converted(
    files: &[(&str, &str)],
    frontend: &str,
    backend: &str,
    sections: &str,
) -> (Imported, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let text = format!(
        "defaults\n mode http\nfrontend f\n bind 127.0.0.1:80\n{frontend}\n default_backend b\nbackend b\n{backend}\n server s 127.0.0.1:1\n{sections}\n"
    );
    std::fs::write(folder.path().join("h"), text).expect("written");
    let imported = import(&["h".into()], folder.path()).expect("HAProxy reads it");
    let notes = imported.notes.iter().map(|note| format!("{} {}", note.fate.word(), note.option)).collect();
    (imported, notes)
}

const SORRY: &str = "HTTP/1.0 503 Service Unavailable\r\nCache-Control: no-cache\r\nContent-Type: text/html\r\nX-A: b\r\n\r\n<p>Sorry</p>\n";

#[test]
fn the_content_of_a_file_becomes_a_page() {
    let files = [("503.http", SORRY), ("504.http", "HTTP/1.0 504 Late\nContent-Type: text/plain\n\nLate\n")];
    let (imported, notes) = converted(&files, " errorfile 503 503.http\n errorfile 504 504.http", "", "");
    assert!(
        imported.config.contains("[service.http]\n")
            && imported
                .config
                .contains("error-pages = { 502 = \"haproxy-503.html\", 503 = \"haproxy-503.html\", 504 = \"haproxy-504.txt\" }"),
        "{}\n{notes:?}",
        imported.config
    );
    assert_eq!(imported.config.matches("error-pages").count(), 1, "{}", imported.config);
    let files: Vec<_> = imported.files.iter().map(|file| (&*file.name, &*file.content)).collect();
    assert_eq!(files, [("haproxy-503.html", "<p>Sorry</p>\n"), ("haproxy-504.txt", "Late\n")]);
    assert!(notes.contains(&"approximated errorfile 503 503.http".to_owned()), "{notes:?}");
    let text: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    assert!(text.contains("X-A are not sent") && text.contains("the page haproxy-503.html"), "{text}");
}

#[test]
fn pages_of_a_backend_come_before_those_of_its_frontend() {
    let files = [("a", SORRY), ("b", &*SORRY.replace("Sorry", "Other"))];
    let (imported, _) = converted(
        &files,
        " errorfile 503 a\n http-request deny if { path_beg /x/ }",
        " errorfiles e 503",
        "http-errors e\n errorfile 503 b\n errorfile 404 b",
    );
    let config = &imported.config;
    assert!(
        config.contains(
            "respond = 403\nerror-pages = { 502 = \"haproxy-503.html\", 503 = \"haproxy-503.html\" }"
        ),
        "{config}"
    );
    assert!(
        config.contains("error-pages = { 502 = \"haproxy-503-2.html\", 503 = \"haproxy-503-2.html\" }"),
        "{config}"
    );
    assert!(!config.contains("404"), "{config}");
}

#[test]
fn a_page_that_cannot_be_written_is_noted() {
    let (imported, notes) = converted(
        &[("empty", "HTTP/1.0 408 Late\r\n\r\n"), ("none", "Sorry")],
        " errorfile 408 empty\n errorfile 503 none\n errorfile 504 gone\n errorfile 200 empty\n http-error status 500 lf-string %[src]\n http-error status 502 default-errorfiles",
        "",
        "",
    );
    assert!(
        !imported.config.contains("error-pages") && imported.config.contains("[[service]]"),
        "{}",
        imported.config
    );
    for option in [
        "errorfile 408 empty",
        "errorfile 503 none",
        "errorfile 504 gone",
        "errorfile 200 empty",
        "http-error status 500 lf-string %[src]",
        "http-error status 502 default-errorfiles",
    ] {
        assert!(notes.contains(&format!("approximated {option}")), "{option}: {notes:?}");
    }
}

#[test]
fn responses_have_their_files() {
    let files = [("page", "<p>100 %</p>"), ("format", "%[src]"), ("503.http", SORRY)];
    let section = "http-errors e\n errorfile 503 503.http";
    for (action, expected) in [
        (
            "return status 200 content-type text/html file page",
            "respond = { status = 200, content = \"<p>100 %</p>\", type = \"text/html\" }",
        ),
        ("return status 200 content-type text/plain lf-string \"100 %%\"", "content = \"100 %\""),
        (
            "return errorfile 503.http",
            "respond = { status = 503, content = \"<p>Sorry</p>\\n\", type = \"text/html\" }\nadd-response-headers = [\"X-A: b\"]",
        ),
        ("return status 503 errorfiles e", "respond = { status = 503, content = \"<p>Sorry</p>\\n\""),
        ("deny deny_status 503 errorfiles e", "respond = { status = 503, content"),
        ("return status 200 content-type text/plain string x hdr A b", "add-response-headers = [\"A: b\"]"),
    ] {
        let (imported, notes) =
            converted(&files, &format!(" http-request {action} if {{ path_beg /x/ }}"), "", section);
        let text = imported.config.replace("'''\n<p>Sorry</p>\n'''", "\"<p>Sorry</p>\\n\"");
        let text = text.replace("\"\"\"\n<p>Sorry</p>\n\"\"\"", "\"<p>Sorry</p>\\n\"");
        assert!(text.contains(expected), "{action}\n{text}\n{notes:?}");
    }
    for action in [
        "return status 200 content-type text/html file gone",
        "return status 200 content-type text/html lf-file format",
        "return status 200 content-type text/html lf-string %[src]",
        "return errorfile page",
    ] {
        let (imported, notes) =
            converted(&files, &format!(" http-request {action} if {{ path_beg /x/ }}"), "", "");
        assert!(!imported.config.contains("[[service]]"), "{action}\n{}", imported.config);
        assert!(notes.iter().any(|note| note.starts_with("refused http-request return")), "{notes:?}");
    }
}

/// A response without content has no page, as in HAProxy; a refusal has one.
#[test]
fn only_errors_have_pages() {
    let files = [("a", SORRY)];
    let rules = " errorfile 503 a\n http-request return status 503 if { path_beg /x/ }\n http-request deny deny_status 503 if { path_beg /y/ }";
    let (imported, _) = converted(&files, rules, "", "");
    let pages: Vec<_> = imported
        .config
        .split("[[service.route]]")
        .skip(1)
        .map(|route| route.contains("error-pages"))
        .collect();
    assert_eq!(pages, [false, true, true], "{}", imported.config);
}

#[test]
fn errors_of_backends_have_the_page_of_their_status() {
    let files = [("a", SORRY)];
    let of = |frontend: &str, backend: &str| converted(&files, frontend, backend, "");
    let page = "http-response return status 404 content-type text/html string Gone if";
    for condition in ["{ status 404 }", "{ res.status 404 }"] {
        let (imported, notes) = of("", &format!(" {page} {condition}"));
        let expected = "error-pages = { 404 = \"haproxy-404.html\" }";
        assert!(imported.config.contains(expected), "{}\n{notes:?}", imported.config);
        assert!(imported.config.contains("error-pages-for-backends = true"), "{}", imported.config);
    }
    let (imported, _) = of("", &format!(" acl gone status 404\n {page} gone"));
    assert!(imported.config.contains("error-pages-for-backends = true"), "{}", imported.config);
    for (frontend, backend) in [
        ("", format!(" {page} {{ status 410 }}")),
        ("", format!(" {page} {{ status 404 410 }}")),
        ("", format!(" {page} !{{ status 404 }}")),
        ("", " http-response return status 404 content-type text/html string Gone".to_owned()),
        ("", " http-response return status 200 if { status 404 }".to_owned()),
        // It would replace errors of backends, too.
        (" errorfile 503 a", format!(" {page} {{ status 404 }}")),
    ] {
        let (imported, notes) = of(frontend, &backend);
        assert!(!imported.config.contains("[[service]]"), "{backend}\n{}", imported.config);
        assert!(notes.iter().any(|note| note.starts_with("refused http-response return")), "{notes:?}");
    }
}
