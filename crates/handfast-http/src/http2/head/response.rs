//! The head of a response, and a trailer section, out of a decoded text.

use super::request::note;
use super::{HeadFault, HeadText, Part};
use crate::http1::{Facts, Field, HeadError, Kind, ResponseHead, Rule, Version, is_never_trailer};

use HeadFault::Malformed;

impl HeadText {
    /// The head of a response, once. `has_content`: its stream has not ended with its head. A content-length without content is not checked, because the
    /// method of the request decides about it.
    ///
    /// **Source**: RFC 9113 §8.1 and §8.3.2.
    pub fn response(&mut self, has_content: bool) -> Result<ResponseHead<'_>, HeadFault> {
        debug_assert_eq!(self.part, Part::Response);
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Self { text, fields, limits, pseudo, .. } = self;
        let text = &text[..];
        let status = match pseudo.status.ok_or(Malformed("there is no :status"))?.get(text) {
            b"101" => return Err(Malformed("101 is no status of HTTP/2")),
            &[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
            }
            _ => return Err(Malformed(":status is not a number of three digits")),
        };
        let is_interim = status < 200;
        if is_interim && !has_content {
            return Err(Malformed("an interim response ends its stream"));
        }
        let mut facts = Facts { is_response: true, ..Facts::default() };
        note(&mut facts, fields, text, limits)?;
        Ok(ResponseHead {
            text,
            length: text.len(),
            version: Version::Http11,
            status,
            reason: b"",
            fields,
            content_length: facts.length,
            // The stream shows where the response ends, whatever its fields say.
            keeps_open: true,
            upgrade: None,
            is_chunked: has_content && !is_interim && facts.length.is_none(),
        })
    }

    /// The trailer section, once: its text and its fields. Of a response, fields that must not be there are marked as not forwarded.
    pub fn trailers(&mut self) -> Result<(&[u8], &[Field]), HeadFault> {
        debug_assert!(matches!(self.part, Part::Trailers { .. }));
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let is_response = self.is_response();
        let Self { text, fields, limits, .. } = self;
        let text = &text[..];
        let mut facts = Facts { is_trailer: true, is_response, ..Facts::default() };
        note(&mut facts, fields, text, limits)?;
        for field in fields.iter_mut().filter(|field| is_never_trailer(field.name(text))) {
            if !is_response {
                let at = field.name_start as usize;
                return Err(HeadFault::Refused(HeadError::new(Rule::Trailer, false, text, at)));
            }
            field.kind = Kind::Nominated;
        }
        Ok((text, fields))
    }
}
