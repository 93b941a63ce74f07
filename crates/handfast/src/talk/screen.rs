//! A picture of a few rows at the end of a terminal's text, updated in place.
//!
//! In: rows, and lines that belong above them. Out: bytes for the terminal, one write for each change.
//!
//! No alternate screen, no raw mode, no hidden cursor: between writes, the cursor is below the picture.
//! After any end of the program the terminal works as before, and the last picture stays in its history.
//!
//! Not the inline viewport of ratatui: it asks the terminal for the cursor's position on standard output, where the report goes, and reads
//! the answer from the keyboard.

use std::io::Write;

pub(super) use crate::screen::Line;
use crate::screen::Pieces;

/// The state of the picture.
pub(super) struct Screen<W> {
    out: W,
    size: fn() -> Option<(u16, u16)>,
    rows: Vec<Line>,
}

impl<W: Write> Screen<W> {
    /// Nothing shown yet. `size` gives columns and rows as they are now.
    pub(super) fn new(out: W, size: fn() -> Option<(u16, u16)>) -> Self {
        Self { out, size, rows: Vec::new() }
    }

    /// Writes a line above the picture.
    pub(super) fn text(&mut self, line: &str) {
        if !line.is_empty() {
            let text = format!("{}{line}\n{}", self.erased(), lines(&self.rows));
            self.write(&text);
        }
    }

    /// Replaces the picture by these rows.
    pub(super) fn show(&mut self, rows: Vec<Line>) {
        let text = format!("{}{}", self.erased(), lines(&rows));
        self.rows = rows;
        self.write(&text);
    }

    /// Moves to the top of the picture and clears from there; nothing without a picture.
    fn erased(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        // Most terminals wrap rows into several when they become narrower.
        let columns = (self.size)().map_or(usize::MAX, |(columns, _)| usize::from(columns));
        let height: usize = self.rows.iter().map(|row| row.width().div_ceil(columns).max(1)).sum();
        format!("\r\u{1b}[{height}A\u{1b}[J")
    }

    /// A missing reader is ignored.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }
}

fn lines(rows: &[Line]) -> String {
    rows.iter().map(|row| format!("{}\n", row.bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Shade;

    fn screen() -> Screen<Vec<u8>> {
        Screen::new(Vec::new(), || Some((10, 5)))
    }

    fn written(screen: &mut Screen<Vec<u8>>) -> String {
        String::from_utf8(std::mem::take(&mut screen.out)).expect("text")
    }

    #[test]
    fn lines_without_a_picture_are_just_lines() {
        let mut screen = screen();
        screen.text("hello");
        screen.show(Vec::new());
        assert_eq!(written(&mut screen), "hello\n");
    }

    #[test]
    fn a_picture_takes_the_place_of_the_last_one() {
        let mut screen = screen();
        screen.show(vec!["one".into(), "two".into()]);
        assert_eq!(written(&mut screen), "one\ntwo\n");
        screen.show(vec!["three".into()]);
        assert_eq!(written(&mut screen), "\r\u{1b}[2A\u{1b}[Jthree\n");
        screen.text("a warning");
        assert_eq!(written(&mut screen), "\r\u{1b}[1A\u{1b}[Ja warning\nthree\n");
        screen.show(Vec::new());
        assert_eq!(written(&mut screen), "\r\u{1b}[1A\u{1b}[J");
        screen.text("after");
        assert_eq!(written(&mut screen), "after\n");
    }

    #[test]
    fn rows_that_a_narrower_terminal_broke_are_counted() {
        let mut screen = screen();
        screen.show(vec![Line::of("0123456789", Shade::Strong), "0123456789a".into(), Line::default()]);
        written(&mut screen);
        screen.show(Vec::new());
        assert_eq!(written(&mut screen), "\r\u{1b}[4A\u{1b}[J", "1 and 2 and 1");
    }
}
