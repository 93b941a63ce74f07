//! Reads a TOML table by its description: values that are there, values that are missing, and what should not be there.
//!
//! In: the parsed tree with the place of each value (`toml`), and a [`Section`]. Out: typed values; everything that
//! is wrong goes to the [`Reading`], so that one run finds all of it. A value that is wrong is reported and then
//! treated as if it were not written, which lets the checks after it go on.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use handfast_text::suggest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::Named;
use super::foreign;
use super::keys;
use super::kind::ValueKind;
use super::model::{CertificateSource, ClientChecks};
use super::problem::{Fault, Place, Problem, Severity};
use super::schema::{Default, Entry, Key, Section};

/// Problems beyond this many are dropped: nobody reads them, and a hostile file must not cost memory.
const MOST_PROBLEMS: usize = 200;

/// One reading of one file: the text, what the world outside looks like, and the problems found so far.
pub(crate) struct Reading<'r> {
    file: &'r str,
    text: &'r str,
    line_starts: Vec<usize>,
    folder: &'r Path,
    is_folder: &'r dyn Fn(&Path) -> bool,
    problems: RefCell<Vec<Problem>>,
    missing: RefCell<Vec<Problem>>,
    named: RefCell<Named>,
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
            folder,
            is_folder,
            problems: RefCell::default(),
            missing: RefCell::default(),
            named: RefCell::default(),
        }
    }

    /// Notes a file or folder that is named.
    pub(crate) fn names(&self, path: &Path, span: &Range<usize>) {
        let place = self.place(span);
        self.named.borrow_mut().places.0.push((path.to_path_buf(), place));
    }

    /// Notes certificates that could be loaded, whatever else is wrong.
    pub(crate) fn names_certificates(&self, sources: &[CertificateSource]) {
        self.named.borrow_mut().certificates.push(sources.to_vec());
    }

    /// Notes a file of whom to trust when dialling, which could be loaded whatever else is wrong.
    pub(crate) fn names_trusted(&self, file: &Path) {
        self.named.borrow_mut().trusted.push(file.to_path_buf());
    }

    /// Notes authorities and revocation lists that could be loaded, whatever else is wrong.
    pub(crate) fn names_authorities(&self, checks: &ClientChecks) {
        self.named.borrow_mut().authorities.push(checks.clone());
    }

    /// Notes lists of known keys that could be loaded, whatever else is wrong.
    pub(crate) fn names_weak_keys(&self, files: &[PathBuf]) {
        self.named.borrow_mut().weak_keys.extend_from_slice(files);
    }

    /// Notes the user, or group, to become.
    pub(crate) fn names_user(&self, user: Option<&String>, span: Option<Range<usize>>, is_group: bool) {
        let Some((name, span)) = user.zip(span) else { return };
        let mut named = self.named.borrow_mut();
        let slot = if is_group { &mut named.group } else { &mut named.user };
        *slot = Some((name.clone(), self.place(&span)));
    }

    /// The file's text.
    pub(crate) fn text(&self) -> &'r str {
        self.text
    }

    /// The folder that relative paths start from.
    pub(crate) fn folder(&self) -> &'r Path {
        self.folder
    }

    /// A path as written, and whether it is a folder.
    pub(crate) fn path(&self, text: &str) -> (PathBuf, bool) {
        let path = self.folder.join(text);
        let is_folder = text.ends_with('/') || (self.is_folder)(&path);
        (path, is_folder)
    }

    /// Notes an error.
    pub(crate) fn error(&self, span: &Range<usize>, fault: Fault) {
        self.note(&self.problems, Severity::Error, span, fault);
    }

    /// Notes that something is not there: doubtful as long as the file has slips in its syntax.
    pub(crate) fn missing(&self, span: &Range<usize>, fault: Fault) {
        self.note(&self.missing, Severity::Error, span, fault);
    }

    /// Notes a warning.
    pub(crate) fn warning(&self, span: &Range<usize>, fault: Fault) {
        self.note(&self.problems, Severity::Warning, span, fault);
    }

    fn note(&self, list: &RefCell<Vec<Problem>>, severity: Severity, span: &Range<usize>, fault: Fault) {
        let mut problems = list.borrow_mut();
        let problem = Problem { severity, ..self.problem(span, fault) };
        // A section is opened by each check that needs it, and has its problems once.
        if problems.len() < MOST_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// An error that is not noted.
    pub(crate) fn problem(&self, span: &Range<usize>, fault: Fault) -> Problem {
        let Fault { what, allowed, hint, see } = fault;
        Problem { severity: Severity::Error, place: self.place(span), what, allowed, hint, see }
    }

    /// The place of some bytes, cut to the text and to whole characters.
    fn place(&self, span: &Range<usize>) -> Place {
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

    /// Number of lines.
    pub(crate) fn lines(&self) -> usize {
        self.line_starts.len()
    }

    /// Whether anything was noted.
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
        in_order(&mut problems);
        (problems, self.named.into_inner())
    }
}

/// Sorts problems by their places in the file.
pub(crate) fn in_order(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| match &problem.place {
        Place::Text { span, .. } => span.start,
        Place::Flag { .. } | Place::File { .. } => 0,
    });
}

/// A value and where it stands.
#[derive(Clone)]
pub(crate) struct Item<'t> {
    /// The value.
    pub(crate) value: &'t DeValue<'t>,
    /// Its bytes.
    pub(crate) span: Range<usize>,
}

impl<'t> Item<'t> {
    /// The value as an item.
    pub(crate) fn new(value: &'t Spanned<DeValue<'t>>) -> Self {
        Self { value: value.get_ref(), span: value.span() }
    }

    /// What kind of value it is, in words.
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

/// A section as it stands in the file; a section that is not written is an empty one.
pub(crate) struct Table<'t> {
    section: &'static Section,
    entries: Option<&'t DeTable<'t>>,
    span: Range<usize>,
    reading: &'t Reading<'t>,
}

impl<'t> Table<'t> {
    /// Opens a table, and reports what should not be in it.
    pub(crate) fn open(
        section: &'static Section,
        entries: &'t DeTable<'t>,
        span: Range<usize>,
        reading: &'t Reading<'t>,
    ) -> Self {
        for (name, _) in entries.iter() {
            let word = name.get_ref().as_ref();
            if section.names().all(|known| known != word) {
                reading.error(&name.span(), unknown(word, section));
            }
        }
        Self { section, entries: Some(entries), span, reading }
    }

    /// A section that is not written.
    pub(crate) fn absent(section: &'static Section, reading: &'t Reading<'t>) -> Self {
        Self { section, entries: None, span: 0..0, reading }
    }

    /// The reading it belongs to.
    pub(crate) fn reading(&self) -> &'t Reading<'t> {
        self.reading
    }

    /// Every key that it may have.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'static dyn Entry> {
        self.section.keys.iter().copied()
    }

    /// Where its header stands.
    pub(crate) fn span(&self) -> &Range<usize> {
        &self.span
    }

    /// Whether it is written at all.
    pub(crate) fn is_written(&self) -> bool {
        self.entries.is_some()
    }

    /// Where the value of a key stands, if it is written.
    pub(crate) fn written(&self, key: &dyn Entry) -> Option<Range<usize>> {
        self.entry(key.name()).map(|value| value.span())
    }

    /// The value of a key that must be written.
    pub(crate) fn required<K: ValueKind>(&self, key: &Key<K>) -> Option<K::Value> {
        if self.entry(key.name).is_none() && !self.is_misspelt(key) {
            let what = format!("{} has no `{}`", self.section.header, key.name);
            let hint = format!("add a line such as `{} = {}`", key.name, key.example);
            self.reading.missing(&self.span, Fault::new(what).hint(hint));
        }
        self.optional(key)
    }

    /// The value of a key, if it is written and right.
    pub(crate) fn optional<K: ValueKind>(&self, key: &Key<K>) -> Option<K::Value> {
        let value = self.entry(key.name)?;
        key.kind.read(&Item::new(value), self.reading)
    }

    /// The value of a key as it stands in the file.
    pub(crate) fn item(&self, key: &dyn Entry) -> Option<Item<'t>> {
        self.entry(key.name()).map(Item::new)
    }

    /// The value of a key, or else `otherwise`, or else its default.
    pub(crate) fn or<K: ValueKind>(&self, key: &Key<K>, otherwise: Option<K::Value>) -> K::Value {
        self.optional(key).or(otherwise).unwrap_or_else(|| default_of(key))
    }

    /// The value of a key, or its default.
    pub(crate) fn or_default<K: ValueKind>(&self, key: &Key<K>) -> K::Value {
        self.or(key, None)
    }

    /// Whether a section inside this one is written.
    pub(crate) fn has(&self, section: &Section) -> bool {
        self.entry(section.name).is_some()
    }

    /// Where a section inside this one stands, if it is written.
    pub(crate) fn span_of(&self, section: &Section) -> Option<Range<usize>> {
        self.entry(section.name).map(|value| value.span())
    }

    /// The section inside this one.
    pub(crate) fn inner(&self, section: &'static Section) -> Table<'t> {
        let absent = Table { section, entries: None, span: self.span.clone(), reading: self.reading };
        let Some(value) = self.entry(section.name) else { return absent };
        match value.get_ref() {
            DeValue::Table(entries) => Table::open(section, entries, value.span(), self.reading),
            DeValue::Array(_) if value.get_ref().as_array().is_some_and(|list| list.iter().all(is_table)) => {
                let what = format!("{} is written once, in single brackets", section.header);
                self.reading.error(&value.span(), Fault::new(what));
                absent
            }
            _ => {
                self.reading.error(&value.span(), not_a_section(section, &Item::new(value)));
                absent
            }
        }
    }

    /// The sections of one name inside this one, in the order written.
    pub(crate) fn inner_list(&self, section: &'static Section) -> Vec<Table<'t>> {
        let Some(value) = self.entry(section.name) else { return Vec::new() };
        match value.get_ref() {
            DeValue::Array(list) => list
                .iter()
                .filter_map(|item| match item.get_ref() {
                    DeValue::Table(entries) => Some(Table::open(section, entries, item.span(), self.reading)),
                    _ => {
                        self.reading.error(&item.span(), not_a_section(section, &Item::new(item)));
                        None
                    }
                })
                .collect(),
            DeValue::Table(entries) => {
                let what = format!("there may be several of these, so each begins with {}", section.header);
                self.reading.error(&value.span(), Fault::new(what));
                // What is inside is read all the same, for the problems in it.
                vec![Table::open(section, entries, value.span(), self.reading)]
            }
            _ => {
                self.reading.error(&value.span(), not_a_section(section, &Item::new(value)));
                Vec::new()
            }
        }
    }

    /// Whether a key that nobody knows was probably meant to be this one, and has been reported as that.
    fn is_misspelt(&self, key: &dyn Entry) -> bool {
        let mut words = self
            .entries
            .into_iter()
            .flat_map(|entries| entries.iter())
            .map(|(name, _)| name.get_ref().as_ref());
        words.any(|word| {
            self.section.names().all(|known| known != word) && meant(word, self.section) == Some(key.name())
        })
    }

    fn entry(&self, name: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.entries?.get(name)
    }
}

fn is_table(item: &Spanned<DeValue<'_>>) -> bool {
    matches!(item.get_ref(), DeValue::Table(_))
}

fn not_a_section(section: &Section, item: &Item<'_>) -> Fault {
    Fault::new(format!("`{}` is a section of its own, not {}", section.name, item.kind_name()))
        .hint(section_hint(section))
}

/// How a section is written; a small one is better written in one line.
fn section_hint(section: &Section) -> String {
    if section.name == keys::CLIENT_CERTIFICATES.name {
        return "write `client-certificates = { mode = \"require\", ca = \"clients-ca.pem\" }`".to_owned();
    }
    if section.name == keys::HANDSHAKE_RATE.name {
        return "write `handshake-rate = { per-second = 10, burst = 50 }`".to_owned();
    }
    if section.name == keys::BACKEND_TLS.name {
        return "write `backend-tls = {}`, or with its keys between the braces".to_owned();
    }
    format!("write {} on a line of its own, and its keys below", section.header)
}

/// The value that holds when a key is not written.
pub(crate) fn default_of<K: ValueKind>(key: &Key<K>) -> K::Value {
    let Default::Value(text) = key.default else {
        unreachable!("`{}` has no default value; a test asks for every default", key.name)
    };
    let reading = Reading::new("", text, &|_| false);
    DeValue::parse(text)
        .ok()
        .and_then(|value| key.kind.read(&Item::new(&value), &reading))
        .expect("a test reads the default of every key")
}

/// Whether others call a key by this word; case and `_` for `-` are forgiven.
fn is_other_word(word: &str, key: &dyn Entry) -> bool {
    key.elsewhere().contains(&suggest::plain(word).as_str())
}

/// The key or section of this section that a word was probably meant to be.
fn meant(word: &str, section: &'static Section) -> Option<&'static str> {
    let other_word = || section.keys.iter().find(|key| is_other_word(word, **key)).map(|key| key.name());
    suggest::closest(word, section.names()).or_else(other_word)
}

/// What is wrong with a name that nobody knows, and what it may have been meant to be.
fn unknown(word: &str, section: &'static Section) -> Fault {
    let place = if section.name.is_empty() {
        "at the top of the file".to_owned()
    } else {
        format!("in {}", section.header)
    };
    let fault = Fault::new(format!("unknown key `{}` {place}", shortened(word)));
    if let Some(hint) = foreign::key(word) {
        return fault.hint(hint);
    }
    if let Some(name) = meant(word, section) {
        return fault.hint(format!("did you mean `{name}`?"));
    }
    if let Some((other, name)) = elsewhere(word, section) {
        let place =
            if other.name.is_empty() { "the top of the file".to_owned() } else { other.header.to_owned() };
        return fault.hint(format!("`{name}` belongs in {place}"));
    }
    fault.allowed(suggest::one_of(section.names()))
}

/// Another section that has a key or section of this name: one inside this one, or else anywhere.
fn elsewhere(word: &str, section: &'static Section) -> Option<(&'static Section, &'static str)> {
    // Most keys are a service's, also where another section has one of the same name.
    let others: Vec<&'static Section> = [&keys::FILE, &keys::SERVICE]
        .into_iter()
        .chain(section.all())
        .chain(keys::FILE.all())
        .filter(|other| !std::ptr::eq(*other, section))
        .collect();
    let by_name =
        |other: &&'static Section| other.names().find(|name| *name == word).map(|name| (*other, name));
    let by_other_word = |other: &&'static Section| {
        other.keys.iter().find(|key| is_other_word(word, **key)).map(|key| (*other, key.name()))
    };
    others.iter().find_map(by_name).or_else(|| others.iter().find_map(by_other_word))
}

/// A word short enough to be shown.
pub(crate) fn shortened(word: &str) -> String {
    if word.chars().count() <= 60 {
        return word.to_owned();
    }
    word.chars().take(57).chain("...".chars()).collect()
}
