//! The types of values that name files of responses.

use std::path::PathBuf;
use std::sync::Arc;

use handfast_text::suggest::did_you_mean;
use toml::de::DeValue;

use super::FilePath;
use crate::keys::file_values as keys;
use crate::model;
use crate::model::ErrorStatus;
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::schema::{Shape, ValueKind, default_of};
use crate::table::Table;

/// A folder whose files are responses, with or without rules for finding them.
pub(crate) struct Files;

impl ValueKind for Files {
    type Value = model::Files;
    const FORM: &'static str = "path of a folder, such as `\"/srv/www\"`, or `{ folder = \"/srv/www\", fallback = \"/index.html\" }`";

    fn shape(&self) -> Shape {
        Shape::text_or(&keys::FILES_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<model::Files> {
        let names =
            |list: Vec<crate::reading::Written<Box<str>>>| list.into_iter().map(|name| name.value).collect();
        let DeValue::Table(entries) = item.value else {
            let folder = keys::FILES_FOLDER.kind.read(item, reading)?;
            let index = names(default_of(&keys::FILES_INDEX));
            return Some(model::Files {
                folder,
                index,
                extension: None,
                fallback: None,
                precompressed: Vec::new(),
            });
        };
        let table = Table::open(&keys::FILES_TABLE, entries, item.span.clone(), reading);
        let folder = table.required(&keys::FILES_FOLDER);
        let index = names(table.or_default(&keys::FILES_INDEX));
        let extension = table.optional(&keys::FILES_EXTENSION);
        let fallback = table.optional(&keys::FILES_FALLBACK);
        let precompressed = table.list(&keys::FILES_PRECOMPRESSED);
        Some(model::Files { folder: folder?, index, extension, fallback, precompressed })
    }
}

/// The name of a file in any folder.
pub(crate) struct FileName;

impl ValueKind for FileName {
    type Value = Box<str>;
    const FORM: &'static str = "text, such as `\"index.html\"`";
    const ALLOWED: &'static str = "the name of a file, without `/`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Box<str>, Fault> {
        let text = self.text(item)?;
        if is_name(text) {
            return Ok(text.into());
        }
        Err(Fault::new(format!("`{}` is no name of a file that is served", shortened(text)))
            .allowed(self.allowed()))
    }
}

/// Hidden files are not served.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0'])
}

/// The end of the names of files.
pub(crate) struct FileExtension;

impl ValueKind for FileExtension {
    type Value = Box<str>;
    const FORM: &'static str = "text, such as `\".html\"`";
    const ALLOWED: &'static str = "a dot and what follows it in the names of files";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Box<str>, Fault> {
        let text = self.text(item)?;
        if text.strip_prefix('.').is_some_and(is_name) {
            return Ok(text.into());
        }
        let wrong =
            Fault::new(format!("`{}` is no extension of files", shortened(text))).allowed(self.allowed());
        Err(wrong.maybe_hint(is_name(text).then(|| format!("write `.{text}`"))))
    }
}

/// A file below the folder, as a path that begins with a slash.
pub(crate) struct FileBelow;

impl ValueKind for FileBelow {
    /// Without its slash.
    type Value = Box<str>;
    const FORM: &'static str = "text, such as `\"/index.html\"`";
    const ALLOWED: &'static str =
        "`/` and the path of a file below the folder, without parts that begin with a dot";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Box<str>, Fault> {
        let text = self.text(item)?;
        let below = text.strip_prefix('/').filter(|below| below.split('/').all(is_name));
        let wrong = || {
            Fault::new(format!("`{}` is no file below the folder", shortened(text))).allowed(self.allowed())
        };
        below
            .map(Into::into)
            .ok_or_else(|| wrong().maybe_hint(is_name(text).then(|| format!("write `/{text}`"))))
    }
}

/// Pages for errors, by status.
pub(crate) struct ErrorPages;

impl ValueKind for ErrorPages {
    type Value = Arc<[(ErrorStatus, PathBuf)]>;
    const FORM: &'static str = "table of paths by status, such as `{ 404 = \"/etc/handfast/404.html\", \"5xx\" = \"/etc/handfast/sorry.html\" }`";
    const ALLOWED: &'static str = "statuses from 400 to 599, `4xx` and `5xx`";

    fn shape(&self) -> Shape {
        Shape::Map(Box::new(Shape::Text))
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let DeValue::Table(entries) = item.value else {
            reading.error(&item.span, self.wrong_type(item));
            return None;
        };
        let page = |(name, value)| {
            let name: &toml::Spanned<std::borrow::Cow<'_, str>> = name;
            let status = status(name.get_ref());
            if status.is_none() {
                let hint = did_you_mean(name.get_ref(), ["4xx", "5xx"]);
                reading.error(
                    &name.span(),
                    Fault::new("this is no status of an error").allowed(self.allowed()).maybe_hint(hint),
                );
            }
            let path = FilePath.read(&Item::new(value), reading);
            Some((status?, path?))
        };
        // All of them are read, so that everything that is wrong is reported.
        let pages: Vec<Option<_>> = entries.iter().map(page).collect();
        let mut pages: Vec<_> = pages.into_iter().collect::<Option<_>>()?;
        pages.sort();
        Some(pages.into())
    }
}

fn status(text: &str) -> Option<ErrorStatus> {
    match text {
        "4xx" => Some(ErrorStatus::Class(4)),
        "5xx" => Some(ErrorStatus::Class(5)),
        _ => text
            .parse()
            .ok()
            .filter(|status| (400..=599).contains(status) && text.len() == 3)
            .map(ErrorStatus::One),
    }
}
