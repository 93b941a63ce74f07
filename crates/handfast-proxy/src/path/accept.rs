//! Step 1, accept: a socket from the kernel's queue, its permit, and the state it will keep to the end.
//!
//! In: a listener of this thread. Out: one task for each connection. When a limit is reached, or the machine has no
//! descriptor left, clients wait in the kernel's queue and nothing spins.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_leg::{Leg, Side as LegSide};
use handfast_net::clock::Moment;
use handfast_net::engine::{self, Priority, sleep, spawn, wait};
use handfast_net::fault::{Cause as SocketCause, Fault};
use handfast_net::listen::Listener;
use handfast_net::stream::Stream;

use crate::admission::permits::Share;
use crate::path;
use crate::path::account::{Account, Permits};
use crate::path::connection::Connection;
use crate::worker::context::{WorkerContext, WorkerPhase};
use crate::worker::services::ThreadService;
use handfast_leg::runtime::Engine;
use handfast_observe::metrics::{Limit, ServiceMetrics};
use handfast_process::listeners::ListenerId;

/// Most connections taken in one iteration: other tasks of this thread wait, and other threads accept too.
const MAX_BATCH: usize = 16;
/// The first and the longest pause when the kernel refuses.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));
/// The same failure is logged again after this time, if it lasts.
const LOG_REPEAT_INTERVAL: Duration = Duration::from_secs(60);
/// Failures are over when there was none for this time.
const FAILURE_QUIET_PERIOD: Duration = Duration::from_secs(1);
/// For clients whose TCP handshake had begun when another process took over: a round trip, and a lost segment, which is sent again after a
/// second.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_secs(2);
/// Batches that are taken from a queue which another process has by now: the kernel wakes it for clients that come meanwhile.
const MAX_FINAL_BATCHES: usize = 64;
/// Interval at which a listener that is to close checks if it may close.
const CLOSE_INTERVAL: Duration = Duration::from_millis(5);
/// Pause at a limit, during which another thread may give back a permit.
const AT_LIMIT: Duration = Duration::from_millis(100);

/// Accepts until the listener's service is gone or the program stops.
pub(crate) async fn accept(mut listener: Listener, id: ListenerId, thread: Rc<WorkerContext>) {
    let mut back_off = BackOff::default();
    let mut batch = 1;
    thread.acceptor_began();
    loop {
        let service = thread.state().service_of(&id).filter(|_| thread.phase() == WorkerPhase::Serving);
        let Some(service) = service else { break };
        match take(&mut listener, &thread, &service, batch) {
            // There may be more, so the next batch is larger.
            AcceptedBatch::All => batch = (batch * 2).min(MAX_BATCH),
            AcceptedBatch::Some(count) => batch = count.max(1),
            AcceptedBatch::AtLimit(limit) => {
                // Each client that leaves makes room for one, and then the limit is reached again: all that counts once.
                if back_off.waiting.is_none() {
                    service.metrics.refused(limit);
                }
                back_off.at_limit(&id, &listener, limit, &service);
                at_limit(&mut listener, &thread).await;
                continue;
            }
            AcceptedBatch::Failed(fault, count) => {
                if count > 0 {
                    back_off.reset_pause();
                }
                listener.pause();
                // Not at once when a descriptor becomes free: the admin listener and reloads need some.
                sleep(back_off.failed(&thread, &id, &listener, &fault)).await;
                continue;
            }
        }
        back_off.over(&thread, &id, &listener);
        if thread.take_close_notice() {
            listener.stop_giving_way();
        }
        if let Err(error) = listener.ready(Moment::NEVER).await {
            tracing::error!("{}: cannot wait for connections: {error}", act(&id, &listener));
            sleep(RETRY_PAUSES.1).await;
        }
    }
    finish(&mut listener, &thread, &id).await;
    thread.acceptor_ended();
}

/// Outcome of taking one batch from the queue.
enum AcceptedBatch {
    /// A whole batch.
    All,
    /// This number, and the queue is empty.
    Some(usize),
    /// No permit is left.
    AtLimit(Limit),
    /// The kernel refused, after this number.
    Failed(Fault, usize),
}

fn take(
    listener: &mut Listener,
    thread: &Rc<WorkerContext>,
    service: &Rc<ThreadService>,
    batch: usize,
) -> AcceptedBatch {
    for count in 0..batch {
        let Some(permit) = thread.share.take() else { return AcceptedBatch::AtLimit(Limit::Process) };
        let service_permit = service.share.as_ref().map(Share::take);
        if matches!(service_permit, Some(None)) {
            return AcceptedBatch::AtLimit(Limit::Service);
        }
        // The permits come first: a client that was accepted and has none could only be reset, and in the kernel's queue it
        // waits for the next one. They are given back when no task uses them.
        match listener.try_accept() {
            Ok(Some((client, peer))) => {
                begin(thread, service, client, peer, (permit, service_permit.flatten()))
            }
            Ok(None) => return AcceptedBatch::Some(count),
            Err(fault) => return AcceptedBatch::Failed(fault, count),
        }
    }
    AcceptedBatch::All
}

/// Serves a client that came through no listener, by the service of this name; closes its socket where that cannot be.
pub(crate) fn adopt(thread: &Rc<WorkerContext>, service: &str, socket: OwnedFd) {
    let Some(service) = thread.state().services.iter().find(|known| *known.name == *service).cloned() else {
        return;
    };
    let (client, peer) = match Stream::given(socket) {
        Ok(adopted) => adopted,
        Err(error) => return tracing::error!("serve the client of service {}: {error}", service.name),
    };
    let permits =
        thread.share.take().zip(service.share.as_ref().map_or(Some(None), |share| share.take().map(Some)));
    match permits {
        Some(permits) => begin(thread, &service, client, peer, permits),
        None => tracing::warn!("service {}: its client is refused: max-connections is reached", service.name),
    }
}

/// Starts a connection's task.
fn begin(
    thread: &Rc<WorkerContext>,
    service: &Rc<ThreadService>,
    client: Stream,
    peer: Option<SocketAddr>,
    permits: Permits,
) {
    let accepted = Moment::now();
    // Counted before it is admitted: a refused client has a log line and a count too.
    let mut account = Account::open(thread, service, peer, permits);
    // A proxy in front is admitted to send its header; then the client that the header names is checked.
    let speaks_for_others = service.proxy_senders.as_ref().is_some_and(|senders| senders.has(peer));
    if !speaks_for_others && let Err(reason) = account.admit(accepted) {
        account.close(&reason);
        // Dropping the socket resets it.
        return;
    }
    let connection = Connection::<Engine> {
        account,
        accepted,
        deadline: accepted.deadline(service.model.limits.handshake),
        progress: accepted,
        client: Some(Leg::plain(LegSide::Client, client)),
        backend: None,
    };
    spawn(Priority::Handshake, path::serve(connection));
}

/// Waits for a permit: one of this thread's connections ends, or a moment passes in which another's may have.
async fn at_limit(listener: &mut Listener, thread: &WorkerContext) {
    listener.pause();
    thread.wake_at_end();
    wait(engine::now() + AT_LIMIT).await;
}

/// Takes what still waits in the queue of a listener that is about to close: closing would reset it. When another process
/// serves the address from now on, clients in the middle of their TCP handshake are waited for too.
async fn finish(listener: &mut Listener, thread: &Rc<WorkerContext>, id: &ListenerId) {
    let state = thread.state();
    // A reload may have moved the service to another address; a client that came by this one is still its client.
    let service = state
        .service_of(id)
        .or_else(|| state.services.iter().find(|known| *known.name == *id.service).cloned());
    let Some(service) = service else { return };
    if thread.is_handed_over(id) {
        // The kernel wakes one of all that accept from a socket. A client that it woke us for is ours; from now on it wakes the others.
        listener.pause();
        for _ in 0..MAX_FINAL_BATCHES {
            if !matches!(take(listener, thread, &service, MAX_BATCH), AcceptedBatch::All) {
                break;
            }
        }
        return;
    }
    // Clients in its queue are the next process's.
    if listener.outlives_us() {
        return;
    }
    let others = thread.successor().unwrap_or(0);
    if others > 0 && listener.give_way(others) {
        let until = engine::now() + IN_FLIGHT_TIMEOUT;
        while thread.phase() == WorkerPhase::Draining && (engine::now() < until || !listener.may_close()) {
            match take(listener, thread, &service, MAX_BATCH) {
                AcceptedBatch::All => engine::yield_now().await,
                AcceptedBatch::Some(_) => drop(listener.ready(engine::now() + CLOSE_INTERVAL).await),
                AcceptedBatch::AtLimit(_) | AcceptedBatch::Failed(..) => sleep(RETRY_PAUSES.0).await,
            }
        }
        // Some of ours are closed by now, so the others have other places.
        listener.give_way(others);
    }
    while thread.phase() != WorkerPhase::Ending
        && matches!(take(listener, thread, &service, MAX_BATCH), AcceptedBatch::All)
    {}
}

/// A kernel that refuses to hand over connections: it is logged once, counted, and asked again less and less often.
#[derive(Default)]
struct BackOff {
    pause: Option<Duration>,
    since: Option<Moment>,
    /// Time of the last failure. The back-off is over after a while without any, not at the first success between two failures.
    last: Option<Moment>,
    logged: Option<Moment>,
    waiting: Option<Waiting>,
}

/// Clients in a listener's queue while a limit is reached, as they are counted in the metrics.
struct Waiting {
    metrics: Arc<ServiceMetrics>,
    limit: Limit,
    counted: u64,
    /// Time at which the limit was reached last.
    at: Moment,
}

impl Waiting {
    fn count(&mut self, now: u64) {
        self.metrics.waiting(self.limit, self.counted, now);
        self.counted = now;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// Returns the start of a line about accepting, with the address that is bound, which has the port that the kernel chose.
fn act(id: &ListenerId, listener: &Listener) -> String {
    format!("accept on {} (service {})", listener.address(), id.service)
}

impl BackOff {
    /// Counts and logs a failure, and returns the pause that follows.
    fn failed(
        &mut self,
        thread: &WorkerContext,
        id: &ListenerId,
        listener: &Listener,
        fault: &Fault,
    ) -> Duration {
        thread.metrics.accept_failed(fault.cause.into());
        let now = Moment::now();
        thread.metrics.backing_off(true);
        self.since.get_or_insert(now);
        self.last = Some(now);
        if self.logged.is_none_or(|logged| now.since(logged) > LOG_REPEAT_INTERVAL) {
            self.logged = Some(now);
            let hint = match fault.cause {
                SocketCause::OutOfFiles => {
                    "; raise the limit on open files (ulimit -n, LimitNOFILE=) or lower max-connections"
                }
                _ => "",
            };
            tracing::warn!("{}: {}; clients wait until it works again{hint}", act(id, listener), fault.cause);
        }
        // Descriptors come back when a client leaves, and to look for one costs little.
        let longest = if fault.cause == SocketCause::OutOfFiles { AT_LIMIT } else { RETRY_PAUSES.1 };
        self.next_pause(longest)
    }

    fn next_pause(&mut self, longest: Duration) -> Duration {
        let pause = self.pause.map_or(RETRY_PAUSES.0, |pause| (pause * 2).min(longest));
        self.pause = Some(pause);
        pause
    }

    /// Some were accepted since it failed last: the next pause is short.
    fn reset_pause(&mut self) {
        self.pause = None;
    }

    fn at_limit(&mut self, id: &ListenerId, listener: &Listener, limit: Limit, service: &ThreadService) {
        if self.waiting.is_none() {
            tracing::warn!(
                "{}: max-connections of the {} is reached; clients wait until open connections end",
                act(id, listener),
                limit.name()
            );
        }
        let at = Moment::now();
        let before = self.waiting.take().filter(|waiting| waiting.limit == limit);
        let begin = || Waiting { metrics: Arc::clone(&service.metrics), limit, counted: 0, at };
        let waiting = self.waiting.insert(before.unwrap_or_else(begin));
        waiting.at = at;
        waiting.count(listener.waiting());
    }

    fn over(&mut self, thread: &WorkerContext, id: &ListenerId, listener: &Listener) {
        self.pause = None;
        // At a limit each client that leaves makes room for one: that alone is not the end of it.
        if let Some(waiting) = &mut self.waiting {
            if Moment::now().since(waiting.at) > FAILURE_QUIET_PERIOD {
                self.waiting = None;
                tracing::info!("{}: below the limit again", act(id, listener));
            } else {
                waiting.count(listener.waiting());
            }
        }
        let Some(last) = self.last else { return };
        thread.metrics.backing_off(false);
        if Moment::now().since(last) > FAILURE_QUIET_PERIOD
            && let Some(since) = self.since.take()
        {
            self.last = None;
            tracing::info!("{}: works again after {:?}", act(id, listener), last.since(since));
        }
    }
}

#[cfg(test)]
mod tests;
