//! Where a configuration comes from, and reading it again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// Another program's configuration, written anew each time that it is read.
    Written(Written),
}

/// Reads a file of another program. Out: the text of a configuration, and what is to be said about it, in lines.
///
/// **Errors**: the file cannot be read, or something in it has no counterpart; in words, for people.
pub type Write = dyn Fn(&Path) -> Result<(String, String), String> + Send + Sync;

/// What writes a configuration, and the file that it is made of.
#[derive(Clone)]
pub struct Written {
    /// The other program's file.
    pub file: PathBuf,
    /// What makes a configuration of it.
    pub write: Arc<Write>,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").field("file", &self.file).finish_non_exhaustive()
    }
}

impl PartialEq for Written {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl Eq for Written {}

impl ConfigSource {
    /// Reads the configuration, and what is odd about it, ready to be shown; `color` is for a terminal.
    ///
    /// **Errors**: every problem of it, rendered with its place, and a line that counts them.
    pub(crate) fn read(&self, color: bool) -> Result<(Config, String), Error> {
        let mut said = String::new();
        let (texts, outcome) = match self {
            Self::File(path) => {
                let loaded = config::load(path);
                (vec![(path.display().to_string(), loaded.text)], loaded.parsed)
            }
            Self::Flags(flags) => (Vec::new(), config::from_flags(flags)),
            Self::Embedded(ca_file) => (Vec::new(), Ok((Config::embedded(ca_file.clone()), Vec::new()))),
            Self::Written(Written { file, write }) => {
                let (text, notes) = write(file).map_err(|problems| Error::Configuration { problems })?;
                said = notes;
                // Lines are those of what was written, which the other program's file does not have. Paths start from its folder.
                let name = format!("{}, as imported", file.file_name().unwrap_or_default().display());
                let name = file.with_file_name(name);
                let loaded = config::load_text(&name, text);
                (vec![(name.display().to_string(), loaded.text)], loaded.parsed)
            }
        };
        let texts: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let show = |problems: &[Problem]| {
            if problems.is_empty() { String::new() } else { config::render(problems, &texts, color) }
        };
        match outcome {
            Ok((config, warnings)) => Ok((config, said + &show(&warnings))),
            Err(problems) => Err(Error::Configuration { problems: show(&problems) }),
        }
    }

    /// What to call it.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) | Self::Written(Written { file: path, .. }) => path.display().to_string(),
            Self::Flags(_) => "flags".into(),
            Self::Embedded(_) => "embedded defaults".into(),
        }
    }
}
