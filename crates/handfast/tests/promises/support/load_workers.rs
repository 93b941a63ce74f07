//! Many machines on one: a bus, workers, a target that counts, and the coordinators that the test starts. In: names of
//! workers, options of `handfast load`. Out: reports, exit codes, what was said, what arrived at the target.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::bus::Bus;
use super::deadline::{DEADLINE, pause, wait_until_seeing};
use super::folder::Folder;
use super::lines::Lines;
use super::process::Process;
use super::proxy::PROGRAM;
use super::stage::Stage;

/// Time without a byte at the target before the load counts as ended: at the rates of these tests fifty connections would have come.
const QUIET: Duration = Duration::from_millis(1000);

/// The program, running: a worker or a coordinator. It is killed when this is dropped.
pub(crate) struct Program {
    child: Child,
    /// Lines of its standard error.
    pub(crate) talk: Lines,
    output: Lines,
}

impl Program {
    fn start(path: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        command.args(arguments).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let output = Lines::collect("standard output", child.stdout.take().expect("it is piped"));
        let talk = Lines::collect("standard error", child.stderr.take().expect("it is piped"));
        Self { child, talk, output }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        Process(self.child.id()).signal(signal);
    }

    /// Waits until it has ended: its exit code, `None` when a signal ended it.
    fn ended(&mut self) -> Option<i32> {
        let Self { child, talk, .. } = self;
        let ended = || child.try_wait().expect("it is our child");
        let status = wait_until_seeing("the program to end", ended, || talk.so_far().join("\n"));
        // The collecting threads see the end of the pipes a moment later than we see the end of the process.
        pause(Duration::from_millis(20));
        status.code()
    }

    /// Returns true if it still runs.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let talk = self.talk.so_far().join("\n");
        if std::thread::panicking() {
            // Captured by libtest and shown with the test that failed.
            #[expect(clippy::print_stderr, reason = "past the capture it would mix with other tests")]
            {
                eprintln!("process {} said:\n{talk}\n", self.child.id());
            }
            return;
        }
        assert!(!talk.contains("panicked at"), "process {} panicked:\n{talk}", self.child.id());
    }
}

/// A worker that waits for orders.
pub(crate) struct Worker {
    /// Its name in reports.
    pub(crate) name: String,
    /// It.
    pub(crate) program: Program,
}

impl Worker {
    /// Starts one, and waits until it waits.
    pub(crate) fn start(bus: &Bus, name: &str) -> Self {
        Self::of(Path::new(PROGRAM), &[&bus.url()], name)
    }

    /// The same, of another program or with other words.
    pub(crate) fn of(path: &Path, words: &[&str], name: &str) -> Self {
        let program = Program::start(path, &[&["worker", "--name", name], words].concat());
        program.talk.containing("waiting for orders");
        Self { name: name.to_owned(), program }
    }

    /// A copy of the program that is another one: it has a byte more.
    ///
    /// Another process writes it. A file that this process has open for writing is also open in each child that another
    /// test starts meanwhile, until that child executes its program, and Linux executes no file that is open for writing.
    pub(crate) fn other_program(folder: &Folder) -> PathBuf {
        let path = folder.file("handfast");
        let write = ["-c", r#"cat "$1" >"$2" && echo >>"$2" && chmod 700 "$2""#, "sh", PROGRAM];
        let written = Command::new("sh").args(write).arg(&path).status();
        assert!(written.expect("sh is installed").success(), "the temporary folder has room for the program");
        path
    }
}

/// The end of a coordinator.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// The report for people.
    pub(crate) text: String,
    /// Its standard error meanwhile.
    pub(crate) talk: String,
    /// The report for programs, when there is one.
    report: Option<Value>,
}

impl Ended {
    /// The report for programs.
    pub(crate) fn report(&self) -> &Value {
        self.report.as_ref().unwrap_or_else(|| panic!("there is no report: {self:?}"))
    }

    /// The report's entry of one worker.
    pub(crate) fn worker(&self, name: &str) -> &Value {
        let workers = self.report()["workers"].as_array().expect("a report lists workers");
        let found = workers.iter().find(|worker| worker["name"] == name);
        found.unwrap_or_else(|| panic!("no worker {name} in {workers:?}"))
    }

    /// Transactions of one worker that ended well.
    pub(crate) fn transactions(&self, name: &str) -> u64 {
        self.worker(name)["transactions"].as_u64().expect("transactions are counted")
    }

    /// The report's remarks, one a line.
    pub(crate) fn notes(&self) -> String {
        let notes = self.report()["notes"].as_array().expect("a report has notes");
        notes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The exit code is the verdict's. A busy machine may make it GENERATOR-LIMITED; that is no fault of what is tested.
    pub(crate) fn exits_by_verdict(&self) {
        let word = self.report()["verdict"]["word"].as_str().expect("a verdict has a word");
        let code = match word {
            "valid" | "target-limited" => 0,
            "generator-limited" => 3,
            other => panic!("the verdict is {other}: {}", self.text),
        };
        assert_eq!(self.code, Some(code), "{word}: {}", self.text);
    }
}

/// `handfast load`, running.
pub(crate) struct Coordinator {
    program: Program,
    folder: Folder,
}

impl Coordinator {
    /// Starts one with these words after `load`.
    pub(crate) fn start(words: &[&str]) -> Self {
        let folder = Folder::new();
        let json = folder.file("report.json");
        let json = json.to_str().expect("temporary folders have plain names");
        let words = [&["load", "--verbose"], words, &["--json", json]].concat();
        Self { program: Program::start(Path::new(PROGRAM), &words), folder }
    }

    /// Waits until a second of the run has been shown, and with it all before.
    pub(crate) fn shows_second(&mut self, number: u32) {
        self.wait_for_line(&format!("second {number}:"));
    }

    /// Waits until it has said something; one that has ended says nothing more.
    pub(crate) fn wait_for_line(&mut self, text: &str) -> String {
        let Program { child, talk, .. } = &mut self.program;
        let output = || talk.so_far().into_iter().find(|line| line.contains(text));
        let mut lived = true;
        let mut ask = || {
            let found = output();
            assert!(found.is_some() || lived, "it ended without `{text}`:\n{}", talk.so_far().join("\n"));
            // Its last output might still be in the pipe: read once more.
            if found.is_none() && child.try_wait().expect("it is our child").is_some() {
                pause(Duration::from_millis(50));
                lived = false;
            }
            found
        };
        wait_until_seeing(&format!("a line with `{text}`"), &mut ask, || talk.so_far().join("\n"))
    }

    /// Kills it without a word.
    pub(crate) fn kill(mut self) {
        self.program.signal(Signal::KILL);
        assert_eq!(self.program.ended(), None);
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> Ended {
        let code = self.program.ended();
        let read = std::fs::read_to_string(self.folder.file("report.json")).ok();
        let parse = |text: String| {
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("report.json: {error}: {text}"))
        };
        Ended {
            code,
            text: self.program.output.so_far().join("\n"),
            talk: self.program.talk.so_far().join("\n"),
            report: read.map(parse),
        }
    }
}

/// A scene: workers on a bus, and a proxy with a backend that echoes as their target.
pub(crate) struct LoadWorkers {
    /// Their target.
    pub(crate) stage: Stage,
    /// Those who make it.
    pub(crate) workers: Vec<Worker>,
    /// The bus.
    pub(crate) bus: Bus,
}

impl LoadWorkers {
    /// Workers with these names on a separate bus.
    pub(crate) fn of(names: &[&str]) -> Self {
        let (bus, stage) = (Bus::start(), Stage::echo());
        let workers = names.iter().map(|name| Worker::start(&bus, name)).collect();
        Self { stage, workers, bus }
    }

    /// A worker by its name.
    pub(crate) fn worker(&mut self, name: &str) -> &mut Worker {
        self.workers.iter_mut().find(|worker| worker.name == name).expect("a worker of this fleet")
    }

    /// Starts a run on some of the workers.
    pub(crate) fn load(&self, machines: usize, words: &[&str]) -> Coordinator {
        let (target, machines) = (self.stage.proxy.address().to_string(), machines.to_string());
        let usual = [&*target, "--workers", &self.bus.url(), "--machines", &machines, "--threads", "1"];
        Coordinator::start(&[&usual, words].concat())
    }

    /// Starts a run in the coordinator's own process.
    pub(crate) fn load_here(&self, words: &[&str]) -> Coordinator {
        Coordinator::start(&[&[&*self.stage.proxy.address().to_string(), "--threads", "1"], words].concat())
    }

    /// Runs a short one on some of the workers; it must go well.
    pub(crate) fn serves(&self, machines: usize) {
        let ended = self.load(machines, &["--rate", "20", "--duration", "1s"]).ended();
        ended.exits_by_verdict();
        let transactions = ended.report()["totals"]["transactions"].as_u64();
        assert!(transactions > Some(0), "the next run is served: {}", ended.text);
    }

    /// Connections that have arrived at the target so far.
    pub(crate) fn arrived(&self) -> u64 {
        // Counts far below 2^53.
        self.stage.proxy.metrics().sum("handfast_connections_accepted_total", &[]) as u64
    }

    /// Waits until no connection has arrived for a second: when the last one did.
    pub(crate) fn last_arrival(&self) -> Instant {
        let begun = Instant::now();
        let (mut arrived, mut last) = (self.arrived(), begun);
        while last.elapsed() < QUIET {
            assert!(begun.elapsed() < DEADLINE, "waited {DEADLINE:?} for the load to end: {arrived} arrived");
            pause(Duration::from_millis(20));
            let now = self.arrived();
            if now != arrived {
                (arrived, last) = (now, Instant::now());
            }
        }
        last
    }
}
