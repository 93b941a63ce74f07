//! The command line of `handfast log`, as it is typed.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use handfast_net::prefix::Prefix;
use handfast_observe::cause::Cause;
use handfast_text::renamed;
use handfast_text::suggest::did_you_mean;

use crate::log::moment;
use crate::talk;

/// Text at the end of `--help`.
pub(crate) const AFTER_HELP: &str = "\
A line has: the time of accept (UTC), client, service, then either
  TLS version and whether the session was resumed, time of the handshake and of connecting to the backend together, bytes to the
  backend (↑) and to the client (↓), time from accept to close, requested name (SNI) → backend
or, for a failed connection, the step and the cause with an explanation. On a terminal other lines are cut at its width.
The line of an HTTP request has: status, method, host and path, bytes of content from the client (↑) and to it (↓), time to the first byte
  of the response, time of the whole request → backend; where no backend answered it completely, the reason instead.
TIME is 90s, 1h, 2d (that long ago), 14:30 (today), 2026-03-01, 2026-03-01 14:30 or 2026-03-01T14:30:05Z; in UTC.

Examples:
  handfast log -c /etc/handfast/handfast.toml --failures --since 1h
  handfast log /var/log/handfast/access.log* --summary
  handfast log -c /etc/handfast/handfast.toml --follow --slow 100ms
  handfast log access.log --status 5xx --path /api/ --summary
  handfast log --client 192.0.2.0/24 --json access.log | jq .backend
  journalctl -u handfast -o cat | handfast log - --cause reset

Exit codes: 0 everything was read (foreign lines are reported, counted and skipped), 1 a file could not be read to its end, 2 wrong
use.";

/// `handfast log`.
#[derive(Args, Debug)]
pub(crate) struct LogWords {
    /// Files of the access log, gzip too; - is standard input [default: the file that the configuration names]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The proxy's configuration, which names the access log (`access-log.to`)
    #[arg(short, long, value_name = "FILE", conflicts_with = "files")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) only: OnlyWords,
    /// Continue at the end of the file, until stopped; without --since start there. It follows a rotation
    #[arg(short, long, conflicts_with = "summary")]
    pub(crate) follow: bool,
    /// Counts by cause, side, step and service, and percentiles of times, instead of lines
    #[arg(long)]
    pub(crate) summary: bool,
    /// Print the lines as they are in the file, for jq and other programs
    #[arg(long, conflicts_with = "summary")]
    pub(crate) json: bool,
}

/// Options that select connections and requests.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OnlyWords {
    /// Only connections that failed, and requests that no backend answered completely
    #[arg(long)]
    pub(crate) failures: bool,
    /// Only what ended at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<f64>,
    /// Only what ended before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) until: Option<f64>,
    /// Only what ended for this cause, such as `reset`; docs/diagnose/causes.md lists them (may be repeated)
    #[arg(long, value_name = "CAUSE", value_parser = cause)]
    pub(crate) cause: Vec<Cause>,
    /// Only clients of this address or network: 192.0.2.7, 2001:db8::/32 (may be repeated)
    #[arg(long, value_name = "ADDRESS", value_parser = str::parse::<Prefix>)]
    pub(crate) client: Vec<Prefix>,
    /// Only what this service served (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Vec<String>,
    /// Only connections with a handshake and a connect to the backend that took this long together, or longer, and requests that did
    #[arg(long, value_name = "DURATION", value_parser = handfast_text::duration::parse)]
    pub(crate) slow: Option<Duration>,
    /// Only what this backend served, by its name in the log (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Vec<String>,
    /// Only HTTP requests with this status: 404, 5xx, or none (may be repeated)
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Vec<RangeInclusive<u64>>,
    /// Only HTTP requests with a path that begins with this
    #[arg(long, value_name = "PREFIX")]
    pub(crate) path: Option<String>,
    /// Only HTTP requests for this host, whatever the port (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("expected a status such as 404, a class such as 5xx, or none")]
struct NotAStatus;

#[derive(Debug, thiserror::Error)]
#[error("no cause has this name; {hint}")]
struct UnknownCause {
    hint: String,
}

/// The statuses of a word; a request without one has 0.
fn status(text: &str) -> Result<RangeInclusive<u64>, NotAStatus> {
    if text == "none" {
        return Ok(0..=0);
    }
    let (first, last) = match text.strip_suffix("xx") {
        Some(class) => (format!("{class}00"), format!("{class}99")),
        None => (text.to_owned(), text.to_owned()),
    };
    match (first.parse(), last.parse()) {
        (Ok(first @ 100..=999), Ok(last)) => Ok(first..=last),
        _ => Err(NotAStatus),
    }
}

fn time(text: &str) -> Result<f64, moment::MomentError> {
    moment::parse(text, SystemTime::now())
}

fn cause(text: &str) -> Result<Cause, UnknownCause> {
    let new = renamed::new_word(&renamed::CAUSES, text);
    if let Some(new) = new {
        talk::err(&format!("warning: --cause: {}", renamed::message(text, new)));
    }
    Cause::named(new.unwrap_or(text)).ok_or_else(|| {
        let hint = did_you_mean(text, Cause::all().map(Cause::name));
        let hint = hint.unwrap_or_else(|| "docs/diagnose/causes.md lists all causes".into());
        UnknownCause { hint }
    })
}
