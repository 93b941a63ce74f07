//! The program itself: started on a configuration, asked, signalled, stopped. In: a configuration's text. Out: where it
//! listens, what it says, how it ends. It is killed when a test ends without stopping it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::deadline::{DEADLINE, wait_until, wait_until_seeing};
use super::folder::Folder;
use super::http;
use super::lines::Lines;
use super::metrics::Metrics;
use super::process::Process;
use super::record::Record;

/// The program that is tested: the one that was built with these tests.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_handfast");

/// A running proxy.
pub(crate) struct Proxy {
    child: Child,
    /// Standard output: the access log.
    pub(crate) output: Lines,
    /// Standard error: what it says to people.
    pub(crate) talk: Lines,
    /// Its configuration.
    pub(crate) file: PathBuf,
    /// The folder that holds it.
    folder: Folder,
}

/// The message of a line of standard error, without its time and the program's name.
pub(crate) fn message(line: &str) -> &str {
    line.split_once("handfast: ").map_or(line, |(_, message)| message)
}

impl Proxy {
    /// Starts it on a configuration and waits until it says that it is ready.
    pub(crate) fn start(config: impl ToString) -> Self {
        Self::start_with(config, |command| command)
    }

    /// As [`Self::start`], under another program: `prlimit`, `strace`, `ip netns exec`.
    pub(crate) fn start_under(prefix: &[&str], config: impl ToString) -> Self {
        let (program, arguments) = prefix.split_first().expect("a program to run under");
        Self::start_with(config, |command| {
            let mut outer = Command::new(program);
            outer.args(arguments).arg(command.get_program()).args(command.get_args());
            outer
        })
    }

    /// As [`Self::start`], by another command that is made of the usual one: with more in its environment, say.
    pub(crate) fn start_with(config: impl ToString, wrap: impl FnOnce(Command) -> Command) -> Self {
        let folder = Folder::new();
        let file = folder.write("handfast.toml", config.to_string());
        let mut command = Command::new(PROGRAM);
        command.arg("proxy").arg("-c").arg(&file);
        Self::run(wrap(command), folder, file).ready()
    }

    /// As [`Self::start`], with standard output going somewhere else; the access log cannot be read here then.
    pub(crate) fn start_logging_to(output: impl Into<Stdio>, config: impl ToString) -> Self {
        let folder = Folder::new();
        let file = folder.write("handfast.toml", config.to_string());
        let mut command = Command::new(PROGRAM);
        command.arg("proxy").arg("-c").arg(&file);
        Self::spawn(command, folder, file, output.into()).ready()
    }

    fn run(command: Command, folder: Folder, file: PathBuf) -> Self {
        Self::spawn(command, folder, file, Stdio::piped())
    }

    fn spawn(mut command: Command, folder: Folder, file: PathBuf, output: Stdio) -> Self {
        // Its panics are looked for below; their stack would bury what the proxy itself said.
        command.env("RUST_BACKTRACE", "0");
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let output = match child.stdout.take() {
            Some(pipe) => Lines::collect("standard output", pipe),
            None => Lines::collect("standard output", std::io::empty()),
        };
        let talk = Lines::collect("standard error", child.stderr.take().expect("it is piped"));
        Self { child, output, talk, file, folder }
    }

    fn ready(mut self) -> Self {
        wait_until_seeing(
            "the proxy to be ready",
            || {
                let lines = self.talk.so_far();
                let ready = lines.iter().any(|line| message(line) == "ready");
                if !ready && let Some(status) = self.child.try_wait().expect("it is our child") {
                    // Its last output is still in the pipe.
                    super::deadline::pause(Duration::from_millis(50));
                    let lines = self.talk.so_far();
                    panic!("the proxy ended at once with {status}:\n{}", lines.join("\n"));
                }
                ready.then_some(())
            },
            || self.talk.so_far().join("\n"),
        );
        self
    }

    /// Its process. Under another program this is right when that program ran it in its own place, as prlimit does.
    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Address of its first service.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listening("")
    }

    /// Address of a service.
    pub(crate) fn address_of(&self, service: &str) -> SocketAddr {
        self.listening(&format!("(service {service})"))
    }

    /// Waits for the line that names it: a reload is answered before the log's own thread has written what it says.
    fn listening(&self, service: &str) -> SocketAddr {
        let parse = |line: &str| message(line).strip_prefix("listening on ")?.split(' ').next()?.parse().ok();
        wait_until_seeing(
            &format!("an address for {service:?}"),
            || self.talk.so_far().iter().filter(|line| line.contains(service)).find_map(|line| parse(line)),
            || self.talk.so_far().join("\n"),
        )
    }

    /// Address of its admin page.
    pub(crate) fn admin(&self) -> SocketAddr {
        let parse = |line: &String| message(line).strip_prefix("admin on ")?.split(' ').next()?.parse().ok();
        self.talk.so_far().iter().find_map(parse).expect("the configuration asks for an admin page")
    }

    /// Writes another configuration in the old one's place.
    pub(crate) fn rewrite(&self, config: impl ToString) {
        self.folder.replace("handfast.toml", config.to_string());
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    /// Requests a reload on the admin page and returns true if it took effect as a whole. A reload of changed files at the same time raises the
    /// counters of reloads, too, so they are not used.
    pub(crate) fn reload(&self) -> bool {
        let answer = http::post(self.admin(), "/reload", "");
        match answer.status {
            200 => true,
            409 => false,
            status => panic!("POST /reload: {status} {}", answer.body),
        }
    }

    /// Reloads that took effect as a whole, and those that did not.
    pub(crate) fn reloads(&self) -> (f64, f64) {
        let metrics = self.metrics();
        let of = |outcome| metrics.sum("handfast_reloads_total", &[("outcome", outcome)]);
        (of("succeeded"), of("failed") + of("in-part"))
    }

    /// The connections that the access log knows so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.output.so_far().iter().filter_map(|line| Record::parse(line)).collect()
    }

    /// Waits for a line of the access log that fits.
    pub(crate) fn record(&self, what: &str, fits: impl Fn(&Record) -> bool) -> Record {
        self.output.find(0, what, |line| Record::parse(line).filter(&fits)).1
    }

    /// Waits for the access log to give a reason: `step/side/cause`.
    pub(crate) fn record_of(&self, reason: &str) -> Record {
        self.record(&format!("a connection that ended for {reason}"), |record| record.reason() == reason)
    }

    /// Reads the metrics page.
    pub(crate) fn metrics(&self) -> Metrics {
        let answer = http::get(self.admin(), "/metrics", "*/*");
        assert_eq!(answer.status, 200, "{answer:?}");
        Metrics::new(answer.body)
    }

    /// Reads the status as data.
    pub(crate) fn status(&self) -> serde_json::Value {
        let answer = http::get(self.admin(), "/status", "application/json");
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("/status: {error}: {}", answer.body))
    }

    /// Waits until it has as many descriptors open as before; the last thing many tests do.
    pub(crate) fn settles_at(&self, descriptors: usize) {
        wait_until_seeing(
            &format!("descriptors to go back to {descriptors}"),
            || (self.process().descriptors() <= descriptors).then_some(()),
            || self.process().descriptors().to_string(),
        );
    }

    /// Waits until it has ended, for whatever reason.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait_until("the proxy to end", || self.child.try_wait().expect("it is our child"))
    }

    /// Returns true if it still runs.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Stops it in order; gives its exit code and how long it took.
    pub(crate) fn stop(mut self) -> (Option<i32>, Duration) {
        let start = Instant::now();
        self.signal(Signal::TERM);
        let status = self.ended();
        assert!(start.elapsed() < DEADLINE);
        (status.code(), start.elapsed())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let talk = self.talk.so_far();
        if std::thread::panicking() {
            let records = self.output.so_far();
            let last = |lines: &[String], count| lines[lines.len().saturating_sub(count)..].join("\n");
            // Captured by libtest and shown with the test that failed.
            #[expect(clippy::print_stderr, reason = "past the capture it would mix with other tests")]
            {
                eprintln!("the proxy said:\n{}\nand logged:\n{}", last(&talk, 20), last(&records, 5));
            }
            return;
        }
        // Whatever else a test is about: nothing that a peer, a file or a clock did may panic.
        let panicked = talk.iter().position(|line| line.contains("panicked at"));
        assert!(panicked.is_none(), "the proxy panicked:\n{}", talk[panicked.unwrap_or(0)..].join("\n"));
    }
}
