//! `handfast fmt`: configuration files in one form.
//!
//! In: files, or standard input. Out: the files, each replaced at once with its mode and owner, and only where its text changes; or
//! standard output.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use handfast_config::source::read_file;
use handfast_config::{FormatError, format};

use crate::talk;
use crate::words::fmt::FmtWords;

/// Bytes of standard input.
const MAX_BYTES: u64 = 16 << 20;

/// Reason why a file is not formatted.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("format {0}: read it: {1}")]
    Read(String, #[source] io::Error),
    #[error("format {0}: it is not UTF-8 text")]
    NotUtf8(String),
    #[error("format {0}: {1}")]
    Format(String, #[source] FormatError),
    #[error("format {0}: write it: {1}")]
    Write(String, #[source] io::Error),
}

/// Formats files. Exit code 1: `--check` found a file that would change; 2: a file cannot be formatted.
pub(crate) fn fmt(words: &FmtWords) -> ExitCode {
    let (mut would_change, mut failed) = (false, false);
    let outcomes: Vec<_> = match &words.files[..] {
        [] => vec![standard_input(words.check)],
        files => files.iter().map(|file| one(file, words.check)).collect(),
    };
    for outcome in outcomes {
        match outcome {
            Ok(changes) => would_change |= changes && words.check,
            Err(failure) => {
                talk::err(&format!("error: {failure}"));
                failed = true;
            }
        }
    }
    match (failed, would_change) {
        (true, _) => ExitCode::from(2),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}

/// Formats standard input; returns true if the text changes.
fn standard_input(check: bool) -> Result<bool, Failure> {
    let name = || "standard input".to_owned();
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Read(name(), error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let error = io::Error::other(format!("has more than {MAX_BYTES} bytes"));
        return Err(Failure::Read(name(), error));
    }
    let (before, after) = formatted(name(), bytes)?;
    if check {
        report(&name(), before != after);
    } else {
        // A reader that ended early is not our error.
        let _ = io::stdout().write_all(after.as_bytes());
    }
    Ok(before != after)
}

/// Formats one file; returns true if its text changes.
fn one(file: &Path, check: bool) -> Result<bool, Failure> {
    let name = || file.display().to_string();
    let bytes = read_file(file).map_err(|error| Failure::Read(name(), error))?;
    let (before, after) = formatted(name(), bytes)?;
    let changes = before != after;
    match (changes, check) {
        (true, false) => replace(file, after.as_bytes()).map_err(|error| Failure::Write(name(), error))?,
        (_, true) => report(&name(), changes),
        (false, false) => {}
    }
    Ok(changes)
}

fn report(name: &str, changes: bool) {
    if changes {
        talk::err(&format!("{name}: would change"));
    }
}

/// The text, and the formatted one.
fn formatted(name: String, bytes: Vec<u8>) -> Result<(String, String), Failure> {
    let Ok(before) = String::from_utf8(bytes) else { return Err(Failure::NotUtf8(name)) };
    match format(&before) {
        Ok(after) => Ok((before, after)),
        Err(error) => Err(Failure::Format(name, error)),
    }
}

/// Replaces a file at once; a link to it stays, and so do mode and owner.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let real = file.canonicalize()?;
    let metadata = fs::metadata(&real)?;
    if !metadata.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let name = real.file_name().unwrap_or_default().display();
    let path = real.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let mut options = OpenOptions::new();
    let mut new = options.write(true).create_new(true).mode(0o600).open(&path)?;
    let aside = Aside(path);
    new.write_all(content)?;
    let own = new.metadata()?;
    if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
        std::os::unix::fs::fchown(&new, Some(metadata.uid()), Some(metadata.gid()))?;
    }
    new.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    new.sync_all()?;
    fs::rename(&aside.0, &real)
}

/// The path of a new file. It is removed when this is dropped, unless it was renamed.
struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
