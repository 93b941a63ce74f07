//! Field blocks for heads that are sent.
//!
//! In: names and values. Out: fields of the static table, or literals that no decoder keeps. What decides about rights is never indexed by later hops
//! either.
//!
//! **Source**: RFC 7541 §6 and §7.1.3.

use super::dynamic_table::LIMIT;
use super::integer;
use super::static_table::{self, StaticEntry};
use crate::http1::{next_control, trim};

/// Patterns of the first byte (RFC 7541 §6.1 to §6.3).
const INDEXED: u8 = 0x80;
const NOT_INDEXED: u8 = 0x00;
const NEVER_INDEXED: u8 = 0x10;
const SIZE_UPDATE: u8 = 0x20;

/// Indices of the static table (RFC 7541, Appendix A).
pub(in crate::http2) mod index {
    pub(in crate::http2) const AUTHORITY: usize = 1;
    pub(in crate::http2) const METHOD: usize = 2;
    pub(in crate::http2) const METHOD_POST: usize = 3;
    pub(in crate::http2) const PATH: usize = 4;
    pub(in crate::http2) const SCHEME_HTTP: usize = 6;
    pub(in crate::http2) const SCHEME_HTTPS: usize = 7;
    pub(in crate::http2) const STATUS: usize = 8;
    pub(in crate::http2) const ACCEPT_ENCODING: usize = 16;
    pub(in crate::http2) const AUTHORIZATION: usize = 23;
    pub(in crate::http2) const CONTENT_LENGTH: usize = 28;
    pub(in crate::http2) const COOKIE: usize = 32;
    pub(in crate::http2) const PROXY_AUTHORIZATION: usize = 49;
    pub(in crate::http2) const SET_COOKIE: usize = 55;
}

/// Encoder of the field blocks of one connection.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The peer has to read that the table is not used, which it would keep room for; once, because it then stays so.
    announces_no_table: bool,
    has_no_table: bool,
}

impl Encoder {
    /// Takes the peer's HEADER_TABLE_SIZE. The first one below the default is acknowledged in the next block (RFC 7541 §4.2).
    pub fn set_peer_table_size(&mut self, size: u32) {
        if (size as usize) < LIMIT && !self.has_no_table {
            (self.announces_no_table, self.has_no_table) = (true, true);
        }
    }

    /// Begins a field block; always the first call for one.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.announces_no_table) {
            integer::write(out, SIZE_UPDATE, 5, 0);
        }
    }

    /// Writes `:status`.
    pub fn status(&self, out: &mut Vec<u8>, status: u16) {
        let known = [200, 204, 206, 304, 400, 404, 500];
        if let Some(place) = known.iter().position(|known| *known == status) {
            return self.indexed(out, index::STATUS + place);
        }
        let digit = |number: u16| b'0' + (number % 10) as u8;
        self.literal(out, index::STATUS, &[digit(status / 100), digit(status / 10), digit(status)]);
    }

    /// Writes a field: its name, a token, in lower case, control bytes of its value as blanks (RFC 9110 §5.5).
    pub fn field(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        match static_table::find(name) {
            Some(index::ACCEPT_ENCODING) if value == b"gzip, deflate" => {
                return self.indexed(out, index::ACCEPT_ENCODING);
            }
            Some(index) => self.name(out, index),
            None => {
                out.push(NOT_INDEXED);
                integer::write(out, 0, 7, name.len());
                out.extend(name.iter().map(u8::to_ascii_lowercase));
            }
        }
        if has_control(value) {
            let cleaned: Vec<u8> =
                value.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }).collect();
            text(out, trim(&cleaned));
        } else {
            text(out, value);
        }
    }

    /// Writes an entry of the static table.
    pub(in crate::http2) fn indexed(&self, out: &mut Vec<u8>, index: usize) {
        integer::write(out, INDEXED, 7, index);
    }

    /// Writes a value with the name of an entry.
    pub(in crate::http2) fn literal(&self, out: &mut Vec<u8>, index: usize, value: &[u8]) {
        self.name(out, index);
        text(out, value);
    }

    /// Writes a value with the name of an entry, or the entry.
    pub(in crate::http2) fn entry(&self, out: &mut Vec<u8>, index: usize, value: &[u8]) {
        match StaticEntry::get(index) {
            Some(entry) if entry.value() == value => self.indexed(out, index),
            _ => self.literal(out, index, value),
        }
    }

    /// Writes the name of an entry.
    #[inline(always)]
    fn name(&self, out: &mut Vec<u8>, index: usize) {
        let is_secret = matches!(
            index,
            index::AUTHORIZATION | index::COOKIE | index::PROXY_AUTHORIZATION | index::SET_COOKIE
        );
        integer::write(out, if is_secret { NEVER_INDEXED } else { NOT_INDEXED }, 4, index);
    }
}

/// Writes a text as it is.
#[inline(always)]
fn text(out: &mut Vec<u8>, text: &[u8]) {
    integer::write(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// Returns true if a value has a control byte that is no tab.
fn has_control(value: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = next_control(value, from) {
        if value[at] != b'\t' {
            return true;
        }
        from = at + 1;
    }
    false
}
