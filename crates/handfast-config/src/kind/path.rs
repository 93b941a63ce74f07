//! The types of values that name files: paths, certificates, the access log.
//!
//! In: one value of the parsed tree. Out: paths joined to the configuration's folder; whether one is a folder is asked of
//! the [`Reading`], so nothing here touches the disk.

use std::path::PathBuf;

use handfast_text::suggest::did_you_mean;
use toml::de::DeValue;

use super::List;
use crate::keys::certificate_values as keys;
use crate::model::{AccessLog, CertificateEntry};
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading, Written};
use crate::schema::ValueKind;
use crate::table::Table;

pub(crate) struct FilePath;

impl ValueKind for FilePath {
    type Value = PathBuf;
    const FORM: &'static str = "path";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
        file(self.text(item)?, item, reading)
    }
}

pub(crate) struct FileOrFolder;

impl ValueKind for FileOrFolder {
    type Value = PathBuf;
    const FORM: &'static str = "path of a file or of a folder";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
        let (path, _) = path(self.text(item)?, reading)?;
        reading.names(&path, &item.span);
        Ok(path)
    }
}

/// The path of a folder that is possibly not there yet.
pub(crate) struct FolderPath;

impl ValueKind for FolderPath {
    type Value = PathBuf;
    const FORM: &'static str = "path of a folder";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
        let (path, _) = path(self.text(item)?, reading)?;
        reading.names(&path, &item.span);
        Ok(path)
    }
}

fn path(text: &str, reading: &Reading<'_>) -> Result<(PathBuf, bool), Fault> {
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

/// The path of what is no folder; `needed`: what it must be.
fn no_folder(text: &str, needed: &str, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
    match path(text, reading)? {
        (_, true) => Err(Fault::new(format!("`{text}` is a folder; {needed} is needed"))),
        (path, false) => Ok(path),
    }
}

/// The path of a file, noted as one that is named.
fn file(text: &str, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
    let path = no_folder(text, "a file", reading)?;
    reading.names(&path, &item.span);
    Ok(path)
}

/// Socket of the machine's syslog daemon, independent of the implementation.
const SYSLOG: &str = "/dev/log";
/// Socket of systemd's journal for entries in its native format (systemd.journal-fields(7)).
const JOURNAL: &str = "/run/systemd/journal/socket";

pub(crate) struct LogTarget;

impl ValueKind for LogTarget {
    type Value = AccessLog;
    const FORM: &'static str = "text";
    const ALLOWED: &'static str = "`stdout`, `off`, `syslog`, `journald`, or a path that contains a `/`";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<AccessLog, Fault> {
        let text = self.text(item)?;
        match (text, text.split_once(':')) {
            ("stdout", _) => Ok(AccessLog::Stdout),
            ("off", _) => Ok(AccessLog::Off),
            ("syslog", _) => Ok(AccessLog::Syslog(SYSLOG.into())),
            ("journald", _) => Ok(AccessLog::Journald(JOURNAL.into())),
            (_, Some(("syslog", path))) => no_folder(path, "a unix socket", reading).map(AccessLog::Syslog),
            (_, Some(("journald", path))) => {
                no_folder(path, "a unix socket", reading).map(AccessLog::Journald)
            }
            // A path is known by its slash, so that a misspelt `stdout` does not become a file's name.
            _ if text.contains('/') => file(text, item, reading).map(AccessLog::File),
            _ => {
                let meant = did_you_mean(text, ["stdout", "off", "syslog", "journald"]);
                let hint = meant.unwrap_or_else(|| format!("a file here is `./{text}`"));
                let fault = Fault::new(format!("`{}` is not a place for a log", shortened(text)));
                Err(fault.allowed(self.allowed()).hint(hint))
            }
        }
    }
}

/// Certificates: files, folders, and pairs of files.
pub(crate) struct Certificates;

impl ValueKind for Certificates {
    type Value = Vec<Written<CertificateEntry>>;
    const FORM: &'static str = "path of a PEM file or of a folder, or `\"acme\"`; or a list of such and of `{ certificate = \"chain.pem\", key = \"key.pem\", ocsp = \"response.der\" }`";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        List::of(Certificate).read(item, reading)
    }
}

/// One of them.
struct Certificate;

impl ValueKind for Certificate {
    type Value = CertificateEntry;
    const FORM: &'static str = Certificates::FORM;
    const ALLOWED: &'static str = "at least one certificate";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Self::Value, Fault> {
        if self.text(item)? == "acme" {
            return Ok(crate::file::acme_entry());
        }
        let (path, is_folder) = path(self.text(item)?, reading)?;
        reading.names(&path, &item.span);
        Ok(match is_folder {
            true => CertificateEntry::Folder(path),
            false => CertificateEntry::File { certificate: path, key: None, ocsp: None },
        })
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let DeValue::Table(entries) = item.value else {
            return self.parse(item, reading).map_err(|fault| reading.error(&item.span, fault)).ok();
        };
        let pair = Table::open(&keys::CERTIFICATE_PAIR, entries, item.span.clone(), reading);
        let (certificate, key) = (pair.required(&keys::PAIR_CERTIFICATE), pair.required(&keys::PAIR_KEY));
        let ocsp = pair.optional(&keys::PAIR_OCSP);
        Some(CertificateEntry::File { certificate: certificate?, key: Some(key?), ocsp })
    }
}
