//! All experiments: which cases in which modes, several at a time.
//!
//! In: [`RunSettings`]. Out: a [`Report`]. A run that is stopped or late returns an error instead of the report.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handfast_lab::crew::{Crew, work_off};
use handfast_lab::error::LabError;
use handfast_lab::names::{FOLDER, own_folder, resolver};
use handfast_lab::namespace::Inside;

use crate::absent::absent;
use crate::case::Case;
use crate::cases::all;
use crate::certificates::Certificates;
use crate::error::CaseError;
use crate::mode::Mode;
use crate::report::{Experiment, Outcome, ProgramUnderTest, Report, SCHEMA};
use crate::resolver::CONFIGURATION;
use crate::stage::{Common, Stage, Tested};
use crate::subject::Subject;

/// The request.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Cases by name; none: all.
    pub only: Vec<String>,
    /// Modes; none: all.
    pub modes: Vec<Mode>,
    /// One mode for each case, in turn, instead of all.
    pub quick: bool,
    /// The programs to test, each with its adapter; lasting faults last only where there is one, Handfast.
    pub programs: Vec<(&'static Subject, PathBuf)>,
    /// Experiments at the same time: most of their time they wait.
    pub at_once: usize,
    /// Time after which to stop, finished or not.
    pub limit: Duration,
}

/// Checks that there are cases of these names.
///
/// **Errors**: each that is not there, in a line.
pub fn known(names: &[String]) -> Result<(), LabError> {
    let unknown = |name: &&String| !all().any(|case| case.name == name.as_str());
    let problem = |name: &String| {
        let known: Vec<_> = all().map(|case| case.name).collect();
        let hint = handfast_text::suggest::did_you_mean(name, known.iter().copied())
            .unwrap_or_else(|| "`handfast-trials --list` names all".to_owned());
        format!("case {name:?}: there is no such case\nhint: {hint}")
    };
    let problems: Vec<_> = names.iter().filter(unknown).map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(LabError::Wrong(problems)) }
}

/// Runs them. `progress` receives each that has ended, and how many are left.
///
/// **Errors**: there is no laboratory here; it was stopped.
pub fn run(
    inside: Inside,
    settings: &RunSettings,
    progress: &mut dyn FnMut(&Experiment, usize),
) -> Result<Report, LabError> {
    known(&settings.only)?;
    let begun = Instant::now();
    // Figures of the program are read from there.
    if std::fs::read_link("/proc/self")
        .is_ok_and(|own| own.to_string_lossy() != std::process::id().to_string())
    {
        return Err(LabError::Late {
            what: "/proc shows other processes than the lab's".to_owned(),
            hint: "this container does not allow /proc to be mounted; run it outside of one".to_owned(),
        });
    }
    // Each experiment has some dozen descriptors.
    let _ = handfast_net::limits::raise_file_limit();
    // The lab's processes ask a server of the lab's network, where there is one.
    let _ = resolver(CONFIGURATION);
    own_folder()?;
    let certificates = Arc::new(Certificates::make());
    let common = Arc::new(Common {
        inside,
        folder: FOLDER.into(),
        certificates,
        at_length: !settings.quick && matches!(settings.programs[..], [(subject, _)] if subject.is_logged),
    });
    let (jobs, not_possible) = jobs(settings);
    let mut left = jobs.len();
    let work = move |job: &Job| one(&common, job);
    let crew = Crew { name: "fault", at_once: settings.at_once, limit: settings.limit };
    let done = work_off(crew, jobs.clone(), work, &mut |experiment: &Experiment| {
        left -= 1;
        progress(experiment, left);
    })?;
    let mut experiments = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let found = done.iter().find(|(of, _)| *of == number).map(|(_, experiment)| experiment.clone());
        let late = || {
            let limit = handfast_text::duration::written(settings.limit);
            experiment(job, Outcome::Unknown(format!("not finished within {limit}")))
        };
        experiments.push(found.unwrap_or_else(late));
    }
    experiments.extend(not_possible);
    let under_test = |(subject, program): &(&'static Subject, PathBuf)| ProgramUnderTest {
        proxy: subject.name.to_owned(),
        title: subject.title.to_owned(),
        version: subject.version(program),
    };
    Ok(Report {
        schema: SCHEMA.to_owned(),
        laboratory: env!("CARGO_PKG_VERSION").to_owned(),
        programs: settings.programs.iter().map(under_test).collect(),
        day: today(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        seconds: begun.elapsed().as_secs_f64(),
        experiments,
        absent: absent(),
    })
}

/// A case, for a program in a mode.
#[derive(Clone, Debug)]
struct Job {
    tested: Tested,
    case: &'static Case,
    mode: Mode,
}

/// Each case for each program in each of its modes, and what a program cannot play.
fn jobs(settings: &RunSettings) -> (Vec<Job>, Vec<Experiment>) {
    let chosen =
        |case: &&'static Case| settings.only.is_empty() || settings.only.iter().any(|name| name == case.name);
    let (mut jobs, mut not_possible) = (Vec::new(), Vec::new());
    for (subject, program) in &settings.programs {
        let tested = Tested { subject, program: program.clone() };
        let has: Vec<Mode> =
            settings.modes.iter().copied().filter(|mode| subject.modes.contains(mode)).collect();
        // Programs with none of them are reported; of others the modes that they have are enough.
        let modes: &[Mode] = match (&settings.modes[..], &has[..]) {
            ([], _) => subject.modes,
            (modes, []) => modes,
            (_, has) => has,
        };
        for (number, case) in all().filter(chosen).enumerate() {
            let makes_sense = |mode: &Mode| case.does_not_apply(*mode).is_none();
            let job = |mode: Mode| Job { tested: tested.clone(), case, mode };
            let (plays, cannot): (Vec<Job>, Vec<Job>) = modes
                .iter()
                .copied()
                .filter(makes_sense)
                .map(job)
                .partition(|job| case.not_possible(subject, job.mode).is_none());
            let why = |job: &Job| case.not_possible(subject, job.mode).unwrap_or_default();
            not_possible.extend(cannot.iter().map(|job| experiment(job, Outcome::NotPossible(why(job)))));
            if settings.quick {
                // Another one for each case, so that every mode has its share.
                jobs.extend(plays.get(number % plays.len().max(1)).cloned());
            } else {
                jobs.extend(plays);
            }
        }
    }
    (jobs, not_possible)
}

fn experiment(job: &Job, outcome: Outcome) -> Experiment {
    let Job { tested, case, mode } = job;
    Experiment {
        proxy: tested.subject.name.to_owned(),
        case: case.name.to_owned(),
        mode: mode.name().to_owned(),
        step: case.step.to_owned(),
        fault: case.fault.to_owned(),
        must: case.must.to_owned(),
        outcome,
        figures: crate::report::Figures::default(),
    }
}

fn one(common: &Common, job: &Job) -> Experiment {
    let begun = Instant::now();
    let mut done = experiment(job, Outcome::Kept);
    let Job { tested, case, mode } = job;
    let outcome = Stage::open(common, tested, *mode, case).and_then(|mut stage| {
        let outcome = play(&mut stage, case).map_err(|error| match error {
            CaseError::Broken(what) if tested.subject.is_logged => {
                CaseError::Broken(format!("{what} (the log: {})", stage.reasons()))
            }
            other => other,
        });
        done.figures = std::mem::take(&mut stage.figures);
        outcome
    });
    done.outcome = match outcome {
        Ok(()) => Outcome::Kept,
        Err(CaseError::Broken(what)) => Outcome::Broken(what),
        Err(CaseError::Skipped(why)) => Outcome::Skipped(why),
        Err(CaseError::NotPossible(why)) => Outcome::NotPossible(why),
        Err(CaseError::Lab(why)) => Outcome::Unknown(why),
    };
    done.figures.took_ms = begun.elapsed().as_secs_f64() * 1e3;
    done
}

fn play(stage: &mut Stage, case: &Case) -> Result<(), CaseError> {
    if !case.unstarted {
        stage.start(None)?;
    }
    (case.play)(stage)?;
    // A case whose fault was not shown to have happened has shown nothing.
    if stage.figures.happened.is_empty() {
        return Err(CaseError::Lab("the fault was not shown to have happened".to_owned()));
    }
    stage.judge()
}

fn today() -> String {
    handfast_text::calendar::Utc::of(std::time::SystemTime::now()).date().to_string()
}
