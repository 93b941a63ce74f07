//! The last stage: nothing is accepted any more, connections may end until the drain deadline, and the rest is cut.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::control::admin_state::{Readiness, Request};
use crate::control::error::Outcome;
use crate::control::program::Program;
use crate::control::workers::{Event, Order};
use crate::worker::context::Successor;
use handfast_admin::{self, ReloadRefusal};
use handfast_process::signals::SignalRequest;
use handfast_text::units::counted;

/// Timeout for the access log to write its buffered lines.
const LOG: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Draining {
    program: Program,
    deadline: Instant,
    /// True if a signal requested the drain. The next signal ends it at once.
    signalled: bool,
}

impl Draining {
    /// Stops accepting.
    ///
    /// A drain that was requested over the admin listener is the same stop: the first signal after it (a service manager
    /// sends one when its pre-stop hook has requested the drain) changes nothing.
    pub(crate) fn begin(program: Program, by_signal: bool) -> Self {
        let after = program.shared.successor().map_or(Successor::None, Successor::Beside);
        Self::followed_by(program, after, by_signal)
    }

    /// Waits for the client at standard input, for as long as it stays.
    pub(crate) fn of_the_only_client(program: Program) -> Self {
        const UNLIMITED_DRAIN: Duration = Duration::from_secs(100 * 365 * 86_400);
        program.shared.enter(Readiness::Draining);
        program.workers.order_all(|| Order::Drain(Successor::None));
        Self { program, deadline: Instant::now() + UNLIMITED_DRAIN, signalled: false }
    }

    /// Stops accepting; `after`: the process that serves from now on.
    pub(crate) fn followed_by(mut program: Program, after: Successor, by_signal: bool) -> Self {
        let drain = program.state.config.process.drain;
        program.shared.enter(Readiness::Draining);
        tracing::info!("stopping: no new connections; open connections have {drain:?} to end");
        program.notifier.stopping(&format!("Stopping: open connections have {drain:?} to end"));
        // Before the workers close them: no client should wait there for a process that does not come.
        program.notifier.retain_sockets(&[]);
        // Another process may order from now on.
        program.ordering.stop();
        program.fleet.stop();
        program.upgrades.close(false);
        program.clients.end();
        program.workers.order_all(|| Order::Drain(after.clone()));
        if !matches!(after, Successor::None) {
            program.state.release_caches();
        }
        Self { program, deadline: Instant::now() + drain, signalled: by_signal }
    }

    /// Waits for the connections, cuts what is left, and ends the threads.
    pub(crate) async fn finish(mut self) -> Outcome {
        let cut_why = self.wait().await;
        let Program { workers, mut listeners, state, shared, log, mut upgrades, clients, fleet, .. } =
            self.program;
        let cut = workers.end().await;
        fleet.left().await;
        listeners.close();
        if let Some(address) = &state.config.admin {
            handfast_admin::forget(address, shared.admin_file());
        }
        let stopped = log.stop(LOG);
        if stopped.dropped > 0 {
            tracing::warn!(
                "access log: {} written, {} lost",
                counted(stopped.written, "line"),
                stopped.dropped
            );
        }
        clients.flush().await;
        upgrades.send_last_counters();
        match cut {
            0 => tracing::info!("stopped: every connection had ended"),
            1 => tracing::info!("stopped: 1 connection was cut{cut_why}"),
            _ => tracing::info!("stopped: {cut} connections were cut{cut_why}"),
        }
        Outcome::Good
    }

    /// Until all connections have ended, or a reason to cut them.
    async fn wait(&mut self) -> &'static str {
        let Self { program, deadline, signalled } = self;
        let mut left = program.workers.count();
        while left > 0 {
            tokio::select! {
                Some(event) = program.workers.event() => {
                    if matches!(event, Event::Drained | Event::Failed(_)) {
                        left -= 1;
                    }
                }
                Some(request) = program.requests.recv() => match request {
                    // The client may have left.
                    Request::Reload(reply) => drop(reply.send(Err(ReloadRefusal::Stopping))),
                    Request::Open(reply) => drop(reply.send(program.workers.describe())),
                    Request::Reopen => program.log.reopen(),
                    Request::Ordered { name, revokes, reply } => program.ordering.send_request(name, revokes, reply),
                    Request::Cache { service, act, reply } => program.state.list_or_purge_caches(service.as_deref(), act, reply),
                    Request::Backend { .. } | Request::Maintenance { .. } | Request::Drain | Request::PredecessorClosed => {}
                },
                signal = program.signals.next() => match signal {
                    SignalRequest::Reopen => program.log.reopen(),
                    SignalRequest::Stop if std::mem::replace(signalled, true) => return " at a second signal",
                    SignalRequest::Stop | SignalRequest::Reload => {}
                },
                () = sleep_until(*deadline) => return " at the drain deadline",
            }
        }
        ""
    }
}
