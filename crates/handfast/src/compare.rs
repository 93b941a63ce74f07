//! `handfast compare`: the JSON reports of two sides in, a test for differences beyond chance out.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use handfast_report::ToolError;
use handfast_report::compare::{Compared, Sides};
use handfast_report::{Report, ReportError, from_json};

use crate::load::outputs::Output;
use crate::load::refused;
use crate::talk;
use crate::talk::print;
use crate::talk::style;
use crate::words::compare::CompareWords;

/// Largest report that is read: a day of seconds with a histogram each stays below this.
const MAX_REPORT_BYTES: u64 = 1 << 30;
/// Most runs of a side.
const RUNS: usize = 100;

/// Runs `handfast compare`.
pub(crate) fn compare(words: &CompareWords) -> ExitCode {
    let ((name_a, paths_a), (name_b, paths_b)) = sides(words);
    let (a, b) = match (reports("A", &paths_a), reports("B", &paths_b)) {
        (Ok(a), Ok(b)) => (a, b),
        (a, b) => {
            // The errors of both sides are reported together.
            let wrong = [a.err(), b.err()].into_iter().flatten().flatten();
            let wrong: Vec<String> = wrong.map(|error| error.to_string()).collect();
            return refused(&ToolError::wrong_use(wrong.join("\n")));
        }
    };
    let output = match words.json.as_deref().map(Output::prepare).transpose() {
        Ok(output) => output,
        Err(error) => return refused(&ToolError::failed(error.of("--json").to_string())),
    };
    let names = (name_a.as_str(), name_b.as_str());
    let compared = Compared::new(Sides { a: &a, b: &b, names, across_targets: words.across_targets });
    let shown = match words.json.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        true => {
            talk::err(compared.text(style(io::stderr()).columns).trim_end());
            ExitCode::SUCCESS
        }
        false => print(&compared.text(style(io::stdout()).columns), true),
    };
    match output.map(|output| output.write(&compared.json())) {
        Some(Err(error)) => refused(&ToolError::failed(error)),
        _ => shown,
    }
}

/// The name and reports of each side: two files, or those of `--before` and `--after`.
fn sides(words: &CompareWords) -> ((String, Vec<PathBuf>), (String, Vec<PathBuf>)) {
    let file = |path: &Option<PathBuf>| {
        path.iter().map(|path| (path.display().to_string(), vec![path.clone()])).next()
    };
    match (file(&words.a), file(&words.b)) {
        (Some(a), Some(b)) => (a, b),
        // clap requires all options of one form.
        _ => (("before".into(), words.before.clone()), ("after".into(), words.after.clone())),
    }
}

/// Every report of a side.
///
/// **Errors**: all files that cannot be read.
fn reports(side: &'static str, paths: &[PathBuf]) -> Result<Vec<Report>, Vec<SideError>> {
    if paths.len() > RUNS {
        return Err(vec![SideError::TooMany { side, runs: paths.len() }]);
    }
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for path in paths {
        match report(path) {
            Ok(report) => found.push(report),
            Err(error) => wrong.push(SideError::File { side, path: path.clone(), error }),
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(wrong) }
}

/// **Cost**: the whole file in memory, at most [`MAX_REPORT_BYTES`].
fn report(path: &Path) -> Result<Report, FileError> {
    let file = File::open(path).map_err(FileError::Io)?;
    let mut text = String::new();
    let read = file.take(MAX_REPORT_BYTES + 1).read_to_string(&mut text).map_err(FileError::Io)?;
    if read as u64 > MAX_REPORT_BYTES {
        return Err(FileError::TooLarge);
    }
    from_json(&text).map_err(FileError::Report)
}

/// A mistake of one side.
#[derive(Debug)]
enum SideError {
    TooMany { side: &'static str, runs: usize },
    File { side: &'static str, path: PathBuf, error: FileError },
}

/// Reason why a file is not a report.
#[derive(Debug)]
enum FileError {
    Io(io::Error),
    TooLarge,
    Report(ReportError),
}

impl fmt::Display for SideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { side, runs } => write!(f, "compare {side}: {runs} runs, expected at most {RUNS}"),
            Self::File { side, path, error } => write!(f, "compare {side}: {}: {error}", path.display()),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "read report: {error}"),
            Self::TooLarge => f.write_str("read report: larger than 1 GiB, which no report is"),
            Self::Report(error) => match error.hint() {
                Some(hint) => write!(f, "{error}\nhint: {hint}"),
                None => error.fmt(f),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn every_file_that_cannot_be_read_is_named() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(b"no report").expect("written");
        let here = file.path().display();
        let paths = ["/none.json".into(), file.path().to_path_buf(), PathBuf::new()];
        let wrong = reports("A", &paths).expect_err("none of them is a report");
        let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert!(lines[0].starts_with("compare A: /none.json: read report: No such file"), "{lines:?}");
        assert!(lines[1].contains(&format!("{here}: read report: not JSON")), "{lines:?}");
        assert!(lines[2].starts_with("compare A: : read report: No such file"), "{lines:?}");
        assert_eq!(lines.len(), 3, "{lines:?}");
    }
}
