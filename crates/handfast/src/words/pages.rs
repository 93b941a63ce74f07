//! Man pages and completions in `packaging`, generated from the text of `--help`; a test checks the files.
//!
//! `scripts/pages` writes them. A test generates them, so that the program does not contain the code for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

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
