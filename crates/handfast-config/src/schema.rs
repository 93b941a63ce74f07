//! The form of a description of a key or section. The reader, its messages and the reference page use the same descriptions.
//!
//! The descriptions themselves are in `keys.rs`, the types of values in `kind.rs`.

use std::fmt::Debug;
use std::ops::Deref;

use handfast_text::{renamed, suggest};
use toml::de::DeValue;

use super::foreign_keys::has_word;
use super::known_names::KnownNames;
use super::machine::Nowhere;
use super::problem::Fault;
use super::reading::{Item, Reading};

pub(crate) trait ValueKind: Sync {
    type Value: Debug;

    /// The form of all values of this kind.
    const FORM: &'static str = "";
    /// The range of all values of this kind; empty where the form is enough.
    const ALLOWED: &'static str = "";

    /// The type in words, with an example: `duration, such as "10s"`.
    fn form(&self) -> String {
        Self::FORM.to_owned()
    }

    /// The range in words; empty where the form is enough.
    fn allowed(&self) -> String {
        Self::ALLOWED.to_owned()
    }

    /// The form of its values in a JSON schema. Most are texts.
    fn shape(&self) -> Shape {
        Shape::Text
    }

    /// Reads one value. `reading` is for what is noted beside it.
    ///
    /// A kind that notes its own errors, since it is made of several values, has [`read`](Self::read) instead.
    fn parse(&self, item: &Item<'_>, _reading: &Reading<'_>) -> Result<Self::Value, Fault> {
        Err(self.wrong_type(item))
    }

    /// Reads one value; `None` when it is wrong, which is then noted.
    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        self.parse(item, reading).map_err(|fault| reading.error(&item.span, fault)).ok()
    }

    /// The text of a value that must be one.
    fn text<'t>(&self, item: &Item<'t>) -> Result<&'t str, Fault> {
        item.value.as_str().ok_or_else(|| self.wrong_type(item))
    }

    /// The fault of a value of another type.
    fn wrong_type(&self, item: &Item<'_>) -> Fault {
        Fault::new(format!("expected a {}, found {}", self.form(), item.kind_name()))
    }
}

/// The form of values in a JSON schema, which says less than their range in words.
#[derive(Clone)]
pub(crate) enum Shape {
    Text,
    Words(Vec<&'static str>),
    /// A whole number in this range.
    Number(u64, u64),
    /// `true` or `false`.
    Switch,
    /// This very value of a switch.
    Only(bool),
    /// A list of at least so many items.
    List(Box<Shape>, usize),
    Table(&'static Section),
    /// A table whose names are not known in advance.
    Map(Box<Shape>),
    OneOf(Vec<Shape>),
}

impl Shape {
    /// A text, or a table.
    pub(crate) fn text_or(table: &'static Section) -> Self {
        Self::OneOf(vec![Self::Text, Self::Table(table)])
    }

    /// A table, or `false`.
    pub(crate) fn table_or_false(table: &'static Section) -> Self {
        Self::OneOf(vec![Self::Table(table), Self::Only(false)])
    }

    /// An item, or a list of such.
    pub(crate) fn one_or_list(item: Self) -> Self {
        Self::OneOf(vec![item.clone(), Self::List(Box::new(item), 1)])
    }
}

/// Meaning of an absent key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Default {
    /// Nothing can: it must be written.
    Required,
    /// This, as it would be written in the file.
    Value(&'static str),
    /// The meaning of its absence, as a clause.
    Absent(&'static str),
}

/// Description of a key, independent of the kind of its values.
pub(crate) struct About {
    /// Its name, in kebab-case.
    pub(crate) name: &'static str,
    /// Purpose of the key, in one or two sentences.
    pub(crate) doc: &'static str,
    /// Meaning of its absence.
    pub(crate) default: Default,
    /// Reason for the default; may be empty for required keys.
    pub(crate) why: &'static str,
    /// A value that is not the default, as it would be written in the file.
    pub(crate) example: &'static str,
    /// Names in other programs, separated by spaces; used for hints.
    pub(crate) elsewhere: &'static str,
    /// Reason why a change takes effect at a restart only; empty: a reload is enough.
    pub(crate) needs_restart: &'static str,
}

impl About {
    /// Returns true if other programs use this word for it; case is ignored, and `_` equals `-`.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        has_word(self.elsewhere, &suggest::plain(word))
    }
}

pub(crate) struct Key<K: 'static> {
    pub(crate) about: About,
    /// The type and range of its values.
    pub(crate) kind: K,
}

impl<K> Deref for Key<K> {
    type Target = About;

    fn deref(&self) -> &About {
        &self.about
    }
}

pub(crate) trait Entry: Sync + Deref<Target = About> {
    /// The type of its values, with an example.
    fn form(&self) -> String;
    /// The range of its values; empty where the form is enough.
    fn allowed(&self) -> String;
    /// The form of its values in a JSON schema.
    fn shape(&self) -> Shape;
    /// The value that holds, in a form that is equal for equal values. `item`: the written value.
    fn comparable(&self, item: Option<&Item<'_>>, reading: &Reading<'_>) -> String;
}

impl<K: ValueKind> Entry for Key<K> {
    fn form(&self) -> String {
        self.kind.form()
    }

    fn allowed(&self) -> String {
        self.kind.allowed()
    }

    fn shape(&self) -> Shape {
        self.kind.shape()
    }

    fn comparable(&self, item: Option<&Item<'_>>, reading: &Reading<'_>) -> String {
        let value = match (item, self.default) {
            (Some(item), _) => self.kind.read(item, reading),
            (None, Default::Value(_)) => Some(default_of(self)),
            (None, _) => None,
        };
        format!("{value:?}")
    }
}

/// The value that holds when a key is not written.
pub(crate) fn default_of<K: ValueKind>(key: &Key<K>) -> K::Value {
    let Default::Value(text) = key.default else {
        unreachable!("`{}` has no default value; a test asks for every default", key.name)
    };
    let reading = Reading::new("", text, &Nowhere);
    DeValue::parse(text)
        .ok()
        .and_then(|value| key.kind.read(&Item::new(&value), &reading))
        .expect("a test reads the default of every key")
}

/// A section: its keys and the sections inside it.
pub(crate) struct Section {
    /// Its name inside the section around it, empty for the file itself.
    pub(crate) name: &'static str,
    /// Form in a file: `[[service]]`.
    pub(crate) header: &'static str,
    /// Form in one line, if that is better; otherwise empty.
    pub(crate) short: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [&'static dyn Entry],
    pub(crate) sections: &'static [&'static Section],
}

impl Section {
    /// The names that it can contain: of keys, then of sections.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name).chain(self.sections.iter().map(|section| section.name))
    }

    /// The path of one of its keys, such as `process.user`.
    pub(crate) fn path_of(&self, key: &dyn Entry) -> String {
        format!("{}.{}", self.header.trim_matches(['[', ']']), key.name)
    }

    /// The present name of a key that is written by its old one.
    pub(crate) fn renamed(&self, word: &str) -> Option<&'static str> {
        renamed::new_word(&renamed::KEYS, word).filter(|new| self.names().any(|name| name == *new))
    }

    /// Returns true if the file may have several of these.
    pub(crate) fn is_list(&self) -> bool {
        self.header.starts_with("[[")
    }

    /// Itself and every section inside it, in the order of the reference page.
    pub(crate) fn all(&'static self) -> Vec<&'static Self> {
        let mut all = vec![self];
        for section in self.sections {
            all.extend(section.all());
        }
        all
    }
}

/// The names of all keys and sections.
pub(crate) fn known_names(sections: &[&'static Section]) -> KnownNames {
    let mut names = KnownNames::default();
    for section in sections {
        section.keys.iter().for_each(|key| names.add(key.name, key.elsewhere));
        section.sections.iter().for_each(|inner| names.add(inner.name, ""));
    }
    renamed::KEYS.iter().for_each(|(old, _)| names.add(old, ""));
    names
}

/// A section with its keys, in the order of the reference page. The comment before each is its description.
///
/// `keys alone`: keys that sections of other files `use`. `short`: how it is written in one line, if that is better. `with`: the sections inside it. `use`: keys that another section describes. `keys of`: all keys of another section.
/// `of_service`: what holds without the key is that, or those, of the service. `needs_restart`: the reason why a reload is not enough.
macro_rules! section {
    (keys alone; $($keys:tt)*) => {
        section!(@keys [alone] [] [] $($keys)*);
    };
    ($(#[doc = $doc:literal])* $section:ident = $name:literal, $header:literal, keys of $other:ident;) => {
        section!(@static $section $name $header [$($doc)*] [] $other.keys, $other.short);
    };
    ($(#[doc = $doc:literal])* $section:ident = $name:literal, $header:literal $(, short $short:literal)?
        $(, with $($inner:ident),+)?; $($keys:tt)*) => {
        section!(@keys [$section $name $header [$($doc)*] [$($($inner)+)?]] [$($short)?] [] $($keys)*);
    };
    (@keys $section:tt $short:tt [$($key:ident)*] use $($known:ident),+; $($rest:tt)*) => {
        section!(@keys $section $short [$($key)* $($known)+] $($rest)*);
    };
    (@keys $section:tt $short:tt [$($key:ident)*]
        $(#[doc = $doc:literal])*
        $new:ident: $of:ty = $name:literal, $kind:expr,
            $(default $value:expr,)? $(absent $meaning:expr,)? $(why $why:expr,)? $(of_service $that:literal,)?
            example $example:expr, elsewhere $elsewhere:expr $(, needs_restart $restart:literal)?;
        $($rest:tt)*
    ) => {
        pub(crate) static $new: $crate::schema::Key<$of> = {
            use $crate::schema::{About, Default, Key};
            let about = About {
                name: $name,
                doc: concat!($($doc),*).trim_ascii_start(),
                default: Default::Required,
                why: "",
                example: $example,
                elsewhere: $elsewhere,
                needs_restart: concat!($($restart)?),
            };
            $(let about = About { default: Default::Value($value), ..about };)?
            $(let about = About { default: Default::Absent($meaning), ..about };)?
            $(let about = About { why: $why, ..about };)?
            $(let default = Default::Absent(concat!($that, " of the service"));
            let about = About { default, why: "the service decides", ..about };)?
            Key { about, kind: $kind }
        };
        section!(@keys $section $short [$($key)* $new] $($rest)*);
    };
    (@keys [alone] [] [$($key:ident)*]) => {};
    (@keys [$section:ident $name:literal $header:literal $doc:tt $inner:tt] [$($short:literal)?] [$($key:ident)*]) => {
        section!(@static $section $name $header $doc $inner &[$(&$key),*], concat!($($short)?));
    };
    (@static $section:ident $name:literal $header:literal [$($doc:literal)*] [$($inner:ident)*] $keys:expr, $short:expr) => {
        pub(crate) static $section: $crate::schema::Section = $crate::schema::Section {
            name: $name,
            header: $header,
            short: $short,
            doc: concat!($($doc),*).trim_ascii_start(),
            keys: $keys,
            sections: &[$(&$inner),*],
        };
    };
}
pub(crate) use section;
