//! The program under test: started, asked, signalled, stopped; what it says, and what the kernel knows of it.
//!
//! In: the path of the program and of a configuration. Out: its records and messages as they come, its figures, how it ended. It
//! is killed when the value is dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;

use super::peer::DEADLINE;
use super::trouble::{Trouble, broken, lab};
use crate::run::pause;
use crate::sockets::place::Place;

/// Lines that may wait to be looked at.
const LINES: usize = 65_536;
/// The address of its admin page, in its separate network.
const ADMIN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9901);

/// A running proxy.
pub(super) struct Program {
    child: Child,
    output: Option<Receiver<String>>,
    talk: Receiver<String>,
    records: Vec<Value>,
    requests: Vec<Value>,
    said: Vec<String>,
}

impl Program {
    /// Starts it and waits until it is ready. `output`: where its standard output goes, if not to us.
    pub(super) fn start(
        place: &Place,
        program: &Path,
        folder: &Path,
        output: Option<Stdio>,
    ) -> Result<Self, Trouble> {
        let mut started = Self::spawn(place, program, folder, output)?;
        let begun = Instant::now();
        loop {
            started.listen();
            if started.said.iter().any(|line| line.ends_with(": ready")) {
                return Ok(started);
            }
            if let Some(status) = started.child.try_wait().map_err(lab("wait for the proxy"))? {
                pause();
                started.listen();
                return broken(format!("the proxy ended at once with {status}: {}", started.last_words()));
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("the proxy was not ready in time: {}", started.last_words()));
            }
            pause();
        }
    }

    /// Starts it.
    pub(super) fn spawn(
        place: &Place,
        program: &Path,
        folder: &Path,
        output: Option<Stdio>,
    ) -> Result<Self, Trouble> {
        let mut command = Command::new(program);
        command.arg("proxy").arg("-c").arg(folder.join("handfast.toml")).current_dir(folder);
        command.env("RUST_BACKTRACE", "0").env_remove("HANDFAST_LOG");
        command.stdin(Stdio::null()).stdout(output.unwrap_or_else(Stdio::piped)).stderr(Stdio::piped());
        let mut child = place.spawn_here(&mut command)?;
        let output = child.stdout.take().map(|pipe| lines("lab-records", pipe)).transpose()?;
        let talk = child.stderr.take().map(|pipe| lines("lab-talk", pipe)).transpose()?;
        let talk = talk.ok_or_else(|| Trouble::Lab("the proxy has no standard error".to_owned()))?;
        Ok(Self { child, output, talk, records: Vec::new(), requests: Vec::new(), said: Vec::new() })
    }

    /// Takes in what it has said.
    fn listen(&mut self) {
        self.said.extend(self.talk.try_iter());
        let output = self.output.iter().flat_map(|output| output.try_iter());
        for record in output.filter_map(|line| record(&line)) {
            let of_request = record.get("request").is_some();
            if of_request { &mut self.requests } else { &mut self.records }.push(record);
        }
    }

    /// What it has said to people so far.
    pub(super) fn said(&mut self) -> &[String] {
        self.listen();
        &self.said
    }

    /// The connections that its log knows so far.
    pub(super) fn records(&mut self) -> &[Value] {
        self.listen();
        &self.records
    }

    /// The requests that its log knows so far.
    pub(super) fn requests(&mut self) -> &[Value] {
        self.listen();
        &self.requests
    }

    /// Of both, those that have a reason: every connection, and each request that no backend answered completely.
    pub(super) fn reasoned(&mut self) -> impl Iterator<Item = &Value> {
        self.listen();
        self.records.iter().chain(&self.requests).filter(|record| record.get("reason").is_some())
    }

    /// The end of what it said.
    pub(super) fn last_words(&mut self) -> String {
        let said = self.said();
        said[said.len().saturating_sub(3)..].join("; ")
    }

    /// Waits for a line with these words.
    pub(super) fn says(&mut self, words: &str) -> Result<(), Trouble> {
        let begun = Instant::now();
        while !self.said().iter().any(|line| line.contains(words)) {
            if begun.elapsed() > DEADLINE {
                return broken(format!("it never said {words:?}; last: {}", self.last_words()));
            }
            pause();
        }
        Ok(())
    }

    /// Its number.
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// Its number, for others.
    pub(super) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        kill(self.pid(), signal).map_err(lab("send a signal to the proxy"))
    }

    /// Stops it, and waits until all its threads are stopped.
    pub(super) fn freeze(&self) -> Result<(), Trouble> {
        self.signal(Signal::SIGSTOP)?;
        let stands = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
        };
        let begun = Instant::now();
        loop {
            let mut tasks =
                fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
            if tasks.all(stands) {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return Err(Trouble::Lab("the proxy's process did not stop".to_owned()));
            }
            pause();
        }
    }

    /// Open descriptors.
    pub(super) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// The fewest that are open within a moment: the last request to its admin page may still be closing.
    pub(super) fn fewest_descriptors(&self) -> usize {
        let begun = Instant::now();
        let mut fewest = self.descriptors();
        while begun.elapsed() < Duration::from_millis(30) {
            pause();
            fewest = fewest.min(self.descriptors());
        }
        fewest
    }

    /// Numbers of descriptors that a program which it starts would get: those without `O_CLOEXEC`, but for the first three.
    pub(super) fn inherited(&self) -> Vec<String> {
        /// `O_CLOEXEC`, as proc(5) shows flags: octal.
        const CLOSES: u32 = 0o2_000_000;
        let of =
            |process: &str| fs::read_dir(format!("/proc/{process}/fdinfo")).into_iter().flatten().flatten();
        let open = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(entry.path()).ok()?;
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
            let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
            (flags & CLOSES == 0 && name.parse::<u32>().is_ok_and(|number| number > 2)).then_some(name)
        };
        // What the laboratory was started with itself is no matter of the proxy's.
        let given: Vec<_> = of("self").filter_map(open).collect();
        of(&self.pid().to_string()).filter_map(open).filter(|number| !given.contains(number)).collect()
    }

    /// Resident memory that is its own, in KiB.
    pub(super) fn memory(&self) -> u64 {
        self.kib_of("RssAnon:")
    }

    /// Memory that it has asked for, in KiB: what a bound on its data counts.
    pub(super) fn data(&self) -> u64 {
        self.kib_of("VmData:")
    }

    fn kib_of(&self, what: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(what));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// CPU time of all its threads, to the clock tick of 10 ms.
    pub(super) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        // proc(5): behind the name in parentheses, utime and stime are the 12th and 13th fields.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// Bounds one of its resources, or lifts the bound again.
    pub(super) fn limit(&self, resource: Resource, bound: Option<u64>) -> Result<(), Trouble> {
        let ours = getrlimit(resource);
        let pid = rustix::process::Pid::from_raw(self.pid().as_raw());
        let limit = Rlimit { current: bound.or(ours.maximum), maximum: ours.maximum };
        prlimit(pid, resource, limit).map(drop).map_err(lab("limit what the proxy may have"))
    }

    /// Asks its admin page for something: status and body.
    pub(super) fn ask(&self, place: &Place, method: &str, path: &str) -> Result<(u16, String), Trouble> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        let answer = place.here(|| {
            let mut stream = TcpStream::connect_timeout(&ADMIN.into(), DEADLINE)?;
            stream.set_read_timeout(Some(DEADLINE))?;
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        })?;
        let answer = answer.map_err(|error| Trouble::Broken(format!("admin page {path}: {error}")))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok((status, body.to_owned()))
    }

    /// Connects to its admin page, to say anything.
    pub(super) fn admin(place: &Place) -> Result<TcpStream, Trouble> {
        let stream = place.here(|| TcpStream::connect_timeout(&ADMIN.into(), DEADLINE))?;
        stream.map_err(|error| Trouble::Broken(format!("connect to the admin page: {error}")))
    }

    /// The sum of a metric over all its samples that have this label.
    pub(super) fn metric(&self, place: &Place, name: &str, label: &str) -> Result<f64, Trouble> {
        let (status, page) = self.ask(place, "GET", "/metrics")?;
        if status != 200 {
            return broken(format!("its metrics page answers {status}"));
        }
        let sample = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            let whole = labels.is_empty() || labels.starts_with('{');
            (whole && labels.contains(label)).then(|| value.parse::<f64>().ok())?
        };
        Ok(page.lines().filter_map(sample).sum())
    }

    /// Reloads that took effect, and those that did not, or not as a whole.
    pub(super) fn reloads(&self, place: &Place) -> Result<(f64, f64), Trouble> {
        let of =
            |outcome: &str| self.metric(place, "handfast_reloads_total", &format!("outcome=\"{outcome}\""));
        Ok((of("succeeded")?, of("failed")? + of("in-part")?))
    }

    /// Asks for a reload; whether it took effect.
    pub(super) fn reload(&self, place: &Place) -> Result<bool, Trouble> {
        let before = self.reloads(place)?;
        self.signal(Signal::SIGHUP)?;
        let begun = Instant::now();
        while begun.elapsed() < DEADLINE {
            let now = self.reloads(place)?;
            if now.0 + now.1 > before.0 + before.1 {
                return Ok(now.0 > before.0);
            }
            pause();
        }
        broken("a reload came to no end")
    }

    /// Whether it has ended, and how.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it has ended.
    pub(super) fn wait(&mut self) -> Result<ExitStatus, Trouble> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if begun.elapsed() > DEADLINE {
                return broken("the proxy did not end");
            }
            pause();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of the access log; `None` for lines that are about neither a connection nor a request.
pub(super) fn record(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    (value.get("reason").is_some() || value.get("request").is_some()).then_some(value)
}

/// `step/side/cause` of a record.
pub(super) fn reason(record: &Value) -> String {
    let word = |key: &str| record["reason"][key].as_str().unwrap_or("?");
    format!("{}/{}/{}", word("step"), word("side"), word("cause"))
}

/// Hands on the lines of a pipe.
fn lines(name: &str, pipe: impl Read + Send + 'static) -> Result<Receiver<String>, Trouble> {
    let (sender, receiver) = sync_channel(LINES);
    let read = move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // Unused output is dropped, so that the proxy never waits for this reader.
            let _ = sender.try_send(line);
        }
    };
    Builder::new().name(name.to_owned()).spawn(read).map_err(lab("start a thread"))?;
    Ok(receiver)
}

/// Puts a file in another's place at once.
pub(super) fn put(path: &Path, text: impl AsRef<[u8]>) -> Result<(), Trouble> {
    let aside = path.with_extension("aside");
    let write = || {
        File::create(&aside)?.write_all(text.as_ref())?;
        fs::rename(&aside, path)
    };
    write().map_err(lab("write a file of the experiment"))
}
