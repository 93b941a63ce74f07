//! Accepts clients by the contents of their certificates: rules by name and by key.
//!
//! In: rules as people write them (`dns:*.clients.example.org`); then a certificate that a trusted CA signed. Out: the
//! rule that accepted it, or a refusal that names the rule.
//!
//! Names are compared as they are in the certificate, byte by byte but for the case of host names. The work is bounded, since
//! the client chooses the number of names.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use crate::der::Der;
use crate::names::ip_address;
use crate::outline::{DNS, EMAIL, Outline};
use crate::presented::{Pin, Refusal};
use crate::subject::{COMMON_NAME, parts};
pub use error::{FORMS, RuleError};
use pattern::Pattern;

mod error;
mod pattern;

/// Comparisons of a name with a rule for one client: 1,000 rules and 200 names. One takes some 10 ns.
const COMPARISONS: usize = 200_000;
/// Number of a client's names that a refusal lists, and bytes of each.
const TOLD: (usize, usize) = (5, 128);

/// A rule, as it is written and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: Box<str>,
    pattern: Pattern,
}

impl Rule {
    /// Reads a rule.
    ///
    /// **Errors**: the fault, for the author of the rule.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        Ok(Self { text: text.into(), pattern: pattern::parse(text)? })
    }

    /// Returns true if it is about the key, and not about a name that the certificate contains.
    pub fn is_about_key(&self) -> bool {
        matches!(self.pattern, Pattern::Pin(_))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Rules that accept clients among those with good certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rules of which a client must match at least one, if there are any.
    pub allow: Vec<Rule>,
    /// Clients that match one of these are refused, whatever the other patterns are.
    pub refuse: Vec<Rule>,
}

/// One name of a certificate.
#[derive(Debug)]
enum Name<'a> {
    Dns(&'a str),
    Email(&'a str),
    Uri(&'a str),
    Ip(IpAddr),
}

/// Parts of a certificate that rules match.
struct Identity<'a> {
    names: Vec<Name<'a>>,
    /// True if it has DNS names (`has_email`: e-mail addresses), readable ones or not.
    has_dns: bool,
    has_email: bool,
    /// Type and value of each part of the subject, in the certificate's order.
    subject: Vec<(&'a [u8], Cow<'a, str>)>,
    pin: Pin,
}

impl Rules {
    /// Returns true if every client with a good certificate is accepted.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.refuse.is_empty()
    }

    /// Returns true if a certificate, in DER, is accepted. It must have been verified.
    ///
    /// **Cost**: reads it, in a few microseconds.
    pub fn admits(&self, certificate: &[u8]) -> bool {
        self.decide(certificate).is_ok()
    }

    /// The rule that lets a client with this certificate, in DER, in; `None` where none is needed. It must have been verified.
    ///
    /// **Errors**: it is refused, and by what rule. **Cost**: reads it, in a few microseconds.
    pub fn decide(&self, certificate: &[u8]) -> Result<Option<&Rule>, Refusal> {
        let own = Outline::read(certificate).ok_or(Refusal::Unreadable)?;
        if self.is_empty() {
            return Ok(None);
        }
        let identity = Identity::of(&own, self.allow.len() + self.refuse.len())?;
        if let Some(rule) = self.refuse.iter().find(|rule| rule.pattern.fits(&identity)) {
            return Err(Refusal::ByRule(rule.text.clone()));
        }
        match self.allow.iter().find(|rule| rule.pattern.fits(&identity)) {
            Some(rule) => Ok(Some(rule)),
            None if self.allow.is_empty() => Ok(None),
            None => Err(Refusal::NotAllowed(identity.to_string().into())),
        }
    }

    /// Feeds a hash that is the same for the same rules in whatever order.
    pub fn feed(&self, mut update: impl FnMut(&[u8])) {
        for (word, rules) in [("allow", &self.allow), ("refuse", &self.refuse)] {
            let mut texts: Vec<&str> = rules.iter().map(|rule| &*rule.text).collect();
            texts.sort_unstable();
            texts.dedup();
            for text in texts {
                update(word.as_bytes());
                update(&(text.len() as u64).to_be_bytes());
                update(text.as_bytes());
            }
        }
    }
}

impl<'a> Identity<'a> {
    fn of(own: &Outline<'a>, rules: usize) -> Result<Self, Refusal> {
        if own.names.saturating_mul(rules) > COMPARISONS {
            return Err(Refusal::TooManyNames { names: own.names });
        }
        let mut names = Vec::with_capacity(own.names);
        let mut left = Der(own.alternative_names);
        let (has_dns, has_email) = (own.has_names(DNS), own.has_names(EMAIL));
        while let Some((tag, content)) = left.next() {
            names.extend(name(tag, content));
        }
        Ok(Self { names, has_dns, has_email, subject: parts(own.subject), pin: Pin::of_outline(own) })
    }

    /// Returns true if the subject has a part of this kind that fits.
    fn subject_has(&self, kind: &[u8], fits: impl Fn(&str) -> bool) -> bool {
        self.subject.iter().any(|(own, value)| *own == kind && fits(value))
    }
}

/// RFC 5280 §4.2.1.6; names of other kinds have no rules, nor have those that are no text.
fn name(tag: u8, content: &[u8]) -> Option<Name<'_>> {
    let text = || std::str::from_utf8(content).ok();
    match tag {
        EMAIL => text().map(Name::Email),
        DNS => text().map(Name::Dns),
        0x86 => text().map(Name::Uri),
        0x87 => ip_address(content).map(Name::Ip),
        _ => None,
    }
}

impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, bytes) = TOLD;
        let cut = |text: &str| text[..text.floor_char_boundary(bytes)].to_owned();
        let common = self.subject.iter().filter(|(kind, _)| *kind == COMMON_NAME);
        let common = common.map(|(_, value)| format!("cn:{}", cut(value)));
        let others = self.names.iter().map(|name| match name {
            Name::Dns(name) => format!("dns:{}", cut(name)),
            Name::Email(name) => format!("email:{}", cut(name)),
            Name::Uri(name) if name.starts_with("spiffe://") => cut(name),
            Name::Uri(name) => format!("uri:{}", cut(name)),
            Name::Ip(address) => format!("ip:{address}"),
        });
        let all: Vec<String> = common.chain(others).collect();
        let listed = all.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(", ");
        f.write_str(if listed.is_empty() { "it has no names" } else { &listed })?;
        match all.len().saturating_sub(most) {
            0 => Ok(()),
            more => write!(f, " and {more} other names"),
        }
    }
}

#[cfg(test)]
mod tests;
