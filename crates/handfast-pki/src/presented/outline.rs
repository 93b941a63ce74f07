//! The fields of a certificate that are needed before expensive checks: read in one pass, without allocation.
//!
//! In: DER from a peer. Out: an [`Outline`] that borrows from it. Only the frame is checked here: a certificate that is
//! used is read again, and strictly, by webpki.

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::der::{BIT_STRING, BOOLEAN, Der, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, bits};

/// More extensions than any certificate has; some twelve are usual. Each is looked at again for every path.
const EXTENSIONS: usize = 64;
/// Tags of alternative names (RFC 5280 §4.2.1.6).
pub(crate) const EMAIL: u8 = 0x81;
pub(crate) const DNS: u8 = 0x82;
/// More purposes (extended key usages) than any certificate has.
const PURPOSES: usize = 64;

/// The frame of one certificate.
#[derive(Clone, Debug)]
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
    validity: &'a [u8],
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

/// Kind of a public key, as far as it matters whether it is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublicKeyKind {
    /// RSA, with its bits.
    Rsa(usize),
    /// Another kind that can be verified here.
    Known,
    /// One that cannot, by name.
    Unknown(&'static str),
}

impl<'a> Outline<'a> {
    /// The outline of a certificate; `None` when it has none, or far more parts than a certificate has.
    ///
    /// **Cost**: one pass over the bytes, about a microsecond for a usual certificate.
    pub(crate) fn read(der: &'a [u8]) -> Option<Self> {
        let mut outside = Der(der);
        let mut certificate = Der(outside.expect(SEQUENCE)?);
        let mut body = Der(certificate.expect(SEQUENCE)?);
        let version = match body.optional(0xa0) {
            Some(version) => Der(version).expect(INTEGER)?.last()?.checked_add(1)?,
            None => 1,
        };
        let serial = body.expect(INTEGER)?;
        body.expect(SEQUENCE)?; // signature algorithm
        let issuer = body.expect(SEQUENCE)?;
        let validity = body.expect(SEQUENCE)?;
        let subject = body.expect(SEQUENCE)?;
        let key_whole = body.whole(SEQUENCE)?;
        let key = Der(key_whole).expect(SEQUENCE)?;
        let mut outline = Self {
            version,
            serial,
            issuer,
            subject,
            key,
            key_whole,
            validity,
            is_authority: false,
            may_sign: None,
            may_revoke: None,
            key_identifier: None,
            issuer_key_identifier: None,
            purposes: None,
            alternative_names: &[],
            names: 0,
            distribution_points: &[],
            constraints: 0,
        };
        // Two identifiers that are not in use (RFC 5280 §4.1.2.8).
        body.optional(0x81);
        body.optional(0x82);
        if let Some(extensions) = body.optional(0xa3) {
            outline.read_extensions(Der(Der(extensions).expect(SEQUENCE)?))?;
        }
        Some(outline)
    }

    fn read_extensions(&mut self, mut extensions: Der<'a>) -> Option<()> {
        for _ in 0..EXTENSIONS {
            if extensions.is_empty() {
                return Some(());
            }
            let mut extension = Der(extensions.expect(SEQUENCE)?);
            let identifier = extension.expect(OBJECT_IDENTIFIER)?;
            extension.optional(BOOLEAN);
            let value = Der(extension.expect(OCTET_STRING)?);
            // The arc of RFC 5280 §4.2.1: 2.5.29.
            if let [0x55, 0x1d, number] = identifier {
                self.read_extension(*number, value)?;
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

    /// Kind of its key.
    pub(crate) fn key_kind(&self) -> PublicKeyKind {
        key_kind(self.key)
    }

    /// Seconds of Unix time between which it is valid; `None` when they cannot be read.
    pub(crate) fn validity(&self) -> Option<(i64, i64)> {
        let (rest, from) = ASN1Time::from_der(self.validity).ok()?;
        let (_, to) = ASN1Time::from_der(rest).ok()?;
        Some((from.timestamp(), to.timestamp()))
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

/// Kind of the key in the content of a SubjectPublicKeyInfo.
pub(crate) fn key_kind(content: &[u8]) -> PublicKeyKind {
    kind_if_readable(content).unwrap_or(PublicKeyKind::Unknown("a key that cannot be read"))
}

fn kind_if_readable(content: &[u8]) -> Option<PublicKeyKind> {
    let mut content = Der(content);
    let mut algorithm = Der(content.expect(SEQUENCE)?);
    let kind = match algorithm.expect(OBJECT_IDENTIFIER)? {
        // 1.2.840.113549.1.1.1
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1] => {
            // One byte states that no bits are unused.
            let key = content.expect(BIT_STRING)?.get(1..)?;
            PublicKeyKind::Rsa(bits(Der(Der(key).expect(SEQUENCE)?).expect(INTEGER)?))
        }
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10] => {
            PublicKeyKind::Unknown("an RSA key marked for PSS only")
        }
        // 1.2.840.10045.2.1, and P-256, P-384, P-521 by name.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1] => match algorithm.optional(OBJECT_IDENTIFIER) {
            Some([0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7] | [0x2b, 0x81, 4, 0, 34 | 35]) => {
                PublicKeyKind::Known
            }
            _ => PublicKeyKind::Unknown("an ECDSA key on a curve other than P-256, P-384, P-521"),
        },
        [0x2b, 0x65, 0x70] => PublicKeyKind::Known, // Ed25519
        [0x2b, 0x65, 0x71] => PublicKeyKind::Unknown("an Ed448 key"),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 17..=19] => PublicKeyKind::Known, // ML-DSA
        [0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1] => PublicKeyKind::Unknown("a DSA key"),
        _ => PublicKeyKind::Unknown("a key of a kind that is not known here"),
    };
    Some(kind)
}

/// The use of a certificate that is configured as trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It vouches for others. One of X.509 version 1 that signed itself does so too, as OpenSSL has it: in that version
    /// nothing could show that.
    Authority,
    /// It signed itself and is no CA: it vouches for itself alone.
    Itself,
    /// It can sign no certificate.
    Leaf,
}

/// The standing of a certificate that is named as trusted; `None` when it cannot be read.
pub fn standing(certificate: &CertificateDer<'_>) -> Option<Standing> {
    let outline = Outline::read(certificate)?;
    Some(match (outline.is_authority, outline.is_self_issued(), outline.version) {
        (true, ..) | (false, true, 1) => Standing::Authority,
        (false, true, _) => Standing::Itself,
        (false, false, _) => Standing::Leaf,
    })
}
