//! One connection as one line of JSON.
//!
//! In: a [`Record`] and its [`CloseReason`]. Out: a line in a worker's buffer. Whatever a peer chose (a name, a protocol, a
//! certificate's subject) is written in printable ASCII, everything else as `\uXXXX`: nothing in it can end the line,
//! close the string, or speak to a terminal.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::SystemTime;

use handfast_net::fault::Cause as SocketCause;
use handfast_text::calendar::Utc;
use handfast_tls::session::{Agreed, ShownCertificate, Verdict};
use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

use crate::cause::Cause;
use crate::proxied::ProxiedBy;
use crate::reason::CloseReason;
use crate::record::{Record, RecordDetails, StepTimes};

/// Bytes of a free text (a certificate's subject, an error's detail) that are kept; a peer can make a subject as long
/// as a handshake message.
const TEXT_BYTES: usize = 512;

/// Appends the line, with its end.
pub(super) fn append(buffer: &mut Vec<u8>, record: &Record, reason: &CloseReason) {
    append_json(buffer, &Line::of(record, reason));
}

/// Appends the line that says how many lines are missing at this place, and why.
pub(super) fn append_loss(buffer: &mut Vec<u8>, now: SystemTime, dropped_lines: u64, because: &str) {
    #[derive(Serialize)]
    struct Loss<'a> {
        #[serde(serialize_with = "shown")]
        time: Utc,
        dropped_lines: u64,
        because: &'a str,
    }
    append_json(buffer, &Loss { time: Utc::of(now), dropped_lines, because: shortened(because) });
}

fn proxied_by<S: Serializer>(by: &Option<ProxiedBy>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(by.as_ref().expect("left out where there is none"))
}

/// A name that a proxy chose: as text if it is printable, else as digits.
fn readable(id: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(id) {
        Ok(text) if id.iter().all(u8::is_ascii_graphic) => Cow::Borrowed(text),
        _ => Cow::Owned(id.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

fn shown<S: Serializer>(time: &Utc, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

fn append_json(buffer: &mut Vec<u8>, value: &impl Serialize) {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *buffer, PlainAscii);
    // Writing to memory cannot fail, and neither can the types above.
    let _ = value.serialize(&mut serializer);
    buffer.push(b'\n');
}

/// The fields in the order they are written; those that are not known are left out.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "shown")]
    time: Utc,
    service: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "proxied_by")]
    proxied_by: Option<ProxiedBy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxied_authority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxied_alpn: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    starttls: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sni: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    passed_through: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    encrypted_hello: bool,
    #[serde(flatten)]
    tls: Tls<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_serial: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_fingerprint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_fault: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_failed: Option<&'a str>,
    seconds: Seconds,
    bytes_to_backend: u64,
    bytes_to_client: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    backends_failed: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend_tls: Option<BackendTls<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    backend_failures: Vec<BackendFailure<'a>>,
    reason: Reason<'a>,
    generation: u64,
}

/// What TLS agreed on with either side.
#[derive(Serialize)]
struct Tls<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    alpn: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suite: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hello_retry: bool,
}

impl<'a> Tls<'a> {
    fn of(tls: &'a Agreed) -> Self {
        Self {
            alpn: tls.alpn.as_deref(),
            version: tls.version,
            suite: tls.suite,
            group: tls.group,
            signature: tls.signature,
            resumed: tls.resumed,
            hello_retry: tls.hello_retry,
        }
    }
}

/// What TLS with the backend agreed on; times as in [`Seconds`].
#[derive(Serialize)]
struct BackendTls<'a> {
    #[serde(flatten)]
    tls: Tls<'a>,
    handshake: f64,
    crypto: f64,
}

impl<'a> BackendTls<'a> {
    fn of(details: &'a RecordDetails) -> Option<Self> {
        let tls = details.backend_tls.as_ref()?;
        Some(Self {
            tls: Tls::of(tls),
            handshake: details.backend_handshake.as_secs_f64(),
            crypto: details.backend_crypto.as_secs_f64(),
        })
    }
}

/// A backend that did not answer, and why.
#[derive(Serialize)]
struct BackendFailure<'a> {
    backend: &'a str,
    cause: &'static str,
}

/// Seconds by step, to the microsecond.
#[derive(Serialize)]
struct Seconds {
    hello: f64,
    handshake: f64,
    handshake_crypto: f64,
    handshake_wait: f64,
    connect: f64,
    relay: f64,
    close: f64,
}

#[derive(Serialize)]
struct Reason<'a> {
    step: &'static str,
    side: &'static str,
    cause: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record, reason: &'a CloseReason) -> Self {
        let (tls, proxied) = (&record.tls, record.proxied());
        let (client_rule, client_fault, client_failed) = match tls.verdict.as_deref() {
            None => (None, None, None),
            Some(Verdict::Allowed(rule)) => (Some(shortened(rule)), None, None),
            // Where it was refused for that, the reason's detail has the words.
            Some(Verdict::Failed { fault, .. }) if reason.cause == Cause::ClientCertificate => {
                (None, Some(fault.name()), None)
            }
            Some(Verdict::Failed { fault, words }) => (None, Some(fault.name()), Some(shortened(words))),
        };
        let shown = |part: fn(&ShownCertificate) -> &str| {
            let text = shortened(part(tls.client_certificate.as_deref()?));
            (!text.is_empty()).then_some(text)
        };
        Self {
            time: Utc::of(record.accepted_at),
            service: &record.service,
            client: record.client,
            starttls: record.starttls.map(handfast_wire::starttls::Protocol::name),
            proxied_by: proxied.map(|proxied| proxied.by),
            proxied_authority: proxied.and_then(|proxied| proxied.authority.as_deref()),
            proxied_alpn: proxied.and_then(|proxied| proxied.alpn.as_deref()).map(String::from_utf8_lossy),
            unique_id: record.unique_id().map(readable),
            sni: record.server_name.as_deref(),
            rule: record.rule.as_deref(),
            passed_through: record.details.as_ref().is_some_and(|details| details.passed_through),
            encrypted_hello: record.details.as_ref().is_some_and(|details| details.encrypted_hello),
            tls: Tls::of(tls),
            client_subject: shown(|own| &own.subject),
            client_serial: shown(|own| &own.serial),
            client_fingerprint: shown(|own| &own.fingerprint),
            client_rule,
            client_fault,
            client_failed,
            seconds: Seconds::of(&record.seconds),
            bytes_to_backend: record.bytes_to_backend,
            bytes_to_client: record.bytes_to_client,
            backend: record.backend.as_deref(),
            backends_failed: record.backends_failed,
            backend_tls: record.details.as_deref().and_then(BackendTls::of),
            backend_failures: record
                .backend_failures
                .iter()
                .map(|(backend, cause)| BackendFailure { backend, cause: cause.name() })
                .collect(),
            reason: Reason::of(reason),
            generation: record.generation,
        }
    }
}

impl Seconds {
    fn of(times: &StepTimes) -> Self {
        Self {
            hello: times.hello.as_secs_f64(),
            handshake: times.handshake.as_secs_f64(),
            handshake_crypto: times.handshake_crypto.as_secs_f64(),
            handshake_wait: times.handshake_wait.as_secs_f64(),
            connect: times.connect.as_secs_f64(),
            relay: times.relay.as_secs_f64(),
            close: times.close.as_secs_f64(),
        }
    }
}

impl<'a> Reason<'a> {
    fn of(reason: &'a CloseReason) -> Self {
        let errno = match reason.cause {
            Cause::Socket(SocketCause::Errno(number)) => Some(number),
            _ => None,
        };
        Self {
            step: reason.step.name(),
            side: reason.side.name(),
            cause: reason.cause.name(),
            failed: reason.cause.is_failure(),
            errno,
            detail: reason.detail.as_deref().map(shortened),
        }
    }
}

fn is_zero(number: &u8) -> bool {
    *number == 0
}

fn shortened(text: &str) -> &str {
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
