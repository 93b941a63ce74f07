//! Reads `[service.client-certificates]`.

use std::path::PathBuf;

use handfast_pki::rules::{Rule, Rules};
use handfast_tls::client_certificates::{Demand, Lenience, Trust};

use super::site::check_others;
use crate::check;
use crate::keys;
use crate::kind::Site;
use crate::model::{Address, ClientCertificates, ClientChecks};
use crate::problem::Fault;
use crate::reading::{Written, values};
use crate::schema::Entry;
use crate::table::Table;

pub(super) fn client_certificates(
    section: &Table<'_>,
    listen: &[Written<Address>],
    site: Option<&Written<Site>>,
) -> Option<ClientCertificates> {
    let (mode, ca) = (section.required(&keys::CLIENT_MODE), section.optional(&keys::CLIENT_CA));
    let crl = section.list(&keys::CLIENT_CRL);
    let lenience = Lenience {
        accept_expired: section.or_default(&keys::CRL_EXPIRED),
        accept_missing: section.or_default(&keys::CRL_MISSING),
    };
    let allow = section.optional(&keys::CLIENT_ALLOW).unwrap_or_default();
    let refuse = section.optional(&keys::CLIENT_REFUSE).unwrap_or_default();
    let failed_to = section.optional(&keys::CLIENT_FALLBACK_BACKEND);
    let listed = failed_to.as_deref().unwrap_or_default();
    check::backends(section, &keys::CLIENT_FALLBACK_BACKEND, listen, listed);
    check_others(section, &keys::CLIENT_FALLBACK_BACKEND, site);
    contradictions(section, &allow, &refuse);
    if mode == Some(None) {
        return without_use(section).then_some(ClientCertificates::Off);
    }
    let trust = trust(section, ca, mode.is_some())?;
    if trust == Trust::Anything {
        names_without_proof(section, allow.iter().chain(&refuse));
    }
    let rules = Rules { allow: values(allow), refuse: values(refuse) };
    let failed_to = failed_to.map(|backends| values(backends).into());
    let checks = ClientChecks { trust, crl, lenience, rules, failed_to };
    section.reading().named().authorities.push(checks.clone());
    if checks.crl.is_empty() {
        for key in [&keys::CRL_EXPIRED as &dyn Entry, &keys::CRL_MISSING] {
            let what = format!("`{}` has no effect without `crl`", key.name);
            section.error(key, Fault::new(what).hint("add `crl`, or remove it"));
        }
    }
    let checks = Box::new(checks);
    Some(match mode?? {
        Demand::Request => ClientCertificates::Request(checks),
        Demand::Require => ClientCertificates::Require(checks),
    })
}

/// The certificates that are valid. Reports keys that exclude each other, and a section without any.
fn trust(section: &Table<'_>, ca: Option<PathBuf>, has_mode: bool) -> Option<Trust<PathBuf>> {
    let pinned = section.optional(&keys::CLIENT_PINNED);
    let anything = section.or_default(&keys::CLIENT_VERIFY);
    let given = [&keys::CLIENT_CA as &dyn Entry, &keys::CLIENT_PINNED]
        .into_iter()
        .chain(anything.then_some(&keys::CLIENT_VERIFY as &dyn Entry))
        .filter_map(|key| Some((key, section.written(key)?)))
        .collect::<Vec<_>>();
    let [(key, _)] = given.as_slice() else {
        match given.as_slice() {
            [(first, span), (second, _), ..] => {
                let fault = Fault::new(format!("`{}` and `{}` exclude each other", first.name, second.name));
                section.error(*second, fault.see(span.clone(), "here").hint("remove one of them"));
            }
            _ if has_mode => {
                let fault = Fault::new("client certificates are asked for, but no `ca` says whose are good").hint(
                    "add `ca = \"clients-ca.pem\"`, the authorities that sign your clients' certificates, or `pinned` with \
                     these certificates",
                );
                section.missing(fault);
            }
            _ => {}
        }
        return None;
    };
    if key.name != keys::CLIENT_CA.name && section.written(&keys::CLIENT_CRL).is_some() {
        let fault = Fault::new(format!("`crl` has no effect with `{}`", key.name));
        section.error(
            &keys::CLIENT_CRL,
            fault.hint("a revocation list is for certificates that an authority of `ca` signed"),
        );
    }
    match (ca, pinned) {
        (Some(ca), _) => Some(Trust::Authorities(ca)),
        (_, Some(pinned)) => Some(Trust::Certificates(pinned)),
        _ => anything.then_some(Trust::Anything),
    }
}

/// Reports rules about names, where any client can make a certificate with any name.
fn names_without_proof<'r>(section: &Table<'_>, rules: impl Iterator<Item = &'r Written<Rule>>) {
    for rule in rules.filter(|rule| !rule.value.is_about_key()) {
        let what = format!(
            "`{}` identifies no client: with `insecure-anything`, each can write any name into its certificate",
            rule.value
        );
        let hint = "name public keys (`pin:sha256/…`), or verify by `ca` or `pinned`";
        section.reading().error(&rule.span, Fault::new(what).hint(hint));
    }
}

/// Reports keys without effect where no certificates are requested; whether there is none.
fn without_use(section: &Table<'_>) -> bool {
    let mut is_good = true;
    for key in section.entries().filter(|key| key.name != keys::CLIENT_MODE.name) {
        if let Some(span) = section.written(key) {
            let name = key.name;
            let fault = Fault::new(format!("client certificates are off, so `{name}` has no effect"));
            section.reading().error(&span, fault.hint(format!("remove `{name}`, or set the mode")));
            is_good = false;
        }
    }
    is_good
}

/// Rules that others make useless.
fn contradictions(section: &Table<'_>, allow: &[Written<Rule>], refuse: &[Written<Rule>]) {
    for rule in allow {
        if let Some(same) = refuse.iter().find(|other| other.value == rule.value) {
            let fault = Fault::new("the same is refused, and `refuse` wins").see(same.span.clone(), "here");
            section.reading().error(&rule.span, fault.hint("remove one of them"));
        }
    }
}
