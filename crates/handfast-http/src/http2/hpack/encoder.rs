//! Field blocks for heads that are sent.
//!
//! In: names and values. Out: fields of the static table, or literals that no decoder keeps. What decides about rights is never indexed by later hops
//! either.
//!
//! **Source**: RFC 7541 §6 and §7.1.3.

use super::dynamic_table::LIMIT;
use super::integer;
use super::static_table::{self, StaticEntry};
use crate::http1::{has_control, push_lower, trim};

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
        if has_control(value) { self.cleaned(out, name, value) } else { self.clean(out, name, value) }
    }

    #[inline(always)]
    fn clean(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        match static_table::find(name) {
            Some(index::ACCEPT_ENCODING) => self.entry(out, index::ACCEPT_ENCODING, value),
            Some(index) => self.literal(out, index, value),
            None => {
                out.push(NOT_INDEXED);
                integer::write(out, 0, 7, name.len());
                push_lower(out, name);
                integer::write(out, 0, 7, value.len());
                out.extend_from_slice(value);
            }
        }
    }

    /// Writes a field with control bytes in its value: tabs stay, others become blanks.
    #[cold]
    fn cleaned(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let clean = |byte: &u8| if byte.is_ascii_control() && *byte != b'\t' { b' ' } else { *byte };
        self.clean(out, name, trim(&value.iter().map(clean).collect::<Vec<_>>()));
    }

    /// Writes an entry of the static table.
    pub(in crate::http2) fn indexed(&self, out: &mut Vec<u8>, index: usize) {
        integer::write(out, INDEXED, 7, index);
    }

    /// Writes a value with the name of an entry.
    #[inline(always)]
    pub(in crate::http2) fn literal(&self, out: &mut Vec<u8>, index: usize, value: &[u8]) {
        let is_secret = matches!(
            index,
            index::AUTHORIZATION | index::COOKIE | index::PROXY_AUTHORIZATION | index::SET_COOKIE
        );
        let pattern = if is_secret { NEVER_INDEXED } else { NOT_INDEXED };
        match (index, value.len()) {
            // Nearly all: with both numbers at once.
            (15..142, length @ ..127) => {
                out.extend_from_slice(&[pattern | 0xF, index as u8 - 0xF, length as u8])
            }
            (_, length) => {
                integer::write(out, pattern, 4, index);
                integer::write(out, 0, 7, length);
            }
        }
        out.extend_from_slice(value);
    }

    /// Writes a value with the name of an entry, or the entry.
    pub(in crate::http2) fn entry(&self, out: &mut Vec<u8>, index: usize, value: &[u8]) {
        match StaticEntry::get(index) {
            Some(entry) if entry.value() == value => self.indexed(out, index),
            _ => self.literal(out, index, value),
        }
    }
}
