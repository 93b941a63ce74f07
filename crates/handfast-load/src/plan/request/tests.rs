//! Requests as people write them.

use super::*;

fn base() -> Request {
    Request { headers: vec![header("X-All: 1").unwrap()], ..Request::default() }
}

fn parse(line: &str) -> Result<Request, PlanError> {
    super::parse(line, &base(), "https://a.example:8443")
}

#[test]
fn a_line_has_weight_method_and_path_as_far_as_they_are_given() {
    let parsed = |line: &str| parse(line).map(|request| (request.weight, request.name()));
    assert_eq!(parsed("/a?b=c"), Ok((1, "GET /a?b=c".into())));
    assert_eq!(parsed("9 /a"), Ok((9, "GET /a".into())));
    assert_eq!(parsed("POST /a"), Ok((1, "POST /a".into())));
    assert_eq!(parsed(" 3  DELETE  https://a.example:8443/x/y#z "), Ok((3, "DELETE /x/y".into())));
    assert_eq!(parsed("https://A.EXAMPLE:8443"), Ok((1, "GET /".into())));
    assert_eq!(parse("/a").unwrap().headers, base().headers, "what all have, this one has too");
}

#[test]
fn a_body_for_all_is_not_for_a_method_that_has_none() {
    let base = Request { method: "POST".into(), body: Some(Body::Text("{}".into())), ..Request::default() };
    let has_body = |line: &str| super::parse(line, &base, "https://a").unwrap().body.is_some();
    assert!(has_body("/a") && has_body("PUT /a") && has_body("2 PATCH /a"));
    assert!(!has_body("GET /a") && !has_body("2 HEAD /a") && !has_body("DELETE /a"));
    let own = parse_file("DELETE /a\n@own\n", &base, "https://a").unwrap();
    assert_eq!(own[0].body, Some(Body::File("own".into())));
}

#[test]
fn a_line_that_is_wrong_reports_the_reason() {
    let wrong = |line: &str| parse(line).unwrap_err().to_string();
    assert!(wrong("").contains("expected `[WEIGHT] [METHOD] PATH`"));
    assert!(wrong("a").contains("begins with /"));
    assert!(wrong("0 /").contains("invalid weight"));
    assert!(wrong("post /").contains("expected POST"), "{}", wrong("post /"));
    assert!(wrong("CONNECT /").contains("tunnel"));
    assert!(wrong("1 GET x /").contains("unexpected `x`"));
    assert!(wrong("https://b.example/").contains("one run has one target"));
    assert!(wrong("http://a.example:8443/").contains("one run has one target"));
    assert!(wrong("/ä").contains("%XX"));
    let at = |line: &str| super::parse(line, &base(), "http://a.example").map(|request| request.path);
    assert_eq!(at("HTTP://A.example:80/x"), Ok("/x".to_owned()));
    assert!(at("https://a.example/x").is_err() && at("http://a.example:443/x").is_err());
}

#[test]
fn the_targets_of_vegeta_are_understood() {
    let text = "# a comment\n\nGET https://a.example:8443/one\nX-Account-ID: 99\n\nPOST https://a.example:8443/two\n\
                Content-Type: text/plain\nX-All: 2\n@/tmp/body\n/three\n";
    let requests = parse_file(text, &base(), "https://a.example:8443").unwrap();
    let names: Vec<String> = requests.iter().map(Request::name).collect();
    assert_eq!(names, ["GET /one", "POST /two", "GET /three"]);
    assert_eq!(requests[0].headers.len(), 2);
    assert_eq!(
        requests[1].headers[0].value.as_deref(),
        Some("2"),
        "its own header instead of the common one"
    );
    assert_eq!(requests[1].body, Some(Body::File("/tmp/body".into())));
    assert_eq!(requests[2].body, None);
    let wrong = parse_file("X: 1\nnothing\nY: 2\n@z\n/a\nHost\n", &base(), "a").unwrap_err();
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(wrong[0].to_string().starts_with("line 1: it belongs to no request"), "{wrong:?}");
    assert!(wrong[1].to_string().starts_with("line 2: invalid path `***`"), "{wrong:?}");
    assert!(wrong[2].to_string().starts_with("line 6: "), "{wrong:?}");
    assert!(parse_file("# x\n", &base(), "a").unwrap_err()[0].to_string().contains("no request"));
}

#[test]
fn framing_is_not_for_the_user_and_secrets_are_never_shown() {
    for name in ["Content-Length", "transfer-encoding", "Connection", "Upgrade", "TE", "Expect"] {
        let why = header(&format!("{name}: 5")).unwrap_err().to_string();
        assert!(why.contains("cannot be set: ") && why.contains("RFC"), "{why}");
    }
    assert!(header("no colon").unwrap_err().to_string().contains("Name: value"));
    assert!(header("a b: c").unwrap_err().to_string().contains("invalid header name"));
    let why = header("Authorization: geheim\u{7}").unwrap_err().to_string();
    assert!(!why.contains("geheim"), "{why}");
    assert_eq!(header("X-Empty:").unwrap().value.as_deref(), Some(""));
    for name in [
        "Authorization",
        "Proxy-Authorization",
        "COOKIE",
        "X-Api-Key",
        "X_API_KEY",
        "X-Auth-Token",
        "X-Session",
    ] {
        assert!(handfast_report::plan::request::is_secret(name), "{name}");
    }
    assert!(
        ["accept", "content-type", "host"]
            .iter()
            .all(|name| !handfast_report::plan::request::is_secret(name))
    );
    let secret = header("Authorization: Bearer geheim").unwrap();
    assert!(!format!("{secret:?}").contains("geheim"));
    let request = Request { headers: vec![secret], ..Request::default() }.without_secrets();
    assert_eq!(request.headers[0].value, None);
    assert!(
        mistakes(&request)[0] == PlanError::HeaderNotKept("authorization".into()),
        "{:?}",
        mistakes(&request)
    );
}
