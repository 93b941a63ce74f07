//! The thread `launcher`, which stays outside of the sandbox: what it starts could not execute anything else, nor read a new
//! configuration.
//!
//! In: what is to be done out there. Out: what came of it. There is such a thread only where `process.upgrade-socket` asks for it.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use super::successor::in_thread;

/// Timeout of a start: a disk that hangs must not block the control thread.
const PATIENCE: Duration = Duration::from_secs(10);

type Act = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(super) struct Launcher(SyncSender<Act>);

impl Launcher {
    /// Starts it, where the present thread is: before the sandbox.
    ///
    /// **Errors**: those of starting a thread.
    pub(super) fn start() -> io::Result<Self> {
        let (acts, to_do) = sync_channel::<Act>(1);
        in_thread("launcher", move || to_do.iter().for_each(|act| act()))?;
        Ok(Self(acts))
    }

    /// Does something there.
    ///
    /// **Errors**: those of `act`; that it does not answer in time.
    pub(super) fn perform<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = sync_channel(1);
        let act = Box::new(move || {
            // Who asked may have given up.
            let _ = answer.send(act());
        });
        let late =
            |_| io::Error::new(io::ErrorKind::TimedOut, "the thread that starts programs does not answer");
        self.0.try_send(act).map_err(|_| late(()))?;
        answered.recv_timeout(PATIENCE).map_err(|_| late(()))?
    }
}
