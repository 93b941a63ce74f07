//! `handfast top`: a running proxy, or a run of `handfast load`, live in the terminal or once as text.
//!
//! In: where the proxy's admin address is, or the metrics of the run. Out: pictures. It follows restarts and upgrades of the proxy: it goes on asking.

mod cache_table;
mod cells;
mod model;
mod picture;
mod request_tables;
mod run_tables;
mod sample;
mod table;
mod tables;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use handfast_config::ConfigSource;
use handfast_report::ToolError;
use ratatui::crossterm::event::{self, Event};
use ratatui::text::Text;
use ratatui::{DefaultTerminal, Frame};

use crate::load::display::unicode;
use crate::load::refused;
use crate::load::signals::Signals;
use crate::running::{self, USUAL_ADDRESS, is_there};
use crate::screen::{Line, Look, Pieces, is_screen};
use crate::status::{AdminAddress, Seen};
use crate::talk::print;
use crate::talk::should_use_color;
use crate::talk::terminal_size;
use crate::words::running::{CONFIGURATION, RunningWords};
use crate::words::top::TopWords;
use model::{KeyAction, Model};

/// Columns of a text that goes to no terminal.
const WIDE: usize = 160;
/// News that may wait to be shown.
const QUEUE: usize = 16;
/// From one question to the next where the first answer has no rates yet.
const MOMENT: Duration = Duration::from_secs(1);

/// Events that the program handles.
enum News {
    Answer(TimedStatus),
    Terminal(Event),
    /// A signal, with the exit code that a shell gives to what it ended.
    End(u8),
}

/// Time of a request, and its answer or the error.
type TimedStatus = (f64, Result<Seen, crate::status::StatusError>);

/// Runs `handfast top`.
pub(crate) fn top(words: &TopWords) -> ExitCode {
    match status_of(words).and_then(|status| if words.once { once(&status) } else { live(status, words) }) {
        Ok(code) => code,
        Err(refusal) => refused(&refusal),
    }
}

fn status_of(words: &TopWords) -> Result<AdminAddress, ToolError> {
    let packaged = Path::new(CONFIGURATION);
    let file = words.config.as_deref().or(is_there(packaged).then_some(packaged));
    let Some(file) = file.filter(|_| words.address.is_none()) else {
        let address = words.address.as_deref().unwrap_or(USUAL_ADDRESS);
        return AdminAddress::parse(address).map_err(ToolError::wrong_use);
    };
    let address = ConfigSource::File(file.to_path_buf()).admin_address(false);
    let configured = address.map_err(|error| ToolError::wrong_use(error.problems))?;
    let what = || format!("{}: has no admin address (admin.listen is off)", file.display());
    let none = || ToolError::wrong_use(what()).hint("set admin.listen, and restart the proxy");
    configured.as_ref().map(AdminAddress::of).ok_or_else(none)
}

/// Prints open requests and connected clients once: what `handfast open` does.
pub(crate) fn open(words: &RunningWords) -> ExitCode {
    let status = match running::status_of(words) {
        Ok(status) => status,
        Err(code) => return code,
    };
    let model = match first(&status, Instant::now()) {
        Ok(model) => model,
        Err(refusal) => return refused(&refusal),
    };
    let (width, look) = of_output();
    show(picture::tables(&model, &["Open requests", "Clients"], width, look), width, look)
}

fn query_status(status: &AdminAddress, begun: Instant) -> TimedStatus {
    let seen = status.seen();
    (begun.elapsed().as_secs_f64(), seen)
}

/// Takes in an answer.
fn take(model: &mut Model, (time, seen): TimedStatus) {
    match seen {
        Ok(seen) => model.answered(time, seen),
        Err(why) => model.failed(time, why.to_string()),
    }
}

/// Sends the first request, so that a missing proxy is reported at once.
fn first(status: &AdminAddress, begun: Instant) -> Result<Model, ToolError> {
    let mut model = Model::new(status.to_string());
    let (time, seen) = query_status(status, begun);
    let seen = seen.map_err(|why| {
        ToolError::failed(format!("read {status}: {why}")).hint(
            "give the admin address of a running proxy (admin.listen), or its configuration with -c, or the address \
             of `handfast load --metrics`",
        )
    })?;
    model.answered(time, seen);
    Ok(model)
}

fn once(status: &AdminAddress) -> Result<ExitCode, ToolError> {
    let begun = Instant::now();
    let mut model = first(status, begun)?;
    if !model.has_rates() {
        std::thread::park_timeout(MOMENT);
        take(&mut model, query_status(status, begun));
    }
    let (width, look) = of_output();
    Ok(show(picture::whole(&model, width, look), width, look))
}

/// The columns of standard output, and its look.
fn of_output() -> (usize, Look) {
    let terminal = io::stdout().is_terminal();
    let size = terminal_size(io::stdout()).filter(|_| terminal);
    let width = size.map_or(WIDE, |(columns, _)| columns.into());
    (width, Look { color: should_use_color(terminal), unicode: true, terminal })
}

fn show(lines: Vec<Line>, width: usize, look: Look) -> ExitCode {
    let shown =
        lines.into_iter().map(|line| format!("{}\n", line.cut_to(width).fit_for(look).bytes().trim_end()));
    print(&shown.collect::<String>(), true)
}

fn live(status: AdminAddress, words: &TopWords) -> Result<ExitCode, ToolError> {
    if !io::stdin().is_terminal() || !is_screen(&io::stdout()) {
        let what =
            "show a live picture: standard input and output are not a terminal that can move its cursor";
        return Err(ToolError::wrong_use(what)
            .hint(format!("`handfast top --once` prints everything as text; {status} is the same as JSON")));
    }
    let begun = Instant::now();
    let mut model = first(&status, begun)?;
    let (sender, news) = sync_channel(QUEUE);
    let interval = Duration::from_secs(words.interval.into());
    watch_signals(&sender)?;
    start("asking", &sender, move |sender| poll_status(&status, begun, interval, &sender))?;
    start("keys", &sender, |sender| read_terminal(&sender))?;
    let variable = |name| std::env::var(name).unwrap_or_default();
    let look = Look { color: should_use_color(true), unicode: unicode(variable), terminal: true };
    let code = Screen::enter().and_then(|mut screen| run(&mut model, &news, &mut screen, look));
    code.map(ExitCode::from).map_err(|error| ToolError::failed(format!("use the terminal: {error}")))
}

/// A terminal that is ours. Dropping it gives it back; ratatui does so when the program panics.
struct Screen(DefaultTerminal);

impl Screen {
    fn enter() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| drop(ratatui::try_restore()))
    }

    /// Stops this process as Ctrl-Z does, until the shell resumes it.
    fn suspend(&mut self) -> io::Result<()> {
        self.0.show_cursor()?;
        ratatui::try_restore()?;
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP)?;
        self.0 = ratatui::try_init()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

fn start(
    name: &str,
    sender: &SyncSender<News>,
    work: impl FnOnce(SyncSender<News>) + Send + 'static,
) -> Result<(), ToolError> {
    let sender = sender.clone();
    let started = Builder::new().name(name.into()).spawn(move || work(sender));
    started.map(drop).map_err(|error| ToolError::failed(format!("start the thread {name}: {error}")))
}

fn draw(model: &Model, frame: &mut Frame<'_>, look: Look) {
    let area = frame.area();
    let lines = picture::picture(model, area.width.into(), area.height.into(), look);
    let lines = lines.into_iter().map(|line| line.cut_to(area.width.into()).fit_for(look));
    frame.render_widget(lines.collect::<Text<'_>>(), area);
}

/// Shows what is new until a key or a signal ends it; the exit code.
fn run(model: &mut Model, news: &Receiver<News>, screen: &mut Screen, look: Look) -> io::Result<u8> {
    loop {
        screen.0.draw(|frame| draw(model, frame, look))?;
        match news.recv() {
            Ok(News::Answer(answer)) => take(model, answer),
            Ok(News::Terminal(Event::Key(key))) if key.is_press() => match model.press(key) {
                KeyAction::Nothing => {}
                KeyAction::Suspend => screen.suspend()?,
                KeyAction::End => return Ok(0),
            },
            // Another size: drawing looks at it.
            Ok(News::Terminal(_)) => {}
            Ok(News::End(code)) => return Ok(code),
            Err(_) => return Ok(1),
        }
    }
}

/// Asks repeatedly, also while the proxy does not answer.
fn poll_status(status: &AdminAddress, begun: Instant, interval: Duration, news: &SyncSender<News>) {
    loop {
        let next = Instant::now() + interval;
        // It may be woken early for no reason.
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::park_timeout(left);
        }
        if news.send(News::Answer(query_status(status, begun))).is_err() {
            return;
        }
    }
}

fn read_terminal(news: &SyncSender<News>) {
    loop {
        // Without a terminal there is nothing to show.
        let event = event::read().map_or(News::End(129), News::Terminal);
        let is_end = matches!(event, News::End(_));
        if news.send(event).is_err() || is_end {
            return;
        }
    }
}

/// Ends the picture by a signal. The handlers are there when this returns: a signal before that would leave the terminal as it is.
fn watch_signals(sender: &SyncSender<News>) -> Result<(), ToolError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ToolError::failed(format!("listen for signals: {error}")))?;
    let listening = runtime.enter();
    let mut signals = Signals::listen()?;
    drop(listening);
    start("signals", sender, move |sender| {
        let code = runtime.block_on(signals.next());
        let _ = sender.send(News::End(code));
    })
}
