//! The types of values that change requests and responses: fields with variables, redirects, fixed responses.

use handfast_http::http1::{Kind, is_token};
use handfast_text::suggest::{did_you_mean, one_of};
use toml::de::DeValue;

use super::Text;
use crate::keys::route_values as keys;
use crate::model::{FixedResponse, Piece, Template, Variable};
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::schema::{Shape, ValueKind};
use crate::table::Table;

/// Parses a text with variables in braces; two braces are one.
fn template(text: &str) -> Result<Template, Fault> {
    let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            literal.push_str(brace);
            rest = after;
            continue;
        }
        let Some((name, after)) = rest.split_once('}').filter(|_| brace == "{") else {
            let fault = Fault::new(format!("`{}` has a `{brace}` without its other one", shortened(text)));
            return Err(fault.hint(format!("write `{brace}{brace}` for a single one")));
        };
        let Some((_, variable)) = Variable::NAMES.iter().find(|(known, _)| *known == name) else {
            let names = || Variable::NAMES.iter().map(|(known, _)| *known);
            let fault = Fault::new(format!("there is no variable `{}`", shortened(name)));
            return Err(fault.allowed(one_of(names())).maybe_hint(did_you_mean(name, names())));
        };
        if !literal.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut literal).into()));
        }
        pieces.push(Piece::Variable(*variable));
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal.into()));
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(Fault::new("no field has control characters"));
    }
    Ok(Template(pieces))
}

/// A field with its value, in which variables may be.
pub(crate) struct FieldValue;

impl ValueKind for FieldValue {
    type Value = (Box<str>, Template);
    const FORM: &'static str = "text, such as `\"x-client: {client-address}\"`";
    const ALLOWED: &'static str = "the name of a field, a colon and a value, with variables in braces";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Self::Value, Fault> {
        let text = self.text(item)?;
        let Some((name, value)) = text.split_once(':') else {
            let fault = Fault::new(format!("`{}` has no value", shortened(text))).allowed(self.allowed());
            return Err(fault.hint(format!("write `{}: value`", shortened(text))));
        };
        Ok((field_name(name)?, template(value.trim_matches([' ', '\t']))?))
    }
}

/// The name of a field.
pub(crate) struct FieldName;

impl ValueKind for FieldName {
    type Value = Box<str>;
    const FORM: &'static str = "text, such as `\"server\"`";
    const ALLOWED: &'static str = "the name of a field";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Self::Value, Fault> {
        field_name(self.text(item)?)
    }
}

fn field_name(name: &str) -> Result<Box<str>, Fault> {
    if !is_token(name.as_bytes()) {
        let hint = "names consist of letters, digits and `-`";
        return Err(Fault::new(format!("`{}` is not the name of a field", shortened(name))).hint(hint));
    }
    match Kind::of(name.as_bytes()) {
        Kind::Other | Kind::Host | Kind::Forwarding => Ok(name.into()),
        _ => Err(Fault::new(format!("`{name}` belongs to one connection, and is written by Handfast"))),
    }
}

/// The target of a redirect.
pub(crate) struct Redirect;

/// `https`, or a target with a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedirectTo {
    Https,
    Target(Template, u16),
}

impl ValueKind for Redirect {
    type Value = RedirectTo;
    const FORM: &'static str =
        "text `\"https\"`, or `{ to = \"https://www.example.org{target}\", status = 301 }`";

    fn shape(&self) -> Shape {
        Shape::text_or(&keys::REDIRECT_TABLE)
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<RedirectTo, Fault> {
        match self.text(item)? {
            "https" => Ok(RedirectTo::Https),
            text => {
                let fault = Fault::new(format!("`{}` is not one of the possible values", shortened(text)));
                Err(fault.allowed("`https`").hint(format!("write `{{ to = \"{}\" }}`", shortened(text))))
            }
        }
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<RedirectTo> {
        let DeValue::Table(entries) = item.value else {
            return self.parse(item, reading).map_err(|fault| reading.error(&item.span, fault)).ok();
        };
        let table = Table::open(&keys::REDIRECT_TABLE, entries, item.span.clone(), reading);
        let (to, status) = (table.required(&keys::REDIRECT_TARGET), table.or_default(&keys::REDIRECT_STATUS));
        Some(RedirectTo::Target(to?, status))
    }
}

/// The status of a redirect.
pub(crate) struct RedirectStatus;

impl ValueKind for RedirectStatus {
    type Value = u16;
    const FORM: &'static str = "status, such as `301`";
    const ALLOWED: &'static str = "301, 302, 303, 307 or 308";

    fn shape(&self) -> Shape {
        Shape::Number(301, 308)
    }

    /// A text is accepted too: it was the form before.
    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<u16, Fault> {
        let written = match item.value {
            DeValue::Integer(number) => number.as_str(),
            DeValue::String(text) => text,
            _ => return Err(self.wrong_type(item)),
        };
        let status = written.parse().ok().filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308));
        let fault = || Fault::new(format!("`{}` is no status of a redirect", shortened(written)));
        status.ok_or_else(|| fault().allowed(self.allowed()))
    }
}

/// The target of a redirect, in which variables may be.
pub(crate) struct RedirectTarget;

impl ValueKind for RedirectTarget {
    type Value = Template;
    const FORM: &'static str = "text, such as `\"https://www.example.org{target}\"`";
    const ALLOWED: &'static str =
        "a URL, or a path that starts with `/` and a letter, with variables in braces";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Template, Fault> {
        let text = self.text(item)?;
        let begins = ["http://", "https://", "{scheme}://"];
        // Two slashes, also those that a client sends in its path, are followed by another host.
        let is_path = text.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '\\', '{']));
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || !is_path && !begins.iter().any(|beginning| text.starts_with(beginning)) {
            let fault = Fault::new(format!("`{}` is no target", shortened(text))).allowed(self.allowed());
            let hint = "a client could choose the host: write `{scheme}://{host}{target}`";
            return Err(fault.maybe_hint(text.contains('{').then(|| hint.to_owned())));
        }
        template(text)
    }
}

/// A response of the proxy's own: a status, or a status with content.
pub(crate) struct Respond;

impl ValueKind for Respond {
    type Value = FixedResponse;
    const FORM: &'static str = "status, such as `404`, or `{ status = 503, content = \"Back at noon.\" }`";

    fn shape(&self) -> Shape {
        Shape::OneOf(vec![keys::RESPOND_STATUS.kind.shape(), Shape::Table(&keys::RESPOND_TABLE)])
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<FixedResponse> {
        let DeValue::Table(entries) = item.value else {
            let status = keys::RESPOND_STATUS.kind.read(item, reading)?;
            return Some(FixedResponse { status, content: "".into(), content_type: PLAIN.into() });
        };
        let table = Table::open(&keys::RESPOND_TABLE, entries, item.span.clone(), reading);
        let status = table.required(&keys::RESPOND_STATUS);
        let content = table.optional(&keys::RESPOND_CONTENT).unwrap_or_default();
        let content_type = table.optional(&keys::RESPOND_TYPE).unwrap_or_else(|| PLAIN.to_owned());
        let status = status?;
        if matches!(status, 204 | 205 | 304) && !content.is_empty() {
            table.error(
                &keys::RESPOND_CONTENT,
                Fault::new(format!("a response with status {status} has no content")),
            );
            return None;
        }
        Some(FixedResponse { status, content: content.into(), content_type: content_type.into() })
    }
}

/// The type of a content that nothing is said of.
const PLAIN: &str = "text/plain; charset=utf-8";

/// The type of a content.
pub(crate) struct MediaType;

impl ValueKind for MediaType {
    type Value = String;
    const FORM: &'static str = "text, such as `\"text/html\"`";
    const ALLOWED: &'static str = "a type, `/` and a subtype, with parameters";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<String, Fault> {
        let text = Text(Self::FORM).parse(item, reading)?;
        let is_good =
            text.split_once('/').is_some_and(|(kind, rest)| is_token(kind.as_bytes()) && !rest.is_empty());
        if is_good && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            return Ok(text);
        }
        Err(Fault::new(format!("`{}` is no type of content", shortened(&text))).allowed(self.allowed()))
    }
}
