//! The configurations that the repository shows: those of README.md and of every page below docs/, and whole files. Each must be accepted.

use std::fs;
use std::path::Path;

use super::Config;

/// Files that are a configuration as a whole.
const FILES: [&str; 2] = ["docs/reference/handfast.toml", "packaging/handfast.toml"];
/// Keys that a service needs; an example may leave them out.
const REQUIRED: [(&str, &str); 4] = [
    ("name", "\"web\""),
    ("listen", "\"*:443\""),
    ("backend", "\"127.0.0.1:8080\""),
    ("certificate", "\"web.pem\""),
];

/// A configuration, and the file that shows it.
pub(super) struct Example {
    file: String,
    text: String,
}

impl Example {
    pub(super) fn parse(&self) -> Config {
        match handfast_config::parse("/etc/handfast/handfast.toml", &self.text, &super::is_folder) {
            Ok((config, _)) => config,
            Err(problems) => panic!("{}: not accepted: {problems:?}\n{}", self.file, self.text),
        }
    }
}

/// All of them.
pub(super) fn all() -> Vec<Example> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut examples = of_page(&root.join("README.md"));
    examples.extend(below(&root.join("docs")));
    examples.extend(FILES.map(|file| Example { file: file.into(), text: read(&root.join(file)) }));
    examples
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn below(folder: &Path) -> Vec<Example> {
    let mut examples = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the tree is readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            examples.extend(below(&path));
        } else if path.extension().is_some_and(|end| end == "md") {
            examples.extend(of_page(&path));
        }
    }
    examples
}

fn of_page(page: &Path) -> Vec<Example> {
    let text = read(page);
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|block| Example { file: page.display().to_string(), text: completed(block) }).collect()
}

/// An example may show some keys of a service, tables of it, or tables of the process; the rest of a configuration is added.
fn completed(example: &str) -> String {
    if example.contains("[[service]]") {
        return example.to_owned();
    }
    let first_table = if example.starts_with('[') { Some(0) } else { example.find("\n[").map(|at| at + 1) };
    let (keys, tables) = example.split_at(first_table.unwrap_or(example.len()));
    let is_missing = |key: &str| !keys.lines().any(|line| line.starts_with(&format!("{key} =")));
    let mut service = String::from("[[service]]\n");
    for (key, value) in REQUIRED.into_iter().filter(|(key, _)| is_missing(key)) {
        service.push_str(&format!("{key} = {value}\n"));
    }
    if ["[[service.route]]", "[service.http]"].iter().any(|table| tables.contains(table)) {
        service.push_str("mode = \"http\"\n");
    }
    let is_of_service = tables.starts_with("[service.") || tables.starts_with("[[service.");
    if is_of_service { format!("{service}{keys}{tables}") } else { format!("{tables}\n{service}{keys}") }
}
