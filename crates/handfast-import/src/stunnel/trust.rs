//! Verification of the peer: `verify*`, `check*`, CAfile and lists.

use std::net::IpAddr;

use handfast_pki::Pin;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::grammar::Setting;
use super::translation::{Translation, approximate, refuse};
use crate::address::Address;
use crate::draft::Draft;
use crate::note::{Fate, Notes};
use crate::toml::list;

/// The requirements for the peer's certificate.
#[derive(Clone, Copy, Debug)]
struct PeerRequirements<'t> {
    /// The option that requires it.
    by: &'t Setting,
    /// It has to be there; a chain to a root; itself in the file.
    required: bool,
    chain: bool,
    itself: bool,
}

pub(super) fn peers(translation: &Translation<'_>, draft: &mut Draft, notes: &mut Notes) {
    let requirements = peer_requirements(translation, notes);
    if translation.is_client() {
        draft.put("", "client-tls", false);
        backend(translation, requirements, draft, notes);
    } else if let Some(requirements) = requirements {
        clients(translation, requirements, draft, notes);
    } else if let Some(setting) = translation.given.get("redirect") {
        refuse(notes, setting, "without verification no client fails: it needs verifyChain or verifyPeer");
    }
}

fn peer_requirements<'t>(translation: &Translation<'t>, notes: &mut Notes) -> Option<PeerRequirements<'t>> {
    let given = translation.given;
    let found = ["verifychain", "verifypeer"].map(|key| given.get(key).filter(|setting| setting.is_yes()));
    if let Some(by) = found[0].or(found[1]) {
        return Some(PeerRequirements {
            by,
            required: true,
            chain: found[0].is_some(),
            itself: found[1].is_some(),
        });
    }
    if let Some(by) = given.get("verify") {
        let (required, chain, itself) = match by.value.as_str() {
            "0" => return None,
            "1" => (false, true, false),
            "2" => (true, true, false),
            "3" => (true, true, true),
            "4" => (true, false, true),
            _ => {
                refuse(notes, by, "expected a level from 0 to 4");
                return None;
            }
        };
        return Some(PeerRequirements { by, required, chain, itself });
    }
    let by = given.get("requirecert").filter(|setting| setting.is_yes())?;
    Some(PeerRequirements { by, required: true, chain: false, itself: false })
}

/// The public keys of a file's certificates, as pins.
fn pins(translation: &Translation<'_>, file: &Setting, notes: &mut Notes) -> Vec<String> {
    let path = translation.path(file);
    let certificates = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let pins =
        certificates.map(|all| all.iter().filter_map(Pin::of).map(|pin| pin.to_string()).collect::<Vec<_>>());
    match pins {
        Ok(pins) if !pins.is_empty() => {
            let by =
                ["verifypeer", "verify"].iter().find_map(|key| translation.given.get(key)).unwrap_or(file);
            notes.add(&by.place, &by.name, Fate::Approximated, PINNED_KEYS);
            pins
        }
        Ok(_) => {
            refuse(notes, file, "the file has no certificate whose key could be pinned");
            Vec::new()
        }
        Err(error) => {
            let why = handfast_pki::pem::fault(&error);
            refuse(notes, file, format!("the keys that are to be pinned cannot be read: {why}"));
            Vec::new()
        }
    }
}

/// The note about pinned certificates: stunnel compares the whole certificate.
const PINNED_KEYS: &str = "the public keys of the file are pinned, not its certificates: a certificate that is renewed with its key stays good";
/// The note about verifyChain, which checks stapled responses without any option since stunnel 5.71.
const STAPLES_COUNT: &str = "an OCSP response that the backend sends (stapling) counts, as in stunnel since 5.71; one that cannot be verified \
                             refuses the backend here, and is ignored there";
/// The note about clients with any certificate, which are accepted as in stunnel.
const ANY_CERTIFICATE: &str = "as before, any certificate lets a client in, by any issuer: to verify it, set verifyChain = yes and CAfile there, \
                               or `ca` here";

fn clients(
    translation: &Translation<'_>,
    requirements: PeerRequirements<'_>,
    draft: &mut Draft,
    notes: &mut Notes,
) {
    let (given, section) = (translation.given, "client-certificates");
    draft.put(section, "mode", if requirements.required { "require" } else { "request" });
    match (given.get("cafile"), requirements) {
        (_, PeerRequirements { chain: false, itself: false, by, .. }) => {
            draft.put(section, "verify", "insecure-anything");
            notes.add(&by.place, &by.name, Fate::Same, ANY_CERTIFICATE);
        }
        (None, _) => {
            refuse(notes, requirements.by, "the trusted authorities are missing: it needs CAfile");
            return;
        }
        (Some(file), PeerRequirements { chain: false, .. }) => {
            draft.put(section, "pinned", translation.path(file))
        }
        (Some(file), _) => draft.put(section, "ca", translation.path(file)),
    }
    let words =
        [("checkhost", "insecure-dns-or-cn"), ("checkip", "ip"), ("checkemail", "insecure-email-or-subject")];
    for (key, word) in words {
        // Where nothing is verified, stunnel compares no name either.
        for setting in given.all(key).filter(|_| requirements.chain || requirements.itself) {
            draft.of(section).append("allow", format!("{word}:{}", setting.value));
        }
    }
    if let (true, true, Some(file)) = (requirements.itself, requirements.chain, given.get("cafile")) {
        if draft.of(section).has("allow") {
            refuse(
                notes,
                requirements.by,
                "a name and a certificate cannot both be required: either of them admits a client",
            );
        }
        for pin in pins(translation, file, notes) {
            draft.of(section).append("allow", format!("pin:{pin}"));
        }
    }
    if let Some(setting) = ocsp(translation) {
        refuse(notes, setting, "whether a client's certificate is revoked is checked against lists: CRLfile");
    }
    for key in ["crlfile", "crlpath"] {
        if let Some(setting) = given.get(key) {
            if !requirements.chain {
                refuse(notes, setting, "a certificate that is pinned is revoked by taking it out of CAfile");
                continue;
            }
            let folder = if key == "crlpath" { "/" } else { "" };
            draft.of(section).append("crl", format!("{}{folder}", translation.path(setting)));
        }
    }
    if let Some(setting) = given.get("redirect") {
        match Address::parse(&setting.value) {
            Some(Address::Tcp(_, 0)) => {
                approximate(notes, setting, "nothing can be reached on port 0: such clients are refused");
            }
            Some(address) => draft.of(section).append("fallback-backend", address.backend("localhost")),
            None => refuse(notes, setting, "expected a host and a port"),
        }
    }
}

/// The option that requests OCSP.
fn ocsp<'t>(translation: &Translation<'t>) -> Option<&'t Setting> {
    let given = translation.given;
    given.get("ocsp").or_else(|| given.get("ocspaia").filter(|setting| setting.is_yes()))
}

/// Returns the name that stunnel sends to all backends of a service without `sni`, where Handfast would send a different one to each: the host
/// of the first `connect`.
fn shared_server_name(translation: &Translation<'_>, notes: &mut Notes) -> Option<String> {
    let hosts = translation.given.all("connect").filter_map(|setting| {
        let Address::Tcp(host, _) = Address::parse(&setting.value)? else { return None };
        Some((setting, host.unwrap_or_else(|| "localhost".into())))
    });
    let hosts: Vec<_> = hosts.collect();
    let (first, name) = hosts.first()?;
    let is_address = |host: &str| host.parse::<IpAddr>().is_ok();
    if hosts.iter().all(|(_, host)| host == name || is_address(host) && is_address(name)) {
        return None;
    }
    if is_address(name) {
        let effect = "stunnel sends this address as the server's name to all backends, and each receives its own name here";
        approximate(notes, first, effect);
        return None;
    }
    Some(name.clone())
}

fn backend(
    translation: &Translation<'_>,
    requirements: Option<PeerRequirements<'_>>,
    draft: &mut Draft,
    notes: &mut Notes,
) {
    let (given, section) = (translation.given, "backend-tls");
    if let Some(setting) = given.all("sni").last() {
        draft.put(section, "server-name", if setting.value.is_empty() { "none" } else { &setting.value });
    } else if let Some(name) = shared_server_name(translation, notes) {
        draft.put(section, "server-name", name);
    }
    for key in ["crlfile", "crlpath", "checkemail"] {
        if let Some(setting) = given.get(key).filter(|_| requirements.is_some()) {
            refuse(notes, setting, "of backends this is not checked");
        }
    }
    let Some(requirements) = requirements.filter(|requirements| requirements.required) else {
        draft.put(section, "verify", "insecure-nothing");
        let effect = "as before, nothing is verified: an attacker on the network path can read and change everything. \
                      To verify, set verifyChain = yes, CAfile and checkHost there, or remove verify from backend-tls here";
        notes.add(&translation.service.place, &translation.service.name, Fate::Same, effect);
        return;
    };
    let names: Vec<_> = given.all("checkhost").chain(given.all("checkip")).collect();
    match names.as_slice() {
        [] => {}
        [name] => draft.put(section, "name", name.value.as_str()),
        [_, second, ..] => refuse(notes, second, "one name is checked, not one of several"),
    }
    let file = given.get("cafile");
    if let (true, Some(file)) = (requirements.itself, file) {
        draft.put(section, "pins", list(pins(translation, file, notes)));
    }
    match (requirements.chain, file) {
        (true, Some(file)) => draft.put(section, "ca", translation.path(file)),
        (_, None) if given.get("capath").is_none() => {
            refuse(notes, requirements.by, "the trusted authorities are missing: it needs CAfile");
        }
        _ => {}
    }
    match (ocsp(translation), requirements.chain) {
        (Some(setting), false) => {
            refuse(notes, setting, "a pinned key is revoked by taking it out of CAfile")
        }
        (None, false) => {}
        (Some(_), true) => {
            // stunnel queries a responder, so most of its backends send no response.
            let is_required = given.get("ocsprequire").is_some_and(Setting::is_yes);
            draft.put(section, "revocation", if is_required { "staple-required" } else { "stapled" });
        }
        (None, true) => {
            draft.put(section, "revocation", "stapled");
            notes.add(&requirements.by.place, &requirements.by.name, Fate::Same, STAPLES_COUNT);
        }
    }
    match (requirements.chain, names.is_empty()) {
        (false, _) => draft.put(section, "verify", "pins"),
        (true, false) => {
            // An address is never compared with a common name, unless it is given as a host. Public CAs, of which the machine's list
            // is made, sign no certificate without alternative names.
            if given.get("checkhost").is_some() && file.is_some() {
                draft.put(section, "verify", "insecure-common-name");
            }
        }
        (true, true) => {
            draft.put(section, "verify", "insecure-any-name");
            let effect = "as before, a certificate for any name is accepted: to check the name, set checkHost there, or name here";
            notes.add(&requirements.by.place, &requirements.by.name, Fate::Same, effect);
        }
    }
}
