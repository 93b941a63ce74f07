//! Reads a TOML table by its description: values that are there, values that are missing, and what should not be there.
//!
//! In: the parsed tree with the place of each value (`toml`), and a [`Section`]. Out: typed values; problems go to the [`Reading`],
//! so that one run finds all of them. A wrong value is reported and then treated as if it were not written, so the checks
//! after it go on.

use std::ops::Range;

use handfast_text::{renamed, suggest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::foreign_keys;
use super::problem::{Fault, shortened};
use super::reading::{Item, Reading, Written, values};
use super::schema::{Entry, Key, Section, ValueKind, default_of};

/// A section of the file; a section that is not written is an empty one.
pub(crate) struct Table<'t> {
    section: &'static Section,
    entries: Option<&'t DeTable<'t>>,
    /// Values for keys that are not written here.
    around: Option<&'t DeTable<'t>>,
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
            if section.names().any(|known| known == word) {
                continue;
            }
            match section.renamed(word) {
                Some(new) if entries.contains_key(new) => {
                    let what = format!("`{word}` is the old name of `{new}`, which is written too");
                    reading.error(&name.span(), Fault::new(what).hint("remove it"));
                }
                Some(new) => reading.warning(&name.span(), Fault::new(renamed::message(word, new))),
                None => reading.error(&name.span(), unknown(word, section, &reading.sections())),
            }
        }
        Self { section, entries: Some(entries), around: None, span, reading }
    }

    /// Opens a table that is opened once more, which is when its content is checked.
    pub(crate) fn unchecked(
        section: &'static Section,
        entries: &'t DeTable<'t>,
        reading: &'t Reading<'t>,
    ) -> Self {
        Self { section, entries: Some(entries), around: None, span: 0..0, reading }
    }

    pub(crate) fn absent(section: &'static Section, reading: &'t Reading<'t>) -> Self {
        Self { section, entries: None, around: None, span: 0..0, reading }
    }

    /// The same, with the values of another section for the keys that are not written in this one.
    pub(crate) fn inheriting(self, around: &Self) -> Self {
        Self { around: around.entries, ..self }
    }

    pub(crate) fn reading(&self) -> &'t Reading<'t> {
        self.reading
    }

    /// Notes an error at the value of `key`, if it is written in this very section.
    pub(crate) fn error(&self, key: &dyn Entry, fault: Fault) {
        if let Some(span) = self.written(key) {
            self.reading.error(&span, fault);
        }
    }

    /// Warns at the value of `key`, if it is written in this very section.
    pub(crate) fn warn(&self, key: &dyn Entry, fault: Fault) {
        if let Some(span) = self.written(key) {
            self.reading.warning(&span, fault);
        }
    }

    /// Notes that something is missing in the section.
    pub(crate) fn missing(&self, fault: Fault) {
        self.reading.missing(&self.span, fault);
    }

    /// Every key that it may have.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'static dyn Entry> {
        self.section.keys.iter().copied()
    }

    pub(crate) fn span(&self) -> &Range<usize> {
        &self.span
    }

    /// The text of its `name`, if it is written.
    pub(crate) fn written_name(&self) -> Option<&'t str> {
        self.entry("name")?.get_ref().as_str()
    }

    pub(crate) fn is_written(&self) -> bool {
        self.entries.is_some()
    }

    /// The place of a key's value, if it is written.
    pub(crate) fn written(&self, key: &dyn Entry) -> Option<Range<usize>> {
        self.entry(key.name).map(|value| value.span())
    }

    pub(crate) fn required<K: ValueKind>(&self, key: &Key<K>) -> Option<K::Value> {
        if self.entry(key.name).is_none() && !self.is_misspelt(key) {
            let what = format!("{} has no `{}`", self.section.header, key.name);
            let hint = format!("add a line such as `{} = {}`", key.name, key.example);
            self.missing(Fault::new(what).hint(hint));
        }
        self.optional(key)
    }

    /// The value of a key, if it is written and right.
    pub(crate) fn optional<K: ValueKind>(&self, key: &Key<K>) -> Option<K::Value> {
        let value = self.entry(key.name).or_else(|| value_of(self.around?, key.name))?;
        self.reading.set_key(key.name);
        key.kind.read(&Item::new(value), self.reading)
    }

    /// The values of a list, without their places; none when it is not written.
    pub(crate) fn list<K: ValueKind<Value = Vec<Written<T>>>, T>(&self, key: &Key<K>) -> Vec<T> {
        self.optional(key).map(values).unwrap_or_default()
    }

    /// The value of a key as written in the file.
    pub(crate) fn item(&self, key: &dyn Entry) -> Option<Item<'t>> {
        self.entry(key.name).map(Item::new)
    }

    /// The value of a key in a form that is equal for equal values, written or not.
    pub(crate) fn comparable(&self, key: &dyn Entry) -> String {
        key.comparable(self.item(key).as_ref(), self.reading)
    }

    /// The value of a key, or its default.
    pub(crate) fn or_default<K: ValueKind>(&self, key: &Key<K>) -> K::Value {
        self.optional(key).unwrap_or_else(|| default_of(key))
    }

    /// The place of a section inside this one, if it is written.
    pub(crate) fn span_of(&self, section: &Section) -> Option<Range<usize>> {
        self.entry(section.name).map(|value| value.span())
    }

    pub(crate) fn inner(&self, section: &'static Section) -> Table<'t> {
        let absent = Table { span: self.span.clone(), ..Table::absent(section, self.reading) };
        let Some(value) = self.entry(section.name) else { return absent };
        let fault = match value.get_ref() {
            DeValue::Table(entries) => return Table::open(section, entries, value.span(), self.reading),
            DeValue::Array(list) if list.iter().all(|item| item.get_ref().is_table()) => {
                Fault::new(format!("{} is written once, in single brackets", section.header))
            }
            _ => not_a_section(section, &Item::new(value)),
        };
        self.reading.error(&value.span(), fault);
        absent
    }

    /// Reads the section inside this one by `read`; the inner `None`: it is not written.
    pub(crate) fn read<T>(
        &self,
        section: &'static Section,
        read: impl FnOnce(&Self) -> Option<T>,
    ) -> Option<Option<T>> {
        let inner = self.inner(section);
        if inner.is_written() { read(&inner).map(Some) } else { Some(None) }
    }

    /// The sections of one name inside this one, in the order written.
    pub(crate) fn inner_list(&self, section: &'static Section) -> Vec<Table<'t>> {
        let Some(value) = self.entry(section.name) else { return Vec::new() };
        let open = |item: &'t Spanned<DeValue<'t>>| match item.get_ref() {
            DeValue::Table(entries) => Some(Table::open(section, entries, item.span(), self.reading)),
            _ => {
                self.reading.error(&item.span(), not_a_section(section, &Item::new(item)));
                None
            }
        };
        match value.get_ref() {
            DeValue::Array(list) => list.iter().filter_map(open).collect(),
            DeValue::Table(entries) => {
                let what = format!("there may be several of these, so each begins with {}", section.header);
                self.reading.error(&value.span(), Fault::new(what));
                // Its content is read nevertheless, to report the problems in it.
                vec![Table::open(section, entries, value.span(), self.reading)]
            }
            _ => open(value).into_iter().collect(),
        }
    }

    /// Returns true if an unknown key is probably a misspelling of this one; it has been reported as that.
    fn is_misspelt(&self, key: &dyn Entry) -> bool {
        let names = self.entries.into_iter().flat_map(|entries| entries.keys());
        names.map(|name| name.get_ref().as_ref()).any(|word| {
            self.section.names().all(|known| known != word) && meant(word, self.section) == Some(key.name)
        })
    }

    fn entry(&self, name: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        value_of(self.entries?, name)
    }
}

/// The value of a key, which may be written by its old name.
fn value_of<'t>(entries: &'t DeTable<'t>, name: &str) -> Option<&'t Spanned<DeValue<'t>>> {
    let by_old_name = || renamed::old_words(&renamed::KEYS, name).find_map(|old| entries.get(old));
    entries.get(name).or_else(by_old_name)
}

fn not_a_section(section: &Section, item: &Item<'_>) -> Fault {
    let fault = Fault::new(format!("`{}` is a section, not {}", section.name, item.kind_name()));
    match section.short {
        "" => fault.hint(format!("write {} on a separate line, and its keys below", section.header)),
        short => fault.hint(format!("write {short}")),
    }
}

/// The key or section of this section that a word was probably meant to be.
fn meant(word: &str, section: &'static Section) -> Option<&'static str> {
    let other_word = || section.keys.iter().find(|key| key.is_called(word)).map(|key| key.name);
    suggest::closest(word, section.names()).or_else(other_word)
}

/// Another section that has a key or section of this name, and the name there: one inside this one, or else anywhere.
fn elsewhere(
    word: &str,
    section: &'static Section,
    all: &[&'static Section],
) -> Option<(&'static Section, &'static str)> {
    // Most keys are those of what may repeat, also where another section has one of the same name.
    let repeated = all.iter().copied().find(|other| other.is_list());
    let first = all.first().copied().into_iter().chain(repeated);
    let others = first.chain(section.all()).chain(all.iter().copied());
    let others: Vec<_> = others.filter(|other| !std::ptr::eq(*other, section)).collect();
    let by_name = |other: &&'static Section| Some((*other, other.names().find(|name| *name == word)?));
    let by_other_word =
        |other: &&'static Section| Some((*other, other.keys.iter().find(|key| key.is_called(word))?.name));
    others.iter().find_map(by_name).or_else(|| others.iter().find_map(by_other_word))
}

/// The problem of an unknown name, and its likely correction.
fn unknown(word: &str, section: &'static Section, all: &[&'static Section]) -> Fault {
    let name_of = |section: &Section| match section.name {
        "" => "the top of the file",
        _ => section.header,
    };
    let at = if section.name.is_empty() { "at" } else { "in" };
    let fault = Fault::new(format!("unknown key `{}` {at} {}", shortened(word), name_of(section)));
    if let Some(hint) = foreign_keys::hint(word) {
        return fault.hint(hint);
    }
    if let Some(name) = meant(word, section) {
        return fault.hint(format!("did you mean `{name}`?"));
    }
    if let Some((other, name)) = elsewhere(word, section, all) {
        let at = if other.name.is_empty() { "at" } else { "in" };
        return fault.hint(format!("`{name}` belongs {at} {}", name_of(other)));
    }
    fault.allowed(suggest::one_of(section.names()))
}
