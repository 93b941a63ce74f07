//! Times at which the served files are compared with those on disk: in every interval, and soon after the kernel reports a change
//! (inotify(7)).
//!
//! A notification that is lost, or never sent (file systems of other machines, a link in the middle of a path), costs an interval.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// A change rarely comes alone (a certificate, then its key): a look waits until nothing more has come for this time.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// … and no longer than this, while changes keep coming. So soon is also the first look at files that have just been loaded.
const MAX_CHANGE_DELAY: Duration = Duration::from_secs(1);
/// Beyond this number of folders only the interval detects changes.
const MAX_FOLDERS: usize = 1024;

/// A watch on folders. One for the life of the program: whatever else that does, the interval goes on.
#[derive(Debug)]
pub(crate) struct Watch {
    notifier: Option<AsyncFd<OwnedFd>>,
    interval: Duration,
    next: Instant,
    /// The first notification since the last look, and the last one.
    notified: Option<(Instant, Instant)>,
    /// Until then a reload does not make the next look come sooner: one reload must not lead to the next one every second.
    is_soon_after: Option<Instant>,
}

impl Default for Watch {
    /// On nothing: a look is due at once.
    fn default() -> Self {
        Self {
            notifier: None,
            interval: MAX_CHANGE_DELAY,
            next: Instant::now(),
            notified: None,
            is_soon_after: None,
        }
    }
}

impl Watch {
    /// Watches these folders from now on, as far as the kernel lets us. The next look is soon: it finds what changed after the files
    /// were read and before this.
    pub(crate) fn follow(&mut self, folders: &[PathBuf], interval: Duration) {
        self.interval = interval;
        self.notified = None;
        let now = Instant::now();
        if self.is_soon_after.is_some_and(|until| now < until) {
            self.next = self.next.min(now + interval);
        } else {
            self.next = now + MAX_CHANGE_DELAY.min(interval);
            self.is_soon_after = Some(now + interval);
        }
        let log = |error: &io::Error| {
            tracing::debug!("no notifications of changed files ({error}): looking every {interval:?}");
        };
        self.notifier = notifier(folders).inspect_err(log).ok();
    }

    /// Waits until it is time to look. **Cancel**: loses nothing: what is known is in `self`.
    pub(crate) async fn wait_until_due(&mut self) {
        loop {
            let due = self.due();
            tokio::select! {
                () = notification(self.notifier.as_ref()) => {
                    let now = Instant::now();
                    let (_, last) = self.notified.get_or_insert((now, now));
                    *last = now;
                }
                () = sleep_until(due) => {
                    self.next = Instant::now() + self.interval;
                    self.notified = None;
                    return;
                }
            }
        }
    }

    fn due(&self) -> Instant {
        let settled = self.notified.map(|(first, last)| (last + QUIET_PERIOD).min(first + MAX_CHANGE_DELAY));
        settled.map_or(self.next, |settled| settled.min(self.next))
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
    for folder in folders.iter().take(MAX_FOLDERS) {
        // One that is gone, or cannot be watched, is still checked in every interval.
        let _ = inotify::add_watch(&notifier, folder, changes);
    }
    #[expect(
        deprecated,
        reason = "unsound only for types that lend a descriptor they do not own; this one owns it"
    )]
    AsyncFd::new(notifier)
}

/// Waits until the kernel reports something, and takes all that it reports.
async fn notification(notifier: Option<&AsyncFd<OwnedFd>>) {
    let Some(notifier) = notifier else { return std::future::pending().await };
    let Ok(mut ready) = notifier.readable().await else { return std::future::pending().await };
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    // The exact change is not read: the files' stamps show it.
    while rustix::io::read(notifier, &mut buffer).is_ok() {}
    ready.clear_ready();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    const INTERVAL: Duration = Duration::from_secs(3_600);

    fn on_the_control_thread(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    /// Waits as the program does while something else happens repeatedly, which ends each wait.
    async fn disturbed(watch: &mut Watch, times: usize) {
        for _ in 0..times {
            let waited = tokio::time::timeout(Duration::from_millis(2), watch.wait_until_due()).await;
            assert!(waited.is_err(), "it is not due yet");
        }
    }

    #[test]
    fn whatever_else_happens_the_interval_goes_on() {
        on_the_control_thread(async {
            let before = Instant::now();
            let mut watch = Watch::default();
            watch.follow(&[], INTERVAL);
            assert!(
                watch.due() <= Instant::now() + MAX_CHANGE_DELAY,
                "what changed while it was being loaded is found soon"
            );
            watch.wait_until_due().await;
            let due = watch.due();
            assert!(due >= before + INTERVAL && due <= Instant::now() + INTERVAL);
            disturbed(&mut watch, 20).await;
            assert_eq!(watch.due(), due);
            watch.follow(&[], INTERVAL);
            assert_eq!(watch.due(), due, "one additional look in an interval, and the interval goes on");
        });
    }

    #[test]
    fn a_notification_is_kept_while_something_else_happens() {
        on_the_control_thread(async {
            let folder = Folder::new();
            let mut watch = Watch::default();
            watch.follow(&[folder.path("")], INTERVAL);
            watch.next = Instant::now() + INTERVAL;
            disturbed(&mut watch, 1).await;
            folder.write("changed", "");
            while watch.notified.is_none() {
                let _ = tokio::time::timeout(Duration::from_millis(2), watch.wait_until_due()).await;
            }
            let due = watch.due();
            assert!(due <= Instant::now() + QUIET_PERIOD);
            watch.wait_until_due().await;
            assert!(Instant::now() >= due, "more may come until then");
            assert!(watch.notified.is_none() && watch.due() > due + INTERVAL / 2);
        });
    }

    #[test]
    fn changes_that_keep_coming_do_not_postpone_a_check() {
        on_the_control_thread(async {
            let mut watch = Watch::default();
            watch.follow(&[], INTERVAL);
            watch.wait_until_due().await;
            let first = Instant::now();
            watch.notified = Some((first, first));
            assert_eq!(watch.due(), first + QUIET_PERIOD);
            watch.notified = Some((first, first + MAX_CHANGE_DELAY * 5));
            assert_eq!(watch.due(), first + MAX_CHANGE_DELAY);
        });
    }
}
