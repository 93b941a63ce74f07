//! A worker's share of a run on a separate thread: prepare, wait for the start, pass on the seconds, end.
//!
//! In: a plan and a share, a start, a lease, a stop. Out: [`News`]. The generator blocks and the bus does not, so this
//! thread connects them. It also enforces the lease: it checks the clock independently of the bus and its tasks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use handfast_net::clock::Moment;
use tokio::sync::mpsc;

use super::LEASE;
use crate::generator::{Generator, Running, Share};
use crate::outcome::{Facts, WorkerEnd};
use crate::plan::Plan;
use crate::sample::Interval;
use handfast_report::ToolError;

/// The interval of checks for the lease and for a stop.
const LOOK: Duration = Duration::from_millis(50);
/// Seconds that wait to be sent; the run ends if more would have to wait, since measurements would be lost.
const WAITING: usize = 256;

/// Makes load. The generator, or in tests one with a script.
pub(super) trait Load: Send + Sync {
    /// [`Generator::prepare`].
    fn prepare(&self, plan: &Plan, share: Share) -> Result<Box<dyn Ready>, ToolError>;
}

/// [`Generator`], ready to start.
pub(super) trait Ready {
    /// [`Generator::facts`].
    fn facts(&self) -> Facts;
    /// [`Generator::start`].
    fn start(
        self: Box<Self>,
        start: Moment,
        seconds: SyncSender<Interval>,
    ) -> Result<Box<dyn Live>, ToolError>;
}

/// [`Running`].
pub(super) trait Live {
    /// [`Running::lease`].
    fn lease(&self, until: Moment);
    /// [`Running::stop`].
    fn stop(&self);
    /// [`Running::join`].
    fn join(self: Box<Self>) -> WorkerEnd;
}

/// The generator of this crate.
pub(super) struct TrueLoad;

impl Load for TrueLoad {
    fn prepare(&self, plan: &Plan, share: Share) -> Result<Box<dyn Ready>, ToolError> {
        Ok(Box::new(Generator::prepare(plan, share)?))
    }
}

impl Ready for Generator {
    fn facts(&self) -> Facts {
        Self::facts(self).clone()
    }

    fn start(
        self: Box<Self>,
        start: Moment,
        seconds: SyncSender<Interval>,
    ) -> Result<Box<dyn Live>, ToolError> {
        Ok(Box::new(Self::start(*self, start, seconds)?))
    }
}

impl Live for Running {
    fn lease(&self, until: Moment) {
        Self::lease(self, until);
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn join(self: Box<Self>) -> WorkerEnd {
        Self::join(*self)
    }
}

/// The messages of the thread.
#[derive(Debug)]
pub(super) enum News {
    /// Ready to start.
    Prepared(Facts),
    /// Cannot start.
    Refused(ToolError),
    /// Ended before it had started, and why.
    Dropped(String),
    /// A second is over.
    Second(Box<Interval>),
    /// Everything is over; and the reason, when the end was not requested.
    End(Box<WorkerEnd>, Option<String>),
}

/// A lease, on our own monotonic clock.
#[derive(Clone, Debug)]
pub(super) struct Lease(Arc<AtomicU64>);

impl Lease {
    /// One that ends at `until`, or [`LEASE`] from now if that is earlier.
    pub(super) fn new(until: Moment) -> Self {
        let until = until.min(Moment::now() + LEASE);
        Self(Arc::new(AtomicU64::new(until.nanos())))
    }

    /// Extends it, but never beyond [`LEASE`] from now. A renewal that was read late does not extend it, and
    /// an expired lease stays expired.
    pub(super) fn renew(&self, until: Moment) {
        if !self.is_over() {
            let until = until.min(Moment::now() + LEASE);
            self.0.fetch_max(until.nanos(), Ordering::Relaxed);
        }
    }

    /// End of the lease, as far as is known.
    fn until(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Returns true if the lease has expired.
    pub(super) fn is_over(&self) -> bool {
        Moment::now() > self.until()
    }
}

/// The thread. Dropping it stops the load, and does not wait for it.
pub(super) struct ShareThread {
    /// Gone once it was used.
    start: Option<SyncSender<Moment>>,
    stop: Arc<AtomicBool>,
    /// Its messages; closed when it has ended.
    pub(super) news: mpsc::Receiver<News>,
    /// Lease of the permission to make load.
    pub(super) lease: Lease,
}

impl ShareThread {
    /// Begins to prepare.
    ///
    /// **Errors**: a thread that could not be made.
    pub(super) fn begin(load: Arc<dyn Load>, plan: Plan, share: Share, lease: Lease) -> io::Result<Self> {
        let (start, started) = sync_channel(1);
        let (tell, news) = mpsc::channel(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let inside = Inside { stop: Arc::clone(&stop), lease: lease.clone(), news_sender: tell };
        thread::Builder::new()
            .name("load-share".into())
            .spawn(move || inside.work(&*load, &plan, share, &started))?;
        Ok(Self { start: Some(start), stop, news, lease })
    }

    /// Sends it the moment of the start; only the first one counts.
    pub(super) fn start(&mut self, moment: Moment) -> bool {
        self.start.take().is_some_and(|start| start.try_send(moment).is_ok())
    }

    /// Ends the load: nothing new begins.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for ShareThread {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Inside {
    stop: Arc<AtomicBool>,
    lease: Lease,
    news_sender: mpsc::Sender<News>,
}

impl Inside {
    fn work(self, load: &dyn Load, plan: &Plan, share: Share, started: &Receiver<Moment>) {
        let last = self.all_of_it(load, plan, share, started);
        // Without a receiver, no task needs the message.
        let _ = self.news_sender.blocking_send(last);
    }

    fn all_of_it(&self, load: &dyn Load, plan: &Plan, share: Share, started: &Receiver<Moment>) -> News {
        let ready = match load.prepare(plan, share) {
            Ok(ready) => ready,
            Err(refusal) => return News::Refused(refusal),
        };
        let _ = self.news_sender.blocking_send(News::Prepared(ready.facts()));
        let start = loop {
            match started.recv_timeout(LOOK) {
                Ok(start) => break start,
                Err(RecvTimeoutError::Disconnected) => {
                    return News::Dropped("it was cancelled".into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(why) = self.why_end() {
                return News::Dropped(why.unwrap_or_else(|| "stopped before the start".into()));
            }
        };
        let (seconds, measured) = sync_channel(WAITING);
        match ready.start(start, seconds) {
            Ok(live) => self.watch(live, &measured),
            Err(refusal) => News::Refused(refusal),
        }
    }

    /// Returns `Some` if the share has to end; inside, the reason, if the end was not requested.
    fn why_end(&self) -> Option<Option<String>> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(None);
        }
        let lapsed =
            || format!("stopped automatically: its coordinator was silent for {} s", LEASE.as_secs());
        self.lease.is_over().then(|| Some(lapsed()))
    }

    fn watch(&self, live: Box<dyn Live>, measured: &Receiver<Interval>) -> News {
        let mut end: Option<Option<String>> = None;
        let mut leased = None;
        loop {
            let until = self.lease.until();
            if leased.replace(until) != Some(until) {
                live.lease(until);
            }
            match measured.recv_timeout(LOOK) {
                Ok(interval) => {
                    if !self.pass_on(interval, &*live) {
                        end = Some(Some("stopped automatically: its measurements could not be sent".into()));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if end.is_none() {
                end = self.why_end();
                if end.is_some() {
                    live.stop();
                }
            }
        }
        News::End(Box::new(live.join()), end.flatten())
    }

    /// Sends a second; stops the load, and reports that, if too many wait.
    fn pass_on(&self, interval: Interval, live: &dyn Live) -> bool {
        match self.news_sender.try_send(News::Second(Box::new(interval))) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => {
                live.stop();
                true
            }
            Err(mpsc::error::TrySendError::Full(news)) => {
                live.stop();
                let _ = self.news_sender.blocking_send(news);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_renewal_does_not_bring_a_lease_back() {
        let now = Moment::now();
        let lease = Lease::new(Moment::from_nanos(now.nanos() - 1));
        assert!(lease.is_over());
        lease.renew(Moment::from_nanos(now.nanos() - 2));
        assert!(lease.is_over());
        lease.renew(now + LEASE);
        assert!(lease.is_over(), "what is over stays over");
        let lease = Lease::new(now + LEASE);
        lease.renew(Moment::from_nanos(1));
        assert!(!lease.is_over(), "an old renewal takes nothing away");
    }

    #[test]
    fn no_coordinator_can_lease_for_ever() {
        let lease = Lease::new(Moment::NEVER);
        assert!(lease.0.load(Ordering::Relaxed) <= (Moment::now() + LEASE).nanos());
    }
}
