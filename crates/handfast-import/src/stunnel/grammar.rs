//! Parses stunnel.conf: `name = value`, `[service]`, `; comment`, `include = FOLDER`.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::imported::{ImportError, no_such_option, read, text_of};
use crate::note::Place;
use crate::row::Scope;

/// Limit of nested includes.
const MAX_INCLUDE_DEPTH: usize = 8;

/// One option.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// In small letters, and without aliases.
    pub(super) key: String,
    /// As it is written.
    pub(super) name: String,
    pub(super) value: String,
    pub(super) place: Place,
}

impl Setting {
    pub(super) fn is_yes(&self) -> bool {
        self.value.eq_ignore_ascii_case("yes")
    }
}

/// A service.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) settings: Vec<Setting>,
}

impl Service {
    /// The service of a file without sections, named after the option `service`.
    pub(super) fn of_inetd(file: &Path, global: &[Setting]) -> Self {
        let name = global.iter().rfind(|setting| setting.key == "service");
        Self {
            name: name.map_or("stunnel", |setting| &setting.value).to_owned(),
            place: name
                .map_or_else(|| Place::Line(Rc::new(file.to_owned()), 1), |setting| setting.place.clone()),
            settings: Vec::new(),
        }
    }
}

/// The whole.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// The options before the first service.
    pub(super) global: Vec<Setting>,
    pub(super) services: Vec<Service>,
    problems: Vec<String>,
}

/// Parses the bytes of a file, and reads what it includes.
pub(super) fn document(file: &Path, bytes: &[u8], folder: &Path) -> Result<Document, ImportError> {
    let mut document = Document::default();
    document.take_text(&text_of(file, bytes)?, file, folder, 0)?;
    let has_option =
        !document.global.is_empty() || document.services.iter().any(|service| !service.settings.is_empty());
    if !has_option && document.problems.is_empty() {
        // Of any other file the names of sections would be content.
        document.problems.push(format!("{}: it has no option of stunnel", file.display()));
    }
    if document.problems.is_empty() { Ok(document) } else { Err(ImportError::Grammar(document.problems)) }
}

impl Document {
    fn take_file(&mut self, file: &Path, folder: &Path, depth: usize) -> Result<(), ImportError> {
        self.take_text(&read(file)?, file, folder, depth)
    }

    fn take_text(&mut self, text: &str, file: &Path, folder: &Path, depth: usize) -> Result<(), ImportError> {
        let file = Rc::new(file.to_owned());
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let place = Place::Line(Rc::clone(&file), at + 1);
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                self.services.push(Service { name: name.trim().to_owned(), place, settings: Vec::new() });
            } else {
                self.take_option(line, place, folder, depth)?;
            }
        }
        Ok(())
    }

    fn take_option(
        &mut self,
        line: &str,
        place: Place,
        folder: &Path,
        depth: usize,
    ) -> Result<(), ImportError> {
        let Some((name, value)) = line.split_once('=') else {
            self.problems.push(format!("{place}: expected `option = value`, `[service]` or `; comment`"));
            return Ok(());
        };
        let (name, value) = (name.trim(), value.trim());
        let key = match name.to_ascii_lowercase().as_str() {
            "curve" => "curves".to_owned(),
            "session" => "sessioncachetimeout".to_owned(),
            key => key.to_owned(),
        };
        if key == "include" {
            if depth == MAX_INCLUDE_DEPTH {
                self.problems.push(format!("{place}: include: more than {MAX_INCLUDE_DEPTH} folders deep"));
                return Ok(());
            }
            return self.take_folder(&folder.join(value), folder, depth + 1);
        }
        let setting = Setting { key, name: name.to_owned(), value: value.to_owned(), place };
        if super::rows::row_of(&setting.key).is_none() {
            let what = no_such_option(name, "stunnel 5", &super::ROWS);
            self.problems.push(format!("{}: {what}", setting.place));
            return Ok(());
        }
        match self.services.last_mut() {
            Some(service) => service.settings.push(setting),
            None => self.global.push(setting),
        }
        Ok(())
    }

    /// Its files in the order of their names, as stunnel reads them.
    fn take_folder(&mut self, path: &Path, folder: &Path, depth: usize) -> Result<(), ImportError> {
        let of = |error| ImportError::Read { path: path.to_owned(), error };
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(of)? {
            files.push(entry.map_err(of)?.path());
        }
        files.sort();
        for file in files.into_iter().filter(|file| file.is_file()) {
            self.take_file(&file, folder, depth)?;
        }
        Ok(())
    }

    /// The effective options of a service: its options, and those before the first service as defaults.
    pub(super) fn given<'d>(&'d self, service: &'d Service) -> ServiceOptions<'d> {
        let is_its = |setting: &&Setting| {
            let scope = super::rows::row_of(&setting.key).map(|row| row.scope);
            let is_own = service.settings.iter().any(|own| own.key == setting.key);
            scope == Some(Scope::Service)
                && (!is_own || super::rows::REPEATABLE.contains(&setting.key.as_str()))
        };
        ServiceOptions(self.global.iter().filter(is_its).chain(&service.settings).collect())
    }
}

/// The options of one service, or of all.
#[derive(Debug)]
pub(super) struct ServiceOptions<'d>(pub(super) Vec<&'d Setting>);

impl<'d> ServiceOptions<'d> {
    /// The last of a name; an empty value is none.
    pub(super) fn get(&self, key: &str) -> Option<&'d Setting> {
        self.all(key).last().filter(|setting| !setting.value.is_empty())
    }

    pub(super) fn all(&self, key: &str) -> impl DoubleEndedIterator<Item = &'d Setting> {
        self.0.iter().copied().filter(move |setting| setting.key == key)
    }

    /// `yes` or `no`; nothing is no.
    pub(super) fn is_yes(&self, key: &str) -> bool {
        self.get(key).is_some_and(Setting::is_yes)
    }
}
