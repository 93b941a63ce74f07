//! The third stage: every worker accepts. The control thread's loop, until it is time to drain.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::control::admin_state::{Readiness, Request};
use crate::control::draining::Draining;
use crate::control::error::{Error, Outcome};
use crate::control::memory::Memory;
use crate::control::program::Program;
use crate::control::reload::{Refused, Reloaded, Reloads, Scope};
use crate::control::upgrade::Taking;
use crate::control::watch::Watch;
use crate::control::workers::Event;
use handfast_admin::ReloadRefusal;
use handfast_config::model::Address;
use handfast_observe::metrics::resident;
use handfast_process::listeners::ListenPlan;
use handfast_process::log_lines::{log_refusal, log_warnings};
use handfast_process::signals::SignalRequest;

#[derive(Debug)]
pub(crate) struct Serving {
    program: Program,
}

/// A stop that has not refused any client yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leaving {
    until: Instant,
    /// True if a signal requested it. The next signal ends it early.
    signalled: bool,
}

impl Serving {
    /// Lets clients in, and reports that it is ready. **Errors**: listen(2); a worker that cannot serve by the state.
    ///
    /// With `taking` it first notifies the process that serves until then, which stops accepting.
    pub(crate) async fn begin(
        mut program: Program,
        plan: ListenPlan,
        taking: Option<(Taking, Option<Address>)>,
    ) -> Result<Self, Error> {
        let state = Arc::clone(&program.state);
        program.install(state, plan).await?;
        if let Some((taking, admin)) = taking {
            let upgrade = program.upgrades.address();
            let ours = program.listeners.not_ours().chain(&admin).chain(&upgrade);
            taking.report_ready(ours, &program.registry)?;
        }
        // Not before: until then the service manager listens to the previous process.
        program.notifier.store_sockets(program.listeners.own(None));
        program.registry.reload_succeeded(program.state.generation);
        program.shared.enter(Readiness::Serving);
        program.shared.set_awaited_names(program.names_needed());
        let config = Arc::clone(&program.state);
        program.follow_fleet();
        program.ordering.follow(&config.config);
        tracing::info!("ready");
        let sentence = program.sentence();
        program.notifier.ready(&sentence);
        let begun = program.clients.begin(&mut program.programs);
        begun.map_err(Error::system("start the programs that are clients"))?;
        Ok(Self { program })
    }

    pub(crate) async fn serve(mut self) -> Outcome {
        if let Some((service, client)) = self.program.clients.take_stdin() {
            self.program.workers.serve(service, client);
            return Draining::of_the_only_client(self.program).finish().await;
        }
        let mut reloads = Reloads::default();
        let mut memory = Memory::new(resident());
        let mut watch = Watch::default();
        self.program.follow_files(&mut watch);
        let mut next_keys = self.program.next_keys();
        let mut bound_again_at = None;
        let mut leaving: Option<Leaving> = None;
        let turns = self.program.notifier.watchdog_interval();
        let mut next_turn = Instant::now();
        loop {
            let leaves_at = leaving.map(|leaving| leaving.until);
            let program = &mut self.program;
            tokio::select! {
                signal = program.signals.next() => match signal {
                    SignalRequest::Reload => {
                        program.notifier.reloading();
                        reloads.request_reload(Scope::Configuration, None, || program.present());
                    }
                    SignalRequest::Reopen => program.log.reopen(),
                    SignalRequest::Stop => match self.leave(leaving, true) {
                        Ok(further) => leaving = Some(further),
                        Err(signalled) => return self.drain(signalled).await,
                    },
                },
                Some(request) = program.requests.recv() => match request {
                    Request::Reload(reply) => {
                        reloads.request_reload(Scope::Configuration, Some(reply), || program.present());
                    }
                    // The requester may have disconnected.
                    Request::Backend { service, backend, requested, reply } => drop(reply.send(program.set_backend(&service, &backend, requested))),
                    Request::Maintenance { service, requested, reply } => program.set_maintenance(&service, requested, reply),
                    Request::Ordered { name, revokes, reply } => program.ordering.send_request(name, revokes, reply),
                    Request::Cache { service, act, reply } => program.state.list_or_purge_caches(service.as_deref(), act, reply),
                    Request::Open(reply) => drop(reply.send(program.workers.describe())),
                    Request::PredecessorClosed => program.report_predecessor_closed(),
                    Request::Reopen => program.log.reopen(),
                    Request::Drain if leaving.is_some() => {}
                    Request::Drain => match self.leave(None, false) {
                        Ok(further) => leaving = Some(further),
                        Err(signalled) => return self.drain(signalled).await,
                    },
                },
                () = sleep_until(leaves_at.unwrap_or_else(Instant::now)), if leaves_at.is_some() => {
                    return self.drain(leaving.is_some_and(|leaving| leaving.signalled)).await;
                }
                Some(event) = program.workers.event() => if let Event::Failed(error) = event {
                    tracing::error!("{error}");
                    return Outcome::Failed;
                },
                Some(event) = program.ordering.event() => program.take_acme(event),
                Some(event) = program.fleet.event() => program.take_fleet(event),
                Some(answer) = program.answers.recv() => program.take_answer(answer),
                (service, client) = program.clients.next() => program.workers.serve(service, client),
                how = program.programs.ended() => tracing::error!(
                    "the process that starts programs has ended ({how}): their connections fail\n  hint: restart, or `handfast upgrade`"
                ),
                () = watch.wait_until_due() => {
                    program.refresh_keys();
                    if program.is_to_bind_again(&mut bound_again_at) {
                        reloads.request_reload(Scope::Files, None, || program.present());
                    } else {
                        reloads.check_files(|| program.present());
                    }
                }
                event = program.upgrades.next() => {
                    if let Some(after) = program.on_upgrade_event(event, leaving.is_some()) {
                        return Draining::followed_by(self.program, after, false).finish().await;
                    }
                }
                // No reload during an upgrade: the configuration that the successor received should not change.
                outcome = reloads.done(), if !program.upgrades.is_under_way() => {
                    if let Some(outcome) = outcome {
                        let result = self.take(outcome).await;
                        reloads.answer(&result);
                        self.program.follow_files(&mut watch);
                        next_keys = self.program.next_keys();
                        if reloads.are_over() {
                            let sentence = self.program.sentence();
                            self.program.notifier.reloaded(&sentence);
                        }
                    }
                    reloads.go_on(|| self.program.present());
                }
                () = sleep_until(next_turn), if turns.is_some() => {
                    program.ping_watchdog();
                    next_turn = Instant::now() + turns.unwrap_or_default();
                }
                () = memory.wait_until_due() => program.check_resources(&mut memory),
                () = sleep_until(next_keys) => {
                    program.refresh_keys();
                    next_keys = program.next_keys();
                }
            }
        }
    }

    /// Installs the result of a reload, or logs why not; returns the answer for the request.
    async fn take(&mut self, outcome: Result<Reloaded, Refused>) -> Result<String, ReloadRefusal> {
        let refused = match outcome {
            Ok(reloaded) => {
                let (text, left_out) = (reloaded.text(), reloaded.found.not_in_effect());
                match self.install(reloaded).await {
                    Ok(()) => return self.report_installed(text, left_out),
                    Err(error) => Refused::from(error),
                }
            }
            Err(refused) => refused,
        };
        log_warnings(&[refused.warnings]);
        self.program.registry.reload_failed(&refused.problems);
        let generation = self.program.state.generation;
        log_refusal(&format!("reload refused; generation {generation} keeps serving"), &refused.problems);
        Err(ReloadRefusal::Refused { problems: refused.problems })
    }

    async fn install(&mut self, reloaded: Reloaded) -> Result<(), Error> {
        let Self { program } = self;
        let Reloaded { state, plan, found, .. } = reloaded;
        program.install(Arc::clone(&state), plan).await?;
        program.notifier.store_sockets(program.listeners.own(None));
        // Not before: they speak of what is served now.
        log_warnings(&found.warnings);
        program.names.follow(&state.config);
        program.retain_operator_states();
        program.report_needed_keys();
        program.follow_fleet();
        program.ordering.follow(&state.config);
        program.publish_state();
        program.registry.set_certificates(state.certificate_snapshots());
        program.registry.set_revocation_lists(state.revocation_lists());
        program.registry.set_file_problems(state.file_problems());
        // The old state's memory goes with its last connection, most of it now.
        handfast_net::sys::release_memory();
        Ok(())
    }

    /// A file that was left out, or a key that needs a restart, is no success for the request.
    fn report_installed(&self, served: String, left_out: String) -> Result<String, ReloadRefusal> {
        let Program { registry, state, .. } = &self.program;
        if left_out.is_empty() {
            registry.reload_succeeded(state.generation);
            tracing::info!("{served}");
            return Ok(served);
        }
        registry.reload_left_out(state.generation, &left_out);
        log_refusal(&served, &left_out);
        Err(ReloadRefusal::InPart { served, left_out })
    }

    /// Begins to stop, as far as that goes without refusing a client; `Err` when it is time to: whether by a signal.
    ///
    /// The first signal after a drain that was requested over the admin listener changes nothing, here as when draining.
    fn leave(&self, before: Option<Leaving>, by_signal: bool) -> Result<Leaving, bool> {
        let Program { state, shared, .. } = &self.program;
        let delay = state.config.process.drain_delay;
        match before {
            Some(before) if before.signalled => Err(true),
            Some(before) => Ok(Leaving { signalled: true, ..before }),
            // No delay with a successor: readiness probes of this machine find the other process ready.
            None if delay.is_zero() || shared.successor().is_some() => Err(by_signal),
            None => {
                shared.enter(Readiness::Leaving);
                tracing::info!("stopping: not ready, and new connections are still served for {delay:?}");
                Ok(Leaving { until: Instant::now() + delay, signalled: by_signal })
            }
        }
    }

    async fn drain(self, by_signal: bool) -> Outcome {
        Draining::begin(self.program, by_signal).finish().await
    }
}

#[cfg(test)]
mod tests;
