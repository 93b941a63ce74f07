//! One case: what is done, where on the path, what has to hold, and in which modes it makes sense.

use std::time::Duration;

use crate::error::CaseError;
use crate::mode::Mode;
use crate::setup::{Setup, USUAL};
use crate::stage::Stage;
use crate::subject::Subject;

/// A limit at least this long plays no part in a case: a program without a setting for it can play the case.
const NO_LIMIT: Duration = Duration::from_secs(300);

/// Modes that a case is for, and the reason for excluding the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum For {
    /// All of them.
    All,
    /// Those in which this is so; the sentence names what is missing in the others.
    Where(fn(Mode) -> bool, &'static str),
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Name by which it is chosen.
    pub(crate) name: &'static str,
    /// The step of the path that it strikes, or a part of the proxy's own life.
    pub(crate) step: &'static str,
    /// Fault that is made.
    pub(crate) fault: &'static str,
    /// Promise that must hold, besides the general ones.
    pub(crate) must: &'static str,
    /// Its modes.
    pub(crate) modes: For,
    /// Configuration of the case.
    pub(crate) setup: Setup,
    /// Does it. The proxy is started, unless `unstarted`.
    pub(crate) play: fn(&mut Stage) -> Result<(), CaseError>,
    /// True if it starts the proxy itself.
    pub(crate) unstarted: bool,
    /// Reason why it is for Handfast only, if it is.
    pub(crate) handfast_only: Option<&'static str>,
    /// Programs, by name, that cannot play it, and why.
    pub(crate) exceptions: &'static [(&'static str, &'static str)],
}

impl Case {
    /// Returns the reason why it makes no sense in a mode.
    pub(crate) fn does_not_apply(&self, mode: Mode) -> Option<&'static str> {
        match self.modes {
            For::All => None,
            For::Where(fits, why_not) => (!fits(mode)).then_some(why_not),
        }
    }

    /// Returns the reason why a program cannot play it in a mode, in a sentence.
    pub(crate) fn not_possible(&self, subject: &Subject, mode: Mode) -> Option<String> {
        if subject.is_logged {
            return None;
        }
        if let Some(why) = self.handfast_only {
            return Some(format!("for Handfast only: {why}"));
        }
        if !subject.modes.contains(&mode) {
            return Some(format!("has no mode {}", mode.name()));
        }
        if let Some((_, why)) = self.exceptions.iter().find(|(name, _)| *name == subject.name) {
            return Some((*why).to_owned());
        }
        let limits = self.setup.limits().filter(|(_, limit)| *limit < NO_LIMIT);
        let missing = limits.map(|(name, _)| name).filter(|name| !subject.settings.contains(name));
        let missing: Vec<&str> = missing.collect();
        (!missing.is_empty()).then(|| format!("has no setting for `{}`", missing.join("` and `")))
    }
}

/// A case in all modes, with the usual configuration.
pub(crate) const fn case(
    name: &'static str,
    step: &'static str,
    (fault, must): (&'static str, &'static str),
    play: fn(&mut Stage) -> Result<(), CaseError>,
) -> Case {
    Case {
        name,
        step,
        fault,
        must,
        modes: For::All,
        setup: USUAL,
        play,
        unstarted: false,
        handfast_only: None,
        exceptions: &[],
    }
}

impl Case {
    /// The same in some modes only.
    pub(crate) const fn only(mut self, fits: fn(Mode) -> bool, why_not: &'static str) -> Self {
        self.modes = For::Where(fits, why_not);
        self
    }

    /// The same with another configuration.
    pub(crate) const fn with(mut self, setup: Setup) -> Self {
        self.setup = setup;
        self
    }

    /// The same for Handfast only.
    pub(crate) const fn handfast_only(mut self, why: &'static str) -> Self {
        self.handfast_only = Some(why);
        self
    }

    /// The same, but some programs cannot play it.
    pub(crate) const fn except(mut self, exceptions: &'static [(&'static str, &'static str)]) -> Self {
        self.exceptions = exceptions;
        self
    }

    /// The same, which starts the proxy itself.
    pub(crate) const fn unstarted(mut self) -> Self {
        self.unstarted = true;
        self
    }
}
