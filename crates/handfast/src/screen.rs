//! Lines of a terminal in the styles of this program, on ratatui: for full screens and for pictures below the text.

use std::io;

use ratatui::backend::IntoCrossterm;
use ratatui::style::{Color, Style};
use ratatui::text::Span;

use handfast_text::table::cut;

/// A line of pieces.
pub(crate) type Line = ratatui::text::Line<'static>;

/// The capabilities of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// True to show colors.
    pub(crate) color: bool,
    /// True to show more than ASCII.
    pub(crate) unicode: bool,
    /// True on a terminal, which can show bold and inverse text.
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

impl From<Shade> for Style {
    fn from(shade: Shade) -> Self {
        let style = Self::new();
        match shade {
            Shade::Plain => style,
            Shade::Strong => style.bold(),
            Shade::Faint => style.dim(),
            Shade::Good => style.green(),
            Shade::Warning => style.yellow(),
            Shade::Bad => style.red().bold(),
            Shade::Chosen => style.reversed(),
            Shade::Phase(phase) => {
                style.fg([Color::Blue, Color::Yellow, Color::Green, Color::Magenta][phase % 4])
            }
        }
    }
}

/// Lines of pieces.
pub(crate) trait Pieces {
    /// One piece.
    fn of(text: impl Into<String>, shade: Shade) -> Self;
    /// It with another piece behind it.
    #[must_use]
    fn and(self, text: impl Into<String>, shade: Shade) -> Self;
    /// It in at most this number of columns; the last one is an ellipsis if it was wider.
    #[must_use]
    fn cut_to(self, room: usize) -> Self;
    /// It as this output can show it.
    #[must_use]
    fn fit_for(self, look: Look) -> Self;
    /// It as bytes for a terminal.
    fn bytes(&self) -> String;
}

impl Pieces for Line {
    fn of(text: impl Into<String>, shade: Shade) -> Self {
        Self::default().and(text, shade)
    }

    fn and(self, text: impl Into<String>, shade: Shade) -> Self {
        self + Span::styled(text.into(), shade)
    }

    fn cut_to(mut self, mut room: usize) -> Self {
        if self.width() <= room {
            return self;
        }
        for span in &mut self.spans {
            let wide = span.width();
            if wide >= room {
                // With a blank, so that it is cut where it alone would fit.
                span.content = cut(&format!("{} ", span.content), room).into_owned().into();
            }
            room = room.saturating_sub(wide);
        }
        self
    }

    fn fit_for(mut self, look: Look) -> Self {
        for span in &mut self.spans {
            if !look.color {
                span.style = if look.terminal { Style { fg: None, ..span.style } } else { Style::new() };
            }
            if !look.unicode {
                span.content = span.content.chars().map(ascii).collect::<String>().into();
            }
        }
        self
    }

    fn bytes(&self) -> String {
        let piece = |span: &Span<'_>| match span.style == Style::new() {
            true => span.content.to_string(),
            false => span.style.into_crossterm().apply(&span.content).to_string(),
        };
        self.iter().map(piece).collect()
    }
}

/// A character that a terminal without Unicode can display.
fn ascii(letter: char) -> char {
    match letter {
        _ if letter.is_ascii() => letter,
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

/// Returns true if this is a terminal that can move its cursor.
pub(crate) fn is_screen(stream: &impl io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}
