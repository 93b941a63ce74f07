//! The types of values a key can have: each knows its form and range in words, and reads itself.
//!
//! In: one value of the parsed tree. Out: the typed value, or a problem noted in the [`Reading`]. Texts
//! are parsed by `scalar.rs`.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use handfast_text::suggest::{did_you_mean, one_of};
use handfast_text::{duration, size};
use toml::de::DeValue;

use super::problem::{Fault, shortened};
use super::reading::{Item, Reading};
use super::scalar;
use super::schema::ValueKind;

mod address;
mod backend;
mod certificates;
mod dialling;
mod check;
mod identity;
mod path;
mod starttls;
mod proxy_sender;

pub(crate) use address::{
    AddressPrefix, AdminAddress, Backend, ListenAddress, NamePattern, Protocol, SourceAddress, SourceItem,
    is_local,
};
pub(crate) use backend::{BackendEntry, Switch};
pub(crate) use certificates::Certificates;
pub(crate) use check::{Bytes, StatusRange};
pub(crate) use dialling::{BackendProtocols, HostName, PublicKeyPin, SentServerName};
pub(crate) use identity::{FileOrFolder, Identity};
pub(crate) use path::{FilePath, LogTarget};
pub(crate) use proxy_sender::ProxySenders;
pub(crate) use starttls::{AnnouncedName, StarttlsProtocol};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Written<T> {
    /// The value.
    pub(crate) value: T,
    /// Its bytes.
    pub(crate) span: Range<usize>,
}

/// Without the places.
pub(crate) fn values<T>(written: Vec<Written<T>>) -> Vec<T> {
    written.into_iter().map(|item| item.value).collect()
}

/// The text of an item, run through `parse`; another type of value is refused with a hint made of what is there.
fn text<T>(
    kind: &impl ValueKind,
    item: &Item<'_>,
    reading: &Reading<'_>,
    parse: impl FnOnce(&str) -> Result<T, Fault>,
) -> Option<T> {
    let result = match item.value {
        DeValue::String(text) => parse(text),
        _ => Err(wrong_type(kind, item)),
    };
    result.map_err(|fault| reading.error(&item.span, fault)).ok()
}

fn wrong_type(kind: &impl ValueKind, item: &Item<'_>) -> Fault {
    Fault::new(format!("expected a {}, found {}", kind.form(), item.kind_name()))
}

/// A text that is passed on as it is: what it is, with an example.
pub(crate) struct Text(pub(crate) &'static str);

impl ValueKind for Text {
    type Value = String;

    fn form(&self) -> String {
        self.0.to_owned()
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<String> {
        text(self, item, reading, |text| {
            if text.is_empty() { Err(Fault::new("the text is empty")) } else { Ok(text.to_owned()) }
        })
    }
}

/// A service's name: it becomes a label of metrics and a field of logs.
pub(crate) struct ServiceName;

impl ValueKind for ServiceName {
    type Value = String;
    const FORM: &'static str = "text, such as `\"web\"`";
    const ALLOWED: &'static str = "1 to 64 letters, digits, `-`, `_` and `.`";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<String> {
        text(self, item, reading, |text| {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if (1..=64).contains(&text.len()) && text.bytes().all(good) {
                return Ok(text.to_owned());
            }
            Err(Fault::new(format!("`{}` cannot be a service's name", shortened(text)))
                .allowed(self.allowed()))
        })
    }
}

/// One of a few words.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + Sync> ValueKind for Choice<T> {
    type Value = T;
    const FORM: &'static str = "text";

    fn allowed(&self) -> String {
        one_of(self.0.iter().map(|(word, _)| *word))
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<T> {
        text(self, item, reading, |text| {
            let words = || self.0.iter().map(|(word, _)| *word);
            self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
                Fault::new(format!("`{}` is not one of the possible values", shortened(text)))
                    .allowed(self.allowed())
                    .maybe_hint(did_you_mean(text, words()))
            })
        })
    }
}

/// A whole number in a range.
pub(crate) struct Count(pub(crate) RangeInclusive<u32>);

impl ValueKind for Count {
    type Value = u32;
    const FORM: &'static str = "whole number";

    fn allowed(&self) -> String {
        format!("{} to {}", self.0.start(), self.0.end())
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<u32> {
        let result = match item.value {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix())
                .ok()
                .filter(|number| self.0.contains(number))
                .ok_or_else(|| Fault::new(format!("{number} is out of range")).allowed(self.allowed())),
            DeValue::String(text) if text.parse::<u32>().is_ok() => {
                Err(wrong_type(self, item).hint(format!("write `{text}` without quotes")))
            }
            _ => Err(wrong_type(self, item)),
        };
        result.map_err(|fault| reading.error(&item.span, fault)).ok()
    }
}

/// A duration in a range, or a word for zero.
pub(crate) struct Span {
    /// The range.
    pub(crate) range: RangeInclusive<Duration>,
    /// The word for zero, if zero is allowed.
    pub(crate) zero: Option<&'static str>,
}

impl Span {
    fn parse(&self, text: &str) -> Result<Duration, Fault> {
        if self.zero == Some(text) {
            return Ok(Duration::ZERO);
        }
        let allowed = |fault: Fault| match self.zero {
            Some(word) if fault.hint.is_none() => fault.maybe_hint(did_you_mean(text, [word])),
            _ => fault,
        };
        let duration = scalar::duration(text).map_err(allowed)?;
        if self.range.contains(&duration) {
            return Ok(duration);
        }
        let fault = Fault::new(format!("{text} is out of range")).allowed(self.allowed());
        Err(match self.zero {
            Some(word) if duration.is_zero() => fault.hint(format!("write `\"{word}\"`")),
            _ => fault,
        })
    }
}

impl ValueKind for Span {
    type Value = Duration;
    const FORM: &'static str = "duration, such as `\"10s\"` or `\"1h30m\"`";

    fn allowed(&self) -> String {
        let (least, most) = (duration::written(*self.range.start()), duration::written(*self.range.end()));
        let word = self.zero.map(|word| format!(", or `{word}`")).unwrap_or_default();
        format!("{least} to {most}{word}")
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Duration> {
        if let DeValue::Integer(number) = item.value {
            let hint = format!("give a unit: `\"{number}s\"`");
            reading.error(&item.span, wrong_type(self, item).hint(hint));
            return None;
        }
        text(self, item, reading, |text| self.parse(text))
    }
}

/// A size in bytes, in a range.
pub(crate) struct Size(pub(crate) RangeInclusive<u64>);

impl ValueKind for Size {
    type Value = u64;
    const FORM: &'static str = "size, such as `\"16KiB\"`";

    fn allowed(&self) -> String {
        format!("{} to {}", size::written(*self.0.start()), size::written(*self.0.end()))
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<u64> {
        if let DeValue::Integer(number) = item.value {
            let hint = format!("give a unit: `\"{number}B\"`");
            reading.error(&item.span, wrong_type(self, item).hint(hint));
            return None;
        }
        text(self, item, reading, |text| match scalar::size(text)? {
            size if self.0.contains(&size) => Ok(size),
            _ => Err(Fault::new(format!("{text} is out of range")).allowed(self.allowed())),
        })
    }
}

/// Mode bits of a file.
pub(crate) struct Mode;

impl ValueKind for Mode {
    type Value = u32;
    const FORM: &'static str = "text of octal digits, such as `\"0660\"`";
    const ALLOWED: &'static str = "`0000` to `0777`";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<u32> {
        if let DeValue::Integer(number) = item.value {
            let digits = number.as_str();
            let hint = format!("write it as text, as chmod takes it: `\"{digits:0>4}\"`");
            reading.error(&item.span, wrong_type(self, item).hint(hint));
            return None;
        }
        text(self, item, reading, scalar::mode)
    }
}

/// A list.
pub(crate) struct List<K> {
    /// What the items are.
    pub(crate) item: K,
    /// Whether a single item can be written without brackets.
    pub(crate) bare: bool,
    /// Fewest items.
    pub(crate) least: usize,
    /// Whether the same item twice is an error.
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
            let fault = wrong_type(self, item);
            let source = reading.text().get(item.span.clone()).unwrap_or_default();
            reading.error(&item.span, fault.hint(format!("write `[{}]`", shortened(source))));
            return None;
        };
        if list.len() < self.least {
            reading.error(&item.span, Fault::new("the list is empty").allowed(self.allowed()));
            return None;
        }
        // What is wrong is noted; the rest goes on to the checks after this one.
        let items: Vec<Written<K::Value>> = list.iter().filter_map(|item| one(&Item::new(item))).collect();
        if self.unique {
            no_twins(&items, reading);
        }
        Some(items)
    }
}

/// Reports items that are written twice in one list.
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

impl<T: PartialEq> PartialEq for Written<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// Seconds, minutes, hours, days as constants.
pub(crate) const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}
