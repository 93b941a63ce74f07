//! One connection as one line for people.
//!
//! In: an entry. Out: a line. On a terminal, the line of a successful connection is cut at its width. A failure is never cut, since the
//! reader needs its reason; in a pipe or file nothing is cut. Text from a peer is escaped, so that it cannot control the terminal.

use handfast_text::calendar::Utc;
use handfast_text::table::{cut, width};
use handfast_text::units::{bytes, count, counted, duration, plain};

use super::entry::{Connection, Entry, sentence};
use super::request::Request;

/// The part of a requested name that is kept if space is short.
const MIN_NAME_CHARS: usize = 16;

/// The style of lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// The width of the terminal; `None`: lines are not cut.
    pub(super) columns: Option<usize>,
    pub(super) color: bool,
}

/// The line, without its end.
pub(super) fn line(entry: &Entry, look: Look) -> String {
    match entry {
        Entry::Loss { time, lines, because } => {
            let rest = format!("{} missing here: {}", lines_are(*lines), plain(because));
            painted(&stamp(*time), &rest, "33", look.color)
        }
        Entry::Connection(connection) => {
            let head = head(connection.accepted, &connection.client, &connection.service);
            if connection.has_failed() {
                return painted(&head, &failed(connection), "31", look.color);
            }
            fitted(&head, look, |room| served(connection, room))
        }
        Entry::Request(request) => {
            let head = head(request.begun, &request.client, &request.service);
            if request.has_failed() {
                return painted(&head, &failed_request(request), "31", look.color);
            }
            fitted(&head, look, |room| answered(request, room))
        }
    }
}

fn head(time: f64, client: &str, service: &str) -> String {
    let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { plain(text) };
    let (client, service) = (dash(client), dash(service));
    format!("{} {client:21} {service:8}", stamp(time))
}

/// The whole line, cut at the width of the terminal.
fn fitted(head: &str, look: Look, rest: impl Fn(usize) -> String) -> String {
    match look.columns {
        None => format!("{head} {}", rest(usize::MAX)),
        Some(columns) => {
            let room = columns.saturating_sub(width(head) + 1);
            cut(&format!("{head} {}", rest(room)), columns).into_owned()
        }
    }
}

fn lines_are(lines: u64) -> String {
    format!("{} {}", counted(lines, "line"), if lines == 1 { "is" } else { "are" })
}

/// `03-01 12:00:00.042`: without the year.
fn stamp(seconds: f64) -> String {
    let whole = seconds.floor();
    let utc = Utc::of_seconds(whole as i64);
    let date = utc.date().to_string();
    let month = date.get(5..).unwrap_or_default();
    format!("{month} {}.{:03}", utc.time_of_day(), ((seconds - whole) * 1_000.0).round().min(999.0) as u64)
}

/// Describes the failure of a connection; the name comes last, since it may be long.
fn failed(connection: &Connection) -> String {
    let sentence = connection.sentence().map(|sentence| format!(": {sentence}")).unwrap_or_default();
    let mut text = format!("{} {}{sentence}", plain(&connection.step), plain(&connection.cause));
    if !connection.detail.is_empty() {
        text.push_str(&format!(": {}", plain(&connection.detail)));
    }
    if !connection.name.is_empty() {
        text.push_str(&format!(", name {}", plain(&connection.name)));
    }
    text
}

/// The connection's facts. The name is shortened, so that the backend is visible.
fn served(connection: &Connection, room: usize) -> String {
    let version = connection.version.trim_start_matches("TLSv");
    let tls = match (version, connection.resumed) {
        ("", _) if connection.passed_through => "passed on",
        ("", _) => "plain",
        (version, false) => version,
        (version, true) => &format!("{version} resumed"),
    };
    let nanos = |seconds: f64| duration(seconds * 1e9);
    let front = format!(
        "{} {}, {}↑ {}↓, {}",
        plain(tls),
        nanos(connection.readied()),
        bytes(connection.to_backend),
        bytes(connection.to_client),
        nanos(connection.duration()),
    );
    let failures = match connection.backends_failed {
        0 => String::new(),
        failed => format!(" after {} failed", count(failed)),
    };
    let backend = match connection.backend.as_str() {
        "" => String::new(),
        backend => format!(" → {}{failures}", plain(backend)),
    };
    let taken = width(&front) + width(&backend) + 2;
    match plain(&connection.name).as_str() {
        "" => format!("{front}{backend}"),
        name => format!("{front}, {}{backend}", cut(name, room.saturating_sub(taken).max(MIN_NAME_CHARS))),
    }
}

/// Status, method, host and path; the last three shortened to a number of letters.
fn requested(request: &Request, room: usize) -> String {
    let status = if request.status == 0 { "-".to_owned() } else { request.status.to_string() };
    let target = format!("{}{}", plain(&request.host), plain(&request.path));
    format!("{status} {}", cut(&format!("{} {target}", plain(&request.method)), room))
}

/// A request that a backend answered. The path is shortened, so that the backend is visible.
fn answered(request: &Request, room: usize) -> String {
    let nanos = |seconds: f64| duration(seconds * 1e9);
    let backend = match request.backend.as_str() {
        "" => String::new(),
        backend => format!(" → {}", plain(backend)),
    };
    let rest = format!(
        ", {}↑ {}↓, {}, {}{backend}",
        bytes(request.from_client),
        bytes(request.to_client),
        nanos(request.first_byte()),
        nanos(request.duration()),
    );
    // Four for the status and its blank.
    let left = room.saturating_sub(width(&rest) + 4).max(MIN_NAME_CHARS);
    format!("{}{rest}", requested(request, left))
}

/// Describes the reason why no backend answered a request completely.
fn failed_request(request: &Request) -> String {
    let sentence =
        sentence(&request.cause, &request.side).map(|text| format!(": {text}")).unwrap_or_default();
    let detail = match request.detail.as_str() {
        "" => String::new(),
        detail => format!(": {}", plain(detail)),
    };
    let (step, cause) = (plain(&request.step), plain(&request.cause));
    format!("{}, {step} {cause}{sentence}{detail}", requested(request, usize::MAX))
}

fn painted(head: &str, rest: &str, paint: &str, color: bool) -> String {
    match color {
        true => format!("{head} \u{1b}[{paint}m{rest}\u{1b}[0m"),
        false => format!("{head} {rest}"),
    }
}
