//! The result of an import: the new configuration and its notes, or why the old one could not be read.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use handfast_pki::files::read_input;
use toml_edit::{DocumentMut, Item, Value};

use crate::note::{Fate, Note, Outcome, Place};
use crate::row::{self, Row};

/// A converted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The text of a `handfast.toml`. Services that could not be kept are left out of it.
    pub config: String,
    /// The changes in meaning, in the order of the old configuration.
    pub notes: Vec<Note>,
    /// Files that the new configuration names, for its folder.
    pub files: Vec<NewFile>,
    /// The numbers of services by their conversion.
    pub services: ServiceCounts,
}

/// A file that a new configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Its name in the folder of the configuration.
    pub name: String,
    /// Its text.
    pub content: String,
}

/// The files of a conversion.
#[derive(Debug, Default)]
pub(crate) struct NewFiles(Vec<NewFile>);

impl NewFiles {
    /// Adds a file, and returns its name. Equal ones are one file.
    pub(crate) fn add(&mut self, stem: &str, end: &str, content: &str) -> String {
        let names =
            std::iter::once(format!("{stem}.{end}")).chain((2..).map(|at| format!("{stem}-{at}.{end}")));
        for name in names {
            match self.0.iter().find(|file| file.name == name) {
                Some(file) if file.content == content => return name,
                Some(_) => {}
                None => {
                    self.0.push(NewFile { name: name.clone(), content: content.to_owned() });
                    return name;
                }
            }
        }
        String::new()
    }

    pub(crate) fn into_list(self) -> Vec<NewFile> {
        self.0
    }
}

/// The numbers of services by their conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Those that mean the same.
    pub exact: usize,
    /// Those with a difference, which a note has.
    pub partial: usize,
    /// Those that are left out.
    pub refused: usize,
}

impl ServiceCounts {
    /// The number of all services.
    pub fn total(&self) -> usize {
        self.exact + self.partial + self.refused
    }

    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Exact => self.exact += 1,
            Outcome::Partial => self.partial += 1,
            Outcome::Refused => self.refused += 1,
        }
    }
}

impl fmt::Display for ServiceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exact, partial, refused } = self;
        write!(f, "services: {exact} as before, {partial} with differences, {refused} not converted")
    }
}

impl Imported {
    /// The configuration with what holds in the place of the old program. It listens on nothing besides its services, so two of them can run
    /// on a machine. A reload may name files anywhere, where a sandbox would know only those of the start; and where another user
    /// serves, keys that only root can read: the process that holds them stays root, as hitch's first process does.
    pub fn in_place(&self) -> String {
        let Ok(mut document) = self.config.parse::<DocumentMut>() else { return self.config.clone() };
        let mut put = |section: &str, key: &str, value: Value| {
            let section = document.entry(section).or_insert_with(toml_edit::table);
            section.as_table_mut().is_some_and(|section| section.insert(key, Item::Value(value)).is_none())
        };
        put("admin", "listen", "off".into());
        put("process", "sandbox-folders", Value::from_iter(["/"]));
        if document.get("process").is_some_and(|process| process.get("user").is_some()) {
            document["process"]["private-keys"] = toml_edit::value("separate-process");
        }
        document.to_string()
    }

    /// Returns true if every option keeps its meaning.
    pub fn is_exact(&self) -> bool {
        self.notes.iter().all(|note| note.fate == Fate::Same)
    }

    /// Returns true if nothing was refused: every service was converted.
    pub fn is_whole(&self) -> bool {
        self.notes.iter().all(|note| note.fate != Fate::Refused)
    }
}

/// Reason why a configuration could not be read.
#[derive(Debug)]
pub enum ImportError {
    /// A file, or a folder that it includes.
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// It violates its manual: every place, as a message.
    Grammar(Vec<String>),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "cannot read {}: {error}", path.display()),
            Self::Grammar(problems) => f.write_str(&problems.join("\n")),
        }
    }
}

impl std::error::Error for ImportError {}

/// Returns a word at the place of an option for a message. Any file can be given as a configuration, so the word can be a password.
pub(crate) fn shown_option<'w>(word: &'w str, meant: &str) -> &'w str {
    const MAX_OPTION_LENGTH: usize = 32;
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_');
    let is_plain = word.len() <= MAX_OPTION_LENGTH && word.bytes().all(is_letter);
    if is_plain || !meant.is_empty() { word } else { "an unknown option" }
}

/// Returns the message about an option that a program does not have: `NAME: PROGRAM has no such option; did you mean …?`
pub(crate) fn no_such_option(name: &str, program: &str, rows: &[Row]) -> String {
    let meant = handfast_text::suggest::did_you_mean(name, rows.iter().map(|row| row.name));
    let meant = meant.map(|meant| format!("; {meant}")).unwrap_or_default();
    format!("{}: {program} has no such option{meant}", shown_option(name, &meant))
}

/// Bytes of a configuration that is read.
const MAX_CONFIGURATION_BYTES: u64 = 64 << 20;

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, ImportError> {
    text_of(path, &read_bytes(path)?)
}

/// Reads a file.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, ImportError> {
    let of = |error| ImportError::Read { path: path.to_owned(), error };
    read_input(path, MAX_CONFIGURATION_BYTES).map(|bytes| bytes.to_vec()).map_err(of)
}

/// The text of a file; a byte order mark at its start is left out.
pub(crate) fn text_of(path: &Path, bytes: &[u8]) -> Result<String, ImportError> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if let Some(line) = text.lines().position(|line| line.contains("-----BEGIN ")) {
        let what = "a certificate or key begins here (PEM), expected a configuration";
        return Err(ImportError::Grammar(vec![format!("{}:{}: {what}", path.display(), line + 1)]));
    }
    Ok(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text))
}

/// A path as seen from the new file, which may be in another folder.
pub(crate) fn in_folder(folder: &Path, path: &str) -> String {
    if folder.as_os_str().is_empty() { path.to_owned() } else { folder.join(path).display().to_string() }
}

/// Adds a note in front where a file names a newer version of the program than its table was checked with, in a comment or a condition.
pub(crate) fn note_newer(imported: &mut Imported, program: &str, rows: &[Row], file: &Path) {
    let checked = row::checked(rows);
    let Ok(text) = read(file) else { return };
    let newer = text.lines().enumerate().find_map(|(at, line)| {
        let version = version_in(&line.to_ascii_lowercase(), program)?;
        (row::numbers(&version) > row::numbers(checked)).then_some((at + 1, version))
    });
    if let Some((line, version)) = newer {
        let effect = format!(
            "the table was checked with {checked}: what it does not have is reported as unknown, and what means something else by now is not noticed"
        );
        let (place, option) = (Place::Line(file.to_owned().into(), line), format!("{program} {version}"));
        imported.notes.insert(0, Note { place, option, fate: Fate::Same, effect });
    }
}

/// Returns the version that a line names: `nginx 1.30.1`, `nginx/1.30`, `version_atleast(3.2)`.
fn version_in(line: &str, program: &str) -> Option<String> {
    let after = line.split_once("version_atleast(").or_else(|| line.split_once(program))?.1;
    let after = after.trim_start_matches([' ', '/', '-', ':']);
    let after = after.strip_prefix("version").map_or(after, str::trim_start);
    let after = after.strip_prefix('v').unwrap_or(after);
    let version: String = after.chars().take_while(|sign| sign.is_ascii_digit() || *sign == '.').collect();
    let version = version.trim_end_matches('.');
    let is_version = version.contains('.') && version.parse::<std::net::IpAddr>().is_err();
    is_version.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_where_files_name_it() {
        for (line, program, expected) in [
            (
                "# generated 2026-11-01, mozilla guideline v5.7, nginx 1.31.0, openssl 3.5.0",
                "nginx",
                Some("1.31.0"),
            ),
            ("# nginx/1.30", "nginx", Some("1.30")),
            ("# haproxy version 3.3.1-1", "haproxy", Some("3.3.1")),
            (".if version_atleast(3.3)", "haproxy", Some("3.3")),
            ("user nginx;", "nginx", None),
            ("server haproxy 127.0.0.1:80", "haproxy", None),
            ("server nginx 10.0", "haproxy", None),
        ] {
            assert_eq!(version_in(line, program).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_file_for_a_newer_version_names_that_of_the_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("nginx.conf");
        for (version, is_noted) in [("1.18.0", false), ("1.30.9", false), ("1.31.0", true), ("2.0", true)] {
            #[expect(clippy::disallowed_methods, reason = "no other process reads this file")]
            std::fs::write(&file, format!("# nginx {version}\nevents {{ }}\n")).expect("written");
            let imported = crate::nginx(std::slice::from_ref(&file), Path::new("")).expect("it is read");
            let note = imported.notes.first().expect("a note").to_string();
            assert_eq!(
                note.contains(&format!("nginx {version}: same: the table was checked with 1.30")),
                is_noted,
                "{note}"
            );
        }
    }
}
