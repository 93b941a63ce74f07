//! One file of a configuration: its text, its lines, and where it is in the configuration as a whole.
//!
//! Places of values count over all files: the first byte of a file follows the last one of the file before it. So a place is one range
//! of bytes, whichever file it is in.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::Path;

use super::hidden::Hidden;
use super::known_names::KnownNames;
use super::problem::Place;

/// One file of a configuration.
pub(crate) struct Part<'r> {
    file: &'r str,
    text: &'r str,
    /// The place of its first byte.
    start: usize,
    line_starts: Vec<usize>,
    hidden: OnceCell<Hidden>,
    folder: &'r Path,
}

impl<'r> Part<'r> {
    pub(crate) fn new(file: &'r str, text: &'r str, start: usize) -> Self {
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(newline, _)| newline + 1)).collect();
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        Self { file, text, start, line_starts, hidden: OnceCell::new(), folder }
    }

    pub(crate) fn file(&self) -> &'r str {
        self.file
    }

    pub(crate) fn text(&self) -> &'r str {
        self.text
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The start of a file after this one. The byte between the two belongs to this one: an error may be at its end.
    pub(crate) fn next_start(&self) -> usize {
        self.start + self.text.len() + 1
    }

    /// The folder that its relative paths start from.
    pub(crate) fn folder(&self) -> &'r Path {
        self.folder
    }

    /// A range of its bytes as a place of the whole configuration.
    pub(crate) fn outside(&self, inside: &Range<usize>) -> Range<usize> {
        inside.start + self.start..inside.end + self.start
    }

    /// A place of the whole configuration as a range of its bytes.
    pub(crate) fn inside(&self, outside: &Range<usize>) -> Range<usize> {
        outside.start.saturating_sub(self.start)..outside.end.saturating_sub(self.start)
    }

    /// A place, cut to the text and to whole characters.
    pub(crate) fn place(&self, outside: &Range<usize>) -> Place {
        let inside = self.inside(outside);
        let start = self.text.floor_char_boundary(inside.start);
        let end = self.text.ceil_char_boundary(inside.end.max(start));
        let line = self.line(start);
        Place::Text {
            file: self.file.to_owned(),
            line,
            column: self.text[self.line_starts[line - 1]..start].chars().count() + 1,
            span: start..end,
            text: self.text[start..end].to_owned(),
        }
    }

    /// A message about a place, without what is hidden in its lines.
    pub(crate) fn redacted(
        &self,
        message: &str,
        outside: &Range<usize>,
        names: impl FnOnce() -> KnownNames,
    ) -> String {
        let hidden = self.hidden.get_or_init(|| Hidden::of(self.text, names()));
        hidden.redacted(message, self.text, &self.inside(outside))
    }

    /// The line, from 1, that one of its bytes is in.
    pub(crate) fn line(&self, byte: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= byte)
    }

    /// The text of a line, from 1, and where it starts.
    pub(crate) fn line_text(&self, line: usize) -> (usize, &'r str) {
        let start = self.line_starts[line - 1];
        let end = self.line_starts.get(line).copied().unwrap_or(self.text.len());
        (start, self.text[start..end].trim_end_matches(['\n', '\r']))
    }

    pub(crate) fn lines(&self) -> usize {
        self.line_starts.len()
    }
}
