//! Certificate revocation lists (CRLs): certificates that their CAs have revoked.
//!
//! In: files and folders of lists, in PEM or DER, and the CAs that may have signed them. Out: [`Revocations`], asked for each certificate
//! of a path that is good otherwise. Lists are read when a state is made, never for a client, and those of trusted CAs are verified then;
//! the others when a client sends the CA's certificate (`revocation/unverified.rs`). Left out on purpose: delta and indirect lists, and
//! fetching.

use std::collections::HashMap;
use std::sync::Arc;

use rustls_pki_types::UnixTime;

pub use files::{KnownLists, Read, late_at, read};
pub use list::List;

use crate::asn1::name_text;
use crate::outline::Outline;
use crate::presented::Refusal;

mod files;
mod list;
mod unverified;

/// Tolerance for clients whose CA has no list in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lenience {
    /// Those of a CA that has no list are let in.
    pub accept_missing: bool,
    /// Those of a CA whose list has expired are let in, unless it names them.
    pub accept_expired: bool,
}

/// A CA, as far as its lists are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issuer<'a> {
    /// Its SubjectPublicKeyInfo without the header.
    pub(crate) key: &'a [u8],
    /// True if its key usage allows it to sign lists.
    pub(crate) may_revoke: bool,
}

/// The lists that are in force.
#[derive(Clone, Debug, Default)]
pub struct Revocations {
    /// By the name of the CA.
    lists: HashMap<Box<[u8]>, Vec<Arc<List>>>,
    lenience: Lenience,
}

impl Revocations {
    /// The lists, and the tolerance where there is none.
    pub fn new(lists: &[Arc<List>], lenience: Lenience) -> Self {
        let mut by_issuer: HashMap<Box<[u8]>, Vec<Arc<List>>> = HashMap::new();
        for list in lists {
            by_issuer.entry(list.issuer.clone()).or_default().push(Arc::clone(list));
        }
        Self { lists: by_issuer, lenience }
    }

    /// The lists of the CA with this name and key.
    pub(crate) fn of(&self, name: &[u8], issuer: Issuer<'_>) -> impl Iterator<Item = &Arc<List>> {
        self.lists.get(name).into_iter().flatten().filter(move |list| list.is_by(issuer))
    }

    /// The name of the CA with the certificate `issuer`, if a list of it has the serial number of `certificate`, both in DER. The
    /// lists of a CA that is trusted itself were verified when they were read.
    pub fn revoked_by(&self, certificate: &[u8], issuer: &[u8]) -> Option<Box<str>> {
        let (own, issuer) = (Outline::read(certificate)?, Outline::read(issuer)?);
        let mut lists = self.of(issuer.subject, Issuer { key: issuer.key, may_revoke: true });
        lists.find(|list| list.has(own.serial)).map(|list| list.name.clone())
    }

    /// Checks a certificate that `issuer` signed; `is_own`: it is the peer's own and not a CA's above it.
    ///
    /// A CA above the peer's needs no list: an operator who configures lists of the signing CAs seldom has the root's.
    ///
    /// **Errors**: it was revoked, or it is not known whether it was.
    ///
    /// **Cost**: a search in each list of this CA, about a microsecond. For the first certificate of a CA that clients send, its
    /// list is verified, which takes at most a millisecond.
    pub(crate) fn check(
        &self,
        certificate: &Outline<'_>,
        issuer: Issuer<'_>,
        is_own: bool,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let mut due = None;
        let (mut is_covered, mut is_current) = (false, false);
        for list in self.of(certificate.issuer, issuer) {
            if list.has(certificate.serial) {
                return Err(Refusal::Revoked { by: list.name.clone(), is_own });
            }
            if list.is_about(certificate) {
                is_covered = true;
                let is_over = list.next_update.is_some_and(|next| next < now);
                is_current |= !is_over;
                if is_over {
                    due = due.max(list.next_update.map(|next| (next, &list.name)));
                }
            }
        }
        match due {
            _ if is_current => Ok(()),
            Some((since, by)) if !self.lenience.accept_expired => {
                Err(Refusal::ListExpired { by: by.clone(), since })
            }
            None if is_own && !is_covered && !self.lenience.accept_missing => {
                Err(Refusal::NoList { by: name_text(certificate.issuer) })
            }
            _ => Ok(()),
        }
    }
}
