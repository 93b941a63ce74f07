//! Splits pieces of input into lines, with bounded memory.
//!
//! In: pieces. Out: each line with its number; a line longer than any of the access log is reported and dropped.

use std::io;

/// Longest line that is read: a hundred times the longest that the proxy writes.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;

/// The consumer of a line: its number, counted from 1, and the line without its end; `None` if it is longer than [`MAX_LINE_BYTES`].
pub(super) type Take<'a> = dyn FnMut(u64, Option<&[u8]>) -> io::Result<()> + 'a;

/// The rest of the last piece.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    number: u64,
    too_long: bool,
}

impl Lines {
    /// Splits a piece.
    ///
    /// **Errors**: those of `take`.
    pub(super) fn feed(&mut self, mut piece: &[u8], take: &mut Take<'_>) -> io::Result<()> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = piece.split_at(end);
            piece = &rest[1..];
            if self.begun.is_empty() && !self.too_long && head.len() <= MAX_LINE_BYTES {
                self.number += 1;
                take(self.number, Some(head))?;
                continue;
            }
            self.begin(head);
            self.end(take)?;
        }
        self.begin(piece);
        Ok(())
    }

    /// The end of the input: a partial line counts.
    ///
    /// **Errors**: those of `take`.
    pub(super) fn end(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        if self.begun.is_empty() && !self.too_long {
            return Ok(());
        }
        self.number += 1;
        let line = (!std::mem::take(&mut self.too_long)).then_some(self.begun.as_slice());
        let taken = take(self.number, line);
        self.begun.clear();
        taken
    }

    /// The source begins again: an incomplete line is dropped.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    fn begin(&mut self, piece: &[u8]) {
        if self.too_long || self.begun.len() + piece.len() > MAX_LINE_BYTES {
            self.too_long = true;
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]]) -> Vec<(u64, Option<String>)> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        let mut take = |number: u64, line: Option<&[u8]>| {
            seen.push((number, line.map(|line| String::from_utf8_lossy(line).into_owned())));
            Ok(())
        };
        for piece in pieces {
            lines.feed(piece, &mut take).expect("it takes all");
        }
        lines.end(&mut take).expect("it takes all");
        seen
    }

    #[test]
    fn pieces_become_lines_wherever_they_are_cut() {
        let text = b"one\n\nthree\nfour";
        let expected: Vec<_> =
            [(1, "one"), (2, ""), (3, "three"), (4, "four")].map(|(n, t)| (n, Some(t.to_owned()))).into();
        for cut in 0..text.len() {
            let (head, rest) = text.split_at(cut);
            assert_eq!(lines_of(&[head, rest]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let much = vec![b'x'; MAX_LINE_BYTES / 2 + 1];
        let seen = lines_of(&[&much, &much, &much, b"\nnext\n"]);
        assert_eq!(seen, [(1, None), (2, Some("next".to_owned()))]);
        let whole = [much.as_slice(), &much, b"\nnext\n"].concat();
        assert_eq!(lines_of(&[&whole]), [(1, None), (2, Some("next".to_owned()))]);
        assert_eq!(lines_of(&[&much, &much]), [(1, None)]);
    }
}
