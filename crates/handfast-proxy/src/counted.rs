//! A count with its noun, for messages: `1 connection`, `12 connections`.

use std::fmt::Display;

/// A count and a noun that takes an `s`.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_nothing_else_is() {
        assert_eq!(counted(1_u64, "connection"), "1 connection");
        assert_eq!((counted(0_usize, "byte"), counted(2_i64, "day")), ("0 bytes".into(), "2 days".into()));
    }
}
