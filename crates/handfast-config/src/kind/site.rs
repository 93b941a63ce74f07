//! A URL in the place of a backend: another site. It says at once how the site is reached, and what its requests have as `Host`.
//!
//! In: the value of `backend`. Out: the site, or why it is none.

use std::path::Path;

use toml::de::DeValue;

use super::BackendEntry;
use crate::model::{Backend, Target};
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading, Written};
use crate::scalar;
use crate::schema::{Shape, ValueKind};

const ALLOWED: &str = "`127.0.0.1:8080`, `[::1]:8080`, `backend.example:8080`, `unix:/run/x.sock`, or the URL of another site: `https://www.example.org`";

/// Another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// True if it is reached with TLS (`https`).
    pub(crate) is_secure: bool,
    /// The `Host` of its requests: its name, and its port if that is not the scheme's default.
    pub(crate) authority: String,
    target: Target,
}

impl Site {
    /// The site of a `backend`, alone or the only one of a list; `None`: it is not a URL, or wrong, which the value's kind reports.
    pub(crate) fn of(item: &Item<'_>) -> Option<Written<Self>> {
        let (text, span) = match item.value {
            DeValue::Array(list) => match &**list {
                [alone] => (alone.get_ref().as_str()?, alone.span()),
                _ => return None,
            },
            _ => (item.value.as_str()?, item.span.clone()),
        };
        let value = Self::is_url(text).then(|| Self::parse(text))?.ok()?;
        Some(Written { value, span })
    }

    /// Returns true if a text is meant as a URL.
    pub(crate) fn is_url(text: &str) -> bool {
        text.contains("://")
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = |what: &str| Fault::new(format!("`{}` {what}", shortened(text))).allowed(ALLOWED);
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (is_secure, own) = match scheme.to_ascii_lowercase().as_str() {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return Err(wrong("is not the URL of a site")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            let fault = wrong("has more than the name of a site");
            return Err(fault.hint(
                "write `https://www.example.org`: requests have a path, see `rewrite-path` of a route",
            ));
        }
        let has_port = rest.rfind(':') > rest.rfind(']');
        let dialled = if has_port { rest.to_owned() } else { format!("{rest}:{own}") };
        match scalar::target(&dialled, Path::new("")).map_err(|fault| fault.allowed(ALLOWED))? {
            Target::Name(name, port) if name != "localhost" => {
                let authority = if port == own { name.clone() } else { format!("{name}:{port}") };
                Ok(Self { is_secure, authority, target: Target::Name(name, port) })
            }
            other => {
                let tls = if is_secure { ", with `backend-tls = {}`" } else { "" };
                let fault = wrong("is no other site: its requests keep the `Host` that clients send");
                Err(fault.hint(format!("write `backend = \"{other}\"` and `mode = \"http\"`{tls}")))
            }
        }
    }
}

/// A backend as for [`BackendEntry`], or the URL of another site, which is the only one then.
pub(crate) struct SiteOrBackend;

impl ValueKind for SiteOrBackend {
    type Value = Backend;
    const FORM: &'static str = BackendEntry::FORM;
    const ALLOWED: &'static str = ALLOWED;

    fn shape(&self) -> Shape {
        BackendEntry.shape()
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Backend> {
        let Some(text) = item.value.as_str().filter(|text| Site::is_url(text)) else {
            return BackendEntry.read(item, reading);
        };
        let site = Site::parse(text).map_err(|fault| reading.error(&item.span, fault)).ok()?;
        Some(site.target.into())
    }
}
