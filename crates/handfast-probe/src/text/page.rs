//! Lines of text for a person at a terminal, as wide as that is. In: lines, sentences. Out: the text.

use handfast_text::units;
use handfast_text::wrap::wrapped;

/// How it is to look.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// With colours.
    pub color: bool,
    /// Columns of the screen.
    pub columns: usize,
}

/// Narrower than this, lines are broken by the terminal.
const NARROWEST: usize = 72;
/// Wider than this, a line is hard to follow.
const WIDEST: usize = 120;

/// What has been written so far.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) columns: usize,
    color: bool,
}

impl Page {
    pub(crate) fn new(style: Style) -> Self {
        Self { text: String::new(), columns: style.columns.clamp(NARROWEST, WIDEST), color: style.color }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    pub(crate) fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn title(&mut self, title: &str) {
        let title = self.paint("1", title);
        self.line("");
        self.line(&title);
    }

    /// A sentence, broken at spaces, each line indented.
    pub(crate) fn wrapped(&mut self, text: &str, first: &str, indent: usize) {
        wrapped(first, &" ".repeat(indent), text, self.columns).iter().for_each(|line| self.line(line));
    }
}

/// Milliseconds with the unit that fits.
pub(crate) fn ms(ms: f64) -> String {
    units::duration(ms * 1e6)
}
