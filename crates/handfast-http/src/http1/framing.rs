//! End of a body, and other facts from the fields about the message and its connection.
//!
//! In: fields as they are parsed. Out: [`Facts`], from which requests and responses derive their [`Framing`].

use super::error::Rule;
use super::field::{Field, Kind, tokens};
use super::host::Host;
use super::limits::{HeadLimits, Underscores};
use super::scan::is_text;

/// End of a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// After this number of bytes.
    Length(u64),
    /// With the last chunk and the trailer section behind it.
    Chunked,
    /// With the connection; only a response can have it.
    UntilClose,
}

impl Framing {
    /// Returns the framing of a body towards a client of this version: a body that ends by closing becomes chunked, and
    /// HTTP/1.0 has no chunks.
    pub fn for_client(self, version: super::Version) -> Self {
        match (self, version) {
            (Self::UntilClose, super::Version::Http11) => Self::Chunked,
            (Self::Chunked, super::Version::Http10) => Self::UntilClose,
            _ => self,
        }
    }
}

/// Value of `Transfer-Encoding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    None,
    Chunked,
    Other,
}

/// Facts from the fields of one head.
#[derive(Default)]
pub(crate) struct Facts<'a> {
    pub(crate) is_response: bool,
    pub(crate) is_trailer: bool,
    pub(crate) is_old: bool,
    pub(crate) host: Option<Host<'a>>,
    pub(crate) length: Option<u64>,
    pub(crate) coding: Coding,
    /// Position of the field that an error about framing refers to.
    pub(crate) framing_at: usize,
    pub(crate) announces_close: bool,
    pub(crate) announces_keep_alive: bool,
    pub(crate) announces_upgrade: bool,
    pub(crate) has_nominations: bool,
    pub(crate) expects_continue: bool,
    pub(crate) accepts_trailers: bool,
    pub(crate) upgrade: Option<&'a [u8]>,
    pub(crate) has_upgrade: bool,
}

impl<'a> Facts<'a> {
    /// Takes in a field that means something to the proxy.
    pub(crate) fn note(
        &mut self,
        field: &mut Field,
        text: &'a [u8],
        limits: &HeadLimits,
    ) -> Result<(), Rule> {
        let value = field.value(text);
        let at = field.name_start as usize;
        match field.kind {
            // In a response they mean nothing to a program behind a CGI interface.
            Kind::Underscore if self.is_response => field.kind = Kind::Other,
            Kind::Underscore => match limits.underscores {
                Underscores::Drop => {}
                Underscores::Refuse => return Err(Rule::Underscore),
                Underscores::Forward => field.kind = Kind::Other,
            },
            _ if self.is_trailer && self.is_response => field.kind = Kind::Nominated,
            _ if self.is_trailer => return Err(Rule::Trailer),
            Kind::Host if !self.is_response => match Host::parse(value) {
                _ if self.host.is_some() => return Err(Rule::HostRepeated),
                None => return Err(Rule::HostSyntax),
                host => self.host = host,
            },
            Kind::ContentLength => {
                self.framing_at = at;
                match number(value) {
                    _ if self.length.is_some() => return Err(Rule::LengthRepeated),
                    None => return Err(Rule::LengthSyntax),
                    length => self.length = length,
                }
            }
            Kind::TransferEncoding => {
                self.framing_at = at;
                let is_chunked = self.coding == Coding::None && is_text(value, b"chunked");
                self.coding = if is_chunked { Coding::Chunked } else { Coding::Other };
            }
            Kind::Connection => self.note_connection(value),
            // HTTP/1.0 has no interim responses (RFC 9110 §10.1.1). What else is expected may be ignored. It is not forwarded: a backend that
            // answers it at once could take the content for the next request.
            Kind::Expect if !self.is_response => {
                if self.is_old || self.expects_continue || !is_text(value, b"100-continue") {
                    field.kind = Kind::Nominated;
                } else {
                    self.expects_continue = true;
                }
            }
            Kind::Te => {
                let is_trailers = |token: &[u8]| is_text(token, b"trailers");
                self.accepts_trailers |= !self.is_old && tokens(value).any(is_trailers);
            }
            Kind::Upgrade => {
                // Two lists would have to be joined; nothing sends them, and ignoring the request is permitted (RFC 9110 §7.8).
                self.upgrade = (!self.has_upgrade).then_some(value);
                self.has_upgrade = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) {
        for token in tokens(value) {
            let is = |option: &[u8]| is_text(token, option);
            if is(b"close") {
                self.announces_close = true;
            } else if is(b"keep-alive") {
                self.announces_keep_alive = true;
            } else if is(b"upgrade") {
                self.announces_upgrade = true;
            } else {
                self.has_nominations = true;
            }
        }
    }

    /// Returns true if the sender keeps the connection open after this message.
    pub(crate) fn keeps_open(&self) -> bool {
        !self.announces_close && (!self.is_old || self.announces_keep_alive)
    }

    /// The protocols to change to, if both fields request it. `h2c` is never forwarded: its requests would bypass all rules.
    pub(crate) fn upgrade(&self) -> Option<&'a [u8]> {
        let is_h2c = |token: &[u8]| is_text(token, b"h2c");
        self.upgrade.filter(|list| {
            self.announces_upgrade && !self.is_old && !list.is_empty() && !tokens(list).any(is_h2c)
        })
    }
}

/// A length of 1 to 19 digits, all of which fit.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if !(1..=19).contains(&text.len()) {
        return None;
    }
    text.iter()
        .try_fold(0, |number: u64, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}
