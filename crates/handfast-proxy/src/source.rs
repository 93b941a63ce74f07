//! Where a configuration comes from, and reading it again.

use std::path::PathBuf;

use crate::config::model::Config;
use crate::config::{self, FlagInput, Problem};
use crate::error::Error;

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// Flags of the command line, for one service.
    Flags(FlagInput),
    /// The defaults to try things with; the throwaway CA's certificate is written to this file.
    Embedded(PathBuf),
}

impl ConfigSource {
    /// Reads the configuration, and what is odd about it, ready to be shown; `color` is for a terminal.
    ///
    /// **Errors**: every problem of it, rendered with its place, and a line that counts them.
    pub(crate) fn read(&self, color: bool) -> Result<(Config, String), Error> {
        let (texts, outcome) = match self {
            Self::File(path) => {
                let loaded = config::load(path);
                (vec![(path.display().to_string(), loaded.text)], loaded.parsed)
            }
            Self::Flags(flags) => (Vec::new(), config::from_flags(flags)),
            Self::Embedded(ca_file) => (Vec::new(), Ok((Config::embedded(ca_file.clone()), Vec::new()))),
        };
        let texts: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let show = |problems: &[Problem]| {
            if problems.is_empty() { String::new() } else { config::render(problems, &texts, color) }
        };
        match outcome {
            Ok((config, warnings)) => Ok((config, show(&warnings))),
            Err(problems) => Err(Error::Configuration { problems: show(&problems) }),
        }
    }

    /// What to call it.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Flags(_) => "flags".into(),
            Self::Embedded(_) => "embedded defaults".into(),
        }
    }
}
