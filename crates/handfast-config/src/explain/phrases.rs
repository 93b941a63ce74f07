//! Parts of sentences about a configuration: addresses, backends, policies, certificates.

use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};

use handfast_pki::rules::Rule;
use handfast_text::calendar::Utc;
use handfast_text::duration;
use handfast_text::units::counted;
use handfast_tls::client_certificates::{Demand, Trust};

use crate::model::{
    Address, Backend, BackendAlpn, BackendRevocation, BackendTls, BackendVerification, Balance,
    ClientCertificates, ClientChecks, OnlyClient, Policy, Service, Target,
};
use crate::policy::is_default;

/// Facts about one loaded certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFact {
    /// Name of the service that serves it.
    pub service: String,
    /// The names it is good for.
    pub names: Vec<String>,
    /// Its kind of key: `RSA-2048`, `ECDSA-P256`, ….
    pub kind: String,
    /// Days until it expires; negative after that.
    pub expires_in_days: i64,
    /// Expiry time of its OCSP response, Unix seconds; `None`: none is stapled.
    pub staple_until: Option<i64>,
    /// The file it is from.
    pub file: std::path::PathBuf,
    /// True if it is valid for the requested name, or if no name was requested.
    pub is_for_the_name: bool,
}

pub(super) fn place(address: &Address) -> String {
    match address {
        Address::Ip(address) if address.ip().is_unspecified() && address.is_ipv6() => {
            format!("port {} of every address, IPv6 and IPv4", address.port())
        }
        Address::Ip(address) if address.ip().is_unspecified() => {
            format!("port {} of every IPv4 address", address.port())
        }
        Address::Ip(address) => address.to_string(),
        Address::Unix(path) => unix(path),
    }
}

pub(super) fn unix(path: &Path) -> String {
    format!("the unix socket {}", path.display())
}

/// Items as people write them: "a, b and c".
pub(super) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

pub(super) fn backends(backends: &[Backend], balance: Balance) -> String {
    let how = match (backends.len(), balance) {
        (0 | 1, _) => "",
        (_, Balance::RoundRobin) => ", one after the other",
        (_, Balance::LeastConnections) => ", to the one with the fewest connections",
        (_, Balance::TwoChoices) => ", to the one of two random backends that has fewer connections",
        (_, Balance::SourceHash) => ", to the same one for the same client address",
    };
    format!("{}{how}", list(backends.iter().map(backend)))
}

/// Describes the origin of a service's clients: its listeners, or its only client.
pub(super) fn clients_at(service: &Service) -> String {
    match &service.only_client {
        None => format!("listens on {}", list(service.listen.iter().map(place))),
        Some(OnlyClient::Stdin) => "serves who is at standard input, and then ends".to_owned(),
        Some(OnlyClient::Program { program, again: None }) => {
            format!("serves the program {program}, which it starts")
        }
        Some(OnlyClient::Program { program, again: Some(delay) }) => {
            let delay = duration::written(*delay);
            format!("serves the program {program}, which it starts, and again {delay} after its end")
        }
    }
}

pub(super) fn backend(backend: &Backend) -> String {
    let Backend { weight, backup, .. } = backend;
    let target = target(&backend.target);
    match (weight, backup) {
        (0, _) => format!("{target} (weight 0: no new connections)"),
        (1, false) => target,
        (1, true) => format!("{target} (while no other one is up)"),
        (_, false) => format!("{target} (weight {weight})"),
        (_, true) => format!("{target} (weight {weight}, while no other one is up)"),
    }
}

pub(super) fn target(target: &Target) -> String {
    match target {
        Target::BuiltIn => "the built-in backend, which answers HTTP and echoes anything else".to_owned(),
        Target::Address(address) => place(address),
        Target::Program(program) => format!("the program {program}, started for each connection"),
        Target::Name(name, port) => format!("{name}:{port}"),
    }
}

pub(super) fn backend_tls(tls: &BackendTls) -> String {
    let required_certificate = match (&tls.name, &tls.ca) {
        (Some(name), Some(ca)) => format!("a certificate for {name} that {} makes good", ca.display()),
        (Some(name), None) => format!("a certificate for {name} that this machine trusts"),
        (None, Some(ca)) => format!("a certificate for their name that {} makes good", ca.display()),
        (None, None) => "a certificate for their name that this machine trusts".to_owned(),
    };
    let pins = if tls.pins.is_empty() { "" } else { " and with a pinned key" };
    let demand = match tls.verify {
        BackendVerification::Full => format!("asks them for {required_certificate}{pins}"),
        BackendVerification::Pins => "asks them for a pinned key, and nothing else".to_owned(),
        BackendVerification::CommonName => {
            format!(
                "asks them for {required_certificate}, BY ITS COMMON NAME if it has no alternative names{pins}"
            )
        }
        BackendVerification::AnyName => {
            format!("asks them for {required_certificate}, WHATEVER ITS NAME{pins}")
        }
        BackendVerification::Nothing => "does NOT verify their certificates".to_owned(),
    };
    let how = policy(&tls.policy);
    let begins = match &tls.starttls {
        None => format!("speaks TLS with them by {how}"),
        Some(starttls) => {
            format!("asks them for TLS in {} (STARTTLS), and speaks it by {how}", starttls.protocol)
        }
    };
    let mut parts = vec![begins, demand];
    parts.extend(tls.identity.as_ref().map(|(file, _)| format!("shows them {}", file.display())));
    match &tls.alpn {
        BackendAlpn::Own(protocols) if protocols.is_empty() => {}
        BackendAlpn::Own(protocols) => {
            parts.push(format!("offers the application protocols {}", list(protocols)));
        }
        BackendAlpn::Client => parts.push("offers the application protocol of the client".to_owned()),
    }
    parts.extend(match tls.revocation {
        BackendRevocation::Off => None,
        BackendRevocation::Stapled => {
            Some("refuses a certificate whose OCSP response says that it is revoked".to_owned())
        }
        BackendRevocation::StapleRequired => {
            Some("asks for an OCSP response that says that it is not revoked".to_owned())
        }
    });
    if !tls.resumption {
        parts.push("resumes no sessions".to_owned());
    }
    parts.join("; it ")
}

pub(super) fn certificate_fact(fact: &CertificateFact) -> String {
    let expiry = match fact.expires_in_days {
        days if days < 0 => format!("EXPIRED {} ago", counted(days.unsigned_abs(), "day")),
        days => format!("good for {}", counted(days.unsigned_abs(), "more day")),
    };
    let names = if fact.names.is_empty() { "no names".to_owned() } else { list(&fact.names) };
    let staple = fact
        .staple_until
        .map(|until| format!(", OCSP response stapled until {}", Utc::of_seconds(until).for_people()));
    let staple = staple.unwrap_or_default();
    format!("{names} ({}, {expiry}, {}{staple})", fact.kind, fact.file.display())
}

pub(super) fn policy(policy: &Policy) -> String {
    let mut text = format!("policy {}", policy.base);
    if is_default(policy) {
        text.push_str(" (the default)");
    }
    for (what, names) in
        [("versions", &policy.versions), ("suites", &policy.suites), ("groups", &policy.groups)]
    {
        if let Some(names) = names {
            let _ = write!(text, ", but only the {what} {}", list(names));
        }
    }
    text
}

pub(super) fn protocols(alpn: &[String]) -> String {
    match alpn {
        [] => "does not answer what application protocols a client offers (ALPN)".to_owned(),
        protocols => format!("agrees on the application protocols {}, in this order", list(protocols)),
    }
}

/// Prefixes that are named in a sentence; a list of thousands is not for reading.
const NAMED: usize = 8;

pub(super) fn addresses(items: &[impl ToString], files: &[PathBuf]) -> String {
    let named = items.iter().take(NAMED).map(ToString::to_string);
    let more = items.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    let files = files.iter().map(|file| format!("those in {}", file.display()));
    list(named.chain(more).chain(files))
}

/// Describes the client certificates that a service accepts: a sentence for each requirement.
pub(super) fn client_certificates(rule: &ClientCertificates) -> Vec<String> {
    let Some((demand, checks)) = rule.checks() else { return vec!["lets every client in".to_owned()] };
    let which = match &checks.trust {
        Trust::Authorities(file) => format!("signed by {}", file.display()),
        Trust::Certificates(file) => format!("that is in {}", file.display()),
        Trust::Anything => "by any issuer".to_owned(),
    };
    let requirement = match demand {
        Demand::Request => format!("lets in clients without a certificate, and those with one {which}"),
        Demand::Require => format!("lets in only clients with a certificate {which}"),
    };
    let mut sentences = vec![requirement];
    sentences.extend(revocation(checks));
    if !checks.rules.refuse.is_empty() {
        sentences.push(format!("refuses clients with {}", rules(&checks.rules.refuse)));
    }
    if !checks.rules.allow.is_empty() {
        sentences.push(format!(
            "lets in, of clients with a certificate, only those with {}",
            rules(&checks.rules.allow)
        ));
    }
    if let Some(backends) = &checks.failed_to {
        let backends = list(backends.iter().map(backend));
        sentences.push(format!(
            "serves clients whose certificate fails from {backends}, instead of refusing them"
        ));
    }
    sentences
}

fn revocation(checks: &ClientChecks) -> Option<String> {
    let lenience = match (checks.lenience.accept_expired, checks.lenience.accept_missing) {
        (false, false) => ", and those whose CA has no list, or an expired one",
        (false, true) => ", and those whose CA has an expired list",
        (true, false) => ", and those whose CA has no list",
        (true, true) => "",
    };
    let places = list(checks.crl.iter().map(|path| path.display()));
    (!checks.crl.is_empty())
        .then(|| format!("refuses certificates that the revocation lists of {places} name{lenience}"))
}

fn rules(rules: &[Rule]) -> String {
    rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(" or ")
}
