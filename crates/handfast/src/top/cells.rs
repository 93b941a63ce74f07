//! Cells of the tables, and the two moments that they compare.

use handfast_observe::metrics::ServiceSnapshot;
use handfast_text::table::Column;
use handfast_text::units::{bytes, count, duration, rate};

use super::sample::Sample;
use super::table::Cell;
use crate::screen::{Line, Pieces as _, Shade};

/// Two moments of one process.
pub(super) struct Pair<'s> {
    pub(super) now: &'s Sample,
    /// `None`: there is no earlier one yet.
    pub(super) before: Option<&'s Sample>,
}

impl Pair<'_> {
    /// Seconds between the two.
    pub(super) fn over(&self) -> Option<f64> {
        self.before.map(|before| self.now.at - before.at).filter(|seconds| *seconds > 0.0)
    }

    /// Returns the increase for each second of a counter that was `before`; 0 if it went back, `None` without an earlier value.
    pub(super) fn rate(&self, now: u64, before: Option<u64>) -> Option<f64> {
        Some(now.saturating_sub(before?) as f64 / self.over()?)
    }

    /// … of a count of all services.
    pub(super) fn sum(&self, of: fn(&ServiceSnapshot) -> u64) -> Option<f64> {
        let sum = |sample: &Sample| sample.services.iter().map(of).fold(0, u64::saturating_add);
        self.rate(sum(self.now), self.before.map(sum))
    }

    pub(super) fn service_before(&self, name: &str) -> Option<&ServiceSnapshot> {
        self.before?.services.iter().find(|known| known.name == name)
    }

    /// The count of something that was not there before, and so was zero; unless nothing is known of before.
    pub(super) fn or_new(&self, before: Option<u64>) -> Option<u64> {
        self.before.map(|_| before.unwrap_or(0))
    }
}

pub(super) const fn column(title: &str, least: usize, rank: u8) -> Column<'_> {
    Column::words(title, least, rank)
}

pub(super) const fn figures(title: &str, rank: u8) -> Column<'_> {
    Column::figures(title, rank)
}

pub(super) fn words(text: impl Into<String>, shade: Shade) -> Cell {
    Cell { line: Line::of(text, shade), key: None }
}

pub(super) fn plain(text: impl Into<String>) -> Cell {
    words(text, Shade::Plain)
}

/// A figure; a dash when it is not known.
pub(super) fn known(value: Option<f64>, shown: impl Fn(f64) -> String, shade: Shade) -> Cell {
    let shade = if value.is_some_and(|value| value > 0.0) { shade } else { Shade::Faint };
    Cell { line: Line::of(value.map_or("–".to_owned(), shown), shade), key: Some(value.unwrap_or(-1.0)) }
}

pub(super) fn rates(value: Option<f64>, shade: Shade) -> Cell {
    known(value, rate, shade)
}

pub(super) fn counts(value: u64, shade: Shade) -> Cell {
    known(Some(value as f64), |value| count(value as u64), shade)
}

/// Seconds.
pub(super) fn times(value: Option<f64>) -> Cell {
    known(value, |seconds| duration(seconds * 1e9), Shade::Plain)
}

pub(super) fn volume(value: Option<f64>) -> Cell {
    known(value, |value| format!("{}/s", bytes(value as u64)), Shade::Plain)
}

/// `0.4 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
