//! One reading of a configuration: its files, the place of each value, and the problems found so far. Knows no key.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;

use super::files::Named;
use super::machine::Machine;
use super::part::Part;
use super::problem::{Fault, Place, Problem, Severity, sort_by_place};
use super::schema::{Section, known_names};

/// Problems beyond this many are dropped: a hostile file must not cost memory.
const MAX_PROBLEMS: usize = 200;

/// One reading of a configuration: its files, answers of the machine, and the problems found so far.
pub(crate) struct Reading<'r> {
    /// At least one, in the order that they were read.
    parts: Vec<Part<'r>>,
    machine: &'r dyn Machine,
    problems: RefCell<Vec<Problem>>,
    missing: RefCell<Vec<Problem>>,
    named: RefCell<Named>,
    root: Option<&'static Section>,
    /// The key whose value is being read.
    key: Cell<&'static str>,
}

impl<'r> Reading<'r> {
    /// Starts to read `text`; relative paths are relative to the folder of `file`.
    pub(crate) fn new(file: &'r str, text: &'r str, machine: &'r dyn Machine) -> Self {
        Self {
            parts: vec![Part::new(file, text, 0)],
            machine,
            problems: RefCell::default(),
            missing: RefCell::default(),
            named: RefCell::default(),
            root: None,
            key: Cell::default(),
        }
    }

    /// Adds another file.
    pub(crate) fn add(&mut self, file: &'r str, text: &'r str) {
        let start = self.parts.last().map_or(0, Part::next_start);
        self.parts.push(Part::new(file, text, start));
    }

    /// Its files, the first one first.
    pub(crate) fn parts(&self) -> &[Part<'r>] {
        &self.parts
    }

    /// The file that a place is in.
    pub(crate) fn part(&self, span: &Range<usize>) -> &Part<'r> {
        let after = self.parts.partition_point(|part| part.start() <= span.start);
        &self.parts[after.saturating_sub(1)]
    }

    /// Notes that the value of a key is read next.
    pub(crate) fn set_key(&self, name: &'static str) {
        self.key.set(name);
    }

    /// The name of the key whose value is being read.
    pub(crate) fn key(&self) -> &'static str {
        self.key.get()
    }

    pub(crate) fn machine(&self) -> &'r dyn Machine {
        self.machine
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

    pub(crate) fn source(&self, item: &Item<'_>) -> &'r str {
        let part = self.part(&item.span);
        part.text().get(part.inside(&item.span)).unwrap_or_default()
    }

    /// The folder that relative paths in a value start from.
    pub(crate) fn folder(&self, item: &Item<'_>) -> &'r Path {
        self.part(&item.span).folder()
    }

    /// A path as written in a value, and whether it is a folder.
    pub(crate) fn path(&self, text: &str, item: &Item<'_>) -> (PathBuf, bool) {
        let path = self.folder(item).join(text);
        let is_folder = text.ends_with('/') || self.machine.is_folder(&path);
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

    /// Notes a problem of a file as a whole.
    pub(crate) fn add_problem(&self, problem: Problem) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MAX_PROBLEMS {
            problems.push(problem);
        }
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
        let names = || known_names(&self.sections());
        let shown = |text: String| self.part(span).redacted(&text, span, names);
        let Fault { what, allowed, hint, see } = fault;
        let (what, hint) = (shown(what), hint.map(shown));
        let see = see.map(|(span, why)| (self.place(&span), why));
        Problem { severity: Severity::Error, place: self.place(span), what, allowed, hint, see }
    }

    /// A place with its file and line.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        self.part(span).place(span)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Forgets what is missing: it may be in a line that could not be read.
    pub(crate) fn forget_missing(&self) {
        self.missing.borrow_mut().clear();
    }

    /// Everything noted, in the order of the files.
    pub(crate) fn finish(self) -> (Vec<Problem>, Named) {
        let mut problems = self.problems.into_inner();
        problems.append(&mut self.missing.into_inner());
        let mut named = self.named.into_inner();
        named.files = self.parts.iter().map(|part| part.file().to_owned()).collect();
        sort_by_place(&mut problems, &named.files);
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
