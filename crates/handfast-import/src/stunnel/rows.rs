//! Each option in stunnel's manual or source, without aliases, and its conversion.

use crate::row::{self, Row, Table};

/// The options of stunnel 5.
pub(crate) static ROWS: Table = Table::new(|| row::rows(include_str!("../../tables/stunnel.tsv")));

/// Options that a section can repeat: each occurrence adds a value.
pub(super) const REPEATABLE: [&str; 6] =
    ["checkemail", "checkhost", "checkip", "config", "options", "socket"];

/// The row of an option, by its name in small letters.
pub(super) fn row_of(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(key))
}
