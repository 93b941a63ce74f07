//! Converts configurations of other TLS proxies for Handfast.
//!
//! In: a configuration file of stunnel, hitch, nginx or HAProxy, Caddy's JSON, or ghostunnel's flags. Out: the text of a `handfast.toml`, and a note for each
//! option whose meaning changes. Nothing is connected to, resolved or changed; files are only read.
#![forbid(unsafe_code)]

mod address;
mod caddy;
mod cells;
#[cfg(test)]
mod chance;
mod draft;
mod ghostunnel;
mod haproxy;
mod hitch;
mod imported;
mod nginx;
mod note;
mod openssl;
mod row;
mod stunnel;
mod toml;

use std::path::{Path, PathBuf};

pub use imported::{ImportError, Imported, NewFile, ServiceCounts};
pub use note::{Fate, Note, Place};
pub use row::{Row, Scope};

/// The program whose configuration is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// stunnel 5, `stunnel.conf`.
    Stunnel,
    /// hitch 1.8, `hitch.conf`.
    Hitch,
    /// ghostunnel 1.7, its command line.
    Ghostunnel,
    /// nginx 1.22 to 1.30, `nginx.conf`.
    Nginx,
    /// HAProxy 2.4 to 3.2, `haproxy.cfg`.
    Haproxy,
    /// Caddy 2.6 to 2.11, its JSON, as `caddy adapt` prints it.
    Caddy,
}

impl Origin {
    /// Every option in its manual, and the fate of each.
    pub fn rows(self) -> &'static [Row] {
        match self {
            Self::Stunnel => &stunnel::ROWS,
            Self::Hitch => &hitch::ROWS,
            Self::Ghostunnel => &ghostunnel::ROWS,
            Self::Nginx => &nginx::ROWS,
            Self::Haproxy => &haproxy::ROWS,
            Self::Caddy => &caddy::ROWS,
        }
    }

    /// The row of an option; one whose name ends with `*` is for all that begin so.
    pub fn row(self, name: &str) -> Option<&'static Row> {
        row::find(self.rows(), name)
    }

    /// Adds a note to the result where one of the files names a newer version than the table was checked with.
    fn with_version(
        self,
        folder: &Path,
        files: &[PathBuf],
        result: Result<Imported, ImportError>,
    ) -> Result<Imported, ImportError> {
        result.map(|mut imported| {
            files.iter().for_each(|file| {
                imported::note_newer(&mut imported, self.name(), self.rows(), &folder.join(file))
            });
            imported
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stunnel => "stunnel",
            Self::Hitch => "hitch",
            Self::Ghostunnel => "ghostunnel",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Caddy => "caddy",
        }
    }
}

/// Reads a file of stunnel, and the folders that it includes.
///
/// `folder`: where relative paths in it start from, which for stunnel is the folder it is started in.
///
/// **Errors**: a file cannot be read, or violates stunnel's manual.
pub fn stunnel(file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    stunnel_from(&imported::read_bytes(file)?, file, folder)
}

/// Converts the bytes of a file of stunnel, which is not read.
///
/// **Errors**: a folder that it includes cannot be read; it violates stunnel's manual.
pub fn stunnel_from(bytes: &[u8], file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    let imported = stunnel::import(file, bytes, folder);
    Origin::Stunnel.with_version(folder, &[file.to_owned()], imported)
}

/// Reads a file of hitch.
///
/// `folder`: where relative paths in it start from.
///
/// **Errors**: the file cannot be read, or violates hitch's manual.
pub fn hitch(file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    hitch_from(&imported::read_bytes(file)?, file, &[], folder)
}

/// Converts the bytes of a file of hitch, which is not read, with options of hitch's command line behind them: names and values.
///
/// **Errors**: they violate hitch's manual.
pub fn hitch_from(
    bytes: &[u8],
    file: &Path,
    given: &[(String, String)],
    folder: &Path,
) -> Result<Imported, ImportError> {
    let imported = hitch::import(file, bytes, given, folder);
    Origin::Hitch.with_version(folder, &[file.to_owned()], imported)
}

/// Reads the arguments of ghostunnel, without the program's name.
///
/// `folder`: where relative paths in them start from.
///
/// **Errors**: they are not what ghostunnel takes.
pub fn ghostunnel(arguments: &[String], folder: &Path) -> Result<Imported, ImportError> {
    ghostunnel::import(arguments, folder)
}

/// Reads files of nginx as if one followed the other, and what they include.
///
/// `folder`: where the paths of the files start from. Relative paths in them start from the folder of the first file, as nginx does.
///
/// **Errors**: a file cannot be read, or violates nginx's manual.
pub fn nginx(files: &[PathBuf], folder: &Path) -> Result<Imported, ImportError> {
    Origin::Nginx.with_version(folder, files, nginx::import(files, folder))
}

/// Reads files of HAProxy as if one followed the other, and the lists of certificates, patterns and backends that they name.
///
/// `folder`: where relative paths start from, which for HAProxy is the folder it is started in.
///
/// **Errors**: a file cannot be read, or violates HAProxy's manual.
pub fn haproxy(files: &[PathBuf], folder: &Path) -> Result<Imported, ImportError> {
    Origin::Haproxy.with_version(folder, files, haproxy::import(files, folder))
}

/// Reads Caddy's JSON, as `caddy adapt` prints it.
///
/// `folder`: where relative paths in it start from.
///
/// **Errors**: the file cannot be read, or is not JSON.
pub fn caddy(file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    caddy::import(file, folder)
}
