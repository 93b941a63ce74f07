//! One connection as one line for people.
//!
//! In: an entry. Out: a line. On a terminal, the line of a successful connection is cut at its width. A failure is never cut, since the
//! reader needs its reason; in a pipe or file nothing is cut. Text from a peer is escaped, so that it cannot control the terminal.

use handfast_text::calendar::Utc;
use handfast_text::units::{bytes, count, counted, duration, plain};

use super::entry::{Connection, Entry};

/// The part of a requested name that is kept if space is short.
const LEAST_NAME: usize = 16;

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
            let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { plain(text) };
            let (client, service) = (dash(&connection.client), dash(&connection.service));
            let head = format!("{} {client:21} {service:8}", stamp(connection.accepted));
            if connection.has_failed() {
                return painted(&head, &failed(connection), "31", look.color);
            }
            match look.columns {
                None => format!("{head} {}", served(connection, usize::MAX)),
                Some(columns) => {
                    let room = columns.saturating_sub(head.chars().count() + 1);
                    cut(&format!("{head} {}", served(connection, room)), columns)
                }
            }
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

/// Why it failed; the name comes last, since it may be long.
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
    let taken = front.chars().count() + backend.chars().count() + 2;
    match plain(&connection.name).as_str() {
        "" => format!("{front}{backend}"),
        name => format!("{front}, {}{backend}", cut(name, room.saturating_sub(taken).max(LEAST_NAME))),
    }
}

/// At most this number of letters, the last one an ellipsis if the text was longer.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn painted(head: &str, rest: &str, paint: &str, color: bool) -> String {
    match color {
        true => format!("{head} \u{1b}[{paint}m{rest}\u{1b}[0m"),
        false => format!("{head} {rest}"),
    }
}
