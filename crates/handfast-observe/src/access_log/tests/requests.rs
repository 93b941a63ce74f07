//! Lines of a connection with HTTP requests, in each form.

use handfast_config::model::LogFormat;

use super::*;
use crate::access_log::request_line::tests::request;

/// Log lines in this form: of a connection and one request of it.
fn logged(format: LogFormat, requests: u64, cause: Cause) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let log = log_to(&path).with_format(format);
    let mut thread = log.for_thread();
    assert_eq!(thread.has_client_fields(), format == LogFormat::Combined);
    thread.write_request(&request(b"GET", b"/"));
    thread.write(&Record { requests, ..record() }, &CloseReason::new(Step::Relay, Side::Client, cause));
    drop(thread);
    log.stop(TIMEOUT);
    fs::read_to_string(&path).expect("the log")
}

#[test]
fn a_connection_with_request_lines_has_its_own_only_where_it_failed() {
    let of_connection = |text: String| parsed(&text).iter().filter(|line| line["request"].is_null()).count();
    assert_eq!(of_connection(logged(LogFormat::Json, 0, Cause::Finished)), 1);
    assert_eq!(of_connection(logged(LogFormat::Json, 1, Cause::Finished)), 0);
    assert_eq!(of_connection(logged(LogFormat::Json, 1, Cause::Truncated)), 1);
}

#[test]
fn only_requests_are_in_the_combined_format() {
    let text = logged(LogFormat::Combined, 2, Cause::Truncated);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("192.0.2.7 - - [01/Mar/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 000"),
        "{text}"
    );
    assert_eq!(parsed(lines[1])[0]["requests"], 2, "{text}");
}

#[test]
fn a_log_that_is_off_needs_no_fields_of_clients() {
    let log = start(&model::AccessLog::Off).expect("nothing can fail").with_format(LogFormat::Combined);
    assert!(!log.for_thread().has_client_fields());
}
