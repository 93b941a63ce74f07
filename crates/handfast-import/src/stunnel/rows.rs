//! Each option that stunnel's manual or source knows, without aliases, and its conversion.

use crate::row::{self, Row, Table};

/// The options of stunnel 5.
pub(crate) static ROWS: Table = Table::new(|| row::rows(include_str!("../../tables/stunnel.tsv")));

/// What may be written several times, each time adding to the others.
pub(super) const REPEATABLE: [&str; 6] =
    ["checkemail", "checkhost", "checkip", "config", "options", "socket"];

/// The row of an option, by its name in small letters.
pub(super) fn row_of(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(key))
}
