//! All experiments: which cases in which modes, several at a time.
//!
//! In: [`Wanted`]. Out: a [`Report`]. What is stopped or late is said in the report's place.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::absent::absent;
use super::case::Case;
use super::cases::all;
use super::certificates::Certificates;
use super::mode::Mode;
use super::report::{Experiment, Outcome, Report, SCHEMA};
use super::resolver::CONFIGURATION;
use super::stage::{Common, Stage};
use super::trouble::Trouble;
use crate::crew::{Crew, work_off};
use crate::error::LabError;
use crate::names::{FOLDER, own_folder, resolver};
use crate::namespace::Inside;

/// Experiments at the same time: most of their time they wait.
const AT_ONCE: usize = 4;

/// The request.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Cases by name; none: all.
    pub only: Vec<String>,
    /// Modes; none: all.
    pub modes: Vec<Mode>,
    /// One mode for each case, in turn, instead of all.
    pub quick: bool,
    /// The program to test.
    pub program: PathBuf,
    /// When to stop, finished or not.
    pub limit: Duration,
}

/// Whether there are cases of these names.
///
/// **Errors**: each that is not there, in a line.
pub fn known(names: &[String]) -> Result<(), LabError> {
    let unknown = |name: &&String| !all().any(|case| case.name == name.as_str());
    let problem = |name: &String| {
        let known: Vec<_> = all().map(|case| case.name).collect();
        let hint = handfast_text::suggest::did_you_mean(name, known.iter().copied())
            .unwrap_or_else(|| "`handfast lab faults --list` names all".to_owned());
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
    wanted: &Wanted,
    progress: &mut dyn FnMut(&Experiment, usize),
) -> Result<Report, LabError> {
    known(&wanted.only)?;
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
    let certificates = Certificates::make().map_err(|trouble| LabError::Late {
        what: format!("{trouble:?}"),
        hint: "this is a fault of the lab".to_owned(),
    })?;
    let common = Arc::new(Common {
        inside,
        program: wanted.program.clone(),
        folder: FOLDER.into(),
        certificates: Arc::new(certificates),
        at_length: !wanted.quick,
    });
    let jobs = jobs(wanted);
    let mut left = jobs.len();
    let work = move |(case, mode): &(&'static Case, Mode)| one(&common, case, *mode);
    let crew = Crew { name: "fault", at_once: AT_ONCE, limit: wanted.limit };
    let done = work_off(crew, jobs.clone(), work, &mut |experiment: &Experiment| {
        left -= 1;
        progress(experiment, left);
    })?;
    let mut experiments = Vec::new();
    for (number, (case, mode)) in jobs.iter().enumerate() {
        let found = done.iter().find(|(of, _)| *of == number).map(|(_, experiment)| experiment.clone());
        let late = || {
            let limit = handfast_text::duration::written(wanted.limit);
            experiment(case, *mode, Outcome::Unknown(format!("not finished within {limit}")))
        };
        experiments.push(found.unwrap_or_else(late));
    }
    Ok(Report {
        schema: SCHEMA.to_owned(),
        laboratory: env!("CARGO_PKG_VERSION").to_owned(),
        program: version(&wanted.program),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        seconds: begun.elapsed().as_secs_f64(),
        experiments,
        absent: absent(),
    })
}

/// Each case in each of its modes.
fn jobs(wanted: &Wanted) -> Vec<(&'static Case, Mode)> {
    let chosen =
        |case: &&'static Case| wanted.only.is_empty() || wanted.only.iter().any(|name| name == case.name);
    let modes: Vec<Mode> = if wanted.modes.is_empty() { Mode::ALL.to_vec() } else { wanted.modes.clone() };
    let mut jobs = Vec::new();
    for (number, case) in all().filter(chosen).enumerate() {
        let fitting: Vec<Mode> =
            modes.iter().copied().filter(|mode| case.does_not_apply(*mode).is_none()).collect();
        if wanted.quick {
            // Another one for each case, so that every mode has its share.
            jobs.extend(fitting.get(number % fitting.len().max(1)).map(|mode| (case, *mode)));
        } else {
            jobs.extend(fitting.into_iter().map(|mode| (case, mode)));
        }
    }
    jobs
}

fn experiment(case: &Case, mode: Mode, outcome: Outcome) -> Experiment {
    Experiment {
        case: case.name.to_owned(),
        mode: mode.name().to_owned(),
        step: case.step.to_owned(),
        fault: case.fault.to_owned(),
        must: case.must.to_owned(),
        outcome,
        figures: super::report::Figures::default(),
    }
}

fn one(common: &Common, case: &Case, mode: Mode) -> Experiment {
    let begun = Instant::now();
    let mut done = experiment(case, mode, Outcome::Passed);
    let outcome = Stage::open(common, mode, case).and_then(|mut stage| {
        let outcome = play(&mut stage, case).map_err(|trouble| match trouble {
            Trouble::Broken(what) => Trouble::Broken(format!("{what} (the log: {})", stage.reasons())),
            other => other,
        });
        done.figures = std::mem::take(&mut stage.figures);
        outcome
    });
    done.outcome = match outcome {
        Ok(()) => Outcome::Passed,
        Err(Trouble::Broken(what)) => Outcome::Failed(what),
        Err(Trouble::Skipped(why)) => Outcome::Skipped(why),
        Err(Trouble::Lab(why)) => Outcome::Unknown(why),
    };
    done.figures.took_ms = begun.elapsed().as_secs_f64() * 1e3;
    done
}

fn play(stage: &mut Stage, case: &Case) -> Result<(), Trouble> {
    if !case.unstarted {
        stage.start(None)?;
    }
    (case.play)(stage)?;
    // A case whose fault was not shown to have happened has shown nothing.
    if stage.figures.happened.is_empty() {
        return Err(Trouble::Lab("the fault was not shown to have happened".to_owned()));
    }
    stage.judge()
}

/// What a program says of its version.
fn version(program: &std::path::Path) -> String {
    let said = crate::namespace::plain(std::process::Command::new(program).arg("--version")).output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    said.unwrap_or_default()
}
