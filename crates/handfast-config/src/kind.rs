//! The types of values a key can have: each knows its form and range in words, and reads itself.
//!
//! In: one value of the parsed tree. Out: the typed value, or a problem noted in the [`Reading`]. Texts
//! are parsed by `scalar.rs`.

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

use handfast_text::suggest::{did_you_mean, one_of};
use handfast_text::{duration, renamed, size};
use toml::de::DeValue;

use super::problem::{Fault, shortened};
use super::reading::{Item, Reading, Written};
use super::scalar;
use super::schema::{Shape, ValueKind};

mod access;
mod acme;
mod files;
mod fleet;
mod address;
mod check;
mod compression;
mod http;
mod path;
mod program;
mod request_rules;
mod site;
mod tls;

pub(crate) use access::{
    AuthPath, BasicAuth, CookieName, ForwardAuth, Maintenance, Mirror, Queue, RateKey, RateLimit, Realm,
    Share, Sticky,
};
pub(crate) use acme::{DirectoryUrl, MailAddress, OrderedName};
pub(crate) use address::{
    AddressPrefix, AdminAddress, Backend, BackendEntry, ItemOrFile, ListenAddress, NamePattern, OrFile,
    Protocol, ProxySenders, RuleName, SourceAddress, SourceItem, is_local,
};
pub(crate) use check::{Bytes, StatusRange};
pub(crate) use compression::{Compression, MediaRange};
pub(crate) use files::{ErrorPages, FileBelow, FileExtension, FileName, Files};
pub(crate) use fleet::{BusUrl, Token};
pub(crate) use http::{
    FieldCondition, HostPattern, MethodName, PathPattern, PathPrefix, PathStart, RequestIdField,
};
pub(crate) use path::{
    Certificates, CredentialPath, FileOrFolder, FilePath, FolderPath, Include, IncludedFiles, LogTarget,
};
pub(crate) use program::{Again, ClientEntry, CommandLine};
pub(crate) use request_rules::{
    FieldName, FieldValue, MediaType, Redirect, RedirectStatus, RedirectTarget, RedirectTo, Respond,
};
pub(crate) use site::{Site, SiteOrBackend};
pub(crate) use tls::{
    AnnouncedName, BackendProtocols, HostName, Identity, PublicKeyPin, SentServerName, StarttlsProtocol,
};

/// A text that is passed on as it is: what it is, with an example.
pub(crate) struct Text(pub(crate) &'static str);

impl ValueKind for Text {
    type Value = String;

    fn form(&self) -> String {
        self.0.to_owned()
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        match self.text(item)? {
            "" => Err(Fault::new("the text is empty")),
            text => Ok(text.to_owned()),
        }
    }
}

/// The name of a service or a route: it becomes a label of metrics and a field of logs.
pub(crate) struct Name(pub(crate) &'static str);

impl ValueKind for Name {
    type Value = String;
    const FORM: &'static str = "text, such as `\"web\"`";
    const ALLOWED: &'static str = "1 to 64 letters, digits, `-`, `_` and `.`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if (1..=64).contains(&text.len()) && text.bytes().all(good) {
            return Ok(text.to_owned());
        }
        let what = format!("`{}` cannot be a {}'s name", shortened(text), self.0);
        Err(Fault::new(what).allowed(self.allowed()))
    }
}

/// The name of a parameter in the query of a URL, without percent-encoding.
pub(crate) struct ParameterName;

impl ValueKind for ParameterName {
    type Value = String;
    const FORM: &'static str = "text, such as `\"token\"`";
    const ALLOWED: &'static str =
        "1 to 64 characters, none of them `&`, `=`, `;`, `?`, `#`, `%` or a control character";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let is_separator = |character: char| "&=;?#%".contains(character) || character.is_control();
        if (1..=64).contains(&text.chars().count()) && !text.contains(is_separator) {
            return Ok(text.to_owned());
        }
        let what = format!("`{}` cannot be the name of a parameter", shortened(text));
        Err(Fault::new(what).allowed(self.allowed()))
    }
}

pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + Debug + Sync> ValueKind for Choice<T> {
    type Value = T;
    const FORM: &'static str = "text";

    fn shape(&self) -> Shape {
        Shape::Words(self.0.iter().map(|(word, _)| *word).collect())
    }

    fn allowed(&self) -> String {
        one_of(self.0.iter().map(|(word, _)| *word))
    }

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<T, Fault> {
        let written = self.text(item)?;
        let is_one = |text: &str| self.0.iter().any(|(word, _)| *word == text);
        let new = renamed::new_word(&renamed::VALUES, written).filter(|new| is_one(new) && !is_one(written));
        if let Some(new) = new {
            reading.warning(&item.span, Fault::new(renamed::message(written, new)));
        }
        let text = new.unwrap_or(written);
        self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            Fault::new(format!("`{}` is not one of the possible values", shortened(text)))
                .allowed(self.allowed())
                .maybe_hint(did_you_mean(text, self.0.iter().map(|(word, _)| *word)))
        })
    }
}

pub(crate) struct Switch;

impl ValueKind for Switch {
    type Value = bool;
    const FORM: &'static str = "`true` or `false`";

    fn shape(&self) -> Shape {
        Shape::Switch
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<bool, Fault> {
        item.value.as_bool().ok_or_else(|| self.wrong_type(item))
    }
}

pub(crate) struct Count<T>(pub(crate) RangeInclusive<T>);

impl<T: TryFrom<u64> + PartialOrd + Debug + Display + Sync> ValueKind for Count<T> {
    type Value = T;
    const FORM: &'static str = "whole number";

    fn shape(&self) -> Shape {
        let bound = |number: &T| number.to_string().parse().unwrap_or(u64::MAX);
        Shape::Number(bound(self.0.start()), bound(self.0.end()))
    }

    fn allowed(&self) -> String {
        format!("{} to {}", self.0.start(), self.0.end())
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<T, Fault> {
        match item.value {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .and_then(|number| T::try_from(number).ok())
                .filter(|number| self.0.contains(number))
                .ok_or_else(|| Fault::new(format!("{number} is out of range")).allowed(self.allowed())),
            DeValue::String(text) if text.parse::<u32>().is_ok() => {
                Err(self.wrong_type(item).hint(format!("write `{text}` without quotes")))
            }
            _ => Err(self.wrong_type(item)),
        }
    }
}

/// A duration in a range, or a word for zero.
pub(crate) struct Span {
    pub(crate) range: RangeInclusive<Duration>,
    /// The word for zero, if zero is allowed.
    pub(crate) zero: Option<&'static str>,
}

impl ValueKind for Span {
    type Value = Duration;
    const FORM: &'static str = "duration, such as `\"10s\"` or `\"1h30m\"`";

    fn allowed(&self) -> String {
        let (least, most) = (duration::written(*self.range.start()), duration::written(*self.range.end()));
        let word = self.zero.map(|word| format!(", or `{word}`")).unwrap_or_default();
        format!("{least} to {most}{word}")
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Duration, Fault> {
        if let DeValue::Integer(number) = item.value {
            return Err(self.wrong_type(item).hint(format!("give a unit: `\"{number}s\"`")));
        }
        let text = self.text(item)?;
        if self.zero == Some(text) {
            return Ok(Duration::ZERO);
        }
        let duration = scalar::duration(text).map_err(|fault| match self.zero {
            Some(word) if fault.hint.is_none() => fault.maybe_hint(did_you_mean(text, [word])),
            _ => fault,
        })?;
        if self.range.contains(&duration) {
            return Ok(duration);
        }
        let word = self.zero.filter(|_| duration.is_zero()).map(|word| format!("write `\"{word}\"`"));
        Err(Fault::new(format!("{text} is out of range")).allowed(self.allowed()).maybe_hint(word))
    }
}

pub(crate) struct Size(pub(crate) RangeInclusive<usize>);

impl ValueKind for Size {
    type Value = usize;
    const FORM: &'static str = "size, such as `\"16KiB\"`";

    fn allowed(&self) -> String {
        format!("{} to {}", size::written(*self.0.start() as u64), size::written(*self.0.end() as u64))
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<usize, Fault> {
        if let DeValue::Integer(number) = item.value {
            return Err(self.wrong_type(item).hint(format!("give a unit: `\"{number}B\"`")));
        }
        let text = self.text(item)?;
        usize::try_from(scalar::size(text)?)
            .ok()
            .filter(|size| self.0.contains(size))
            .ok_or_else(|| Fault::new(format!("{text} is out of range")).allowed(self.allowed()))
    }
}

pub(crate) struct Mode;

impl ValueKind for Mode {
    type Value = u32;
    const FORM: &'static str = "text of octal digits, such as `\"0660\"`";
    const ALLOWED: &'static str = "`0000` to `0777`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<u32, Fault> {
        if let DeValue::Integer(number) = item.value {
            let digits = number.as_str();
            let hint = format!("write it as text, as chmod takes it: `\"{digits:0>4}\"`");
            return Err(self.wrong_type(item).hint(hint));
        }
        scalar::mode(self.text(item)?)
    }
}

pub(crate) struct List<K> {
    pub(crate) item: K,
    /// True if a single item can be written without brackets.
    pub(crate) bare: bool,
    pub(crate) least: usize,
    /// True if the same item twice is an error.
    pub(crate) unique: bool,
}

impl<K> List<K> {
    /// One item or several, each once.
    pub(crate) const fn of(item: K) -> Self {
        Self { item, bare: true, least: 1, unique: true }
    }
}

impl<K: ValueKind<Value: PartialEq>> ValueKind for List<K> {
    type Value = Vec<Written<K::Value>>;

    fn shape(&self) -> Shape {
        let item = self.item.shape();
        let list = Shape::List(Box::new(item.clone()), self.least);
        if self.bare { Shape::OneOf(vec![item, list]) } else { list }
    }

    fn form(&self) -> String {
        let item = self.item.form();
        if self.bare { format!("{item}; or a list of such") } else { format!("list of {item}") }
    }

    fn allowed(&self) -> String {
        self.item.allowed()
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let one = |item: &Item<'_>| {
            let value = self.item.read(item, reading)?;
            Some(Written { value, span: item.span.clone() })
        };
        let DeValue::Array(list) = item.value else {
            if self.bare {
                return one(item).map(|item| vec![item]);
            }
            let hint = format!("write `[{}]`", shortened(reading.source(item)));
            reading.error(&item.span, self.wrong_type(item).hint(hint));
            return None;
        };
        if list.len() < self.least {
            reading.error(&item.span, Fault::new("the list is empty").allowed(self.allowed()));
            return None;
        }
        // Invalid items are reported; the valid ones go on to the next checks.
        let items: Vec<Written<K::Value>> = list.iter().filter_map(|item| one(&Item::new(item))).collect();
        if self.unique {
            no_twins(&items, reading);
        }
        Some(items)
    }
}

fn no_twins<T: PartialEq>(items: &[Written<T>], reading: &Reading<'_>) {
    // Quadratic, so only for lists that a person writes; longer ones pass unchecked.
    for (at, item) in items.iter().enumerate().take(500) {
        if let Some(first) = items[..at].iter().find(|first| first.value == item.value) {
            reading.error(
                &item.span,
                Fault::new("written twice in this list").see(first.span.clone(), "first here"),
            );
        }
    }
}

pub(crate) const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}
