//! One certificate revocation list (CRL), read once and kept as a sorted index of serial numbers.
//!
//! In: DER from a file that the operator named, and the CAs that may have signed it. Out: a [`List`], or what is wrong
//! with it. A million entries become 22 MB, found among by 20 comparisons; dates and reasons of entries are not kept.
//!
//! **Source**: RFC 5280 §5.

use std::fmt;

use super::Issuer;
use super::unverified::{SIZE_LIMIT, Unverified};
use crate::asn1::{Extension, SignedParts, algorithms, name_text, time};
use crate::der::{Der, GENERALIZED_TIME, INTEGER, SEQUENCE, UTC_TIME};
use crate::outline::Outline;

/// Entries of one list. The largest public ones have some hundred thousand.
const ENTRIES: usize = 5_000_000;
/// Bytes of a serial number: 20 by RFC 5280 §4.1.2.2, and a zero in front that some CAs do not count.
const SERIAL: usize = 21;

/// A serial number as it is compared: its length, then its bytes.
type Serial = [u8; 1 + SERIAL];

/// A list whose signature is good, or is still to be verified.
pub struct List {
    /// The CA: its name in DER without the header, and its SubjectPublicKeyInfo likewise. The key is empty where it is not known.
    pub(crate) issuer: Box<[u8]>,
    pub(crate) key: Box<[u8]>,
    unverified: Option<Unverified>,
    /// The CA's name for people.
    pub name: Box<str>,
    /// Seconds of Unix time.
    pub this_update: i64,
    /// Time when the next one is due; `None`: the CA does not state it.
    pub next_update: Option<i64>,
    scope: Scope,
    serials: Box<[Serial]>,
}

/// Certificates of its CA that a list covers (RFC 5280 §5.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Scope {
    users_only: bool,
    authorities_only: bool,
    /// Content of the place where it is published, when it is only about certificates that name this place.
    point: Option<Box<[u8]>>,
}

/// A CA that may sign lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signer<'a> {
    /// As in [`List`].
    pub(crate) subject: &'a [u8],
    pub(crate) key: &'a [u8],
    /// True if its key usage allows it.
    pub(crate) may_revoke: bool,
}

/// Fault of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is damaged; what could not be read.
    Damaged(&'static str),
    /// Bytes after its end.
    Trailing(usize),
    /// Too many entries.
    TooMany,
    /// The serial number of an entry is too long.
    LongSerial(usize),
    /// It lists changes to another list only.
    Delta,
    /// It lists certificates of other CAs too.
    Indirect,
    /// It is about some reasons, or attribute certificates, only.
    Partial(&'static str),
    /// A critical extension that is not known here, in the list or an entry.
    Critical,
    /// No CA has this name.
    Stranger(Box<str>),
    /// Its CA must not sign lists.
    MayNotRevoke(Box<str>),
    /// Signed by an algorithm that is not accepted.
    Algorithm,
    /// The signature is wrong.
    Signature(Box<str>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => write!(f, "the revocation list is damaged: its {what} cannot be read"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes follow the revocation list's end"),
            Self::TooMany => write!(f, "the revocation list has more than {ENTRIES} entries"),
            Self::LongSerial(bytes) => write!(
                f,
                "the revocation list has a serial number of {bytes} bytes, expected 20 at most (RFC 5280 §4.1.2.2)"
            ),
            Self::Delta => f.write_str("is a delta revocation list, expected a complete one"),
            Self::Indirect => f.write_str(
                "is an indirect revocation list, which is about other CAs' certificates too; expected one of each CA's own",
            ),
            Self::Partial(what) => write!(f, "the revocation list is about {what} only, expected all"),
            Self::Critical => f.write_str("the revocation list has a critical extension that is not known here"),
            Self::Stranger(name) => {
                write!(
                    f,
                    "the revocation list is by {name:?}, which is not among the CAs for client certificates, and has more than \
                     {SIZE_LIMIT} bytes"
                )
            }
            Self::MayNotRevoke(name) => {
                write!(f, "the key usage of the CA {name:?} does not allow it to sign revocation lists (cRLSign)")
            }
            Self::Algorithm => f.write_str(
                "the revocation list is signed with an algorithm that is not accepted, expected SHA-256 or better",
            ),
            Self::Signature(name) => write!(f, "the revocation list is not signed by the key of the CA {name:?}"),
        }
    }
}

impl Fault {
    /// Returns an instruction to fix it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Stranger(_) => Some("add the certificate of this CA to `ca`, or take the list away"),
            Self::Delta | Self::Indirect | Self::Partial(_) => {
                Some("let the CA publish complete lists of the certificates that it issued, and name those")
            }
            Self::Damaged(_) | Self::Trailing(_) => {
                Some("fetch it again; openssl crl -in FILE -text shows it")
            }
            _ => None,
        }
    }
}

/// A parsed list before it is verified.
struct Body<'a> {
    issuer: &'a [u8],
    this_update: i64,
    next_update: Option<i64>,
    entries: Der<'a>,
    extensions: Extensions<'a>,
}

/// Values from the extensions of a list.
#[derive(Default)]
struct Extensions<'a> {
    scope: Scope,
    /// Key identifier of its CA.
    authority_key: Option<&'a [u8]>,
}

impl List {
    /// Reads a list, and checks that one of `signers` signed it.
    ///
    /// **Errors**: what is wrong with the file. **Cost**: about 0.3 s and 22 MB for a million entries.
    pub(crate) fn read(der: &[u8], signers: &[Signer<'_>]) -> Result<Self, Fault> {
        let mut outside = Der(der);
        let mut parts = Der(outside.expect(SEQUENCE).ok_or(Fault::Damaged("frame"))?);
        if !outside.is_empty() {
            return Err(Fault::Trailing(outside.0.len()));
        }
        let list = SignedParts::read(&mut parts).map_err(Fault::Damaged)?;
        if !parts.is_empty() {
            return Err(Fault::Trailing(parts.0.len()));
        }
        let body = Body::read(&list)?;
        let name = name_text(body.issuer);
        let (key, unverified) = match signer(&body, &name, &list, signers) {
            Ok(signer) => (signer.key, None),
            Err(Fault::Stranger(_)) if list.signed.len() <= SIZE_LIMIT => {
                (&[][..], Some(Unverified::new(&list, body.extensions.authority_key)))
            }
            Err(fault) => return Err(fault),
        };
        Ok(Self {
            issuer: body.issuer.into(),
            key: key.into(),
            unverified,
            name,
            this_update: body.this_update,
            next_update: body.next_update,
            scope: body.extensions.scope,
            serials: serials(body.entries)?,
        })
    }

    /// Returns true if it is by a CA that is not trusted itself: its signature is not verified yet.
    pub(crate) fn is_unverified(&self) -> bool {
        self.unverified.is_some()
    }

    /// Returns true if the CA with its name and this key signed it.
    pub(crate) fn is_by(&self, issuer: Issuer<'_>) -> bool {
        match &self.unverified {
            Some(unverified) => issuer.may_revoke && unverified.is_by(issuer.key),
            None => *self.key == *issuer.key,
        }
    }

    /// Returns true if it is by the CA with this certificate, in DER, and was verified. False for a certificate that cannot be read.
    pub fn is_of(&self, authority: &[u8]) -> bool {
        Outline::read(authority).is_some_and(|own| *self.issuer == *own.subject && *self.key == *own.key)
    }

    /// Returns true if it has this serial number.
    ///
    /// **Cost**: 20 comparisons for a million entries.
    pub(crate) fn has(&self, serial: &[u8]) -> bool {
        key_of(serial).is_some_and(|serial| self.serials.binary_search(&serial).is_ok())
    }

    /// Returns true if it covers this certificate of its CA.
    pub(crate) fn is_about(&self, certificate: &Outline<'_>) -> bool {
        let Scope { users_only, authorities_only, point } = &self.scope;
        let is_of_its_kind = if certificate.is_authority { !users_only } else { !authorities_only };
        is_of_its_kind
            && point.as_deref().is_none_or(|point| names_point(certificate.distribution_points, point))
    }

    /// Returns true if one of the two lists replaces the other.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let authority_key = |list: &Self| list.unverified.as_ref().map(|list| list.authority_key.clone());
        (&self.issuer, &self.key, &self.scope) == (&other.issuer, &other.key, &other.scope)
            && authority_key(self) == authority_key(other)
    }

    /// Returns the number of certificates that it revokes.
    pub fn entries(&self) -> usize {
        self.serials.len()
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("name", &self.name)
            .field("entries", &self.entries())
            .finish_non_exhaustive()
    }
}

impl<'a> Body<'a> {
    fn read(list: &SignedParts<'a>) -> Result<Self, Fault> {
        let damaged = Fault::Damaged;
        let mut body = Der(Der(list.signed).expect(SEQUENCE).ok_or(damaged("content"))?);
        // Version 2 is written as 1; version 1 is not written, and has no extensions.
        if body.optional(INTEGER).is_some_and(|version| version != [1]) {
            return Err(damaged("version"));
        }
        if body.expect(SEQUENCE) != Some(list.algorithm) {
            return Err(damaged("signature algorithm"));
        }
        let issuer = body.expect(SEQUENCE).ok_or(damaged("issuer"))?;
        let this_update = time(&mut body).ok_or(damaged("time"))?;
        let has_next = matches!(body.0.first(), Some(&(UTC_TIME | GENERALIZED_TIME)));
        let next_update =
            if has_next { Some(time(&mut body).ok_or(damaged("time of the next update"))?) } else { None };
        let entries = match body.0.first() {
            Some(&SEQUENCE) => body.expect(SEQUENCE).ok_or(damaged("entries"))?,
            _ => &[],
        };
        let mut extensions = Extensions::default();
        if !body.is_empty() {
            let wrapped = body.expect(0xa0).and_then(|wrapped| Der(wrapped).expect(SEQUENCE));
            extensions = extensions_of(Der(wrapped.ok_or(damaged("extensions"))?))?;
        }
        if !body.is_empty() {
            return Err(damaged("end"));
        }
        Ok(Self { issuer, this_update, next_update, entries: Der(entries), extensions })
    }
}

/// The extensions of a list that change what it means (RFC 5280 §5.2).
fn extensions_of(mut extensions: Der<'_>) -> Result<Extensions<'_>, Fault> {
    let mut found = Extensions::default();
    while !extensions.is_empty() {
        let extension = Extension::read(&mut extensions).ok_or(Fault::Damaged("extensions"))?;
        let Extension { identifier, is_critical, value, .. } = extension;
        match identifier {
            [0x55, 0x1d, 27] => return Err(Fault::Delta),
            [0x55, 0x1d, 28] => found.scope = scope_of(value)?,
            [0x55, 0x1d, 35] => {
                found.authority_key = Der(value).expect(SEQUENCE).and_then(|names| Der(names).optional(0x80));
            }
            // Its number, and where else to look.
            [0x55, 0x1d, 20 | 46 | 18] => {}
            _ if is_critical => return Err(Fault::Critical),
            _ => {}
        }
    }
    Ok(found)
}

/// The content of an issuing distribution point (RFC 5280 §5.2.5).
fn scope_of(value: &[u8]) -> Result<Scope, Fault> {
    let damaged = Fault::Damaged("distribution point");
    let mut fields = Der(Der(value).expect(SEQUENCE).ok_or(damaged.clone())?);
    let mut scope = Scope::default();
    while !fields.is_empty() {
        let (tag, content) = fields.next().ok_or(damaged.clone())?;
        let is_true = content != [0];
        match tag {
            0xa0 => scope.point = Some(content.into()),
            0x81 => scope.users_only = is_true,
            0x82 => scope.authorities_only = is_true,
            0x83 => return Err(Fault::Partial("some reasons")),
            0x84 if is_true => return Err(Fault::Indirect),
            0x85 if is_true => return Err(Fault::Partial("attribute certificates")),
            _ => {}
        }
    }
    Ok(scope)
}

/// Returns true if the distribution points of a certificate and of a list have a name in common (RFC 5280 §6.3.3
/// (b)(2)(i)).
fn names_point(points: &[u8], point: &[u8]) -> bool {
    // fullName; a name relative to the issuer is compared as it is.
    let names = |content: &[u8]| Der(content).optional(0xa0).map(<[u8]>::to_vec);
    let expected = names(point);
    let has = |mut all: Der<'_>, name: &[u8]| {
        while let Some(one) = next_whole(&mut all) {
            if one == name {
                return true;
            }
        }
        false
    };
    let mut points = Der(points);
    while let Some(content) = points.expect(SEQUENCE) {
        let Some(content) = Der(content).optional(0xa0) else { continue };
        if content == point {
            return true;
        }
        let (Some(name), Some(own)) = (&expected, names(content)) else { continue };
        let mut expected = Der(name);
        while let Some(name) = next_whole(&mut expected) {
            if has(Der(&own), name) {
                return true;
            }
        }
    }
    false
}

fn next_whole<'a>(values: &mut Der<'a>) -> Option<&'a [u8]> {
    let tag = *values.0.first()?;
    values.whole(tag)
}

/// Finds the CA that signed a list.
fn signer<'a>(
    body: &Body<'_>,
    name: &str,
    list: &SignedParts<'_>,
    signers: &[Signer<'a>],
) -> Result<Signer<'a>, Fault> {
    let mut of_that_name = signers.iter().filter(|signer| signer.subject == body.issuer).peekable();
    if of_that_name.peek().is_none() {
        return Err(Fault::Stranger(name.into()));
    }
    if !algorithms().all.iter().any(|one| one.signature_alg_id().as_ref() == list.algorithm) {
        return Err(Fault::Algorithm);
    }
    match of_that_name.find(|signer| list.is_by(signer.key)) {
        None => Err(Fault::Signature(name.into())),
        Some(signer) if !signer.may_revoke => Err(Fault::MayNotRevoke(name.into())),
        Some(signer) => Ok(*signer),
    }
}

/// The serial numbers, in the order of their keys.
fn serials(mut entries: Der<'_>) -> Result<Box<[Serial]>, Fault> {
    let count = entries.count();
    if count > ENTRIES {
        return Err(Fault::TooMany);
    }
    let mut serials = Vec::with_capacity(count);
    while !entries.is_empty() {
        let damaged = || Fault::Damaged("entries");
        let mut entry = Der(entries.expect(SEQUENCE).ok_or_else(damaged)?);
        let serial = entry.expect(INTEGER).ok_or_else(damaged)?;
        serials.push(key_of(serial).ok_or(Fault::LongSerial(serial.len()))?);
        match entry.next() {
            Some((UTC_TIME | GENERALIZED_TIME, _)) => {}
            _ => return Err(damaged()),
        }
        if !entry.is_empty() {
            entry_extensions(Der(entry.expect(SEQUENCE).ok_or_else(damaged)?))?;
        }
    }
    serials.sort_unstable();
    serials.dedup();
    Ok(serials.into_boxed_slice())
}

/// RFC 5280 §5.3: an entry about another CA's certificate has a critical extension.
fn entry_extensions(mut extensions: Der<'_>) -> Result<(), Fault> {
    while !extensions.is_empty() {
        let extension = Extension::read(&mut extensions).ok_or(Fault::Damaged("entries"))?;
        let Extension { identifier, is_critical, .. } = extension;
        match identifier {
            [0x55, 0x1d, 29] => return Err(Fault::Indirect),
            [0x55, 0x1d, 21 | 24] => {}
            _ if is_critical => return Err(Fault::Critical),
            _ => {}
        }
    }
    Ok(())
}

/// The key of a serial number; `None` when it is too long. Two writings of one number have one key: what CAs and their
/// tools write is not always the shortest form.
fn key_of(mut serial: &[u8]) -> Option<Serial> {
    while let [0, second, ..] = serial
        && second & 0x80 == 0
    {
        serial = &serial[1..];
    }
    let mut key = [0; 1 + SERIAL];
    key[0] = u8::try_from(serial.len()).ok()?;
    key.get_mut(1..=serial.len())?.copy_from_slice(serial);
    Some(key)
}

#[cfg(test)]
mod tests;
