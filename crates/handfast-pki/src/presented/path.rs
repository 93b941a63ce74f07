//! Finds a path from a peer's certificate to a trusted CA, at a bounded cost.
//!
//! In: a certificate, the CA certificates that came with it, and the trusted ones. Out: a path that webpki accepts,
//! or why there is none.
//!
//! webpki looks for a path itself, and checks signatures only once it reaches a trusted CA: of many certificates with
//! the same name it tries every order. Its own bounds end that after seconds. So it is given one path after the other,
//! each chosen here by names and key identifiers, which costs nothing; and the signatures are counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, TrustAnchor,
    UnixTime,
};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use super::Authorities;
use super::bounds::PATHS;
use super::refusal::{Peer, Refusal};
use super::stapled::Stapled;
use super::version1::Rewritten;
use crate::asn1::algorithms;
use crate::key_kind::KeyKind;
use crate::outline::{Outline, constraints};
use crate::revocation::Issuer;
use crate::staple::IssuerKey;
use crate::weak::{RSA_BITS, Weakness};

/// CA certificates between the peer's and the trusted one: what webpki has room for.
const DEPTH: usize = 6;
/// Certificates of one name in a path: a CA that changed its key signs the new one with the old (RFC 4210 §4.4).
const SAME_NAME: usize = 2;
/// Looks at a certificate on the way; there are no more than four paths with seven each, unless they lead nowhere.
const STEPS: usize = 64;
/// Signatures checked: a path of seven, and one that turns out to be by another key of the same name. The dearest that
/// is possible (RSA with 8,192 bits and an exponent of 33) takes 0.46 ms, P-521 0.26 ms, RSA-4096 0.05 ms, P-256 0.03 ms.
const SIGNATURES: usize = 8;
/// Maximum number of comparisons of names with name constraints: a hundred names and five hundred constraints. One
/// takes 25 ns.
const COMPARISONS: usize = 50_000;

/// A peer's own certificate.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) der: &'a [u8],
    pub(super) outline: &'a Outline<'a>,
    pub(super) certificate: &'a EndEntityCert<'a>,
    /// If it is of version 1: `certificate` is then another form of it.
    pub(super) rewritten: Option<&'a Rewritten<'a>>,
    pub(super) stapled: Stapled<'a>,
}

/// The search for one peer's path.
pub(super) struct Search<'a> {
    authorities: &'a Authorities,
    peer: Peer,
    now: UnixTime,
    own: Own<'a>,
    /// The candidates between it and a trusted CA.
    candidates: Vec<(Outline<'a>, &'a CertificateDer<'a>)>,
    steps: usize,
    paths: usize,
    signatures: AtomicUsize,
    refusal: Option<Refusal>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        authorities: &'a Authorities,
        peer: Peer,
        now: UnixTime,
        own: Own<'a>,
        intermediates: &'a [CertificateDer<'a>],
    ) -> Self {
        let mut candidates: Vec<(Outline<'a>, &CertificateDer<'a>)> = Vec::with_capacity(intermediates.len());
        for der in intermediates {
            // A certificate that cannot be read, or is no CA's, is of no use; a second copy neither. Two of the same
            // name and key by different issuers are not copies, but two ways (a cross-signed CA).
            let is_known = candidates.iter().any(|(_, known)| *known == der);
            if let Some(outline) = Outline::read(der)
                && outline.is_authority
                && !is_known
            {
                candidates.push((outline, der));
            }
        }
        Self {
            authorities,
            peer,
            now,
            own,
            candidates,
            steps: 0,
            paths: 0,
            signatures: AtomicUsize::new(SIGNATURES),
            refusal: None,
        }
    }

    /// Finds a good path: the CA certificates in it that the peer sent.
    ///
    /// **Errors**: why the most promising one is not good.
    pub(super) fn run(mut self) -> Result<Vec<Outline<'a>>, Refusal> {
        let mut path = Vec::with_capacity(DEPTH);
        if self.extend(self.own.outline, &mut path) {
            return Ok(path.into_iter().map(|place| self.candidates[place].0.clone()).collect());
        }
        if self.is_exhausted() {
            return Err(Refusal::TooMuchWork);
        }
        if self.refusal.is_none() {
            // No path at all; but a fault of the certificate itself is reported instead.
            self.check(&[], &[]);
        }
        Err(self.refusal.unwrap_or(Refusal::UnknownIssuer(self.peer)))
    }

    /// Goes on from `head`, the end of `path`; whether a good path was found.
    fn extend(&mut self, head: &Outline<'a>, path: &mut Vec<usize>) -> bool {
        self.steps += 1;
        let authorities = self.authorities;
        let anchors = authorities.named(head.issuer);
        if !anchors.is_empty() && self.try_path(path, anchors) {
            return true;
        }
        if path.len() == DEPTH {
            return false;
        }
        for next in self.issuers_of(head, path) {
            if self.is_exhausted() {
                return false;
            }
            let outline = self.candidates[next].0.clone();
            path.push(next);
            if self.extend(&outline, path) {
                return true;
            }
            path.pop();
        }
        false
    }

    fn is_exhausted(&self) -> bool {
        // One more signature than the limit was requested: see `Counted`.
        self.steps >= STEPS || self.paths >= PATHS || self.signatures.load(Ordering::Relaxed) == usize::MAX
    }

    /// The candidates that may have signed `head`, most promising first.
    fn issuers_of(&self, head: &Outline<'a>, path: &[usize]) -> Vec<usize> {
        let now = i64::try_from(self.now.as_secs()).unwrap_or(i64::MAX);
        let may_follow = |candidate: &Outline<'a>| {
            let same_name = path.iter().map(|place| &self.candidates[*place].0);
            let mut same_name = same_name.filter(|known| known.subject == candidate.subject);
            candidate.subject == head.issuer
                && same_name.clone().all(|known| known.key != candidate.key)
                && same_name.nth(SAME_NAME - 1).is_none()
        };
        let mut issuers: Vec<usize> =
            (0..self.candidates.len()).filter(|place| may_follow(&self.candidates[*place].0)).collect();
        issuers.sort_by_key(|place| {
            let candidate = &self.candidates[*place].0;
            let key = match (head.issuer_key_identifier, candidate.key_identifier) {
                (Some(expected), Some(key)) if expected == key => 0,
                (Some(_), Some(_)) => 2,
                _ => 1,
            };
            let is_valid = candidate.validity().is_some_and(|(from, to)| (from..=to).contains(&now));
            (key, !is_valid)
        });
        issuers
    }

    fn try_path(&mut self, path: &[usize], anchors: &[TrustAnchor<'static>]) -> bool {
        self.paths += 1;
        if self.paths == 1 {
            // If several keys of one name are trusted, all of them are tried.
            *self.signatures.get_mut() += anchors.len() - 1;
        }
        if self.comparisons(path, anchors) > COMPARISONS {
            self.refusal.get_or_insert(Refusal::TooMuchWork);
            return false;
        }
        let certificates: Vec<CertificateDer<'_>> =
            path.iter().map(|place| CertificateDer::from(&**self.candidates[*place].1)).collect();
        self.check(&certificates, anchors)
    }

    /// Returns the number of comparisons of a name with a constraint.
    fn comparisons(&self, path: &[usize], anchors: &[TrustAnchor<'static>]) -> usize {
        let outlines = || path.iter().map(|place| &self.candidates[*place].0);
        let trusted = anchors.iter().filter_map(|anchor| anchor.name_constraints.as_ref());
        let constraints = outlines().map(|outline| outline.constraints).sum::<usize>()
            + trusted.map(|content| constraints(content)).sum::<usize>();
        // Each certificate's subject counts as a name.
        let names = self.own.outline.names + 1 + outlines().map(|outline| outline.names + 1).sum::<usize>();
        constraints.saturating_mul(names)
    }

    /// Has one path checked; whether it is good.
    fn check(&mut self, path: &[CertificateDer<'_>], anchors: &[TrustAnchor<'static>]) -> bool {
        let counted: Vec<Counted<'_>> = algorithms()
            .all
            .iter()
            .map(|algorithm| Counted {
                algorithm: *algorithm,
                left: &self.signatures,
                rewritten: self.own.rewritten,
            })
            .collect();
        let algorithms: Vec<&dyn SignatureVerificationAlgorithm> =
            counted.iter().map(|algorithm| algorithm as _).collect();
        let usage = match self.peer {
            Peer::Client => KeyUsage::client_auth(),
            Peer::Server => KeyUsage::server_auth(),
        };
        let found =
            self.own.certificate.verify_for_usage(&algorithms, anchors, path, self.now, usage, None, None);
        let refusal = match found {
            Ok(path) => match self.revoked(&path).or_else(|| self.revoked_by_staple(&path)) {
                None => return true,
                Some(refusal) => refusal,
            },
            Err(error) => self.refusal_of(&error, path, anchors),
        };
        // Keep the more specific reason: "unknown CA" does not help an operator.
        let is_vague = |refusal: &Refusal| matches!(refusal, Refusal::UnknownIssuer(_));
        if self.refusal.as_ref().is_none_or(is_vague) {
            self.refusal = Some(refusal);
        }
        false
    }

    /// Returns the reason why the lists of its CAs refuse a path that is good otherwise. The trusted CA at its end is
    /// not checked: that was done when it was read.
    fn revoked(&self, path: &VerifiedPath<'_>) -> Option<Refusal> {
        let revocations = self.authorities.revocations.as_ref()?;
        let above: Vec<CertificateDer<'_>> =
            path.intermediate_certificates().map(|certificate| certificate.der()).collect();
        let above: Option<Vec<Outline<'_>>> = above.iter().map(|der| Outline::read(der)).collect();
        // They were read before; what cannot be asked about is not good.
        let Some(above) = above else { return Some(Refusal::Unreadable) };
        let trusted = &path.anchor().subject_public_key_info;
        let issuers = above
            .iter()
            .map(|outline| Issuer { key: outline.key, may_revoke: outline.may_revoke.unwrap_or(true) })
            // Its lists were verified when they were read.
            .chain([Issuer { key: trusted.as_ref(), may_revoke: true }]);
        let certificates = std::iter::once(self.own.outline).chain(&above);
        let mut pairs = certificates.zip(issuers).enumerate();
        pairs.find_map(|(place, (one, issuer))| revocations.check(one, issuer, place == 0, self.now).err())
    }

    /// Returns the reason why the OCSP response of the peer's own certificate refuses a path that is good otherwise.
    fn revoked_by_staple(&self, path: &VerifiedPath<'_>) -> Option<Refusal> {
        let above = path.intermediate_certificates().next().map(|certificate| certificate.der());
        let anchor = path.anchor();
        let issuer = match &above {
            Some(der) => {
                Outline::read(der).map(|outline| IssuerKey { name: outline.subject, key: outline.key })
            }
            None => Some(IssuerKey { name: &anchor.subject, key: &anchor.subject_public_key_info }),
        };
        self.own.stapled.refusal(self.own.der, issuer, self.now)
    }

    fn refusal_of(
        &self,
        error: &webpki::Error,
        path: &[CertificateDer<'_>],
        anchors: &[TrustAnchor<'static>],
    ) -> Refusal {
        let weak = || {
            let above =
                path.iter().filter_map(|der| Outline::read(der).map(|outline| KeyKind::of_key(outline.key)));
            let trusted = anchors.iter().map(|anchor| KeyKind::of_key(&anchor.subject_public_key_info));
            above.chain(trusted).find_map(|key| match key {
                KeyKind::Rsa(bits) if bits < RSA_BITS => {
                    Some(Refusal::WeakKey { weakness: Weakness::TooSmall { bits }, is_own: false })
                }
                _ => None,
            })
        };
        let refusal = Refusal::of_webpki(error, self.peer, self.own.outline);
        if refusal == Refusal::BadSignature { weak().unwrap_or(refusal) } else { refusal }
    }
}

/// An algorithm that is used a limited number of times.
#[derive(Debug)]
struct Counted<'a> {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    /// `usize::MAX` once more was wanted. Atomic for `Sync` only.
    left: &'a AtomicUsize,
    /// See [`Own`].
    rewritten: Option<&'a Rewritten<'a>>,
}

impl SignatureVerificationAlgorithm for Counted<'_> {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        match self.left.load(Ordering::Relaxed) {
            0 | usize::MAX => {
                self.left.store(usize::MAX, Ordering::Relaxed);
                Err(InvalidSignature)
            }
            left => {
                self.left.store(left - 1, Ordering::Relaxed);
                let message = self.rewritten.map_or(message, |rewritten| rewritten.original_of(message));
                self.algorithm.verify_signature(public_key, message, signature)
            }
        }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }
}
