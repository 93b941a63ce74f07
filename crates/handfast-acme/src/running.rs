//! The thread that orders certificates.
//!
//! In: settings and the process around. Out: a handle; dropping it ends the thread, at whatever it is doing. The thread is separate, so
//! that a slow disk or resolver holds up nothing else.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::driver::Driver;
use crate::model::Settings;
use crate::real::{Host, Real, unix_now};
use crate::record::Record;
use crate::schedule::{Facts, MAX_BACKOFF_SECONDS, backoff, due};
use crate::status::{NameStatus, Request};
use crate::store::Store;

/// Requests of operators that may wait.
const REQUESTS: usize = 16;
/// Time that running requests to issuers may take at the end; they have separate deadlines.
const ENDING: Duration = Duration::from_millis(100);

/// A thread that orders certificates.
pub struct Running {
    settings: Settings,
    requests: Sender<Request>,
    _stop: oneshot::Sender<()>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Running {
    /// Starts it. **Errors**: the system has no thread left.
    pub fn start(settings: Settings, host: impl Host) -> io::Result<Self> {
        let (requests, received) = channel(REQUESTS);
        let (stop, stopped) = oneshot::channel();
        let world = Real { settings: settings.clone(), host };
        let thread = std::thread::Builder::new().name("acme".into());
        thread.spawn(move || run(&world, received, stopped))?;
        Ok(Self { settings, requests, _stop: stop })
    }

    /// Returns the settings that it was started with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the queue for operators' requests.
    pub fn requests(&self) -> &Sender<Request> {
        &self.requests
    }
}

fn run(world: &Real<impl Host>, mut requests: Receiver<Request>, stopped: oneshot::Receiver<()>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("acme: no certificate is ordered: {error}");
            return;
        }
    };
    runtime.block_on(async {
        tokio::select! {
            () = drive(world, &mut requests) => {}
            // The sender was dropped.
            _ = stopped => {}
        }
    });
    runtime.shutdown_timeout(ENDING);
}

/// Orders until no sender of requests is left. A panic outside of a try, which would record it, costs a pause that becomes longer while
/// panics follow each other; what was begun is in the store.
async fn drive(world: &Real<impl Host>, requests: &mut Receiver<Request>) {
    let mut panics = 0;
    loop {
        let started = Instant::now();
        let mut driver = pin!(Driver::new(world.settings.clone(), world).run(requests));
        let outcome = poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| driver.as_mut().poll(context)));
            polled.map_or_else(|_| Poll::Ready(Err(())), |poll| poll.map(Ok))
        });
        if outcome.await.is_ok() {
            return;
        }
        let has_recovered = started.elapsed().as_secs() > MAX_BACKOFF_SECONDS.unsigned_abs();
        panics = if has_recovered { 1 } else { panics + 1 };
        let pause = backoff(panics, 0.0).unsigned_abs();
        tracing::error!(
            "acme: the task that orders certificates has panicked (a bug); it restarts in {pause} s"
        );
        sleep(Duration::from_secs(pause)).await;
    }
}

/// The state of every name as the store has it, without asking anybody.
pub fn stored(settings: &Settings) -> Vec<NameStatus> {
    let (store, now) = (Store::of(settings, None), unix_now());
    let of = |name| {
        let record: Record = store.record(name, now);
        let life = store.certificate(name, now).map(|stored| stored.life);
        let own_moment = life.map_or(now, |life| life.renewal(0.0));
        let facts = Facts { certificate: life, own_moment, record: &record, issuers: &[], all_orders: &[] };
        let due = due(&facts).max(0);
        let next = if record.failures > 0 { record.earliest(now).max(due) } else { due };
        NameStatus::of(name, life, &record, due, next)
    };
    settings.names.iter().map(of).collect()
}
