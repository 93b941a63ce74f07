//! Manual pages and shell completions for packages, from the text of `--help`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;

/// Writes the files of a command line below a folder, which is made: `man/*.1` and `completions/*`.
///
/// **Errors**: the path that could not be written, and why.
#[expect(clippy::disallowed_methods, reason = "a package is packed after this program has ended")]
pub(crate) fn write_below(folder: &Path, command: &Command) -> Result<(), (PathBuf, io::Error)> {
    let pages = pages(command).map_err(|error| (folder.to_owned(), error))?;
    for (path, page) in pages {
        let path = folder.join(path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, page));
        written.map_err(|error| (path, error))?;
    }
    Ok(())
}

/// Returns the path of each file, and its content.
fn pages(command: &Command) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut whole = command.clone();
    whole.build();
    let mut pages = Vec::new();
    man(&whole, "handfast", &mut pages)?;
    for (shell, name) in
        [(Shell::Bash, "handfast.bash"), (Shell::Zsh, "_handfast"), (Shell::Fish, "handfast.fish")]
    {
        let mut page = Vec::new();
        generate(shell, &mut command.clone(), "handfast", &mut page);
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::words::Words;

    #[test]
    fn each_command_has_a_page_and_each_shell_its_completions() {
        let folder = tempfile::tempdir().expect("a folder");
        write_below(folder.path(), &Words::command()).expect("it can be written");
        let read = |path: &str| fs::read_to_string(folder.path().join(path)).expect("it was written");
        assert!(read("man/handfast-load.1").contains("\\-\\-duration"), "options are in it");
        for name in ["handfast.bash", "_handfast", "handfast.fish"] {
            assert!(read(&format!("completions/{name}")).contains("duration"), "{name}");
        }
        let hidden = folder.path().join("man/handfast-reference.1");
        assert!(!hidden.exists(), "a hidden command has none");
        let file = folder.path().join("man/handfast.1/below");
        let (path, _) = write_below(&file, &Words::command()).expect_err("a file is in the way");
        assert!(path.starts_with(&file), "{path:?}");
    }
}
