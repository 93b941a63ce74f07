//! `deny`, `tarpit` and `return`: responses that are written in the configuration.

use super::around::Around;
use super::grammar::Line;
use super::pages::{PageError, plain};
use super::rules::Action;
use super::state::Import;
use super::value::template;
use crate::cells::{Changes, is_of_connection};
use crate::note::Fate;
use crate::toml::table;

/// A response so far.
#[derive(Debug)]
struct Written {
    status: i64,
    content: Option<String>,
    kind: Option<String>,
    fields: Changes,
    /// The page for errors of its status is its content.
    has_page: bool,
}

/// The kind of a file that has the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// A text of the log format.
    Format,
    /// A whole response.
    Response,
}

impl<'d> Import<'d> {
    /// `deny` and `return`: a status, and perhaps a text.
    pub(super) fn respond(
        &mut self,
        line: &'d Line,
        words: &[String],
        usual: i64,
        is_refusal: bool,
        around: &Around<'_, 'd>,
    ) -> Option<Action> {
        let mut response = Written {
            status: usual,
            content: None,
            kind: None,
            fields: Changes::default(),
            has_page: is_refusal,
        };
        let (mut file, mut section) = (None, None);
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut next = || words.next().unwrap_or_default();
            match word {
                "status" | "deny_status" => match next().parse::<i64>() {
                    Ok(code @ 200..=599) => response.status = code,
                    _ => self.note(line, Fate::Refused, "expected a status from 200 to 599"),
                },
                "content-type" => response.kind = Some(next().to_owned()),
                "string" => response.content = Some(next().to_owned()),
                "lf-string" => response.content = self.without_samples(line, next()),
                "file" => file = Some((Kind::Text, next())),
                "lf-file" => file = Some((Kind::Format, next())),
                "errorfile" => file = Some((Kind::Response, next())),
                "errorfiles" => section = Some(next()),
                "default-errorfiles" => response.has_page = true,
                "hdr" => {
                    let (name, text) = (next(), words.next().unwrap_or_default());
                    match template(text, around.facts) {
                        Ok(value) => response.fields.add(name, value.text),
                        Err(what) => self.note(line, Fate::Refused, format!("Handfast has no {what}")),
                    }
                }
                other => {
                    let effect = format!("{other}: the content of a response is a text in the configuration");
                    self.note(line, if is_refusal { Fate::Approximated } else { Fate::Refused }, effect);
                    words.next();
                }
            }
        }
        if let Some(section) = section {
            let status = u16::try_from(response.status).unwrap_or_default();
            let found = self.file_of_section(section, status);
            file = found.map(|name| (Kind::Response, name)).or(file);
            response.has_page |= found.is_none();
        }
        if let Some((kind, name)) = file {
            self.with_file(line, kind, name, &mut response);
        }
        let Written { status, content, kind, fields, has_page } = response;
        let has_page = has_page && content.is_none();
        let value = match content {
            None => status.into(),
            Some(content) => table([
                ("status", status.into()),
                ("content", content.into()),
                ("type", kind.unwrap_or_else(|| "text/plain".into()).into()),
            ]),
        };
        Some(Action::Respond { value, status, fields, is_refusal, has_page })
    }

    /// A text of the log format, which must be a fixed one.
    fn without_samples(&mut self, line: &'d Line, text: &str) -> Option<String> {
        let fixed = plain(text);
        if fixed.is_none() {
            self.note(line, Fate::Refused, "the content of a response is a fixed text");
        }
        fixed
    }

    /// Takes the content from a file, as it is now.
    fn with_file(&mut self, line: &'d Line, kind: Kind, name: &str, response: &mut Written) {
        let content = match kind {
            Kind::Response => self.whole_response(name, response),
            Kind::Text | Kind::Format => self.text_file(name),
        };
        match content {
            Ok(content) => {
                let content = match kind {
                    Kind::Format => self.without_samples(line, &content),
                    Kind::Text | Kind::Response => Some(content),
                };
                response.content = content.filter(|content| !content.is_empty());
                let effect = format!(
                    "the content of {name} is written here: a later change of that file changes nothing"
                );
                self.note(line, Fate::Approximated, effect);
            }
            Err(error) => self.note(line, Fate::Refused, error.to_string()),
        }
    }

    /// Takes status, type and fields from a whole response. Returns its content.
    fn whole_response(&mut self, name: &str, response: &mut Written) -> Result<String, PageError> {
        let whole = self.response_file(name)?;
        response.status = i64::from(whole.status);
        response.kind = Some(whole.kind().to_owned()).filter(|kind| !kind.is_empty());
        for (name, value) in whole.other_fields().filter(|(name, _)| !is_of_connection(name)) {
            response.fields.add(name, value.replace('{', "{{").replace('}', "}}"));
        }
        Ok(whole.content)
    }
}
