//! The types of values that name files: paths, certificates, the access log.
//!
//! In: one value of the parsed tree. Out: paths joined to the configuration's folder; whether one is a folder is asked of
//! the [`Reading`], so nothing here touches the disk.

use std::path::PathBuf;

use handfast_text::suggest::did_you_mean;

use super::text;
use crate::model::AccessLog;
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;

/// The path of a file.
pub(crate) struct FilePath;

impl ValueKind for FilePath {
    type Value = PathBuf;
    const FORM: &'static str = "path";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<PathBuf> {
        text(self, item, reading, |text| match path(text, reading)? {
            (_, true) => Err(Fault::new(format!("`{text}` is a folder; a file is needed"))),
            (path, false) => Ok(path),
        })
        .inspect(|path| reading.names(path, &item.span))
    }
}

/// A path, and whether it is a folder.
pub(super) fn path(text: &str, reading: &Reading<'_>) -> Result<(PathBuf, bool), Fault> {
    if text.is_empty() {
        return Err(Fault::new("the path is empty"));
    }
    if text.contains('\0') {
        return Err(Fault::new("a path contains no NUL"));
    }
    if text.starts_with("~/") {
        return Err(Fault::new("`~` is not expanded").hint("write the whole path"));
    }
    Ok(reading.path(text))
}

/// Where the machine's syslog daemon listens, whichever it is.
const SYSLOG: &str = "/dev/log";
/// Where systemd's journal takes entries in its own form (systemd.journal-fields(7)).
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The path behind `syslog:` or `journald:`.
fn socket(text: &str, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
    let (_, behind) = text.split_once(':').unwrap_or_default();
    match path(behind, reading)? {
        (_, true) => Err(Fault::new(format!("`{behind}` is a folder; a unix socket is needed"))),
        (path, false) => Ok(path),
    }
}

/// Where the access log goes.
pub(crate) struct LogTarget;

impl ValueKind for LogTarget {
    type Value = AccessLog;
    const FORM: &'static str = "text";
    const ALLOWED: &'static str = "`stdout`, `off`, `syslog`, `journald`, or a path that contains a `/`";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<AccessLog> {
        text(self, item, reading, |text| match text {
            "stdout" => Ok(AccessLog::Stdout),
            "off" => Ok(AccessLog::Off),
            "syslog" => Ok(AccessLog::Syslog(SYSLOG.into())),
            "journald" => Ok(AccessLog::Journald(JOURNAL.into())),
            _ if text.starts_with("syslog:") => socket(text, reading).map(AccessLog::Syslog),
            _ if text.starts_with("journald:") => socket(text, reading).map(AccessLog::Journald),
            // A path is known by its slash, so that a misspelt `stdout` does not become a file's name.
            _ if text.contains('/') => match path(text, reading)? {
                (_, true) => Err(Fault::new(format!("`{text}` is a folder; a file is needed"))),
                (path, false) => Ok(AccessLog::File(path)),
            },
            _ => Err(Fault::new(format!("`{}` is not a place for a log", shortened(text)))
                .allowed(self.allowed())
                .hint(
                    did_you_mean(text, ["stdout", "off", "syslog", "journald"])
                        .unwrap_or_else(|| format!("a file here is `./{text}`")),
                )),
        })
        .inspect(|target| {
            if let AccessLog::File(path) = target {
                reading.names(path, &item.span);
            }
        })
    }
}
