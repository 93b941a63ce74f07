//! `handfast load`, run to its end or while it works. In: words as they are typed. Out: exit code, outputs, the report as data.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::deadline::wait_until_seeing;
use super::folder::Folder;
use super::lines::Lines;
use super::process::Process;
use super::proxy::PROGRAM;
use super::tools;

/// A command line.
pub(crate) struct Load {
    under: Vec<String>,
    words: Vec<String>,
    variables: Vec<(String, String)>,
    /// File of the JSON report, when the test has one.
    report: Option<PathBuf>,
}

/// A run at work.
pub(crate) struct Running {
    child: Child,
    began: Instant,
    /// The JSON report, for as long as the folder is there.
    file: PathBuf,
    _folder: Folder,
    /// Standard output: the report as text.
    pub(crate) output: Lines,
    /// Standard error: progress, and what is said to people.
    pub(crate) talk: Lines,
}

/// A run that has ended.
pub(crate) struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) output: String,
    /// Standard error.
    pub(crate) talk: String,
    /// Duration of the whole program.
    pub(crate) took: Duration,
    /// The JSON report; null when none was written.
    pub(crate) report: Value,
}

impl Load {
    /// With a target.
    pub(crate) fn at(target: impl Display) -> Self {
        Self::words_alone().word(target)
    }

    /// Without a target: what comes is all there is.
    pub(crate) fn words_alone() -> Self {
        Self { under: Vec::new(), words: Vec::new(), variables: Vec::new(), report: None }
    }

    /// Adds options that are separated by spaces.
    pub(crate) fn with(mut self, words: &str) -> Self {
        self.words.extend(words.split_whitespace().map(str::to_owned));
        self
    }

    /// Adds one word, whatever is in it.
    pub(crate) fn word(mut self, word: impl Display) -> Self {
        self.words.push(word.to_string());
        self
    }

    /// Adds an option and a path.
    pub(crate) fn file(self, option: &str, path: &Path) -> Self {
        self.word(option).word(path.display())
    }

    /// Under another program: `prlimit`, `taskset`.
    pub(crate) fn under(mut self, program: &[&str]) -> Self {
        self.under = program.iter().map(ToString::to_string).collect();
        self
    }

    /// With a variable of the environment.
    pub(crate) fn variable(mut self, name: &str, value: impl Display) -> Self {
        self.variables.push((name.into(), value.to_string()));
        self
    }

    /// With its JSON report in a file of the test's own.
    pub(crate) fn json(mut self, path: &Path) -> Self {
        self.report = Some(path.to_path_buf());
        self.file("--json", path)
    }

    /// Starts it.
    pub(crate) fn start(self) -> Running {
        let folder = Folder::new();
        let mut line = self.under.clone();
        line.extend([PROGRAM.to_owned(), "load".to_owned()]);
        if !self.words.iter().any(|word| ["-q", "--quiet"].contains(&word.as_str())) {
            line.push("--verbose".to_owned());
        }
        line.extend(self.words);
        let file = self.report.unwrap_or_else(|| {
            let file = folder.file("report.json");
            line.extend(["--json".to_owned(), file.display().to_string()]);
            file
        });
        let program = tools::find(&line[0]).unwrap_or_else(|| line[0].clone().into());
        let mut command = Command::new(program);
        command.args(&line[1..]).envs(self.variables).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let output = Lines::collect("standard output", child.stdout.take().expect("it is piped"));
        let talk = Lines::collect("standard error", child.stderr.take().expect("it is piped"));
        Running { child, began, file, _folder: folder, output, talk }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().ended()
    }

    /// Runs it to its end, which must be a good one: for tests that are about something else than the verdict.
    pub(crate) fn run_well(self) -> Ended {
        self.run().well()
    }
}

impl Running {
    /// Its process.
    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Waits until this number of seconds of the run has been reported.
    pub(crate) fn seconds(&self, number: usize) {
        let _ = self.talk.containing(&format!("second {number}:"));
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Ended {
        let status = wait_until_seeing(
            "the load to end",
            || self.child.try_wait().expect("it is our child"),
            || self.talk.so_far().join("\n"),
        );
        let took = self.began.elapsed();
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let report = serde_json::from_str(&text).unwrap_or(Value::Null);
        let (output, talk) = (self.output.to_the_end().join("\n"), self.talk.to_the_end().join("\n"));
        assert!(!talk.contains("panicked at"), "the program panicked:\n{talk}");
        Ended { code: status.code(), output, talk, took, report }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Everything that was said, for a search or a message.
    pub(crate) fn all(&self) -> String {
        format!("exit code {:?}\n{}\n{}", self.code, self.output, self.talk)
    }

    /// A value of the report by its JSON pointer (RFC 6901).
    pub(crate) fn value(&self, pointer: &str) -> &Value {
        let found = self.report.pointer(pointer);
        found.unwrap_or_else(|| panic!("no {pointer} in the report of:\n{}", self.all()))
    }

    /// A whole number of the report.
    pub(crate) fn count(&self, pointer: &str) -> u64 {
        let value = self.value(pointer);
        value.as_u64().unwrap_or_else(|| panic!("{pointer} is {value}, expected a whole number"))
    }

    /// A text of the report.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let value = self.value(pointer);
        value.as_str().unwrap_or_else(|| panic!("{pointer} is {value}, expected a text"))
    }

    /// Texts of the report, a line for each.
    pub(crate) fn lines(&self, pointer: &str) -> String {
        let value = self.value(pointer);
        let list = value.as_array().unwrap_or_else(|| panic!("{pointer} is {value}, expected a list"));
        list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Good; or as good as can be where other tests use the processors too, and the program is right to report that.
    pub(crate) fn well(self) -> Self {
        let crowded = self.code == Some(3) && self.verdict() == "generator-limited";
        assert!(self.code == Some(0) || crowded, "{}", self.all());
        self
    }

    /// The verdict's word.
    pub(crate) fn verdict(&self) -> &str {
        self.text("/verdict/word")
    }

    /// The verdict's evidence.
    pub(crate) fn evidence(&self) -> String {
        self.lines("/verdict/evidence")
    }

    /// The figures of one timed step.
    pub(crate) fn series(&self, name: &str) -> Series<'_> {
        let all = self.value("/series").as_array().expect("series are a list");
        let found = all.iter().find(|series| series["name"] == name);
        Series(found.unwrap_or_else(|| panic!("no series {name} in:\n{}", self.all())))
    }

    /// Returns true if there is such a series.
    pub(crate) fn has_series(&self, name: &str) -> bool {
        self.value("/series").as_array().is_some_and(|all| all.iter().any(|series| series["name"] == name))
    }
}

/// The figures of one timed step.
#[derive(Clone, Copy)]
pub(crate) struct Series<'a>(&'a Value);

impl Series<'_> {
    /// A percentile by its name: `p99`.
    pub(crate) fn percentile(self, name: &str) -> Duration {
        let value = &self.0["percentiles_ns"][name];
        Duration::from_nanos(value.as_u64().unwrap_or_else(|| panic!("{name} is {value}")))
    }

    /// Number of samples.
    pub(crate) fn count(self) -> u64 {
        self.0["count"].as_u64().expect("a whole number")
    }

    /// The greatest sample.
    pub(crate) fn greatest(self) -> Duration {
        Duration::from_nanos(self.0["max_ns"].as_u64().expect("a whole number"))
    }
}
