//! One machine's share of a run: threads that make load, and their seconds merged.
//!
//! In: a plan, and which part of it is ours. Out: one [`Interval`] for each second, and the sum of all of them.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{Sender, mailbox};
use handfast_report::units::count;
use handfast_tls::client::ClientSettings;
use serde::{Deserialize, Serialize};

use crate::machine::{self, KernelCounters, MachineCpu};
use crate::opener::LONGEST_PREPARATION;
use crate::outcome::{Facts, Refusal, WorkerEnd};
use crate::plan::{Plan, Work};
use crate::sample::{Interval, ThreadUse};
use crate::thread::{self, Answer, Duty, Order};
use crate::trouble::{Cause, Step, Trouble};
use crate::words::things;
use crate::{hint, http, ports, target};

/// Seconds that a thread may be ahead of their merging.
const AHEAD: usize = 16;

/// Which part of the plan is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Our number, from 0.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

/// A share that is ready to start.
#[derive(Debug)]
pub struct Generator {
    facts: Facts,
    duration: Duration,
    crew: Crew,
}

/// A share that is being run.
#[derive(Debug)]
pub struct Running {
    crew: Crew,
    summing: Option<JoinHandle<Interval>>,
    before: KernelCounters,
}

/// The threads, from outside. Dropping it sends them home.
#[derive(Debug, Default)]
struct Crew {
    hands: Vec<Hand>,
}

#[derive(Debug)]
struct Hand {
    orders: Sender<Order>,
    answers: Receiver<Answer>,
    seconds: Option<Receiver<Interval>>,
    thread: Option<JoinHandle<()>>,
}

impl Generator {
    /// Resolves the target, reads certificates, checks descriptors and ports, does one transaction to see that it works
    /// at all, fills the ticket pool, and opens the connections that are to stand. Blocks: for a few times the plan's
    /// timeout and a minute at most.
    ///
    /// **Errors**: everything that would keep the run from meaning anything, said before it begins.
    pub fn prepare(plan: &Plan, share: Share) -> Result<Self, Refusal> {
        target::check(plan)?;
        let addresses = target::resolve(plan, plan.timeout)?;
        let (settings, asks) = (target::settings(plan)?, http::asks(plan)?);
        // More descriptors are welcome; whether there are enough is checked below.
        let _ = handfast_net::limits::raise_file_limit();
        let destinations: Vec<_> = addresses.iter().take(1).map(SocketAddr::ip).collect();
        let arithmetic = ports::arithmetic(plan, &destinations);
        if let Some(refusal) = ports::objection(plan, share, arithmetic.as_ref(), machine::file_limit()) {
            return Err(refusal);
        }
        let crew = Crew::hire(plan, share, &settings, &asks, addresses[0])?;
        let mut notes = Vec::new();
        let (chosen, took) = crew.rehearse(plan, &addresses, &mut notes)?;
        crew.warm_up(plan, chosen, &mut notes)?;
        crew.open(plan, took, &mut notes)?;
        let facts = Facts {
            machine: machine::facts(),
            addresses: vec![chosen.to_string()],
            threads: crew.hands.len() as u32,
            notes,
        };
        Ok(Self { facts, duration: plan.duration, crew })
    }

    /// What is known before the start.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Begins at `start`. Each second's measurement goes to `seconds` when it is over, in order and without gaps, the
    /// last ones after the plan's duration; then the channel is dropped. A receiver that is gone is no error.
    ///
    /// **Errors**: threads that could not be made.
    pub fn start(mut self, start: Moment, seconds: SyncSender<Interval>) -> Result<Running, Refusal> {
        let before = KernelCounters::read();
        let threads: Vec<_> = self.crew.hands.iter_mut().filter_map(|hand| hand.seconds.take()).collect();
        let summing = std::thread::Builder::new()
            .name("load-sum".into())
            .spawn(move || sum(&threads, &seconds))
            .map_err(|error| Refusal::failed(format!("start the thread that adds up: {error}")))?;
        for hand in &self.crew.hands {
            hand.orders.send(Order::Begin(start, start + self.duration));
        }
        Ok(Running { crew: self.crew, summing: Some(summing), before })
    }
}

impl Running {
    /// Nothing begins after `until`, unless this is said again before; by each thread's own look at the clock.
    pub fn lease(&self, until: Moment) {
        for hand in &self.crew.hands {
            hand.orders.send(Order::Lease(until));
        }
    }

    /// Ends the measured part now: what is in flight is finished, nothing new begins.
    pub fn stop(&self) {
        for hand in &self.crew.hands {
            hand.orders.send(Order::Stop);
        }
    }

    /// Waits for the end (the plan's duration, or [`Running::stop`], and what is in flight).
    pub fn join(mut self) -> WorkerEnd {
        // A thread that panicked outside of its tasks has said so; what the others measured still counts.
        let totals = self.summing.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let mut start_error_ns = 0;
        for hand in &mut self.crew.hands {
            if let Some(thread) = hand.thread.take() {
                let _ = thread.join();
            }
            for answer in hand.answers.try_iter() {
                if let Answer::Started { late_ns } = answer {
                    start_error_ns = late_ns.max(start_error_ns);
                }
            }
        }
        WorkerEnd { totals, start_error_ns, kernel: KernelCounters::read().moved_since(&self.before) }
    }
}

/// Merges what the threads measured, second by second, until all of them have ended.
fn sum(threads: &[Receiver<Interval>], seconds: &SyncSender<Interval>) -> Interval {
    let mut totals = Interval::default();
    let mut cpu = MachineCpu::new();
    let mut wanted = true;
    for second in 0.. {
        let mut merged = Interval { second, ..Interval::default() };
        let mut ended = 0;
        for thread in threads {
            match thread.recv() {
                Ok(interval) => merged.merge_parallel(&interval),
                Err(_) => {
                    ended += 1;
                    merged.threads.push(ThreadUse::default());
                }
            }
        }
        if ended == threads.len() {
            break;
        }
        merged.machine.push(cpu.share());
        totals.merge_later(&merged);
        wanted = wanted && seconds.send(merged).is_ok();
    }
    totals
}

impl Crew {
    fn hire(
        plan: &Plan,
        share: Share,
        settings: &[ClientSettings],
        asks: &[http::Ask],
        target: SocketAddr,
    ) -> Result<Self, Refusal> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let threads = if plan.threads == 0 { cores } else { plan.threads.into() };
        let mut crew = Self::default();
        for thread in 0..threads {
            let (plan, settings, asks) = (plan.clone(), settings.to_vec(), asks.to_vec());
            let duty = Duty { plan, settings, asks, target, share, thread, threads };
            crew.hands.push(Hand::hire(duty)?);
        }
        for hand in &crew.hands {
            match hand.answer(plan)? {
                Answer::Ready(Ok(())) => {}
                Answer::Ready(Err(why)) => return Err(Refusal::wrong_use(format!("set up TLS: {why}"))),
                other => return Err(out_of_step(&other)),
            }
        }
        Ok(crew)
    }

    /// Tries one transaction; of several addresses, the first with which it works is used. How long its exchange took.
    fn rehearse(
        &self,
        plan: &Plan,
        addresses: &[SocketAddr],
        notes: &mut Vec<String>,
    ) -> Result<(SocketAddr, Duration), Refusal> {
        let Some(hand) = self.hands.first() else { return Ok((addresses[0], Duration::ZERO)) };
        let mut first = None;
        // Twice: a target that fails now and then is to be measured, not refused.
        for address in addresses.iter().chain(addresses) {
            hand.orders.send(Order::Rehearse(*address));
            match hand.answer(plan)? {
                Answer::Rehearsed(Ok(took)) => {
                    if let Some((refused, trouble)) = first {
                        notes.push(format!(
                            "{address} was used: {refused} did not work ({})",
                            words(&trouble)
                        ));
                    }
                    return Ok((*address, took));
                }
                Answer::Rehearsed(Err(trouble)) => {
                    first.get_or_insert((*address, trouble));
                }
                other => return Err(out_of_step(&other)),
            }
        }
        Err(first.map_or_else(
            || Refusal::failed("rehearse: nothing was tried"),
            |(address, trouble)| refuse_rehearsal(plan, address, &trouble),
        ))
    }

    fn warm_up(&self, plan: &Plan, target: SocketAddr, notes: &mut Vec<String>) -> Result<(), Refusal> {
        for hand in &self.hands {
            hand.orders.send(Order::WarmUp(target));
        }
        let (mut tickets, mut wanted) = (0, 0);
        for hand in &self.hands {
            match hand.answer(plan)? {
                Answer::Warm { tickets: got, wanted: asked } => {
                    tickets += got;
                    wanted += asked;
                }
                other => return Err(out_of_step(&other)),
            }
        }
        if wanted > 0 && tickets == 0 {
            notes.push("the target gave no tickets: nothing can be resumed".into());
        } else if tickets < wanted {
            notes.push(format!("the ticket pool started with {tickets} tickets, {wanted} were wanted"));
        }
        Ok(())
    }
}

impl Crew {
    /// Opens the connections that stand when the run begins.
    fn open(&self, plan: &Plan, took: Duration, notes: &mut Vec<String>) -> Result<(), Refusal> {
        for hand in &self.hands {
            hand.orders.send(Order::Prepare(took));
        }
        let (mut stood, mut asked) = (0, 0);
        for hand in &self.hands {
            match hand.answer(plan)? {
                Answer::Prepared { standing, wanted } => {
                    stood += standing;
                    asked += wanted;
                }
                other => return Err(out_of_step(&other)),
            }
        }
        if stood < asked {
            notes.push(format!(
                "{} of {} were open when the run started: the target accepted no more of them, or not as fast",
                count(stood.into()),
                things(asked.into(), "connection")
            ));
        }
        Ok(())
    }
}

impl Drop for Crew {
    /// Threads that were never started go home; those at work end early.
    fn drop(&mut self) {
        for hand in &self.hands {
            hand.orders.send(Order::Stop);
        }
    }
}

impl Hand {
    fn hire(duty: Duty) -> Result<Self, Refusal> {
        let failed = |error| Refusal::failed(format!("start a generator thread: {error}"));
        let (orders, letters) = mailbox().map_err(failed)?;
        let (say, answers) = sync_channel(4);
        let (hand_over, seconds) = sync_channel(AHEAD);
        let thread = std::thread::Builder::new()
            .name(format!("load-{}", duty.thread))
            .spawn(move || thread::run(duty, letters, &say, hand_over))
            .map_err(failed)?;
        Ok(Self { orders, answers, seconds: Some(seconds), thread: Some(thread) })
    }

    fn answer(&self, plan: &Plan) -> Result<Answer, Refusal> {
        // Each step of a rehearsal is bounded by the timeout, and a pool is filled one by one.
        let patience = plan.timeout * 4 + LONGEST_PREPARATION + Duration::from_secs(30);
        self.answers.recv_timeout(patience).map_err(|_| {
            Refusal::failed(format!("prepare: a generator thread did not answer within {patience:?}"))
        })
    }
}

fn out_of_step(answer: &Answer) -> Refusal {
    Refusal::failed(format!("prepare: a generator thread answered {answer:?} out of turn; a fault of ours"))
}

/// Step and detail; a socket's own words begin with the operation, which may be the step itself.
fn words(trouble: &Trouble) -> String {
    let step = trouble.step.name();
    if trouble.detail.starts_with(step) {
        trouble.detail.clone()
    } else {
        format!("{step}: {}", trouble.detail)
    }
}

/// The words for a target with which not even one transaction works.
fn refuse_rehearsal(plan: &Plan, address: SocketAddr, trouble: &Trouble) -> Refusal {
    let what = format!("try one transaction with {address}: {}", words(trouble));
    let refusal = Refusal::failed(what);
    let echo = matches!(plan.work, Work::Exchange { echo: true, .. });
    if let Some(cure) = trouble.hint.or_else(|| hint::client_certificate(plan, trouble)) {
        return refusal.hint(cure);
    }
    match (trouble.cause, trouble.step) {
        (Cause::Refused, _) => refusal.hint("nothing listens there; is the service running?"),
        (Cause::Tls, Step::Handshake) => {
            refusal.hint("is it TLS that is spoken there, and does it accept these versions, suites and groups?")
        }
        (Cause::Alpn, _) => refusal.hint("--http 1.1 is what every server of pages speaks"),
        (Cause::NotTls, _) => refusal.hint("this port serves HTTP without TLS; the port for https is another one"),
        (Cause::Alert, Step::Handshake) => refusal.hint(
            "the target refused what was offered: check --tls, --suites, --groups, --sni, --alpn, or whether it \
             wants --client-certificate",
        ),
        (Cause::Deadline | Cause::ClosedEarly | Cause::Truncated | Cause::WrongBytes, Step::Exchange) if echo => refusal.hint(
            "the target must send back what it gets. --reply any takes other bytes, --handshake-only exchanges \
             none, and https://… asks for a page",
        ),
        _ => refusal,
    }
}
