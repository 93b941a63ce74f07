//! The types of values about fleets: the URL of a bus, a name in subjects.

use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;

/// The URL of a NATS server, without a password.
pub(crate) struct BusUrl;

impl ValueKind for BusUrl {
    type Value = String;
    const FORM: &'static str = "text, such as `\"tls://bus.example.org:4222\"`";
    const ALLOWED: &'static str = "`tls://` or `nats://`, a host, and perhaps a port";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let wrong = |why: &str| Fault::new(format!("`{}` {why}", shortened(text))).allowed(self.allowed());
        let Some(rest) = text.strip_prefix("tls://").or_else(|| text.strip_prefix("nats://")) else {
            return Err(wrong("is not the URL of a NATS server"));
        };
        if rest.contains('@') {
            return Err(Fault::new(
                "the URL has a user or a password, which every reader of this file would have",
            )
            .allowed(self.allowed())
            .hint("write them into a file, and its name in `credentials`"));
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
        match is_port && is_host && !host.is_empty() {
            true => Ok(text.to_owned()),
            false => Err(wrong("has no host, a wrong port, or a character that a host cannot have")),
        }
    }
}

/// A name that can be part of a subject.
pub(crate) struct Token;

impl ValueKind for Token {
    type Value = String;
    const FORM: &'static str = "text, such as `\"web\"`";
    const ALLOWED: &'static str = "up to 64 letters, digits, `-` and `_`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        // The one name is that of the check for permissions.
        let is_token =
            (1..=64).contains(&text.len()) && text.bytes().all(is_plain) && text != "permission-check";
        match is_token {
            true => Ok(text.to_owned()),
            false => {
                Err(Fault::new(format!("`{}` is not a name of a fleet", shortened(text)))
                    .allowed(self.allowed()))
            }
        }
    }
}
