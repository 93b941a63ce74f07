//! Files and pages for errors: what is read, and what cannot go with them.

use handfast_http::content_coding::ContentCoding;

use super::super::super::model::{ErrorPages, ErrorStatus, Files, RouteAction};
use super::http::{http, issues, shop};
use super::*;

#[test]
fn files_are_those_of_a_route_or_of_all_requests_without_one() {
    let plain = |lines: &str| {
        format!("[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:80\"\nclient-tls = false\n{lines}\n")
    };
    let service =
        good(&plain("files = \"/srv/www\"\n[[service.route]]\npath = \"/a\"\nsecurity-headers = true"));
    let http = service.services[0].http.as_ref().expect("`files` means HTTP mode");
    let [own, last] = &http.routes[..] else { panic!("{:?}", http.routes) };
    let RouteAction::Files(files) = &last.action else { panic!("{last:?}") };
    let index: Vec<Box<str>> = vec!["index.html".into()];
    assert_eq!((files.folder.to_str(), &files.index), (Some("/srv/www"), &index));
    assert_eq!(
        (&own.action, own.rules.is_empty()),
        (&last.action, false),
        "a route without an action has the files too"
    );
    assert!(last.matches_all() && &*last.name == "files");
    let table = "[[service.route]]\npath = \"/a\"\nrewrite-path = \"/\"\nresponse-timeout = \"5s\"\nfiles = { folder = \"/srv\", \
                 index = [], extension = \".html\", fallback = \"/a/b.html\", precompressed = [\"gzip\", \"br\"] }";
    let mut http = super::http::http(table);
    let RouteAction::Files(files) = http.routes.remove(0).action else { panic!("it has files") };
    let expected = Files {
        folder: "/srv".into(),
        index: Vec::new(),
        extension: Some(".html".into()),
        fallback: Some("a/b.html".into()),
        precompressed: vec![ContentCoding::Gzip, ContentCoding::Brotli],
    };
    assert_eq!(*files, expected);
    for (lines, expected) in [
        (
            "files = \"/srv\"\nbackend = \"127.0.0.1:81\"",
            "error 5 a service has a `backend` or `files`: its requests get one response",
        ),
        (
            "files = \"/srv\"\nmode = \"tcp\"",
            "error 5 `files` has no effect: the service relays bytes (`mode = \"tcp\"`)",
        ),
        ("files = \"\"", "error 5 the path is empty"),
        ("files = {}", "error 5 { folder = …, fallback = … } has no `folder`"),
        ("files = 1", "error 5 expected a path of a folder"),
        (
            "files = { folder = \"/srv\", index = \".htaccess\" }",
            "error 5 `.htaccess` is no name of a file that is served",
        ),
        (
            "files = { folder = \"/srv\", index = \"a/b\" }",
            "error 5 `a/b` is no name of a file that is served",
        ),
        (
            "files = { folder = \"/srv\", extension = \"html\" }",
            "error 5 `html` is no extension of files | write `.html`",
        ),
        (
            "files = { folder = \"/srv\", fallback = \"a.html\" }",
            "error 5 `a.html` is no file below the folder | write `/a.html`",
        ),
        (
            "files = { folder = \"/srv\", fallback = \"/../a\" }",
            "error 5 `/../a` is no file below the folder",
        ),
        (
            "files = { folder = \"/srv\", precompressed = \"deflate\" }",
            "error 5 `deflate` is not one of the possible values",
        ),
        (
            "files = \"/srv\"\n[service.http]\nretries = 2",
            "error 7 `retries` has no effect: no request goes to a backend",
        ),
    ] {
        let issues = issues(&plain(lines));
        assert!(issues.iter().any(|issue| issue.starts_with(expected)), "{lines}: {issues:#?}");
    }
    for (lines, expected) in [
        ("files = \"/srv\"\nredirect = \"https\"", "a route has a `redirect` or a `files`"),
        ("files = \"/srv\"\nset-request-headers = \"a: b\"", "`set-request-headers` has no effect"),
        ("files = \"/srv\"\nretries = 2", "`retries` has no effect"),
        ("files = \"/srv\"\nmirror = { to = \"10.0.0.9:80\" }", "`mirror` has no effect"),
    ] {
        let issues = issues(&shop(&format!("[[service.route]]\n{lines}")));
        assert!(issues.iter().any(|issue| issue.contains(expected)), "{lines}: {issues:#?}");
    }
    good(&plain("files = \"/srv\"\n[service.http]\nresponse-timeout = \"5s\""));
}

#[test]
fn error_pages_are_those_of_a_route_or_of_its_service() {
    let http = http(
        "[service.http]\nerror-pages = { \"5xx\" = \"5.html\", 502 = \"/e/502.html\", \"4xx\" = \"4.html\" }\n\
         error-pages-for-backends = true\n[[service.route]]\npath = \"/b\"\nerror-pages = { 404 = \"404.html\" }\n\
         [[service.route]]\npath = \"/a\"\nerror-pages-for-backends = false",
    );
    let statuses = |pages: &ErrorPages| pages.pages.iter().map(|(status, _)| *status).collect::<Vec<_>>();
    let of_service = [ErrorStatus::One(502), ErrorStatus::Class(4), ErrorStatus::Class(5)];
    assert_eq!(statuses(&http.error_pages), of_service, "a status is found before its class");
    let resolved = |route: usize| http.routes[route].error_pages.resolve(&http.error_pages);
    let (first, second) = (resolved(0), resolved(1));
    assert_eq!((statuses(&first), first.replace_backends), (vec![ErrorStatus::One(404)], true));
    assert_eq!((statuses(&second), second.replace_backends), (of_service.to_vec(), false));
    for (lines, expected) in [
        ("error-pages = \"a.html\"", "error 8 expected a table of paths by status"),
        ("error-pages = { 200 = \"a.html\" }", "error 8 this is no status of an error"),
        ("error-pages = { 6xx = \"a.html\" }", "error 8 this is no status of an error"),
        ("error-pages = { 404 = 1 }", "error 8 expected a path"),
        ("error-pages-for-backends = true", "warning 8 `error-pages-for-backends` has no effect"),
    ] {
        let issues = issues(&shop(&format!("[service.http]\n{lines}")));
        assert!(issues.iter().any(|issue| issue.starts_with(expected)), "{lines}: {issues:#?}");
    }
}
