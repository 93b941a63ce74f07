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

use crate::bench::{Bench, Caller, Parts, Phase};
use crate::opener::{Opener, Place, pause};
use crate::plan::{Model, Plan, Work};
use crate::pool::{Arrived, Pool};
use crate::sample::Interval;
use crate::sampler::Sampler;
use crate::schedule::Schedule;
use crate::standing;
use crate::transaction::{attempt, fail, transaction};
use crate::trouble::{Cause, Step, Trouble};
use crate::{generator::Share, http, http::Ask};

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

/// What a thread needs to know.
#[derive(Debug)]
pub(crate) struct Duty {
    pub(crate) plan: Plan,
    /// One for each member of the mix; one without a mix.
    pub(crate) settings: Vec<ClientSettings>,
    pub(crate) asks: Vec<Ask>,
    pub(crate) target: SocketAddr,
    pub(crate) share: Share,
    /// This thread's number, and how many there are here.
    pub(crate) thread: u32,
    pub(crate) threads: u32,
}

impl Duty {
    /// Part of the arrivals: number, and how many there are; `None` when it has no connection to serve them with. Workers
    /// with other numbers of threads have other parts of the same worker's share, and together they are the whole.
    fn part(&self) -> Option<(u64, u64)> {
        if self.connections() == 0 {
            return None;
        }
        // With fewer connections than workers or threads, the first ones have them, and all of the arrivals.
        let workers = self.share.of.min(self.plan.connections).max(1);
        let threads = self.threads.min(self.worker_connections()).max(1);
        let (workers, threads) = (u64::from(workers), u64::from(threads));
        Some((u64::from(self.share.index) + workers * u64::from(self.thread), workers * threads))
    }

    /// A number that no other thread of any worker has.
    fn stream(&self) -> u64 {
        u64::from(self.share.index) + u64::from(self.share.of.max(1)) * u64::from(self.thread)
    }

    fn worker_connections(&self) -> u32 {
        split(self.plan.connections, self.share.index, self.share.of)
    }

    /// Connections of this thread.
    fn connections(&self) -> u32 {
        split(self.worker_connections(), self.thread, self.threads)
    }

    /// Turns of the members that others take before this thread's first one. Of connections that stand, all threads of all
    /// workers share one order, so that the whole has the shares to within a connection; of connections that come and go
    /// nobody knows how many others have begun, and each thread keeps to the shares by itself, from another place on.
    fn turn(&self) -> u64 {
        let stand = matches!(self.plan.work, Work::Bulk { .. } | Work::Idle { .. });
        if !stand && !self.plan.keeps_connections() {
            return self.stream();
        }
        let workers = (0..self.share.index).map(|index| split(self.plan.connections, index, self.share.of));
        let mine = self.worker_connections();
        let threads = (0..self.thread).map(|thread| split(mine, thread, self.threads));
        workers.chain(threads).map(u64::from).sum()
    }
}

/// The part number `index` of `total`, when it is split into `of` parts as evenly as possible.
pub(crate) fn split(total: u32, index: u32, of: u32) -> u32 {
    let of = of.max(1);
    total / of + u32::from(index < total % of)
}

/// Runs a thread until its work is done or nobody gives orders any more.
pub(crate) fn run(
    duty: Duty,
    orders: Letterbox<Order>,
    answers: &SyncSender<Answer>,
    seconds: SyncSender<Interval>,
) {
    handfast_tls::warm_up();
    // A certificate is good for the name that was asked for; for the target's own when none was.
    let client = |settings: &ClientSettings| {
        Client::new(settings, settings.server_name.as_ref().unwrap_or(&duty.plan.target.host))
    };
    let clients = match duty.settings.iter().map(client).collect::<Result<Vec<Client>, _>>() {
        Ok(clients) => clients,
        Err(failure) => {
            let _ = answers.send(Answer::Ready(Err(failure.to_string())));
            return;
        }
    };
    let parts = Parts {
        plan: duty.plan.clone(),
        clients,
        asks: duty.asks.clone(),
        target: duty.target,
        sources: duty.plan.sources.clone(),
        stream: duty.stream(),
        turn: duty.turn(),
    };
    let answers = answers.clone();
    let start = move || {
        let several = parts.plan.requests().len();
        let sampler = Sampler::new(seconds).with(parts.plan.mix.len(), if several > 1 { several } else { 0 });
        let bench = Bench::new(parts, sampler);
        engine::spawn(Priority::Flow, take_orders(duty, bench, orders, answers));
    };
    // What it says is said by the channels that close with it.
    let _ = engine::run((), start);
}

async fn take_orders(duty: Duty, bench: Rc<Bench>, orders: Letterbox<Order>, answers: SyncSender<Answer>) {
    let mut orders = orders.open();
    let mut pool = None;
    let _ = answers.send(Answer::Ready(Ok(())));
    while let Ok(letters) = orders.receive().await {
        for order in letters {
            match order {
                Order::Rehearse(target) => {
                    bench.aim_at(target);
                    let outcome = rehearse(&bench).await;
                    let _ = answers.send(Answer::Rehearsed(outcome.map(|()| bench.exchange_took())));
                }
                Order::WarmUp(target) => {
                    bench.aim_at(target);
                    let wanted = fill_pools(&duty, &bench).await;
                    let tickets = bench.sides.iter().map(|side| side.client.tickets()).sum();
                    let _ = answers.send(Answer::Warm { tickets, wanted });
                }
                Order::Prepare(took) => pool = prepare(&duty, &bench, took, answers.clone()),
                Order::Begin(start, end) => begin(&duty, &bench, pool.take(), (start, end), answers.clone()),
                Order::Lease(until) => bench.lease(until),
                // Before the run has begun there is nothing to be measured.
                Order::Stop if matches!(bench.phase(), Phase::WarmUp | Phase::Preparing) => engine::stop(),
                Order::Stop => {
                    bench.end_now();
                    engine::wake_all();
                }
            }
        }
    }
    engine::stop();
}

/// One transaction of each member of the mix, and with each request, as far as there is time for it; at least one.
async fn rehearse(bench: &Rc<Bench>) -> Result<(), Trouble> {
    let until = bench.deadline();
    let members = bench.sides.len();
    for number in 0..members.max(bench.asks.len()) {
        if number > 0 && Moment::now() >= until {
            break;
        }
        rehearse_as(bench, number % members, number % bench.asks.len().max(1)).await?;
    }
    Ok(())
}

async fn rehearse_as(bench: &Rc<Bench>, member: usize, request: usize) -> Result<(), Trouble> {
    let caller = Caller { member, resume: false };
    let outcome = match bench.plan.work {
        Work::Http { .. } => http::rehearse(bench, caller, request).await,
        Work::Bulk { .. } | Work::Idle { .. } => standing::rehearse(bench, caller).await,
        _ => attempt(bench, caller, Moment::now(), &mut || {}).await,
    };
    outcome.map_err(|trouble| match bench.plan.mix.get(member) {
        Some(member) => Trouble { detail: format!("as `{}`: {}", member.name, trouble.detail), ..trouble },
        None => trouble,
    })
}

/// A ticket for each handshake that may be resuming at once, and a few more. In an open model that is what a quarter of
/// a second brings: by then the first ones have given new tickets. `part` is the member's share of all connections.
fn tickets_wanted(duty: &Duty, part: f64, share: f64) -> usize {
    const MOST: f64 = 1024.0;
    const AHEAD: f64 = 0.25;
    let connections = f64::from(duty.connections());
    if share == 0.0 || connections == 0.0 {
        return 0;
    }
    let parts = duty.part().map_or(1.0, |(_, parts)| parts as f64);
    let at_once = match duty.plan.model {
        Model::Closed => connections,
        Model::Open { rate, .. } => connections.min(rate / parts * AHEAD),
        Model::Ramp { from, to, .. } => connections.min(from.max(to) / parts * AHEAD),
    };
    (at_once * part * share + 8.0).ceil().min(MOST) as usize
}

/// Fills the pool of each member that resumes; how many tickets were wanted in all.
async fn fill_pools(duty: &Duty, bench: &Rc<Bench>) -> usize {
    let all: f64 = duty.plan.clients().map(|(share, _)| share).sum();
    let mut sum = 0;
    for (member, (share, tls)) in duty.plan.clients().enumerate() {
        let wanted = tickets_wanted(duty, share / all, tls.resume);
        sum += wanted;
        fill_pool(bench, member, wanted).await;
    }
    sum
}

/// Full handshakes until there are enough tickets; a target that gives none is not asked for ever.
async fn fill_pool(bench: &Rc<Bench>, member: usize, wanted: usize) {
    let client = &bench.sides[member].client;
    let mut in_vain = 0;
    while client.tickets() < wanted && in_vain < 3 {
        let before = client.tickets();
        if rehearse_as(bench, member, 0).await.is_err() || client.tickets() <= before {
            in_vain += 1;
        }
    }
}

/// Opens the connections that stand when the run begins, and says so when they do.
fn prepare(duty: &Duty, bench: &Rc<Bench>, took: Duration, answers: SyncSender<Answer>) -> Option<Rc<Pool>> {
    bench.prepare();
    let (plan, connections) = (&duty.plan, duty.connections());
    let part = duty.part();
    let Some((_, parts)) =
        part.filter(|_| plan.keeps_connections() || matches!(plan.work, Work::Bulk { .. }))
    else {
        let _ = answers.try_send(Answer::Prepared { standing: 0, wanted: 0 });
        return None;
    };
    if let Work::Bulk { .. } = plan.work {
        let opener = Opener::new(connections, false);
        let bulk = Rc::clone(bench);
        engine::spawn(
            Priority::Flow,
            Rc::clone(&opener).run(Rc::clone(bench), move |place| standing::bulk(Rc::clone(&bulk), place)),
        );
        engine::spawn(Priority::Flow, tell_when_ready(opener, plan.clone(), answers));
        return None;
    }
    let pool = Pool::new(plan, connections, parts, took);
    let (of_pool, of_bench) = (Rc::clone(&pool), Rc::clone(bench));
    let http = matches!(plan.work, Work::Http { .. });
    let kept = move |place| -> Pin<Box<dyn Future<Output = ()>>> {
        let (bench, pool) = (Rc::clone(&of_bench), Rc::clone(&of_pool));
        if http {
            Box::pin(http::kept(bench, pool, place))
        } else {
            Box::pin(standing::kept(bench, pool, place))
        }
    };
    engine::spawn(Priority::Flow, Rc::clone(&pool.opener).run(Rc::clone(bench), kept));
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
    duty: &Duty,
    bench: &Rc<Bench>,
    pool: Option<Rc<Pool>>,
    (start, end): (Moment, Moment),
    answers: SyncSender<Answer>,
) {
    bench.begin(start, end);
    let plan = &duty.plan;
    let connections = duty.connections();
    engine::spawn(Priority::Flow, oversee(Rc::clone(bench), answers));
    let Some((part, parts)) = duty.part() else { return };
    let schedule = Schedule::new(&plan.model, plan.duration, part, parts, plan.seed);
    let of_bench = Rc::clone(bench);
    match (&plan.work, schedule, pool) {
        (Work::Bulk { .. }, ..) => {}
        (_, schedule, Some(pool)) => {
            if let Some(schedule) = schedule {
                engine::spawn(Priority::Flow, hand_out(Rc::clone(bench), schedule, pool));
            }
        }
        (Work::Idle { .. }, ..) => {
            let idle = move |place| standing::idle(Rc::clone(&of_bench), place);
            engine::spawn(Priority::Flow, open_in_the_run(Rc::clone(bench), connections, idle));
        }
        (_, Some(schedule), None) => {
            engine::spawn(Priority::Flow, dispatch(Rc::clone(bench), schedule, connections));
        }
        (_, None, None) => {
            let slot = move |place| one_after_the_other(Rc::clone(&of_bench), place);
            engine::spawn(Priority::Flow, open_in_the_run(Rc::clone(bench), connections, slot));
        }
    }
}

/// Opens so many connections, each once, from the start of the run on.
async fn open_in_the_run<F: Future<Output = ()> + 'static>(
    bench: Rc<Bench>,
    connections: u32,
    connection: impl Fn(Place) -> F,
) {
    let _live = bench.enter();
    standing::wait_for_the_start(&bench).await;
    Opener::new(connections, false).run(bench, connection).await;
}

/// Ends seconds when they are over, and the thread when everything is.
async fn oversee(bench: Rc<Bench>, answers: SyncSender<Answer>) {
    bench.watch();
    if let Ok(alarm) = Alarm::new() {
        alarm.set(bench.start());
        standing::wait_for_the_start(&bench).await;
    } else {
        // Out of descriptors: the engine's own timer is a few milliseconds less exact.
        standing::wait_for_the_start(&bench).await;
    }
    let late_ns = i64::try_from(Moment::now().since(bench.start()).as_nanos()).unwrap_or(i64::MAX);
    let _ = answers.try_send(Answer::Started { late_ns });
    bench.sampler.borrow_mut().started();
    // Everybody else waits for the same moment by a coarser timer.
    engine::wake_all();
    loop {
        let now = Moment::now();
        bench.sampler.borrow_mut().roll(now);
        if now >= bench.end() && bench.phase() == Phase::Measured {
            bench.finish();
            engine::wake_all();
        }
        if bench.phase() == Phase::Ending && bench.live() == 0 {
            break;
        }
        let boundary = bench.sampler.borrow().boundary();
        let next = if bench.phase() == Phase::Measured { boundary.min(bench.end()) } else { boundary };
        engine::wait(next).await;
    }
    bench.sampler.borrow_mut().hand_over();
    // Bounded by the receiver: it takes what comes or goes away.
    while !bench.sampler.borrow().is_drained() {
        engine::sleep(Duration::from_millis(20)).await;
        bench.sampler.borrow_mut().hand_over_waiting();
    }
    engine::stop();
}

/// The closed model: the next transaction begins when the last one has ended. A target that fails each one is asked
/// less and less often.
async fn one_after_the_other(bench: Rc<Bench>, place: Place) {
    let _live = bench.enter();
    let (mut first, mut failures) = (Some(place), 0);
    while !bench.is_over() {
        let mut stands = || {
            if let Some(place) = &mut first {
                place.stands();
            }
        };
        let good = transaction(&bench, Moment::now(), &mut stands).await.is_ok();
        if let Some(mut place) = first.take() {
            if good {
                place.proved();
            } else {
                place.ended(false);
            }
        }
        failures = if good { 0 } else { failures + 1 };
        if failures > 0 {
            bench.pause(pause(failures)).await;
        }
    }
}

/// The open model: transactions begin when they are due, each on a connection of its own; those for which there is no
/// room wait, and count from when they were due.
async fn dispatch(bench: Rc<Bench>, mut schedule: Schedule, most: u32) {
    let _live = bench.enter();
    bench.watch();
    let alarm = match Alarm::new() {
        Ok(alarm) => alarm,
        Err(error) => return fail(&bench, no_alarm(&error)),
    };
    let in_flight = Rc::new(Cell::new(0));
    let mut due = VecDeque::new();
    let mut next = schedule.next();
    while !bench.is_over() {
        let now = Moment::now();
        while let Some(start) = next.map(|start| bench.start() + start).filter(|start| *start <= now) {
            due.push_back(start);
            next = schedule.next();
            bench.sampler.borrow_mut().tally.queued += u64::from(in_flight.get() + due.len() as u32 > most);
        }
        while in_flight.get() < most
            && let Some(intended) = due.pop_front()
        {
            in_flight.set(in_flight.get() + 1);
            engine::spawn(Priority::Flow, one(Rc::clone(&bench), Rc::clone(&in_flight), intended));
        }
        if let Some(start) = next {
            alarm.set(bench.start() + start);
        }
        engine::wait(bench.end()).await;
    }
    let left = due.len() as u64 + never_looked_at(&bench, next, schedule);
    bench.sampler.borrow_mut().tally.unserved += left;
}

async fn one(bench: Rc<Bench>, in_flight: Rc<Cell<u32>>, intended: Moment) {
    let live = bench.enter();
    // How it went has been counted.
    let _ = transaction(&bench, intended, &mut || {}).await;
    in_flight.set(in_flight.get() - 1);
    drop(live);
}

/// The open model over kept connections: arrivals go to whoever is free.
async fn hand_out(bench: Rc<Bench>, mut schedule: Schedule, pool: Rc<Pool>) {
    let _live = bench.enter();
    let alarm = match Alarm::new() {
        Ok(alarm) => alarm,
        Err(error) => return fail(&bench, no_alarm(&error)),
    };
    let mut next = schedule.next();
    while !bench.is_over() {
        let now = Moment::now();
        while let Some(start) = next.map(|start| bench.start() + start).filter(|start| *start <= now) {
            next = schedule.next();
            let tally = &mut bench.sampler.borrow_mut().tally;
            match pool.put(start) {
                Arrived::Served => {}
                Arrived::Opening => tally.held += 1,
                Arrived::Full => tally.queued += 1,
                Arrived::Lost => tally.unserved += 1,
            }
        }
        if let Some(start) = next {
            alarm.set(bench.start() + start);
        }
        engine::wait(bench.end()).await;
    }
    let left = pool.waiting() as u64 + never_looked_at(&bench, next, schedule);
    bench.sampler.borrow_mut().tally.unserved += left;
}

/// Arrivals that were due before the end, and whose turn the thread slept or worked through.
fn never_looked_at(bench: &Bench, next: Option<Duration>, mut schedule: Schedule) -> u64 {
    let due = next.into_iter().chain(std::iter::from_fn(move || schedule.next()));
    due.take_while(|start| bench.start() + *start < bench.end()).count() as u64
}

fn no_alarm(error: &std::io::Error) -> Trouble {
    Trouble::new(Step::Connect, Cause::OutOfFiles, format!("make the timer of the schedule: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrivals as Spacing;

    #[test]
    fn parts_add_up_to_the_whole() {
        for total in [0, 1, 7, 32, 1000] {
            for of in [1, 2, 3, 8] {
                assert_eq!((0..of).map(|index| split(total, index, of)).sum::<u32>(), total);
            }
        }
    }

    /// Arrivals that the threads of one of three workers begin, of a rate of 900 for ten seconds.
    fn begun(connections: u32, index: u32, threads: u32) -> usize {
        let arrivals = |thread| {
            let model = Model::Open { rate: 900.0, arrivals: Spacing::Fixed };
            let duty = Duty {
                plan: Plan { model, connections, ..Plan::default() },
                settings: Vec::new(),
                asks: Vec::new(),
                target: ([127, 0, 0, 1], 1).into(),
                share: Share { index, of: 3 },
                thread,
                threads,
            };
            let Some((part, parts)) = duty.part() else { return 0 };
            let schedule = Schedule::new(&duty.plan.model, duty.plan.duration, part, parts, 1);
            let mut schedule = schedule.expect("an open model");
            std::iter::from_fn(|| schedule.next()).count()
        };
        (0..threads).map(arrivals).sum()
    }

    #[test]
    fn standing_connections_of_all_workers_have_the_shares_together() {
        let member =
            |share| crate::plan::Member { name: String::new(), share, tls: crate::plan::Tls::default() };
        let weights = [70.0, 25.0, 5.0];
        let plan =
            Plan { connections: 40, exchanges: None, mix: weights.map(member).to_vec(), ..Plan::default() };
        let mut counts = [0; 3];
        for (index, threads) in [(0, 1), (1, 2), (2, 8)] {
            for thread in 0..threads {
                let duty = Duty {
                    plan: plan.clone(),
                    settings: Vec::new(),
                    asks: Vec::new(),
                    target: ([127, 0, 0, 1], 1).into(),
                    share: Share { index, of: 3 },
                    thread,
                    threads,
                };
                let mut turns = crate::turns::Turns::new(weights, duty.turn());
                (0..duty.connections()).for_each(|_| counts[turns.take()] += 1);
            }
        }
        assert_eq!(counts, [28, 10, 2]);
    }

    #[test]
    fn workers_with_different_threads_make_the_rate_together() {
        assert_eq!(begun(32, 0, 1) + begun(32, 1, 2) + begun(32, 2, 8), 9000);
    }

    #[test]
    fn no_arrival_belongs_to_a_thread_or_worker_without_a_connection() {
        for connections in 1..8 {
            let all: usize = (0..3).map(|index| begun(connections, index, 4)).sum();
            assert_eq!(all, 9000, "{connections} connections");
        }
    }
}
