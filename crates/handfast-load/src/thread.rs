//! A generator thread: takes orders, runs the model, and ends when everything that it began is over.
//!
//! In: orders by a mailbox. Out: answers to them, and a second's measurements after each second.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Alarm, Letterbox, Priority};
use handfast_tls::client::{Client, ClientSettings};
use handfast_tls::session::Failure;

use crate::arrival_queue::ArrivalQueue;
use crate::assignment::Assignment;
use crate::context::{Parts, Phase, ThreadContext};
use crate::dispatcher::dispatch;
use crate::failure::StepFailure;
use crate::opener::Opener;
use crate::plan::{Model, Plan, Work};
use crate::pool::Pool;
use crate::recorder::Recorder;
use crate::sample::Interval;
use crate::schedule::Schedule;
use crate::slots::{self, Slots};
use crate::{standing, warm_up, work};

/// The orders to a thread.
#[derive(Debug)]
pub(crate) enum Order {
    /// One transaction with this address, to see whether it works at all.
    Rehearse(SocketAddr),
    /// Fills the ticket pool, connecting to this address.
    WarmUp(SocketAddr),
    /// Connects to these as well, in turn.
    Also(Vec<SocketAddr>),
    /// Opens the connections that must be open when the run begins; an exchange takes about this long.
    Prepare(Duration),
    /// The measured part begins and ends.
    Begin(Moment, Moment),
    /// Nothing begins after this moment, unless another one comes before.
    Lease(Moment),
    /// The measured part ends now.
    Stop,
}

/// The answers of a thread.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It is there, or why not.
    Ready(Result<(), Failure>),
    /// The result of the rehearsal: the duration of its exchange.
    Rehearsed(Result<Duration, StepFailure>),
    /// The number of tickets in the pool, and the required number.
    Warm { tickets: usize, required: usize },
    /// The number of open connections, and the required number, if there is one.
    Prepared { standing: u32, required: u32 },
    /// The measured part began with this lag.
    Started { late_ns: i64 },
}

/// Runs a thread until its work is done or no orders can arrive any more.
pub(crate) fn run(
    assignment: Assignment,
    orders: Letterbox<Order>,
    answers: &SyncSender<Reply>,
    seconds: SyncSender<Interval>,
) {
    handfast_tls::warm_up();
    // A certificate must have the name that was sent, or the target's name if none was.
    let client = |settings: &ClientSettings| {
        Client::new(settings, settings.server_name.as_ref().unwrap_or(&assignment.plan.target.host))
    };
    let clients = match assignment.settings.iter().map(client).collect::<Result<Vec<Client>, _>>() {
        Ok(clients) => clients,
        Err(failure) => {
            let _ = answers.send(Reply::Ready(Err(failure)));
            return;
        }
    };
    let parts = Parts {
        plan: assignment.plan.clone(),
        clients,
        requests: assignment.requests.clone(),
        target: assignment.target,
        sources: assignment.plan.sources.clone(),
        stream: assignment.stream(),
        turn: assignment.turn(),
    };
    let answers = answers.clone();
    let start = move || {
        let recorder = Recorder::new(&parts.plan, seconds);
        let context = ThreadContext::new(parts, recorder);
        engine::spawn(Priority::Flow, take_orders(assignment, context, orders, answers));
    };
    // The closing channels report its end.
    let _ = engine::run((), start);
}

async fn take_orders(
    assignment: Assignment,
    context: Rc<ThreadContext>,
    orders: Letterbox<Order>,
    answers: SyncSender<Reply>,
) {
    let mut orders = orders.open();
    let mut pool = None;
    let _ = answers.send(Reply::Ready(Ok(())));
    while let Ok(letters) = orders.receive().await {
        for order in letters {
            match order {
                Order::Rehearse(target) => {
                    context.aim_at(target);
                    let outcome = warm_up::rehearse(&context).await;
                    let _ =
                        answers.send(Reply::Rehearsed(outcome.map(|()| context.record().last_exchange())));
                }
                Order::WarmUp(target) => {
                    context.aim_at(target);
                    let required = warm_up::fill_pools(&assignment, &context).await;
                    let tickets = context.clients.iter().map(|side| side.client.tickets()).sum();
                    let _ = answers.send(Reply::Warm { tickets, required });
                }
                Order::Also(targets) => context.aim_at_also(targets),
                Order::Prepare(took) => pool = prepare(&assignment, &context, took, answers.clone()),
                Order::Begin(start, end) => {
                    begin(&assignment, &context, pool.take(), (start, end), answers.clone())
                }
                Order::Lease(until) => context.lease(until),
                // Before the run has begun there is nothing to be measured.
                Order::Stop if context.phase() == Phase::Preparing => engine::stop(),
                Order::Stop => {
                    context.end_now();
                    engine::wake_all();
                }
            }
        }
    }
    engine::stop();
}

/// Opens the connections that stay open when the run begins, and reports when they are open.
fn prepare(
    assignment: &Assignment,
    context: &Rc<ThreadContext>,
    took: Duration,
    answers: SyncSender<Reply>,
) -> Option<Rc<Pool>> {
    context.record().record();
    let (plan, connections) = (&assignment.plan, assignment.connections());
    let part = assignment.part();
    let Some((_, parts)) =
        part.filter(|_| plan.keeps_connections() || matches!(plan.work, Work::Bulk { .. }))
    else {
        let _ = answers.try_send(Reply::Prepared { standing: 0, required: 0 });
        return None;
    };
    if let Work::Bulk { .. } = plan.work {
        let opener = Opener::new(connections, false);
        let bulk = Rc::clone(context);
        engine::spawn(
            Priority::Flow,
            Rc::clone(&opener)
                .run(Rc::clone(context), move |permit| standing::bulk(Rc::clone(&bulk), permit)),
        );
        engine::spawn(Priority::Flow, report_when_ready(opener, plan.clone(), answers));
        return None;
    }
    let pool = Pool::new(ArrivalQueue::new(plan), plan, connections, parts, took);
    work::keep(context, &pool);
    engine::spawn(Priority::Flow, report_when_ready(Rc::clone(&pool.opener), plan.clone(), answers));
    Some(pool)
}

async fn report_when_ready(opener: Rc<Opener>, plan: Plan, answers: SyncSender<Reply>) {
    let closed = plan.model == Model::Closed;
    // In an open model they were opened in advance: connections that the target sheds are not required.
    opener.ready(plan.timeout, || !closed && opener.is_shed()).await;
    let required = if closed { opener.required() } else { 0 };
    let _ = answers.try_send(Reply::Prepared { standing: opener.open_connections(), required });
}

/// Starts what the plan says.
fn begin(
    assignment: &Assignment,
    context: &Rc<ThreadContext>,
    pool: Option<Rc<Pool>>,
    (start, end): (Moment, Moment),
    answers: SyncSender<Reply>,
) {
    context.begin(start, end);
    let plan = &assignment.plan;
    let connections = assignment.connections();
    engine::spawn(Priority::Flow, oversee(Rc::clone(context), answers));
    let Some((part, parts)) = assignment.part() else { return };
    let schedule = Schedule::new(&plan.model, plan.duration, part, parts, plan.seed);
    match (&plan.work, schedule, pool) {
        (Work::Bulk { .. }, ..) => {}
        // In the closed model kept connections already have everything they need.
        (_, schedule, Some(pool)) => {
            if let Some(schedule) = schedule {
                engine::spawn(Priority::Flow, dispatch(Rc::clone(context), schedule, pool));
            }
        }
        (Work::Idle { .. }, ..) => {
            let of_context = Rc::clone(context);
            let idle = move |permit| standing::idle(Rc::clone(&of_context), permit);
            engine::spawn(Priority::Flow, slots::open_in_the_run(Rc::clone(context), connections, idle));
        }
        (_, Some(schedule), None) => {
            let slots = Slots::new(ArrivalQueue::new(plan), connections);
            engine::spawn(Priority::Flow, dispatch(Rc::clone(context), schedule, slots));
        }
        (_, None, None) => {
            engine::spawn(Priority::Flow, slots::run_closed(Rc::clone(context), connections));
        }
    }
}

/// Ends seconds when they are over, and the thread when everything is.
async fn oversee(context: Rc<ThreadContext>, answers: SyncSender<Reply>) {
    context.watch();
    if let Ok(alarm) = Alarm::new() {
        alarm.set(context.start());
        context.wait_for_start().await;
    } else {
        // Out of descriptors: the engine's own timer is a few milliseconds less exact.
        context.wait_for_start().await;
    }
    let late_ns = i64::try_from(Moment::now().since(context.start()).as_nanos()).unwrap_or(i64::MAX);
    let _ = answers.try_send(Reply::Started { late_ns });
    context.record().started();
    // All other tasks wait for the same moment by a coarser timer.
    engine::wake_all();
    loop {
        let now = Moment::now();
        context.record().beat(now);
        if now >= context.end() && context.phase() == Phase::Measured {
            context.finish();
            engine::wake_all();
        }
        if context.phase() == Phase::Ending && context.live() == 0 {
            break;
        }
        let next = context.record().next_beat();
        let next = if context.phase() == Phase::Measured { next.min(context.end()) } else { next };
        engine::wait(next).await;
    }
    context.record().hand_over();
    // Bounded by the receiver: it takes what comes or goes away.
    while !context.record().is_drained() {
        engine::sleep(Duration::from_millis(20)).await;
        context.record().hand_over_waiting();
    }
    engine::stop();
}
