//! Chooses a certificate by name and by the signatures that the client can verify.
//!
//! In: certificates, the requested name, the signatures the client can verify. Out: a [`Selection`]. The choice is made
//! by rustls in the middle of the handshake, through [`Resolver`].
//!
//! # Who wins
//! An exact name before a wildcard (RFC 9525 §6.3: `*` matches exactly one whole label). Among certificates of one
//! name: those valid now before the others, then the cheaper signature, ECDSA P-256 before all (an RSA-2048 signature costs
//! this side about twenty times as much), then the one that expires last. Of those the first whose signature the client can
//! verify is chosen; so of two with the same names and kind of key the later one always wins, and a finding reports it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::prepared;
use crate::side_channels;
pub use crate::side_channels::{Selected, last_selection};
use handfast_pki::certificate::Certificate;
use handfast_pki::finding::{Finding, Reason};
use handfast_pki::key_kind::KeyKind;
use handfast_pki::names::{parent_domain, without_root_dot};
use handfast_pki::unix_time::date;

/// Certificates by name.
///
/// **Cost**: a name takes its own bytes and about 60 more; a look-up is one or two hashes of the name.
#[derive(Debug, Default)]
pub struct CertificateStore {
    certificates: Vec<Arc<Certificate>>,
    /// Places in `certificates`, best first.
    exact: HashMap<Box<str>, Box<[u32]>>,
    /// By what follows `*.`.
    wildcard: HashMap<Box<str>, Box<[u32]>>,
    /// Certificates for clients that request no known name: the first certificate, and others that cover one of its
    /// names.
    default: Box<[u32]>,
    rebuild_at: Option<i64>,
}

/// Choice for a client.
#[derive(Clone, Debug)]
pub enum Selection<'a> {
    /// This one.
    Chosen(&'a Arc<Certificate>),
    /// No certificate covers the name.
    UnknownName,
    /// The name is known, but the client can verify none of its certificates' signatures; this is the best of them, to
    /// let rustls refuse with the right alert.
    NoCommonSignature(&'a Arc<Certificate>),
}

/// Action for a name that no certificate covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// Serve the first certificate.
    First,
    /// Refuse. A client that requests no name at all has not requested an unknown one, and receives the first.
    Refuse,
}

impl CertificateStore {
    /// Sorts `certificates` by name; the first is the default. `now` is in Unix seconds. The findings say which of
    /// them will never be chosen.
    ///
    /// **Cost**: compresses the certificates that were in no store before.
    pub fn new(certificates: Vec<Arc<Certificate>>, now: i64) -> (Self, Vec<Finding>) {
        prepared::prepare(&certificates);
        let mut exact: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        let mut wildcard: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        for (place, certificate) in (0_u32..).zip(&certificates) {
            for name in certificate.dns_names() {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(suffix) => (&mut wildcard, suffix),
                    None => (&mut exact, &**name),
                };
                names.entry(name.into()).or_default().push(place);
            }
        }
        let sorted = |names: HashMap<Box<str>, Vec<u32>>| -> HashMap<Box<str>, Box<[u32]>> {
            names.into_iter().map(|(name, places)| (name, best_first(places, &certificates, now))).collect()
        };
        let (exact, wildcard) = (sorted(exact), sorted(wildcard));
        let default = default_places(&certificates, &exact, &wildcard, now);
        let rebuild_at = next_change(&certificates, exact.values().chain(wildcard.values()), now);
        let findings = never_chosen(&certificates, &exact, &wildcard, &default);
        (Self { certificates, exact, wildcard, default, rebuild_at }, findings)
    }

    /// Every certificate, in the order given.
    pub fn certificates(&self) -> &[Arc<Certificate>] {
        &self.certificates
    }

    /// Returns the time, in Unix seconds, when a new store must be made: the order among certificates of one name might
    /// change because one of them expires or becomes valid, or an OCSP response expires.
    pub fn rebuild_at(&self) -> Option<i64> {
        self.rebuild_at
    }

    /// Returns true if a certificate covers `name`. An absent name counts as covered while there is any certificate.
    pub fn has_name(&self, name: Option<&str>) -> bool {
        match name {
            Some(name) => with_lower_case(name, |name| self.places(name).is_some()),
            None => !self.certificates.is_empty(),
        }
    }

    /// Chooses for a client that asks for `name` and can verify `schemes`.
    pub fn select(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
        unknown_name: UnknownName,
    ) -> Selection<'_> {
        let mut candidates = self.candidates(name, unknown_name);
        let Some(best) = candidates.clone().next() else { return Selection::UnknownName };
        match candidates.find(|candidate| can_verify(candidate, schemes)) {
            Some(candidate) => Selection::Chosen(candidate),
            None => Selection::NoCommonSignature(best),
        }
    }

    /// The certificates for a client that asks for `name`, in the order in which they are chosen: the first one that the client
    /// can verify.
    pub fn candidates(
        &self,
        name: Option<&str>,
        unknown_name: UnknownName,
    ) -> impl Iterator<Item = &Arc<Certificate>> + Clone {
        let places = match name {
            Some(name) => with_lower_case(name, |name| self.places(name)),
            None => Some([&*self.default, &[]]),
        };
        let places = match (places, unknown_name) {
            (Some(places), _) => places,
            (None, UnknownName::First) => [&*self.default, &[]],
            (None, UnknownName::Refuse) => [&[][..], &[]],
        };
        places.into_iter().flatten().map(|place| &self.certificates[*place as usize])
    }

    /// Candidates for a name in lower case: its own, then the wildcard's; `None` when there are none.
    fn places(&self, name: &str) -> Option<[&[u32]; 2]> {
        let exact = self.exact.get(name);
        let wildcard = parent_domain(name).and_then(|suffix| self.wildcard.get(suffix));
        match (exact, wildcard) {
            (None, None) => None,
            (exact, wildcard) => {
                Some([exact.map_or(&[][..], |places| places), wildcard.map_or(&[][..], |places| places)])
            }
        }
    }
}

/// Calls `look` with `name` in lower case and without the root's dot. Names from rustls are in lower case already, and
/// those cost nothing here.
fn with_lower_case<T>(name: &str, look: impl FnOnce(&str) -> T) -> T {
    let name = without_root_dot(name);
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => look(&name.to_ascii_lowercase()),
        false => look(name),
    }
}

fn best_first(mut places: Vec<u32>, certificates: &[Arc<Certificate>], now: i64) -> Box<[u32]> {
    places.sort_by_key(|place| {
        let certificate = &certificates[*place as usize];
        let is_late = !certificate.is_valid_at(now);
        (is_late, certificate.key_kind().cost(), std::cmp::Reverse(certificate.not_after()), *place)
    });
    places.into()
}

/// The first certificate, and those that cover its first name too, for the sake of clients that cannot verify the
/// first.
fn default_places(
    certificates: &[Arc<Certificate>],
    exact: &HashMap<Box<str>, Box<[u32]>>,
    wildcard: &HashMap<Box<str>, Box<[u32]>>,
    now: i64,
) -> Box<[u32]> {
    let Some(first) = certificates.first() else { return Box::default() };
    let Some(name) = first.dns_names().first() else { return Box::new([0]) };
    let same_name = match name.strip_prefix("*.") {
        Some(suffix) => wildcard.get(suffix),
        None => exact.get(&**name),
    };
    best_first(same_name.map_or_else(|| vec![0], |places| places.to_vec()), certificates, now)
}

/// Returns true if a client that offers `schemes` can verify signatures of this certificate's key. rustls has already
/// removed the schemes that do not go with any suite in common (TLS 1.2 ties the two together; RFC 5246 §7.4.2).
fn can_verify(certificate: &Certificate, schemes: &[SignatureScheme]) -> bool {
    certificate.key_kind().schemes().iter().any(|scheme| schemes.contains(scheme))
}

/// The next moment at which a certificate that has company under a name changes between valid and not, or an OCSP response
/// expires.
fn next_change<'a>(
    certificates: &[Arc<Certificate>],
    names: impl Iterator<Item = &'a Box<[u32]>>,
    now: i64,
) -> Option<i64> {
    names
        .filter(|places| places.len() > 1)
        .flat_map(|places| places.iter().map(|place| &certificates[*place as usize]))
        .flat_map(|certificate| [certificate.not_before(), certificate.not_after().saturating_add(1)])
        .chain(certificates.iter().filter_map(|certificate| certificate.staple_until()?.checked_add(1)))
        .filter(|moment| *moment > now)
        .min()
}

/// Names each certificate that is behind another of its kind of key under all of its names.
fn never_chosen(
    certificates: &[Arc<Certificate>],
    exact: &HashMap<Box<str>, Box<[u32]>>,
    wildcard: &HashMap<Box<str>, Box<[u32]>>,
    default: &[u32],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, certificate) in (0_u32..).zip(certificates) {
        let ahead = |name: &str| {
            let places = match name.strip_prefix("*.") {
                Some(suffix) => wildcard.get(suffix),
                None => exact.get(name),
            };
            let places = places.into_iter().flat_map(|places| places.iter());
            first_of_kind(places, certificates, certificate.key_kind()).filter(|first| *first != place)
        };
        let is_default = first_of_kind(default.iter(), certificates, certificate.key_kind()) == Some(place);
        let names = certificate.dns_names();
        if is_default || !names.iter().all(|name| ahead(name).is_some()) {
            continue;
        }
        let Some(winner) = names.first().and_then(|name| ahead(name)) else { continue };
        let winner = &certificates[winner as usize];
        let message = format!(
            "never chosen: {} covers the same names with the same kind of key and is valid until {}, this one until {}",
            winner.file().display(),
            date(winner.not_after()),
            date(certificate.not_after())
        );
        findings.push(Finding::warning(Reason::Shadowed, certificate.file(), message));
    }
    findings
}

fn first_of_kind<'a>(
    mut places: impl Iterator<Item = &'a u32>,
    certificates: &[Arc<Certificate>],
    kind: KeyKind,
) -> Option<u32> {
    // Not equality: RSA keys of unusual sizes are chosen alike.
    places.find(|place| certificates[**place as usize].key_kind().cost() == kind.cost()).copied()
}

/// A store as rustls asks it.
#[derive(Debug)]
pub struct Resolver {
    store: Arc<CertificateStore>,
    unknown_name: UnknownName,
    /// Names whose certificate is ordered.
    awaited: HashSet<Box<str>>,
}

impl Resolver {
    /// A resolver over `store`.
    pub fn new(store: Arc<CertificateStore>, unknown_name: UnknownName) -> Self {
        Self { store, unknown_name, awaited: HashSet::new() }
    }

    /// Sets the names (in lower case, wildcards as `*.example.org`) whose certificates are ordered and might not exist yet.
    pub fn awaiting(self, names: impl IntoIterator<Item = Box<str>>) -> Self {
        Self { awaited: names.into_iter().collect(), ..self }
    }

    /// Returns true if a client that requests `name` must be refused because its certificate is not there yet. Another name's
    /// certificate is no substitute.
    pub fn is_certificate_pending(&self, name: Option<&str>) -> bool {
        if self.awaited.is_empty() || self.store.has_name(name) {
            return false;
        }
        let is_awaited = |name: &str| {
            self.awaited.contains(name)
                || parent_domain(name).is_some_and(|parent| self.awaited.contains(&*format!("*.{parent}")))
        };
        self.store.certificates().is_empty() || name.is_some_and(|name| with_lower_case(name, is_awaited))
    }

    /// The store.
    pub fn store(&self) -> &Arc<CertificateStore> {
        &self.store
    }

    /// Returns true if a client that requests `name` must be refused with the alert `unrecognized_name` (112;
    /// RFC 6066 §3).
    ///
    /// To be asked before rustls sees the hello: rustls 0.23 answers a resolver that chooses nothing with
    /// `access_denied` (49), which sends people looking for a client certificate.
    pub fn refuses(&self, name: Option<&str>) -> bool {
        self.unknown_name == UnknownName::Refuse && !self.store.has_name(name)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // As `handfast_wire` reads it: a name that is written with the root's dot is the name without it.
        let name = hello.server_name().map(without_root_dot);
        let certificate = match self.store.select(name, hello.signature_schemes(), self.unknown_name) {
            Selection::Chosen(certificate) | Selection::NoCommonSignature(certificate) => certificate,
            Selection::UnknownName => {
                side_channels::set_selection(None);
                return None;
            }
        };
        side_channels::set_selection(Some(Selected {
            kind: certificate.kind(),
            names: Arc::clone(certificate.names()),
            server_name: name.map(Into::into),
            compressed: certificate.compressed().map(Arc::clone),
        }));
        Some(certificate.certified_now())
    }
}

#[cfg(test)]
mod tests;
