//! Lines of text for a person at a terminal, as wide as that is. In: lines, sentences. Out: the text.

use handfast_text::units;
use handfast_text::wrap::wrapped;

/// The style.
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
/// From here on there is room for two parts beside each other.
const TWO: usize = 118;
/// Columns of the left one, and between both.
const LEFT: usize = 61;
const GAP: usize = 3;

/// Text so far.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) columns: usize,
    color: bool,
}

impl Page {
    pub(crate) fn new(style: Style) -> Self {
        Self { text: String::new(), columns: style.columns.clamp(NARROWEST, WIDEST), color: style.color }
    }

    /// Returns true if there is room for two parts beside each other.
    pub(crate) fn is_wide(&self) -> bool {
        self.columns >= TWO
    }

    /// Returns true if this is one of two parts: rows are to be short.
    pub(crate) fn is_part(&self) -> bool {
        self.columns < NARROWEST
    }

    /// Two parts beside each other; on a narrow screen one below the other.
    pub(crate) fn beside(&mut self, left: impl FnOnce(&mut Self), right: impl FnOnce(&mut Self)) {
        if !self.is_wide() {
            left(self);
            right(self);
            return;
        }
        let part = |columns| Self { text: String::new(), columns, color: self.color };
        let (mut one, mut other) = (part(LEFT), part(self.columns - LEFT - GAP));
        left(&mut one);
        right(&mut other);
        let (mut ones, mut others) = (one.text.lines(), other.text.lines());
        loop {
            let (one, other) = (ones.next(), others.next());
            if one.is_none() && other.is_none() {
                return;
            }
            let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
            let gap = " ".repeat((LEFT + GAP).saturating_sub(columns(one)));
            self.line(&format!("{one}{gap}{other}"));
        }
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

/// Columns that a line takes: what [`Page::paint`] adds takes none.
fn columns(line: &str) -> usize {
    let mut painted = false;
    let is_shown = |letter: &char| {
        let hidden = painted || *letter == '\u{1b}';
        painted = hidden && *letter != 'm';
        !hidden
    };
    line.chars().filter(is_shown).count()
}

/// Milliseconds with the unit that fits.
pub(crate) fn ms(ms: f64) -> String {
    units::duration(ms * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_parts_stand_beside_each_other_where_there_is_room() {
        let shown = |columns, color| {
            let mut page = Page::new(Style { color, columns });
            page.beside(
                |page| page.title("left"),
                |page| (1..=3).for_each(|row| page.line(&row.to_string())),
            );
            page.text
        };
        assert_eq!(shown(80, false), "\nleft\n1\n2\n3\n");
        let gap = LEFT + GAP;
        let wide = format!("{:gap$}1\n{:<gap$}2\n{:gap$}3\n", "", "left", "");
        assert_eq!(shown(120, false), wide);
        assert_eq!(shown(200, true).replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""), wide);
    }
}
