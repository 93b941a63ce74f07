//! Alerts in the clear: the two bytes with which TLS reports the reason for its end.
//!
//! In: a description to send, or the payload of an alert record. Out: the record's bytes, or an [`Alert`].
//! Only what goes over the wire before encryption passes here; encrypted alerts are the TLS library's.
//! Source: RFC 9846 §6; RFC 5246 §7.2.

use std::fmt;

use crate::record::{ContentType, HEADER_LENGTH};
use crate::registry;

/// Severity of an alert. In TLS 1.3 the description alone decides (RFC 9846 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlertLevel(pub u8);

impl AlertLevel {
    /// The connection may go on; also the level of close_notify.
    pub const WARNING: Self = Self(1);
    /// The connection ends.
    pub const FATAL: Self = Self(2);
}

/// Description of an alert, as the byte on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlertDescription(pub u8);

impl AlertDescription {
    /// The sender will send no more: a clean end.
    pub const CLOSE_NOTIFY: Self = Self(0);
    /// A message that has no place here.
    pub const UNEXPECTED_MESSAGE: Self = Self(10);
    /// A record over the limit.
    pub const RECORD_OVERFLOW: Self = Self(22);
    /// Nothing offered is acceptable.
    pub const HANDSHAKE_FAILURE: Self = Self(40);
    /// No certificate of a type that the peer takes.
    pub const UNSUPPORTED_CERTIFICATE: Self = Self(43);
    /// A field out of range, or at odds with others.
    pub const ILLEGAL_PARAMETER: Self = Self(47);
    /// A valid certificate without the right to go on.
    pub const ACCESS_DENIED: Self = Self(49);
    /// A message that could not be read.
    pub const DECODE_ERROR: Self = Self(50);
    /// A version that is not spoken here.
    pub const PROTOCOL_VERSION: Self = Self(70);
    /// A fault that is not the peer's.
    pub const INTERNAL_ERROR: Self = Self(80);
    /// No server with the requested name.
    pub const UNRECOGNIZED_NAME: Self = Self(112);
    /// No application protocol in common.
    pub const NO_APPLICATION_PROTOCOL: Self = Self(120);

    /// The registered name, or `None`.
    pub fn name(self) -> Option<&'static str> {
        registry::alert_description_name(self.0)
    }
}

impl fmt::Display for AlertDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "alert {}", self.0),
        }
    }
}

/// One alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alert {
    /// Severity, as the sender set it.
    pub level: AlertLevel,
    /// Description of the alert.
    pub description: AlertDescription,
}

impl Alert {
    /// A fatal alert.
    pub const fn fatal(description: AlertDescription) -> Self {
        Self { level: AlertLevel::FATAL, description }
    }

    /// The clean end of a stream (RFC 9846 §6.1).
    pub const CLOSE_NOTIFY: Self =
        Self { level: AlertLevel::WARNING, description: AlertDescription::CLOSE_NOTIFY };

    /// The whole record, in the clear; its version is the one that RFC 9846 §5.1 demands of all but first hellos.
    pub const fn to_record(self) -> [u8; HEADER_LENGTH + 2] {
        [ContentType::ALERT.0, 3, 3, 0, 2, self.level.0, self.description.0]
    }

    /// Reads the payload of an alert record; `None` unless it is exactly one alert.
    ///
    /// "An alert record MUST contain exactly one message" in TLS 1.3 (RFC 9846 §5.1); no implementation is known to
    /// split or join them in earlier versions either.
    pub const fn parse(payload: &[u8]) -> Option<Self> {
        match *payload {
            [level, description] => {
                Some(Self { level: AlertLevel(level), description: AlertDescription(description) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordHeader;

    #[test]
    fn a_record_is_read_back() {
        let alert = Alert::fatal(AlertDescription::UNRECOGNIZED_NAME);
        let record = alert.to_record();
        assert_eq!(record, [21, 3, 3, 0, 2, 2, 112]);
        let header = RecordHeader::parse(&record).expect("five bytes are there");
        assert_eq!(header.length_on_wire(), record.len());
        assert_eq!(Alert::parse(&record[HEADER_LENGTH..]), Some(alert));
    }

    #[test]
    fn other_lengths_are_no_alert() {
        assert_eq!(Alert::parse(&[]), None);
        assert_eq!(Alert::parse(&[2]), None);
        assert_eq!(Alert::parse(&[2, 40, 0]), None);
    }

    #[test]
    fn the_constants_are_the_registered_ones() {
        for (description, name) in [
            (AlertDescription::CLOSE_NOTIFY, "close_notify"),
            (AlertDescription::UNEXPECTED_MESSAGE, "unexpected_message"),
            (AlertDescription::RECORD_OVERFLOW, "record_overflow"),
            (AlertDescription::HANDSHAKE_FAILURE, "handshake_failure"),
            (AlertDescription::ILLEGAL_PARAMETER, "illegal_parameter"),
            (AlertDescription::ACCESS_DENIED, "access_denied"),
            (AlertDescription::DECODE_ERROR, "decode_error"),
            (AlertDescription::PROTOCOL_VERSION, "protocol_version"),
            (AlertDescription::INTERNAL_ERROR, "internal_error"),
            (AlertDescription::UNRECOGNIZED_NAME, "unrecognized_name"),
            (AlertDescription::NO_APPLICATION_PROTOCOL, "no_application_protocol"),
            (AlertDescription(200), "alert 200"),
        ] {
            assert_eq!(description.to_string(), name);
        }
    }
}
