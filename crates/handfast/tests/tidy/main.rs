//! Promises of the source tree about itself: arrows between crates, circles of modules, budgets, citations, packages.
//!
//! In: the files that git knows or would add, and what cargo says of the packages. Out: a list of complaints, each with
//! the file, the line and the cure. Every rule is a plain function from text to complaints, and beside each
//! stands a test that shows it a fault: a rule that cannot complain would be worth nothing.
#![forbid(unsafe_code)]

mod arrows;
mod count;
mod cycles;
mod docs;
mod errors;
mod files;
mod language;
mod layers;
mod packages;
mod pages;
mod tokens;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    /// Path from the root of the repository.
    path: String,
    /// Line, from 1; 0 for the file as a whole.
    line: usize,
    /// Description of the complaint, and the cure.
    what: String,
}

impl Complaint {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// A tracked text file.
struct SourceFile {
    /// Path from the root of the repository.
    path: String,
    /// All of it.
    text: String,
}

impl SourceFile {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate's folder name, when it belongs to one.
    fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is in crates/ below the root")
        .to_path_buf()
}

/// Runs a program at the root and gives its output; panics with its complaint when it fails.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("run {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo and git speak UTF-8")
}

/// The files that git knows or would add; without git (an unpacked archive) all but what is built.
fn tracked_paths() -> Vec<String> {
    if root().join(".git").exists() {
        let listed = run("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        return listed.split_terminator('\0').map(String::from).collect();
    }
    let mut paths = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the tree is readable").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "target" && name != ".git" {
                folders.push(path);
            } else if path.is_file() {
                let inside = path.strip_prefix(root()).expect("found below the root");
                paths.push(inside.to_string_lossy().into_owned());
            }
        }
    }
    paths
}

/// Every tracked file that is text and still there.
fn tracked_files() -> Vec<SourceFile> {
    let read = |path: String| {
        let text = std::fs::read_to_string(root().join(&path)).ok()?;
        Some(SourceFile { path, text })
    };
    tracked_paths().into_iter().filter_map(read).collect()
}

/// Fails with all complaints at once.
fn assert_none(complaints: &[Complaint]) {
    let list: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} complaints:\n{}\n", list.len(), list.join("\n"));
}

/// Applies a rule about one file to all files it is for.
fn check_files(is_checked: impl Fn(&SourceFile) -> bool, rule: impl Fn(&SourceFile) -> Vec<Complaint>) {
    let files: Vec<SourceFile> = tracked_files().into_iter().filter(is_checked).collect();
    assert!(!files.is_empty(), "the rule found no file to look at");
    assert_none(&files.iter().flat_map(rule).collect::<Vec<_>>());
}

/// A made-up file, for the tests of the rules.
#[cfg(test)]
fn sample(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.into(), text: text.into() }
}
