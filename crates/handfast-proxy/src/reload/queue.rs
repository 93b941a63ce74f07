//! One reload at a time, on a thread of its own, and who waits for it.
//!
//! In: wishes, from signals, the admin listener and changed files. Out: what came of each. Files are read aside, so that
//! one that hangs holds up nothing; while it does, further wishes wait, and become one.

use std::path::PathBuf;
use std::thread;
use std::time::SystemTime;

use handfast_tls::load::FileStamp;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Present, Refused, Reloaded, Scope, reload};
use crate::admin::ReloadRefusal;
use crate::error::Error;
use crate::state::State;

/// Somebody who waits for the outcome.
type Reply = oneshot::Sender<Result<String, ReloadRefusal>>;

/// The reload that runs, and what is to come after it.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    running: Option<JoinHandle<Result<Reloaded, Refused>>>,
    replies: Vec<Reply>,
    /// What was asked for while files were being read.
    next: Option<(Scope, Vec<Reply>)>,
    /// Files as they were when they could not be served: not tried again until they change.
    unusable: Vec<(PathBuf, FileStamp)>,
}

impl Reloads {
    /// Begins with what is served then, or waits for its turn.
    pub(crate) fn ask(&mut self, scope: Scope, reply: Option<Reply>, present: impl FnOnce() -> Present) {
        if self.running.is_some() {
            let (next, replies) = self.next.get_or_insert((scope, Vec::new()));
            *next = scope.max(*next);
            replies.extend(reply);
            return;
        }
        self.replies.extend(reply);
        let present = present();
        self.running = Some(tokio::task::spawn_blocking(move || {
            // A thread that ends gives back what it kept of freed memory for itself; those of the pool stay.
            thread::scope(|thread| thread.spawn(|| reload(&present, scope)).join())
                .unwrap_or_else(|_| Err(Error::ReadingPanicked.into()))
        }));
    }

    /// Reloads if files that are served have changed, and were not found wanting as they are.
    pub(crate) fn files_may_have_changed(&mut self, state: &State, present: impl FnOnce() -> Present) {
        if self.running.is_some() || !state.is_outdated(SystemTime::now()) {
            return;
        }
        let tried = !self.unusable.is_empty() && !state.have_changed(&self.unusable);
        if !tried {
            self.ask(Scope::Files, None, present);
        }
    }

    /// Whether none runs, and none waits.
    pub(crate) fn are_over(&self) -> bool {
        self.running.is_none()
    }

    /// Waits until one has come to an end; forever when none is asked for. **Cancel**: loses nothing.
    pub(crate) async fn done(&mut self) -> Result<Reloaded, Refused> {
        let Some(task) = &mut self.running else { return std::future::pending().await };
        let outcome = task.await.unwrap_or_else(|error| Err(Error::ReadingLost(error).into()));
        self.running = None;
        match outcome {
            Ok(reloaded) => {
                self.unusable = Vec::new();
                Ok(reloaded)
            }
            Err(mut refused) => {
                if let Some(files) = refused.unusable.take() {
                    self.unusable = files;
                }
                Err(refused)
            }
        }
    }

    /// Tells those who asked, and begins what was asked for meanwhile.
    pub(crate) fn answer(&mut self, told: &Result<String, ReloadRefusal>, present: impl FnOnce() -> Present) {
        for asked in self.replies.drain(..) {
            // Whoever asked may have left.
            let _ = asked.send(told.clone());
        }
        if let Some((scope, replies)) = self.next.take() {
            self.replies = replies;
            self.ask(scope, None, present);
        }
    }
}
