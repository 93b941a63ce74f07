//! `handfast upgrade`: asks a running process to be replaced, and reports what came of it.
//!
//! **Boundary.** Root runs this command, and the process that answers may be the unprivileged one, or one that an attacker has taken over.
//! So nothing that it answers decides what root does: program and arguments of the new process come from this command's line,
//! see [`Plan`]; the outputs that it passes are looked at ([`takes_a_log`]); its texts are shown without control characters;
//! and it has a bounded time.

use std::fmt;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, fstat, fstatfs};

use super::protocol::{
    MESSAGE_TIMEOUT, Opening, READY_TIMEOUT, UpgradeReply, UpgradeRequest, describe, receive, send,
    set_timeout,
};
use super::successor::{FLAG, in_thread, own_program};
use handfast_config::source::ConfigSource;
use handfast_net::descriptors::receive_descriptors;
use handfast_process::trusted_path::{self, Untrusted};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time that the running process has to report the reason after the new process has ended.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// Characters of a text of the running process that are shown.
const MAX_SHOWN_CHARACTERS: usize = 4096;

/// File systems whose files are interfaces of the kernel (magic.h): proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs,
/// selinux, configfs, binfmt_misc, efivarfs, bpf. Content that root writes there has another meaning than that of others.
const KERNEL_INTERFACES: [i64; 12] = [
    0x9fa0, 0x62656572, 0x0027e0eb, 0x63677270, 0x64626720, 0x74726163, 0x73636673, 0xf97cff8c, 0x62656570,
    0x42494e4d, 0xde5e81e4, 0xcafe4a11,
];
/// The device number of /dev/null: major 1, minor 3 (null(4)).
const NULL: (u32, u32) = (1, 3);

/// Reason why the upgrade did not succeed.
#[derive(Debug)]
pub enum UpgradeFailure {
    /// The configuration is wrong, or names no socket: what is wrong with it.
    Configuration(String),
    /// No running process was found at this path.
    NoProcess(PathBuf, io::Error),
    /// It keeps serving, for this reason.
    Refused(String),
    /// It did not answer to the end, for this reason: whether it serves is not known.
    Unanswered(String),
}

impl fmt::Display for UpgradeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(problem) => f.write_str(problem),
            Self::NoProcess(path, error) => write!(
                f,
                "ask the running process at {}: {error}\n  hint: is it running, with process.upgrade-socket set to this path, \
                 and are you root or its user?",
                path.display()
            ),
            Self::Refused(why) => write!(f, "nothing has changed, the old process keeps serving: {why}"),
            Self::Unanswered(why) => write!(
                f,
                "upgrade, outcome unknown: {why}\n  hint: `handfast check --ready -c FILE` tells whether a process serves; \
                 if none does, start the service"
            ),
        }
    }
}

impl std::error::Error for UpgradeFailure {}

/// Replaces the running process behind `socket` (or at the path in the configuration `source`) by `program`, or by
/// its own program as it is on disk now. Returns the outcome as a sentence.
///
/// A process that has given up root for `process.user` cannot start one that opens files as root. Then this one starts it, as it would be
/// started at first: this command's own program, or `program`, with the configuration `source`.
///
/// **Errors**: whatever kept it from happening. Then the running process keeps serving, unless it did not answer.
///
/// **Cost**: waits until the new process serves, 70 seconds at the most.
pub fn upgrade(
    source: &ConfigSource,
    socket: Option<PathBuf>,
    program: Option<&Path>,
) -> Result<String, UpgradeFailure> {
    let plan = match socket {
        Some(socket) => Plan { socket, configuration: None },
        None => Plan::of(source)?,
    };
    let no_process = |error| UpgradeFailure::NoProcess(plan.socket.clone(), error);
    let program = program.map(std::path::absolute).transpose().map_err(no_process)?;
    let stream = UnixStream::connect(&plan.socket).map_err(no_process)?;
    let lost = |error: io::Error| UpgradeFailure::Unanswered(describe(&error));
    set_timeout(&stream, READY_TIMEOUT + MESSAGE_TIMEOUT).map_err(lost)?;
    send(&stream, &Opening::new(UpgradeRequest::Start { program: program.clone() })).map_err(lost)?;
    let mut answers = ReplyReader::of(stream).map_err(lost)?;
    match answers.next(None).map_err(lost)? {
        UpgradeEvent { answer: UpgradeReply::Launch {}, outputs } => {
            let child = plan.launch(program.as_deref(), outputs)?;
            outcome(answers.next(Some(child)).map_err(lost)?.answer)
        }
        UpgradeEvent { answer, .. } => outcome(answer),
    }
}

struct Plan {
    socket: PathBuf,
    /// The configuration of a process that this command may start: one with `process.user`, which drops root itself.
    configuration: Option<PathBuf>,
}

impl Plan {
    fn of(source: &ConfigSource) -> Result<Self, UpgradeFailure> {
        let config =
            source.read_beside(false).map_err(|error| UpgradeFailure::Configuration(error.to_string()))?;
        let socket = config.process.upgrade_socket.ok_or_else(|| {
            UpgradeFailure::Configuration(format!(
                "error: {}: has no process.upgrade-socket, where the running process could be asked",
                source.name()
            ))
        })?;
        let configuration = match source {
            ConfigSource::File(file) if config.process.user.is_some() => std::path::absolute(file).ok(),
            _ => None,
        };
        Ok(Self { socket, configuration })
    }

    /// Starts the new process with the outputs of the old one, and out of reach of this terminal's Ctrl-C.
    fn launch(&self, program: Option<&Path>, outputs: Vec<OwnedFd>) -> Result<Child, UpgradeFailure> {
        let Some(configuration) = &self.configuration else {
            return Err(UpgradeFailure::Refused(
                "it cannot start the new process as root; this command does so for a configuration with process.user\n  hint: call \
                 it with the configuration of the running process (-c FILE) in place of --socket"
                    .into(),
            ));
        };
        let program = executable(program).map_err(|(program, why)| {
            UpgradeFailure::Refused(format!("execute {}: {why}", program.display()))
        })?;
        let mut command = Command::new(&program);
        command.args(["proxy".as_ref(), "--config".as_ref(), configuration.as_os_str()]);
        command.args([FLAG.as_ref(), self.socket.as_os_str()]);
        command.current_dir("/").process_group(0).stdin(Stdio::null());
        let mut outputs = outputs.into_iter().map(|output| match takes_a_log(&output) {
            true => Stdio::from(output),
            false => Stdio::null(),
        });
        if let Some(output) = outputs.next() {
            command.stdout(output);
        }
        if let Some(errors) = outputs.next() {
            command.stderr(errors);
        }
        let failed = |error| UpgradeFailure::Refused(format!("execute {}: {error}", program.display()));
        command.spawn().map_err(failed)
    }
}

/// The program to execute as root: the one that was named, or the one that runs here. Only root can replace it.
fn executable(named: Option<&Path>) -> Result<PathBuf, (PathBuf, String)> {
    let program = named.map_or_else(own_program, |named| Ok(named.to_path_buf()));
    let program = program.map_err(|error| (PathBuf::new(), error.to_string()))?;
    trusted_path::program(&program).map_err(|untrusted| {
        let hint = match untrusted {
            Untrusted::Unreadable(..) => "",
            _ => "\n  hint: install it where only root can write, such as /usr/bin",
        };
        (program, format!("{untrusted}{hint}"))
    })
}

/// Returns true if root may write its log to a descriptor that the running process passed: a pipe, a socket, a terminal, /dev/null or a
/// file of a disk, and not a file that controls the kernel.
fn takes_a_log(output: &OwnedFd) -> bool {
    let Ok(found) = fstat(output) else { return false };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo | FileType::Socket => true,
        FileType::CharacterDevice => {
            let device = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
            device == NULL || output.is_terminal()
        }
        FileType::RegularFile => {
            fstatfs(output).is_ok_and(|system| !KERNEL_INTERFACES.contains(&system.f_type))
        }
        _ => false,
    }
}

fn outcome(answer: UpgradeReply) -> Result<String, UpgradeFailure> {
    match answer {
        UpgradeReply::Done { text } => Ok(shown(&text)),
        UpgradeReply::Refused { why } => Err(UpgradeFailure::Refused(shown(&why))),
        UpgradeReply::Go | UpgradeReply::Offer(_) | UpgradeReply::Launch {} => {
            Err(UpgradeFailure::Unanswered("its answer is for another request".into()))
        }
    }
}

/// A text of the running process for a terminal: bounded, and without anything that a terminal obeys.
fn shown(text: &str) -> String {
    let plain = |character: char| match character {
        '\n' => '\n',
        _ if character.is_control() => char::REPLACEMENT_CHARACTER,
        _ => character,
    };
    text.chars().take(MAX_SHOWN_CHARACTERS).map(plain).collect()
}

struct UpgradeEvent {
    answer: UpgradeReply,
    outputs: Vec<OwnedFd>,
}

/// Answers of the running process, until its deadline.
struct ReplyReader {
    replies: Receiver<io::Result<UpgradeEvent>>,
    deadline: Instant,
}

impl ReplyReader {
    /// Reads on a separate thread: the process at the other end may send a message byte by byte.
    fn of(stream: UnixStream) -> io::Result<Self> {
        let (sender, replies) = sync_channel(1);
        let read = move || {
            for _ in 0..2 {
                let next = receive::<UpgradeReply>(&stream).and_then(|answer| {
                    let count = if matches!(answer, UpgradeReply::Launch {}) { 2 } else { 0 };
                    Ok(UpgradeEvent { answer, outputs: receive_descriptors(&stream, count)? })
                });
                // The command may have ended its wait.
                if sender.send(next).is_err() {
                    return;
                }
            }
        };
        in_thread("answer", read)?;
        Ok(Self { replies, deadline: Instant::now() + READY_TIMEOUT + MESSAGE_TIMEOUT })
    }

    /// The next answer; or that the new process has ended, which the running one might not know.
    fn next(&mut self, mut child: Option<Child>) -> io::Result<UpgradeEvent> {
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(reply) => return reply,
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(RecvTimeoutError::Timeout) if Instant::now() > self.deadline => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let ended = child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = ended {
                // The running one may have an answer with the reason, and is given a moment to send it.
                return self.replies.recv_timeout(REASON_TIMEOUT).unwrap_or_else(|_| {
                    let why = format!("the new process ended before it served, with {status}; see its log");
                    Ok(UpgradeEvent { answer: UpgradeReply::Refused { why }, outputs: Vec::new() })
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_log_goes_to_files_and_pipes_and_not_to_the_kernel() {
        let open =
            |path: &str| OwnedFd::from(File::open(path).unwrap_or_else(|error| panic!("{path}: {error}")));
        let (reader, writer) = io::pipe().expect("there are descriptors");
        assert!(takes_a_log(&reader.into()) && takes_a_log(&writer.into()));
        assert!(takes_a_log(&tempfile::tempfile().expect("there is room").into()));
        assert!(takes_a_log(&open("/dev/null")));
        for refused in ["/proc/self/uid_map", "/sys/kernel/uevent_helper", "/dev/zero", "/"] {
            if Path::new(refused).exists() {
                assert!(!takes_a_log(&open(refused)), "{refused}");
            }
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        assert_eq!(shown("\u{1b}]0;x\u{7}é\nb\u{9b}"), "\u{fffd}]0;x\u{fffd}é\nb\u{fffd}");
        assert_eq!(shown(&"x".repeat(1 << 20)).len(), MAX_SHOWN_CHARACTERS);
    }
}
