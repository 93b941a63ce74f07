//! `handfast log`: the access log, for people.
//!
//! In: lines of JSON from files, gzip, standard input or a file that grows. Out: a line for each selected connection and HTTP request,
//! or counts of all of them, on standard output; problems of the input on standard error. Its memory does not grow with the input.

mod entry;
mod filter;
mod follow;
mod input;
mod lines;
pub(crate) mod moment;
mod request;
mod request_summary;
mod show;
mod summary;
#[cfg(test)]
mod tests;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use handfast_config as config;
use handfast_config::model::AccessLog;
use handfast_text::units::{counted, plain};

use crate::talk;
use crate::talk::should_use_color;
use crate::words::log::{LogWords, OnlyWords};
use follow::Follow;
use input::InputError;
use show::Look;
use summary::Summary;

/// Most foreign lines that are reported one by one; further ones are counted.
const MAX_REPORTED_LINES: u64 = 10;
/// The prefix of proxy messages; in a journal they are between the lines of the access log.
const OURS: &[u8] = b"handfast: ";

/// Runs `handfast log`.
pub(crate) fn log(words: &LogWords) -> ExitCode {
    let files = match files(words) {
        Ok(files) => files,
        Err(problem) => {
            talk::err(&problem.to_string());
            return ExitCode::from(2);
        }
    };
    let mut reader = Reader::new(words, output(words, &files));
    let read = if words.follow { reader.follow(&files[0]) } else { reader.read(&files) };
    let good = match read.and_then(|good| reader.finish().map(|()| good)) {
        Ok(good) => good,
        // The reader of the output has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
        Err(error) => {
            talk::err(&format!("error: write to standard output: {error}"));
            false
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reason why there is nothing to read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum SourceError {
    #[error(
        "error: read the access log: no file is named, and no configuration that names one\n\
         hint: handfast log -c /etc/handfast/handfast.toml"
    )]
    NotNamed,
    #[error("error: --follow: several files are named, expected one")]
    SeveralToFollow,
    /// The configuration is wrong: its problems.
    #[error("{rendered}")]
    Configuration { rendered: String },
    #[error("error: {configuration}: the access log {goes}, so there is no file to read\nhint: {cure}")]
    NoFile { configuration: String, goes: &'static str, cure: &'static str },
}

/// The sources to read.
///
/// **Errors**: no source, or a configuration without a file; for people.
fn files(words: &LogWords) -> Result<Vec<PathBuf>, SourceError> {
    let files = match (&words.config, words.files.as_slice()) {
        (Some(config), _) => vec![file_of(config)?],
        (None, []) => {
            return Err(SourceError::NotNamed);
        }
        (None, files) => files.to_vec(),
    };
    if words.follow && files.len() > 1 {
        return Err(SourceError::SeveralToFollow);
    }
    Ok(files)
}

/// The file that a configuration names.
fn file_of(path: &Path) -> Result<PathBuf, SourceError> {
    let loaded = config::load(path);
    let name = path.display().to_string();
    let config = match &loaded.parsed {
        Ok((config, _)) => config.clone(),
        Err(problems) => {
            let rendered = config::render(problems, &loaded.texts(), false);
            return Err(SourceError::Configuration { rendered });
        }
    };
    let (goes, cure) = match config.access_log {
        AccessLog::File(file) => return Ok(file),
        AccessLog::Off => {
            ("is switched off", "give [access-log] a file: to = \"/var/log/handfast/access.log\"")
        }
        AccessLog::Stdout => (
            "goes to standard output",
            "as a service of systemd: journalctl -u handfast -o cat | handfast log -",
        ),
        AccessLog::Journald(_) => {
            ("goes to the journal", "journalctl -t handfast-access -o cat | handfast log -")
        }
        AccessLog::Syslog(_) => {
            ("goes to syslog", "name the file that syslog writes; its prefix of each line is ignored")
        }
    };
    Err(SourceError::NoFile { configuration: name, goes, cure })
}

fn is_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// With --follow, lines are written one by one.
fn output(words: &LogWords, files: &[PathBuf]) -> Box<dyn Write> {
    let waits = words.follow || files.iter().any(|file| is_input(file)) || io::stdout().is_terminal();
    if waits { Box::new(io::stdout()) } else { Box::new(BufWriter::new(io::stdout())) }
}

/// Reads lines, and shows or counts the selected ones.
struct Reader<'a> {
    only: &'a OnlyWords,
    output: Box<dyn Write>,
    form: Form,
    skipped: u64,
}

/// The form of the output.
enum Form {
    Lines(Look),
    /// As it was read.
    Json,
    Summary(Box<Summary>),
}

impl<'a> Reader<'a> {
    fn new(words: &'a LogWords, output: Box<dyn Write>) -> Self {
        let form = if words.summary {
            Form::Summary(Box::default())
        } else if words.json {
            Form::Json
        } else {
            let terminal = io::stdout().is_terminal();
            Form::Lines(Look { columns: columns(terminal), color: should_use_color(terminal) })
        };
        Self { only: &words.only, output, form, skipped: 0 }
    }

    /// Reads files to their ends; whether all could be read.
    fn read(&mut self, files: &[PathBuf]) -> io::Result<bool> {
        let mut good = true;
        for path in files {
            let name = name_of(path);
            let mut take = |number: u64, line: Option<&[u8]>| self.take(&name, number, line);
            let read = match is_input(path) {
                true => input::read(io::stdin().lock(), &mut take),
                false => input::read_file(path, &mut take),
            };
            match read {
                Ok(()) => {}
                Err(InputError::Take(error)) => return Err(error),
                Err(InputError::Read(error)) => {
                    good = false;
                    talk::err(&format!("error: read the access log {name}: {error}"));
                }
            }
        }
        Ok(good)
    }

    /// Reads new lines, until the process is ended.
    fn follow(&mut self, path: &PathBuf) -> io::Result<bool> {
        if is_input(path) {
            return self.read(std::slice::from_ref(path));
        }
        let name = name_of(path);
        let wrong = |error: &io::Error| talk::err(&format!("error: read the access log {name}: {error}"));
        let mut file = match Follow::begin(path, self.only.since.is_none()) {
            Ok(file) => file,
            Err(error) => {
                wrong(&error);
                return Ok(false);
            }
        };
        loop {
            let mut failed = None;
            let looked = file.read_new(&mut |number, line| {
                self.take(&name, number, line).inspect_err(|error| failed = Some(error.kind()))
            });
            match looked {
                Ok(()) => self.output.flush()?,
                Err(error) if failed.is_some() => return Err(error),
                Err(error) => {
                    wrong(&error);
                    return Ok(false);
                }
            }
            std::thread::park_timeout(follow::INTERVAL);
        }
    }

    fn take(&mut self, name: &str, number: u64, line: Option<&[u8]>) -> io::Result<()> {
        let parsed = match line {
            Some(line) if line.trim_ascii().is_empty() || line.starts_with(OURS) => return Ok(()),
            Some(line) => entry::parse(line),
            None => Err(entry::EntryError::TooLong),
        };
        match parsed {
            Ok(entry) if filter::matches(self.only, &entry) => match &mut self.form {
                Form::Lines(look) => writeln!(self.output, "{}", show::line(&entry, *look)),
                Form::Json => {
                    let json = line.and_then(entry::json_of).unwrap_or_default();
                    self.output.write_all(json).and_then(|()| self.output.write_all(b"\n"))
                }
                Form::Summary(summary) => {
                    summary.add(&entry);
                    Ok(())
                }
            },
            Ok(_) => Ok(()),
            Err(what) => {
                self.skipped += 1;
                if self.skipped <= MAX_REPORTED_LINES {
                    talk::err(&format!("warning: {name}:{number}: {}; skipped", plain(&what.to_string())));
                }
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Form::Summary(summary) = &self.form {
            self.output.write_all(summary.text().as_bytes())?;
        }
        if self.skipped > MAX_REPORTED_LINES {
            talk::err(&format!(
                "warning: {} skipped, of which the first {MAX_REPORTED_LINES} are named",
                counted(self.skipped, "line")
            ));
        }
        self.output.flush()
    }
}

fn name_of(path: &Path) -> String {
    if is_input(path) { "standard input".into() } else { path.display().to_string() }
}

/// Columns of the terminal, if it is one and reports them.
fn columns(terminal: bool) -> Option<usize> {
    let size = talk::terminal_size(io::stdout()).filter(|_| terminal);
    size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}
