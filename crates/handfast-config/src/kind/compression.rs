//! The types of values about compression.

use handfast_http::content_coding::ContentCoding;
use handfast_http::http1::is_token;
use toml::de::DeValue;

use crate::keys::compression as keys;
use crate::model::{self, RouteCompression};
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading, values};
use crate::schema::{Shape, ValueKind};
use crate::table::Table;

/// Compression of responses: on, off, or a table.
pub(crate) struct Compression;

impl ValueKind for Compression {
    type Value = model::RouteCompression;
    const FORM: &'static str =
        "table, such as `{ algorithms = [\"gzip\"], gzip-level = 1 }`; or `true` or `false`";

    fn shape(&self) -> Shape {
        Shape::OneOf(vec![Shape::Switch, Shape::Table(&keys::COMPRESSION_TABLE)])
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let table = match item.value {
            DeValue::Boolean(false) => return Some(RouteCompression::Off),
            DeValue::Boolean(true) => return Some(RouteCompression::On),
            DeValue::Table(entries) => {
                Table::open(&keys::COMPRESSION_TABLE, entries, item.span.clone(), reading)
            }
            _ => {
                reading.error(&item.span, self.wrong_type(item));
                return None;
            }
        };
        compression(&table).map(RouteCompression::Own)
    }
}

fn compression(table: &Table<'_>) -> Option<model::Compression> {
    let written = table.optional(&keys::COMPRESSION_ALGORITHMS);
    let is_wrong = written.is_none() && table.written(&keys::COMPRESSION_ALGORITHMS).is_some();
    let codings = written.map_or_else(|| ContentCoding::ALL.to_vec(), values);
    let levels = [&keys::ZSTD_LEVEL, &keys::BR_LEVEL, &keys::GZIP_LEVEL];
    for (coding, key) in ContentCoding::ALL.into_iter().zip(levels) {
        if !codings.contains(&coding) && !is_wrong {
            let why = format!("`algorithms` does not have `{}`", coding.name());
            crate::check::warn_no_effect(table, key, &why);
        }
    }
    let level = |coding: ContentCoding| table.or_default(levels[coding as usize]);
    let types = table.optional(&keys::COMPRESSION_TYPES).map(values);
    let default_types = || model::compression::DEFAULT_TYPES.map(str::to_owned).to_vec();
    (!is_wrong).then(|| model::Compression {
        codings: codings.into_iter().map(|coding| (coding, level(coding))).collect(),
        types: types.unwrap_or_else(default_types).into_iter().collect(),
        min_size: table.or_default(&keys::COMPRESSION_MIN_SIZE) as u64,
        with_secrets: table.or_default(&keys::WITH_SECRETS),
    })
}

/// A range of media types, in lower case.
pub(crate) struct MediaRange;

impl ValueKind for MediaRange {
    type Value = String;
    const FORM: &'static str = "text, such as `\"text/*\"`";
    const ALLOWED: &'static str = "a type such as `text/css`, all of a kind such as `text/*`, all with a suffix such as `application/*+json`, or `*/*`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let wrong =
            || Fault::new(format!("`{}` is not a range of types", shortened(text))).allowed(self.allowed());
        if text == "*" {
            return Err(wrong().hint("write `*/*`"));
        }
        if text.contains(';') {
            return Err(wrong().hint("leave out the parameters: they do not count"));
        }
        let Some((kind, subtype)) = text.split_once('/') else { return Err(wrong()) };
        let is_name = |part: &str| is_token(part.as_bytes()) && !part.contains('*');
        let is_subtype =
            is_name(subtype) || subtype == "*" || subtype.strip_prefix("*+").is_some_and(is_name);
        let is_range = (is_name(kind) && is_subtype) || text == "*/*";
        is_range.then(|| text.to_ascii_lowercase()).ok_or_else(wrong)
    }
}
