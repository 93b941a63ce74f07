//! Measures the TLS speed of this CPU, and predicts that of a server.
//!
//! In: what to measure. Out: a report: single operations, handshakes in memory, and predictions with their arithmetic.
//! Next: `handfast_report::speed` makes text and JSON of it.
//!
//! | question | file |
//! |---|---|
//! | how long a thing takes, on one core and on all | `timing.rs` |
//! | single operations, and handshakes in memory | `operations.rs` |
//! | what follows from single operations | `predict.rs` |
//! | what no proxy can fall below | `limit.rs`, with the bare relay in `relay.rs` |
//! | what OpenSSL does here | `openssl.rs` |

mod limit;
mod openssl;
pub mod operations;
mod predict;
mod relay;
mod subject;
mod timing;

use std::path::PathBuf;
use std::time::SystemTime;

use handfast_pki::load::certificate_kind;
use handfast_report::speed::{AllCores, Handshake, Missing, Operation, SCHEMA, SpeedReport, Time, What};
use handfast_text::calendar::Utc;

use crate::machine::{self, MachineCpu};
use handfast_report::ToolError;
use operations::handshake::Pair;
use operations::{Act, Cipher, Group, Keys, Signature};
use subject::{File, SIZES, kind};
use timing::{REPETITIONS, Subject, Timed, Watch};

/// Below this share of a CPU for the measuring thread, a note reports the disturbance.
const UNDISTURBED: f64 = 0.95;
/// CPUs that other programs may use without a note.
const OTHERS: f64 = 0.15;
/// Share of stolen CPU time without a note.
const STOLEN: f64 = 0.01;

/// The requested measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeedSettings {
    /// Certificates in PEM to predict for.
    pub certificates: Vec<PathBuf>,
    /// True to measure the combined limit.
    pub limit: bool,
    /// True to run `openssl speed` too.
    pub openssl: bool,
}

/// The progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The subject that is measured now.
    pub now: &'a str,
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub steps: usize,
}

/// Handshakes that are measured in memory; the first is what `the rest` of a full one is taken from, and the first resumed
/// one is what that of a resumed one is taken from.
const HANDSHAKES: [(Option<Signature>, Group); 6] = [
    (Some(Signature::Ed25519), Group::X25519),
    (Some(Signature::EcdsaP256), Group::X25519),
    (Some(Signature::EcdsaP256), Group::X25519Mlkem768),
    (Some(Signature::Rsa2048), Group::X25519),
    (None, Group::X25519),
    (None, Group::X25519Mlkem768),
];

/// Measures everything requested, and calls `progress` before each step.
///
/// **Errors**: a certificate that cannot be read (the operator's to fix); no `openssl` for the comparison; a fault of
/// the library.
///
/// **Cost**: about twelve seconds of all cores; the limit takes some eight more, the comparison about half a minute.
pub fn run(
    settings: &SpeedSettings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<SpeedReport, ToolError> {
    let files = certificates(&settings.certificates)?;
    let other = settings.openssl.then(openssl::version).transpose()?;
    let mut run = Run::new(settings, progress);
    let keys = run.keys()?;
    run.measure(&keys)?;
    run.report.predictions = predict::handshakes(&run.report, &files);
    run.report.bulk = predict::bulk(&run.report);
    if settings.limit {
        run.report_step("the limit: library and bare relay");
        run.report.limit = Some(limit::measure(&keys)?);
    }
    run.notes();
    if let Some(version) = other {
        let rows = openssl::compare(&run.report.operations, &mut |what| run.progress.report(what))?;
        run.report.compared = Some(handfast_report::speed::Compared { with: version, rows });
    }
    Ok(run.report)
}

/// Reads all of them before anything is measured.
fn certificates(paths: &[PathBuf]) -> Result<Vec<File>, ToolError> {
    let mut wrong = Vec::new();
    let mut files = Vec::new();
    for path in paths {
        let file = path.display();
        match certificate_kind(path).map(|kind| (kind, Signature::of(kind))) {
            Ok((_, Some(signature))) => files.push((file.to_string(), signature)),
            Ok((kind, None)) => {
                let known = Signature::ALL.map(Signature::name).join(", ");
                let kind = kind.name();
                wrong.push(format!("speed: certificate {file}: its key is {kind}, expected one of {known}"));
            }
            Err(finding) => {
                let hint = finding.hint.as_ref().map_or(String::new(), |hint| format!("\nhint: {hint}"));
                wrong.push(format!("speed: certificate {finding}{hint}"));
            }
        }
    }
    if wrong.is_empty() { Ok(files) } else { Err(ToolError::wrong_use(wrong.join("\n"))) }
}

/// Reports the progress.
struct Steps<'a> {
    on_progress: &'a mut dyn FnMut(Progress<'_>),
    done: usize,
    steps: usize,
}

impl Steps<'_> {
    fn report(&mut self, now: &str) {
        (self.on_progress)(Progress { now, done: self.done.min(self.steps), steps: self.steps });
        self.done += 1;
    }
}

struct Run<'a> {
    progress: Steps<'a>,
    report: SpeedReport,
    watch: Watch,
    machine: MachineCpu,
    /// Share of all CPUs that worked while one core was measured.
    busy: f64,
}

/// A row of the report that is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    /// A single operation, and whether it is measured on all cores too.
    Act(Act, bool),
    /// A handshake in memory, on one core and on all.
    Handshake(Option<Signature>, Group),
}

/// All of them, in the order of the report.
fn rows() -> Vec<Row> {
    let signatures = Signature::ALL
        .into_iter()
        .flat_map(|kind| [Row::Act(Act::Sign(kind), true), Row::Act(Act::Verify(kind), false)]);
    let groups = Group::ALL.into_iter().flat_map(|group| {
        let mine = [Act::Share(group), Act::Agree(group)].map(|act| Row::Act(act, false));
        mine.into_iter().chain([Row::Act(Act::Answer(group), true)])
    });
    let ciphers = Cipher::ALL.into_iter().flat_map(|cipher| {
        SIZES.into_iter().flat_map(move |size| {
            let full = size == SIZES[0];
            [Row::Act(Act::Seal(cipher, size), full), Row::Act(Act::Open(cipher, size), false)]
        })
    });
    let hashes = SIZES.into_iter().map(|size| Row::Act(Act::Hash(size), size == SIZES[0]));
    let handshakes = HANDSHAKES.map(|(signature, group)| Row::Handshake(signature, group));
    signatures.chain(groups).chain(ciphers).chain(hashes).chain(handshakes).collect()
}

impl Row {
    /// Creates the subject to time.
    fn subject(self, keys: &Keys) -> Result<Box<dyn Subject>, ToolError> {
        match self {
            Self::Act(act, _) => timing::act(act, keys),
            Self::Handshake(signature, group) => {
                let pair = Pair::new(kind(signature, group, 0), keys, SystemTime::now());
                Ok(timing::pair(pair.map_err(timing::refusal)?))
            }
        }
    }

    const fn on_all(self) -> bool {
        match self {
            Self::Act(_, on_all) => on_all,
            Self::Handshake(..) => true,
        }
    }

    /// The progress message.
    fn words(self) -> String {
        match self {
            Self::Act(act, _) => {
                let (what, name, bytes) = names(act);
                let size = bytes.map_or_else(String::new, |bytes| format!(", {} KiB", bytes / 1024));
                format!("{} {name}{size}", verb(what))
            }
            Self::Handshake(Some(kind), group) => {
                format!("handshakes in memory, {}, {}", kind.name(), group.name())
            }
            Self::Handshake(None, group) => format!("handshakes in memory, resumed, {}", group.name()),
        }
    }
}

/// Returns the names of an operation in a report.
fn names(act: Act) -> (What, &'static str, Option<u32>) {
    let size = |size: usize| u32::try_from(size).ok();
    match act {
        Act::Sign(kind) => (What::Sign, kind.name(), None),
        Act::Verify(kind) => (What::Verify, kind.name(), None),
        Act::Share(group) => (What::Share, group.name(), None),
        Act::Agree(group) => (What::Agree, group.name(), None),
        Act::Answer(group) => (What::Answer, group.name(), None),
        Act::Seal(cipher, bytes) => (What::Seal, cipher.name(), size(bytes)),
        Act::Open(cipher, bytes) => (What::Open, cipher.name(), size(bytes)),
        Act::Hash(bytes) => (What::Hash, "SHA-256", size(bytes)),
    }
}

impl<'a> Run<'a> {
    fn new(settings: &SpeedSettings, tell: &'a mut dyn FnMut(Progress<'_>)) -> Self {
        let rows = rows();
        let steps = 1
            + rows.len() * (1 + REPETITIONS)
            + rows.iter().filter(|row| row.on_all()).count()
            + usize::from(settings.limit)
            + if settings.openssl { openssl::STEPS } else { 0 };
        let facts = machine::facts();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (found, missing) = handfast_tls::features::features();
        let report = SpeedReport {
            schema: SCHEMA.into(),
            program: format!("handfast {}", env!("CARGO_PKG_VERSION")),
            started: Utc::of(SystemTime::now()).to_seconds().to_string(),
            cpu: facts.get("cpu").cloned().unwrap_or_default(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            features_found: found.into_iter().map(str::to_owned).collect(),
            features_missing: missing
                .into_iter()
                .map(|(name, cost)| Missing { name: name.into(), cost: cost.into() })
                .collect(),
            ..SpeedReport::default()
        };
        let progress = Steps { on_progress: tell, done: 0, steps };
        Self { progress, report, watch: Watch::default(), machine: MachineCpu::new(), busy: 0.0 }
    }

    fn report_step(&mut self, now: &str) {
        self.progress.report(now);
    }

    fn keys(&mut self) -> Result<Keys, ToolError> {
        self.report_step("making keys");
        handfast_tls::warm_up();
        Keys::generate().map_err(timing::refusal)
    }

    /// Measures every row: on this core in several passes over all rows, so that a short disturbance affects one
    /// repetition of each row instead of all repetitions of one; then on all cores.
    fn measure(&mut self, keys: &Keys) -> Result<(), ToolError> {
        let mut timed = Vec::new();
        for row in rows() {
            self.report_step(&format!("preparing to {}", row.words()));
            timed.push((row, Timed::new(row.subject(keys)?)?));
        }
        self.machine = MachineCpu::new();
        for pass in 1..=REPETITIONS {
            for (row, timed) in &mut timed {
                self.report_step(&format!("pass {pass} of {REPETITIONS}, {}", row.words()));
                timed.repeat(&mut self.watch)?;
            }
        }
        self.busy = self.machine.share();
        for (row, timed) in timed {
            let sample = timed.sample();
            // Its memory must not disturb the others.
            drop(timed);
            let all_cores = if row.on_all() { Some(self.on_all(row, keys, sample.time)?) } else { None };
            self.take(row, sample, all_cores);
        }
        Ok(())
    }

    fn on_all(&mut self, row: Row, keys: &Keys, alone: Time) -> Result<AllCores, ToolError> {
        self.report_step(&format!("on all cores, {}", row.words()));
        let per_second = timing::all(&|| row.subject(keys), self.report.cores)?;
        Ok(AllCores { per_second, factor: per_second / alone.per_second().max(f64::MIN_POSITIVE) })
    }

    fn take(&mut self, row: Row, sample: timing::Sample, all_cores: Option<AllCores>) {
        let (time, per_second) = (sample.time, sample.time.per_second());
        match row {
            Row::Act(act, _) => {
                let (what, name, bytes) = names(act);
                let name = name.to_owned();
                self.report.operations.push(Operation { what, name, bytes, time, per_second, all_cores });
            }
            Row::Handshake(signature, group) => self.report.handshakes.push(Handshake {
                certificate: signature.map(|kind| kind.name().to_owned()),
                group: group.name().into(),
                server: time,
                client: sample.other,
                per_second,
                all_cores,
            }),
        }
    }

    /// Adds notes about other work on the machine.
    fn notes(&mut self) {
        let processors = machine::text("/proc/cpuinfo").unwrap_or_default();
        let online = processors.lines().filter(|line| line.starts_with("processor")).count().max(1);
        self.report.notes = notes(self.watch.share(), self.busy * online as f64, self.machine.steal());
    }
}

/// Sentences about a run in which the measuring thread had `share` of a CPU, all CPUs together worked as much as `busy` of
/// them, and a hypervisor took `stolen` of them all.
fn notes(share: f64, busy: f64, stolen: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let others = (busy - share).max(0.0);
    if share < UNDISTURBED || others > OTHERS {
        notes.push(format!(
            "the machine was not quiet: while one core was measured it had {:.0} % of a CPU, and other programs used {others:.1} \
             CPUs. Times are CPU time, yet others' use of caches, clock and shared cores is in them: repeat it on a quiet \
             machine",
            share * 100.0
        ));
    }
    if stolen > STOLEN {
        notes.push(format!(
            "the hypervisor took {:.1} % of the CPUs' time for other machines, and some of it counts as ours",
            stolen * 100.0
        ));
    }
    notes
}

const fn verb(what: What) -> &'static str {
    match what {
        What::Sign => "sign with",
        What::Verify => "verify",
        What::Share => "key share,",
        What::Agree => "key agreement,",
        What::Answer => "a server's key exchange,",
        What::Seal => "encrypt with",
        What::Open => "decrypt with",
        What::Hash => "hash with",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_reported() {
        let rows = rows();
        assert_eq!(rows.len(), 12 + 12 + 12 + 2 + 6);
        let all = rows.iter().filter(|row| row.on_all()).count();
        assert_eq!(all, 6 + 4 + 3 + 1 + 6, "what is measured on all cores");
        let mut lines = Vec::new();
        let mut tell = |progress: Progress<'_>| lines.push((progress.done, progress.steps));
        let mut steps = Steps { on_progress: &mut tell, done: 0, steps: 2 };
        (0..4).for_each(|_| steps.report("x"));
        assert_eq!(lines, [(0, 2), (1, 2), (2, 2), (2, 2)]);
    }

    #[test]
    fn a_machine_that_is_not_quiet_is_reported() {
        assert_eq!(notes(0.99, 1.05, 0.0), [""; 0]);
        assert!(notes(0.80, 0.80, 0.0)[0].contains("had 80 % of a CPU, and other programs used 0.0 CPUs"));
        assert!(notes(0.99, 1.89, 0.0)[0].contains("other programs used 0.9 CPUs"));
        assert!(notes(1.0, 1.0, 0.042)[0].contains("took 4.2 %"));
    }

    #[test]
    fn every_certificate_that_cannot_be_used_is_named() {
        let refusal = certificates(&["/none.pem".into(), "/dev/null".into()]).expect_err("none is one");
        assert!(refusal.is_wrong_use());
        assert!(refusal.what.contains("/none.pem") && refusal.what.contains("/dev/null"), "{refusal}");
    }
}
