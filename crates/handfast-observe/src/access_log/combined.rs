//! One request as one line of the combined log format: `host ident user [time] "request" status bytes "referer" "user-agent"`.
//!
//! As in Apache httpd, what a client chose is written in printable ASCII with `\"`, `\\` and `\xHH`: nothing in it can end the line, close
//! the quotes, or speak to a terminal.

use std::io::Write;

use handfast_text::calendar::Utc;

use super::redaction::Redaction;
use crate::request_record::{HttpVersion, RequestRecord};

/// Appends the line, with its end.
pub(super) fn append(buffer: &mut Vec<u8>, record: &RequestRecord, redaction: &Redaction) {
    // Writing to memory cannot fail.
    let _ = match record.connection.client {
        Some(client) => write!(buffer, "{}", client.ip()),
        None => write!(buffer, "-"),
    };
    buffer.extend_from_slice(b" - ");
    escaped_word(buffer, record.user.as_deref().unwrap_or("-"));
    let _ = write!(buffer, " [{}] \"", Utc::of(record.at).for_web_log());
    escaped(buffer, record.method());
    buffer.push(b' ');
    escaped(buffer, &redaction.redacted(record.path()));
    let protocol = match record.protocol {
        HttpVersion::Http10 => "HTTP/1.0",
        HttpVersion::Http11 => "HTTP/1.1",
        HttpVersion::Http2 => "HTTP/2.0",
    };
    let (status, bytes) = (record.status.unwrap_or_default(), record.bytes_to_client);
    let _ = write!(buffer, " {protocol}\" {status:03} {bytes}");
    let referer = record.referer.as_deref().map(|referer| redaction.redacted(referer));
    for field in [referer.as_deref(), record.user_agent.as_deref()] {
        buffer.extend_from_slice(b" \"");
        escaped(buffer, field.unwrap_or("-"));
        buffer.push(b'"');
    }
    buffer.push(b'\n');
}

/// The same without spaces, which separate the fields.
fn escaped_word(buffer: &mut Vec<u8>, text: &str) {
    escaped(buffer, &text.replace(' ', "\u{a0}"));
}

fn escaped(buffer: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => buffer.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => buffer.push(byte),
            _ => drop(write!(buffer, "\\x{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request_line::tests::request;
    use super::*;

    fn line(record: &RequestRecord) -> String {
        let mut buffer = Vec::new();
        append(&mut buffer, record, &Redaction::default());
        String::from_utf8(buffer).expect("a line is ASCII")
    }

    #[test]
    fn a_line_is_as_other_programs_read_it() {
        let mut record = request(b"GET", b"/a?b=c");
        (record.status, record.bytes_to_client) = (Some(200), 4_711);
        record.set_referer(b"https://example.org/");
        record.set_user_agent(b"curl/8.5.0");
        assert_eq!(
            line(&record),
            "192.0.2.7 - - [01/Mar/2026:12:00:00 +0000] \"GET /a?b=c HTTP/1.1\" 200 4711 \"https://example.org/\" \"curl/8.5.0\"\n"
        );
    }

    #[test]
    fn unknown_values_have_a_place() {
        let mut record = request(b"", b"");
        record.protocol = HttpVersion::Http2;
        let rest = line(&record);
        let rest = rest.split_once(']').map(|(_, rest)| rest);
        assert_eq!(rest, Some(" \"  HTTP/2.0\" 000 0 \"-\" \"-\"\n"));
    }

    #[test]
    fn hostile_bytes_stay_in_their_field() {
        let hostile: Vec<u8> = (0..=255).collect();
        let mut record = request(&hostile, &hostile);
        record.set_referer(&hostile);
        record.set_user_agent(&[b"\"\n127.0.0.1 - - [\x1b[2J\\", vec![b'\\'; 10_000].as_slice()].concat());
        let line = line(&record);
        assert!(line.len() < 6_000, "{} bytes", line.len());
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\n'), "{line}");
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        // Without escaped pairs there are three quoted fields.
        let bare = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(bare.matches('"').count(), 6, "{line}");
        assert!(bare.ends_with("\"\n"), "{line}");
        assert!(line.contains(r#""\"\x0a127.0.0.1 - - [\x1b[2J\\\\"#), "{line}");
    }
}
