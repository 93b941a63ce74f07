//! Watching files: says when something under the folders of a state has changed.
//!
//! In: folders, and an interval. Out: [`Watch::changed`] returns soon after the kernel tells of a change (inotify(7)),
//! and every interval whatever it tells: file systems of other machines tell nothing.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// A change rarely comes alone (a certificate, then its key): looked at when nothing more came for so long.
const QUIET: Duration = Duration::from_millis(100);
/// Beyond so many folders the interval alone must do.
const FOLDERS: usize = 1024;

/// A watch on folders.
#[derive(Debug)]
pub(crate) struct Watch {
    notifier: Option<AsyncFd<OwnedFd>>,
    interval: Duration,
}

impl Watch {
    /// Watches `folders`, as far as the kernel lets us.
    pub(crate) fn new(folders: &[PathBuf], interval: Duration) -> Self {
        let notifier = match notifier(folders) {
            Ok(notifier) => Some(notifier),
            Err(error) => {
                tracing::debug!("no notifications of changed files ({error}): looking every {interval:?}");
                None
            }
        };
        Self { notifier, interval: interval.max(Duration::from_millis(100)) }
    }

    /// Waits for a change, or for the interval to pass.
    ///
    /// **Cancel**: loses nothing that the next look at the files would not find.
    pub(crate) async fn changed(&self) {
        let Some(notifier) = &self.notifier else { return tokio::time::sleep(self.interval).await };
        if tokio::time::timeout(self.interval, told(notifier)).await.is_ok() {
            // Ends at the latest after a second of unceasing changes.
            for _ in 0..10 {
                if tokio::time::timeout(QUIET, told(notifier)).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn notifier(folders: &[PathBuf]) -> io::Result<AsyncFd<OwnedFd>> {
    let notifier = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let changes = WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB
        | WatchFlags::ONLYDIR;
    for folder in folders.iter().take(FOLDERS) {
        // One that is gone, or may not be watched, is still looked at in every interval.
        let _ = inotify::add_watch(&notifier, folder, changes);
    }
    #[expect(
        deprecated,
        reason = "unsound only for types that lend a descriptor they do not own; this one owns it"
    )]
    AsyncFd::new(notifier)
}

/// Waits until the kernel tells of something, and takes all that it tells.
async fn told(notifier: &AsyncFd<OwnedFd>) {
    let Ok(mut ready) = notifier.readable().await else { return std::future::pending().await };
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    // What exactly has changed is not asked: the files' stamps say that.
    while rustix::io::read(notifier, &mut buffer).is_ok() {}
    ready.clear_ready();
}
