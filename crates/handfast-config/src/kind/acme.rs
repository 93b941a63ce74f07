//! The types of values about certificates that are ordered: names, URLs of issuers, mail addresses.

use std::net::IpAddr;

use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::scalar;
use crate::schema::ValueKind;

/// The longest URL: it becomes the name of a file.
const MAX_URL_BYTES: usize = 120;

/// A name that a certificate is ordered for.
pub(crate) struct OrderedName;

impl ValueKind for OrderedName {
    type Value = String;
    const FORM: &'static str = "text, such as `\"www.example.org\"`";
    const ALLOWED: &'static str = "a name, a wildcard such as `*.example.org`, or an IP address";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) => scalar::name_pattern(text).map_err(|fault| fault.allowed(self.allowed())),
        }
    }
}

/// The URL of an issuer's directory.
pub(crate) struct DirectoryUrl;

impl ValueKind for DirectoryUrl {
    type Value = String;
    const FORM: &'static str = "text, such as `\"https://acme-v02.api.letsencrypt.org/directory\"`";
    const ALLOWED: &'static str = "`https://`, a host, and a path, of at most 120 characters";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let wrong = |why: &str| Fault::new(format!("`{}` {why}", shortened(text))).allowed(self.allowed());
        let Some(rest) = text.strip_prefix("https://") else {
            return Err(wrong("is not the URL of a directory"));
        };
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        let is_url = !host.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_url || host.contains('@') {
            return Err(wrong("has no host, or a character that a URL cannot have"));
        }
        if text.len() > MAX_URL_BYTES {
            return Err(wrong("is too long"));
        }
        Ok(text.to_owned())
    }
}

pub(crate) struct MailAddress;

impl ValueKind for MailAddress {
    type Value = String;
    const FORM: &'static str = "text, such as `\"admin@example.org\"`";
    const ALLOWED: &'static str = "a mail address, without `mailto:`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let is_one = |(user, host): (&str, &str)| {
            let is_good = |byte: u8| byte.is_ascii_graphic() && !b",:;<>()@?\"\\".contains(&byte);
            !user.is_empty() && !host.is_empty() && user.bytes().chain(host.bytes()).all(is_good)
        };
        match text.rsplit_once('@').is_some_and(is_one) {
            true => Ok(text.to_owned()),
            false => {
                Err(Fault::new(format!("`{}` is not a mail address", shortened(text)))
                    .allowed(self.allowed()))
            }
        }
    }
}
