//! Messages to the operator: one line for each event, on standard error.
//!
//! In: `tracing` events of any thread, and the picture of a running test. Out: lines such as `handfast: warning: …`,
//! above the picture, written by a separate thread, so that a terminal or pipe without a reader never delays a
//! connection. Lines that do not fit the queue are counted.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

mod screen;
mod stamp;

use screen::Screen;
pub(crate) use stamp::Stamp;

/// Lines that may wait for a slow reader.
const QUEUE: usize = 1024;
/// How long the last lines may take when the program ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Writes text to standard error; a missing reader is ignored.
pub(crate) fn err(text: &str) {
    if !text.is_empty() {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Writes data to standard output; a reader that ended early is not our error.
pub(crate) fn print(text: &str, good: bool) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    if good { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// Begins to write `tracing` events of the level in `HANDFAST_LOG` (error, warn, info, debug, trace), by default
/// `level`; each line begins with its time in the format of `stamp`.
pub(crate) fn start(color: bool, level: Level, stamp: Stamp) -> Talk {
    let (lines, waiting) = sync_channel(QUEUE);
    let (end, ended) = sync_channel(0);
    let lost = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lost);
    let thread = std::thread::Builder::new().name("talk".into()).spawn(move || {
        write_lines(&waiting, &counted, stamp, Screen::new(io::stderr(), || terminal_size(io::stderr())));
        drop(end);
    });
    let level = std::env::var("HANDFAST_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(level);
    if thread.is_ok() {
        let talker = Talker { lines: lines.clone(), lost, level, color, stamp };
        // Fails only if one was set before, which no code does.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(talker));
    }
    Talk { lines, ended }
}

/// A handle to the writing thread.
pub(crate) struct Talk {
    lines: SyncSender<Line>,
    ended: Receiver<()>,
}

enum Line {
    /// A line above the picture.
    Text(String),
    /// A new picture.
    Picture(Vec<screen::Line>),
    /// Removes the picture.
    Wipe,
    End,
}

/// A handle to write messages from any thread.
#[derive(Clone)]
pub(crate) struct Voice(Option<SyncSender<Line>>);

impl Voice {
    /// One without a reader.
    pub(crate) fn silent() -> Self {
        Self(None)
    }

    /// Writes a line; where a picture is shown, above it. Lost without a reader.
    pub(crate) fn say(&self, text: impl Into<String>) {
        self.send(Line::Text(text.into()));
    }

    /// Replaces the picture by these rows; only on a terminal. Lost without a reader.
    pub(crate) fn show<R: Into<screen::Line>>(&self, rows: impl IntoIterator<Item = R>) {
        self.send(Line::Picture(rows.into_iter().map(Into::into).collect()));
    }

    /// Removes the picture, so that the next lines replace it.
    pub(crate) fn wipe(&self) {
        self.send(Line::Wipe);
    }
}

impl Voice {
    fn send(&self, line: Line) {
        if let Some(lines) = &self.0 {
            let _ = lines.try_send(line);
        }
    }
}

/// Columns and rows of the terminal of this stream; `None` without a terminal or a known size.
pub(crate) fn terminal_size(stream: impl AsFd) -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

impl Talk {
    /// A handle for other threads.
    pub(crate) fn voice(&self) -> Voice {
        Voice(Some(self.lines.clone()))
    }

    /// Waits briefly until all messages have been written.
    pub(crate) fn finish(self) {
        if self.lines.try_send(Line::End).is_ok() {
            let _ = self.ended.recv_timeout(FAREWELL);
        }
    }
}

fn write_lines(waiting: &Receiver<Line>, lost: &AtomicU64, stamp: Stamp, mut screen: Screen<io::Stderr>) {
    let mut confined = false;
    while let Ok(line) = waiting.recv() {
        // It was opened before the sandbox.
        confined = confined || handfast_process::sandbox::confine_this_thread();
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let were = if missing == 1 { "line was" } else { "lines were" };
            let now = stamp.now();
            screen.text(&format!(
                "{now}handfast: warning: {missing} {were} dropped, since standard error was not read"
            ));
        }
        match line {
            Line::Text(line) => screen.text(&line),
            Line::Picture(rows) => screen.show(rows),
            Line::Wipe => screen.show(Vec::new()),
            Line::End => return,
        }
    }
}

struct Talker {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
    level: Level,
    color: bool,
    stamp: Stamp,
}

impl<S: Subscriber> Layer<S> for Talker {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // Libraries log internal events; only their warnings matter to an operator.
        let ours = metadata.target().starts_with("handfast");
        *metadata.level() <= if ours { self.level } else { self.level.min(Level::WARN) }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let mark = mark(*event.metadata().level(), self.color);
        let line = format!("{}handfast: {mark}{}{}", self.stamp.now(), words.message, words.fields);
        if self.lines.try_send(Line::Text(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn mark(level: Level, color: bool) -> &'static str {
    match (level, color) {
        (Level::ERROR, true) => "\u{1b}[1;31merror:\u{1b}[0m ",
        (Level::ERROR, false) => "error: ",
        (Level::WARN, true) => "\u{1b}[1;33mwarning:\u{1b}[0m ",
        (Level::WARN, false) => "warning: ",
        (Level::INFO, _) => "",
        _ => "debug: ",
    }
}

/// An event's message, and its other fields as ` name=value`.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = if field.name() == "message" {
            write!(self.message, "{value}")
        } else {
            write!(self.fields, " {}={value}", field.name())
        };
    }
}
