//! Threads that work off a list of jobs, several at a time, until they are done, the deadline has passed, or they are stopped.
//!
//! In: jobs, and what is done with one. Out: what came of each, as far as it went.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};

use crate::error::LabError;
use crate::namespace::signals;

/// Settings of the worker threads.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// Name of their threads.
    pub name: &'static str,
    /// Jobs at the same time.
    pub at_once: usize,
    /// Time limit for all jobs.
    pub limit: Duration,
}

/// Messages from the workers to the thread that waits for them.
enum News<R> {
    Done(usize, R),
    /// A thread has nothing left to do, or has failed.
    Ended,
    /// A stop was requested.
    Stopped(Signal),
}

/// Says that one has ended, whatever ended it.
struct Ends<R>(SyncSender<News<R>>);

impl<R> Drop for Ends<R> {
    fn drop(&mut self) {
        // No thread waits any more after a stop.
        let _ = self.0.send(News::Ended);
    }
}

/// Each thread takes the next job that no other one has. Returns the results by their numbers. After the deadline or a stop the caller does
/// not wait for them: they end with the process, and everything that they made with it.
///
/// **Errors**: a thread that cannot be started; a signal.
pub fn work_off<J, R>(
    crew: Crew,
    jobs: Vec<J>,
    work: impl Fn(&J) -> R + Send + Sync + 'static,
    on_report: &mut dyn FnMut(&R),
) -> Result<Vec<(usize, R)>, LabError>
where
    J: Send + Sync + 'static,
    R: Send + 'static,
{
    let deadline = Instant::now() + crew.limit;
    let (news, letters) = sync_channel(2 * jobs.len() + crew.at_once + 1);
    let workers = crew.at_once.min(jobs.len());
    let (jobs, next, work) = (Arc::new(jobs), Arc::new(AtomicUsize::new(0)), Arc::new(work));
    // Before there is another thread, so that none of them takes the signals.
    let signals = signals().map_err(LabError::command("take signals"))?;
    for number in 0..workers {
        let (jobs, next, work) = (Arc::clone(&jobs), Arc::clone(&next), Arc::clone(&work));
        let ends = Ends(news.clone());
        start(format!("{}-{number}", crew.name), move || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(number) else { return };
                // No thread waits any more after a stop.
                let _ = ends.0.send(News::Done(number, work(job)));
            }
        })?;
    }
    start("lab-signals".to_owned(), move || {
        if let Some(signal) = received_stop_signal(&signals) {
            let _ = news.send(News::Stopped(signal));
        }
    })?;
    let (mut done, mut ended) = (Vec::new(), 0);
    while ended < workers {
        match letters.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(News::Done(number, outcome)) => {
                on_report(&outcome);
                done.push((number, outcome));
            }
            Ok(News::Ended) => ended += 1,
            Ok(News::Stopped(signal)) => return Err(LabError::Stopped(signal)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(done)
}

fn start(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), LabError> {
    let started = std::thread::Builder::new().name(name).spawn(work);
    started.map(drop).map_err(LabError::command("start a thread"))
}

/// Waits for a signal that means us. As process 1 of our namespace we get only those that we ask for.
fn received_stop_signal(signals: &SignalFd) -> Option<Signal> {
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            continue;
        }
        let info = signals.read_signal().ok()??;
        match i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok()) {
            Some(Signal::SIGCHLD | Signal::SIGUSR1 | Signal::SIGUSR2) | None => {}
            Some(signal) => return Some(signal),
        }
    }
}
