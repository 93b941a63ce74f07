//! Messages to the operator: one line for each event, on standard error.
//!
//! In: `tracing` events of any thread, and the picture of a running test. Out: lines such as `handfast: warning: …`,
//! above the picture, written by a separate thread, so that a terminal or pipe without a reader never delays a
//! connection. Lines of one kind have a limit (`limit.rs`); those beyond it, and those that do not fit the queue, are counted.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use handfast_process::log_lines::REPORT;
use handfast_text::foreign::{message, screen};
use handfast_text::units::{count, counted, plain};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

mod limit;
mod screen;
mod stamp;
mod style;

use limit::{Limit, Omitted, Verdict};
use screen::Screen;
pub(crate) use stamp::Stamp;
pub(crate) use style::{color, should_use_color, style};

/// Lines that may wait for a slow reader.
const QUEUE: usize = 1024;
/// Time limit for the last lines when the program ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Writes text to standard error, without what a terminal obeys but colours; a missing reader is ignored.
pub(crate) fn err(text: &str) {
    if !text.is_empty() {
        let _ = writeln!(io::stderr(), "{}", screen(text));
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
    let shared = Arc::new(Shared { lost: AtomicU64::new(0), limit: Limit::new() });
    let counts = Arc::clone(&shared);
    let thread = std::thread::Builder::new().name("talk".into()).spawn(move || {
        let screen = Screen::new(io::stderr(), || terminal_size(io::stderr()));
        Writer { shared: counts, stamp, screen, samples: HashMap::new() }.write_lines(&waiting);
        drop(end);
    });
    let level = std::env::var("HANDFAST_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(level);
    if thread.is_ok() {
        let talker = Talker { lines: lines.clone(), shared, level, color, stamp };
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

/// State of the threads that log and of the one that writes.
struct Shared {
    /// Lines that did not fit the queue.
    lost: AtomicU64,
    limit: Limit,
}

enum Line {
    /// A line above the picture.
    Text(String),
    /// The first line of a kind that is left out, without its time.
    Sample(usize, String),
    Omitted(Omitted),
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
    pub(crate) fn print_line(&self, text: impl Into<String>) {
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

/// The thread that writes.
struct Writer<W: Write> {
    shared: Arc<Shared>,
    stamp: Stamp,
    screen: Screen<W>,
    /// By kind, the first line that was left out lately.
    samples: HashMap<usize, String>,
}

impl<W: Write> Writer<W> {
    fn write_lines(mut self, waiting: &Receiver<Line>) {
        let mut confined = false;
        loop {
            let next = match self.samples.is_empty() {
                true => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => waiting.recv_timeout(self.shared.limit.rest_of_window()),
            };
            // It was opened before the sandbox.
            confined = confined || handfast_process::sandbox::confine_this_thread();
            let missing = self.shared.lost.swap(0, Ordering::Relaxed);
            if missing > 0 {
                let lines = counted(missing, "line");
                self.warn(&format!("{lines} left out: too many at once for the reader of standard error"));
            }
            match next {
                Ok(Line::Text(line)) => self.screen.text(&line),
                Ok(Line::Sample(place, line)) => drop(self.samples.insert(place, line)),
                Ok(Line::Omitted(omitted)) => self.report(omitted),
                Ok(Line::Picture(rows)) => self.screen.show(rows),
                Ok(Line::Wipe) => self.screen.show(Vec::new()),
                Err(RecvTimeoutError::Timeout) => {
                    self.report_all(false);
                    self.samples.clear();
                }
                Ok(Line::End) | Err(RecvTimeoutError::Disconnected) => return self.report_all(true),
            }
        }
    }

    fn report_all(&mut self, with_present: bool) {
        let omitted = self.shared.limit.take_omitted(with_present);
        omitted.into_iter().for_each(|omitted| self.report(omitted));
    }

    fn report(&mut self, Omitted { place, lines }: Omitted) {
        let seconds = limit::WINDOW.as_secs();
        let sample =
            self.samples.get(&place).map(|sample| format!(", such as: {sample}")).unwrap_or_default();
        let more =
            if lines == 1 { "1 more line".into() } else { format!("{} more lines", count(lines.into())) };
        self.warn(&format!("{more} of one kind left out in {seconds} s{sample}"));
    }

    fn warn(&mut self, text: &str) {
        self.screen.text(&format!("{}handfast: warning: {text}", self.stamp.now()));
    }
}

struct Talker {
    lines: SyncSender<Line>,
    shared: Arc<Shared>,
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
        let metadata = event.metadata();
        // A report has as many lines as its operator's files give it.
        let admission = (metadata.target() != REPORT).then(|| self.shared.limit.admit(metadata));
        if let Some(omitted) = admission.as_ref().and_then(|admission| admission.before) {
            self.send(Line::Omitted(omitted), omitted.lines.into());
        }
        let (place, verdict) =
            admission.map_or((0, Verdict::Written), |admission| (admission.place, admission.verdict));
        if verdict == Verdict::Omitted {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        // The one place where every message passes, whichever peer or file has a text in it.
        let (message, fields) = (message(&words.message), plain(&words.fields));
        match verdict {
            // It is counted among those that were left out.
            Verdict::FirstOmitted => self.send(Line::Sample(place, message + &fields), 0),
            _ => {
                let mark = mark(*metadata.level(), self.color);
                let line = format!("{}handfast: {mark}{message}{fields}", self.stamp.now());
                self.send(Line::Text(line), 1);
            }
        }
    }
}

impl Talker {
    /// `lines` is the number of lines that are lost without room for it.
    fn send(&self, line: Line, lines: u64) {
        if self.lines.try_send(line).is_err() {
            self.shared.lost.fetch_add(lines, Ordering::Relaxed);
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

#[cfg(test)]
mod tests;
