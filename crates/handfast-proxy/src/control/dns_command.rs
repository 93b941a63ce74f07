//! The operator's program that sets and removes records in DNS, for DNS-01.
//!
//! In: a record. Out: whether the program succeeded. A thread that stays outside of the sandbox starts it: what is started inside could execute
//! nothing. It starts this one program, whose path was fixed at the start, and nothing else.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Timeout of the program. It returns when the record can be looked up everywhere, which takes some providers a minute.
const TIMEOUT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Calls that may wait: one order runs at a time, and has one record.
const MAX_WAITING_CALLS: usize = 4;

/// Reason why a record is not set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DnsCommandError {
    #[error("it was not configured when this process started; restart")]
    NotConfigured,
    #[error("earlier calls of it have not ended")]
    Busy,
    #[error("its thread has ended")]
    NoThread,
    #[error("it ended with {0}")]
    Failed(ExitStatus),
    #[error("it did not end within {} s, and was killed", TIMEOUT.as_secs())]
    TimedOut,
    #[error("it cannot be run: {0}")]
    Run(#[from] io::Error),
}

/// The thread that starts the program.
#[derive(Clone, Debug)]
pub(crate) struct DnsCommand(SyncSender<Call>);

#[derive(Debug)]
struct Call {
    arguments: [String; 3],
    reply: oneshot::Sender<Result<(), DnsCommandError>>,
}

impl DnsCommand {
    /// Starts the thread, where the present one is: before the sandbox. **Errors**: the system has no thread left.
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        let (calls, waiting) = sync_channel::<Call>(MAX_WAITING_CALLS);
        let thread = std::thread::Builder::new().name("dns-command".into());
        thread.spawn(move || {
            for Call { arguments, reply } in waiting {
                // The order may have been given up.
                let _ = reply.send(run(&program, &arguments));
            }
        })?;
        Ok(Self(calls))
    }

    /// Runs the program with `set` or `remove`, the name of the record, and its text. **Errors**: why it failed.
    pub(crate) async fn run(&self, sets: bool, host: String, value: String) -> Result<(), DnsCommandError> {
        let (reply, answer) = oneshot::channel();
        let verb = if sets { "set" } else { "remove" };
        let call = Call { arguments: [verb.to_owned(), host, value], reply };
        self.0.try_send(call).map_err(|_| DnsCommandError::Busy)?;
        answer.await.unwrap_or(Err(DnsCommandError::NoThread))
    }
}

fn run(program: &Path, arguments: &[String]) -> Result<(), DnsCommandError> {
    let mut command = Command::new(program);
    // Its standard error goes to our log.
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    match wait(command)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(DnsCommandError::Failed(status)),
        None => Err(DnsCommandError::TimedOut),
    }
}

/// `None`: it took too long.
fn wait(mut command: Command) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_exit_code_decides() {
        let arguments = ["set".to_owned(), "_acme-challenge.a.example".to_owned(), "x".to_owned()];
        run(Path::new("true"), &arguments).expect("it succeeds");
        let failed = run(Path::new("false"), &arguments).expect_err("it fails").to_string();
        assert!(failed.contains("exit status: 1"), "{failed}");
        let missing = run(Path::new("/does/not/exist"), &arguments).expect_err("it is not there").to_string();
        assert!(missing.contains("cannot be run"), "{missing}");
    }
}
