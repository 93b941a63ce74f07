//! `handfast lab`: runs a command in a separate network.
//!
//! In: [`LabWords`]. Out: the command's output, the report on standard error, perhaps JSON and a capture in files, the
//! command's exit code.

pub(crate) mod sockets;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use handfast_lab::error::LabError;
use handfast_lab::handshake;
use handfast_lab::namespace::{Inside, Place, enter};
use handfast_lab::plan::{LinkWords, Plan, shell};
use handfast_lab::port::Engine;
use handfast_lab::report::Report;
use handfast_lab::run::{RunSettings, run};
use handfast_text::duration;
use handfast_text::suggest::did_you_mean_or_all;

use crate::load::outputs::{Output, OutputError};
use crate::talk;
use crate::talk::print;
use crate::words::lab::{EngineWord, Experiment, HandshakeWords, LabWords};

/// Runs `handfast lab`.
pub(crate) fn lab(words: &LabWords) -> ExitCode {
    match &words.experiment {
        None => command(words),
        Some(Experiment::Sockets(words)) => sockets::sockets(words),
        Some(Experiment::Handshake(words)) => handshake(words),
    }
}

/// The lab's network, in the process inside it. In the process outside, returns the exit code of the inner process, which has printed
/// everything; a missing permission was reported.
fn inside() -> Result<Inside, ExitCode> {
    match enter() {
        Ok(Place::Inside(inside)) => Ok(inside),
        Ok(Place::Outside(code)) => Err(code.into()),
        Err(error) => Err(failed(&error)),
    }
}

/// Runs `handfast lab -- COMMAND`.
fn command(words: &LabWords) -> ExitCode {
    // Also parsed outside the network, so that a mistake is reported once, before the network is made.
    let settings = match run_settings(words) {
        Ok(settings) => settings,
        Err(error) => return failed(&error),
    };
    let inside = match inside() {
        Ok(inside) => inside,
        Err(code) => return code,
    };
    if let Err(what) = can_be_kept("--json", words.json.as_deref()) {
        return fail(&what.to_string(), FAILED);
    }
    match run(inside, &settings) {
        Ok(report) => print_report(&report, words),
        Err(error) => failed(&error),
    }
}

/// Runs `handfast lab handshake`.
fn handshake(words: &HandshakeWords) -> ExitCode {
    let settings = match handshake_settings(words) {
        Ok(settings) => settings,
        Err(error) => return failed(&error),
    };
    let inside = match inside() {
        Ok(inside) => inside,
        Err(code) => return code,
    };
    // First, since a report that cannot be written is useless.
    let (json, html) = (words.json.as_deref(), words.html.as_deref());
    if let Err(what) = can_be_kept("--json", json).and_then(|()| can_be_kept("--html", html)) {
        return fail(&what.to_string(), FAILED);
    }
    let mut progress = |server: &str| talk::err(&format!("handfast lab: handshakes with {server}"));
    let report = match handshake::run(inside, &settings, &mut progress) {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    if words.json.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        talk::err(report.to_text().trim_end());
    } else {
        print(&report.to_text(), true);
    }
    match keep("--json", json, &report.to_json()).and_then(|()| keep("--html", html, &report.to_html())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => fail(&what.to_string(), FAILED),
    }
}

fn handshake_settings(words: &HandshakeWords) -> Result<handshake::HandshakeSettings, LabError> {
    const MAX_RTT: Duration = Duration::from_secs(5);
    const MIN_RTT: Duration = Duration::from_millis(1);
    let mut problems = Vec::new();
    let rtt = duration::parse(&words.rtt).unwrap_or_else(|error| {
        problems.push(format!("--rtt: {error}"));
        MIN_RTT
    });
    if !(MIN_RTT..=MAX_RTT).contains(&rtt) {
        problems.push(format!("--rtt {}: expected from 1ms to 5s", words.rtt));
    }
    if !(1..=100).contains(&words.runs) {
        problems.push(format!("--runs {}: expected from 1 to 100", words.runs));
    }
    let known: Vec<_> = handshake::known_servers().collect();
    for name in words.server.iter().filter(|name| !known.contains(&name.as_str())) {
        problems.push(format!("--server {name}: unknown; {}", did_you_mean_or_all(name, &known)));
    }
    if problems.is_empty() {
        Ok(handshake::HandshakeSettings { rtt, runs: words.runs, servers: words.server.clone() })
    } else {
        Err(LabError::Wrong(problems))
    }
}

/// Exit code when the lab, and not the command, failed; as in env(1) and similar programs.
const FAILED: u8 = 125;

fn run_settings(words: &LabWords) -> Result<RunSettings, LabError> {
    let limit = duration::parse(&words.server_timeout)
        .map_err(|error| LabError::Wrong(vec![format!("--server-timeout: {error}")]))?;
    let mut plan = match &words.topology {
        None => of_options(words)?,
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(LabError::file(format!("read {name}")))?;
            Plan::of_file(&name, &text)?
        }
    };
    plan.seed = words.seed.or(plan.seed);
    Ok(RunSettings {
        within: words.topology.is_none() && plan.servers.is_empty(),
        plan,
        command: words.command.clone(),
        engine: words.engine.map(Engine::from),
        capture: words.capture.clone(),
        server_timeout: limit,
    })
}

fn of_options(words: &LabWords) -> Result<Plan, LabError> {
    let link = LinkWords {
        rtt: words.rtt.clone(),
        jitter: words.jitter.clone(),
        loss: words.loss.clone(),
        rate: words.rate.clone(),
        reorder: words.reorder.clone(),
        queue: words.queue.clone(),
        mtu: words.mtu.clone(),
    };
    let server = words.server.as_deref().map(shell);
    Plan::of_one_link(&link, server.map(|server| (server, words.server_port)), words.seed)
}

/// Checks that a file can be written. It is created at the end, so that a killed lab leaves no partial file.
fn can_be_kept(option: &'static str, path: Option<&Path>) -> Result<(), OutputError> {
    let tried = path.map(Output::prepare).transpose();
    tried.map(drop).map_err(|error| error.of(option))
}

fn keep(option: &'static str, path: Option<&Path>, text: &str) -> Result<(), OutputError> {
    let Some(path) = path else { return Ok(()) };
    let written = Output::prepare(path).and_then(|output| output.write(text));
    written.map_err(|error| error.of(option))
}

fn print_report(report: &Report, words: &LabWords) -> ExitCode {
    if !words.quiet {
        talk::err(report.to_text().trim_end());
    }
    match keep("--json", words.json.as_deref(), &report.to_json()) {
        Ok(()) => report.exit.into(),
        Err(what) => fail(&what.to_string(), FAILED),
    }
}

fn failed(error: &LabError) -> ExitCode {
    fail(&error.to_string(), error.exit_code())
}

fn fail(what: &str, code: u8) -> ExitCode {
    talk::err(&format!("error: {what}"));
    code.into()
}

impl From<EngineWord> for Engine {
    fn from(word: EngineWord) -> Self {
        match word {
            EngineWord::Veth => Self::Veth,
            EngineWord::Tun => Self::Tun,
        }
    }
}
