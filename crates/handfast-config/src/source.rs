//! The sources of a configuration, and reading it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{Loaded, load_bytes, load_text_on};
use super::machine::{MAX_BYTES, Machine, ThisMachine};
use super::model::{Address, Config};
use super::{FlagInput, Problem, from_flags, render};
use handfast_pki::files::read_input;

/// Source of a configuration.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// Flags of the command line, for one service.
    Flags(FlagInput),
    /// The defaults to try things with; the throwaway CA's certificate is written to this file.
    Embedded(PathBuf),
    /// Another program's configuration, converted each time that it is read.
    Converted(ConvertedConfig),
}

/// Converts a file of another program, which it reads by the function. Out: the text of a configuration, and lines of notes about it.
///
/// **Errors**: the file cannot be read, or something in it has no counterpart; the text is for people, with all problems.
pub type Convert = dyn Fn(&Path, ReadFile<'_>) -> Result<(String, String), ConvertError> + Send + Sync;

/// Reason why a configuration of another program cannot be converted: the converter has it.
pub type ConvertError = Box<dyn std::error::Error + Send + Sync>;

/// Reads the bytes of a configuration's file.
pub type ReadFile<'r> = &'r dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Reads the bytes of a configuration's file, as the present user.
///
/// **Errors**: it cannot be read, is too large, or is a pipe that does not end.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_input(path, MAX_BYTES).map(|bytes| bytes.to_vec())
}

/// The configuration file of another program, and the function that converts it.
#[derive(Clone)]
pub struct ConvertedConfig {
    /// The other program's file.
    pub file: PathBuf,
    /// Makes a configuration of it.
    pub convert: Arc<Convert>,
}

impl fmt::Debug for ConvertedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConvertedConfig").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A configuration that was read.
#[derive(Clone, Debug)]
pub struct ReadConfig {
    /// Its meaning.
    pub config: Config,
    /// Its warnings, rendered, after the notes of a conversion.
    pub notes: String,
    /// The number of warnings.
    pub warnings: usize,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Every problem with its place, rendered, and a line with their number.
    pub problems: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems)
    }
}

impl std::error::Error for ReadError {}

impl ConfigSource {
    /// Reads the configuration and renders its warnings; `color` is for a terminal.
    ///
    /// **Errors**: the configuration cannot be used.
    pub fn read(&self, color: bool) -> Result<(Config, String), ReadError> {
        self.read_counted(color, &read_file).map(|ReadConfig { config, notes, .. }| (config, notes))
    }

    /// The same for a program beside the proxy, which might not have the variables of the proxy's environment: paths with a variable that is
    /// not set keep its name.
    ///
    /// **Errors**: the configuration cannot be used.
    pub fn read_beside(&self, color: bool) -> Result<Config, ReadError> {
        self.read_on(color, &read_file, &ThisMachine { lenient: true }).map(|read| read.config)
    }

    /// Reads the configuration with the number of warnings. `read` reads the file.
    ///
    /// **Errors**: the configuration cannot be used.
    pub fn read_counted(&self, color: bool, read: ReadFile<'_>) -> Result<ReadConfig, ReadError> {
        self.read_on(color, read, &ThisMachine::STRICT)
    }

    fn read_on(
        &self,
        color: bool,
        read: ReadFile<'_>,
        machine: &dyn Machine,
    ) -> Result<ReadConfig, ReadError> {
        let mut notes = String::new();
        let loaded = match self {
            Self::File(path) => load_bytes(path, read(path), machine),
            Self::Flags(flags) => Loaded { texts: Vec::new(), parsed: from_flags(flags) },
            Self::Embedded(ca_file) => {
                Loaded { texts: Vec::new(), parsed: Ok((Config::embedded(ca_file.clone()), Vec::new())) }
            }
            Self::Converted(ConvertedConfig { file, convert }) => {
                let (text, messages) =
                    convert(file, read).map_err(|error| ReadError { problems: error.to_string() })?;
                notes = messages;
                // Lines are those of the converted text, which the other program's file does not have. Paths start from its folder.
                let name = format!("{}, as imported", file.file_name().unwrap_or_default().display());
                load_text_on(&file.with_file_name(name), text, machine)
            }
        };
        let show = |problems: &[Problem]| {
            if problems.is_empty() { String::new() } else { render(problems, &loaded.texts(), color) }
        };
        match &loaded.parsed {
            Ok((config, warnings)) => {
                let config = config.clone();
                Ok(ReadConfig { config, notes: notes + &show(warnings), warnings: warnings.len() })
            }
            Err(problems) => Err(ReadError { problems: show(problems) }),
        }
    }

    /// The address where the proxy with this configuration answers requests of its operators; `None`: switched off.
    ///
    /// **Errors**: the configuration cannot be used.
    pub fn admin_address(&self, color: bool) -> Result<Option<Address>, ReadError> {
        self.read_beside(color).map(|config| config.admin)
    }

    /// Its file, if it has one.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(file) | Self::Converted(ConvertedConfig { file, .. }) => Some(file),
            Self::Flags(_) | Self::Embedded(_) => None,
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) | Self::Converted(ConvertedConfig { file: path, .. }) => {
                path.display().to_string()
            }
            Self::Flags(_) => "flags".into(),
            Self::Embedded(_) => "embedded defaults".into(),
        }
    }
}
