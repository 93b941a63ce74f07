//! The context of one generator thread, which all its transactions use: the plan, the TLS client with its tickets, buffers,
//! measurements. It is never shared with another thread.

#[cfg(test)]
pub(crate) mod testing;

use std::cell::{Cell, RefCell, RefMut};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::address::Address;
use handfast_net::clock::Moment;
use handfast_net::engine::{self, TaskHandle};
use handfast_stats::Random;
use handfast_tls::buffer::Scratch;
use handfast_tls::client::{Client, ClientSession};
use handfast_tls::session::Failure;

use crate::pattern::Pattern;
use crate::plan::{Plan, Tls};
use crate::recorder::Recorder;
use crate::requests::PreparedRequest;
use crate::round_robin::WeightedRoundRobin;

pub(crate) use handfast_leg::READ;

/// The phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Rehearsal and warm-up, then the opening of kept connections; the start of the run is unknown.
    Preparing,
    /// Transactions begin.
    Measured,
    /// No transactions begin; those in flight are finished.
    Ending,
}

/// The identity with which a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The member of the mix; 0 without a mix.
    pub(crate) member: usize,
    /// True to resume a session.
    pub(crate) resume: bool,
}

/// The settings of connections of one member of the mix.
#[derive(Debug)]
pub(crate) struct MemberClient {
    pub(crate) client: Client,
    /// Share of its handshakes that are to be resumed.
    resume: f64,
    /// The order of its names.
    names: RefCell<WeightedRoundRobin>,
}

/// One generator thread's context.
#[derive(Debug)]
pub(crate) struct ThreadContext {
    pub(crate) plan: Plan,
    /// One for each member of the mix; one without a mix.
    pub(crate) clients: Vec<MemberClient>,
    /// The order of the members.
    member_turns: RefCell<WeightedRoundRobin>,
    /// The requests, in the plan's order.
    pub(crate) requests: Vec<Arc<PreparedRequest>>,
    /// The order of the requests.
    request_turns: RefCell<WeightedRoundRobin>,
    /// At least one, used in turn.
    targets: RefCell<Vec<Address>>,
    next_target: Cell<usize>,
    sources: Vec<IpAddr>,
    next_source: Cell<usize>,
    recorder: RefCell<Recorder>,
    pub(crate) scratch: Rc<RefCell<Scratch>>,
    pub(crate) random: RefCell<Random>,
    pub(crate) pattern: Pattern,
    start: Cell<Moment>,
    end: Cell<Moment>,
    /// The end of the permission to make load; extended while a coordinator leads this worker.
    leased: Cell<Moment>,
    phase: Cell<Phase>,
    /// Active transactions and kept connections.
    live: Cell<u32>,
    /// True once the target has sent a ticket in TLS 1.3.
    gives_tickets: Cell<bool>,
    /// The task to wake when the last of them has ended.
    overseer: Cell<Option<TaskHandle>>,
}

impl ThreadContext {
    /// Ready to warm up.
    pub(crate) fn new(parts: Parts, recorder: Recorder) -> Rc<Self> {
        Rc::new(Self {
            pattern: Pattern::new(parts.plan.seed),
            random: RefCell::new(Random::stream(parts.plan.seed, parts.stream)),
            clients: clients(&parts.plan, parts.clients, parts.stream),
            member_turns: RefCell::new(WeightedRoundRobin::new(
                parts.plan.clients().map(|(share, _)| share),
                parts.turn,
            )),
            request_turns: RefCell::new(WeightedRoundRobin::new(
                parts.plan.requests().iter().map(|request| request.weight.into()),
                parts.stream,
            )),
            requests: parts.requests,
            plan: parts.plan,
            targets: RefCell::new(vec![Address::Ip(parts.target)]),
            next_target: Cell::new(parts.stream as usize),
            sources: parts.sources,
            // Threads begin at different addresses, so that the first one does not get most connections.
            next_source: Cell::new(parts.stream as usize),
            recorder: RefCell::new(recorder),
            scratch: Rc::new(RefCell::new(Scratch::new(READ))),
            start: Cell::new(Moment::NEVER),
            end: Cell::new(Moment::NEVER),
            leased: Cell::new(Moment::NEVER),
            phase: Cell::new(Phase::Preparing),
            live: Cell::new(0),
            gives_tickets: Cell::new(false),
            overseer: Cell::new(None),
        })
    }

    /// The next source address.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        let turn = self.next_source.get();
        self.next_source.set(turn.wrapping_add(1));
        (!self.sources.is_empty()).then(|| self.sources[turn % self.sources.len()])
    }

    /// The identity of the next connection: the next member, and a random choice of whether it resumes.
    pub(crate) fn draw(&self) -> Caller {
        self.draw_as(self.next_member())
    }

    /// As the next connection of this member.
    pub(crate) fn draw_as(&self, member: usize) -> Caller {
        let share = self.clients[member].resume;
        let resume = share > 0.0 && (share >= 1.0 || self.random.borrow_mut().unit() < share);
        Caller { member, resume }
    }

    /// The next member of the mix.
    pub(crate) fn next_member(&self) -> usize {
        self.member_turns.borrow_mut().take()
    }

    /// The next request.
    pub(crate) fn next_request(&self) -> usize {
        self.request_turns.borrow_mut().take()
    }

    /// A new session of `caller`, for its next name.
    pub(crate) fn session(&self, caller: Caller) -> Result<ClientSession, Failure> {
        let side = &self.clients[caller.member];
        let name = side.names.borrow_mut().take();
        side.client.connect_as(name, caller.resume)
    }

    /// The recorder of all events. Do not hold it over an `await`, or during other calls.
    pub(crate) fn record(&self) -> RefMut<'_, Recorder> {
        self.recorder.borrow_mut()
    }

    /// Returns the deadline of a step that begins now.
    pub(crate) fn deadline(&self) -> Moment {
        Moment::now().deadline(self.plan.timeout)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Returns true if transactions may begin.
    pub(crate) fn has_begun(&self) -> bool {
        Moment::now() >= self.start.get()
    }

    /// Waits for the start of the run; tasks that need the exact moment also have an alarm.
    pub(crate) async fn wait_for_start(&self) {
        while !self.is_over() && !self.has_begun() {
            engine::wait(self.start()).await;
        }
    }

    /// The next pause between two transactions on a connection, if the plan has think time.
    pub(crate) fn think_time(&self) -> Option<Duration> {
        let think = self.plan.think?;
        Some(think.at(self.random.borrow_mut().unit()))
    }

    /// Waits, but not beyond the end of the run.
    pub(crate) async fn pause(&self, length: Duration) {
        self.pause_until(Moment::now() + length).await;
    }

    /// Waits until this moment, but not beyond the end of the run.
    pub(crate) async fn pause_until(&self, until: Moment) {
        while !self.is_over() && Moment::now() < until {
            engine::wait(until.min(self.end())).await;
        }
    }

    /// Sets the measured part of the run.
    pub(crate) fn begin(&self, start: Moment, end: Moment) {
        self.start.set(start);
        self.end.set(end);
        self.phase.set(Phase::Measured);
        self.record().begin(start, end);
    }

    /// Nothing new begins from here on.
    pub(crate) fn finish(&self) {
        self.phase.set(Phase::Ending);
    }

    /// The target to connect to.
    pub(crate) fn target(&self) -> Address {
        let targets = self.targets.borrow();
        let turn = self.next_target.get();
        self.next_target.set(turn.wrapping_add(1));
        targets[turn % targets.len()].clone()
    }

    /// Connects to another address from here on.
    pub(crate) fn aim_at(&self, target: SocketAddr) {
        *self.targets.borrow_mut() = vec![Address::Ip(target)];
    }

    /// Connects to these as well, in turn.
    pub(crate) fn aim_at_also(&self, targets: Vec<SocketAddr>) {
        self.targets.borrow_mut().extend(targets.into_iter().map(Address::Ip));
    }

    /// The start of the measured part.
    pub(crate) fn start(&self) -> Moment {
        self.start.get()
    }

    /// The end of the measured part.
    pub(crate) fn end(&self) -> Moment {
        self.end.get()
    }

    /// Moves the end of the measured part to now.
    pub(crate) fn end_now(&self) {
        let now = Moment::now().max(self.start.get());
        self.end.set(self.end.get().min(now));
        self.record().end_at(self.end.get());
    }

    /// No transaction begins after this moment, unless the lease is extended before.
    pub(crate) fn lease(&self, until: Moment) {
        self.leased.set(until);
    }

    /// Returns true if no transaction may begin. The lease is also checked here, and not only by the task that stops this one: a process
    /// that was stopped and continued would begin all overdue transactions before that task runs.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.get() == Phase::Ending || Moment::now() >= self.end.get().min(self.leased.get())
    }

    /// Active transactions and kept connections.
    pub(crate) fn live(&self) -> u32 {
        self.live.get()
    }

    /// Returns true if the target has sent a ticket.
    pub(crate) fn gives_tickets(&self) -> bool {
        self.gives_tickets.get()
    }

    /// The target sent a ticket.
    pub(crate) fn note_ticket(&self) {
        self.gives_tickets.set(true);
    }

    /// Counts the current task as active until the guard is dropped.
    pub(crate) fn enter(self: &Rc<Self>) -> ActiveGuard {
        self.live.set(self.live.get() + 1);
        ActiveGuard(Rc::clone(self))
    }

    /// Wakes the current task when nothing is active after the end.
    pub(crate) fn watch(&self) {
        self.overseer.set(Some(engine::current()));
    }
}

/// The parts of a context before the run's times are known.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) plan: Plan,
    /// One for each member of the mix; one without a mix.
    pub(crate) clients: Vec<Client>,
    pub(crate) requests: Vec<Arc<PreparedRequest>>,
    pub(crate) target: SocketAddr,
    pub(crate) sources: Vec<IpAddr>,
    /// Number of this thread over all workers.
    pub(crate) stream: u64,
    /// Turns of the members that others take before this thread's first one.
    pub(crate) turn: u64,
}

fn clients(plan: &Plan, clients: Vec<Client>, stream: u64) -> Vec<MemberClient> {
    let side = |(client, (_, tls)): (Client, (f64, &Tls))| {
        let weights = tls.server_names.iter().map(|name| name.weight.into());
        MemberClient {
            client,
            resume: tls.resume,
            names: RefCell::new(WeightedRoundRobin::new(weights, stream)),
        }
    };
    clients.into_iter().zip(plan.clients()).map(side).collect()
}

/// One transaction or standing connection at work.
#[derive(Debug)]
pub(crate) struct ActiveGuard(Rc<ThreadContext>);

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        let context = &self.0;
        context.live.set(context.live.get().saturating_sub(1));
        // Before the end no task waits for it: thousands of transactions come and go.
        if context.live.get() == 0
            && context.phase.get() == Phase::Ending
            && let Some(overseer) = context.overseer.get()
        {
            overseer.wake();
        }
    }
}
