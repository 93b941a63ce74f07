//! A generator thread: takes orders, runs the model, and ends when everything that it began is over.
//!
//! In: orders by a mailbox. Out: answers to them, and a second's measurements after each second.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Alarm, Letterbox, Priority};
use handfast_tls::client::{Client, ClientSettings};

use crate::assignment::Assignment;
use crate::context::{Caller, Parts, Phase, ThreadContext};
use crate::http;
use crate::opener::{Opener, Permit, pause};
use crate::plan::{Model, Plan, Work};
use crate::pool::{Arrived, Pool};
use crate::recorder::Recorder;
use crate::sample::Interval;
use crate::schedule::Schedule;
use crate::standing;
use crate::transaction::{attempt, transaction};
use crate::trouble::{Step, Trouble};

/// What the generator tells a thread.
#[derive(Debug)]
pub(crate) enum Order {
    /// One transaction with this address, to see whether it works at all.
    Rehearse(SocketAddr),
    /// Fills the ticket pool, connecting to this address.
    WarmUp(SocketAddr),
    /// Opens the connections that are to stand when the run begins; an exchange takes about so long.
    Prepare(Duration),
    /// The measured part begins and ends.
    Begin(Moment, Moment),
    /// Nothing begins after this moment, unless another one comes before.
    Lease(Moment),
    /// The measured part ends now.
    Stop,
}

/// What a thread answers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is there, or why not.
    Ready(Result<(), String>),
    /// How the rehearsal went: how long its exchange took.
    Rehearsed(Result<Duration, Trouble>),
    /// So many tickets are in the pool; so many were wanted.
    Warm { tickets: usize, wanted: usize },
    /// So many connections stand; so many were wanted, none when there is no number that was asked for.
    Prepared { standing: u32, wanted: u32 },
    /// The measured part began so much late.
    Started { late_ns: i64 },
}

/// Runs a thread until its work is done or nobody gives orders any more.
pub(crate) fn run(
    assignment: Assignment,
    orders: Letterbox<Order>,
    answers: &SyncSender<Answer>,
    seconds: SyncSender<Interval>,
) {
    handfast_tls::warm_up();
    // A certificate is good for the name that was asked for; for the target's own when none was.
    let client = |settings: &ClientSettings| {
        Client::new(settings, settings.server_name.as_ref().unwrap_or(&assignment.plan.target.host))
    };
    let clients = match assignment.settings.iter().map(client).collect::<Result<Vec<Client>, _>>() {
        Ok(clients) => clients,
        Err(failure) => {
            let _ = answers.send(Answer::Ready(Err(failure.to_string())));
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
    // What it says is said by the channels that close with it.
    let _ = engine::run((), start);
}

async fn take_orders(
    assignment: Assignment,
    context: Rc<ThreadContext>,
    orders: Letterbox<Order>,
    answers: SyncSender<Answer>,
) {
    let mut orders = orders.open();
    let mut pool = None;
    let _ = answers.send(Answer::Ready(Ok(())));
    while let Ok(letters) = orders.receive().await {
        for order in letters {
            match order {
                Order::Rehearse(target) => {
                    context.aim_at(target);
                    let outcome = rehearse(&context).await;
                    let _ =
                        answers.send(Answer::Rehearsed(outcome.map(|()| context.record().last_exchange())));
                }
                Order::WarmUp(target) => {
                    context.aim_at(target);
                    let wanted = fill_pools(&assignment, &context).await;
                    let tickets = context.clients.iter().map(|side| side.client.tickets()).sum();
                    let _ = answers.send(Answer::Warm { tickets, wanted });
                }
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

/// One transaction of each member of the mix, and with each request, as far as there is time for it; at least one.
async fn rehearse(context: &Rc<ThreadContext>) -> Result<(), Trouble> {
    let until = context.deadline();
    let members = context.clients.len();
    for number in 0..members.max(context.requests.len()) {
        if number > 0 && Moment::now() >= until {
            break;
        }
        rehearse_as(context, number % members, number % context.requests.len().max(1)).await?;
    }
    Ok(())
}

async fn rehearse_as(context: &Rc<ThreadContext>, member: usize, request: usize) -> Result<(), Trouble> {
    let caller = Caller { member, resume: false };
    let outcome = match context.plan.work {
        Work::Http { .. } => http::rehearse(context, caller, request).await,
        Work::Bulk { .. } | Work::Idle { .. } => standing::rehearse(context, caller).await,
        _ => attempt(context, caller, Moment::now(), &mut || {}).await,
    };
    outcome.map_err(|trouble| match context.plan.mix.get(member) {
        Some(member) => Trouble { detail: format!("as `{}`: {}", member.name, trouble.detail), ..trouble },
        None => trouble,
    })
}

/// A ticket for each handshake that may be resuming at once, and a few more. In an open model that is what a quarter of
/// a second brings: by then the first ones have given new tickets. `part` is the member's share of all connections.
fn tickets_wanted(assignment: &Assignment, part: f64, share: f64) -> usize {
    const MOST: f64 = 1024.0;
    const AHEAD: f64 = 0.25;
    let connections = f64::from(assignment.connections());
    if share == 0.0 || connections == 0.0 {
        return 0;
    }
    let parts = assignment.part().map_or(1.0, |(_, parts)| parts as f64);
    let at_once = match assignment.plan.model {
        Model::Closed => connections,
        Model::Open { rate, .. } => connections.min(rate / parts * AHEAD),
        Model::Ramp { from, to, .. } => connections.min(from.max(to) / parts * AHEAD),
    };
    (at_once * part * share + 8.0).ceil().min(MOST) as usize
}

/// Fills the pool of each member that resumes; how many tickets were wanted in all.
async fn fill_pools(assignment: &Assignment, context: &Rc<ThreadContext>) -> usize {
    let all: f64 = assignment.plan.clients().map(|(share, _)| share).sum();
    let mut sum = 0;
    for (member, (share, tls)) in assignment.plan.clients().enumerate() {
        let wanted = tickets_wanted(assignment, share / all, tls.resume);
        sum += wanted;
        fill_pool(context, member, wanted).await;
    }
    sum
}

/// Full handshakes until there are enough tickets; a target that gives none is not asked for ever.
async fn fill_pool(context: &Rc<ThreadContext>, member: usize, wanted: usize) {
    let client = &context.clients[member].client;
    let mut in_vain = 0;
    while client.tickets() < wanted && in_vain < 3 {
        let before = client.tickets();
        if rehearse_as(context, member, 0).await.is_err() || client.tickets() <= before {
            in_vain += 1;
        }
    }
}

/// Opens the connections that stand when the run begins, and says so when they do.
fn prepare(
    assignment: &Assignment,
    context: &Rc<ThreadContext>,
    took: Duration,
    answers: SyncSender<Answer>,
) -> Option<Rc<Pool>> {
    context.record().record();
    let (plan, connections) = (&assignment.plan, assignment.connections());
    let part = assignment.part();
    let Some((_, parts)) =
        part.filter(|_| plan.keeps_connections() || matches!(plan.work, Work::Bulk { .. }))
    else {
        let _ = answers.try_send(Answer::Prepared { standing: 0, wanted: 0 });
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
        engine::spawn(Priority::Flow, tell_when_ready(opener, plan.clone(), answers));
        return None;
    }
    let pool = Pool::new(plan, connections, parts, took);
    let (of_pool, of_context) = (Rc::clone(&pool), Rc::clone(context));
    let http = matches!(plan.work, Work::Http { .. });
    let kept = move |permit| -> Pin<Box<dyn Future<Output = ()>>> {
        let (context, pool) = (Rc::clone(&of_context), Rc::clone(&of_pool));
        if http {
            Box::pin(http::kept(context, pool, permit))
        } else {
            Box::pin(standing::kept(context, pool, permit))
        }
    };
    engine::spawn(Priority::Flow, Rc::clone(&pool.opener).run(Rc::clone(context), kept));
    engine::spawn(Priority::Flow, tell_when_ready(Rc::clone(&pool.opener), plan.clone(), answers));
    Some(pool)
}

async fn tell_when_ready(opener: Rc<Opener>, plan: Plan, answers: SyncSender<Answer>) {
    let closed = plan.model == Model::Closed;
    // In an open model they were opened ahead of need: what the target does not want need not stand.
    opener.ready(plan.timeout, || !closed && opener.is_shed()).await;
    let wanted = if closed { opener.wanted() } else { 0 };
    let _ = answers.try_send(Answer::Prepared { standing: opener.standing(), wanted });
}

/// Starts what the plan says.
fn begin(
    assignment: &Assignment,
    context: &Rc<ThreadContext>,
    pool: Option<Rc<Pool>>,
    (start, end): (Moment, Moment),
    answers: SyncSender<Answer>,
) {
    context.begin(start, end);
    let plan = &assignment.plan;
    let connections = assignment.connections();
    engine::spawn(Priority::Flow, oversee(Rc::clone(context), answers));
    let Some((part, parts)) = assignment.part() else { return };
    let schedule = Schedule::new(&plan.model, plan.duration, part, parts, plan.seed);
    let of_context = Rc::clone(context);
    match (&plan.work, schedule, pool) {
        (Work::Bulk { .. }, ..) => {}
        (_, schedule, Some(pool)) => {
            if let Some(schedule) = schedule {
                engine::spawn(Priority::Flow, hand_out(Rc::clone(context), schedule, pool));
            }
        }
        (Work::Idle { .. }, ..) => {
            let idle = move |permit| standing::idle(Rc::clone(&of_context), permit);
            engine::spawn(Priority::Flow, open_in_the_run(Rc::clone(context), connections, idle));
        }
        (_, Some(schedule), None) => {
            engine::spawn(Priority::Flow, dispatch(Rc::clone(context), schedule, connections));
        }
        (_, None, None) => {
            let slot = move |permit| one_after_the_other(Rc::clone(&of_context), permit);
            engine::spawn(Priority::Flow, open_in_the_run(Rc::clone(context), connections, slot));
        }
    }
}

/// Opens so many connections, each once, from the start of the run on.
async fn open_in_the_run<F: Future<Output = ()> + 'static>(
    context: Rc<ThreadContext>,
    connections: u32,
    connection: impl Fn(Permit) -> F,
) {
    let _live = context.enter();
    standing::wait_for_the_start(&context).await;
    Opener::new(connections, false).run(context, connection).await;
}

/// Ends seconds when they are over, and the thread when everything is.
async fn oversee(context: Rc<ThreadContext>, answers: SyncSender<Answer>) {
    context.watch();
    if let Ok(alarm) = Alarm::new() {
        alarm.set(context.start());
        standing::wait_for_the_start(&context).await;
    } else {
        // Out of descriptors: the engine's own timer is a few milliseconds less exact.
        standing::wait_for_the_start(&context).await;
    }
    let late_ns = i64::try_from(Moment::now().since(context.start()).as_nanos()).unwrap_or(i64::MAX);
    let _ = answers.try_send(Answer::Started { late_ns });
    context.record().started();
    // Everybody else waits for the same moment by a coarser timer.
    engine::wake_all();
    loop {
        let now = Moment::now();
        context.record().roll(now);
        if now >= context.end() && context.phase() == Phase::Measured {
            context.finish();
            engine::wake_all();
        }
        if context.phase() == Phase::Ending && context.live() == 0 {
            break;
        }
        let boundary = context.record().boundary();
        let next = if context.phase() == Phase::Measured { boundary.min(context.end()) } else { boundary };
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

/// The closed model: the next transaction begins when the last one has ended. A target that fails each one is asked
/// less and less often.
async fn one_after_the_other(context: Rc<ThreadContext>, permit: Permit) {
    let _live = context.enter();
    let (mut first, mut failures) = (Some(permit), 0);
    while !context.is_over() {
        let mut stands = || {
            if let Some(permit) = &mut first {
                permit.stands();
            }
        };
        let good = transaction(&context, Moment::now(), &mut stands).await.is_ok();
        if let Some(mut permit) = first.take() {
            if good {
                permit.proved();
            } else {
                permit.ended(false);
            }
        }
        failures = if good { 0 } else { failures + 1 };
        if failures > 0 {
            context.pause(pause(failures)).await;
        }
    }
}

/// The open model: transactions begin when they are due, each on a connection of its own; those for which there is no
/// room wait, and count from when they were due.
async fn dispatch(context: Rc<ThreadContext>, mut schedule: Schedule, most: u32) {
    let _live = context.enter();
    context.watch();
    let alarm = match Alarm::new() {
        Ok(alarm) => alarm,
        Err(error) => return context.record().failed_by_us(no_alarm(&error), Moment::now()),
    };
    let in_flight = Rc::new(Cell::new(0));
    let mut due = VecDeque::new();
    let mut next = schedule.next();
    while !context.is_over() {
        let now = Moment::now();
        while let Some(start) = next.map(|start| context.start() + start).filter(|start| *start <= now) {
            due.push_back(start);
            next = schedule.next();
            if in_flight.get() + due.len() as u32 > most {
                context.record().queued();
            }
        }
        while in_flight.get() < most
            && let Some(intended) = due.pop_front()
        {
            in_flight.set(in_flight.get() + 1);
            engine::spawn(Priority::Flow, one(Rc::clone(&context), Rc::clone(&in_flight), intended));
        }
        if let Some(start) = next {
            alarm.set(context.start() + start);
        }
        engine::wait(context.end()).await;
    }
    let left = due.len() as u64 + never_looked_at(&context, next, schedule);
    context.record().never_begun(left);
}

async fn one(context: Rc<ThreadContext>, in_flight: Rc<Cell<u32>>, intended: Moment) {
    let live = context.enter();
    // How it went has been counted.
    let _ = transaction(&context, intended, &mut || {}).await;
    in_flight.set(in_flight.get() - 1);
    drop(live);
}

/// The open model over kept connections: arrivals go to whoever is free.
async fn hand_out(context: Rc<ThreadContext>, mut schedule: Schedule, pool: Rc<Pool>) {
    let _live = context.enter();
    let alarm = match Alarm::new() {
        Ok(alarm) => alarm,
        Err(error) => return context.record().failed_by_us(no_alarm(&error), Moment::now()),
    };
    let mut next = schedule.next();
    while !context.is_over() {
        let now = Moment::now();
        while let Some(start) = next.map(|start| context.start() + start).filter(|start| *start <= now) {
            next = schedule.next();
            match pool.put(start) {
                Arrived::Served => {}
                Arrived::Opening => context.record().held(),
                Arrived::Full => context.record().queued(),
                Arrived::Lost => context.record().never_begun(1),
            }
        }
        if let Some(start) = next {
            alarm.set(context.start() + start);
        }
        engine::wait(context.end()).await;
    }
    let left = pool.waiting() as u64 + never_looked_at(&context, next, schedule);
    context.record().never_begun(left);
}

/// Arrivals that were due before the end, and whose turn the thread slept or worked through.
fn never_looked_at(context: &ThreadContext, next: Option<Duration>, mut schedule: Schedule) -> u64 {
    let due = next.into_iter().chain(std::iter::from_fn(move || schedule.next()));
    due.take_while(|start| context.start() + *start < context.end()).count() as u64
}

fn no_alarm(error: &std::io::Error) -> Trouble {
    Trouble::new(Step::Connect, "out-of-files", format!("make the timer of the schedule: {error}"))
}
