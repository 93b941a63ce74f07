//! One case: what is done, where on the path, what has to hold, and in which modes it makes sense.

use super::mode::Mode;
use super::stage::Stage;
use super::trouble::Trouble;

/// What a case's configuration says beside the usual; `FOLDER`, `CLIENT` and `BACKEND` are replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Lines of `[process]`.
    pub(super) process: &'static str,
    /// Sections before the services.
    pub(super) globals: &'static str,
    /// Lines of the service under test.
    pub(super) service: &'static str,
    /// Lines of its `[service.limits]`.
    pub(super) limits: &'static str,
    /// Sections of it.
    pub(super) tables: &'static str,
    /// Its backends, if not the one.
    pub(super) backend: &'static str,
    /// Where the access log goes.
    pub(super) log: &'static str,
}

/// Nothing beside the usual.
pub(super) const USUAL: Setup =
    Setup { process: "", globals: "", service: "", limits: "", tables: "", backend: "", log: "stdout" };

/// The usual, with other limits.
pub(super) const fn limits(limits: &'static str) -> Setup {
    Setup { limits, ..USUAL }
}

/// Which modes a case is for, and why not for the others.
#[derive(Clone, Copy, Debug)]
pub(super) enum For {
    /// All of them.
    All,
    /// Those in which this is so; the sentence says what is missing in the others.
    Where(fn(Mode) -> bool, &'static str),
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// What it is chosen by.
    pub(super) name: &'static str,
    /// The step of the path that it strikes, or a part of the proxy's own life.
    pub(super) step: &'static str,
    /// What is done.
    pub(super) fault: &'static str,
    /// What has to hold, besides what always has to.
    pub(super) must: &'static str,
    /// Its modes.
    pub(super) modes: For,
    /// What its configuration says.
    pub(super) setup: Setup,
    /// Does it. The proxy is started, unless `unstarted`.
    pub(super) play: fn(&mut Stage) -> Result<(), Trouble>,
    /// Whether it starts the proxy itself.
    pub(super) unstarted: bool,
}

impl Case {
    /// Why it makes no sense in a mode.
    pub(super) fn does_not_apply(&self, mode: Mode) -> Option<&'static str> {
        match self.modes {
            For::All => None,
            For::Where(fits, why_not) => (!fits(mode)).then_some(why_not),
        }
    }
}

/// A case in all modes, with the usual configuration.
pub(super) const fn case(
    name: &'static str,
    step: &'static str,
    (fault, must): (&'static str, &'static str),
    play: fn(&mut Stage) -> Result<(), Trouble>,
) -> Case {
    Case { name, step, fault, must, modes: For::All, setup: USUAL, play, unstarted: false }
}

impl Case {
    /// The same in some modes only.
    pub(super) const fn only(mut self, fits: fn(Mode) -> bool, why_not: &'static str) -> Self {
        self.modes = For::Where(fits, why_not);
        self
    }

    /// The same with another configuration.
    pub(super) const fn with(mut self, setup: Setup) -> Self {
        self.setup = setup;
        self
    }

    /// The same, which starts the proxy itself.
    pub(super) const fn unstarted(mut self) -> Self {
        self.unstarted = true;
        self
    }
}
