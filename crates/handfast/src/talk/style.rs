//! Colors and width of the terminal.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use handfast_report::Style;

use super::terminal_size;

/// Returns true if messages on standard error have colors.
pub(crate) fn color() -> bool {
    should_use_color(io::stderr().is_terminal())
}

/// The style of a report on this stream.
pub(crate) fn style(stream: impl IsTerminal + AsFd) -> Style {
    let color = should_use_color(stream.is_terminal());
    Style { color, columns: terminal_size(stream).map(|(columns, _)| columns.into()) }
}

/// Color only on a terminal, and without NO_COLOR (no-color.org).
pub(crate) fn should_use_color(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
