//! Writes TOML in the order of insertion.

use std::fmt::{self, Write as _};

use toml_writer::ToTomlValue as _;

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    Number(u64),
    List(Vec<Value>),
    Table(Vec<(&'static str, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&text.as_str().to_toml_value()),
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Table(keys) => {
                let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                write!(f, "{{ {} }}", keys.join(", "))
            }
        }
    }
}

/// A section with its keys; a key that is put twice has the last value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    keys: Vec<(&'static str, Value)>,
}

impl Section {
    pub(crate) fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key, value)),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.keys.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Takes a key out.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        let at = self.keys.iter().position(|(known, _)| *known == key)?;
        Some(self.keys.remove(at).1)
    }

    /// Adds to a list what is not in it.
    pub(crate) fn append(&mut self, key: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, Value::List(items))) if items.contains(&value) => {}
            Some((_, Value::List(items))) => items.push(value),
            Some((_, old)) => *old = Value::List(vec![old.clone(), value]),
            None => self.keys.push((key, Value::List(vec![value]))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Writes it under a header such as `[limits]`.
    pub(crate) fn write(&self, header: &str, text: &mut String) {
        let _ = writeln!(text, "\n{header}");
        for (key, value) in &self.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_toml() {
        let mut section = Section::default();
        section.put("path", "C:\\a \"b\"\n");
        section.put("flag", true);
        section.append("list", "a");
        section.append("list", "a");
        section.append("list", Value::Table(vec![("address", "b".into()), ("backup", true.into())]));
        let mut text = String::new();
        section.write("[s]", &mut text);
        assert_eq!(
            text,
            "\n[s]\npath = '''\nC:\\a \"b\"\n'''\nflag = true\nlist = [\"a\", { address = \"b\", backup = true }]\n"
        );
    }
}
