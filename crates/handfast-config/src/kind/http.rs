//! The types of values that only HTTP mode has: what a request must have, and names of fields.

use std::net::{IpAddr, Ipv6Addr};

use handfast_http::http1::{Kind, is_token};

use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::scalar;
use crate::schema::ValueKind;

/// A host that a request can be for: a name, a wildcard or an IP address.
pub(crate) struct HostPattern;

impl ValueKind for HostPattern {
    type Value = String;
    const FORM: &'static str = "text, such as `\"www.example.org\"`";
    const ALLOWED: &'static str =
        "a name, a wildcard such as `*.example.org`, or an IP address such as `192.0.2.7` or `[2001:db8::1]`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let wrong = Fault::new(format!("`{}` is not a host", shortened(text))).allowed(self.allowed());
        if text == "*" {
            return Err(wrong.hint("leave `hosts` out to match every host"));
        }
        if let Some(Ok(address)) = bracketed(text).map(str::parse::<Ipv6Addr>) {
            return Ok(format!("[{address}]"));
        }
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => Ok(address.to_string()),
            Ok(IpAddr::V6(address)) => Err(wrong.hint(format!("write `[{address}]`"))),
            Err(_) => scalar::name_pattern(text).map_err(|fault| fault.allowed(self.allowed())),
        }
    }
}

fn bracketed(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.strip_suffix(']')
}

/// A pattern of paths.
pub(crate) struct PathPattern;

impl ValueKind for PathPattern {
    type Value = String;
    const FORM: &'static str = "text, such as `\"/maven2/**\"`";
    const ALLOWED: &'static str =
        "a path from its `/`, with `*` for any text within one part and `**` for any number of parts";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let wrong = |why: &str| {
            Fault::new(format!("`{}` is no pattern of paths: {why}", shortened(text))).allowed(self.allowed())
        };
        if !text.starts_with('/') {
            return Err(wrong("it does not start with `/`").hint(format!("write `/{}`", shortened(text))));
        }
        match crate::model::cache::pattern(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(wrong(&error.to_string())),
        }
    }
}

/// The paths of a route: a prefix, with `*` where more letters may follow in its last segment.
pub(crate) struct PathStart;

impl ValueKind for PathStart {
    type Value = String;
    const FORM: &'static str = PathPrefix::FORM;
    const ALLOWED: &'static str = "`/` and what follows it, as clients send it, without a query; `*` at the end for any letters behind it";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let is_open = text.strip_suffix('*').is_some_and(|prefix| !prefix.ends_with(['*', '/']));
        PathPrefix { is_open }.parse(item, reading).map_err(|fault| fault.allowed(self.allowed()))
    }
}

/// The beginning of a request's path; `is_open`: `*` may end it.
pub(crate) struct PathPrefix {
    pub(crate) is_open: bool,
}

impl ValueKind for PathPrefix {
    type Value = String;
    const FORM: &'static str = "text, such as `\"/api\"`";
    const ALLOWED: &'static str = "`/` and what follows it, as clients send it, without a query";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let wrong = |why: &str| {
            Fault::new(format!("`{}` cannot begin a path: {why}", shortened(text))).allowed(self.allowed())
        };
        if let Some(strange) = text.chars().find(|character| !character.is_ascii_graphic()) {
            let mut bytes = [0; 4];
            let bytes = strange.encode_utf8(&mut bytes).bytes();
            let written: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
            let why = "a request has no spaces, control characters or letters beyond ASCII there";
            return Err(wrong(why).hint(format!("write `{written}`, as clients send it")));
        }
        if let Some(at) = text.find(['?', '#']) {
            let why = format!("what follows `{}` is not part of a path", &text[at..=at]);
            let hint = match &text[..at] {
                "" | "/" => "leave `path` out".to_owned(),
                path => format!("write `{path}`"),
            };
            return Err(wrong(&why).hint(hint));
        }
        if !text.starts_with('/') {
            let hint = match text.split_once("://") {
                Some(_) => "write the host in `hosts`, and here only the path".to_owned(),
                None => format!("write `/{text}`"),
            };
            return Err(wrong("it does not start with `/`").hint(hint));
        }
        if let Some(above) = text.strip_suffix('*').filter(|_| !self.is_open) {
            let hint = match above.trim_end_matches(['*', '/']) {
                "" => "leave `path` out".to_owned(),
                path => format!("write `{path}`, which matches what is below it, too"),
            };
            return Err(wrong("a `*` at its end has no meaning").hint(hint));
        }
        Ok(text.to_owned())
    }
}

/// The method of a request.
pub(crate) struct MethodName;

impl ValueKind for MethodName {
    type Value = String;
    const FORM: &'static str = "text, such as `\"GET\"`";
    const ALLOWED: &'static str = "methods as they are sent, in upper case";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let wrong = Fault::new(format!("`{}` is not a method", shortened(text))).allowed(self.allowed());
        if !is_token(text.as_bytes()) {
            return Err(wrong.hint("write each method as a separate text: `[\"GET\", \"HEAD\"]`"));
        }
        if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
            let hint = format!("write `{}`: methods are case-sensitive", text.to_ascii_uppercase());
            return Err(wrong.hint(hint));
        }
        Ok(text.to_owned())
    }
}

/// A field that a request must have, and its value if that counts.
pub(crate) struct FieldCondition;

impl ValueKind for FieldCondition {
    type Value = (Box<str>, Option<Box<str>>);
    const FORM: &'static str = "text, such as `\"x-beta\"` or `\"x-tenant: blue\"`";
    const ALLOWED: &'static str = "the name of a field; or a name, a colon and a value";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Self::Value, Fault> {
        let text = self.text(item)?;
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value.trim_matches([' ', '\t']))),
            None => (text, None),
        };
        let wrong = |what: String| Err(Fault::new(what).allowed(self.allowed()));
        if !is_token(name.as_bytes()) {
            let what = format!("`{}` is not the name of a field", shortened(name));
            let hint = "names consist of letters, digits and `-`; a value follows a colon: `x-tenant: blue`";
            return wrong(what).map_err(|fault| fault.hint(hint));
        }
        if Kind::of(name.as_bytes()) == Kind::Host {
            let what = "the field `host` is no condition of a route".to_owned();
            return wrong(what).map_err(|fault| fault.hint("write its name in `hosts`"));
        }
        match value {
            Some("") => {
                let hint = format!("write `{name}` for any value");
                wrong(format!("`{name}:` has no value")).map_err(|fault| fault.hint(hint))
            }
            Some(value) if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') => {
                let hint = "remove the control characters: no field has them";
                wrong(format!("this cannot be the value of `{name}`")).map_err(|fault| fault.hint(hint))
            }
            _ => Ok((name.to_ascii_lowercase().into(), value.map(Into::into))),
        }
    }
}

/// The name of the field with a request's identifier, or `off`.
pub(crate) struct RequestIdField;

impl ValueKind for RequestIdField {
    type Value = Option<Box<str>>;
    const FORM: &'static str = "text, such as `\"x-request-id\"`";
    const ALLOWED: &'static str = "the name of a field, or `off`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Self::Value, Fault> {
        let text = self.text(item)?;
        let wrong = |what: &str| Fault::new(format!("`{}` {what}", shortened(text))).allowed(self.allowed());
        if text == "off" {
            return Ok(None);
        }
        if !is_token(text.as_bytes()) {
            let hint = "names consist of letters, digits and `-`: `x-request-id`";
            return Err(wrong("is not the name of a field").hint(hint));
        }
        if Kind::of(text.as_bytes()) != Kind::Other {
            return Err(wrong("has another meaning in HTTP").hint("choose another name: `x-request-id`"));
        }
        Ok(Some(text.to_ascii_lowercase().into()))
    }
}
