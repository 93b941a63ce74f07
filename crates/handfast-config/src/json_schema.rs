//! A JSON schema of the configuration, made of the descriptions the reader itself reads by, for editors.
//!
//! In: `keys.rs`. Out: JSON (draft 7, which editors for TOML know). It has the keys and their types. Which keys belong together,
//! and what is allowed in a text, is checked by `handfast check` alone.

use handfast_text::renamed;
use serde_json::{Map, Value, json};

use super::keys;
use super::schema::{Default, Entry, Section, Shape};

/// The schema, as text.
pub fn json_schema() -> String {
    let mut schema = section(&keys::FILE);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "The configuration of handfast proxy".into();
    format!("{schema:#}\n")
}

/// A section, or a table of values.
fn section(section: &Section) -> Value {
    let mut properties = Map::new();
    for key in section.keys {
        properties.insert(key.name.to_owned(), property(*key));
        for old in renamed::old_words(&renamed::KEYS, key.name) {
            let mut old_property = property(*key);
            old_property["deprecated"] = true.into();
            old_property["description"] = format!("The old name of `{}`.", key.name).into();
            properties.insert(old.to_owned(), old_property);
        }
    }
    for inner in section.sections {
        let one = self::section(inner);
        let schema = if inner.is_list() { json!({ "type": "array", "items": one }) } else { one };
        properties.insert(inner.name.to_owned(), schema);
    }
    json!({
        "type": "object",
        "description": section.doc,
        "properties": properties,
        "additionalProperties": false,
    })
}

fn property(key: &dyn Entry) -> Value {
    let mut schema = shape(&key.shape());
    let mut text = format!("{}\n\nType: {}.", key.doc, key.form());
    if !key.allowed().is_empty() {
        text.push_str(&format!(" Allowed: {}.", key.allowed()));
    }
    match key.default {
        Default::Required => {}
        Default::Value(value) => {
            text.push_str(&format!(" Default: `{value}`."));
            schema["default"] = json_value(value).unwrap_or_default();
        }
        Default::Absent(clause) => text.push_str(&format!(" When it is not written: {clause}.")),
    }
    schema["description"] = text.into();
    schema["examples"] = json_value(key.example).into_iter().collect();
    schema
}

/// A value as it is written in a file, as JSON.
fn json_value(written: &str) -> Option<Value> {
    let table: toml::Table = format!("value = {written}").parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

fn shape(of: &Shape) -> Value {
    match of {
        Shape::Text => json!({ "type": "string" }),
        Shape::Words(words) => json!({ "type": "string", "enum": words }),
        Shape::Number(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Switch => json!({ "type": "boolean" }),
        Shape::Only(value) => json!({ "type": "boolean", "enum": [value] }),
        Shape::List(item, least) => {
            json!({ "type": "array", "items": shape(item), "minItems": least })
        }
        Shape::Table(inner) => section(inner),
        Shape::Map(item) => json!({ "type": "object", "additionalProperties": shape(item) }),
        Shape::OneOf(shapes) => json!({ "anyOf": shapes.iter().map(shape).collect::<Vec<_>>() }),
    }
}

#[cfg(test)]
mod tests;
