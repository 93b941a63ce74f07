//! Output files of a report: checked before the run, written as temporary files, renamed when they are complete.
//!
//! In: paths, then a report. Out: files with their old or their complete new content; or why one cannot be written.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handfast_report::hlog::to_hlog;
use handfast_report::openmetrics::to_openmetrics;
use handfast_report::{Report, csv, to_html, to_json};

use crate::words::load::OutputWords;

/// Reason why an output cannot be written or served.
#[derive(Debug)]
pub(crate) enum OutputError {
    /// A file cannot be made or written.
    Write { path: PathBuf, error: io::Error },
    /// There is a folder in the file's place.
    Folder { path: PathBuf },
    /// A path without a file's name at its end.
    NoName { path: PathBuf },
    /// Its reader read nothing for this duration after the run.
    NotRead { path: PathBuf, timeout: Duration },
    /// Not an address to listen on.
    Address(String),
    /// The address cannot be listened on.
    Listen { address: SocketAddr, error: io::Error },
    /// The option, with the mistake.
    Of { option: &'static str, error: Box<Self> },
    /// All mistakes, a line for each.
    Several(Vec<Self>),
}

impl OutputError {
    /// Adds the option.
    pub(crate) fn of(self, option: &'static str) -> Self {
        Self::Of { option, error: Box::new(self) }
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, error } => write!(f, "write {}: {error}", path.display()),
            Self::Folder { path } => write!(f, "write {}: it is a folder, expected a file", path.display()),
            Self::NoName { path } => write!(f, "write {}: no file name, expected one", path.display()),
            Self::NotRead { path, timeout } => {
                let (path, seconds) = (path.display(), timeout.as_secs());
                write!(f, "write {path}: the reader read nothing for {seconds} s after the run")
            }
            Self::Address(text) => write!(
                f,
                "invalid address `{text}`, expected PORT (on 127.0.0.1) or ADDRESS:PORT such as 0.0.0.0:9464"
            ),
            Self::Listen { address, error } => write!(f, "listen on {address}: {error}"),
            Self::Of { option, error } => write!(f, "{option}: {error}"),
            Self::Several(all) => {
                let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

impl std::error::Error for OutputError {}

/// A format of a report.
type Form = fn(&Report) -> String;

/// All files of a run, each with its form.
#[derive(Debug)]
pub(crate) struct Outputs(Vec<(Form, Output)>);

/// Each option with its path and what it writes.
fn requested_files(words: &OutputWords) -> Vec<(&'static str, &Path, Form)> {
    let all: [(&str, &Option<PathBuf>, Form); 6] = [
        ("--json", &words.json, to_json),
        ("--csv", &words.csv, csv::timeline),
        ("--csv-latencies", &words.csv_latencies, csv::latencies),
        ("--openmetrics", &words.openmetrics, to_openmetrics),
        ("--hlog", &words.hlog, to_hlog),
        ("--html", &words.html, to_html),
    ];
    all.into_iter().filter_map(|(option, path, write)| Some((option, path.as_deref()?, write))).collect()
}

/// Two options that would write to the same place, by their names.
pub(crate) fn clash(words: &OutputWords) -> Option<String> {
    let live = words.live_json.as_deref().map(|path| ("--live-json", path));
    let requested: Vec<(&str, &Path)> =
        requested_files(words).into_iter().map(|(option, path, _)| (option, path)).chain(live).collect();
    let clash = requested.iter().enumerate().find_map(|(index, (option, path))| {
        let earlier = requested[..index].iter().find(|(_, other)| other == path)?;
        Some((format!("{}, {option}", earlier.0), path.display()))
    });
    clash.map(|(options, path)| format!("{options}: both write to {path}, expected a file for each"))
}

impl Outputs {
    /// Creates every file.
    ///
    /// **Errors**: all files that cannot be created, a line for each.
    pub(crate) fn prepare(words: &OutputWords) -> Result<Self, OutputError> {
        let mut ready = Vec::new();
        let mut wrong = Vec::new();
        for (option, path, write) in requested_files(words) {
            match Output::prepare(path) {
                Ok(output) => ready.push((write, output)),
                Err(error) => wrong.push(error.of(option)),
            }
        }
        if wrong.is_empty() { Ok(Self(ready)) } else { Err(OutputError::Several(wrong)) }
    }

    /// Returns true if there are no outputs.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if one of them uses standard output, so that the text must go elsewhere.
    pub(crate) fn take_standard_output(&self) -> bool {
        self.0.iter().any(|(_, output)| matches!(output.place, Place::StandardOutput))
    }

    /// Writes all files, even if one fails.
    ///
    /// **Errors**: all files that could not be written, a line for each.
    pub(crate) fn write(self, report: &Report) -> Result<(), OutputError> {
        let wrong: Vec<OutputError> =
            self.0.into_iter().filter_map(|(text, output)| output.write(&text(report)).err()).collect();
        if wrong.is_empty() { Ok(()) } else { Err(OutputError::Several(wrong)) }
    }
}

/// One output file.
#[derive(Debug)]
pub(crate) struct Output {
    /// As it was given.
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// `-`.
    StandardOutput,
    /// A temporary file beside it; removed if this is dropped before the rename.
    Aside { file: File, aside: PathBuf },
    /// No regular file (a device, a pipe): it cannot be replaced.
    Special(File),
}

impl Output {
    /// Creates the temporary file for `path`.
    ///
    /// **Errors**: a missing or forbidden folder, a folder in the file's place, a full disk: with the path.
    pub(crate) fn prepare(path: &Path) -> Result<Self, OutputError> {
        let wrong = |error| OutputError::Write { path: path.to_path_buf(), error };
        let place = match fs::metadata(path) {
            _ if path.as_os_str() == "-" => Place::StandardOutput,
            Ok(there) if there.is_dir() => {
                return Err(OutputError::Folder { path: path.to_path_buf() });
            }
            Ok(there) if !there.is_file() => {
                Place::Special(OpenOptions::new().write(true).open(path).map_err(wrong)?)
            }
            _ => {
                // Follows a link to its target, as editors do.
                let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
                let name = real.file_name();
                let name = name.ok_or_else(|| OutputError::NoName { path: path.to_path_buf() })?;
                // Not only the process ID: in a lab it is always 1.
                let own = (std::process::id(), handfast_net::clock::Moment::now().nanos());
                let aside = format!(".{}.{}-{:x}.part", name.to_string_lossy(), own.0, own.1);
                let aside = real.with_file_name(aside);
                let file = OpenOptions::new().write(true).create_new(true).open(&aside).map_err(wrong)?;
                Place::Aside { file, aside }
            }
        };
        Ok(Self { path: path.to_path_buf(), place })
    }

    /// Writes everything and renames the file.
    ///
    /// **Errors**: a full disk, a removed folder; then the old file is unchanged.
    pub(crate) fn write(self, text: &str) -> Result<(), OutputError> {
        self.write_bytes(text.as_bytes())
    }

    /// The same for binary data.
    ///
    /// **Errors**: as [`Output::write`].
    pub(crate) fn write_bytes(mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let written = self.write_all(bytes);
        written.map_err(|error| OutputError::Write { path: self.path.clone(), error })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.place {
            Place::StandardOutput => match io::stdout().write_all(bytes) {
                // A reader that ended early is not our error.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            },
            Place::Special(file) => file.write_all(bytes),
            Place::Aside { file, aside } => {
                file.write_all(bytes)?;
                file.sync_all()?;
                let real = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
                fs::rename(&*aside, real)
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Place::Aside { aside, .. } = &self.place {
            // It no longer exists after the rename.
            let _ = fs::remove_file(aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_or_as_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        Output::prepare(&path).expect("writable").write("old").expect("written");
        let begun = Output::prepare(&path).expect("writable");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "old");
        assert_eq!(names(folder.path()).len(), 2);
        drop(begun);
        assert_eq!(names(folder.path()), ["report.json"]);
        assert_eq!(fs::read_to_string(&path).expect("readable"), "old");
        Output::prepare(&path).expect("writable").write("new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "new");
        assert_eq!(names(folder.path()), ["report.json"]);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real");
        File::create(&real).expect("made");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        Output::prepare(&link).expect("writable").write("text").expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&real).expect("readable"), "text");
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Output::prepare(folder.path()).expect_err("a folder").to_string();
        assert!(error.contains("is a folder"), "{error}");
        let error =
            Output::prepare(&folder.path().join("none/report.json")).expect_err("no folder").to_string();
        assert!(error.contains("none/report.json: No such file"), "{error}");
        assert!(Output::prepare(Path::new("..")).is_err());
    }

    #[test]
    fn devices_are_written_to_and_not_replaced() {
        Output::prepare(Path::new("/dev/null")).expect("writable").write("x").expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
    }
}
