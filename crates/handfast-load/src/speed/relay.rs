//! The bare TCP relay: only the socket work of a proxy.
//!
//! In: the kind of traffic. Out: the relay's CPU time for a connection or a byte. The relay is a thread with the engine,
//! the sockets and the relay of the proxy ([`handfast_leg::relay`], with two plain legs), without TLS, limits, logs and
//! metrics. Its clients and its backend are another thread's. Loopback only.
//!
//! A relay that is faster than its peers waits for them, and each wait costs system calls that a busy relay would not make. So it is
//! measured twice: with peers on another CPU, and with peers on the same CPU, where they and the relay alternate with many
//! ready connections each time. The smaller figure is the limit.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handfast_leg::{Leg, Progress, READ, Side};
use handfast_net::address::Address;
use handfast_net::clock::Moment;
use handfast_net::dial::Dialling;
use handfast_net::engine::{self, Priority, Woken, sleep, spawn, wait, yield_now};
use handfast_net::listen::{ListeningSocket, Sharing, listen};
use handfast_net::stream::{Read, SocketTimeouts, Stream, Write};
use handfast_tls::buffer::Scratch;
use handfast_tls::client::ClientSession;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

mod failure;
mod peers;

pub(super) use failure::EXCHANGE;
use failure::RelayFailure;
use peers::peers;

use super::timing::{cpu, summary};
use handfast_report::ToolError;
use handfast_report::speed::Time;

/// A leg that never gets a session.
type PlainLeg = Leg<Stream, ClientSession>;

/// Connections at once, for transactions and for bulk.
const CONNECTIONS: usize = 48;
const STREAMS: usize = 4;
/// Rounds, of which the median counts, and how long each takes.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(150);
/// Timeout of the whole measurement.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which a thread checks whether the measurement is over.
const LOOK: Duration = Duration::from_millis(20);
/// Loopback addresses of clients and backends: with one of each, the ports of connections that have just ended would run
/// short (a minute of TIME_WAIT for each; tcp(7)).
const ADDRESSES: u8 = 16;
/// Turns that one task may have before the others.
const TURNS: u32 = 16;

/// Kind of traffic that is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Connections with [`EXCHANGE`] bytes there and back.
    Transactions,
    /// [`EXCHANGE`] bytes there and back, repeatedly on kept connections.
    Exchanges,
    /// A few connections that carry as much as they can, both ways.
    Bulk,
}

impl Work {
    /// Transactions, exchanges or bytes that are done when this number of bytes was relayed, in either direction.
    fn units(self, bytes: usize) -> f64 {
        match self {
            // Counted when they end.
            Self::Transactions => 0.0,
            Self::Exchanges => bytes as f64 / (2 * EXCHANGE) as f64,
            Self::Bulk => bytes as f64,
        }
    }

    fn connections(self) -> usize {
        match self {
            Self::Transactions | Self::Exchanges => CONNECTIONS,
            Self::Bulk => STREAMS,
        }
    }
}

/// CPU time that the relay needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    /// CPU time for a transaction, an exchange or a byte.
    pub(super) time: Time,
    /// Share of the time in which the relay worked.
    pub(super) busy: f64,
    /// True if the peers shared its CPU.
    pub(super) one_cpu: bool,
}

/// Measures with peers on another CPU, if there is one, and on the same; the smaller figure.
///
/// **Errors**: no loopback, no descriptors, or peers that went away.
///
/// **Cost**: two seconds and a half; up to 60,000 connections on loopback, and as many sockets in TIME_WAIT.
pub(super) fn measure(work: Work) -> Result<Needed, ToolError> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let together = once(work, true)?;
    if cpus < 2 {
        return Ok(together);
    }
    let apart = once(work, false)?;
    Ok(if apart.time.ns < together.time.ns { apart } else { together })
}

fn failed(what: impl std::fmt::Display) -> ToolError {
    ToolError::failed(format!("speed --limit: bare relay: {what}"))
}

/// End of a measurement, shared by both threads.
struct Over {
    flag: AtomicBool,
    deadline: Moment,
}

impl Over {
    fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || Moment::now() >= self.deadline
    }

    fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

fn once(work: Work, one_cpu: bool) -> Result<Needed, ToolError> {
    let ours = listening(Ipv4Addr::LOCALHOST)?;
    let theirs = (1..=ADDRESSES).map(|last| listening(Ipv4Addr::new(127, 0, 0, last)));
    let theirs = theirs.collect::<Result<Vec<_>, _>>()?;
    let backends: Vec<Address> = theirs.iter().map(|(address, _)| address.clone()).collect();
    let relay_at = ours.0.clone();
    let over = std::sync::Arc::new(Over { flag: AtomicBool::new(false), deadline: Moment::now() + TIMEOUT });
    std::thread::scope(|scope| {
        let builder = |name: &str| std::thread::Builder::new().name(name.into());
        let shared = std::sync::Arc::clone(&over);
        let peers = builder("peers").spawn_scoped(scope, move || {
            let sockets = theirs.into_iter().map(|(_, socket)| socket).collect();
            serve(one_cpu, shared, |run| peers(run, work, &relay_at, sockets))
        });
        let peers = peers.map_err(failed)?;
        let shared = std::sync::Arc::clone(&over);
        let relay = builder("relay")
            .spawn_scoped(scope, move || serve(one_cpu, shared, |run| relays(run, work, ours.1, backends)));
        let relay = relay.inspect_err(|_| over.set()).map_err(failed)?;
        let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(failed("a thread panicked")))
        };
        let (relay, peers): (Result<Vec<Round>, _>, Result<Vec<Round>, _>) = (joined(relay), joined(peers));
        // An error of the peers causes a later one of the relay.
        peers?;
        let rounds = relay?;
        if rounds.len() < ROUNDS {
            return Err(failed("its peers were too slow to measure it"));
        }
        let each: Vec<f64> = rounds.iter().map(|round| round.cpu / round.units).collect();
        let busy = summary(&rounds.iter().map(|round| round.cpu / round.wall).collect::<Vec<_>>()).ns;
        Ok(Needed { time: summary(&each), busy: busy.min(1.0), one_cpu })
    })
}

fn listening(at: Ipv4Addr) -> Result<(Address, ListeningSocket), ToolError> {
    let timeouts = SocketTimeouts { unacknowledged: Duration::ZERO, keepalive: Duration::ZERO };
    let address = Address::Ip(SocketAddr::new(IpAddr::V4(at), 0));
    let (address, mut sockets) = listen(&address, 0o600, 1, timeouts, Sharing::Alone)
        .map_err(|error| failed(format!("listen on {at}: {error}")))?;
    let socket = sockets.pop().ok_or_else(|| failed("no socket to listen on"))?;
    Ok((address, socket))
}

/// A part of the time, as the relay saw it.
#[derive(Clone, Copy, Debug)]
struct Round {
    cpu: f64,
    wall: f64,
    /// Transactions, exchanges or bytes.
    units: f64,
}

/// State that the tasks of one thread share.
struct Run {
    over: std::sync::Arc<Over>,
    failure: RefCell<Option<String>>,
    scratch: RefCell<Scratch>,
    /// Transactions or bytes so far, and as they were when the present round began.
    units: Cell<f64>,
    begun: Cell<Option<(Moment, f64, f64)>>,
    rounds: RefCell<Vec<Round>>,
}

impl Run {
    /// Records an error; only the first one is reported, and none that happens at the end.
    fn record_error(&self, what: impl std::fmt::Display) {
        if !self.over.is_over() {
            self.failure.borrow_mut().get_or_insert_with(|| what.to_string());
            self.over.set();
        }
        engine::stop();
    }

    /// Counts relayed transactions or bytes, and ends a round when it is time. The first round is for warming up.
    fn relayed(&self, units: f64) {
        self.units.set(self.units.get() + units);
        let now = engine::now();
        let Some((since, cpu_then, units_then)) = self.begun.get() else {
            return self.begun.set(Some((now, cpu(), self.units.get())));
        };
        if now.since(since) < ROUND {
            return;
        }
        let used = cpu();
        let wall = now.since(since).as_nanos() as f64;
        self.begun.set(Some((now, used, self.units.get())));
        let mut rounds = self.rounds.borrow_mut();
        rounds.push(Round { cpu: used - cpu_then, wall, units: self.units.get() - units_then });
        if rounds.len() > ROUNDS {
            rounds.remove(0);
            self.over.set();
            engine::stop();
        }
    }
}

/// Runs an engine with these tasks until all is over.
fn serve(
    one_cpu: bool,
    over: std::sync::Arc<Over>,
    start: impl FnOnce(&Rc<Run>),
) -> Result<Vec<Round>, ToolError> {
    if one_cpu {
        on_one_cpu();
    }
    let run = Rc::new(Run {
        over,
        failure: RefCell::default(),
        scratch: RefCell::new(Scratch::new(READ)),
        units: Cell::new(0.0),
        begun: Cell::new(None),
        rounds: RefCell::default(),
    });
    let ran = engine::run((), || {
        let watched = Rc::clone(&run);
        spawn(Priority::Flow, async move {
            while !watched.over.is_over() {
                sleep(LOOK).await;
            }
            engine::stop();
        });
        start(&run);
    });
    // Whatever ended this thread ends the other.
    run.over.set();
    ran.map_err(failed)?;
    match run.failure.take() {
        Some(what) => Err(failed(what)),
        None => Ok(run.rounds.take()),
    }
}

/// Keeps this thread on the first CPU that it may use. Where that is not allowed, the figure is that of two CPUs.
fn on_one_cpu() {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let Some(first) = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)) else { return };
    let mut only = CpuSet::new();
    only.set(first);
    let _ = sched_setaffinity(None, &only);
}

// The relay.

fn relays(run: &Rc<Run>, work: Work, socket: ListeningSocket, backends: Vec<Address>) {
    let run = Rc::clone(run);
    spawn(Priority::Flow, async move {
        let mut listener = socket.open();
        let mut turns = (0..backends.len()).cycle();
        loop {
            loop {
                match listener.try_accept() {
                    Ok(Some((client, _))) => {
                        let backend = backends[turns.next().unwrap_or(0)].clone();
                        spawn(Priority::Flow, connection(Rc::clone(&run), work, client, backend));
                    }
                    Ok(None) => break,
                    Err(fault) => return run.record_error(format!("accept: {fault}")),
                }
            }
            if let Err(error) = listener.ready(Moment::NEVER).await {
                return run.record_error(format!("wait for connections: {error}"));
            }
        }
    });
}

/// One connection: its first bytes, its backend, bytes both ways, its end.
async fn connection(run: Rc<Run>, work: Work, client: Stream, backend: Address) {
    match relay(&run, work, Leg::plain(Side::Client, client), &backend).await {
        Ok(()) if work == Work::Transactions => run.relayed(1.0),
        Ok(()) => {}
        Err(failure) => run.record_error(failure),
    }
}

async fn relay(run: &Run, work: Work, mut client: PlainLeg, backend: &Address) -> Result<(), RelayFailure> {
    let deadline = run.over.deadline;
    let first = first_bytes(run, &mut client).await?;
    let mut dialling = Dialling::start(backend).map_err(RelayFailure::socket("connect"))?;
    let sent = loop {
        match dialling.advance(&first).map_err(RelayFailure::socket("connect"))? {
            Some(sent) => break sent,
            None => pause(deadline).await?,
        }
    };
    let mut backend: PlainLeg = Leg::plain(Side::Backend, dialling.into_stream()).dialled(sent);
    if work != Work::Transactions {
        backend.no_delay();
    }
    backend.socket_mut().expect_later().map_err(RelayFailure::socket("wait for a backend"))?;
    backend.keep(&first[sent..]);
    loop {
        let mut turns = 0;
        while turns < TURNS {
            match turn(run, work, &mut client, &mut backend)? {
                Progress::Blocked => break,
                Progress::Moved => turns += 1,
                Progress::Finished => {
                    // Closing sends the second end, as in the proxy.
                    backend.socket_mut().finish_at_drop();
                    client.socket_mut().finish_at_drop();
                    return Ok(());
                }
            }
        }
        if turns == TURNS { yield_now().await } else { pause(deadline).await? }
    }
}

/// The first bytes of the client: the proxy reads a hello and sends a flight at this point.
async fn first_bytes(run: &Run, client: &mut PlainLeg) -> Result<Vec<u8>, RelayFailure> {
    loop {
        let read = {
            let scratch = &mut *run.scratch.borrow_mut();
            match client.socket_mut().try_read(&mut scratch.received) {
                Ok(Read::Bytes(bytes)) => return Ok(scratch.received[..bytes].to_vec()),
                other => other.map_err(RelayFailure::socket("read from a client"))?,
            }
        };
        match read {
            Read::End => return Err(RelayFailure::Ended("a client ended before it sent anything")),
            _ => pause(run.over.deadline).await?,
        }
    }
}

/// One round of both directions by the proxy's own relay; counts what was passed on.
fn turn(
    run: &Run,
    work: Work,
    client: &mut PlainLeg,
    backend: &mut PlainLeg,
) -> Result<Progress, RelayFailure> {
    let before = client.received() + backend.received();
    let scratch = &mut *run.scratch.borrow_mut();
    // Nothing is batched here, so the time does not matter.
    let turn = handfast_leg::relay::turn(client, backend, scratch, Moment::NEVER);
    let turn = turn.map_err(RelayFailure::Leg)?;
    let bytes = client.received() + backend.received() - before;
    if work != Work::Transactions && bytes > 0 {
        run.relayed(work.units(bytes as usize));
    }
    Ok(turn)
}

fn write(to: &mut Stream, bytes: &[u8]) -> Result<usize, RelayFailure> {
    match to.try_write(bytes).map_err(RelayFailure::socket("write"))? {
        Write::Bytes(written) => Ok(written),
        Write::Blocked => Ok(0),
    }
}

async fn pause(deadline: Moment) -> Result<(), RelayFailure> {
    match wait(deadline).await {
        Woken::Event => Ok(()),
        Woken::Deadline => Err(RelayFailure::Silent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_and_bytes_are_relayed_and_counted() {
        for work in [Work::Transactions, Work::Exchanges, Work::Bulk] {
            for one_cpu in [true, false] {
                let needed = once(work, one_cpu).unwrap_or_else(|refusal| panic!("{work:?}: {refusal}"));
                assert!(needed.time.ns > 0.0 && needed.busy > 0.0 && needed.busy <= 1.0, "{needed:?}");
                assert_eq!(needed.one_cpu, one_cpu);
            }
        }
    }

    #[test]
    fn trouble_of_one_thread_ends_the_other() {
        let over =
            std::sync::Arc::new(Over { flag: AtomicBool::new(false), deadline: Moment::now() + TIMEOUT });
        let ended = serve(false, std::sync::Arc::clone(&over), |run| run.record_error("a made-up fault"));
        assert_eq!(ended.expect_err("it failed").what, "speed --limit: bare relay: a made-up fault");
        let begun = Moment::now();
        let other = std::thread::Builder::new().spawn(move || serve(false, over, |_| {})).expect("a thread");
        assert!(other.join().expect("no panic").expect("no error of the other thread").is_empty());
        assert!(Moment::now().since(begun) < TIMEOUT);
    }
}
