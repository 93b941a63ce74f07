//! Lines of a terminal: pieces of text with colors, cut at its width. Pure.
//!
//! Not ratatui: lines that are drawn once a second need no more than this, and a crash must not leave the terminal in another mode.

/// The capabilities of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether with colors.
    pub(crate) color: bool,
    /// Whether more than ASCII is shown.
    pub(crate) unicode: bool,
    /// Whether on a terminal, which can show letters bold and inverse.
    pub(crate) terminal: bool,
}

/// The look of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shade {
    Plain,
    Strong,
    Faint,
    Good,
    Warning,
    Bad,
    Chosen,
    /// A part of a handshake, by its number.
    Phase(usize),
}

impl Shade {
    /// The escape sequence that starts it; empty for plain text.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\u{1b}[1m",
            Self::Faint => "\u{1b}[2m",
            Self::Good => "\u{1b}[32m",
            Self::Warning => "\u{1b}[33m",
            Self::Bad => "\u{1b}[1;31m",
            Self::Chosen => "\u{1b}[7m",
            Self::Phase(phase) => ["\u{1b}[34m", "\u{1b}[33m", "\u{1b}[32m", "\u{1b}[35m"][phase % 4],
        }
    }
}

/// A line of pieces.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line(pub(crate) Vec<(String, Shade)>);

impl Line {
    pub(crate) fn of(text: impl Into<String>, shade: Shade) -> Self {
        Self(vec![(text.into(), shade)])
    }

    #[must_use]
    pub(crate) fn and(mut self, text: impl Into<String>, shade: Shade) -> Self {
        self.0.push((text.into(), shade));
        self
    }

    /// Characters.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).sum()
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// As bytes for a terminal, cut at `width`.
    pub(crate) fn shown(&self, width: usize, look: Look) -> String {
        let (mut shown, mut room) = (String::new(), width);
        for (text, shade) in &self.0 {
            let fits: String = text.chars().map(|letter| letter_of(letter, look)).take(room).collect();
            room -= fits.chars().count();
            let is_color = !matches!(shade, Shade::Chosen | Shade::Strong);
            let wanted = if is_color { look.color } else { look.terminal };
            let code = if wanted { shade.code() } else { "" };
            match code.is_empty() || fits.is_empty() {
                true => shown.push_str(&fits),
                false => shown.push_str(&format!("{code}{fits}\u{1b}[0m")),
            }
        }
        shown
    }
}

/// A character that the terminal can display.
fn letter_of(letter: char, look: Look) -> char {
    match letter {
        _ if look.unicode || letter.is_ascii() => letter,
        'µ' => 'u',
        '…' => '~',
        '·' => '|',
        '–' => '-',
        '▲' => '^',
        '▼' => 'v',
        '█' => '#',
        _ => '?',
    }
}

/// The last figures as heights, from zero to the highest of them.
pub(crate) fn curve(figures: &[f64], width: usize, unicode: bool) -> String {
    let heights: &[char] = if unicode {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &['_', '.', '-', '=', '+', '*', '#']
    };
    let shown = &figures[figures.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let height = |figure: &f64| {
        let share = if most > 0.0 { figure / most } else { 0.0 };
        let at = (share * (heights.len() - 1) as f64).round() as usize;
        heights[at.min(heights.len() - 1)]
    };
    shown.iter().map(height).collect()
}
