//! Verifies client certificates.
//!
//! In: a PEM file of CA certificates, or of the clients' own, whether a certificate is required, revocation lists, rules. Out: a verifier for
//! rustls, a fingerprint for tickets, and a second check of clients that resume. `presented.rs` decides which certificates are
//! valid, `revocation.rs` which are revoked, and [`Rules`] which of the others are accepted.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Context, SHA256, digest};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::peer_certificate;
use crate::session::Verdict;
use crate::side_channels;
use handfast_pki::algorithms;
use handfast_pki::finding::{Finding, Reason, has_error};
use handfast_pki::key_kind::KeyKind;
use handfast_pki::load::TrustFile;
use handfast_pki::parsed::Parsed;
use handfast_pki::presented::{Authorities, CertificateFault, Keys, Peer, Refusal, Standing, standing};
use handfast_pki::read::FileStamp;
use handfast_pki::revocation::{self, List, Revocations};
pub use handfast_pki::revocation::{KnownLists, Lenience};
use handfast_pki::rules::{Rule, Rules};
use handfast_pki::unix_time::unix_seconds;
use handfast_pki::weak::{Lists, Weakness};

mod doubts;
pub(crate) mod resumed;

/// Requirement for a client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Demand {
    /// Requested; a client without one is served, a client with an invalid one is not.
    Request,
    /// Required; a client without a valid one is refused.
    Require,
}

/// Client certificates that are valid. In each case the client must prove that it owns the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<P> {
    /// Those that CAs in this PEM file signed.
    Authorities(P),
    /// Those that are in this PEM file, by any issuer.
    Certificates(P),
    /// Any, expired ones too.
    Anything,
}

impl<P: AsRef<Path>> Trust<P> {
    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Authorities(file) | Self::Certificates(file) => Some(file.as_ref()),
            Self::Anything => None,
        }
    }

    /// The same with a borrowed path.
    pub fn as_path(&self) -> Trust<&Path> {
        match self {
            Self::Authorities(file) => Trust::Authorities(file.as_ref()),
            Self::Certificates(file) => Trust::Certificates(file.as_ref()),
            Self::Anything => Trust::Anything,
        }
    }
}

/// Settings of a rule about client certificates.
#[derive(Clone, Debug)]
pub struct ClientCertificateSettings<'a> {
    /// Certificates that are valid.
    pub trust: Trust<&'a Path>,
    /// Requirement for a certificate: requested or required.
    pub demand: Demand,
    /// Keys that are refused, of the CAs and of clients.
    pub known_keys: &'a Arc<Lists>,
    /// Files and folders of revocation lists; none: nothing is asked about revocation.
    pub lists: &'a [PathBuf],
    /// The decision about clients that no list covers.
    pub lenience: Lenience,
    /// Rules that select the accepted clients among those with valid certificates.
    pub rules: &'a Rules,
    /// True if clients that fail complete the handshake, to be served elsewhere: see [`Verdict::Failed`].
    pub tolerates: bool,
}

impl<'a> ClientCertificateSettings<'a> {
    /// Accepts every client with a certificate by one of these CAs.
    pub fn new(authorities: &'a Path, demand: Demand, known_keys: &'a Arc<Lists>) -> Self {
        static ALL: Rules = Rules { allow: Vec::new(), refuse: Vec::new() };
        Self {
            trust: Trust::Authorities(authorities),
            demand,
            known_keys,
            lists: &[],
            lenience: Lenience::default(),
            rules: &ALL,
            tolerates: false,
        }
    }
}

/// A rule about client certificates, ready for rustls.
#[derive(Clone)]
pub struct ClientCertificates {
    verifier: Arc<dyn ClientCertVerifier>,
    checks: Arc<Checks>,
    fingerprint: [u8; 32],
    lists: KnownLists,
    attention_at: Option<i64>,
}

/// Identifier of the set of checked key weaknesses. A new check changes the text, which invalidates older tickets.
const KEYS_LOOKED_INTO: &[u8] = b"weak keys 1";

/// Result of [`load_all`].
#[derive(Debug)]
pub struct LoadedAuthorities {
    /// The rule; `None` when a finding is an error.
    pub rule: Option<ClientCertificates>,
    /// Findings about the files.
    pub findings: Vec<Finding>,
    /// Errors of files of revocation lists that go on as they were read before.
    pub left_out: Vec<Finding>,
    /// The files read, for [`handfast_pki::load::changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: Vec<PathBuf>,
}

/// One revocation list in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFact {
    /// The CA's name.
    pub issuer: Box<str>,
    /// Number of certificates that it revokes.
    pub entries: usize,
    /// Time of issue, in seconds of Unix time.
    pub this_update: i64,
    /// Expiry, in seconds of Unix time; `None`: it does not expire.
    pub next_update: Option<i64>,
    /// Time from which the next list is late, in seconds of Unix time.
    pub late_at: Option<i64>,
}

/// Reads the certificates and lists of `settings` and makes the rule. Revocation lists that are `known`, and whose files have not
/// changed, are not read again; nor are those that cannot be read now.
///
/// **Cost**: for a million revoked certificates about a second, 22 MB, and while they are read the size of their file
/// twice.
pub fn load_all(
    settings: &ClientCertificateSettings<'_>,
    known: &KnownLists,
    now: SystemTime,
) -> LoadedAuthorities {
    let mut read = trust_file(settings.trust);
    let certificates: Vec<_> =
        read.certificates.into_iter().map(|parsed| Named::new(parsed, settings)).collect();
    let now = unix_seconds(now);
    if let Some(file) = settings.trust.file() {
        doubts::report_oddities(&certificates, file, now, &mut read.findings);
    }
    let mut folders: BTreeSet<PathBuf> = read.folders.into_iter().collect();
    let mut loaded = LoadedAuthorities {
        rule: None,
        findings: read.findings,
        left_out: Vec::new(),
        files_read: read.files_read,
        folders: Vec::new(),
    };
    let can_read_lists = !settings.lists.is_empty() && !has_error(&loaded.findings);
    let read = can_read_lists.then(|| lists(settings, &certificates, known, now, &mut loaded, &mut folders));
    let rule = rule(&certificates, settings, read, &mut loaded.findings);
    loaded.rule = rule.filter(|_| !has_error(&loaded.findings));
    loaded.folders = folders.into_iter().collect();
    loaded
}

/// Reads the file of trusted certificates, if there is one.
fn trust_file(trust: Trust<&Path>) -> TrustFile {
    let (file, purpose) = match trust {
        Trust::Authorities(file) => (file, "the CAs that sign clients' certificates"),
        Trust::Certificates(file) => (file, "clients' certificates"),
        Trust::Anything => return TrustFile::default(),
    };
    let mut read = TrustFile::read(file, purpose);
    if read.has_key {
        let message = "holds a private key, which is not used here";
        let finding = Finding::warning(Reason::UnusedSection, file, message);
        read.findings.push(finding.hint("a private key of others has no business on a server: take it away"));
    }
    read
}

/// Reads the revocation lists.
fn lists(
    settings: &ClientCertificateSettings<'_>,
    certificates: &[Named],
    known: &KnownLists,
    now: i64,
    loaded: &mut LoadedAuthorities,
    folders: &mut BTreeSet<PathBuf>,
) -> revocation::Read {
    let is_authority = |named: &&Named| named.good_for() == Standing::Authority;
    let authorities: Vec<&Parsed> =
        certificates.iter().filter(is_authority).map(|named| &named.parsed).collect();
    let mut read = revocation::read(settings.lists, &authorities, known, now);
    loaded.findings.append(&mut read.findings);
    loaded.left_out.append(&mut read.left_out);
    loaded.files_read.append(&mut read.files_read);
    folders.append(&mut read.folders);
    // Another finding reports a list that cannot be read.
    let is_whole = !has_error(&loaded.findings);
    if let Some(file) = settings.trust.file().filter(|_| is_whole && !settings.lenience.accept_missing) {
        doubts::report_missing_lists(&authorities, &read.lists, file, &mut loaded.findings);
    }
    read
}

/// A certificate of the file, and the facts about its key.
struct Named {
    parsed: Parsed,
    weakness: Option<Weakness>,
    /// True if a client needs exactly this certificate: see [`Trust::Certificates`].
    exact: bool,
}

impl Named {
    fn new(parsed: Parsed, settings: &ClientCertificateSettings<'_>) -> Self {
        let weakness = parsed.weakness(settings.known_keys);
        Self { parsed, weakness, exact: matches!(settings.trust, Trust::Certificates(_)) }
    }

    /// Returns the use of the certificate; `Leaf` for a certificate that has none.
    fn good_for(&self) -> Standing {
        // No signature by such a key is accepted, nor one by a key of a kind that is not known here.
        if self.weakness.is_some() || matches!(self.parsed.kind, KeyKind::Unusable(_)) {
            return Standing::Leaf;
        }
        if self.exact {
            return Standing::Itself;
        }
        standing(&self.parsed.der).unwrap_or(Standing::Leaf)
    }

    /// Returns the reason why the certificate cannot be used.
    fn unusable(&self) -> String {
        match (&self.weakness, self.parsed.kind) {
            (Some(weakness), _) => format!("has a key that {weakness} ({})", weakness.why()),
            (None, kind @ KeyKind::Unusable(_)) => {
                format!("has a key that cannot be used here, {}", kind.name())
            }
            _ => "is no CA certificate".to_owned(),
        }
    }
}

fn rule(
    certificates: &[Named],
    settings: &ClientCertificateSettings<'_>,
    read: Option<revocation::Read>,
    findings: &mut Vec<Finding>,
) -> Option<ClientCertificates> {
    let file = settings.trust.file().unwrap_or(Path::new(""));
    let revocations = read.as_ref().map(|read| Revocations::new(&read.lists, settings.lenience));
    let mut trusted = Authorities::default().refusing(Arc::clone(settings.known_keys));
    if settings.trust == Trust::Anything {
        trusted.trust_anything();
    }
    let mut subjects = Vec::new();
    for named in certificates {
        let (parsed, standing) = (&named.parsed, named.good_for());
        if standing == Standing::Leaf {
            continue;
        }
        if let Some(by) = revocations.as_ref().and_then(|lists| revoked_by(parsed, certificates, lists)) {
            let message = format!("the CA {:?} was revoked by {by:?}, and is not trusted", parsed.subject);
            findings.push(Finding::warning(Reason::Revoked, file, message).hint("take it out of the file"));
            continue;
        }
        // A client that presents a certificate of the file itself has its key, so it needs no signature by a CA.
        if named.exact || parsed.is_self_issued() {
            trusted.pin(&parsed.der);
        }
        if standing == Standing::Authority
            && let Err(error) = trusted.add(&parsed.der)
        {
            let message = format!("the CA certificate of {:?} cannot be used: {error}", parsed.subject);
            findings.push(Finding::error(Reason::BadCertificate, file, message));
        }
        // CAs are named to clients; with exact certificates, no list of CAs restricts what they choose from.
        let subject = DistinguishedName::from(parsed.subject_der.to_vec());
        if !named.exact
            && !subjects.iter().any(|known: &DistinguishedName| known.as_ref() == subject.as_ref())
        {
            subjects.push(subject);
        }
    }
    if trusted.is_empty() {
        if !has_error(findings) {
            let message = "holds no CA that is trusted: all were revoked";
            findings.push(Finding::error(Reason::Revoked, file, message));
        }
        return None;
    }
    if let Some(revocations) = revocations {
        trusted.revoke_by(revocations);
    }
    let read = read.unwrap_or_default();
    let checks = Checks {
        trusted,
        demand: settings.demand,
        rules: settings.rules.clone(),
        tolerates: settings.tolerates,
        lists: read.lists,
    };
    let checks = Arc::new(checks);
    let verifier = Arc::new(Verifier { checks: Arc::clone(&checks), subjects });
    let fingerprint = fingerprint(certificates, settings);
    let (lists, attention_at) = (read.known, read.attention_at);
    Some(ClientCertificates { verifier, checks, fingerprint, lists, attention_at })
}

/// Returns the name of the CA that revoked this CA of the file, by a list of another CA of the file.
fn revoked_by(parsed: &Parsed, certificates: &[Named], lists: &Revocations) -> Option<Box<str>> {
    let is_issuer =
        |other: &&Parsed| other.subject_der == parsed.issuer_der && other.subject_der != parsed.subject_der;
    certificates
        .iter()
        .map(|named| &named.parsed)
        .filter(is_issuer)
        .find_map(|issuer| lists.revoked_by(&parsed.der, &issuer.der))
}

/// Checks of a client certificate, in a full handshake and in a resumption.
#[derive(Debug)]
struct Checks {
    trusted: Authorities,
    demand: Demand,
    rules: Rules,
    tolerates: bool,
    lists: Vec<Arc<List>>,
}

impl Checks {
    /// The rule that lets a client in; `None` where none is needed.
    fn judge(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        keys: Keys,
        now: UnixTime,
    ) -> Result<Option<&Rule>, Refusal> {
        self.trusted.check(Peer::Client, own, intermediates, keys, now)?;
        if self.rules.is_empty() {
            return Ok(None);
        }
        self.rules.decide(own)
    }
}

/// Verifier that rustls calls for client certificates.
#[derive(Debug)]
struct Verifier {
    checks: Arc<Checks>,
    /// Names sent to clients, which choose among their certificates by them.
    subjects: Vec<DistinguishedName>,
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.checks.demand == Demand::Require && !self.checks.tolerates
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // Those that may fail are judged when they have proved that the key is theirs: see `ClientCertificates::judge`.
        if !self.checks.tolerates {
            self.checks.judge(end_entity, intermediates, Keys::New, now).map_err(|refusal| {
                side_channels::note_refused_certificate(end_entity);
                peer_certificate::refuse(refusal)
            })?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let checked = peer_certificate::check_signature(false, message, certificate, signed);
        checked.inspect_err(|_| side_channels::note_refused_certificate(certificate))?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let checked = peer_certificate::check_signature(true, message, certificate, signed);
        checked.inspect_err(|_| side_channels::note_refused_certificate(certificate))?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

/// The same for the same set of CAs and rules, in whatever order and however often they are written. Revoked certificates
/// are not in it: a client that resumes is checked against the present lists.
fn fingerprint(certificates: &[Named], settings: &ClientCertificateSettings<'_>) -> [u8; 32] {
    let hashes: BTreeSet<Vec<u8>> =
        certificates.iter().map(|named| digest(&SHA256, &named.parsed.der).as_ref().to_vec()).collect();
    let kind = match settings.trust {
        Trust::Authorities(_) => 0,
        Trust::Certificates(_) => 1,
        Trust::Anything => 2,
    };
    let mut context = Context::new(&SHA256);
    context.update(match settings.demand {
        Demand::Request => b"request",
        Demand::Require => b"require",
    });
    // Keys are checked once, in the handshake that a ticket goes back to: the ticket names the checks.
    context.update(KEYS_LOOKED_INTO);
    context.update(settings.known_keys.fingerprint());
    context.update(&[u8::from(settings.tolerates), kind]);
    hashes.iter().for_each(|hash| context.update(hash));
    settings.rules.feed(|bytes| context.update(bytes));
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(context.finish().as_ref());
    fingerprint
}

impl ClientCertificates {
    /// The verifier for rustls.
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }

    /// A hash over the demand, the CAs and the rules: part of a ticket's policy.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Returns the requirement for a certificate.
    pub fn demand(&self) -> Demand {
        self.checks.demand
    }

    /// Returns true if clients that fail complete the handshake; their verdict is then in [`crate::session::Agreed`].
    pub fn tolerates(&self) -> bool {
        self.checks.tolerates
    }

    /// The files of revocation lists it was made of, to be lent to the next one.
    pub fn lists(&self) -> &KnownLists {
        &self.lists
    }

    /// Returns true if its revocation lists are those of another rule.
    #[cfg(test)]
    pub(crate) fn has_same_lists(&self, other: &Self) -> bool {
        self.lists.is_same(&other.lists)
    }

    /// The revocation lists in force.
    pub fn list_facts(&self) -> Vec<ListFact> {
        let fact = |list: &Arc<List>| ListFact {
            issuer: list.name.clone(),
            entries: list.entries(),
            this_update: list.this_update,
            next_update: list.next_update,
            late_at: list.next_update.map(|next| revocation::late_at(list.this_update, next)),
        };
        self.checks.lists.iter().map(fact).collect()
    }

    /// Returns the next time when the reports about its revocation lists change, in seconds of Unix time: one of them
    /// becomes late or expires.
    pub fn attention_at(&self) -> Option<i64> {
        self.attention_at
    }

    /// Checks again the chain that a resumed session carries, the client's own certificate first; empty when the client
    /// had none.
    ///
    /// rustls takes a resumed client's certificate from the ticket as it was, and gives out a new ticket each time: without
    /// this a certificate that expired or was revoked would go on being good for as long as its owner comes back in time.
    ///
    /// **Errors**: as at a full handshake; the client caused them.
    ///
    /// **Cost**: one signature verification for each certificate up to the CA, with P-256 0.03 ms each; below 5 ms
    /// whatever the chain. Keys are not looked into again: the ticket is only good where the same would be looked for.
    pub fn check_again(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), Error> {
        let Some((own, intermediates)) = chain.split_first() else {
            return match self.checks.demand {
                Demand::Request => Ok(()),
                Demand::Require => Err(Error::NoCertificatesPresented),
            };
        };
        self.checks
            .judge(own, intermediates, Keys::Known, unix_time(now))
            .map(|_| ())
            .map_err(peer_certificate::refuse)
    }

    /// Returns the verdict on a client that has proved that it owns the key; it does not create rustls's error.
    ///
    /// **Cost**: as of [`Self::check_again`].
    pub(crate) fn verdict(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Option<Verdict> {
        let Some((own, intermediates)) = chain.split_first() else {
            return (self.checks.demand == Demand::Require).then(|| Verdict::Failed {
                fault: CertificateFault::Missing,
                words: "the client sent no certificate, one is required".into(),
            });
        };
        // A client that failed also has tickets, so a key may never have been checked.
        match self.checks.judge(own, intermediates, Keys::New, unix_time(now)) {
            Ok(rule) => self.noted(rule),
            Err(refusal) => Some(Verdict::Failed {
                fault: refusal.fault(),
                words: format!("the client's certificate failed: {refusal}").into(),
            }),
        }
    }

    /// Returns the verdict to record for a client that was accepted with this certificate.
    pub(crate) fn accepted(&self, own: &CertificateDer<'_>) -> Option<Verdict> {
        if self.checks.rules.is_empty() {
            return self.noted(None);
        }
        self.noted(self.checks.rules.decide(own).ok().flatten())
    }

    fn noted(&self, rule: Option<&Rule>) -> Option<Verdict> {
        if self.checks.trusted.trusts_anything() {
            return Some(Verdict::Unverified);
        }
        rule.map(|rule| Verdict::Allowed(rule.to_string().into()))
    }
}

fn unix_time(now: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificates").field("demand", &self.checks.demand).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
