//! The forms of a rule about clients' names and keys.
//!
//! In: `dns:…`, `spiffe://…`, `uri:…`, `ip:…`, `email:…`, `cn:…`, `subject:…` or `pin:sha256/…`. Out: a [`Pattern`],
//! checked for each client.
//!
//! Two forms, `insecure-dns-or-cn:…` and `insecure-email-or-subject:…`, compare as OpenSSL does (`X509_check_host`,
//! `X509_check_email`): where a certificate has no alternative name of the kind, the subject counts. CAs check subjects less strictly,
//! and a name in the subject may be meant for something else (RFC 9525 §2). They are for converted configurations.

use std::net::IpAddr;

use super::{Identity, Name, RuleError};
use crate::names::is_for;
use crate::presented::Pin;
use crate::subject::{COMMON_NAME, EMAIL_ADDRESS};

/// Parts of a subject by the words that people and programs use (RFC 4519, RFC 4514 §3).
const ATTRIBUTES: &[(&str, &[u8])] = &[
    ("CN", COMMON_NAME),
    ("O", &[0x55, 4, 10]),
    ("OU", &[0x55, 4, 11]),
    ("C", &[0x55, 4, 6]),
    ("L", &[0x55, 4, 7]),
    ("ST", &[0x55, 4, 8]),
    ("S", &[0x55, 4, 8]),
    ("STREET", &[0x55, 4, 9]),
    ("SERIALNUMBER", &[0x55, 4, 5]),
    ("SN", &[0x55, 4, 4]),
    ("GN", &[0x55, 4, 42]),
    ("TITLE", &[0x55, 4, 12]),
    ("DC", &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25]),
    ("UID", &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1]),
    ("EMAILADDRESS", EMAIL_ADDRESS),
    ("EMAIL", EMAIL_ADDRESS),
    ("E", EMAIL_ADDRESS),
];

/// One part of a subject: its type and its value.
type Part = (&'static [u8], Box<str>);

/// Pattern of a rule for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    CommonName(Box<str>),
    /// The whole subject.
    Subject(Vec<Part>),
    /// A host name in lower case; `under`: exactly one label in front of it.
    Dns {
        name: Box<str>,
        under: bool,
    },
    Ip {
        network: IpAddr,
        bits: u8,
    },
    Uri(Box<str>),
    /// The same, of a certificate that is a SPIFFE document: it has one URI and no more.
    Spiffe(Box<str>),
    /// `None`: any in this domain, which is in lower case.
    Email {
        local: Option<Box<str>>,
        domain: Box<str>,
    },
    Pin(Pin),
    /// A host name in lower case, or after a dot the domain of any number of labels; or the common name.
    DnsOrCommonName(Box<str>),
    /// An address whose domain is in lower case; or the e-mail address of the subject.
    EmailOrSubject {
        local: Box<str>,
        domain: Box<str>,
    },
}

pub(super) fn parse(text: &str) -> Result<Pattern, RuleError> {
    let Some((kind, rest)) = text.split_once(':') else {
        return Err(RuleError::NoKind(text.into()));
    };
    if rest.is_empty() {
        return Err(RuleError::Empty(kind.into()));
    }
    match kind {
        "cn" => match rest.contains('*') {
            true => Err(RuleError::CommonNameWildcard),
            false => Ok(Pattern::CommonName(rest.into())),
        },
        "subject" => subject(rest).map(Pattern::Subject),
        "dns" => dns(rest),
        "ip" => ip(rest),
        "uri" => uri(rest).map(|()| Pattern::Uri(rest.into())),
        "spiffe" => spiffe(text),
        "email" => email(rest),
        "pin" => pin(rest).map(Pattern::Pin),
        "insecure-dns-or-cn" => dns_or_common_name(rest),
        "insecure-email-or-subject" => match email(rest)? {
            Pattern::Email { local: Some(local), domain } => Ok(Pattern::EmailOrSubject { local, domain }),
            _ => Err(RuleError::SubjectAddressWildcard),
        },
        _ => Err(RuleError::UnknownKind(kind.into())),
    }
}

fn dns(text: &str) -> Result<Pattern, RuleError> {
    let (under, name) = text.strip_prefix("*.").map_or((false, text), |rest| (true, rest));
    let is_label = |label: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(good)
    };
    if !name.split('.').all(is_label) {
        return Err(RuleError::HostName(text.into()));
    }
    Ok(Pattern::Dns { name: name.to_ascii_lowercase().into(), under })
}

/// As [`dns`], or `.example.org` for all below.
fn dns_or_common_name(text: &str) -> Result<Pattern, RuleError> {
    match dns(text.strip_prefix('.').unwrap_or(text))? {
        Pattern::Dns { under: false, .. } => Ok(Pattern::DnsOrCommonName(text.to_ascii_lowercase().into())),
        _ => Err(RuleError::ComparedWildcard),
    }
}

fn ip(text: &str) -> Result<Pattern, RuleError> {
    let wrong = || RuleError::Network(text.into());
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let network: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if network.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| wrong()))?;
    if bits > most {
        return Err(wrong());
    }
    if !is_in(network, network, bits) || number(network).trailing_zeros() < u32::from(most - bits) {
        return Err(RuleError::NetworkBits { text: text.into(), bits });
    }
    Ok(Pattern::Ip { network, bits })
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let most = if network.is_ipv4() { 32 } else { 128 };
    let beyond = u32::from(most - bits.min(most));
    let of = |address| number(address).checked_shr(beyond).unwrap_or(0);
    address.is_ipv4() == network.is_ipv4() && of(address) == of(network)
}

fn uri(text: &str) -> Result<(), RuleError> {
    let mut parts = text.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "*" => {}
            "**" if is_last => {}
            "**" => return Err(RuleError::DoubleStar),
            part if part.contains('*') => return Err(RuleError::PartialWildcard),
            _ => {}
        }
    }
    Ok(())
}

/// The SPIFFE-ID standard: a trust domain in lower case, and a path of parts that are neither empty, nor `.` or `..`.
fn spiffe(text: &str) -> Result<Pattern, RuleError> {
    let Some(rest) = text.strip_prefix("spiffe://") else {
        return Err(RuleError::SpiffeId(text.into()));
    };
    let domain = rest.split('/').next().unwrap_or_default();
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    if domain.is_empty() || !domain.bytes().all(good) {
        return Err(RuleError::TrustDomain(domain.into()));
    }
    if rest.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
        return Err(RuleError::SpiffePath);
    }
    uri(text)?;
    Ok(Pattern::Spiffe(text.into()))
}

fn email(text: &str) -> Result<Pattern, RuleError> {
    match text.rsplit_once('@') {
        Some((local, domain)) if !local.is_empty() && !domain.is_empty() && !domain.contains('*') => {
            let any = local == "*";
            if !any && local.contains('*') {
                return Err(RuleError::LocalPartWildcard);
            }
            let local = (!any).then(|| local.into());
            Ok(Pattern::Email { local, domain: domain.to_ascii_lowercase().into() })
        }
        _ => Err(RuleError::Address(text.into())),
    }
}

/// `CN=alice, O=Example`: parts divided by `,` or `+`, with a backslash before those that belong to a value.
fn subject(text: &str) -> Result<Vec<Part>, RuleError> {
    let mut parts = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let part = parts.last_mut().expect("there is one from the start");
        match letter {
            '\\' => part.extend(letters.next()),
            ',' | '+' => parts.push(String::new()),
            letter => part.push(letter),
        }
    }
    let read = |part: &String| {
        let wrong = || RuleError::SubjectPart(part.trim().into());
        let (word, value) = part.split_once('=').ok_or_else(wrong)?;
        let known = ATTRIBUTES.iter().find(|(known, _)| known.eq_ignore_ascii_case(word.trim()));
        let (_, kind) = known.ok_or_else(wrong)?;
        Ok((*kind, Box::from(value.trim())))
    };
    parts.iter().map(read).collect()
}

fn pin(text: &str) -> Result<Pin, RuleError> {
    text.parse().map_err(|expected| RuleError::Pin { text: text.into(), expected })
}

impl Pattern {
    /// Returns true if it matches this client.
    pub(super) fn fits(&self, client: &Identity<'_>) -> bool {
        let mut names = client.names.iter();
        match self {
            Self::CommonName(pattern) => client.subject_has(COMMON_NAME, |value| *value == **pattern),
            Self::Subject(pattern) => {
                // In the certificate's order, or from the last to the first as RFC 4514 writes it.
                let same = |((kind, value), (expected_kind, text)): ((&[u8], &str), &Part)| {
                    kind == *expected_kind && value == &**text
                };
                let parts = || client.subject.iter().map(|(kind, value)| (*kind, &**value));
                pattern.len() == client.subject.len()
                    && (parts().zip(pattern).all(same) || parts().rev().zip(pattern).all(same))
            }
            Self::Dns { name, under } => names.any(|one| match one {
                Name::Dns(one) => {
                    let one = one.strip_suffix('.').unwrap_or(one);
                    let rest = if *under { one.split_once('.').map(|(_, rest)| rest) } else { Some(one) };
                    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(name))
                }
                _ => false,
            }),
            Self::Ip { network, bits } => {
                names.any(|one| matches!(one, Name::Ip(address) if is_in(*address, *network, *bits)))
            }
            Self::Uri(pattern) => names.any(|one| matches!(one, Name::Uri(uri) if uri_fits(uri, pattern))),
            Self::Spiffe(pattern) => {
                let mut uris = names.filter_map(|one| match one {
                    Name::Uri(uri) => Some(*uri),
                    _ => None,
                });
                // The X509-SVID standard: exactly one, and validators must refuse more.
                let only = uris.next().filter(|_| uris.next().is_none());
                only.is_some_and(|uri| uri_fits(uri, pattern))
            }
            Self::Email { local, domain } => names.any(|one| match one {
                Name::Email(address) => email_fits(address, local.as_deref(), domain),
                _ => false,
            }),
            Self::Pin(pin) => *pin == client.pin,
            Self::DnsOrCommonName(pattern) => match client.has_dns {
                true => names.any(|one| matches!(one, Name::Dns(name) if host_fits(name, pattern))),
                false => client.subject_has(COMMON_NAME, |name| host_fits(name, pattern)),
            },
            Self::EmailOrSubject { local, domain } => {
                let fits = |address: &str| email_fits(address, Some(local), domain);
                match client.has_email {
                    true => names.any(|one| matches!(one, Name::Email(address) if fits(address))),
                    false => client.subject_has(EMAIL_ADDRESS, fits),
                }
            }
        }
    }
}

fn email_fits(address: &str, local: Option<&str>, domain: &str) -> bool {
    address.rsplit_once('@').is_some_and(|(own, at)| {
        !own.is_empty() && local.is_none_or(|local| local == own) && at.eq_ignore_ascii_case(domain)
    })
}

/// Returns true if a name of a certificate, which may be a wildcard, is for the wanted host, or below the wanted
/// domain.
fn host_fits(name: &str, pattern: &str) -> bool {
    match pattern.strip_prefix('.') {
        None => is_for(name, pattern),
        Some(_) => name.len() > pattern.len() && name.to_ascii_lowercase().ends_with(pattern),
    }
}

/// Part by part; `*` is for one part, `**` at the end for one or more. A wildcard is for no part that is empty, `.` or `..`.
fn uri_fits(uri: &str, pattern: &str) -> bool {
    let is_name = |part: &str| !matches!(part, "" | "." | "..");
    let mut parts = uri.split('/');
    for segment in pattern.split('/') {
        let Some(part) = parts.next() else { return false };
        match segment {
            "**" => return is_name(part) && parts.all(is_name),
            "*" if is_name(part) => {}
            "*" => return false,
            expected if expected == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}
