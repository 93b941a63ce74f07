//! Reads a certificate: the fields that decisions are made of, in one pass, without allocation.
//!
//! In: DER from a peer or a file. Out: an [`Outline`] that borrows from it. It tolerates what OpenSSL and webpki tolerate, because the
//! peer or the operator has no other certificate.
//!
//! | for | reader of the rest |
//! |---|---|
//! | a peer's chain | webpki, which verifies it strictly |
//! | a file that is served | `strict.rs`, which refuses what clients refuse; `parsed.rs`, which has x509-parser name faults of extensions and write names |

use crate::asn1::{Extension, SignedParts, time};
use crate::der::{BIT_STRING, BOOLEAN, Der, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};

pub(crate) mod strict;

/// More extensions than any certificate has; some twelve are usual. Each is looked at again for every path.
const EXTENSIONS: usize = 64;
/// Tags of alternative names (RFC 5280 §4.2.1.6).
pub(crate) const EMAIL: u8 = 0x81;
pub(crate) const DNS: u8 = 0x82;
/// More purposes (extended key usages) than any certificate has.
const PURPOSES: usize = 64;

/// The frame of one certificate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline<'a> {
    /// 1, 2 or 3.
    pub(crate) version: u8,
    /// Content of its serial number.
    pub(crate) serial: &'a [u8],
    /// Names in DER, without their outermost header, to be compared byte by byte.
    pub(crate) issuer: &'a [u8],
    pub(crate) subject: &'a [u8],
    /// SubjectPublicKeyInfo, without its outermost header.
    pub(crate) key: &'a [u8],
    /// The same with its header: what pins are made of.
    pub(crate) key_whole: &'a [u8],
    /// The signed part, and its issuer's signature.
    pub(crate) parts: SignedParts<'a>,
    /// Content of the version, where it is written.
    version_number: Option<&'a [u8]>,
    /// The algorithm of its signature, as the signed part states it.
    inner_algorithm: &'a [u8],
    validity: &'a [u8],
    extensions: Option<&'a [u8]>,
    /// Bytes behind the last known value of the signed part, of the certificate, and behind it; a certificate that is whole has none.
    rests: [Der<'a>; 3],
    /// True if its basic constraints make it a CA.
    pub(crate) is_authority: bool,
    /// True if its key may sign handshakes; `None`: it has no key usage.
    pub(crate) may_sign: Option<bool>,
    /// True if it may sign revocation lists; `None`: it has no key usage.
    pub(crate) may_revoke: Option<bool>,
    /// Identifier of its key (`issuer_key_identifier`: of its issuer's key).
    pub(crate) key_identifier: Option<&'a [u8]>,
    pub(crate) issuer_key_identifier: Option<&'a [u8]>,
    /// Object identifiers of the extended key usage, in DER; `None`: any purpose.
    purposes: Option<&'a [u8]>,
    /// Content of the alternative names, and how many these are.
    pub(crate) alternative_names: &'a [u8],
    pub(crate) names: usize,
    /// Content of the places where its issuer's revocation lists are (RFC 5280 §4.2.1.13).
    pub(crate) distribution_points: &'a [u8],
    /// Subtrees of its name constraints.
    pub(crate) constraints: usize,
}

impl<'a> Outline<'a> {
    /// The outline of a certificate; `None` when it has none, or far more parts than a certificate has.
    ///
    /// **Cost**: one pass over the bytes, about a microsecond for a usual certificate.
    pub(crate) fn read(der: &'a [u8]) -> Option<Self> {
        let mut outline = Self::without_extensions(der)?;
        outline.read_extensions()?;
        Some(outline)
    }

    /// The same, and no extension was read: its fields have their defaults.
    fn without_extensions(der: &'a [u8]) -> Option<Self> {
        let mut outside = Der(der);
        let mut certificate = Der(outside.expect(SEQUENCE)?);
        let parts = SignedParts::read(&mut certificate).ok()?;
        let mut body = Der(Der(parts.signed).expect(SEQUENCE)?);
        let version_number = body.optional(0xa0);
        let version = match version_number {
            Some(version) => Der(version).expect(INTEGER)?.last()?.checked_add(1)?,
            None => 1,
        };
        let serial = body.expect(INTEGER)?;
        let inner_algorithm = body.expect(SEQUENCE)?;
        let issuer = body.expect(SEQUENCE)?;
        let validity = body.expect(SEQUENCE)?;
        let subject = body.expect(SEQUENCE)?;
        let key_whole = body.whole(SEQUENCE)?;
        let key = Der(key_whole).expect(SEQUENCE)?;
        // Two identifiers that are not in use (RFC 5280 §4.1.2.8).
        body.optional(0x81);
        body.optional(0x82);
        let extensions = body.optional(0xa3);
        Some(Self {
            version,
            serial,
            issuer,
            subject,
            key,
            key_whole,
            parts,
            version_number,
            inner_algorithm,
            validity,
            extensions,
            rests: [body, certificate, outside],
            ..Self::default()
        })
    }

    fn read_extensions(&mut self) -> Option<()> {
        let Some(extensions) = self.extensions else { return Some(()) };
        let mut extensions = Der(Der(extensions).expect(SEQUENCE)?);
        for _ in 0..EXTENSIONS {
            if extensions.is_empty() {
                return Some(());
            }
            let Extension { identifier, value, .. } = Extension::read(&mut extensions)?;
            // The arc of RFC 5280 §4.2.1: 2.5.29.
            if let [0x55, 0x1d, number] = identifier {
                self.read_extension(*number, Der(value))?;
            }
        }
        None
    }

    fn read_extension(&mut self, number: u8, mut value: Der<'a>) -> Option<()> {
        match number {
            14 => self.key_identifier = Some(value.expect(OCTET_STRING)?),
            // Bits 0 (digitalSignature) and 6 (cRLSign) of the first byte after the number of unused ones.
            15 => {
                let first = value.expect(BIT_STRING)?.get(1);
                self.may_sign = Some(first.is_some_and(|first| first & 0x80 != 0));
                self.may_revoke = Some(first.is_some_and(|first| first & 0x02 != 0));
            }
            17 => {
                self.alternative_names = value.expect(SEQUENCE)?;
                self.names = Der(self.alternative_names).count();
            }
            19 => {
                let is_authority = Der(value.expect(SEQUENCE)?).optional(BOOLEAN);
                self.is_authority = is_authority.is_some_and(|value| value == [0xff]);
            }
            31 => self.distribution_points = value.expect(SEQUENCE)?,
            30 => self.constraints = constraints(value.expect(SEQUENCE)?),
            35 => self.issuer_key_identifier = Der(value.expect(SEQUENCE)?).optional(0x80),
            37 => {
                let purposes = value.expect(SEQUENCE)?;
                self.purposes = Some(purposes);
                return (Der(purposes).count() <= PURPOSES).then_some(());
            }
            _ => {}
        }
        Some(())
    }

    /// Returns true if it has alternative names with this tag.
    pub(crate) fn has_names(&self, tag: u8) -> bool {
        let mut names = Der(self.alternative_names);
        std::iter::from_fn(|| names.next()).any(|(other, _)| other == tag)
    }

    /// Seconds of Unix time between which it is valid; `None` when they cannot be read.
    pub(crate) fn validity(&self) -> Option<(i64, i64)> {
        let mut times = Der(self.validity);
        Some((time(&mut times)?, time(&mut times)?))
    }

    /// Returns true if its issuer and its subject are the same.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// Returns true if its extended key usage lists the purpose with this object identifier; false without an extended
    /// key usage.
    pub(crate) fn names_purpose(&self, purpose: &[u8]) -> bool {
        self.purposes.is_some() && self.is_for(purpose)
    }

    /// Returns true if it may be used for the purpose with this object identifier.
    pub(crate) fn is_for(&self, purpose: &[u8]) -> bool {
        let Some(purposes) = self.purposes else { return true };
        let mut purposes = Der(purposes);
        while let Some((tag, identifier)) = purposes.next() {
            if tag == OBJECT_IDENTIFIER && identifier == purpose {
                return true;
            }
        }
        false
    }
}

/// Subtrees in the content of a NameConstraints (RFC 5280 §4.2.1.10).
pub(crate) fn constraints(content: &[u8]) -> usize {
    let mut lists = Der(content);
    let mut count = 0;
    while let Some((_, list)) = lists.next() {
        count += Der(list).count();
    }
    count
}
