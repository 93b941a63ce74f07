//! Times an operation: CPU time of the thread, in several repetitions of a suitable length, on one core and on all.
//!
//! In: a [`Subject`]. Out: medians with their spread. CPU time instead of wall-clock time excludes the time of other programs and
//! virtual machines, though not their effect on caches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use handfast_report::speed::Time;
use handfast_tls::session::Failure;
use rustix::time::{ClockId, clock_gettime};

use super::operations::handshake::{BATCH, Flow, Pair, Side};
use super::operations::{Act, Keys, Operation};
use handfast_report::ToolError;

/// Repetitions, of which the median counts.
pub(super) const REPETITIONS: usize = 7;
/// Time of one repetition in nanoseconds, with its preparation.
const REPETITION: f64 = 18e6;
/// Most that is prepared at once: it takes memory.
const MAX_BATCH: usize = 1 << 20;
/// Time for which all cores are measured.
const TOGETHER: Duration = Duration::from_millis(120);
/// Time for which a core works while it waits for the others to begin.
const GATHERING: Duration = Duration::from_secs(5);

/// CPU time of this thread, in nanoseconds.
pub(super) fn cpu() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    // Exact for more than a hundred days.
    used.tv_sec as f64 * 1e9 + used.tv_nsec as f64
}

/// Times of some runs, in nanoseconds for all of them together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Time of the subject.
    pub(super) ns: f64,
    /// The other side's part.
    pub(super) other: f64,
}

/// An operation to time.
pub(super) trait Subject {
    /// Runs it this number of times, and times it without the preparation.
    fn run(&mut self, times: usize) -> Result<Taken, ToolError>;

    /// Number of things that one run does.
    fn units(&self) -> f64 {
        1.0
    }
}

/// Time of one core for one thing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) time: Time,
    /// The other side's part.
    pub(super) other: Time,
}

/// Share of a CPU that the measuring thread got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    cpu: f64,
    wall: f64,
}

impl Watch {
    /// From 0 to 1; 1 while nothing was watched.
    pub(super) fn share(&self) -> f64 {
        if self.wall > 0.0 { (self.cpu / self.wall).min(1.0) } else { 1.0 }
    }
}

/// A subject that is timed in several steps.
pub(super) struct Timed {
    subject: Box<dyn Subject>,
    /// Number of runs in a repetition.
    times: usize,
    taken: Vec<Taken>,
}

impl Timed {
    /// Finds out how many times fit a repetition.
    pub(super) fn new(mut subject: Box<dyn Subject>) -> Result<Self, ToolError> {
        let times = calibrate(&mut *subject)?;
        Ok(Self { subject, times, taken: Vec::with_capacity(REPETITIONS) })
    }

    /// One more repetition.
    pub(super) fn repeat(&mut self, watch: &mut Watch) -> Result<(), ToolError> {
        let (begun, before) = (Instant::now(), cpu());
        self.taken.push(self.subject.run(self.times)?);
        watch.cpu += cpu() - before;
        watch.wall += begun.elapsed().as_nanos() as f64;
        Ok(())
    }

    /// Summary of the repetitions.
    pub(super) fn sample(&self) -> Sample {
        let each = self.times as f64 * self.subject.units();
        let of = |part: fn(&Taken) -> f64| {
            summary(&self.taken.iter().map(|taken| part(taken) / each).collect::<Vec<_>>())
        };
        Sample { time: of(|taken| taken.ns), other: of(|taken| taken.other) }
    }
}

/// Times a subject on this thread, one repetition after the other.
pub(super) fn one(subject: Box<dyn Subject>, watch: &mut Watch) -> Result<Sample, ToolError> {
    let mut timed = Timed::new(subject)?;
    for _ in 0..REPETITIONS {
        timed.repeat(watch)?;
    }
    Ok(timed.sample())
}

/// Number of runs that fit a repetition; doubles until a tenth of it is used, so that the estimate is a good one.
fn calibrate(subject: &mut dyn Subject) -> Result<usize, ToolError> {
    let mut times = 1;
    loop {
        let before = cpu();
        subject.run(times)?;
        let took = (cpu() - before).max(1.0);
        if took >= REPETITION / 10.0 || times >= MAX_BATCH {
            let fitting = times as f64 * REPETITION / took;
            return Ok((fitting as usize).clamp(1, MAX_BATCH));
        }
        times *= 2;
    }
}

/// Median, and half the distance between the quartiles as a share of it.
pub(super) fn summary(values: &[f64]) -> Time {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * sorted.len().saturating_sub(1) as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        match (sorted.get(low), sorted.get(high)) {
            (Some(low), Some(high)) => low + (high - low) * place.fract(),
            _ => 0.0,
        }
    };
    let median = at(0.5);
    let spread = if median > 0.0 { (at(0.75) - at(0.25)) / 2.0 / median } else { 0.0 };
    Time { ns: median, spread }
}

/// Times one subject on each core, all at once; how many things they do a second together.
pub(super) fn all(
    make: &(dyn Fn() -> Result<Box<dyn Subject>, ToolError> + Sync),
    cores: u32,
) -> Result<f64, ToolError> {
    let ready = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let start = |core: u32| {
            let thread = std::thread::Builder::new().name(format!("core {core}"));
            let work = || together(make, &ready, cores);
            thread
                .spawn_scoped(scope, work)
                .map_err(|error| ToolError::failed(format!("speed: start a thread for core {core}: {error}")))
        };
        let threads: Vec<_> = (0..cores).map(start).collect::<Result<_, _>>()?;
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(ToolError::failed("speed: a measuring thread panicked")))
        });
        joined.sum()
    })
}

/// One of them: works until all others work too, and only then measures.
fn together(
    make: &(dyn Fn() -> Result<Box<dyn Subject>, ToolError> + Sync),
    ready: &AtomicU32,
    cores: u32,
) -> Result<f64, ToolError> {
    let mut subject = make()?;
    let times = (calibrate(&mut *subject)? / 4).max(1);
    ready.fetch_add(1, Ordering::Relaxed);
    let begun = Instant::now();
    while ready.load(Ordering::Relaxed) < cores && begun.elapsed() < GATHERING {
        subject.run(times)?;
    }
    let (mut ns, mut count) = (0.0, 0.0);
    let begun = Instant::now();
    while begun.elapsed() < TOGETHER {
        ns += subject.run(times)?.ns;
        count += times as f64 * subject.units();
    }
    Ok(if ns > 0.0 { count * 1e9 / ns } else { 0.0 })
}

/// A single operation.
pub(super) fn act(act: Act, keys: &Keys) -> Result<Box<dyn Subject>, ToolError> {
    struct Single(Box<dyn Operation>);

    impl Subject for Single {
        fn run(&mut self, times: usize) -> Result<Taken, ToolError> {
            self.0.prepare(times).map_err(refusal)?;
            let before = cpu();
            for _ in 0..times {
                self.0.run().map_err(refusal)?;
            }
            Ok(Taken { ns: cpu() - before, other: 0.0 })
        }
    }

    Ok(Box::new(Single(act.ready(keys).map_err(refusal)?)))
}

/// A stop watch for the two sides of sessions in memory.
struct Laps {
    last: f64,
    taken: Taken,
}

impl Laps {
    fn new() -> Self {
        Self { last: cpu(), taken: Taken::default() }
    }

    fn lap(&mut self, side: Side) {
        let now = cpu();
        match side {
            Side::Server => self.taken.ns += now - self.last,
            Side::Client => self.taken.other += now - self.last,
            Side::Neither => {}
        }
        self.last = now;
    }
}

/// Connections in memory: the server's side is measured, the client's is the other.
pub(super) fn pair(pair: Pair) -> Box<dyn Subject> {
    struct Connections(Pair);

    impl Subject for Connections {
        fn run(&mut self, times: usize) -> Result<Taken, ToolError> {
            let mut laps = Laps::new();
            for _ in 0..times {
                self.0.batch(&mut |side| laps.lap(side)).map_err(refusal)?;
            }
            Ok(laps.taken)
        }

        fn units(&self) -> f64 {
            BATCH as f64
        }
    }

    Box::new(Connections(pair))
}

/// Bytes in memory: `size` each way is one time.
pub(super) fn flow(flow: Flow, size: usize) -> Box<dyn Subject> {
    struct Bytes(Flow, usize);

    impl Subject for Bytes {
        fn run(&mut self, times: usize) -> Result<Taken, ToolError> {
            let mut laps = Laps::new();
            for _ in 0..times {
                self.0.carry(&mut |side| laps.lap(side)).map_err(refusal)?;
            }
            Ok(laps.taken)
        }

        fn units(&self) -> f64 {
            2.0 * self.1 as f64
        }
    }

    Box::new(Bytes(flow, size))
}

/// The library's fault, as a reason to give up.
pub(super) fn refusal(failure: Failure) -> ToolError {
    ToolError::failed(format!("speed: {failure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_repetition() {
        let time = summary(&[10.0, 11.0, 900.0, 9.0, 10.0]);
        assert_eq!((time.ns, time.spread), (10.0, 0.05));
        assert_eq!(summary(&[7.0]), Time { ns: 7.0, spread: 0.0 });
        assert_eq!(summary(&[]), Time::default());
        assert_eq!(summary(&[1.0, 2.0]).ns, 1.5);
    }

    /// Counts what it is asked for, and takes some time.
    struct Counter(usize);

    impl Subject for Counter {
        fn run(&mut self, times: usize) -> Result<Taken, ToolError> {
            self.0 += times;
            let before = cpu();
            for number in 0..times * 1_000 {
                std::hint::black_box(number);
            }
            Ok(Taken { ns: cpu() - before, other: 3.0 * times as f64 })
        }
    }

    #[test]
    fn repetitions_are_of_a_size_that_can_be_measured() {
        let mut watch = Watch::default();
        assert_eq!(watch.share(), 1.0);
        let timed = Timed::new(Box::new(Counter(0))).expect("it cannot fail");
        assert!(timed.times > 1, "one is too short: {}", timed.times);
        let sample = one(Box::new(Counter(0)), &mut watch).expect("it cannot fail");
        assert!(sample.time.ns > 0.0, "{sample:?}");
        assert!((sample.other.ns - 3.0).abs() < 1e-9, "for one: {sample:?}");
        assert!(watch.share() > 0.0 && watch.share() <= 1.0);
    }

    #[test]
    fn cores_add_up_and_a_fault_of_one_ends_all() {
        let make = || Ok(Box::new(Counter(0)) as Box<dyn Subject>);
        assert!(all(&make, 2).expect("it cannot fail") > 0.0);
        let runs = AtomicU32::new(0);
        let make = || match runs.fetch_add(1, Ordering::Relaxed) {
            0 => Err(ToolError::failed("no")),
            _ => Ok(Box::new(Counter(0)) as Box<dyn Subject>),
        };
        assert_eq!(all(&make, 1).expect_err("the first fails").what, "no");
    }
}
