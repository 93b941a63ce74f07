//! The schema has every key, accepts what the reader accepts, and refuses what has another type.

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;

use super::*;

fn validator() -> Validator {
    let schema = json_schema().parse().expect("it is JSON");
    jsonschema::draft7::new(&schema).expect("it is a schema")
}

/// The problems of a configuration, each with the place in it.
fn problems(text: &str) -> Option<Vec<String>> {
    let table: toml::Table = text.parse().ok()?;
    let value = serde_json::to_value(table).expect("TOML is JSON, but for dates");
    let problem = |error: jsonschema::ValidationError<'_>| format!("{} {error}", error.instance_path());
    Some(validator().iter_errors(&value).map(problem).collect())
}

#[test]
fn every_key_is_in_the_schema() {
    fn all(section: &Section, schema: &Value) {
        let properties = schema["properties"].as_object().expect("a table");
        for key in section.keys {
            let property = &properties[key.name];
            let text = property["description"].as_str().expect("a text");
            assert!(text.starts_with(key.doc), "{} {}", section.header, key.name);
            assert_eq!(
                property["examples"].as_array().map(Vec::len),
                Some(1),
                "{} {}",
                section.header,
                key.name
            );
        }
        for inner in section.sections {
            let property = &properties[inner.name];
            all(inner, if inner.is_list() { &property["items"] } else { property });
        }
        assert_eq!(schema["additionalProperties"], false);
    }
    all(&keys::FILE, &json_schema().parse().expect("it is JSON"));
}

#[test]
fn every_example_and_default_of_a_key_fits_its_schema() {
    fn all(section: &Section, into: &mut Vec<(String, Value)>) {
        for key in section.keys {
            let values = match key.default {
                Default::Value(value) => vec![value, key.example],
                _ => vec![key.example],
            };
            for value in values {
                let value = json_value(value).expect("it is TOML");
                let validator = jsonschema::draft7::new(&property(*key)).expect("it is a schema");
                if !validator.is_valid(&value) {
                    into.push((format!("{} {}", section.header, key.name), value));
                }
            }
        }
        section.sections.iter().for_each(|inner| all(inner, into));
    }
    let mut wrong = Vec::new();
    all(&keys::FILE, &mut wrong);
    assert_eq!(wrong, []);
}

/// The texts of a folder's files with an ending.
fn texts(folder: &Path, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the tree") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(texts(&path, ending));
        } else if path.extension().is_some_and(|known| known == ending) {
            found.push((path.clone(), fs::read_to_string(&path).expect("it is text")));
        }
    }
    found
}

#[test]
fn the_configurations_of_the_documents_fit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut configurations = texts(&root.join("packaging"), "toml");
    configurations.extend(texts(&root.join("docs"), "toml"));
    let files = configurations.len();
    for (page, text) in texts(&root.join("docs"), "md") {
        let blocks = text.split("```toml\n").skip(1).filter_map(|rest| Some(rest.split_once("\n```")?.0));
        configurations.extend(blocks.map(|block| (page.clone(), block.to_owned())));
    }
    let mut whole = 0;
    for (path, text) in &configurations {
        // Some blocks are a part of a section.
        let Ok((_, warnings)) = crate::parse("handfast.toml", text, &|_| false) else { continue };
        whole += 1;
        assert_eq!(problems(text), Some(Vec::new()), "{}: {warnings:?}\n{text}", path.display());
    }
    assert!(files >= 2 && whole > 50, "{files} files, {whole} of {}", configurations.len());
}

#[test]
fn a_configuration_with_other_keys_or_types_is_refused() {
    for (text, expected) in [
        ("wrong = 1", " Additional properties are not allowed"),
        ("[process]\nthreads = \"4\"", "/process/threads \"4\" is not of type \"integer\""),
        ("[process]\nthreads = 0", "/process/threads 0 is less than the minimum of 1"),
        ("[process]\nsandbox = \"maybe\"", "/process/sandbox \"maybe\" is not one of"),
        ("[[service]]\nlisten = 443", "/service/0/listen 443 is not valid under any of the schemas"),
        (
            "[[service]]\n[service.limits]\nidel = \"1m\"",
            "/service/0/limits Additional properties are not allowed",
        ),
        ("[service]\nname = \"a\"", "/service "),
        (
            "[[service]]\n[[service.route]]\nbasic-auth = true",
            "/service/0/route/0/basic-auth true is not valid",
        ),
    ] {
        let found = problems(text).expect("it is TOML");
        assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{text}: {found:#?}");
    }
    let old = "[[service]]\n[service.http]\nanswer-timeout = \"1s\"";
    assert_eq!(problems(old), Some(Vec::new()), "an old name is accepted");
}
