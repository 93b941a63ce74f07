//! `handfast top`: a running proxy, or a run of `handfast load`, live in the terminal or once as text.
//!
//! In: where the proxy's admin address is, or the metrics of the run. Out: pictures. It follows restarts and upgrades of the proxy: it goes on asking.

mod model;
mod picture;
mod run_tables;
mod sample;
mod table;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
mod tolerant;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use handfast_config::ConfigSource;
use handfast_load::outcome::Refusal;

use crate::load::display::unicode;
use crate::load::refused;
use crate::load::signals::Signals;
use crate::screen::Look;
use crate::status::Status;
use crate::talk::print;
use crate::talk::terminal_size;
use crate::verbs::wants_color;
use crate::words::top::TopWords;
use model::{Model, Wish, keys};
use sample::Seen;
use terminal::Terminal;

/// Where a proxy is asked that was not configured otherwise.
const USUAL: &str = "127.0.0.1:7643";
/// How often the terminal's size is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Columns of a text that goes to no terminal.
const WIDE: usize = 160;
/// News that may wait to be shown.
const QUEUE: usize = 16;
/// From one question to the next where the first answer has no rates yet.
const MOMENT: Duration = Duration::from_secs(1);

/// What happens.
enum News {
    Answer(Answer),
    Keys(Vec<u8>),
    /// A signal, with the exit code that a shell gives to what it ended.
    End(u8),
}

/// When it was asked, with what answered, or why nothing did.
type Answer = (f64, Result<Seen, String>);

/// What `handfast top` does.
pub(crate) fn top(words: &TopWords) -> ExitCode {
    match status_of(words).and_then(|status| if words.once { once(&status) } else { live(status, words) }) {
        Ok(code) => code,
        Err(refusal) => refused(&refusal),
    }
}

fn status_of(words: &TopWords) -> Result<Status, Refusal> {
    let Some(file) = words.config.as_ref().filter(|_| words.address.is_none()) else {
        let address = words.address.as_deref().unwrap_or(USUAL);
        return Status::parse(address).map_err(Refusal::wrong_use);
    };
    let listens = ConfigSource::File(file.clone()).admin_address(false);
    let listens = listens.map_err(|error| Refusal::wrong_use(error.problems))?;
    let what = || format!("{}: has no admin address (admin.listen is off)", file.display());
    let none = || Refusal::wrong_use(what()).hint("set admin.listen, and restart the proxy");
    listens.as_ref().map(Status::of).ok_or_else(none)
}

fn asked(status: &Status, begun: Instant) -> Answer {
    let text = status.json();
    let time = begun.elapsed().as_secs_f64();
    (time, text.and_then(|text| Seen::read(&text, time)))
}

/// Takes in an answer.
fn take(model: &mut Model, (time, seen): Answer) {
    match seen {
        Ok(seen) => model.answered(time, seen),
        Err(why) => model.failed(time, why),
    }
}

/// Sends the first request, so that a missing proxy is reported at once.
fn first(status: &Status, begun: Instant) -> Result<Model, Refusal> {
    let mut model = Model::new(status.to_string());
    let (time, seen) = asked(status, begun);
    let seen = seen.map_err(|why| {
        Refusal::failed(format!("read {status}: {why}")).hint(
            "give the admin address of a running proxy (admin.listen), or its configuration with -c, or the address \
             of `handfast load --metrics`",
        )
    })?;
    model.answered(time, seen);
    Ok(model)
}

fn once(status: &Status) -> Result<ExitCode, Refusal> {
    let begun = Instant::now();
    let mut model = first(status, begun)?;
    if !model.has_rates() {
        std::thread::park_timeout(MOMENT);
        take(&mut model, asked(status, begun));
    }
    let terminal = io::stdout().is_terminal();
    let size = terminal_size(io::stdout()).filter(|_| terminal);
    let width = size.map_or(WIDE, |(columns, _)| columns.into());
    let look = Look { color: wants_color(terminal), unicode: true, terminal };
    let lines = picture::whole(&model, width, look);
    let shown: Vec<String> =
        lines.iter().map(|line| format!("{}\n", line.shown(width, look).trim_end())).collect();
    Ok(print(&shown.concat(), true))
}

fn live(status: Status, words: &TopWords) -> Result<ExitCode, Refusal> {
    let term = std::env::var("TERM").unwrap_or_default();
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() || term.is_empty() || term == "dumb" {
        let what =
            "show a live picture: standard input and output are not a terminal that can move its cursor";
        return Err(Refusal::wrong_use(what)
            .hint(format!("`handfast top --once` prints everything as text; {status} is the same as JSON")));
    }
    let begun = Instant::now();
    let mut model = first(&status, begun)?;
    let (sender, news) = sync_channel(QUEUE);
    let interval = Duration::from_secs(words.interval.into());
    start("asking", &sender, move |sender| ask(&status, begun, interval, &sender))?;
    start("keys", &sender, |sender| read_keys(&sender))?;
    start("signals", &sender, |sender| wait_for_signals(&sender))?;
    let variable = |name| std::env::var(name).unwrap_or_default();
    let look = Look { color: wants_color(true), unicode: unicode(variable), terminal: true };
    let terminal = Terminal::enter()
        .map_err(|error| Refusal::failed(format!("take the terminal of standard input: {error}")))?;
    let code = run(&mut model, &news, &terminal, look);
    drop(terminal);
    Ok(ExitCode::from(code))
}

fn start(
    name: &str,
    sender: &SyncSender<News>,
    work: impl FnOnce(SyncSender<News>) + Send + 'static,
) -> Result<(), Refusal> {
    let sender = sender.clone();
    let started = Builder::new().name(name.into()).spawn(move || work(sender));
    started.map(drop).map_err(|error| Refusal::failed(format!("start the thread {name}: {error}")))
}

/// Shows what is new until a key or a signal ends it; the exit code.
fn run(model: &mut Model, news: &Receiver<News>, terminal: &Terminal, look: Look) -> u8 {
    let mut shown = None;
    loop {
        let now = terminal_size(io::stdout());
        if shown != Some(now) {
            draw(model, terminal, now, look);
            shown = Some(now);
        }
        match news.recv_timeout(LOOK) {
            Ok(News::Answer(answer)) => take(model, answer),
            Ok(News::Keys(bytes)) => {
                for key in keys(&bytes) {
                    match model.press(key) {
                        Wish::Nothing => {}
                        Wish::Suspend => terminal.suspend(),
                        Wish::End => return 0,
                    }
                }
            }
            Ok(News::End(code)) => return code,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return 1,
        }
        shown = None;
    }
}

fn draw(model: &Model, terminal: &Terminal, size: Option<(u16, u16)>, look: Look) {
    let (width, height) = size.map_or((80, 24), |(columns, rows)| (columns.into(), rows.into()));
    let lines = picture::picture(model, width, height, look);
    let rows: Vec<String> = lines.iter().map(|line| line.shown(width, look)).collect();
    terminal.show(&rows);
}

/// Asks again and again; a proxy that does not answer is asked on.
fn ask(status: &Status, begun: Instant, interval: Duration, news: &SyncSender<News>) {
    loop {
        let next = Instant::now() + interval;
        // It may be woken early for no reason.
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::park_timeout(left);
        }
        if news.send(News::Answer(asked(status, begun))).is_err() {
            return;
        }
    }
}

fn read_keys(news: &SyncSender<News>) {
    let mut bytes = [0; 64];
    loop {
        let count = match io::stdin().lock().read(&mut bytes) {
            Ok(0) | Err(_) => {
                // The terminal is gone.
                let _ = news.send(News::End(129));
                return;
            }
            Ok(count) => count,
        };
        if news.send(News::Keys(bytes[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn wait_for_signals(news: &SyncSender<News>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let code = runtime.block_on(async { Some(Signals::listen().ok()?.next().await) });
    if let Some(code) = code {
        let _ = news.send(News::End(code));
    }
}
