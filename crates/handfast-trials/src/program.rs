//! The program under test: started, asked, signalled, stopped; what it prints, and what the kernel reports of its processes.
//!
//! In: an adapter, the path of the program and of a configuration. Out: its records and messages as they come, its figures, how it
//! ended. It is killed, with all its processes, when the value is dropped. Records, metrics and the admin page are Handfast's.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use handfast_lab::run::{is_listening, pause};
use handfast_lab::sockets::Place;
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::process::Process;
use rustix::process::{Resource, Signal};
use serde_json::Value;

use crate::addresses::{BYSTANDER, SERVICE};
use crate::error::{CaseError, broken, lab};
use crate::subject::Subject;

/// Lines that may wait to be looked at.
const LINES: usize = 65_536;
/// The address of its admin page, in its separate network.
const ADMIN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7643);

/// Time that a reload may take in a program that does not report its end.
const RELOADS_WITHIN: Duration = Duration::from_millis(400);

/// Start parameters: a program by its adapter, with the configuration in a folder.
pub(crate) struct Launch<'a> {
    pub(crate) subject: &'static Subject,
    pub(crate) program: &'a Path,
    pub(crate) folder: &'a Path,
}

/// A running proxy.
pub(crate) struct Program {
    subject: &'static Subject,
    child: Child,
    output: Option<Receiver<String>>,
    talk: Receiver<String>,
    records: Vec<Value>,
    requests: Vec<Value>,
    lines: Vec<String>,
}

impl Program {
    /// Starts it and waits until it is ready. `output`: where its standard output goes, if not to us.
    pub(crate) fn start(
        place: &Place,
        launch: &Launch<'_>,
        output: Option<Stdio>,
    ) -> Result<Self, CaseError> {
        let mut started = Self::spawn(place, launch, output)?;
        let begun = Instant::now();
        loop {
            started.listen();
            if started.is_ready(place)? {
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

    /// Returns true if it reports that it is ready; other programs than Handfast are ready when they listen.
    fn is_ready(&self, place: &Place) -> Result<bool, CaseError> {
        if self.subject.is_logged {
            return Ok(self.lines.iter().any(|line| line.ends_with(": ready")));
        }
        let bystander = self.subject.has_bystander;
        let listening =
            || is_listening(Some(SERVICE.port())) && (!bystander || is_listening(Some(BYSTANDER.port())));
        Ok(place.here(listening)?)
    }

    /// Starts it.
    pub(crate) fn spawn(
        place: &Place,
        launch: &Launch<'_>,
        output: Option<Stdio>,
    ) -> Result<Self, CaseError> {
        let Launch { subject, program, folder } = launch;
        let mut command = Command::new(program);
        command.args((subject.words)(&folder.join(subject.file).display().to_string())).current_dir(folder);
        command.env("RUST_BACKTRACE", "0").env_remove("HANDFAST_LOG");
        command.stdin(Stdio::null()).stdout(output.unwrap_or_else(Stdio::piped)).stderr(Stdio::piped());
        let mut child = place.spawn_here(&mut command)?;
        let output = child.stdout.take().map(|pipe| lines("lab-records", pipe)).transpose()?;
        let talk = child.stderr.take().map(|pipe| lines("lab-talk", pipe)).transpose()?;
        let talk = talk.ok_or_else(|| CaseError::Lab("the proxy has no standard error".to_owned()))?;
        let (records, requests, lines) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { subject, child, output, talk, records, requests, lines })
    }

    /// Reads its new output.
    fn listen(&mut self) {
        self.lines.extend(self.talk.try_iter());
        let output = self.output.iter().flat_map(|output| output.try_iter());
        if !self.subject.is_logged {
            self.lines.extend(output);
            return;
        }
        for record in output.filter_map(|line| record(&line)) {
            let of_request = record.get("request").is_some();
            if of_request { &mut self.requests } else { &mut self.records }.push(record);
        }
    }

    /// Returns its output so far.
    pub(crate) fn output(&mut self) -> &[String] {
        self.listen();
        &self.lines
    }

    /// The connections that its log knows so far.
    pub(crate) fn records(&mut self) -> &[Value] {
        self.listen();
        &self.records
    }

    /// The requests that its log knows so far.
    pub(crate) fn requests(&mut self) -> &[Value] {
        self.listen();
        &self.requests
    }

    /// Of both, those that have a reason: every connection, and each request that no backend answered completely.
    pub(crate) fn reasoned(&mut self) -> impl Iterator<Item = &Value> {
        self.listen();
        self.records.iter().chain(&self.requests).filter(|record| record.get("reason").is_some())
    }

    /// The end of its output.
    pub(crate) fn last_words(&mut self) -> String {
        let output = self.output();
        output[output.len().saturating_sub(3)..].join("; ")
    }

    /// Waits for a line with these words.
    pub(crate) fn wait_for_line(&mut self, words: &str) -> Result<(), CaseError> {
        let begun = Instant::now();
        while !self.output().iter().any(|line| line.contains(words)) {
            if begun.elapsed() > DEADLINE {
                return broken(format!("it never said {words:?}; last: {}", self.last_words()));
            }
            pause();
        }
        Ok(())
    }

    fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Its number, for others.
    pub(crate) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Its processes: the one that was started, and those that it started.
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.process().tree()
    }

    /// Sends a signal to the process that was started.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), CaseError> {
        self.process().try_signal(signal).map_err(lab("send a signal to the proxy"))
    }

    /// Sends a signal to all its processes.
    pub(crate) fn signal_all(&self, signal: Signal) {
        for process in self.processes() {
            // It may have ended in this moment.
            let _ = process.try_signal(signal);
        }
    }

    /// Stops it, and waits until all threads of all its processes are stopped.
    pub(crate) fn freeze(&self) -> Result<(), CaseError> {
        self.signal_all(Signal::STOP);
        let begun = Instant::now();
        while !self.processes().into_iter().all(Process::is_stopped) {
            if begun.elapsed() > DEADLINE {
                return Err(CaseError::Lab("the proxy's process did not stop".to_owned()));
            }
            pause();
        }
        Ok(())
    }

    /// Open descriptors of all its processes.
    pub(crate) fn descriptors(&self) -> usize {
        self.processes().into_iter().map(Process::descriptors).sum()
    }

    /// The fewest that are open within a moment: the last request to its admin page may still be closing.
    pub(crate) fn fewest_descriptors(&self) -> usize {
        let begun = Instant::now();
        let mut fewest = self.descriptors();
        while begun.elapsed() < Duration::from_millis(30) {
            pause();
            fewest = fewest.min(self.descriptors());
        }
        fewest
    }

    /// The number that is open when it has not changed for a moment: a program that listens may still open what it opens once.
    pub(crate) fn settled_descriptors(&self) -> usize {
        const MOMENT: Duration = Duration::from_millis(100);
        let (mut since, mut number) = (Instant::now(), self.descriptors());
        let begun = since;
        while since.elapsed() < MOMENT && begun.elapsed() < 20 * MOMENT {
            pause();
            let now = self.descriptors();
            if now != number {
                (since, number) = (Instant::now(), now);
            }
        }
        number
    }

    /// Numbers of descriptors that a program which it starts would get: those without `O_CLOEXEC`, but for the first three.
    pub(crate) fn inherited(&self) -> Vec<String> {
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
        // Descriptors that the laboratory itself was started with are not the proxy's.
        let given: Vec<_> = of("self").filter_map(open).collect();
        of(&self.number().to_string()).filter_map(open).filter(|number| !given.contains(number)).collect()
    }

    /// Resident memory that is its own, in KiB, of all its processes.
    pub(crate) fn memory(&self) -> u64 {
        self.processes().into_iter().filter_map(|process| process.status("RssAnon:")).sum()
    }

    /// Memory that it has allocated, in KiB: the part that a bound on its data counts.
    pub(crate) fn data(&self) -> u64 {
        self.process().status("VmData:").unwrap_or(0)
    }

    /// CPU time of all threads of its processes, to the clock tick of 10 ms.
    pub(crate) fn cpu(&self) -> Duration {
        self.processes().into_iter().filter_map(Process::try_cpu).sum()
    }

    /// Bounds its data, or lifts the bound again.
    pub(crate) fn limit_data(&self, bound: Option<u64>) -> Result<(), CaseError> {
        self.process().limit(Resource::Data, bound).map_err(lab("limit the proxy's memory"))
    }

    /// Leaves each of its processes this number of descriptors more than it has, or lifts the bound again.
    pub(crate) fn limit_descriptors(&self, room: Option<u64>) -> Result<(), CaseError> {
        let bound = |process: Process| room.map(|room| process.descriptors() as u64 + room);
        let limited = self
            .processes()
            .into_iter()
            .try_for_each(|process| process.limit(Resource::Nofile, bound(process)));
        limited.map_err(lab("limit the proxy's descriptors"))
    }

    /// Returns true if one of its processes has no descriptor left below its bound.
    pub(crate) fn is_out_of_descriptors(&self) -> bool {
        self.processes().into_iter().any(Process::is_out_of_descriptors)
    }

    /// Asks its admin page for something: status and body.
    pub(crate) fn query_admin(
        &self,
        place: &Place,
        method: &str,
        path: &str,
    ) -> Result<(u16, String), CaseError> {
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
        let answer = answer.map_err(|error| CaseError::Broken(format!("admin page {path}: {error}")))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok((status, body.to_owned()))
    }

    /// Connects to its admin page, to send any data.
    pub(crate) fn admin(place: &Place) -> Result<TcpStream, CaseError> {
        let stream = place.here(|| TcpStream::connect_timeout(&ADMIN.into(), DEADLINE))?;
        stream.map_err(|error| CaseError::Broken(format!("connect to the admin page: {error}")))
    }

    /// The sum of a metric over all its samples that have this label.
    pub(crate) fn metric(&self, place: &Place, name: &str, label: &str) -> Result<f64, CaseError> {
        let (status, page) = self.query_admin(place, "GET", "/metrics")?;
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
    pub(crate) fn reloads(&self, place: &Place) -> Result<(f64, f64), CaseError> {
        let of =
            |outcome: &str| self.metric(place, "handfast_reloads_total", &format!("outcome=\"{outcome}\""));
        Ok((of("succeeded")?, of("failed")? + of("in-part")?))
    }

    /// Asks for a reload, and waits until it is over; other programs than Handfast show at most new processes.
    pub(crate) fn reload_unwatched(&self) -> Result<(), CaseError> {
        let before = self.processes();
        self.signal(self.subject.reload)?;
        let begun = Instant::now();
        while begun.elapsed() < RELOADS_WITHIN && self.processes() == before {
            pause();
        }
        // The new processes take over.
        while begun.elapsed() < RELOADS_WITHIN / 2 {
            pause();
        }
        Ok(())
    }

    /// Asks for a reload; whether it took effect.
    pub(crate) fn reload(&self, place: &Place) -> Result<bool, CaseError> {
        let before = self.reloads(place)?;
        self.signal(Signal::HUP)?;
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

    /// Returns its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus, CaseError> {
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
        self.signal_all(Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of the access log; `None` for lines that are about neither a connection nor a request.
pub(crate) fn record(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    (value.get("reason").is_some() || value.get("request").is_some()).then_some(value)
}

/// `step/side/cause` of a record.
pub(crate) fn reason(record: &Value) -> String {
    let word = |key: &str| record["reason"][key].as_str().unwrap_or("?");
    format!("{}/{}/{}", word("step"), word("side"), word("cause"))
}

/// Hands on the lines of a pipe.
fn lines(name: &str, pipe: impl Read + Send + 'static) -> Result<Receiver<String>, CaseError> {
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

/// Puts a file of an experiment in another's place at once.
pub(crate) fn put(path: &Path, text: impl AsRef<[u8]>) -> Result<(), CaseError> {
    put_file(path, text).map_err(lab("write a file of the experiment"))
}

/// Puts a file in another's place at once.
///
/// **Errors**: creat(2), write(2), rename(2).
pub fn put_file(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let aside = path.with_extension("aside");
    File::create(&aside)?.write_all(text.as_ref())?;
    fs::rename(&aside, path)
}
