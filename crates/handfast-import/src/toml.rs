//! Writes TOML in the order of insertion, by the library `toml_edit`.

use std::fmt::Write as _;

pub(crate) use toml_edit::Value;
use toml_edit::{Array, Table};

/// An inline table.
pub(crate) fn table<'k>(keys: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    Value::InlineTable(keys.into_iter().collect())
}

/// A list, with each item once: names that were different in the old configuration may be equal as Handfast writes them.
pub(crate) fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    let mut array = Array::new();
    items.into_iter().for_each(|item| push(&mut array, item.into()));
    Value::Array(array)
}

/// Adds an item to a list that does not have it.
fn push(list: &mut Array, item: Value) {
    if !list.iter().any(|known| written(known) == written(&item)) {
        list.push(item);
    }
}

/// A value without the spaces and comments around it.
fn written(value: &Value) -> String {
    value.to_string().trim().to_owned()
}

/// A section with its keys; a key that is put twice has the last value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section(Table);

impl Section {
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key, toml_edit::value(value));
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// A value as it is written.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.0.get(key)?.as_value().map(written)
    }

    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        self.0.get(key)?.as_value().cloned()
    }

    /// Adds the keys of another section after these.
    pub(crate) fn extend(&mut self, other: &Self) {
        for (key, item) in &other.0 {
            self.0.insert(key, item.clone());
        }
    }

    /// Removes a key. Returns true if it was there.
    pub(crate) fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// Takes a list out.
    pub(crate) fn take_list(&mut self, key: &str) -> Array {
        self.0.remove(key).and_then(|item| item.as_array().cloned()).unwrap_or_default()
    }

    /// Adds to a list what is not in it.
    pub(crate) fn append(&mut self, key: &str, value: impl Into<Value>) {
        let list = self.0.entry(key).or_insert(toml_edit::value(Array::new()));
        if let Some(list) = list.as_array_mut() {
            push(list, value.into());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes it under a header such as `[limits]`.
    pub(crate) fn write(&self, header: &str, text: &mut String) {
        let _ = write!(text, "\n{header}\n{}", self.0);
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
        section.append("list", table([("address", "b".into()), ("backup", true.into())]));
        let mut text = String::new();
        section.write("[s]", &mut text);
        assert_eq!(
            text,
            "\n[s]\npath = '''\nC:\\a \"b\"\n'''\nflag = true\nlist = [\"a\", { address = \"b\", backup = true }]\n"
        );
    }
}
