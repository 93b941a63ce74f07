//! A limit on lines of one kind, so that what a peer or a library causes neither fills the log nor displaces other lines.
//!
//! In: the call site of each event, which is its kind. Out: a verdict, and at the end of a window the number of lines that were left out.
//! **Cost**: one search in a fixed table, one exchange; no lock, because workers log too.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tracing::Metadata;

/// Lines of one kind that are written in a window.
pub(super) const MAX_LINES: u32 = 50;
/// Lines of one kind are counted for this time.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// More than the program has call sites, with those of its libraries that warn; further ones share the last place.
const PLACES: usize = 512;

/// Counts lines by kind. Windows begin at the same time for all kinds.
pub(super) struct Limit {
    began: Instant,
    places: [Place; PLACES],
}

#[derive(Default)]
struct Place {
    /// Address of the call site's metadata; 0: free.
    kind: AtomicUsize,
    /// Number of the window in the upper half, lines in it in the lower one: they change together.
    state: AtomicU64,
}

/// Lines that were left out of a window that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Omitted {
    pub(super) place: usize,
    pub(super) lines: u32,
}

/// The verdict on a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) place: usize,
    pub(super) verdict: Verdict,
    /// Of an earlier window, to be reported by the caller.
    pub(super) before: Option<Omitted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Written,
    /// The first one of a window that is left out.
    FirstOmitted,
    Omitted,
}

impl Limit {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), places: std::array::from_fn(|_| Place::default()) }
    }

    /// Counts a line of this call site.
    pub(super) fn admit(&self, kind: &'static Metadata<'static>) -> Admission {
        let place = self.place(std::ptr::from_ref(kind).addr());
        let window = self.window(Instant::now());
        let next = |state: u64| {
            let lines = if window_of(state) == window { lines_of(state).saturating_add(1) } else { 1 };
            state_of(window, lines)
        };
        let update = |state| Some(next(state));
        let state = &self.places[place].state;
        let before = state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).unwrap_or_default();
        let verdict = match lines_of(next(before)) {
            lines if lines <= MAX_LINES => Verdict::Written,
            lines if lines == MAX_LINES + 1 => Verdict::FirstOmitted,
            _ => Verdict::Omitted,
        };
        let before = if window_of(before) == window { None } else { omitted(place, before) };
        Admission { place, verdict, before }
    }

    /// Takes what was left out of windows that are over, or of all.
    pub(super) fn take_omitted(&self, with_present: bool) -> Vec<Omitted> {
        let window = self.window(Instant::now());
        let take = |(place, Place { state, .. }): (usize, &Place)| {
            let end = |state| {
                let is_over = with_present || window_of(state) != window;
                (is_over && lines_of(state) > MAX_LINES).then_some(state_of(window, 0))
            };
            let before = state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()?;
            omitted(place, before)
        };
        self.places.iter().enumerate().filter_map(take).collect()
    }

    /// Time until the present window is over.
    pub(super) fn rest_of_window(&self) -> Duration {
        let millis = self.began.elapsed().as_millis() % WINDOW.as_millis();
        WINDOW - Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }

    fn window(&self, now: Instant) -> u32 {
        let windows = now.saturating_duration_since(self.began).as_secs() / WINDOW.as_secs();
        u32::try_from(windows).unwrap_or(u32::MAX)
    }

    fn place(&self, kind: usize) -> usize {
        // Call sites are static values of more than 64 bytes.
        let first = (kind >> 6) % PLACES;
        let mut places = (0..PLACES).map(|step| (first + step) % PLACES);
        let is_mine = |place: &usize| {
            let taken = &self.places[*place].kind;
            let was = taken.compare_exchange(0, kind, Ordering::Relaxed, Ordering::Relaxed);
            was.is_ok() || was == Err(kind)
        };
        places.find(is_mine).unwrap_or(PLACES - 1)
    }
}

fn omitted(place: usize, state: u64) -> Option<Omitted> {
    let lines = lines_of(state).checked_sub(MAX_LINES).filter(|lines| *lines > 0)?;
    Some(Omitted { place, lines })
}

fn state_of(window: u32, lines: u32) -> u64 {
    u64::from(window) << 32 | u64::from(lines)
}

fn window_of(state: u64) -> u32 {
    (state >> 32) as u32
}

fn lines_of(state: u64) -> u32 {
    state as u32
}
