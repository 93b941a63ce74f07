//! `[acme]`, from the section to the model, and what contradicts it in services.

use std::path::PathBuf;

use crate::check::no_effect;
use crate::keys;
use crate::model::acme::{LETS_ENCRYPT, LETS_ENCRYPT_NAME, LETS_ENCRYPT_STAGING};
use crate::model::{Acme, AcmeChallenge, AcmeIssuer, CertificateEntry, RequestRoute, ServiceRule, Tls};
use crate::problem::Fault;
use crate::reading::{Written, values};
use crate::route_table::ANY_NAME;
use crate::schema::Entry;
use crate::table::Table;

/// Reads the section; the inner `None`: it is not there.
pub(super) fn acme(root: &Table<'_>) -> Option<Option<Acme>> {
    let section = root.inner(&keys::ACME);
    if root.span_of(&keys::ACME).is_none() {
        return Some(None);
    }
    accepted(&section);
    let folder = section.required(&keys::ACME_FOLDER);
    let first = issuer(&section, Some(section.or_default(&keys::DIRECTORY)));
    let fallbacks = section.inner_list(&keys::ACME_FALLBACK);
    let further: Vec<Option<AcmeIssuer>> = fallbacks
        .iter()
        .map(|section| issuer(section, section.required(&keys::FALLBACK_DIRECTORY)))
        .collect();
    let issuers: Option<Vec<AcmeIssuer>> = std::iter::once(first).chain(further).collect();
    twice(&fallbacks, issuers.as_deref().unwrap_or_default());
    let challenges = section.optional(&keys::CHALLENGES).map(values);
    if challenges.iter().flatten().any(|challenge| *challenge == AcmeChallenge::DnsPersist01) {
        named(&section, &fallbacks, issuers.as_deref().unwrap_or_default());
    }
    let uses_command = challenges.iter().flatten().any(|challenge| *challenge == AcmeChallenge::Dns01);
    let dns_command = section.optional(&keys::DNS_COMMAND);
    if !uses_command {
        no_effect(&section, [&keys::DNS_COMMAND as &dyn Entry], "`dns-01` is not in `challenges`");
    } else if section.written(&keys::DNS_COMMAND).is_none() {
        let fault = Fault::new("`dns-01` needs `dns-command`: a program that sets the record of each order");
        section.error(
            &keys::CHALLENGES,
            fault.hint("add `dns-command`, or use `dns-persist-01`, whose record you set once"),
        );
    }
    Some(Some(Acme {
        folder: folder?,
        key_folder: section.optional(&keys::KEY_FOLDER),
        dns_command,
        issuers: issuers?,
        contact: section.list(&keys::CONTACT),
        challenges: challenges.unwrap_or_else(|| vec![AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01]),
    }))
}

fn accepted(section: &Table<'_>) {
    if section.or_default(&keys::ACCEPT_TERMS) {
        return;
    }
    let fault = Fault::new("certificates are ordered only if you accept the terms of service of the issuer")
        .hint("read them at the issuer, and write `accept-terms-of-service = true`");
    match section.written(&keys::ACCEPT_TERMS) {
        Some(_) => section.error(&keys::ACCEPT_TERMS, fault),
        None => section.missing(fault),
    }
}

fn issuer(section: &Table<'_>, directory: Option<String>) -> Option<AcmeIssuer> {
    let staging = section.optional(&keys::STAGING);
    let is_lets_encrypt = directory.as_deref() == Some(LETS_ENCRYPT);
    let staging = staging.or_else(|| is_lets_encrypt.then(|| LETS_ENCRYPT_STAGING.to_owned()));
    let id = section.optional(&keys::EAB_ID);
    let key_file = section.optional(&keys::EAB_KEY);
    let needs = |key: &dyn Entry, other: &str| {
        let fault = Fault::new(format!("`{}` needs `{other}`: an account has both", key.name));
        section.error(key, fault.hint(format!("add `{other}`, or remove `{}`", key.name)));
    };
    let is_missing = |key: &dyn Entry| section.written(key).is_none();
    if id.is_some() && is_missing(&keys::EAB_KEY) {
        needs(&keys::EAB_ID, keys::EAB_KEY.name);
    }
    if key_file.is_some() && is_missing(&keys::EAB_ID) {
        needs(&keys::EAB_KEY, keys::EAB_ID.name);
    }
    Some(AcmeIssuer {
        directory: directory?,
        staging,
        dns_name: section
            .optional(&keys::ISSUER_NAME)
            .or_else(|| is_lets_encrypt.then(|| LETS_ENCRYPT_NAME.to_owned())),
        ca: section.optional(&keys::ACME_CA),
        profile: section.optional(&keys::PROFILE),
        external: id.zip(key_file),
    })
}

/// Reports issuers whose own name is not known: a record of dns-persist-01 begins with it.
fn named(section: &Table<'_>, fallbacks: &[Table<'_>], issuers: &[AcmeIssuer]) {
    let sections = std::iter::once(section).chain(fallbacks);
    for (section, _) in sections.zip(issuers).filter(|(_, issuer)| issuer.dns_name.is_none()) {
        let fault = Fault::new(
            "`dns-persist-01` needs `issuer-name`: the record in DNS begins with the name of the issuer",
        );
        let hint = "the issuer publishes it as `issuer-domain-names` of the challenge, and for CAA records";
        section.reading().error(section.span(), fault.hint(hint));
    }
}

/// Reports an issuer that is written twice: a further try there is no fallback.
fn twice(fallbacks: &[Table<'_>], issuers: &[AcmeIssuer]) {
    for (at, section) in fallbacks.iter().enumerate() {
        let Some(issuer) = issuers.get(at + 1) else { continue };
        if issuers[..=at].iter().any(|earlier| earlier.directory == issuer.directory) {
            let fault = Fault::new("this issuer is asked already, before this one");
            section
                .error(&keys::FALLBACK_DIRECTORY, fault.hint("name another issuer, or remove the section"));
        }
    }
}

/// The names that certificates are ordered for, if `certificate = "acme"` is written: those of `acme-names`, of rules whose TLS ends here,
/// and of routes.
pub(super) fn order(
    service: &Table<'_>,
    acme: Option<&Option<Acme>>,
    (rules, routes): (&[ServiceRule], Option<&[RequestRoute]>),
    tls: &mut Option<Option<Tls>>,
) {
    let mut certificates = tls.iter_mut().flatten().flat_map(|tls| &mut tls.certificates);
    let own = service.optional(&keys::ACME_NAMES);
    let Some(CertificateEntry::Acme { folder, key_folder, names }) =
        certificates.find(|entry| matches!(entry, CertificateEntry::Acme { .. }))
    else {
        let why = "no certificate is ordered, see `certificate = \"acme\"`";
        return no_effect(service, [&keys::ACME_NAMES as &dyn Entry], why);
    };
    match acme {
        // Its problems are reported there.
        None => return,
        Some(None) => {
            let fault = Fault::new("`certificate = \"acme\"` needs [acme]")
                .hint("write [acme] with `folder` and `accept-terms-of-service = true`");
            return service.error(&keys::CERTIFICATE, fault);
        }
        Some(Some(acme)) => {
            *folder = acme.certificates();
            *key_folder = acme.key_folder.clone();
        }
    }
    let ends_here = |rule: &&ServiceRule| rule.pass_through != Some(true);
    let bare = |host: &String| host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let of_rules = rules.iter().filter(ends_here).flat_map(|rule| rule.names.iter().cloned());
    let of_rules = of_rules.filter(|name| name != ANY_NAME);
    let of_routes = routes.unwrap_or_default().iter().flat_map(|route| route.hosts.iter().map(bare));
    let of_service = own.iter().flatten().map(|name| name.value.clone());
    let all: Vec<String> = of_service.chain(of_rules).chain(of_routes).collect();
    *names = needed(&all);
    if names.is_empty() {
        let fault = Fault::new("certificates are to be ordered, and no name is configured")
            .hint("write `acme-names = \"www.example.org\"`, or rules or routes with names");
        service.error(&keys::CERTIFICATE, fault);
    }
    if let Some(Some(acme)) = acme {
        provable(service, own.as_deref().unwrap_or_default(), names, &acme.challenges);
    }
}

/// Each name once, and none that a wildcard among them covers.
fn needed(all: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        let is_covered = name.split_once('.').is_some_and(|(label, parent)| {
            label != "*" && name.parse::<std::net::IpAddr>().is_err() && all.contains(&format!("*.{parent}"))
        });
        if !is_covered && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Reports names that no challenge fits.
fn provable(
    service: &Table<'_>,
    written: &[Written<String>],
    names: &[String],
    challenges: &[AcmeChallenge],
) {
    let by_dns = challenges.iter().any(|challenge| challenge.is_dns());
    let only_dns = challenges.iter().all(|challenge| challenge.is_dns());
    for name in names {
        let what = if name.starts_with("*.") && !by_dns {
            format!("a certificate for `{name}` can be ordered only with a record in DNS (RFC 8555 §7.1.3)")
        } else if only_dns && name.parse::<std::net::IpAddr>().is_ok() {
            format!("a certificate for the address `{name}` cannot be ordered by a record in DNS (RFC 8738)")
        } else {
            continue;
        };
        let hint = match only_dns {
            true => "add `tls-alpn-01` or `http-01` to `challenges` in [acme]",
            false => "add `dns-persist-01` to `challenges` in [acme], or write the names one by one",
        };
        let fault = Fault::new(what).hint(hint);
        match written.iter().find(|known| known.value == *name) {
            Some(known) => service.reading().error(&known.span, fault),
            None => service.error(&keys::CERTIFICATE, fault),
        }
    }
}

/// Reports that the section orders nothing.
pub(super) fn check_use(root: &Table<'_>, is_used: bool) {
    if !is_used && let Some(span) = root.span_of(&keys::ACME) {
        let fault = Fault::new("`acme` has no effect: no service has `certificate = \"acme\"`");
        root.reading().error(&span, fault.hint("write that in a service, or remove [acme]"));
    }
}

/// Reports where keys are made, if that contradicts `private-keys`.
pub(super) fn check_keys(root: &Table<'_>, acme: Option<&Acme>, keys_apart: bool) {
    let section = root.inner(&keys::ACME);
    let Some(acme) = acme else { return };
    match &acme.key_folder {
        None if keys_apart => section.missing(
            Fault::new("`private-keys = \"separate-process\"` needs `key-folder`: the key process keeps the keys of ordered certificates there")
                .hint("write `key-folder = \"/var/lib/handfast-keys\"`, or `private-keys = \"in-process\"`"),
        ),
        Some(_) if !keys_apart => {
            no_effect(&section, [&keys::KEY_FOLDER as &dyn Entry], "`private-keys` is not \"separate-process\"");
        }
        // The sandbox of the process that serves opens the one, with all below it, and not the other.
        Some(keys) if keys.starts_with(&acme.folder) || acme.folder.starts_with(keys) => section.error(
            &keys::KEY_FOLDER,
            Fault::new("`key-folder` and `folder` are one in the other, and the process that serves can write in `folder`")
                .hint("name a folder beside it"),
        ),
        _ => {}
    }
}

/// Returns true if any of these is ordered from an issuer.
pub(super) fn is_ordered(certificates: &[CertificateEntry]) -> bool {
    certificates.iter().any(|entry| matches!(entry, CertificateEntry::Acme { .. }))
}

/// As written: the folder and the names are not known yet.
pub(crate) fn entry() -> CertificateEntry {
    CertificateEntry::Acme { folder: PathBuf::new(), key_folder: None, names: Vec::new() }
}
