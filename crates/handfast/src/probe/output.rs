//! Outputs of `handfast probe`: files of its options, and the style of its text.

use std::io::{self, IsTerminal};

use handfast_probe::text::Style;
use handfast_report::ToolError;

use crate::load::outputs::Output;
use crate::talk::{should_use_color, terminal_size};
use crate::words::probe::ProbeWords;

/// Columns where there is no terminal.
pub(super) const USUAL: u16 = 80;

/// The output of an option, if given.
pub(super) fn output(
    option: &'static str,
    path: &Option<std::path::PathBuf>,
) -> Result<Option<Output>, ToolError> {
    let made = path.as_deref().map(Output::prepare).transpose();
    made.map_err(|error| ToolError::failed(error.of(option).to_string()))
}

/// Returns true if JSON goes to standard output, so that text goes to standard error; and the text's style.
pub(super) fn style(words: &ProbeWords) -> (bool, Style) {
    let on_output = words.output.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let terminal = if on_output { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let columns = terminal_size(std::io::stderr()).map_or(USUAL, |(columns, _)| columns);
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(columns);
    (on_output, Style { color: should_use_color(terminal), columns: usize::from(columns) })
}
