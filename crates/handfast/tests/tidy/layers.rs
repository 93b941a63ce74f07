//! Imports that are permitted between folders of handfast-proxy. In: its sources. Out: complaints about
//! imports that are not in the table.
//!
//! Folders have layers as crates have (`arrows.rs`): a reader of one needs to know only those below it.

use super::cycles::imports_of;
use super::{Complaint, SourceFile, assert_none, tracked_files};

/// The folders of the crate, from the lowest, and what each may use beside itself and other crates.
const LAYERS: Layers = &[
    ("admission", &[]),
    ("backends", &[]),
    ("cache", &[]),
    ("files", &[]),
    ("state", &["admission", "backends", "cache", "files"]),
    ("worker", &["admission", "backends", "cache", "files", "state"]),
    ("requests", &["admission", "backends", "cache", "files", "worker"]),
    ("path", &["admission", "backends", "requests", "worker"]),
    ("control", &["admission", "backends", "cache", "requests", "path", "state", "worker"]),
];

/// The folders of `requests/`, in the same way.
const REQUEST_LAYERS: Layers = &[
    ("head", &[]),
    ("decide", &["head"]),
    ("client", &["decide", "head"]),
    ("backend", &["decide", "head"]),
    ("relay", &["backend", "client", "decide", "head"]),
    ("cached", &["client", "decide", "head", "relay"]),
    ("files", &["client", "decide", "head", "relay"]),
    ("serve", &["backend", "cached", "client", "decide", "files", "head", "relay"]),
];

type Layers = &'static [(&'static str, &'static [&'static str])];

/// Imports of `files`, which are handfast-proxy's, that the tables do not have.
fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let imports = imports_of("handfast-proxy", files);
    assert!(!imports.is_empty(), "no import was found");
    let upward = imports.iter().filter_map(|import| {
        let in_requests = import.from.first()? == "requests" && import.to.first()? == "requests";
        let (layers, depth) = if in_requests { (REQUEST_LAYERS, 1) } else { (LAYERS, 0) };
        let (from, to) = (import.from.get(depth)?, import.to.get(depth)?);
        // The fixtures of tests are beside the folders.
        if from == to || to == "testing" || from == "testing" {
            return None;
        }
        let path = format!("crates/handfast-proxy/src/{}.rs", import.from.join("/"));
        let Some((_, uses)) = layers.iter().find(|(folder, _)| folder == from) else {
            let what = format!(
                "{from} is no folder of the table; hint: add it to the table in tests/tidy/layers.rs"
            );
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
fn an_import_of_a_higher_folder_of_requests_is_seen() {
    let file = |path: &str, text: &str| SourceFile {
        path: format!("crates/handfast-proxy/src/{path}"),
        text: text.into(),
    };
    let found = complaints(&[
        file("lib.rs", "mod requests;\n"),
        file("requests.rs", "mod decide;\nmod head;\nmod other;\n"),
        file("requests/decide.rs", "use crate::requests::head::Head;\npub(crate) struct Route(Head);\n"),
        file("requests/head.rs", "use crate::requests::decide::Route;\npub(crate) struct Head(Route);\n"),
        file("requests/other.rs", "use crate::requests::head::Head;\npub(crate) struct Other(Head);\n"),
    ]);
    let found: Vec<(&str, usize)> = found.iter().map(|one| (one.path.as_str(), one.line)).collect();
    assert_eq!(
        found,
        [
            ("crates/handfast-proxy/src/requests/head.rs", 1),
            ("crates/handfast-proxy/src/requests/other.rs", 1)
        ]
    );
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
