//! `handfast probe` and `handfast explain`: command line in, a report about the time of connections out.
//!
//! In: [`ProbeWords`]. Out: reports on standard output, perhaps JSON and HTML in files, progress on standard error, an exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use handfast_pki::files::read_input;
use handfast_pki::throwaway::is_host;
use handfast_probe::limit::Limit;
use handfast_probe::page::Page;
use handfast_probe::target::{FORMS, Family};
use handfast_probe::text::{line_head, to_line, to_summary, to_text};
use handfast_probe::{ProbeError, ProbeSettings, Report, Target, curl, explain as topics, html, report, run};
use handfast_report::ToolError;
use handfast_report::both_ends::{BothEnds, Counted, account};
use handfast_tls::client::{ClientSettings, Identity, Verification};
use handfast_wire::starttls::Protocol;
use tracing::Level;

use crate::load::outputs::Output;
use crate::load::refused;
use crate::status::AdminAddress;
use crate::talk::print;
use crate::talk::{self, Voice, color};
use crate::words::probe::{ExplainWords, Form, ProbeTlsWords, ProbeWords};
use capture::Capture;
use output::{output, style};

mod capture;
mod captured;
mod output;
mod watch;

/// Browsers' groups, best first: a hybrid of X25519 and ML-KEM, with X25519's share beside it.
const GROUPS: [&str; 4] = ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];
/// Bounds of the pause of --watch, in seconds: short enough not to disturb a target, and at most a day; cron is for longer ones.
const MIN_PAUSE_SECONDS: f64 = 0.1;
const MAX_PAUSE_SECONDS: f64 = 86_400.0;
/// Most targets of a file.
const MAX_TARGETS: usize = 100_000;
/// Bytes of a file with certificates or a key.
const MAX_PEM_BYTES: u64 = 16 << 20;

/// Runs `handfast explain`.
pub(crate) fn explain(words: &ExplainWords) -> ExitCode {
    match words.topic.as_deref().map(topics::explain) {
        None => print(&format!("Topics:\n{}", topics::list()), true),
        Some(Ok(text)) => print(&text, true),
        Some(Err(error)) => refused(&ToolError::wrong_use(error)),
    }
}

/// Runs `handfast probe`.
pub(crate) fn probe(words: &ProbeWords) -> ExitCode {
    if let Some(file) = &words.from_pcap {
        return captured::captured(file, words);
    }
    match prepare(words) {
        Err(refusal) => refused(&refusal),
        Ok(prepared) => match words.watch {
            None => prepared.run(words),
            Some(seconds) => match words.output.json.as_deref().map(watch::Rounds::prepare).transpose() {
                Err(refusal) => refused(&refusal),
                Ok(rounds) => watch::watch(prepared, rounds, seconds),
            },
        },
    }
}

/// All checks before the first connection.
struct Prepared {
    targets: Vec<Target>,
    settings: ProbeSettings,
    json: Option<Output>,
    html: Option<Output>,
    capture: Option<Capture>,
    /// On port 443 the offer is that of browsers.
    usual_alpn: bool,
    /// The address of the targets' status.
    status: Option<AdminAddress>,
}

fn prepare(words: &ProbeWords) -> Result<Prepared, ToolError> {
    let wrong = ToolError::wrong_use;
    let starttls = match words.starttls.as_deref() {
        None => None,
        Some(name) => {
            let all: Vec<&str> = Protocol::ALL.iter().map(|protocol| protocol.name()).collect();
            let unknown = || {
                format!("--starttls {name:?}: {}", handfast_text::suggest::did_you_mean_or_all(name, &all))
            };
            Some(Protocol::named(name).ok_or_else(|| wrong(unknown()))?)
        }
    };
    let typed = words.targets.iter().map(|text| Target::parse(text, starttls));
    let mut targets = typed.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
    if let Some(path) = &words.file {
        targets.extend(listed(path, starttls)?);
    }
    let first =
        targets.first().cloned().ok_or_else(|| wrong("there is no target, expected one".to_owned()))?;
    let timeout = time("--timeout", &words.timeout)?;
    if words.watch.is_some_and(|seconds| !(MIN_PAUSE_SECONDS..=MAX_PAUSE_SECONDS).contains(&seconds)) {
        return Err(wrong(format!("--watch: expected {MIN_PAUSE_SECONDS} to {MAX_PAUSE_SECONDS} seconds")));
    }
    let keep_alive = words.keep_alive.as_deref().map(|text| time("--keep-alive", text)).transpose()?;
    let bound = |text: &String| Limit::parse(text).map_err(|what| wrong(format!("--max: {what}")));
    let limits = words.output.max.iter().map(bound).collect::<Result<Vec<_>, _>>()?;
    let needs_request = limits.iter().any(Limit::needs_request) || words.early_data || keep_alive.is_some();
    if needs_request && targets.iter().any(|target| target.path.is_none()) {
        return Err(wrong(
            "--early-data, --keep-alive, and bounds on pretransfer, starttransfer and total, need a request"
                .to_owned(),
        )
        .hint("write the target as https://HOST/PATH"));
    }
    let page = words
        .page
        .as_deref()
        .map(Page::parse)
        .transpose()
        .map_err(|what| wrong(format!("--page: {what}")))?;
    let status = words.status.as_deref().map(AdminAddress::parse).transpose();
    let status = status.map_err(|what| wrong(format!("--status: {what}")))?;
    let capture = match &words.output.pcap {
        None => None,
        Some(path) => Some(Capture::start(path, first.port)?),
    };
    let mut settings = settings(&words.tls)?;
    settings.key_lines = capture.as_ref().map(Capture::key_lines);
    let options = ProbeSettings {
        target: first,
        family: match (words.v4, words.v6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        runs: usize::from(words.runs),
        timeout,
        settings,
        sni: words.tls.sni.as_deref() != Some("off"),
        requests: words.requests,
        early_data: words.early_data,
        keep_alive,
        page,
        limits,
        program: format!("handfast {}", env!("CARGO_PKG_VERSION")),
    };
    // With --watch, rounds are written as they come.
    let json = if words.watch.is_some() { None } else { output("--json", &words.output.json)? };
    let html = output("--html", &words.output.html)?;
    Ok(Prepared {
        targets,
        settings: options,
        json,
        html,
        capture,
        status,
        usual_alpn: words.tls.alpn.is_none(),
    })
}

/// A time above 0.
fn time(option: &str, text: &str) -> Result<Duration, ToolError> {
    let wrong = |why: String| ToolError::wrong_use(format!("{option}: {why}"));
    match handfast_text::duration::parse(text) {
        Ok(Duration::ZERO) => Err(wrong("0, expected more".to_owned())),
        Ok(time) => Ok(time),
        Err(error) => Err(wrong(error.what())),
    }
}

/// Reads the targets in a file. An error has no text of it: it can be another file than was meant, such as one with a key.
fn listed(path: &Path, starttls: Option<Protocol>) -> Result<Vec<Target>, ToolError> {
    let wrong = |what: String| ToolError::wrong_use(format!("read targets from {}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines = (1..).zip(lines).filter(|(_, line)| !line.is_empty());
    let (mut targets, mut faulty) = (Vec::new(), Vec::new());
    for (number, line) in lines.take(MAX_TARGETS + 1) {
        match Target::parse(line, starttls).ok().filter(|target| is_host(target.host.trim_end_matches('.'))) {
            Some(target) => targets.push(target),
            None => faulty.push(number),
        }
    }
    if targets.len() + faulty.len() > MAX_TARGETS {
        return Err(wrong(format!("more targets than {MAX_TARGETS}")));
    }
    match faulty[..] {
        [] => Ok(targets),
        [first] => Err(wrong(format!("line {first} is no target, expected {FORMS}"))),
        [first, .., last] => {
            let count = faulty.len();
            Err(wrong(format!("{count} lines from {first} to {last} are no targets, expected {FORMS}")))
        }
    }
}

fn settings(words: &ProbeTlsWords) -> Result<ClientSettings, ToolError> {
    let read = |path: &Path, what: &str| {
        read_input(path, MAX_PEM_BYTES)
            .map(|bytes| bytes.to_vec())
            .map_err(|error| ToolError::wrong_use(format!("read {what} from {}: {error}", path.display())))
    };
    let verification = match (&words.ca, words.insecure) {
        (_, true) => Verification::Off,
        (Some(path), _) => Verification::Roots(read(path, "the authorities")?),
        (None, false) => Verification::System,
    };
    let identity = match &words.client_certificate {
        None => None,
        Some(chain) => {
            let key = words.client_key.as_ref().unwrap_or(chain);
            Some(Identity::Pem(
                read(chain, "the client certificate")?,
                read(key, "the client certificate's key")?,
            ))
        }
    };
    let groups = match words.groups.is_empty() {
        true => GROUPS.map(str::to_owned).to_vec(),
        false => words.groups.clone(),
    };
    Ok(ClientSettings {
        versions: words.tls.clone(),
        suites: words.suites.clone(),
        groups,
        server_name: words.sni.clone().filter(|name| name != "off"),
        alpn: words.alpn.clone().unwrap_or_default(),
        identity,
        verification,
        ..ClientSettings::default()
    })
}

impl Prepared {
    /// The request for one of the targets.
    fn of(&self, target: &Target) -> ProbeSettings {
        let mut settings = ProbeSettings { target: target.clone(), ..self.settings.clone() };
        if self.usual_alpn && target.port == 443 && target.starttls.is_none() {
            settings.settings.alpn = vec!["h2".to_owned(), "http/1.1".to_owned()];
        }
        settings
    }

    fn run(mut self, words: &ProbeWords) -> ExitCode {
        let talk = talk::start(color(), Level::WARN, talk::Stamp::Absent);
        let mut shown = Shown { voice: talk.voice(), of: self.targets.len(), done: 0, ..Shown::new() };
        let lines = words.file.is_some();
        if lines && words.output.format == Form::Text {
            print(&format!("{}\n", line_head()), true);
        }
        let mut reports = Vec::new();
        let mut failed = false;
        for target in &self.targets {
            let settings = self.of(target);
            if let Some(refusal) =
                self.capture.as_mut().and_then(|capture| capture.turn_to(target.port).err())
            {
                return refused(&refusal);
            }
            let before = match self.status.as_ref().map(AdminAddress::counted).transpose() {
                Ok(before) => self.status.as_ref().zip(before),
                Err(refusal) => {
                    talk.finish();
                    return refused(&refusal);
                }
            };
            let mut step = |progress| {
                shown.step(&target.to_string(), progress);
                self.capture.iter_mut().for_each(Capture::drain);
            };
            let mut outcome = run(&settings, &mut step);
            if let (Ok(report), Some(capture)) = (&mut outcome, &self.capture) {
                report.wire = capture.of(report);
            }
            if let (Ok(report), Some((status, before))) = (&mut outcome, before) {
                report.both_ends = Some(both_ends(status, &before, report));
            }
            shown.done += 1;
            shown.voice.wipe();
            match outcome {
                Ok(report) => {
                    show(&report, words, lines, !reports.is_empty());
                    reports.push(report);
                }
                Err(error) => {
                    failed = true;
                    report_failure(target, &error, &shown.voice);
                }
            }
        }
        talk.finish();
        let code = code(&reports, failed);
        let json = self.json.map(|output| output.write(&json(&reports)));
        let html = self.html.map(|output| output.write(&html::to_html(&reports)));
        let capture = self.capture.map(Capture::finish);
        for outcome in [json, html, capture].into_iter().flatten() {
            if let Err(what) = outcome {
                return refused(&ToolError::failed(what));
            }
        }
        ExitCode::from(code)
    }
}

/// Attributes the time of the connections to both ends, by the proxy's counters since `before`.
fn both_ends(status: &AdminAddress, before: &Counted, report: &Report) -> BothEnds {
    let after = status.settled(before, &report.seen);
    after.map_or_else(
        |refusal| BothEnds { refused: Some(refusal.what), ..BothEnds::default() },
        |after| account(&report.seen, before, &after),
    )
}

/// One report as it is; several with one on each line.
fn json(reports: &[Report]) -> String {
    match reports {
        [one] => report::to_json(one),
        all => all.iter().map(report::to_json_line).collect(),
    }
}

fn code(reports: &[Report], failed: bool) -> u8 {
    let missed = reports.iter().any(|report| report.limits.iter().any(|limit| !limit.held));
    let distrusted = reports.iter().any(|report| report.certificates.trusted == Some(false));
    match (failed || distrusted, missed) {
        (true, _) => 1,
        (false, true) => 4,
        (false, false) => 0,
    }
}

fn report_failure(target: &Target, failure: &ProbeError, voice: &Voice) {
    voice.print_line(format!("handfast: probe {target}: {failure}"));
}

fn show(report: &Report, words: &ProbeWords, lines: bool, further: bool) {
    let (on_output, style) = style(words);
    let mut text = match (words.output.format, lines) {
        (Form::Curl, _) => curl::to_curl(report),
        (Form::Text, true) => format!("{}\n", to_line(report)),
        (Form::Text, false) if words.verbose => to_text(report, style),
        (Form::Text, false) => to_summary(report, style),
    };
    if further && !lines {
        text.insert(0, '\n');
    }
    if on_output {
        talk::err(text.trim_end());
    } else {
        print(&text, true);
    }
}

/// The progress display on a terminal.
struct Shown {
    voice: Voice,
    terminal: bool,
    of: usize,
    done: usize,
    last: Option<std::time::Instant>,
}

impl Shown {
    fn new() -> Self {
        let terminal = crate::screen::is_screen(&io::stderr());
        Self { voice: Voice::silent(), terminal, of: 0, done: 0, last: None }
    }

    fn step(&mut self, target: &str, progress: handfast_probe::Progress) {
        /// Often enough for people, and rare enough not to disturb the measurement.
        const EVERY: Duration = Duration::from_millis(200);
        if !self.terminal || self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        self.last = Some(std::time::Instant::now());
        const WIDTH: usize = 30;
        let filled = (WIDTH * progress.done / progress.of.max(1)).min(WIDTH);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH - filled));
        let of =
            if self.of > 1 { format!("target {} of {}: ", self.done + 1, self.of) } else { String::new() };
        self.voice.show([format!("{of}{target}  {bar} {} of {}", progress.done, progress.of)]);
    }
}
