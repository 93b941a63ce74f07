//! Other files of a configuration (`include`): found, read, and joined with the file that names them.
//!
//! In: the values of `include`, and the machine. Out: texts in their order, and one tree. An included file has services and nothing else, so
//! a file cannot include itself, and what holds for all services is in one place.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::foreign;
use super::keys;
use super::kind::Include;
use super::machine::{MAX_BYTES, text_of};
use super::part::Part;
use super::problem::{Fault, shortened};
use super::reading::{Item, Reading, Written};

/// Most files that are included.
const MAX_FILES: usize = 1000;

/// A file that is included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncludedFile {
    /// Its path, for messages and for its relative paths.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The files that are being found.
struct Found<'f> {
    reading: &'f Reading<'f>,
    files: Vec<IncludedFile>,
    /// The real path of each, and of the file that includes them.
    known: HashMap<PathBuf, Option<String>>,
    bytes: u64,
    is_full: bool,
}

/// Finds and reads the files of `include`, in the order written; what is wrong is noted.
pub(crate) fn files(includes: Vec<Written<Include>>, reading: &Reading<'_>) -> Vec<IncludedFile> {
    let main = reading.machine().real(Path::new(reading.parts()[0].file()));
    let known = HashMap::from([(main, None)]);
    let mut found = Found { reading, files: Vec::new(), known, bytes: 0, is_full: false };
    for Written { value, span } in includes {
        match value {
            Include::File(path) => {
                reading.names(&path, &span);
                found.add(&path, &span);
            }
            Include::Pattern(folder, pattern) => found.matches(&folder, &pattern, &span),
        }
    }
    found.files
}

impl Found<'_> {
    fn matches(&mut self, folder: &Path, pattern: &GlobMatcher, span: &std::ops::Range<usize>) {
        self.reading.names(folder, span);
        let machine = self.reading.machine();
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let mut names = match machine.names_in(here) {
            Ok(names) => names,
            // As of a pattern that no file fits.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                let what = format!("list the files of `{}`: {error}", folder.display());
                return self.reading.error(span, Fault::new(what));
            }
        };
        let with_hidden = pattern.glob().glob().starts_with('.');
        let is_hidden = |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(b".");
        names.retain(|name| pattern.is_match(name) && (with_hidden || !is_hidden(name)));
        names.sort();
        for name in names {
            self.add(&folder.join(name), span);
        }
    }

    /// Reads one file.
    fn add(&mut self, path: &Path, span: &std::ops::Range<usize>) {
        if self.is_full {
            return;
        }
        let name = path.display().to_string();
        if let Err(fault) = self.read(path, &name) {
            self.reading.error(span, fault);
        }
    }

    fn read(&mut self, path: &Path, name: &str) -> Result<(), Fault> {
        let machine = self.reading.machine();
        match self.known.insert(machine.real(path), Some(name.to_owned())) {
            None => {}
            Some(None) => {
                let fault = Fault::new(format!("`{name}` is this file, and a file cannot include itself"));
                return Err(fault.hint("keep included files in a separate folder, as in `conf.d/*.toml`"));
            }
            Some(Some(first)) => {
                let also = if first == name { String::new() } else { format!(", also as `{first}`") };
                return Err(Fault::new(format!("`{name}` is included twice{also}")));
            }
        }
        if self.files.len() == MAX_FILES {
            self.is_full = true;
            return Err(Fault::new(format!("more than {MAX_FILES} files are included")));
        }
        let bytes = machine.read(path, MAX_BYTES).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Fault::new(format!("the file `{name}` does not exist"))
                .hint("only a pattern, such as `conf.d/*.toml`, needs no file"),
            std::io::ErrorKind::PermissionDenied => {
                Fault::new(format!("read the included file `{name}`: {error}"))
                    .hint("a reload reads it as the user that serves")
            }
            _ => Fault::new(format!("read the included file `{name}`: {error}")),
        })?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            self.is_full = true;
            return Err(Fault::new(format!("the included files have more than {} MiB", MAX_BYTES >> 20)));
        }
        let text =
            text_of(Ok(bytes)).map_err(|error| Fault::new(format!("the included file `{name}`: {error}")))?;
        if let Some(problem) = foreign::holds_pem(&text, name) {
            let what = format!("the included file `{name}`: {}", problem.what);
            return Err(Fault::new(what).maybe_hint(problem.hint));
        }
        self.files.push(IncludedFile { name: name.to_owned(), text });
        Ok(())
    }
}

/// Adds the services of an included file to those of `root`; everything else in it is noted.
pub(crate) fn merge<'t>(
    root: &mut DeTable<'t>,
    tree: DeTable<'t>,
    (part, reading): (&Part<'_>, &Reading<'_>),
) {
    for (name, value) in shifted_table(tree, part) {
        if name.get_ref() == keys::SERVICE.name {
            merge_services(root, (name, value), reading);
            continue;
        }
        let (word, main) = (name.get_ref().as_ref(), reading.parts()[0].file());
        let fault = match word {
            _ if word == keys::INCLUDE.about.name => {
                Fault::new("an included file cannot include others").hint(format!("include them in {main}"))
            }
            _ if keys::FILE.names().any(|known| known == word) => {
                Fault::new(format!("`{word}` cannot be in an included file"))
                    .hint(format!("write it in {main}"))
            }
            _ => Fault::new(format!("unknown key `{}` at the top of an included file", shortened(word)))
                .maybe_hint(handfast_text::suggest::did_you_mean(word, [keys::SERVICE.name])),
        };
        reading.error(&name.span(), fault.allowed("[[service]], and what belongs to a service"));
    }
}

type Named<'t> = (Spanned<std::borrow::Cow<'t, str>>, Spanned<DeValue<'t>>);

fn merge_services<'t>(root: &mut DeTable<'t>, (name, value): Named<'t>, reading: &Reading<'_>) {
    let span = value.span();
    let is_list = |list: &DeArray<'_>| list.iter().all(|item| item.get_ref().is_table());
    let services = match value.into_inner() {
        DeValue::Array(list) if is_list(&list) => list,
        other => {
            let what = match other {
                DeValue::Table(_) => "there may be several of these, so each begins with [[service]]".into(),
                _ => format!(
                    "`service` is a section, not {}",
                    Item::new(&Spanned::new(0..0, other)).kind_name()
                ),
            };
            return reading.error(&span, Fault::new(what).hint("write [[service]]"));
        }
    };
    match root.get_mut(keys::SERVICE.name).map(Spanned::get_mut) {
        Some(DeValue::Array(list)) => services.into_iter().for_each(|service| list.push(service)),
        // Something else, which is noted when it is read.
        Some(_) => {}
        None => drop(root.insert(name, Spanned::new(span, DeValue::Array(services)))),
    }
}

/// A table with the places that its parts have in the whole configuration.
fn shifted_table<'t>(table: DeTable<'t>, part: &Part<'_>) -> DeTable<'t> {
    let key = |name: Spanned<_>| Spanned::new(part.outside(&name.span()), name.into_inner());
    table.into_iter().map(|(name, value)| (key(name), shifted(value, part))).collect()
}

fn shifted<'t>(value: Spanned<DeValue<'t>>, part: &Part<'_>) -> Spanned<DeValue<'t>> {
    let span = part.outside(&value.span());
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(shifted_table(table, part)),
        DeValue::Array(list) => DeValue::Array(list.into_iter().map(|item| shifted(item, part)).collect()),
        other => other,
    };
    Spanned::new(span, value)
}

#[cfg(test)]
mod tests;
