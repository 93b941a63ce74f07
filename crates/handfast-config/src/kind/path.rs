//! The types of values that name files: paths, certificates, the access log.
//!
//! In: one value of the parsed tree. Out: paths joined to the configuration's folder; whether one is a folder is asked of
//! the [`Reading`], so nothing here touches the disk.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use handfast_text::suggest::did_you_mean;
use toml::de::DeValue;

use super::List;
use crate::keys::certificate_values as keys;
use crate::model::cache::pattern;
use crate::model::{AccessLog, CertificateEntry};
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading, Written};
use crate::schema::{Shape, ValueKind};
use crate::table::Table;

pub(crate) struct FilePath;

impl ValueKind for FilePath {
    type Value = PathBuf;
    const FORM: &'static str = "path";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
        file(self.text(item)?, item, reading)
    }
}

/// The path of a certificate, a key, or a file with a secret, which may begin with a variable of the environment.
pub(crate) struct CredentialPath;

impl ValueKind for CredentialPath {
    type Value = PathBuf;
    const FORM: &'static str =
        "path, which may begin with a variable, such as `\"${CREDENTIALS_DIRECTORY}/web.key\"`";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
        file(&with_variable(self.text(item)?, reading)?, item, reading)
    }
}

/// A path with the value of the variable that it begins with. The value is in a message only as a part of a path.
fn with_variable<'t>(text: &'t str, reading: &Reading<'_>) -> Result<Cow<'t, str>, Fault> {
    let Some((before, rest)) = text.split_once("${") else { return Ok(text.into()) };
    let key = reading.key();
    let wrong = |what: &str| {
        let fault = Fault::new(format!("`{key}` {what}"));
        fault.allowed("one variable at the beginning, as in `${CREDENTIALS_DIRECTORY}/web.key`")
    };
    let Some((name, after)) = rest.split_once('}') else {
        return Err(wrong("has a variable that is not closed by `}`"));
    };
    if !before.is_empty() || after.contains("${") {
        return Err(wrong("has a variable that is not at its beginning"));
    }
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    if name.is_empty() || !name.bytes().all(is_word) || name.starts_with(|first: char| first.is_ascii_digit())
    {
        return Err(wrong("has a variable whose name has other characters than letters, digits and `_`"));
    }
    let value = reading.machine().variable(name).unwrap_or_default();
    if value.is_empty() {
        let fault = Fault::new(format!("`{key}` needs the variable `{name}`, which is not set"));
        return Err(fault.hint(match name {
            "CREDENTIALS_DIRECTORY" => "systemd sets it for a unit with `LoadCredential=`",
            _ => "set it for the process that serves, such as by `Environment=` in its unit",
        }));
    }
    match value.to_str().filter(|value| value.starts_with('/')) {
        Some(value) => Ok(format!("{value}{after}").into()),
        None => Err(Fault::new(format!(
            "`{key}` needs an absolute path in the variable `{name}`, which has another value"
        ))),
    }
}

pub(crate) struct FileOrFolder;

impl ValueKind for FileOrFolder {
    type Value = PathBuf;
    const FORM: &'static str = "path of a file or of a folder";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
        let (path, _) = path(self.text(item)?, item, reading)?;
        reading.names(&path, &item.span);
        Ok(path)
    }
}

/// A value of `include`.
#[derive(Clone, Debug)]
pub(crate) enum Include {
    /// A file, which must be there.
    File(PathBuf),
    /// The files in a folder whose names fit, in the order of their names.
    Pattern(PathBuf, GlobMatcher),
}

impl PartialEq for Include {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Pattern(folder, one), Self::Pattern(other_folder, other)) => {
                (folder, one.glob()) == (other_folder, other.glob())
            }
            _ => false,
        }
    }
}

/// Reads a value of `include`; `path` is the same with its folder.
///
/// **Errors**: a wildcard in the name of a folder, or a pattern that cannot be read.
fn include(text: &str, path: PathBuf) -> Result<Include, Fault> {
    let is_pattern = |text: &str| text.contains(['*', '?', '[', '{']);
    let (folder, name) = text.rsplit_once('/').map_or(("", text), |(folder, name)| (folder, name));
    if is_pattern(folder) {
        let fault = Fault::new(format!("`{}` has a wildcard in the name of a folder", shortened(text)));
        return Err(fault
            .allowed("wildcards after the last `/` only")
            .hint("name the files of each folder, as in `conf.d/*.toml`"));
    }
    if !is_pattern(name) {
        return Ok(Include::File(path));
    }
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    match pattern(name) {
        Ok(pattern) => Ok(Include::Pattern(folder, pattern.compile_matcher())),
        Err(why) => Err(Fault::new(format!("`{}` cannot be read as a pattern: {why}", shortened(text)))),
    }
}

/// Another file of the configuration, or a pattern for the names of such files.
pub(crate) struct IncludedFiles;

impl ValueKind for IncludedFiles {
    type Value = Include;
    const FORM: &'static str = "path of a file, or a pattern such as `\"conf.d/*.toml\"`";
    const ALLOWED: &'static str = "wildcards after the last `/` only";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Include, Fault> {
        let text = self.text(item)?;
        include(text, path(text, item, reading)?.0)
    }
}

/// The path of a folder that is possibly not there yet.
pub(crate) struct FolderPath;

impl ValueKind for FolderPath {
    type Value = PathBuf;
    const FORM: &'static str = "path of a folder";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
        let (path, _) = path(self.text(item)?, item, reading)?;
        reading.names(&path, &item.span);
        Ok(path)
    }
}

fn path(text: &str, item: &Item<'_>, reading: &Reading<'_>) -> Result<(PathBuf, bool), Fault> {
    if text.is_empty() {
        return Err(Fault::new("the path is empty"));
    }
    if text.contains('\0') {
        return Err(Fault::new("a path contains no NUL"));
    }
    if text.starts_with("~/") {
        return Err(Fault::new("`~` is not expanded").hint("write the whole path"));
    }
    Ok(reading.path(text, item))
}

/// The path of what is no folder; `needed`: what it must be.
fn no_folder(text: &str, needed: &str, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
    match path(text, item, reading)? {
        (_, true) => Err(Fault::new(format!("`{text}` is a folder; {needed} is needed"))),
        (path, false) => Ok(path),
    }
}

/// The path of a file, noted as one that is named.
pub(super) fn file(text: &str, item: &Item<'_>, reading: &Reading<'_>) -> Result<PathBuf, Fault> {
    let path = no_folder(text, "a file", item, reading)?;
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
            (_, Some(("syslog", path))) => {
                no_folder(path, "a unix socket", item, reading).map(AccessLog::Syslog)
            }
            (_, Some(("journald", path))) => {
                no_folder(path, "a unix socket", item, reading).map(AccessLog::Journald)
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

    fn shape(&self) -> Shape {
        Shape::one_or_list(Shape::text_or(&keys::CERTIFICATE_PAIR))
    }

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
        let (path, is_folder) = path(&with_variable(self.text(item)?, reading)?, item, reading)?;
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
