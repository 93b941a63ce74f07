//! Parses and formats text for people, for all crates: times, sizes, durations, numbers, misspelt words.
//!
//! In: text, or values. Out: values, or text. No I/O and no clock: the time is passed in.
//!
//! | what | file |
//! |---|---|
//! | bounds as they are typed: `handshake.p99=50ms`, `errors=1%` | [`bound`] |
//! | the calendar: `2026-03-01T12:00:00.042Z`, both ways | [`calendar`] |
//! | durations as they are typed: `1h30m`, `1.5s`, `200us` | [`duration`] |
//! | sizes as they are typed: `16KiB` | [`size`] |
//! | text of peers and files inside our messages | [`foreign`] |
//! | words of the interface that have a new name | [`renamed`] |
//! | figures for people, with a unit that fits: `2.31 ms`, `48,120`, `188 MiB` | [`units`] |
//! | text in columns, and its width | [`table`] |
//! | lists of words, and the word that was meant | [`suggest`] |
//! | sentences in lines of a width | [`wrap`] |
#![forbid(unsafe_code)]

pub mod bound;
pub mod calendar;
pub mod duration;
pub mod foreign;
pub mod renamed;
pub mod size;
pub mod suggest;
pub mod table;
pub mod units;
pub mod wrap;

/// Leading digits and what is between them in a number (`_`, and one point), and the rest.
fn number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_')).unwrap_or(text.len());
    text.split_at(end)
}
