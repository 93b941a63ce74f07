//! Imports that are permitted between folders of handfast-proxy. In: its sources. Out: complaints about
//! imports that are not in the table.
//!
//! Folders have layers as crates have (`arrows.rs`): a reader of one needs to know only those below it.

use super::cycles::imports_of;
use super::{Complaint, SourceFile, assert_none, tracked_files};

/// The folders of the crate, from the lowest, and what each may use beside itself and other crates.
const LAYERS: [(&str, &[&str]); 8] = [
    ("admission", &[]),
    ("backends", &[]),
    ("cache", &[]),
    ("state", &["admission", "backends", "cache"]),
    ("worker", &["admission", "backends", "cache", "state"]),
    ("http", &["admission", "backends", "cache", "worker"]),
    ("path", &["admission", "backends", "http", "worker"]),
    ("control", &["admission", "backends", "cache", "http", "path", "state", "worker"]),
];

/// Imports of `files`, which are handfast-proxy's, that the table does not have.
fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let imports = imports_of("handfast-proxy", files);
    assert!(!imports.is_empty(), "no import was found");
    let upward = imports.iter().filter_map(|import| {
        let (from, to) = (import.from.first()?, import.to.first()?);
        if from == to {
            return None;
        }
        let path = format!("crates/handfast-proxy/src/{}.rs", import.from.join("/"));
        let Some((_, uses)) = LAYERS.iter().find(|(folder, _)| folder == from) else {
            let what =
                format!("{from} is no folder of the table; hint: add it to LAYERS in tests/tidy/layers.rs");
            return Some(Complaint::new(&path, import.line, what));
        };
        (!uses.contains(&to.as_str())).then(|| {
            let what = format!(
                "uses {}, and {from}/ must not use {to}/; hint: pass the value, or move the type below both",
                import.path
            );
            Complaint::new(&path, import.line, what)
        })
    });
    upward.collect()
}

#[test]
fn folders_of_the_proxy_use_only_lower_ones() {
    assert_none(&complaints(&tracked_files()));
}

#[test]
fn an_import_of_a_higher_folder_is_seen() {
    let file = |path: &str, text: &str| SourceFile {
        path: format!("crates/handfast-proxy/src/{path}"),
        text: text.into(),
    };
    let found = complaints(&[
        file("lib.rs", "mod backends;\nmod control;\nmod other;\nmod path;\n"),
        file("backends.rs", "pub(crate) mod group;\n"),
        file("backends/group.rs", "use crate::path::connect::Connect;\npub(crate) struct Group(Connect);\n"),
        file("path.rs", "pub(crate) mod connect;\n"),
        file("path/connect.rs", "use crate::backends::group::Group;\npub(crate) struct Connect(Group);\n"),
        file("control.rs", "use crate::path::connect::Connect;\npub(crate) struct Run(Connect);\n"),
        file("other.rs", "use crate::control::Run;\npub(crate) struct Other(Run);\n"),
    ]);
    let found: Vec<(&str, usize)> = found.iter().map(|one| (one.path.as_str(), one.line)).collect();
    assert_eq!(
        found,
        [("crates/handfast-proxy/src/backends/group.rs", 1), ("crates/handfast-proxy/src/other.rs", 1)]
    );
}
