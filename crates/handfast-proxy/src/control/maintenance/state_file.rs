//! The file of the commands that put services in maintenance: `maintenance.json` in `process.state-folder`.
//!
//! In: records. Out: the same after a restart. The file is written aside, synced and renamed, so that it is whole at any time. One that is
//! damaged is an error and not an empty list: a service that must not serve would serve.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use handfast_config::model::Config;
use handfast_net::prefix::Prefix;
use handfast_pki::files::{open_own, replace_own};
use handfast_text::foreign::without_values;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

const FILE_NAME: &str = "maintenance.json";
const VERSION: u32 = 1;
/// Bytes of the file that are read: thousands of services with long lists of addresses are below.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A command that put a service in maintenance, as it is stored and passed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandRecord {
    pub(crate) service: String,
    /// Seconds since 1970.
    pub(crate) since: u64,
    #[serde(with = "prefixes")]
    pub(crate) allow: Vec<Prefix>,
    /// In seconds.
    pub(crate) retry_after: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    commands: Vec<CommandRecord>,
}

/// Reason why the state folder, or its file, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    #[error(
        "process.state-folder {}{place}: {act}: {source}\n  hint: make the folder, and give it to the user that serves", .folder.display()
    )]
    Folder { act: &'static str, folder: PathBuf, place: String, source: io::Error },
    #[error("write which services are in maintenance to {}: {source}", .file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error(
        "read which services are in maintenance from {}: {problem}\n  hint: restore the file, or remove it and repeat `handfast maintenance \
         on` after the start", .file.display()
    )]
    Read { file: PathBuf, problem: ReadError },
}

/// Reason why the file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("it has more than {MAX_FILE_BYTES} bytes")]
    TooLong,
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("its version is {0}, expected {VERSION}: a newer program wrote it")]
    OtherVersion(u32),
}

/// The file.
#[derive(Debug)]
pub(super) struct StateFile(PathBuf);

impl StateFile {
    /// Makes the folder if it does not exist, and checks that this user can write in it; `None`: the configuration has none.
    pub(super) fn prepare(config: &Config) -> Result<Option<Self>, StateError> {
        let Some(folder) = &config.process.state_folder else { return Ok(None) };
        let failed = |act| {
            let (folder, place) = (folder.clone(), config.places.suffix(folder));
            move |source| StateError::Folder { act, folder, place, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("make the folder"))?;
        access(folder, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| failed("write in it")(error.into()))?;
        Ok(Some(Self(folder.join(FILE_NAME))))
    }

    /// Reads the file that a start would read, without making anything.
    pub(super) fn of(folder: &Path) -> Self {
        Self(folder.join(FILE_NAME))
    }

    /// Reads the records; none where there is no file.
    pub(super) fn read(&self) -> Result<Vec<CommandRecord>, StateError> {
        let failed = |problem| StateError::Read { file: self.0.clone(), problem };
        let file = match open_own(&self.0, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error.into())),
        };
        parse(file).map_err(failed)
    }

    /// Replaces the records.
    pub(super) fn write(&self, commands: &[CommandRecord]) -> Result<(), StateError> {
        let content = Content { version: VERSION, commands: commands.to_vec() };
        let write = || replace_own(&self.0, &serde_json::to_vec_pretty(&content)?, 0o600);
        write().map_err(|source| StateError::Write { file: self.0.clone(), source })
    }
}

fn parse(file: File) -> Result<Vec<CommandRecord>, ReadError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadError::TooLong);
    }
    let damaged = |error: serde_json::Error| ReadError::Damaged(without_values(&error));
    match serde_json::from_slice::<Version>(&bytes).map_err(damaged)?.version {
        VERSION => Ok(serde_json::from_slice::<Content>(&bytes).map_err(damaged)?.commands),
        other => Err(ReadError::OtherVersion(other)),
    }
}

/// Prefixes as texts.
mod prefixes {
    use super::Prefix;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(prefixes: &[Prefix], to: S) -> Result<S::Ok, S::Error> {
        prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Prefix>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}
