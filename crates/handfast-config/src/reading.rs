//! One reading of a file: its text, the place of each value, and the problems found so far. Knows no key.

use std::cell::{OnceCell, RefCell, RefMut};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;

use super::files::Named;
use super::hidden::Hidden;
use super::problem::{Fault, Place, Problem, Severity, sort_by_place};
use super::schema::{Section, known_names};

/// Problems beyond this many are dropped: a hostile file must not cost memory.
const MAX_PROBLEMS: usize = 200;

/// One reading of one file: the text, which paths are folders, and the problems found so far.
pub(crate) struct Reading<'r> {
    file: &'r str,
    text: &'r str,
    line_starts: Vec<usize>,
    hidden: OnceCell<Hidden>,
    folder: &'r Path,
    is_folder: &'r dyn Fn(&Path) -> bool,
    problems: RefCell<Vec<Problem>>,
    missing: RefCell<Vec<Problem>>,
    named: RefCell<Named>,
    root: Option<&'static Section>,
}

impl<'r> Reading<'r> {
    /// Starts to read `text`; relative paths are relative to the folder of `file`.
    pub(crate) fn new(file: &'r str, text: &'r str, is_folder: &'r dyn Fn(&Path) -> bool) -> Self {
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(newline, _)| newline + 1)).collect();
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        Self {
            file,
            text,
            line_starts,
            hidden: OnceCell::new(),
            folder,
            is_folder,
            problems: RefCell::default(),
            missing: RefCell::default(),
            named: RefCell::default(),
            root: None,
        }
    }

    /// The same for a whole file: its messages also name the other sections of `root`.
    pub(crate) fn of_file(self, root: &'static Section) -> Self {
        Self { root: Some(root), ..self }
    }

    /// Every section that the file may have.
    pub(crate) fn sections(&self) -> Vec<&'static Section> {
        self.root.map(Section::all).unwrap_or_default()
    }

    pub(crate) fn names(&self, path: &Path, span: &Range<usize>) {
        let place = self.place(span);
        self.named.borrow_mut().places.0.push((path.to_path_buf(), place));
    }

    /// The files that are named, which are examined even when the configuration is refused.
    pub(crate) fn named(&self) -> RefMut<'_, Named> {
        self.named.borrow_mut()
    }

    pub(crate) fn text(&self) -> &'r str {
        self.text
    }

    pub(crate) fn source(&self, item: &Item<'_>) -> &'r str {
        self.text.get(item.span.clone()).unwrap_or_default()
    }

    pub(crate) fn folder(&self) -> &'r Path {
        self.folder
    }

    /// A path as written, and whether it is a folder.
    pub(crate) fn path(&self, text: &str) -> (PathBuf, bool) {
        let path = self.folder.join(text);
        let is_folder = text.ends_with('/') || (self.is_folder)(&path);
        (path, is_folder)
    }

    pub(crate) fn error(&self, span: &Range<usize>, fault: Fault) {
        self.note(&self.problems, Severity::Error, span, fault);
    }

    /// Notes that something is not there: doubtful as long as the file has slips in its syntax.
    pub(crate) fn missing(&self, span: &Range<usize>, fault: Fault) {
        self.note(&self.missing, Severity::Error, span, fault);
    }

    pub(crate) fn warning(&self, span: &Range<usize>, fault: Fault) {
        self.note(&self.problems, Severity::Warning, span, fault);
    }

    fn note(&self, list: &RefCell<Vec<Problem>>, severity: Severity, span: &Range<usize>, fault: Fault) {
        let mut problems = list.borrow_mut();
        let problem = Problem { severity, ..self.problem(span, fault) };
        // A section is opened by each check that needs it, and has its problems once.
        if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// An error that is not noted. No error contains the hidden parts of the file.
    pub(crate) fn problem(&self, span: &Range<usize>, fault: Fault) -> Problem {
        let hidden = self.hidden.get_or_init(|| Hidden::of(self.text, known_names(&self.sections())));
        let shown = |text: String| hidden.redacted(&text, self.text, span);
        let Fault { what, allowed, hint, see } = fault;
        let (what, hint) = (shown(what), hint.map(shown));
        Problem { severity: Severity::Error, place: self.place(span), what, allowed, hint, see }
    }

    /// The place of some bytes, cut to the text and to whole characters.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.ceil_char_boundary(span.end.max(start));
        let line = self.line(start);
        Place::Text {
            file: self.file.to_owned(),
            line,
            column: self.text[self.line_starts[line - 1]..start].chars().count() + 1,
            span: start..end,
            text: self.text[start..end].to_owned(),
        }
    }

    /// The line, from 1, that a byte is in.
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

    pub(crate) fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Forgets what is missing: it may be in a line that could not be read.
    pub(crate) fn forget_missing(&self) {
        self.missing.borrow_mut().clear();
    }

    /// Everything noted, in the order of the file.
    pub(crate) fn finish(self) -> (Vec<Problem>, Named) {
        let mut problems = self.problems.into_inner();
        problems.append(&mut self.missing.into_inner());
        sort_by_place(&mut problems);
        let mut named = self.named.into_inner();
        // A value is read again by each section that inherits it.
        let mut known = HashSet::new();
        named.places.0.retain(|place| known.insert(place.clone()));
        (problems, named)
    }
}

#[derive(Clone)]
pub(crate) struct Item<'t> {
    pub(crate) value: &'t DeValue<'t>,
    pub(crate) span: Range<usize>,
}

impl<'t> Item<'t> {
    pub(crate) fn new(value: &'t Spanned<DeValue<'t>>) -> Self {
        Self { value: value.get_ref(), span: value.span() }
    }

    pub(crate) fn kind_name(&self) -> &'static str {
        match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a section",
        }
    }
}

/// A value that was read, and its place. It is shown and compared without the place.
#[derive(Clone)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

pub(crate) fn values<T>(written: Vec<Written<T>>) -> Vec<T> {
    written.into_iter().map(|item| item.value).collect()
}

impl<T: fmt::Debug> fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Written<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
