//! The job of a report's file, for `--replay`.
//!
//! In: a file. Out: the [`Job`] in it, which makes the same run.

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use handfast_report::job::{Job, JobError};

use handfast_report::ToolError;

/// Largest file that is read: a day's report with a histogram for each second has about 500 MiB at most; what is
/// larger is something else.
const MAX_REPORT_BYTES: u64 = 1 << 30;

/// Reads the job of a JSON report, or a job alone.
///
/// **Errors**: the file does not exist, is too large, or is neither; the request is wrong.
///
/// **Cost**: the whole file in memory, at most 1 GiB.
pub fn read(path: &Path) -> Result<Job, ToolError> {
    let failed = |what: String| ToolError::wrong_use(format!("replay {}: {what}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    let read = file
        .take(MAX_REPORT_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| failed(error.to_string()))?;
    if read as u64 > MAX_REPORT_BYTES {
        return Err(failed("larger than 1 GiB, which no report is".to_owned()));
    }
    Job::parse(&text).map_err(|error| {
        failed(error.to_string())
            .hint("give a report that `handfast load --json FILE` wrote, or the `job` of its manifest")
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::plan::Plan;

    #[test]
    fn files_are_named_in_errors() {
        let job = Job::of(Plan { seed: 7, ..Plan::default() });
        let refusal = read(Path::new("/no/such/report.json")).unwrap_err();
        assert!(
            refusal.is_wrong_use() && refusal.what.starts_with("replay /no/such/report.json:"),
            "{refusal}"
        );
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"verdict: VALID\n").unwrap();
        let refusal = read(file.path()).unwrap_err();
        assert!(refusal.hint.is_some_and(|hint| hint.contains("--json")), "a text report is no JSON report");
        file.as_file_mut().set_len(0).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(serde_json::to_string(&job).unwrap().as_bytes()).unwrap();
        assert_eq!(read(file.path()).unwrap(), job);
    }
}
