//! The line of one HTTP request.

use serde_json::Value;

use handfast_observe::cause::Cause;

use super::entry::{cause, seconds, text};

/// A request that has ended; unknown values are empty or zero.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Request {
    /// Time at which its head was complete, in seconds since 1970.
    pub(super) begun: f64,
    pub(super) client: String,
    pub(super) service: String,
    pub(super) method: String,
    pub(super) host: String,
    pub(super) path: String,
    /// Zero: it had none.
    pub(super) status: u64,
    /// Seconds by phase.
    pub(super) hello: f64,
    pub(super) connect: f64,
    pub(super) answer: f64,
    pub(super) relay: f64,
    pub(super) from_client: u64,
    pub(super) to_client: u64,
    pub(super) backend: String,
    /// True if its backend connection was reused; `None`: it had none.
    pub(super) reused: Option<bool>,
    pub(super) retries: u64,
    /// Reason why no backend answered it completely; empty: one did.
    pub(super) step: String,
    pub(super) side: String,
    pub(super) cause: String,
    pub(super) detail: String,
}

impl Request {
    /// From a line with an identifier of a request.
    pub(super) fn read(value: &Value, time: f64) -> Self {
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        let reason = &value["reason"];
        Self {
            begun: time,
            client: text(&value["client"]),
            service: text(&value["service"]),
            method: text(&value["method"]),
            host: text(&value["host"]),
            path: text(&value["path"]),
            status: number("status"),
            hello: seconds(value, "hello"),
            connect: seconds(value, "connect"),
            answer: seconds(value, "response"),
            relay: seconds(value, "relay"),
            from_client: number("bytes_from_client"),
            to_client: number("bytes_to_client"),
            backend: text(&value["backend"]),
            reused: value["reused"].as_bool(),
            retries: number("retries"),
            step: text(&reason["step"]),
            side: text(&reason["side"]),
            cause: cause(reason),
            detail: text(&reason["detail"]),
        }
    }

    /// Seconds from the first byte of the head to the end of the response.
    pub(super) fn duration(&self) -> f64 {
        self.hello + self.connect + self.answer + self.relay
    }

    /// Seconds from the complete head to the first byte of the response.
    pub(super) fn first_byte(&self) -> f64 {
        self.connect + self.answer
    }

    /// Returns the time of its end, in seconds since 1970.
    pub(super) fn ended(&self) -> f64 {
        self.begun + self.connect + self.answer + self.relay
    }

    /// Returns true if no backend answered it completely, for a reason that is a failure. A cause of a newer version is one.
    pub(super) fn has_failed(&self) -> bool {
        !self.cause.is_empty() && Cause::named(&self.cause).is_none_or(Cause::is_failure)
    }

    /// Returns true if its host is this one; the port does not count.
    pub(super) fn has_host(&self, name: &str) -> bool {
        let bare = self.host.rsplit_once(':').map_or("", |(bare, _)| bare);
        [self.host.as_str(), bare].iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}
