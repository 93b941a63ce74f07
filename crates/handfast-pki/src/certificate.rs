//! One certificate that can be served: chain, key, names and dates.
//!
//! In: what one or two PEM files hold. Out: a [`Certificate`] with a matching key and a chain in the right order, or
//! findings with the reason. Next: `load.rs` finds files, `store.rs` chooses among certificates.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

use crate::asn1::Signed;
use crate::compressed::{Compressed, Compressor};
use crate::finding::{Finding, Reason, has_error};
use crate::key::Key;
use crate::key_kind::KeyKind;
use crate::names::Names;
use crate::parsed::Parsed;
use crate::sections::{Contents, no_certificate};
use crate::staple::Staple;
use crate::unix_time::date;
use crate::unix_time::unix_seconds;
use crate::weak::{Lists, PublicKey};

/// A chain with its key, ready to be served, with the facts about it.
///
/// **Cost**: the chain's DER, the key, and about 300 bytes; the parsed forms are gone.
#[derive(Debug)]
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    kind: KeyKind,
    names: Arc<Names>,
    not_before: i64,
    not_after: i64,
    subject: Box<str>,
    files: Box<[PathBuf]>,
    /// Path where its OCSP response is or is expected; `None` if unknown.
    pub(crate) staple_file: Option<PathBuf>,
    demands_staple: bool,
    /// Expiry and state of the stapled response, whose bytes are in `certified`.
    staple: Option<Staple>,
    /// Made when it comes into a store, and never later; `None` in it: compressed it is no smaller.
    compressed: OnceLock<Option<Arc<Compressed>>>,
}

impl Certificate {
    /// Makes a certificate of one PEM text that holds a chain and its key, in any order. `file` is only the name used
    /// in findings and by [`Self::files`]; `now` is in Unix seconds.
    ///
    /// `None` when a finding is an error.
    pub fn from_pem(pem: &[u8], file: &Path, now: i64) -> (Option<Self>, Vec<Finding>) {
        let mut contents = Contents::of(pem, file).check_signatures();
        let mut findings = std::mem::take(&mut contents.findings);
        let keys = std::mem::take(&mut contents.keys);
        let chain = contents.certificates;
        if has_error(&findings) {
            return (None, findings);
        }
        let known_keys = Lists::default();
        let certificate = with_one_of(chain, keys, file, None, (&known_keys, now), &mut findings);
        (certificate, findings)
    }

    /// The chain and key as rustls takes them.
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The chain in DER, the server's own certificate first; never empty.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Gives it an OCSP response to staple.
    pub(crate) fn set_staple(&mut self, response: Vec<u8>, staple: Staple) {
        let CertifiedKey { cert, key, .. } = &*self.certified;
        let (cert, key) = (cert.clone(), Arc::clone(key));
        self.certified = Arc::new(CertifiedKey { cert, key, ocsp: Some(response) });
        self.staple = Some(staple);
    }

    /// Last second in which its OCSP response is stapled, Unix time; `None`: it has none.
    pub fn staple_until(&self) -> Option<i64> {
        self.staple.map(|staple| staple.next_update)
    }

    /// Chain and key as rustls takes them, for now: without the OCSP response when that has expired.
    ///
    /// **Cost**: nothing without a response, a look at the clock with one, a copy of the chain with one that has expired.
    /// That lasts until the store is rebuilt, which is due then.
    pub fn certified_now(&self) -> Arc<CertifiedKey> {
        let has_expired = |staple: Staple| unix_seconds(SystemTime::now()) > staple.next_update;
        if !self.staple.is_some_and(has_expired) {
            return Arc::clone(&self.certified);
        }
        let CertifiedKey { cert, key, .. } = &*self.certified;
        Arc::new(CertifiedKey { cert: cert.clone(), key: Arc::clone(key), ocsp: None })
    }

    /// Its Certificate messages compressed, if they were made and are smaller. Nothing is compressed here.
    pub fn compressed(&self) -> Option<&Arc<Compressed>> {
        self.compressed.get().and_then(Option::as_ref)
    }

    /// Compresses its messages, once.
    pub fn compress(&self, compressor: &mut Compressor) {
        let make = || Compressed::new(&self.certified, compressor).map(Arc::new);
        self.compressed.get_or_init(make);
    }

    /// Returns true if its messages were already tested for compression.
    pub fn is_compressed(&self) -> bool {
        self.compressed.get().is_some()
    }

    /// Kind of key.
    pub fn key_kind(&self) -> KeyKind {
        self.kind
    }

    /// Its name: `RSA-2048`, `ECDSA-P256`, `Ed25519`, ….
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }

    /// DNS names from the subject alternative names, in lower case, wildcards as `*.example.org`.
    pub fn dns_names(&self) -> &[Box<str>] {
        &self.names.dns
    }

    /// IP addresses from the subject alternative names.
    pub fn ip_names(&self) -> &[IpAddr] {
        &self.names.ip
    }

    /// Both kinds of names, to be kept without the certificate and its key.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// First second of validity, Unix time.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// Last second of validity, Unix time.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Returns true if `now` (Unix seconds) is within its validity.
    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// The subject as text, for people.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The files it was read from: the chain's, then the key's if that is another.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns true if both would be served alike and are from the same files. The keys are not compared: each is the
    /// one that fits the public key in the chain.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.chain() == other.chain()
            && self.files == other.files
            && self.staple_file == other.staple_file
            && self.certified.ocsp == other.certified.ocsp
    }

    /// A warning if it demands an OCSP response and has none: clients that check this refuse it.
    pub(crate) fn lacks_staple(&self) -> Option<Finding> {
        let file = self.file();
        let message = format!(
            "the certificate of {:?} demands a stapled OCSP response (must-staple), and there is none: clients that check this, such as \
             Firefox, refuse it",
            self.subject
        );
        let hint = format!(
            "write the response to {}.ocsp, or order a certificate without must-staple",
            file.display()
        );
        (self.demands_staple && self.staple.is_none())
            .then(|| Finding::warning(Reason::StapleMissing, file, message).hint(hint))
    }

    /// The file to name in messages about it.
    pub fn file(&self) -> &Path {
        self.files.first().map_or(Path::new("a certificate made at start"), PathBuf::as_path)
    }
}

/// Joins `chain` with that one of `keys` that fits a certificate in it.
pub(crate) fn with_one_of(
    chain: Vec<Parsed>,
    keys: Vec<Key>,
    chain_file: &Path,
    key_file: Option<&Path>,
    (known_keys, now): (&Lists, i64),
    findings: &mut Vec<Finding>,
) -> Option<Certificate> {
    let Some(first) = chain.first() else {
        let finding = Finding::error(Reason::NoCertificate, chain_file, "holds no certificate");
        let hint = "the file must hold the server's certificate, then its intermediates, in PEM";
        no_certificate(findings, finding.hint(hint));
        return None;
    };
    if refuse_unusable(first, &chain, known_keys, chain_file, findings) {
        return None;
    }
    let fits = |key: &&Key| chain.iter().any(|parsed| parsed.public_key == key.public_key);
    let Some(key) = keys.iter().find(fits) else {
        findings.push(no_key_fits(first, &keys, chain_file, key_file));
        return None;
    };
    let key = key.clone();
    Some(assemble(chain, key, chain_file, key_file, now, findings))
}

fn no_key_fits(first: &Parsed, keys: &[Key], chain_file: &Path, key_file: Option<&Path>) -> Finding {
    let subject = &first.subject;
    match (keys, key_file) {
        ([], None) => Finding::error(
            Reason::NoKey,
            chain_file,
            format!("holds the certificate of {subject:?} and no key, and no file for the key is given"),
        )
        .hint("key = \"…\""),
        ([], Some(key_file)) => Finding::error(Reason::NoKey, key_file, "holds no private key")
            .hint("a section \"PRIVATE KEY\", \"EC PRIVATE KEY\" or \"RSA PRIVATE KEY\" is expected"),
        (_, key_file) => key_does_not_fit(first, chain_file, key_file.unwrap_or(chain_file)),
    }
}

/// The finding for a key of another certificate.
pub(crate) fn key_does_not_fit(first: &Parsed, chain_file: &Path, key_file: &Path) -> Finding {
    let message = format!(
        "key does not fit the certificate of {:?} ({}) in {}: their public keys differ",
        first.subject,
        first.kind.name(),
        chain_file.display()
    );
    Finding::error(Reason::KeyDoesNotFit, key_file, message)
        .hint("each renewal makes a new pair: check that both files are of the same one")
}

/// Says why a certificate, or another one of its chain, cannot be used at all, and returns whether that is so.
pub(crate) fn refuse_unusable(
    leaf: &Parsed,
    chain: &[Parsed],
    known_keys: &Lists,
    file: &Path,
    findings: &mut Vec<Finding>,
) -> bool {
    let before = findings.len();
    if let KeyKind::Unusable(what) = leaf.kind {
        let message = format!("the certificate's key is {}, which cannot be used", what.name());
        let finding = Finding::error(Reason::BadKey, file, message);
        findings.push(finding.hint("reissue it with an ECDSA P-256 or an RSA-2048 key"));
    }
    findings.extend(chain.iter().filter_map(|parsed| wrongly_signed(parsed, file)));
    for parsed in chain {
        let Some(weakness) = parsed.weakness(known_keys) else { continue };
        let kind = PublicKey::from_info(&parsed.public_key).map_or("key", |key| key.kind());
        let (whose, hint) = match parsed.der == leaf.der {
            true => (
                format!("the certificate's {kind}"),
                "make a new key, ECDSA P-256 or RSA-2048, and have the certificate reissued for it",
            ),
            false => (
                format!("the {kind} of the CA certificate of {:?}", parsed.subject),
                "take it out, or have the certificate reissued by a CA with a better key",
            ),
        };
        let message = format!("{whose} {weakness}: {}", weakness.why());
        findings.push(Finding::error(Reason::WeakKey, file, message).hint(hint));
    }
    findings.len() > before
}

/// Returns the finding for a certificate that its issuer in the same file did not sign.
pub(crate) fn wrongly_signed(parsed: &Parsed, file: &Path) -> Option<Finding> {
    if parsed.signed != Signed::Wrong {
        return None;
    }
    let by = match parsed.is_self_issued() {
        true => "its own key".to_owned(),
        false => format!("the certificate of {:?} that is with it", parsed.issuer()),
    };
    let message =
        format!("the signature of the certificate of {:?} is not by {by}: clients refuse it", parsed.subject);
    Some(Finding::error(Reason::BadSignature, file, message).hint(
        "one of them is damaged, or the CA has another certificate with the same name: fetch the chain from the CA again",
    ))
}

/// Returns the finding for a server's certificate that is sent alone although another one issued it. A publicly trusted CA never
/// signs with its root (CA/Browser Forum baseline requirements 6.1.7); for other CAs this is not known here.
pub(crate) fn lacks_issuer(chain: &[Parsed], file: &Path) -> Option<Finding> {
    let [leaf] = chain else { return None };
    if leaf.is_self_issued() {
        return None;
    }
    let issuer = leaf.issuer();
    if leaf.is_public {
        let message = format!(
            "the intermediate certificate of {issuer:?} is not sent with the certificate of {:?}: programs cannot verify it",
            leaf.subject
        );
        let hint = "append the CA's intermediate certificate to the file";
        return Some(Finding::warning(Reason::ChainIncomplete, file, message).hint(hint));
    }
    leaf.names_issuer.then(|| {
        let message = format!(
            "only the certificate of {:?} is sent, which is right if {issuer:?} is a root that clients trust, and not if it is an \
             intermediate",
            leaf.subject
        );
        Finding::note(Reason::ChainIncomplete, file, message)
    })
}

/// Makes the certificate, when `key` is known to fit one of `chain`.
pub(crate) fn assemble(
    chain: Vec<Parsed>,
    key: Key,
    chain_file: &Path,
    key_file: Option<&Path>,
    now: i64,
    findings: &mut Vec<Finding>,
) -> Certificate {
    let chain = in_order(chain, &key, chain_file, findings);
    let leaf = &chain[0];
    let intermediates = &chain[1..];
    report_dates(leaf, "the certificate", chain_file, now, findings);
    for intermediate in intermediates {
        let what = format!("the intermediate certificate of {:?}", intermediate.subject);
        report_dates(intermediate, &what, chain_file, now, findings);
    }
    report_names(leaf, chain_file, findings);
    findings.extend(lacks_issuer(&chain, chain_file));
    if let Some(root) = intermediates.iter().find(|parsed| parsed.is_self_issued()) {
        let message = format!(
            "the root {:?} is sent in each full handshake ({} bytes); a client that trusts it has it already",
            root.subject,
            root.der.len()
        );
        findings.push(Finding::note(Reason::ChainNeedless, chain_file, message));
    }
    let certified =
        CertifiedKey::new(chain.iter().map(|parsed| parsed.der.clone()).collect(), key.signing.clone());
    Certificate {
        kind: leaf.kind,
        names: Arc::new(served_names(leaf)),
        not_before: leaf.not_before,
        not_after: leaf.not_after,
        subject: leaf.subject.clone(),
        files: std::iter::once(chain_file)
            .chain(key_file.filter(|file| *file != chain_file))
            .map(Path::to_path_buf)
            .collect(),
        certified: Arc::new(certified),
        staple_file: None,
        demands_staple: leaf.demands_staple,
        staple: None,
        compressed: OnceLock::new(),
    }
}

/// Puts the certificate that `key` belongs to first, and drops those that lead from it nowhere.
///
/// A certificate belongs when it is the issuer of one that belongs, so cross-signed alternatives stay, in the file's
/// order. TLS 1.2 requires each certificate to certify the one before it (RFC 5246 §7.4.2); TLS 1.3 allows any order,
/// but still requires the server's own first (RFC 9846 §4.5.2).
fn in_order(chain: Vec<Parsed>, key: &Key, file: &Path, findings: &mut Vec<Finding>) -> Vec<Parsed> {
    let mut left = chain;
    let leaf = left.iter().position(|parsed| parsed.public_key == key.public_key).unwrap_or(0);
    if leaf != 0 {
        let message = format!(
            "the server's certificate, {:?}, is number {} in the file instead of the first; it is sent first",
            left[leaf].subject,
            leaf + 1
        );
        findings.push(Finding::warning(Reason::ChainOrder, file, message));
        // Most such files are in the reverse order as a whole.
        left.reverse();
    }
    let leaf = left.iter().position(|parsed| parsed.public_key == key.public_key).unwrap_or(0);
    let mut ordered = vec![left.remove(leaf)];
    let mut next = 0;
    while next < ordered.len() {
        let issuer = ordered[next].issuer_der.clone();
        let is_root = ordered[next].is_self_issued();
        let (belong, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|parsed| !is_root && parsed.subject_der == issuer);
        ordered.extend(belong);
        left = others;
        next += 1;
    }
    for parsed in left {
        let message = format!(
            "the certificate of {:?} is not sent: no certificate before it was issued by it",
            parsed.subject
        );
        findings.push(Finding::warning(Reason::NotInChain, file, message));
    }
    ordered
}

/// A warning and not an error: one expired certificate must neither prevent a start nor a good change at a reload. Clients
/// report it.
fn report_dates(parsed: &Parsed, what: &str, file: &Path, now: i64, findings: &mut Vec<Finding>) {
    if now > parsed.not_after {
        let days = (now - parsed.not_after) / 86_400;
        let message =
            format!("{what} expired {days} days ago, on {}: clients refuse it", date(parsed.not_after));
        findings.push(Finding::warning(Reason::Expired, file, message).hint("renew it"));
    } else if now < parsed.not_before {
        let message = format!("{what} is valid only from {}: clients refuse it", date(parsed.not_before));
        let finding = Finding::warning(Reason::NotYetValid, file, message);
        findings.push(finding.hint(format!("it is {} here; check the clock", date(now))));
    }
}

/// The names for which it is chosen. One without subject alternative names is chosen for its common name, as other servers do: few
/// clients accept it (RFC 9525 §2), but they would accept no other certificate of ours either.
fn served_names(leaf: &Parsed) -> Names {
    let mut dns = leaf.dns_names.clone();
    if dns.is_empty() && leaf.ip_names.is_empty() {
        dns.extend(leaf.common_name.as_ref().map(|name| name.to_ascii_lowercase().into_boxed_str()));
    }
    Names { dns: dns.into(), ip: leaf.ip_names.clone().into() }
}

fn report_names(leaf: &Parsed, file: &Path, findings: &mut Vec<Finding>) {
    for name in &leaf.unusable_names {
        let message = format!(
            "the name {name:?} matches no host: a wildcard must be the whole first label, and the rest a DNS name"
        );
        findings.push(Finding::warning(Reason::UnusableName, file, message));
    }
    if !leaf.dns_names.is_empty() || !leaf.ip_names.is_empty() {
        return;
    }
    let finding = match &leaf.common_name {
        Some(name) => {
            let message = format!(
                "the name {name:?} is only in the subject's common name: it is served for it, but few clients accept it"
            );
            Finding::warning(Reason::NoNames, file, message).hint("reissue it with subject alternative names")
        }
        None => Finding::warning(Reason::NoNames, file, "the certificate names no host and no address")
            .hint("reissue it with subject alternative names; until then it can only be the default"),
    };
    findings.push(finding);
}
