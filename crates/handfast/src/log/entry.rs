//! Parses one line of the access log.
//!
//! In: the bytes of a line, with or without the prefix of a system log. Out: an [`Entry`], or what is wrong with it. The
//! line is untrusted input: its texts are escaped when they are shown.

use std::net::{IpAddr, SocketAddr};

use handfast_observe::cause::Cause;
use handfast_observe::steps::Side;
use handfast_text::calendar::seconds_since_1970;
use handfast_text::renamed;
use handfast_text::units::counted;
use serde_json::Value;

use super::lines::MAX_LINE_BYTES;
use super::request::Request;

/// A time that no connection reaches; longer ones count as this.
const MAX_SECONDS: f64 = 1e9;

/// The content of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Entry {
    /// A connection has ended.
    Connection(Box<Connection>),
    /// An HTTP request has ended.
    Request(Box<Request>),
    /// This number of lines is missing at this place.
    Loss {
        /// Time of writing, in seconds since 1970.
        time: f64,
        lines: u64,
        because: String,
    },
}

/// A connection that has ended; unknown values are empty or zero.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Connection {
    /// Time of accept, in seconds since 1970.
    pub(super) accepted: f64,
    pub(super) client: String,
    pub(super) service: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) resumed: bool,
    pub(super) passed_through: bool,
    /// Seconds by step.
    pub(super) hello: f64,
    pub(super) handshake: f64,
    pub(super) connect: f64,
    pub(super) relay: f64,
    pub(super) close: f64,
    pub(super) to_backend: u64,
    pub(super) to_client: u64,
    pub(super) backend: String,
    pub(super) backends_failed: u64,
    pub(super) step: String,
    pub(super) side: String,
    pub(super) cause: String,
    pub(super) detail: String,
}

impl Connection {
    /// Seconds from accept to close.
    pub(super) fn duration(&self) -> f64 {
        self.hello + self.handshake + self.connect + self.relay + self.close
    }

    /// Seconds of the handshake and of connecting to the backend: after them bytes can be carried.
    pub(super) fn readied(&self) -> f64 {
        self.handshake + self.connect
    }

    /// Returns the time of its end, in seconds since 1970.
    pub(super) fn ended(&self) -> f64 {
        self.accepted + self.duration()
    }

    /// Returns true if it did not close cleanly. A cause of a newer version counts as a failure, so that it is shown.
    pub(super) fn has_failed(&self) -> bool {
        Cause::named(&self.cause).is_none_or(Cause::is_failure)
    }

    /// Returns the reason for its end, as on the status page; `None` for a cause of a newer version.
    pub(super) fn sentence(&self) -> Option<String> {
        sentence(&self.cause, &self.side)
    }
}

/// The client's address, unless it came over a unix socket.
pub(super) fn address(client: &str) -> Option<IpAddr> {
    client.parse::<SocketAddr>().ok().map(|client| client.ip())
}

/// The sentence of a cause.
pub(super) fn sentence(cause: &str, side: &str) -> Option<String> {
    Some(Cause::named(cause)?.sentence(Side::named(side)?))
}

/// A line without the prefix of a system log: `Mar  1 12:00:00 host handfast[7]: `.
pub(super) fn json_of(line: &[u8]) -> Option<&[u8]> {
    let start = line.windows(2).position(|pair| pair == b"{\"")?;
    (start == 0 || line[start - 1] == b' ').then(|| &line[start..])
}

/// Reason why a line is none of the access log.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error("longer than {}", counted(MAX_LINE_BYTES as u64, "byte"))]
    TooLong,
    #[error("no line of the access log: expected a JSON object")]
    NoObject,
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("no line of the access log: `time` is missing, or not as 2026-03-01T12:00:00.042Z")]
    NoTime,
    #[error("no line of the access log: `reason.cause` is missing")]
    NoCause,
}

/// Reads a line.
///
/// **Errors**: what is wrong with it, for people.
pub(super) fn parse(line: &[u8]) -> Result<Entry, EntryError> {
    let json = json_of(line).ok_or(EntryError::NoObject)?;
    let value: Value = serde_json::from_slice(json)?;
    let time = value["time"].as_str().and_then(seconds_since_1970);
    let time = time.ok_or(EntryError::NoTime)?;
    if let Some(lines) = value["dropped_lines"].as_u64() {
        return Ok(Entry::Loss { time, lines, because: text(&value["because"]) });
    }
    if value["request"].is_string() {
        return Ok(Entry::Request(Box::new(Request::read(&value, time))));
    }
    let reason = &value["reason"];
    if reason["cause"].as_str().is_none_or(str::is_empty) {
        return Err(EntryError::NoCause);
    }
    let seconds = |step: &str| seconds(&value, step);
    Ok(Entry::Connection(Box::new(Connection {
        accepted: time,
        client: text(&value["client"]),
        service: text(&value["service"]),
        name: text(&value["sni"]),
        version: text(&value["version"]),
        resumed: value["resumed"] == Value::Bool(true),
        passed_through: value["passed_through"] == Value::Bool(true),
        hello: seconds("hello"),
        handshake: seconds("handshake"),
        connect: seconds("connect"),
        relay: seconds("relay"),
        close: seconds("close"),
        to_backend: value["bytes_to_backend"].as_u64().unwrap_or_default(),
        to_client: value["bytes_to_client"].as_u64().unwrap_or_default(),
        backend: text(&value["backend"]),
        backends_failed: value["backends_failed"].as_u64().unwrap_or_default(),
        step: text(&reason["step"]),
        side: text(&reason["side"]),
        cause: cause(reason),
        detail: text(&reason["detail"]),
    })))
}

/// The word of a cause; an older log may have an old word for it.
pub(super) fn cause(reason: &Value) -> String {
    let word = reason["cause"].as_str().unwrap_or_default();
    renamed::new_word(&renamed::CAUSES, word).unwrap_or(word).to_owned()
}

/// Seconds of a step.
pub(super) fn seconds(line: &Value, step: &str) -> f64 {
    let seconds = line["seconds"][step].as_f64().unwrap_or_default();
    if seconds.is_finite() { seconds.clamp(0.0, MAX_SECONDS) } else { 0.0 }
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
