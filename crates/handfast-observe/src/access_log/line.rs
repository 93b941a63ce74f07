//! One connection as one line of JSON.
//!
//! Whatever a peer chose (a name, a protocol, a certificate's subject) is written in printable ASCII, everything else as `\uXXXX`: nothing in
//! it can end the line, close the string, or speak to a terminal.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use handfast_net::fault::Cause as SocketCause;
use handfast_text::calendar::Utc;
use handfast_tls::session::{Agreed, Verdict};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::Formatter;

use crate::cause::Cause;
use crate::reason::CloseReason;
use crate::record::{BackendFailures, Record, RecordDetails, StepTimes};

/// Bytes of a free text (a certificate's subject, an error's detail) that are kept; a peer can make a subject as long
/// as a handshake message.
const TEXT_BYTES: usize = 512;

/// Appends the line, with its end.
pub(super) fn append(buffer: &mut Vec<u8>, record: &Record, reason: &CloseReason) {
    append_json(buffer, &Line(record, reason));
}

/// Appends the line that says how many lines are missing at this place, and why.
pub(super) fn append_loss(buffer: &mut Vec<u8>, now: SystemTime, dropped_lines: u64, because: &str) {
    #[derive(Serialize)]
    struct Loss<'a> {
        time: fmt::Arguments<'a>,
        dropped_lines: u64,
        because: &'a str,
    }
    let because = shortened(because);
    append_json(buffer, &Loss { time: format_args!("{}", Utc::of(now)), dropped_lines, because });
}

pub(super) fn append_json(buffer: &mut Vec<u8>, value: &impl Serialize) {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *buffer, PlainAscii);
    // Writing to memory cannot fail, and neither can the types below.
    let _ = value.serialize(&mut serializer);
    buffer.push(b'\n');
}

/// An object that is being written.
pub(super) struct Object<M>(pub(super) M);

impl<M: SerializeMap> Object<M> {
    pub(super) fn is(&mut self, name: &'static str, value: impl Serialize) -> Result<(), M::Error> {
        self.0.serialize_entry(name, &value)
    }

    /// Left out when it is not known.
    pub(super) fn known(
        &mut self,
        name: &'static str,
        value: Option<impl Serialize>,
    ) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.is(name, value))
    }

    /// Left out when it is not so.
    pub(super) fn flag(&mut self, name: &'static str, value: bool) -> Result<(), M::Error> {
        self.known(name, value.then_some(true))
    }

    pub(super) fn seconds(&mut self, name: &'static str, time: Duration) -> Result<(), M::Error> {
        self.is(name, time.as_secs_f64())
    }

    /// Left out when it is zero.
    pub(super) fn count(&mut self, name: &'static str, count: u8) -> Result<(), M::Error> {
        self.known(name, Some(count).filter(|count| *count > 0))
    }

    /// Backends that did not answer, and why; left out where all have.
    pub(super) fn backend_failures(&mut self, failures: &BackendFailures) -> Result<(), M::Error> {
        let failures = failures.named.iter();
        let failures: Vec<_> =
            failures.map(|(backend, cause)| BackendFailure { backend, cause: cause.name() }).collect();
        self.known("backend_failures", Some(failures).filter(|failures| !failures.is_empty()))
    }

    /// Writes the agreed TLS parameters of one side.
    fn tls(&mut self, tls: &Agreed) -> Result<(), M::Error> {
        self.known("alpn", tls.alpn.as_deref())?;
        self.known("version", tls.version)?;
        self.known("suite", tls.suite)?;
        self.known("group", tls.group)?;
        self.known("signature", tls.signature)?;
        self.known("resumed", tls.resumed)?;
        self.flag("hello_retry", tls.hello_retry)
    }
}

/// The fields in the order they are written; those that are not known are left out.
struct Line<'a>(&'a Record, &'a CloseReason);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(record, reason) = self;
        let (tls, proxied, details) = (&record.tls, record.proxied(), record.details.as_deref());
        let mut line = Object(serializer.serialize_map(None)?);
        line.is("time", format_args!("{}", Utc::of(record.accepted_at)))?;
        line.is("service", &*record.service)?;
        line.known("client", record.client)?;
        if let Some(proxied) = proxied {
            line.is("proxied_by", format_args!("{}", proxied.by))?;
            line.known("proxied_authority", proxied.authority.as_deref())?;
            line.known("proxied_alpn", proxied.alpn.as_deref().map(String::from_utf8_lossy))?;
        }
        line.known("unique_id", record.unique_id().map(readable))?;
        line.known("starttls", record.starttls.map(handfast_wire::starttls::Protocol::name))?;
        line.known("sni", record.server_name.as_deref())?;
        line.known("rule", record.rule.as_deref())?;
        line.flag("passed_through", details.is_some_and(|details| details.passed_through))?;
        line.flag("encrypted_hello", details.is_some_and(|details| details.encrypted_hello))?;
        line.tls(tls)?;
        if let Some(certificate) = tls.client_certificate.as_deref() {
            for (name, text) in [
                ("client_subject", &certificate.subject),
                ("client_serial", &certificate.serial),
                ("client_fingerprint", &certificate.fingerprint),
            ] {
                line.known(name, Some(shortened(text)).filter(|text| !text.is_empty()))?;
            }
        }
        match tls.verdict.as_deref() {
            None => {}
            Some(Verdict::Allowed(rule)) => line.is("client_rule", shortened(rule))?,
            Some(Verdict::Unverified) => line.is("client_rule", "insecure-anything")?,
            Some(Verdict::Failed { fault, words }) => {
                line.is("client_fault", fault.name())?;
                // Where it was refused for that, the reason's detail has the words.
                if reason.cause != Cause::ClientCertificate {
                    line.is("client_failed", shortened(words))?;
                }
            }
        }
        line.is("seconds", Seconds(&record.seconds))?;
        line.is("bytes_to_backend", record.bytes_to_backend)?;
        line.is("bytes_to_client", record.bytes_to_client)?;
        line.known("requests", Some(record.requests).filter(|requests| *requests > 0))?;
        line.known("backend", record.backend.as_deref())?;
        line.count("backends_failed", record.backend_failures.count)?;
        line.known(
            "backend_tls",
            details.and_then(|details| Some(BackendTls(details, details.backend_tls.as_ref()?))),
        )?;
        line.backend_failures(&record.backend_failures)?;
        line.is("reason", Reason(reason))?;
        line.is("generation", record.generation)?;
        line.0.end()
    }
}

/// Seconds by step, to the microsecond.
struct Seconds<'a>(&'a StepTimes);

impl Serialize for Seconds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seconds = Object(serializer.serialize_map(None)?);
        seconds.seconds("hello", self.0.hello)?;
        seconds.seconds("handshake", self.0.handshake)?;
        seconds.seconds("handshake_crypto", self.0.handshake_crypto)?;
        seconds.seconds("handshake_wait", self.0.handshake_wait)?;
        seconds.seconds("connect", self.0.connect)?;
        seconds.seconds("relay", self.0.relay)?;
        seconds.seconds("close", self.0.close)?;
        seconds.0.end()
    }
}

/// Agreed TLS parameters with the backend; times as in [`Seconds`].
struct BackendTls<'a>(&'a RecordDetails, &'a Agreed);

impl Serialize for BackendTls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut backend = Object(serializer.serialize_map(None)?);
        backend.tls(self.1)?;
        backend.seconds("handshake", self.0.backend_handshake)?;
        backend.seconds("crypto", self.0.backend_crypto)?;
        backend.0.end()
    }
}

/// A backend that did not answer, and why.
#[derive(Serialize)]
struct BackendFailure<'a> {
    backend: &'a str,
    cause: &'static str,
}

pub(super) struct Reason<'a>(pub(super) &'a CloseReason);

impl Serialize for Reason<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reason = Object(serializer.serialize_map(None)?);
        reason.is("step", self.0.step.name())?;
        reason.is("side", self.0.side.name())?;
        reason.is("cause", self.0.cause.name())?;
        reason.flag("failed", self.0.cause.is_failure())?;
        if let Cause::Socket(SocketCause::Errno(number)) = self.0.cause {
            reason.is("errno", number)?;
        }
        reason.known("detail", self.0.detail.as_deref().map(shortened))?;
        reason.0.end()
    }
}

/// A name that a proxy chose: as text if it is printable, else as digits.
fn readable(id: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(id) {
        Ok(text) if id.iter().all(u8::is_ascii_graphic) => Cow::Borrowed(text),
        _ => Cow::Owned(id.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES)]
}

/// JSON in printable ASCII, with seconds to the microsecond.
///
/// JSON itself would let C1 controls, direction overrides and invisible characters pass, which a terminal or a careless
/// reader acts upon.
pub(super) struct PlainAscii;

impl Formatter for PlainAscii {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Each line has seven: as whole microseconds they take a seventh of what the decimal of a float does.
        let microseconds = (value * 1e6).round();
        if !(0.0..1e15).contains(&microseconds) {
            return write!(writer, "{value:.6}");
        }
        let (mut rest, mut digits) = (microseconds as u64, *b"0000000000.000000");
        for digit in digits.iter_mut().rev().filter(|digit| **digit != b'.') {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        // One digit stands before the point in any case.
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count().min(9);
        writer.write_all(digits.get(zeros..).unwrap_or_default())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Nearly every text, and a tenth of what looking at its characters takes.
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        let plain = |character: char| matches!(character, ' '..='~');
        let mut rest = fragment;
        while let Some(at) = rest.find(|character| !plain(character)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let mut characters = rest[at..].chars();
            if let Some(character) = characters.next() {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}
