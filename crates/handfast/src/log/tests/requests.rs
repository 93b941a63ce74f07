//! Lines of HTTP requests.

use super::*;
use crate::log::request::Request;

const ANSWERED: &str = r#"{"time":"2026-11-21T22:00:40.688Z","service":"web","client":"192.0.2.7:50123","sni":"www.example.org","version":"TLSv1.3","request":"a1","protocol":"h2","method":"GET","host":"www.example.org:8443","path":"/api/users?page=2","status":200,"seconds":{"hello":0.000040,"connect":0.000310,"response":0.001200,"relay":0.000500},"bytes_from_client":0,"bytes_to_client":9000,"backend":"10.0.0.7:80","reused":false,"generation":1}"#;

/// A line of a request that no backend answered.
fn unanswered() -> String {
    ANSWERED
        .replace("\"status\":200", "\"status\":502")
        .replace("10.0.0.7", "10.0.0.8")
        .replace("\"reused\":false", "\"retries\":2,\"reason\":{\"step\":\"connect\",\"side\":\"backend\",\"cause\":\"refused\",\"failed\":true}")
        .replace("/api/users", "/health")
}

fn request(line: &str) -> Request {
    match parse(line.as_bytes()).expect("a line") {
        Entry::Request(request) => *request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_is_one_line() {
    let show =
        |text: &str, columns| line(&parse(text.as_bytes()).expect("a line"), Look { columns, color: false });
    assert_eq!(
        show(ANSWERED, None),
        "11-21 22:00:40.688 192.0.2.7:50123       web      200 GET www.example.org:8443/api/users?page=2, 0 B↑ 8.79 KiB↓, \
         1.51 ms, 2.05 ms → 10.0.0.7:80"
    );
    let cut = show(ANSWERED, Some(120));
    assert!(
        cut.chars().count() <= 120 && cut.ends_with(" → 10.0.0.7:80") && cut.contains("200 GET www"),
        "{cut}"
    );
    assert_eq!(
        show(&unanswered(), Some(60)),
        "11-21 22:00:40.688 192.0.2.7:50123       web      502 GET www.example.org:8443/health?page=2, connect refused: \
         nobody listened at the backend's address (connection refused)"
    );
    let hostile = ANSWERED.replace("/api/users", "/\\u001b[2J\\u202e");
    let shown = show(&hostile, None);
    assert!(!shown.contains(|letter: char| letter.is_control() || letter == '\u{202e}'), "{shown}");
    assert_eq!(request("{\"time\":\"2026-11-21T22:00:40.688Z\",\"request\":\"\"}").status, 0);
}

#[test]
fn requests_are_chosen_by_their_fields() {
    let text = [ANSWERED.to_owned(), unanswered(), SERVED.to_owned()].join("\n");
    let which = |arguments: &[&str]| {
        let all: Vec<&str> = ["-", "--json"].iter().chain(arguments).copied().collect();
        let (shown, skipped) = shown(&all, text.as_bytes());
        assert_eq!(skipped, 0);
        text.lines().map(|line| if shown.contains(line) { 'x' } else { '.' }).collect::<String>()
    };
    let cases: [(&[&str], &str); 19] = [
        (&[], "xxx"),
        (&["--status", "200"], "x.."),
        (&["--status", "5xx"], ".x."),
        (&["--status", "none", "--status", "2xx"], "x.."),
        (&["--path", "/api/"], "x.."),
        (&["--path", "/"], "xx."),
        (&["--host", "WWW.example.org"], "xx."),
        (&["--host", "www.example.org:8443"], "xx."),
        (&["--host", "example.org"], "..."),
        (&["--backend", "10.0.0.8:80"], ".x."),
        (&["--backend", "127.0.0.1:18080"], "..x"),
        (&["--failures"], ".x."),
        (&["--cause", "refused"], ".x."),
        (&["--client", "192.0.2.0/24"], "xx."),
        (&["--service", "web", "--path", "/health"], ".x."),
        (&["--slow", "2049us"], "xxx"),
        (&["--slow", "2051us", "--host", "www.example.org"], "..."),
        // The head was complete at 22:00:40.688, and the response ended 2.01 ms later.
        (&["--since", "2026-11-21T22:00:40.690Z"], "xxx"),
        (&["--since", "2026-11-21T22:00:40.691Z"], "..x"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(which(arguments), expected, "{arguments:?}");
    }
}

#[test]
fn a_status_is_a_number_a_class_or_none() {
    assert_eq!(words(&["--status", "404"]).only.status, [404..=404]);
    assert_eq!(words(&["--status", "4xx"]).only.status, [400..=499]);
    for wrong in ["", "xx", "99", "1000", "10xx", "ok", "5XX"] {
        let typed = ["handfast", "log", "--status", wrong].map(Into::into);
        let error = crate::words::Words::read(typed).expect_err(wrong).to_string();
        assert!(error.contains("a class such as 5xx"), "{wrong}: {error}");
    }
}

#[test]
fn a_summary_counts_requests() {
    let reused = ANSWERED.replace("\"reused\":false", "\"reused\":true");
    let text = [ANSWERED, &reused, &unanswered()].join("\n");
    let (text, _) = shown(&["-", "--summary"], text.as_bytes());
    let expected = "\
no connections

3 requests ended from 2026-11-21 22:00:40 UTC to 2026-11-21 22:00:40 UTC; 1 failed (33 %); 0 B from clients, 26.4 KiB to clients; \
1 of 2 on reused backend connections (50 %); 2 retries

status  requests
200            2  67 %
502            1  33 %

service  requests  errors
web             3       1  33 %

backend      requests  errors
10.0.0.7:80         2       0  0 %
10.0.0.8:80         1       1  100 %

time                    requests     50 %     90 %     99 %   99.9 %  longest
connect to the backend         1 ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\nfirst byte                     3 "), "{text}");
    assert!(text.contains("\nwhole request                  3 "), "{text}");
}
