//! One request as one line of JSON, with the same bounds and in the same printable ASCII as that of a connection.

use handfast_http::http1::Rule;
use handfast_text::calendar::Utc;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::line::{Object, Reason, append_json, shortened};
use super::redaction::Redaction;
use crate::request_record::{RequestRecord, RequestTimes};

/// Appends the line, with its end.
pub(super) fn append(buffer: &mut Vec<u8>, record: &RequestRecord, redaction: &Redaction) {
    append_json(buffer, &Line(record, redaction));
}

/// The fields in the order they are written; those that are not known are left out.
struct Line<'a>(&'a RequestRecord, &'a Redaction);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(record, redaction) = self;
        let connection = &record.connection;
        let mut line = Object(serializer.serialize_map(None)?);
        line.is("time", format_args!("{}", Utc::of(record.at)))?;
        line.is("service", &*connection.service)?;
        line.known("client", connection.client)?;
        line.known("sni", connection.server_name.as_deref())?;
        line.known("version", connection.tls_version)?;
        line.known("client_subject", connection.client_subject.as_deref().map(shortened))?;
        line.is("request", record.id())?;
        line.known("trace", record.trace_id())?;
        line.is("protocol", record.protocol.name())?;
        line.known("user", record.user.as_deref())?;
        line.is("method", record.method())?;
        line.known("host", record.host())?;
        line.is("path", &*redaction.redacted(record.path()))?;
        line.known("status", record.status)?;
        line.known("cache", record.cache)?;
        line.known("compressed", record.coded.map(|(coding, _)| coding.name()))?;
        line.known("bytes_uncompressed", record.coded.map(|(_, bytes)| bytes))?;
        line.known("route", record.route.as_deref())?;
        line.is("seconds", Seconds(&record.seconds))?;
        line.is("bytes_from_client", record.bytes_from_client)?;
        line.is("bytes_to_client", record.bytes_to_client)?;
        line.known("backend", record.backend.as_deref())?;
        line.known("reused", record.is_reused)?;
        line.known("retries", Some(record.retries).filter(|retries| *retries > 0))?;
        line.count("backends_failed", record.backend_failures.count)?;
        line.backend_failures(&record.backend_failures)?;
        line.known("broken_rule", record.broken_rule.map(Rule::name))?;
        line.known("reason", record.failure.as_ref().map(Reason))?;
        line.is("generation", connection.generation)?;
        line.0.end()
    }
}

/// Seconds by step, to the microsecond.
struct Seconds<'a>(&'a RequestTimes);

impl Serialize for Seconds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seconds = Object(serializer.serialize_map(None)?);
        seconds.seconds("hello", self.0.hello)?;
        if !self.0.queue.is_zero() {
            seconds.seconds("queue", self.0.queue)?;
        }
        seconds.seconds("connect", self.0.connect)?;
        seconds.seconds("response", self.0.answer)?;
        seconds.seconds("relay", self.0.relay)?;
        seconds.0.end()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::rc::Rc;
    use std::time::{Duration, UNIX_EPOCH};

    use handfast_http::content_coding::ContentCoding;

    use super::*;
    use crate::cause::Cause;
    use crate::reason::{CloseReason, Side, Step};
    use crate::request_record::{ConnectionFacts, HttpVersion};

    pub(in crate::access_log) fn request(method: &[u8], path: &[u8]) -> RequestRecord {
        let connection = Rc::new(ConnectionFacts {
            service: "web".into(),
            generation: 3,
            client: Some(([192, 0, 2, 7], 50_123).into()),
            server_name: Some("example.org".into()),
            tls_version: Some("TLSv1.3"),
            client_subject: None,
        });
        let record =
            RequestRecord::new(&connection, HttpVersion::Http11, "a1".into(), [method, b"example.org", path]);
        RequestRecord { at: UNIX_EPOCH + Duration::from_secs(1_772_366_400), ..record }
    }

    fn line(record: &RequestRecord) -> String {
        let mut buffer = Vec::new();
        append(&mut buffer, record, &Redaction::default());
        String::from_utf8(buffer).expect("a line is text")
    }

    #[test]
    fn a_compressed_response_has_its_size_before() {
        let mut record = request(b"GET", b"/");
        (record.coded, record.bytes_to_client) = (Some((ContentCoding::Brotli, 4000)), 900);
        let line = line(&record);
        assert!(line.contains("\"compressed\":\"br\",\"bytes_uncompressed\":4000,"), "{line}");
        assert!(line.contains("\"bytes_to_client\":900,"), "{line}");
    }

    #[test]
    fn a_line_has_what_is_known_in_its_order() {
        let mut record = request(b"GET", b"/a?b=c");
        (record.status, record.is_reused, record.backend) =
            (Some(502), Some(true), Some("10.0.0.1:80".into()));
        record.backend_failures.add(&"10.0.0.2:80".into(), Cause::CLOSED_EARLY);
        record.retries = 1;
        record.broken_rule = Some(Rule::HostMissing);
        record.failure = Some(CloseReason::new(Step::Relay, Side::Backend, Cause::CLOSED_EARLY));
        record.seconds.answer = Duration::from_micros(1500);
        assert_eq!(
            line(&record),
            "{\"time\":\"2026-03-01T12:00:00.000Z\",\"service\":\"web\",\"client\":\"192.0.2.7:50123\",\"sni\":\"example.org\",\
             \"version\":\"TLSv1.3\",\"request\":\"a1\",\"protocol\":\"http/1.1\",\"method\":\"GET\",\"host\":\"example.org\",\
             \"path\":\"/a?b=c\",\"status\":502,\"seconds\":{\"hello\":0.000000,\"connect\":0.000000,\"response\":0.001500,\
             \"relay\":0.000000},\"bytes_from_client\":0,\"bytes_to_client\":0,\"backend\":\"10.0.0.1:80\",\"reused\":true,\"retries\":1,\
             \"backends_failed\":1,\"backend_failures\":[{\"backend\":\"10.0.0.2:80\",\"cause\":\"closed-early\"}],\
             \"broken_rule\":\"host-missing\",\
             \"reason\":{\"step\":\"relay\",\"side\":\"backend\",\"cause\":\"closed-early\",\"failed\":true},\"generation\":3}\n"
        );
    }

    #[test]
    fn what_a_client_chose_is_bounded_and_cannot_end_the_line() {
        let record = request(&[b'M'; 100], &[b"/\n\"\x1b[2J\xff".to_vec(), vec![b'a'; 100_000]].concat());
        let line = line(&record);
        assert!(line.len() < 2_000, "{} bytes", line.len());
        assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte) || byte == b'\n'), "{line}");
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let parsed: serde_json::Value = serde_json::from_str(&line).expect("one object");
        assert_eq!(parsed["method"], "M".repeat(16));
        assert!(
            parsed["path"].as_str().is_some_and(|path| path.starts_with("/\n\"\u{1b}[2J\u{fffd}a")),
            "{line}"
        );
    }
}
