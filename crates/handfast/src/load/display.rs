//! The live display of a run: a picture on a terminal, otherwise lines, or nothing.
//!
//! In: the start of a run, and its seconds. Out: rows and lines for the thread that writes them. A terminal
//! that does not read (Ctrl-S) loses pictures and never blocks the run.

use std::io;

use handfast_load::Plan;
use handfast_load::sample::Interval;
use handfast_report::run::Run;

use super::lines;
use super::live;
use super::progress::Progress;
use crate::screen::{Look, Pieces, is_screen};
use crate::talk::{Voice, terminal_size};

/// Columns and rows of a terminal of unknown size.
const USUAL: (u16, u16) = (80, 24);

/// The kind of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Picture(Look),
    Lines,
    Nothing,
}

/// The display of one command, over one run or several.
pub(crate) struct Display {
    voice: Voice,
    kind: Shown,
    /// True if the report will replace the picture.
    replaced: bool,
    /// True if a run has begun before: the steps of a search are prepared alike.
    begun: bool,
    progress: Progress,
}

impl Display {
    /// Chooses by standard error: a picture on a terminal that can move its cursor, otherwise lines.
    ///
    /// With `replaced` the last picture is removed at the end, because the report replaces it.
    pub(crate) fn new(voice: Voice, quiet: bool, color: bool, replaced: bool) -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let kind = kind(quiet, is_screen(&io::stderr()), color, unicode(variable));
        let voice = if kind == Shown::Nothing { Voice::silent() } else { voice };
        Self { voice, kind, replaced, begun: false, progress: Progress::default() }
    }

    /// A handle to print messages above the picture; `None` without a display.
    pub(crate) fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// Prints a sentence above the picture; nothing without a display.
    pub(crate) fn print_line(&self, text: impl Into<String>) {
        self.voice.print_line(text);
    }

    /// A run begins.
    pub(crate) fn begin(&mut self, plan: &Plan, part: String) {
        self.progress = Progress::new(plan, part);
        match self.kind {
            Shown::Picture(_) => self.draw(),
            Shown::Lines if !self.begun => {
                self.voice.print_line(format!("handfast: {}", live::preparing(&self.progress)))
            }
            Shown::Lines | Shown::Nothing => {}
        }
        self.begun = true;
    }

    /// Takes in a second that has come.
    pub(crate) fn second(&mut self, interval: &Interval, ending: bool) {
        self.progress.add(interval, ending);
    }

    /// Shows it.
    pub(crate) fn show(&self) {
        match self.kind {
            Shown::Picture(_) => self.draw(),
            Shown::Lines => self.voice.print_line(lines::line(&self.progress)),
            Shown::Nothing => {}
        }
    }

    /// The current state.
    pub(crate) fn run(&self) -> &Run {
        &self.progress
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        if self.replaced && matches!(self.kind, Shown::Picture(_)) {
            self.voice.wipe();
        }
    }

    fn draw(&self) {
        let Shown::Picture(look) = self.kind else { return };
        let (width, height) = terminal_size(std::io::stderr()).unwrap_or(USUAL);
        // The last row has the cursor; the last column stays free, since some terminals wrap there.
        let [width, height] = [width, height].map(|size| usize::from(size).saturating_sub(1));
        let rows = live::frame(&self.progress, width, height, look);
        self.voice.show(rows.into_iter().map(|row| row.cut_to(width).fit_for(look)));
    }
}

fn kind(quiet: bool, screen: bool, color: bool, unicode: bool) -> Shown {
    match (quiet, screen) {
        (true, _) => Shown::Nothing,
        (false, true) => Shown::Picture(Look { color, unicode, terminal: color }),
        (false, false) => Shown::Lines,
    }
}

/// Returns true if the locale's character encoding is UTF-8; the first of these variables that is set decides (locale(7)).
pub(crate) fn unicode(variable: impl Fn(&'static str) -> String) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(variable).into_iter().find(|value| !value.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_depends_on_who_looks() {
        let look = Look { color: true, unicode: true, terminal: true };
        assert_eq!(kind(false, true, true, true), Shown::Picture(look));
        assert_eq!(kind(false, false, false, true), Shown::Lines);
        assert_eq!(kind(true, true, true, true), Shown::Nothing);
    }

    #[test]
    fn the_locale_decides_about_letters() {
        let only = |name: &'static str, value: &'static str| {
            unicode(move |variable| if variable == name { value.to_owned() } else { String::new() })
        };
        assert!(only("LANG", "en_US.UTF-8") && only("LC_ALL", "C.utf8"));
        assert!(!only("LANG", "C") && !only("HOME", "utf-8"));
        assert!(!unicode(|variable| if variable == "LC_ALL" { "C".into() } else { "de_DE.UTF-8".into() }));
    }
}
