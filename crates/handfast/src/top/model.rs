//! State of the display: the last two samples of the proxy or the state of a run, and the effects of keys.
//!
//! In: answers and keys. Out: what `picture.rs` draws. Pure: the time comes with each answer.

use handfast_report::run::Run;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::cells::Pair;
use super::run_tables;
use super::sample::Sample;
use super::table::{Order, Table};
use super::tables;
use crate::screen::Look;
use crate::status::Seen;

/// Rates of new connections that are kept for the curve.
const CURVE: usize = 120;
/// Letters of a filter.
const FILTER: usize = 60;
/// Rows that a page key moves by.
const PAGE: usize = 10;

/// Tables that either has at most.
const MAX_TABLES: usize = tables::TABLES.len();

/// Subject of the display: a proxy or a run.
pub(super) enum View<'m> {
    Proxy(Pair<'m>),
    Run(&'m Run),
}

impl View<'_> {
    /// The names of the tables in the order of their keys, and shorter ones.
    pub(super) fn names(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Proxy(_) => tables::TABLES.iter().map(|(name, short, _)| (*name, *short)).collect(),
            Self::Run(_) => run_tables::TABLES.iter().map(|(name, short, _)| (*name, *short)).collect(),
        }
    }

    /// One of them.
    pub(super) fn table(&self, place: usize, look: Look) -> Table {
        match self {
            Self::Proxy(pair) => (tables::TABLES[place].2)(pair, look),
            Self::Run(run) => (run_tables::TABLES[place].2)(run, look),
        }
    }
}

/// Request of a key to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Nothing,
    Suspend,
    End,
}

/// Everything that the picture is made of.
pub(crate) struct Model {
    pub(super) address: String,
    now: Option<Sample>,
    before: Option<Sample>,
    /// In place of a proxy.
    run: Option<Box<Run>>,
    /// Time of the last answer, good or bad.
    pub(super) time: f64,
    /// Start of the time in which the proxy has not answered, and the reason.
    pub(super) lost: Option<(f64, String)>,
    /// Time at which another process replaced the previous one, and the process id of the previous one.
    pub(super) replaced: Option<(f64, u32)>,
    /// New connections for each second.
    pub(super) curve: Vec<f64>,
    pub(super) table: usize,
    pub(super) orders: [Order; MAX_TABLES],
    pub(super) scroll: usize,
    pub(super) filter: String,
    pub(super) typing: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
}

impl Model {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            now: None,
            before: None,
            run: None,
            time: 0.0,
            lost: None,
            replaced: None,
            curve: Vec::new(),
            table: 0,
            orders: [Order::default(); MAX_TABLES],
            scroll: 0,
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
        }
    }

    /// The current subject of the display; `None` before the first answer.
    pub(super) fn view(&self) -> Option<View<'_>> {
        let run = self.run.as_deref().map(View::Run);
        run.or_else(|| self.pair().map(View::Proxy))
    }

    fn pair(&self) -> Option<Pair<'_>> {
        self.now.as_ref().map(|now| Pair { now, before: self.before.as_ref() })
    }

    /// Returns true if there are rates.
    pub(crate) fn has_rates(&self) -> bool {
        self.before.is_some() || self.run.is_some()
    }

    /// There was an answer, at this time.
    pub(crate) fn answered(&mut self, time: f64, seen: Seen) {
        self.time = time;
        self.lost = None;
        if self.paused {
            return;
        }
        if self.run.is_some() != matches!(seen, Seen::Run(_)) {
            (self.table, self.scroll, self.orders) = (0, 0, [Order::default(); MAX_TABLES]);
        }
        match seen {
            Seen::Proxy(status) => self.proxy(Sample { at: time, status: *status }),
            Seen::Run(run) => {
                if let Some(before) = self.run.as_ref().filter(|before| before.process != run.process) {
                    self.replaced = Some((time, before.process));
                }
                self.run = Some(run);
            }
        }
    }

    /// The proxy is this now.
    fn proxy(&mut self, now: Sample) {
        self.run = None;
        let last = self.now.take();
        if let Some(last) = last.as_ref().filter(|last| !last.is_same_process(&now)) {
            self.replaced = Some((now.at, last.process.pid));
        }
        // Counts of another process are no baseline for this one.
        self.before = last.filter(|last| last.is_same_process(&now)).or_else(|| now.earlier());
        self.now = Some(now);
        if let Some(rate) = self.pair().and_then(|pair| pair.sum(|service| service.accepted)) {
            self.curve.push(rate);
            let spare = self.curve.len().saturating_sub(CURVE);
            self.curve.drain(..spare);
        }
    }

    /// The proxy has not answered, at this time and for this reason.
    pub(crate) fn failed(&mut self, time: f64, why: String) {
        self.time = time;
        let since = self.lost.as_ref().map_or(time, |(since, _)| *since);
        self.lost = Some((since, why));
    }

    /// A key was pressed.
    pub(crate) fn press(&mut self, key: KeyEvent) -> KeyAction {
        match key.code {
            KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => return KeyAction::End,
            KeyCode::Char('z') if key.modifiers == KeyModifiers::CONTROL => return KeyAction::Suspend,
            _ if self.help => self.help = false,
            code if self.typing => self.type_filter(code),
            KeyCode::Char('q') => return KeyAction::End,
            code => self.choose(code),
        }
        KeyAction::Nothing
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            _ => {}
        }
        self.scroll = 0;
    }

    fn choose(&mut self, key: KeyCode) {
        let tables = self.view().map_or(MAX_TABLES, |view| view.names().len());
        match key {
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('r') => self.orders[self.table].reversed = !self.orders[self.table].reversed,
            KeyCode::Char('>' | 's') | KeyCode::Right => self.sort_by(1),
            KeyCode::Char('<') | KeyCode::Left => self.sort_by(-1),
            KeyCode::Char('j') | KeyCode::Down => self.scroll += 1,
            KeyCode::Char('k') | KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += PAGE,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            KeyCode::Tab => self.show((self.table + 1) % tables),
            KeyCode::BackTab => self.show((self.table + tables - 1) % tables),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(key) => match tables::KEYS.find(key) {
                Some(place) if place < tables => self.show(place),
                _ => {}
            },
            _ => {}
        }
        // No further than there are rows.
        self.scroll = self.scroll.min(self.rows().saturating_sub(1));
    }

    fn show(&mut self, table: usize) {
        self.table = table;
        self.scroll = 0;
    }

    /// The table that is chosen, as it comes.
    fn chosen(&self) -> Option<Table> {
        let look = Look { color: false, unicode: false, terminal: false };
        self.view().map(|view| view.table(self.table, look))
    }

    fn rows(&self) -> usize {
        self.chosen().map_or(0, |table| table.rows.len())
    }

    /// Goes to the next column, or the one before; between the last and the first the rows stand as they come.
    fn sort_by(&mut self, step: isize) {
        let columns = self.chosen().map_or(0, |table| table.columns.len());
        let order = &mut self.orders[self.table];
        let places = columns as isize + 1;
        let now = order.column.map_or(0, |column| column as isize + 1);
        let next = (now + step).rem_euclid(places);
        order.column = usize::try_from(next - 1).ok();
    }
}
