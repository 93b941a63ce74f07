//! Man pages and completions in `packaging`, from the text of `--help`, and JSON schemas in `docs/reference`, from the types of the
//! reports; a test checks the files.
//!
//! `scripts/pages` writes them. A test generates them, so that the program does not contain the code for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use handfast_doctor::size::Size;
use handfast_probe::{capture::CaptureReport, rounds::Round};
use handfast_report::{live, run::Run};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};

use super::Words;

/// Set by `scripts/pages`.
const WRITE: &str = "HANDFAST_WRITE_PAGES";

/// Each file's path in `packaging`, and what is in it.
fn pages() -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut whole = Words::command();
    whole.build();
    let mut pages = Vec::new();
    man(&whole, "handfast", &mut pages)?;
    for (shell, name) in
        [(Shell::Bash, "handfast.bash"), (Shell::Zsh, "_handfast"), (Shell::Fish, "handfast.fish")]
    {
        let mut page = Vec::new();
        generate(shell, &mut Words::command(), "handfast", &mut page);
        pages.push((Path::new("completions").join(name), page));
    }
    Ok(pages)
}

/// A page for a command and for each subcommand, except hidden ones.
fn man(command: &Command, name: &str, pages: &mut Vec<(PathBuf, Vec<u8>)>) -> io::Result<()> {
    let mut page = Vec::new();
    // clap requires names of static lifetime.
    let named = command.clone().name(&*name.to_owned().leak());
    Man::new(named)
        .source(concat!("handfast ", env!("CARGO_PKG_VERSION")))
        .manual("Handfast")
        .render(&mut page)?;
    pages.push((Path::new("man").join(format!("{name}.1")), page));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        man(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

/// Each schema's file in `docs/reference`, and what is in it.
fn schemas() -> [(&'static str, String); 7] {
    [
        ("load-report", schema::<handfast_report::Report>("handfast load report, handfast-load/1")),
        ("load-live", schema::<live::Line>("A line of handfast load --live-json, handfast-live/1")),
        ("load-run", schema::<Run>("What handfast load --metrics serves at /status.json, handfast-run/1")),
        ("probe-report", schema::<handfast_probe::Report>("A report of handfast probe")),
        ("probe-watch", schema::<Round>("A line of handfast probe --watch --json, handfast-probe-watch/1")),
        ("capture-report", schema::<CaptureReport>("A report of handfast probe --from-pcap")),
        ("size-report", schema::<Size>("A report of handfast doctor size")),
    ]
}

/// What a type is written as.
fn schema<T: JsonSchema>(title: &str) -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(|schema: &mut Schema| {
        if let Some(description) = schema.get("description").and_then(|text| text.as_str()) {
            let description = description.replace("`None`", "`null`");
            schema.insert("description".to_owned(), description.into());
        }
    }));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    format!("{:#}\n", schema.to_value())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
fn the_kept_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, schema) in schemas() {
        let path = folder.join(name).with_extension("schema.json");
        if std::env::var_os(WRITE).is_some() {
            fs::write(path, schema).expect("a file of the tree");
        } else {
            let is_kept = fs::read_to_string(path).is_ok_and(|kept| kept == schema);
            assert!(is_kept, "docs/reference/{name}.schema.json is out of date: run scripts/pages");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
fn the_kept_pages_are_the_generated_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let pages = pages().expect("memory takes it");
    let mut kept = Vec::new();
    for of in ["man", "completions"] {
        fs::create_dir_all(folder.join(of)).expect("a folder of the tree");
        kept.extend(
            fs::read_dir(folder.join(of))
                .expect("it is there")
                .map(|entry| Path::new(of).join(entry.expect("a name").file_name())),
        );
    }
    let gone = kept.iter().filter(|path| !pages.iter().any(|(known, _)| known == *path));
    if std::env::var_os(WRITE).is_some() {
        gone.for_each(|path| fs::remove_file(folder.join(path)).expect("a file of the tree"));
        for (path, page) in &pages {
            fs::write(folder.join(path), page).expect("a file of the tree");
        }
        return;
    }
    assert_eq!(gone.count(), 0, "packaging has pages of commands that are not there: run scripts/pages");
    for (path, page) in &pages {
        let is_kept = fs::read(folder.join(path)).is_ok_and(|kept| kept == *page);
        assert!(is_kept, "packaging/{} is out of date: run scripts/pages", path.display());
    }
}
