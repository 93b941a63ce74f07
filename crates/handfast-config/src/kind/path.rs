//! The types of values that name files: paths, certificates, the access log.
//!
//! In: one value of the parsed tree. Out: paths joined to the configuration's folder; whether one is a folder is asked of
//! the [`Reading`], so nothing here touches the disk.

use std::path::PathBuf;

use handfast_text::suggest::did_you_mean;
use toml::de::DeValue;

use super::{ValueKind, Written, no_twins, text};
use crate::keys;
use crate::model::{AccessLog, CertificateSource};
use crate::problem::Fault;
use crate::reader::{Item, Reading, Table, shortened};

/// The path of a file.
pub(crate) struct FilePath;

impl ValueKind for FilePath {
    type Value = PathBuf;

    fn form(&self) -> String {
        "path".to_owned()
    }

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

    fn form(&self) -> String {
        "text".to_owned()
    }

    fn allowed(&self) -> String {
        "`stdout`, `off`, `syslog`, `journald`, or a path that contains a `/`".to_owned()
    }

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

/// Certificates: files, folders, and pairs of files.
pub(crate) struct Certificates;

impl ValueKind for Certificates {
    type Value = Vec<Written<CertificateSource>>;

    fn form(&self) -> String {
        "path of a PEM file or of a folder; or a list of such and of `{ certificate = \"chain.pem\", key = \"key.pem\", ocsp = \"response.der\" }`"
            .to_owned()
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let DeValue::Array(list) = item.value else {
            return certificate(self, item, reading).map(|source| vec![source]);
        };
        if list.is_empty() {
            reading.error(&item.span, Fault::new("the list is empty").allowed("at least one certificate"));
            return None;
        }
        let sources: Vec<_> =
            list.iter().filter_map(|item| certificate(self, &Item::new(item), reading)).collect();
        no_twins(&sources, reading);
        Some(sources)
    }
}

fn certificate(
    kind: &Certificates,
    item: &Item<'_>,
    reading: &Reading<'_>,
) -> Option<Written<CertificateSource>> {
    let value = match item.value {
        DeValue::Table(entries) => {
            let pair = Table::open(&keys::CERTIFICATE_PAIR, entries, item.span.clone(), reading);
            let (certificate, key) = (pair.required(&keys::PAIR_CERTIFICATE), pair.required(&keys::PAIR_KEY));
            let ocsp = pair.optional(&keys::PAIR_OCSP);
            CertificateSource::File { certificate: certificate?, key: Some(key?), ocsp }
        }
        _ => text(kind, item, reading, |text| source(text, reading))?,
    };
    if let CertificateSource::Folder(path) | CertificateSource::File { certificate: path, key: None, .. } =
        &value
    {
        reading.names(path, &item.span);
    }
    Some(Written { value, span: item.span.clone() })
}

/// A certificate's place by its path alone.
fn source(text: &str, reading: &Reading<'_>) -> Result<CertificateSource, Fault> {
    Ok(match path(text, reading)? {
        (path, true) => CertificateSource::Folder(path),
        (certificate, false) => CertificateSource::File { certificate, key: None, ocsp: None },
    })
}
