//! Heads: each rule by its name, and what is written.

mod requests;
mod responses;
mod rules;
mod writing;

use super::*;
use crate::http1::{RequestHead, ResponseHead};
use crate::http2::hpack::{Decoder, Encoder, integer};

type Pairs<'a> = [(&'a str, &'a str)];

/// A field block of literals that begin with this byte.
fn block(pattern: u8, fields: &Pairs<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(pattern);
        for text in [name, value] {
            integer::write(&mut out, 0, 7, text.chars().count());
            // Bytes outside ASCII are written as letters of that number.
            out.extend(text.chars().map(|letter| letter as u8));
        }
    }
    out
}

/// The heads of fields that come as literals, as literals that are kept, and by their index.
fn heads(part: Part, fields: &Pairs<'_>, limits: &HeadLimits) -> [HeadText; 3] {
    let mut decoder = Decoder::default();
    let indexed: Vec<u8> = (0..fields.len()).rev().map(|index| 0x80 | (62 + index) as u8).collect();
    [block(0x00, fields), block(0x40, fields), indexed].map(|block| {
        let mut head = HeadText::default();
        head.begin(part, limits);
        decoder.decode(&block, &mut head).expect("a field block");
        head
    })
}

/// All that a head says, without the places of its parts.
fn described(head: &RequestHead<'_>) -> String {
    let RequestHead { method, target, host, framing, expects_continue, accepts_trailers, upgrade, .. } =
        *head;
    let upgrade = upgrade.map(<[u8]>::escape_ascii).map(|list| list.to_string());
    format!(
        "{method:?} {} {} {framing:?} {expects_continue} {accepts_trailers} {upgrade:?}",
        target.path().escape_ascii(),
        host.text.escape_ascii()
    )
}

/// Fields with their kinds.
fn lines(text: &[u8], fields: &[Field]) -> Vec<String> {
    let line = |field: &Field| {
        let (name, value) = (field.name(text).escape_ascii(), field.value(text).escape_ascii());
        if field.kind() == Kind::Other {
            format!("{name}: {value}")
        } else {
            format!("{name}: {value} ({:?})", field.kind())
        }
    };
    fields.iter().map(line).collect()
}
