//! Controls the generator threads of one machine: starts them, sends orders, collects results.
//!
//! In: orders, one for all of them. Out: their combined answers, with notes for the reader of the report.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{Sender, mailbox};
use handfast_report::units::{count, counted};
use handfast_tls::client::ClientSettings;

use crate::assignment::{Assignment, Share};
use crate::failure::{Cause, Step, StepFailure};
use crate::hint;
use crate::opener::PREPARATION_TIMEOUT;
use crate::plan::{Plan, Work};
use crate::requests::PreparedRequest;
use crate::sample::Interval;
use crate::thread::{self, Order, Reply};
use handfast_report::ToolError;

/// Seconds that a thread may be ahead of their merging.
const AHEAD: usize = 16;
/// Orders that may wait for a thread: each but leases is answered before the next.
const MAX_QUEUED_ORDERS: usize = 16;

/// All of them. Dropping it ends them.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: Vec<GeneratorThread>,
}

#[derive(Debug)]
struct GeneratorThread {
    orders: Sender<Order>,
    answers: Receiver<Reply>,
    seconds: Option<Receiver<Interval>>,
    handle: Option<JoinHandle<()>>,
}

impl Threads {
    /// Starts the plan's number of threads, or one for each core; each has its part of the share.
    ///
    /// **Errors**: no more threads, or TLS settings that do not fit together.
    pub(super) fn start(
        plan: &Plan,
        share: Share,
        settings: &[ClientSettings],
        requests: &[Arc<PreparedRequest>],
        target: SocketAddr,
    ) -> Result<Self, ToolError> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let threads = if plan.threads == 0 { cores } else { plan.threads.into() };
        let mut started = Self::default();
        for thread in 0..threads {
            let (plan, settings, requests) = (plan.clone(), settings.to_vec(), requests.to_vec());
            let assignment = Assignment { plan, settings, requests, target, share, thread, threads };
            started.all.push(GeneratorThread::start(assignment)?);
        }
        for thread in &started.all {
            match thread.answer(plan)? {
                Reply::Ready(Ok(())) => {}
                Reply::Ready(Err(why)) => return Err(ToolError::wrong_use(format!("set up TLS: {why}"))),
                other => return Err(out_of_step(&other)),
            }
        }
        Ok(started)
    }

    /// Number of threads.
    pub(super) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Sends each of them an order.
    ///
    /// **Errors**: the mailbox of one of them is full.
    pub(super) fn order(&self, order: impl Fn() -> Order) -> Result<(), ToolError> {
        self.all.iter().try_for_each(|thread| thread.order(order()))
    }

    /// Extends the lease of each of them.
    pub(super) fn lease(&self, until: Moment) {
        for thread in &self.all {
            // A thread that takes no orders has no lease, and stops by itself.
            let _ = thread.order(Order::Lease(until));
        }
    }

    /// Ends their work: nothing new begins.
    pub(super) fn stop(&self) {
        self.all.iter().for_each(GeneratorThread::stop);
    }

    /// The receivers of their seconds, in the threads' order; only once.
    pub(super) fn take_seconds(&mut self) -> Vec<Receiver<Interval>> {
        self.all.iter_mut().filter_map(|thread| thread.seconds.take()).collect()
    }

    /// Waits until all of them have ended; by how many nanoseconds the latest began late.
    pub(super) fn join(&mut self) -> i64 {
        let mut start_error_ns = 0;
        for thread in &mut self.all {
            if let Some(handle) = thread.handle.take() {
                let _ = handle.join();
            }
            for answer in thread.answers.try_iter() {
                if let Reply::Started { late_ns } = answer {
                    start_error_ns = late_ns.max(start_error_ns);
                }
            }
        }
        start_error_ns
    }

    /// Tries one transaction. Returns the first address with which it works, and the duration of its exchange.
    pub(super) fn rehearse(
        &self,
        plan: &Plan,
        addresses: &[SocketAddr],
        notes: &mut Vec<String>,
    ) -> Result<(SocketAddr, Duration), ToolError> {
        let Some(thread) = self.all.first() else { return Ok((addresses[0], Duration::ZERO)) };
        let mut first = None;
        // Twice: a target that fails occasionally should be measured, not refused.
        for address in addresses.iter().chain(addresses) {
            thread.order(Order::Rehearse(*address))?;
            match thread.answer(plan)? {
                Reply::Rehearsed(Ok(took)) => {
                    if let Some((refused, failure)) = first {
                        notes.push(format!(
                            "{address} was used: {refused} did not work ({})",
                            words(&failure)
                        ));
                    }
                    return Ok((*address, took));
                }
                Reply::Rehearsed(Err(failure)) => {
                    first.get_or_insert((*address, failure));
                }
                other => return Err(out_of_step(&other)),
            }
        }
        Err(first.map_or_else(
            || ToolError::failed("rehearse: nothing was tried"),
            |(address, failure)| refuse_rehearsal(plan, address, &failure),
        ))
    }

    /// Has every thread connect to these as well.
    ///
    /// **Errors**: the mailbox of one of them is full.
    pub(super) fn also(&self, targets: &[SocketAddr]) -> Result<(), ToolError> {
        match targets {
            [] => Ok(()),
            targets => self.order(|| Order::Also(targets.to_vec())),
        }
    }

    /// Fills each thread's pool of tickets.
    pub(super) fn warm_up(
        &self,
        plan: &Plan,
        target: SocketAddr,
        notes: &mut Vec<String>,
    ) -> Result<(), ToolError> {
        self.order(|| Order::WarmUp(target))?;
        let (mut tickets, mut required) = (0, 0);
        for thread in &self.all {
            match thread.answer(plan)? {
                Reply::Warm { tickets: got, required: needed } => {
                    tickets += got;
                    required += needed;
                }
                other => return Err(out_of_step(&other)),
            }
        }
        if required > 0 && tickets == 0 {
            notes.push("the target gave no tickets: nothing can be resumed".into());
        } else if tickets < required {
            notes.push(format!("the ticket pool started with {tickets} tickets instead of {required}"));
        }
        Ok(())
    }

    /// Opens the connections that stay open when the run begins.
    pub(super) fn open(&self, plan: &Plan, took: Duration, notes: &mut Vec<String>) -> Result<(), ToolError> {
        self.order(|| Order::Prepare(took))?;
        let (mut stood, mut requested) = (0, 0);
        for thread in &self.all {
            match thread.answer(plan)? {
                Reply::Prepared { standing, required: needed } => {
                    stood += standing;
                    requested += needed;
                }
                other => return Err(out_of_step(&other)),
            }
        }
        if stood < requested {
            notes.push(format!(
                "{} of {} were open when the run started: the target accepted no more of them, or not as fast",
                count(stood.into()),
                counted(requested.into(), "connection")
            ));
        }
        Ok(())
    }
}

impl Drop for Threads {
    /// Those that never began to measure end at once, those at work early.
    fn drop(&mut self) {
        self.stop();
    }
}

impl GeneratorThread {
    fn start(assignment: Assignment) -> Result<Self, ToolError> {
        let failed = |error| ToolError::failed(format!("start a generator thread: {error}"));
        let (orders, letters) = mailbox(MAX_QUEUED_ORDERS).map_err(failed)?;
        let (say, answers) = sync_channel(4);
        let (hand_over, seconds) = sync_channel(AHEAD);
        let handle = std::thread::Builder::new()
            .name(format!("load-{}", assignment.thread))
            .spawn(move || thread::run(assignment, letters, &say, hand_over))
            .map_err(failed)?;
        Ok(Self { orders, answers, seconds: Some(seconds), handle: Some(handle) })
    }

    /// Sends an order. A lease replaces the one before it.
    ///
    /// **Errors**: the thread's mailbox is full.
    fn order(&self, order: Order) -> Result<(), ToolError> {
        let lease = matches!(order, Order::Lease(_));
        let pointless = |waiting: &Order| lease && matches!(waiting, Order::Lease(_));
        self.orders.send_instead(order, pointless).map_err(|_| {
            ToolError::failed(format!(
                "send an order: {MAX_QUEUED_ORDERS} wait, and the thread does not read them"
            ))
        })
    }

    /// Ends the thread's work. The mailbox always has room: only leases can have accumulated, and the stop replaces them.
    fn stop(&self) {
        let pointless = |waiting: &Order| matches!(waiting, Order::Lease(_) | Order::Stop);
        let _ = self.orders.send_instead(Order::Stop, pointless);
    }

    fn answer(&self, plan: &Plan) -> Result<Reply, ToolError> {
        // Each step of a rehearsal is bounded by the timeout, and a pool is filled one by one.
        let timeout = plan.timeout * 4 + PREPARATION_TIMEOUT + Duration::from_secs(30);
        self.answers.recv_timeout(timeout).map_err(|_| {
            ToolError::failed(format!("prepare: a generator thread did not answer within {timeout:?}"))
        })
    }
}

fn out_of_step(answer: &Reply) -> ToolError {
    ToolError::failed(format!("prepare: a generator thread answered {answer:?} out of order (a bug)"))
}

/// Step and detail; a socket's own words begin with the operation, which may be the step itself.
fn words(failure: &StepFailure) -> String {
    let step = failure.step.name();
    if failure.detail.starts_with(step) {
        failure.detail.clone()
    } else {
        format!("{step}: {}", failure.detail)
    }
}

/// The refusal for a target with which not even one transaction works.
fn refuse_rehearsal(plan: &Plan, address: SocketAddr, failure: &StepFailure) -> ToolError {
    let what = format!("try one transaction with {address}: {}", words(failure));
    let refusal = ToolError::failed(what);
    if plan.target.plain
        && matches!(failure.cause, Cause::Http | Cause::ClosedEarly | Cause::Truncated | Cause::Deadline)
    {
        return refusal.hint("http:// is HTTP without TLS; if this port serves TLS, the target is https://…");
    }
    let echo = matches!(plan.work, Work::Exchange { echo: true, .. });
    if let Some(cure) = failure.hint.or_else(|| hint::client_certificate(plan, failure)) {
        return refusal.hint(cure);
    }
    match (failure.cause, failure.step) {
        (Cause::Refused, _) => refusal.hint("no process listens there; check that the service is running"),
        (Cause::Tls, Step::Handshake) => {
            refusal.hint("check that the service uses TLS, and that it accepts these versions, suites and groups")
        }
        (Cause::Alpn, _) => refusal.hint("try --http 1.1, which every web server supports"),
        (Cause::HttpStatus, _) => refusal.hint("--expect 2xx,3xx,404 counts answers with status 404 as success too"),
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
