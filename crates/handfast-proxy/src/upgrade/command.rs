//! `handfast upgrade`: asks a running process to be replaced, and reports what came of it.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::words::{
    Answer, Ask, Opening, PROMPT, READY_WITHIN, in_words, receive, receive_descriptors, send, set_patience,
};
use crate::source::ConfigSource;

/// How often a process that was started here is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Why nothing has changed.
#[derive(Debug)]
pub enum UpgradeFailure {
    /// The configuration is wrong, or names no socket: what is wrong with it.
    Configuration(String),
    /// No running process was found at this path.
    Nobody(PathBuf, io::Error),
    /// It serves on, for this reason.
    Refused(String),
}

impl fmt::Display for UpgradeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(problem) => f.write_str(problem),
            Self::Nobody(path, error) => write!(
                f,
                "ask the running process at {}: {error}\n  hint: is it running, with process.upgrade-socket set to this path, \
                 and are you root or its user?",
                path.display()
            ),
            Self::Refused(why) => write!(f, "nothing has changed, the old process serves on: {why}"),
        }
    }
}

impl std::error::Error for UpgradeFailure {}

/// Has the running process that is asked at `socket` (or at what the configuration `source` says) replaced by `program`, or by
/// its own program as it is on disk now; what happened, as a sentence.
///
/// **Errors**: whatever kept it from happening. Then the running process serves on.
///
/// **Cost**: waits until the new process serves, at most a little more than a minute.
pub fn upgrade(
    source: &ConfigSource,
    socket: Option<PathBuf>,
    program: Option<&Path>,
) -> Result<String, UpgradeFailure> {
    let socket = socket.map_or_else(|| configured(source), Ok)?;
    let program = program.map(std::path::absolute).transpose();
    let nobody = |error| UpgradeFailure::Nobody(socket.clone(), error);
    let program = program.map_err(nobody)?;
    let stream = UnixStream::connect(&socket).map_err(nobody)?;
    let refused = |error: io::Error| UpgradeFailure::Refused(in_words(&error));
    set_patience(&stream, READY_WITHIN + PROMPT).map_err(refused)?;
    send(&stream, &Opening::new(Ask::Start { program })).map_err(refused)?;
    let answer = receive(&stream).map_err(refused)?;
    if let Answer::Launch { program, arguments, folder } = answer {
        let outputs = receive_descriptors(&stream, 2).map_err(refused)?;
        let child = launch(&program, &arguments, &folder, outputs);
        let child = child
            .map_err(|error| UpgradeFailure::Refused(format!("execute {}: {error}", program.display())))?;
        return outcome(wait(stream, child).map_err(refused)?);
    }
    outcome(answer)
}

fn configured(source: &ConfigSource) -> Result<PathBuf, UpgradeFailure> {
    let (config, _) = source.read(false).map_err(|error| UpgradeFailure::Configuration(error.to_string()))?;
    config.process.upgrade_socket.ok_or_else(|| {
        UpgradeFailure::Configuration(format!(
            "{}: has no process.upgrade-socket, where the running process could be asked",
            source.name()
        ))
    })
}

fn outcome(answer: Answer) -> Result<String, UpgradeFailure> {
    match answer {
        Answer::Done { text } => Ok(text),
        Answer::Refused { why } => Err(UpgradeFailure::Refused(why)),
        Answer::Go | Answer::Offer(_) | Answer::Launch { .. } => {
            Err(UpgradeFailure::Refused("it answered something else than was asked".into()))
        }
    }
}

/// Starts the new process with the outputs of the old one, and out of reach of this terminal's Ctrl-C.
fn launch(program: &Path, arguments: &[String], folder: &Path, outputs: Vec<OwnedFd>) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).process_group(0).stdin(Stdio::null());
    let mut outputs = outputs.into_iter().map(Stdio::from);
    if let Some(output) = outputs.next() {
        command.stdout(output);
    }
    if let Some(errors) = outputs.next() {
        command.stderr(errors);
    }
    command.spawn()
}

/// What the old process says of it; or that the new one has ended, which the old one may not know.
fn wait(stream: UnixStream, mut child: Child) -> io::Result<Answer> {
    let (sender, answered) = sync_channel(1);
    std::thread::Builder::new().name("answer".into()).spawn(move || {
        // Whoever waited may have given up.
        let _ = sender.send(receive::<Answer>(&stream));
    })?;
    loop {
        match answered.recv_timeout(LOOK) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(status) = child.try_wait()? {
            // The old one may have an answer with the reason, and is given a moment to say it.
            return answered.recv_timeout(Duration::from_secs(1)).unwrap_or_else(|_| {
                let why = format!("the new process ended before it served, with {status}; see its log");
                Ok(Answer::Refused { why })
            });
        }
    }
}
