//! A run of a lab: the network, servers that are waited for, the command, and what became of it all.
//!
//! In: [`RunSettings`]. Out: the exit code of the command and a [`Report`]. The command has this process's standard input and output, and
//! gets the signals that are sent to it; servers write to standard error, and end with the command.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::capture::Capture;
use crate::error::LabError;
use crate::forwarder::{Forwarder, Watch};
use crate::host::Host;
use crate::namespace::{Inside, code, sent_to_us, signals};
use crate::network::{DEPTH, Make, Network};
use crate::plan::{Plan, Server};
use crate::port::Engine;
use crate::report::{Report, Run};

/// Interval at which a server is checked until it listens.
const LOOK: Duration = Duration::from_millis(2);
/// Time limit for a server to end on request.
const END: Duration = Duration::from_secs(2);
/// Packets that may wait for the disk.
const SIGHTINGS: usize = 65_536;

/// The request.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The network, and servers in it.
    pub plan: Plan,
    /// The command and its words.
    pub command: Vec<OsString>,
    /// Engine that carries packets; `None` for what works here.
    pub engine: Option<Engine>,
    /// File in which packets are stored.
    pub capture: Option<PathBuf>,
    /// True if the server's side is whatever this lab was started in, where that is another lab.
    pub within: bool,
    /// Time limit for a server to listen.
    pub server_timeout: Duration,
}

/// Runs it.
///
/// **Errors**: what cannot be made or started; a server that ends before it listens, or listens too late.
pub fn run(inside: Inside, settings: &RunSettings) -> Result<Report, LabError> {
    let plan = &settings.plan;
    // Before there is a second thread: none of them is to be interrupted.
    let signals = signals().map_err(LabError::command("take signals"))?;
    let seed = plan.seed.unwrap_or_else(|| handfast_net::clock::Moment::now().nanos());
    let make = Make { engine: settings.engine, within: settings.within };
    let mut network = Network::make(inside, plan, make)?;
    crate::names::add(&network.names())?;
    let (watch, capture) = match &settings.capture {
        None => (None, None),
        Some(path) => {
            let (sightings, seen) = sync_channel(SIGHTINGS);
            (Some(Watch { sightings }), Some(Capture::start(path, plan, seen)?))
        }
    };
    let wires = std::mem::take(&mut network.wires);
    let forwarder = Forwarder::start(wires, seed, watch)?;
    let commands =
        Commands { network: &network, signals: &signals, secrets: capture.as_ref().map(Capture::secrets) };
    let begun = Instant::now();
    let ended = commands.run(settings);
    let took = begun.elapsed();
    let last = forwarder.stop().ok_or_else(|| LabError::Late {
        what: "the thread that forwards packets has gone".to_owned(),
        hint: "this is a fault of the lab; please report it".to_owned(),
    })?;
    if let Some(capture) = capture {
        capture.finish()?;
    }
    let run = Run { engine: network.engine, seed, took, exit: ended? };
    Ok(Report::new(plan, run, &last))
}

struct Commands<'a> {
    network: &'a Network,
    signals: &'a SignalFd,
    /// File for the TLS secrets of commands, if there is one.
    secrets: Option<OsString>,
}

/// Servers that run; they end with this value.
pub(crate) struct Servers(pub(crate) Vec<Child>);

impl Commands<'_> {
    /// Starts the servers, then the command; gives its exit code.
    fn run(&self, settings: &RunSettings) -> Result<u8, LabError> {
        let mut servers = Servers(Vec::new());
        for server in &settings.plan.servers {
            let host = &self.network.hosts[server.host];
            let mut command = self.command(&server.words[0], &server.words[1..]);
            // Its output is for the user, and not the command's output. A terminal's Ctrl-C is for the command.
            command.stdin(Stdio::null()).stdout(std::io::stderr()).process_group(0);
            let child = host.spawn(&mut command)?;
            servers.0.push(child);
            let child = servers.0.last_mut().expect("it was just put there");
            self.wait_until_it_listens(host, server, child, settings.server_timeout)?;
        }
        let Some((program, words)) = settings.command.split_first() else {
            return Err(LabError::Wrong(vec!["no command; hint: handfast lab -- COMMAND".to_owned()]));
        };
        let client = &self.network.hosts[settings.plan.client];
        let mut child = client.spawn(&mut self.command(program, words))?;
        self.wait(&mut child)
    }

    fn command<S: AsRef<OsStr>>(&self, program: &S, words: &[S]) -> Command {
        let mut command = Command::new(program);
        command.args(words).env(DEPTH, self.network.depth.to_string());
        if let Some(secrets) = &self.secrets {
            command.env("SSLKEYLOGFILE", secrets);
        }
        command
    }

    fn wait(&self, child: &mut Child) -> Result<u8, LabError> {
        let act = "wait for the command";
        loop {
            if let Some(status) = child.try_wait().map_err(LabError::command(act))? {
                return Ok(code(status));
            }
            for signal in self.pause(None).map_err(LabError::command(act))? {
                send(child, signal);
            }
        }
    }

    /// Waits for a signal, a child that ends, or so long; gives the signals that are meant for the command.
    fn pause(&self, limit: Option<Duration>) -> std::io::Result<Vec<Signal>> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut watched = [PollFd::new(self.signals, PollFlags::IN)];
        match poll(&mut watched, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => sent_to_us(self.signals),
            Err(error) => Err(error.into()),
        }
    }

    fn wait_until_it_listens(
        &self,
        host: &Host,
        server: &Server,
        child: &mut Child,
        timeout: Duration,
    ) -> Result<(), LabError> {
        let name = server.words.join(" ");
        let port = server.port.map_or("a TCP port".to_owned(), |port| format!("port {port}"));
        let begun = Instant::now();
        loop {
            if host.run(|| is_listening(server.port))? {
                return Ok(());
            }
            let act = format!("wait for {name}");
            if let Some(status) = child.try_wait().map_err(LabError::command(act.clone()))? {
                let what = format!(
                    "server `{name}` ended with exit code {} before it listened on {port}",
                    code(status)
                );
                let hint = "what it said is above; a server has to stay in the foreground".to_owned();
                return Err(LabError::Late { what, hint });
            }
            if begun.elapsed() > timeout {
                let what = format!(
                    "server `{name}` did not listen on {port} within {}",
                    handfast_text::duration::written(timeout)
                );
                return Err(LabError::Late { what, hint: "--server-timeout waits longer".to_owned() });
            }
            let sent = self.pause(Some(LOOK)).map_err(LabError::command(act))?;
            if let Some(signal) = sent.first() {
                let what = format!("ended by {} before server `{name}` listened on {port}", signal.as_str());
                return Err(LabError::Late { what, hint: "start again".to_owned() });
            }
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &self.0 {
            send(child, Signal::SIGTERM);
        }
        let begun = Instant::now();
        for child in &mut self.0 {
            while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                if begun.elapsed() > END {
                    // A process that does not end here ends with the lab's process 1 at the latest.
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                pause();
            }
        }
    }
}

/// Waits a moment, between two looks at something that gives no sign.
pub fn pause() {
    let mut nothing: [PollFd<'_>; 0] = [];
    let _ = poll(&mut nothing, Timespec::try_from(LOOK).ok().as_ref());
}

fn send(child: &Child, signal: Signal) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // It may have ended in this moment.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Returns true if a process listens on a TCP port in the network of this thread; `None` for any port.
pub fn is_listening(port: Option<u16>) -> bool {
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].into_iter().any(|path| {
        let mut text = String::new();
        let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
        read.is_ok() && text.lines().skip(1).any(|line| is_listening_line(line, port))
    })
}

/// Reads a line of /proc/net/tcp: number, local address and port, the other's, state (0A: listening).
fn is_listening_line(line: &str, port: Option<u16>) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let local = fields.next().and_then(|local| local.rsplit(':').next());
    let local = local.and_then(|port| u16::from_str_radix(port, 16).ok());
    let state = fields.nth(1);
    state == Some("0A") && local.is_some_and(|local| port.is_none_or(|port| port == local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_read_from_the_kernels_table() {
        let line =
            "   0: 0100007F:01BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1";
        assert!(
            is_listening_line(line, None)
                && is_listening_line(line, Some(443))
                && !is_listening_line(line, Some(444))
        );
        assert!(!is_listening_line(&line.replace(" 0A ", " 01 "), None));
        for length in 0..30 {
            assert!(!is_listening_line(&line[..length], Some(443)));
        }
    }
}
