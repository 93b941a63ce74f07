//! One key in certificates of unrelated names, and two keys with a prime factor in common.
//!
//! In: all certificates of a configuration. Out: an error for each RSA key whose factor another one shares, and a warning for each
//! key that is in more than one family of names. An
//! attacker who gets the key of one then has that of the other, and their owners rarely know of each other.
//!
//! A family is what one certificate names, and every other certificate that names something of the same domain: the same last two
//! labels of a name, three where the second is one under which a country's registry gives names (`co.uk`, `com.au`); an address is
//! its own. This is no list of public suffixes, so two strangers under one may go unnoticed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use crate::certificate::Certificate;
use crate::finding::{Finding, Reason};
use crate::outline::Outline;
use crate::parsed::Parsed;
use crate::weak::shared_factors;

/// Second labels under which registries of countries give names.
const SECOND: [&str; 14] =
    ["ac", "co", "com", "edu", "go", "gob", "gov", "ltd", "mil", "ne", "net", "nom", "or", "org"];

/// A warning for each key that is shared by unrelated names.
///
/// **Cost**: a look at each certificate, about two microseconds.
pub fn shared_keys(certificates: &[Arc<Certificate>]) -> Vec<Finding> {
    let owners: Vec<KeyOwner<'_>> = certificates.iter().filter_map(KeyOwner::of_served).collect();
    shared_keys_of(&owners)
}

/// An error for each RSA key of `certificates` that has a factor in common with another one, unless all of them were compared
/// before; a note when they are too many to be compared.
///
/// **Cost**: as [`shared_factors`], which is a second for 1,000 keys.
pub fn shared_factors_of_all(certificates: &[Arc<Certificate>], before: &[Arc<Certificate>]) -> Vec<Finding> {
    let owners: Vec<KeyOwner<'_>> = certificates.iter().filter_map(KeyOwner::of_served).collect();
    let known: HashSet<&[u8]> =
        before.iter().filter_map(KeyOwner::of_served).map(|owner| owner.key).collect();
    if owners.iter().all(|owner| known.contains(owner.key)) {
        return Vec::new();
    }
    shared_factors_of(&owners).unwrap_or_else(|count| {
        let first = owners.first().map_or(Path::new(""), |owner| owner.file);
        let message = format!(
            "{count} different RSA keys are more than are compared with each other: whether two have a prime factor in common \
             is not known"
        );
        vec![Finding::note(Reason::WeakKey, first, message)]
    })
}

/// An error for each of these RSA keys that has a factor in common with another one.
///
/// **Errors**, **cost**: as [`shared_factors`].
pub(crate) fn shared_factors_of(owners: &[KeyOwner<'_>]) -> Result<Vec<Finding>, usize> {
    let infos: Vec<&[u8]> = owners.iter().map(|owner| owner.key).collect();
    let finding = |(one, other): (usize, usize)| {
        let (one, other) = (&owners[one], &owners[other]);
        let message = format!(
            "the RSA key of {} has a prime factor in common with that of {} in {}: both private keys can be computed from the \
             two certificates",
            named(other),
            named(one),
            one.file.display()
        );
        let hint = "make both keys again on a machine whose generator is good: handfast doctor tests it";
        Finding::error(Reason::WeakKey, other.file, message).hint(hint)
    };
    Ok(shared_factors(&infos)?.into_iter().map(finding).collect())
}

/// Properties of a certificate that identify the owner of its key.
pub(crate) struct KeyOwner<'a> {
    /// SubjectPublicKeyInfo in DER.
    key: &'a [u8],
    dns: &'a [Box<str>],
    ip: &'a [IpAddr],
    subject: &'a str,
    file: &'a Path,
}

impl<'a> KeyOwner<'a> {
    /// Of a certificate that can be served.
    fn of_served(certificate: &'a Arc<Certificate>) -> Option<Self> {
        Some(Self {
            key: Outline::read(&certificate.chain()[0])?.key_whole,
            dns: certificate.dns_names(),
            ip: certificate.ip_names(),
            subject: certificate.subject(),
            file: certificate.file(),
        })
    }

    /// Of a certificate in a file.
    pub(crate) fn of(parsed: &'a Parsed, file: &'a Path) -> Self {
        let Parsed { public_key, dns_names, ip_names, subject, .. } = parsed;
        Self { key: public_key, dns: dns_names, ip: ip_names, subject, file }
    }
}

/// As [`shared_keys`], for certificates that need not be served.
pub(crate) fn shared_keys_of(owners: &[KeyOwner<'_>]) -> Vec<Finding> {
    let mut by_key: HashMap<&[u8], Vec<&KeyOwner<'_>>> = HashMap::new();
    for owner in owners {
        by_key.entry(owner.key).or_default().push(owner);
    }
    let mut findings: Vec<Finding> =
        by_key.values().filter(|sharing| sharing.len() > 1).filter_map(|sharing| finding(sharing)).collect();
    findings.sort_by(|one, other| one.file.cmp(&other.file));
    findings
}

fn finding(sharing: &[&KeyOwner<'_>]) -> Option<Finding> {
    let families = families(sharing);
    let [first, second, others @ ..] = families.as_slice() else { return None };
    let more = match others.len() {
        0 => String::new(),
        count => format!(", and so have {count} more that are unrelated"),
    };
    let message = format!(
        "the certificate of {} has the same key as that of {} in {}{more}: an attacker with the key of one has that of the other",
        named(second),
        named(first),
        first.file.display(),
    );
    let finding = Finding::warning(Reason::SharedKey, second.file, message);
    Some(finding.hint("make a separate key for each: openssl genpkey, or let the renewal make a new one"))
}

/// The first certificate of each family.
fn families<'h, 'a>(sharing: &[&'h KeyOwner<'a>]) -> Vec<&'h KeyOwner<'a>> {
    let mut families: Vec<(&KeyOwner<'_>, BTreeSet<String>)> = Vec::new();
    for certificate in sharing {
        let mut domains = domains(certificate);
        // It may join what were two families so far.
        let (related, apart): (Vec<_>, Vec<_>) =
            families.into_iter().partition(|(_, known)| !known.is_disjoint(&domains));
        let first = related.first().map_or(*certificate, |(first, _)| *first);
        related.into_iter().for_each(|(_, known)| domains.extend(known));
        families = apart;
        families.push((first, domains));
    }
    families.into_iter().map(|(first, _)| first).collect()
}

fn domains(owner: &KeyOwner<'_>) -> BTreeSet<String> {
    let names = owner.dns.iter().map(|name| domain(name).to_owned());
    let names: BTreeSet<String> = names.chain(owner.ip.iter().map(ToString::to_string)).collect();
    if names.is_empty() { BTreeSet::from([owner.subject.to_owned()]) } else { names }
}

/// The end of a name that belongs to one owner.
fn domain(name: &str) -> &str {
    let mut labels = name.rmatch_indices('.').map(|(place, _)| place);
    let (Some(last), Some(second)) = (labels.next(), labels.next()) else { return name };
    let is_country = name.len() - last == 3;
    let end = if is_country && SECOND.contains(&&name[second + 1..last]) {
        labels.next().map_or(0, |third| third + 1)
    } else {
        second + 1
    };
    let domain = &name[end..];
    domain.strip_prefix("*.").unwrap_or(domain)
}

fn named<'a>(owner: &KeyOwner<'a>) -> &'a str {
    owner.dns.first().map_or(owner.subject, |name| name)
}

#[cfg(test)]
mod tests;
