//! The process that is to follow: its program and arguments, the thread that starts it, and the one that waits for it.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use handfast_text::units::counted;

use super::protocol::{READY_TIMEOUT, UpgradeReply, send};
use handfast_net::descriptors::send_descriptors;

/// Timeout of a start: a disk that hangs must not block the control thread.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) const FLAG: &str = "--take-over";

/// The program of this process, by its path: what is there now.
pub(super) fn own_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    // The kernel adds this to the name of a file that was replaced (proc_pid_exe(5)).
    let name = program.to_str().and_then(|name| name.strip_suffix(" (deleted)"));
    Ok(name.map_or_else(|| program.clone(), PathBuf::from))
}

/// This process's own arguments, and where to take over from.
pub(super) fn arguments(path: &Path) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut given = std::env::args_os().skip(1);
    while let Some(argument) = given.next() {
        if argument == FLAG {
            given.next();
        } else if !argument.to_string_lossy().starts_with(&format!("{FLAG}=")) {
            arguments.push(argument);
        }
    }
    arguments.extend([FLAG.into(), path.as_os_str().to_owned()]);
    arguments
}

/// Has the process that asks start the new one, and gives it the outputs of this process for it.
pub(super) fn launch(requester: &UnixStream) -> io::Result<()> {
    send(requester, &UpgradeReply::Launch {})?;
    send_descriptors(requester, &[io::stdout().as_fd(), io::stderr().as_fd()])
}

/// Has a thread of this name do something.
pub(super) fn in_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

/// Has a thread wait for the end of a process that was started, or end it: when something is sent, or when it takes too long;
/// `ended` learns how it went.
pub(super) fn watch(
    mut child: Child,
    ended: impl FnOnce(String) + Send + 'static,
) -> io::Result<SyncSender<()>> {
    let (end, end_requested) = sync_channel(1);
    let deadline = Instant::now() + READY_TIMEOUT;
    let wait = move || {
        let how = loop {
            match child.try_wait() {
                Ok(Some(status)) => break format!("the new process ended before it served, with {status}"),
                Ok(None) => {}
                Err(error) => break format!("wait for the new process: {error}"),
            }
            match end_requested.recv_timeout(POLL_INTERVAL) {
                // It serves by now, and is its own.
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) | Ok(()) => {
                    // It may have ended already.
                    let _ = child.kill();
                    let _ = child.wait();
                    break format!(
                        "the new process did not serve within {}",
                        counted(READY_TIMEOUT.as_secs(), "second")
                    );
                }
            }
        };
        ended(how);
    };
    in_thread("successor", wait)?;
    Ok(end)
}

type Act = Box<dyn FnOnce() + Send>;

/// The thread `launcher`, which stays outside of the sandbox: what is started inside could execute nothing and read no new configuration.
/// It exists only with `process.upgrade-socket`.
#[derive(Debug)]
pub(super) struct Launcher(SyncSender<Act>);

impl Launcher {
    /// Starts it, where the present thread is: before the sandbox.
    pub(super) fn start() -> io::Result<Self> {
        let (acts, to_do) = sync_channel::<Act>(1);
        in_thread("launcher", move || to_do.iter().for_each(|act| act()))?;
        Ok(Self(acts))
    }

    /// Does something there. **Errors**: those of `act`; that it does not answer in time.
    pub(super) fn perform<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = sync_channel(1);
        let act = Box::new(move || {
            // The requester might have given up.
            let _ = answer.send(act());
        });
        let late =
            |_| io::Error::new(io::ErrorKind::TimedOut, "the thread that starts programs does not answer");
        self.0.try_send(act).map_err(|_| late(()))?;
        answered.recv_timeout(START_TIMEOUT).map_err(|_| late(()))?
    }
}
