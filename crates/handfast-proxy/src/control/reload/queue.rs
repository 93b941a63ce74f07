//! One reload at a time, on a separate thread, and the requests that wait for it.
//!
//! In: requests, from signals, the admin listener and the watch on files. Out: the outcome of each. Files are compared and read on
//! another thread, so that one that hangs holds up nothing; while it does, further requests wait, and become one.

use std::thread;

use tokio::task::JoinHandle;

use super::{Present, Refused, Reloaded, Scope, Unusable, look, reload};
use crate::control::admin_state::Reply;
use crate::control::error::Error;
use handfast_admin::ReloadRefusal;

/// What came of a reload; `None`: of a look at the files, which are as they were.
pub(crate) type Outcome = Option<Result<Reloaded, Refused>>;

#[derive(Debug, Default)]
pub(crate) struct Reloads {
    running: Option<JoinHandle<Result<Option<Reloaded>, Refused>>>,
    replies: Vec<Reply<ReloadRefusal>>,
    /// Requests that came while files were being read.
    next: Option<(Scope, Vec<Reply<ReloadRefusal>>)>,
    /// Whether files may have changed since the one that runs has looked at them.
    looks_again: bool,
    unusable: Unusable,
}

impl Reloads {
    /// Begins with what is served then, or waits for its turn.
    pub(crate) fn ask(
        &mut self,
        scope: Scope,
        reply: Option<Reply<ReloadRefusal>>,
        present: impl FnOnce() -> Present,
    ) {
        if self.running.is_some() {
            let (next, replies) = self.next.get_or_insert((scope, Vec::new()));
            *next = scope.max(*next);
            replies.extend(reply);
            return;
        }
        self.replies.extend(reply);
        let present = present();
        self.begin(move || reload(&present, scope).map(Some));
    }

    /// Reloads if files that are served have changed, and were not found wanting as they are.
    pub(crate) fn look(&mut self, present: impl FnOnce() -> Present) {
        if self.running.is_some() {
            self.looks_again = true;
            return;
        }
        let (present, unusable) = (present(), self.unusable.clone());
        self.begin(move || look(&present, &unusable));
    }

    fn begin(&mut self, work: impl FnOnce() -> Result<Option<Reloaded>, Refused> + Send + 'static) {
        self.running = Some(tokio::task::spawn_blocking(move || {
            // A thread that ends gives back what it kept of freed memory for itself; those of the pool stay.
            thread::scope(|thread| thread.spawn(work).join())
                .unwrap_or_else(|_| Err(Error::failed("reading failed: it panicked; see the log").into()))
        }));
    }

    pub(crate) fn are_over(&self) -> bool {
        self.running.is_none() && self.next.is_none()
    }

    /// Waits until one has come to an end; forever when none is asked for. **Cancel**: loses nothing.
    pub(crate) async fn done(&mut self) -> Outcome {
        let Some(task) = &mut self.running else { return std::future::pending().await };
        let outcome =
            task.await.unwrap_or_else(|error| Err(Error::failed(format!("reading failed: {error}")).into()));
        self.running = None;
        match outcome {
            Ok(None) => None,
            Ok(Some(reloaded)) => {
                self.unusable = Vec::new();
                Some(Ok(reloaded))
            }
            Err(mut refused) => {
                if let Some(files) = refused.unusable.take() {
                    self.unusable = files;
                }
                Some(Err(refused))
            }
        }
    }

    pub(crate) fn answer(&mut self, told: &Result<String, ReloadRefusal>) {
        for asked in self.replies.drain(..) {
            // The asker may have left.
            let _ = asked.send(told.clone());
        }
    }

    /// Begins what was requested meanwhile.
    pub(crate) fn go_on(&mut self, present: impl FnOnce() -> Present) {
        if let Some((scope, replies)) = self.next.take() {
            self.replies = replies;
            self.ask(scope, None, present);
        } else if std::mem::take(&mut self.looks_again) {
            self.look(present);
        }
    }
}
