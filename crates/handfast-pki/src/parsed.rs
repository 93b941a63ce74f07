//! A certificate of a file: its fields, owned, so that a file is parsed once.
//!
//! In: DER. Out: a [`Parsed`], or the fault for the operator. x509-parser reads it, because a message needs names as text and the
//! extension that cannot be read; `outline.rs`, which reads what peers send, has neither. Next: `certificate.rs` makes chains of them.

use std::fmt;
use std::net::IpAddr;

use rustls_pki_types::CertificateDer;
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::nom;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::asn1::Signed;
use crate::der::{Der, SEQUENCE};
use crate::key_kind::KeyKind;
use crate::names::ip_address;
use crate::outline::strict;
use crate::weak::{self, Lists, Weakness};

/// One certificate of a file.
#[derive(Debug)]
pub struct Parsed {
    /// The whole certificate.
    pub der: CertificateDer<'static>,
    /// Kind of the public key.
    pub kind: KeyKind,
    /// SubjectPublicKeyInfo in DER: what a key must equal.
    pub(crate) public_key: Box<[u8]>,
    /// Names in DER, to be compared byte by byte (RFC 5280 §7.1 allows more, CAs do not use it).
    pub subject_der: Box<[u8]>,
    /// Name of its issuer, likewise.
    pub issuer_der: Box<[u8]>,
    /// Its subject as text.
    pub subject: Box<str>,
    pub(crate) is_authority: bool,
    /// First second of its validity, Unix time.
    pub not_before: i64,
    /// Last second of its validity, Unix time.
    pub not_after: i64,
    /// Names that a client can request, in lower case.
    pub dns_names: Vec<Box<str>>,
    /// IP addresses that a client can request.
    pub ip_names: Vec<IpAddr>,
    /// DNS names that no client can request: wildcards in a wrong place, letters that are none.
    pub(crate) unusable_names: Vec<Box<str>>,
    /// The common name, when it looks like a host name.
    pub(crate) common_name: Option<Box<str>>,
    /// The hash of its signature, if that can be forged: `MD5`, `SHA-1`.
    pub(crate) broken_hash: Option<&'static str>,
    /// True if it claims to be from a publicly trusted CA.
    pub(crate) is_public: bool,
    /// True if it contains an address of its issuer's certificate.
    pub(crate) names_issuer: bool,
    /// It demands a stapled OCSP response (RFC 7633, "must-staple").
    pub demands_staple: bool,
    /// Result of the check of its signature against an issuer in the same file.
    pub(crate) signed: Signed,
}

/// Reason why bytes are not a certificate.
#[derive(Debug)]
pub enum Malformed {
    /// They are not the DER of one.
    Structure(nom::Err<X509Error>),
    /// This number of bytes follows its end.
    Trailing(usize),
    /// Its alternative names cannot be read.
    AlternativeNames(X509Error),
    /// It is not as DER and RFC 5280 write it.
    Loose(strict::Fault),
    /// This extension, by its identifier, cannot be read.
    Extension(String),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Structure(error) => write!(f, "{error}"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes follow the certificate's end"),
            Self::AlternativeNames(error) => write!(f, "alternative names: {error}"),
            Self::Loose(fault) => write!(f, "it has {fault}"),
            Self::Extension(identifier) => write!(f, "its extension {identifier} cannot be read"),
        }
    }
}

impl Parsed {
    /// Parses one certificate.
    ///
    /// **Errors**: it is none, or its names cannot be read: the file is at fault.
    pub fn from_der(der: &[u8]) -> Result<Self, Malformed> {
        let (rest, x509) = X509Certificate::from_der(der).map_err(Malformed::Structure)?;
        if !rest.is_empty() {
            return Err(Malformed::Trailing(rest.len()));
        }
        let names = names(&x509)?;
        strict::check(der).map_err(Malformed::Loose)?;
        let broken =
            x509.extensions().iter().find(|extension| extension.parsed_extension().error().is_some());
        if let Some(extension) = broken {
            return Err(Malformed::Extension(extension.oid.to_id_string()));
        }
        let key = x509.public_key();
        Ok(Self {
            kind: Der(key.raw).expect(SEQUENCE).map_or(KeyKind::of_key(&[]), KeyKind::of_key),
            public_key: key.raw.into(),
            subject_der: x509.subject().as_raw().into(),
            issuer_der: x509.issuer().as_raw().into(),
            subject: x509.subject().to_string().into(),
            is_authority: x509.is_ca(),
            not_before: x509.validity().not_before.timestamp(),
            not_after: x509.validity().not_after.timestamp(),
            dns_names: names.dns,
            ip_names: names.ip,
            unusable_names: names.unusable,
            common_name: names.common,
            broken_hash: broken_hash(&x509),
            is_public: is_public(&x509),
            names_issuer: names_issuer(&x509),
            demands_staple: demands_staple(&x509),
            signed: Signed::Unknown,
            der: CertificateDer::from(der.to_vec()),
        })
    }

    /// Returns a known weakness of its key: by its numbers, or by these lists.
    ///
    /// **Cost**: see [`PublicKey::weaknesses`].
    pub fn weakness(&self, known_keys: &Lists) -> Option<Weakness> {
        let key = weak::PublicKey::from_info(&self.public_key)?;
        key.weaknesses().into_iter().next().or_else(|| known_keys.find(&key))
    }

    /// Returns the issuer's distinguished name as text.
    pub(crate) fn issuer(&self) -> String {
        X509Certificate::from_der(&self.der)
            .map_or_else(|_| String::new(), |(_, x509)| x509.issuer().to_string())
    }

    /// Returns true if its issuer and its subject are the same.
    pub fn is_self_issued(&self) -> bool {
        self.subject_der == self.issuer_der
    }
}

#[derive(Default)]
struct Names {
    dns: Vec<Box<str>>,
    ip: Vec<IpAddr>,
    unusable: Vec<Box<str>>,
    common: Option<Box<str>>,
}

/// Names by which a client may ask: only the subject alternative names count.
///
/// **Source**: RFC 9525 §2, "the Common Name RDN … MUST NOT be used to identify a service".
fn names(x509: &X509Certificate<'_>) -> Result<Names, Malformed> {
    let mut names = Names::default();
    let extension = x509.subject_alternative_name().map_err(Malformed::AlternativeNames)?;
    for name in extension.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(name) if is_usable(name) => {
                let name = name.to_ascii_lowercase().into_boxed_str();
                if !names.dns.contains(&name) {
                    names.dns.push(name);
                }
            }
            GeneralName::DNSName(name) => names.unusable.push((*name).into()),
            GeneralName::IPAddress(bytes) => names.ip.extend(ip_address(bytes)),
            _ => {}
        }
    }
    let common = x509.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    names.common = common.filter(|name| name.contains('.') && is_usable(name)).map(Into::into);
    Ok(names)
}

/// Returns true if a client can request `name`: a DNS name, or one with `*` as its whole first label.
///
/// **Source**: RFC 9525 §6.3 for the wildcard. Underscores are not in host names by RFC 952, but in use.
fn is_usable(name: &str) -> bool {
    let host = name.strip_prefix("*.").unwrap_or(name);
    let label_is_usable = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && !host.is_empty() && host.split('.').all(label_is_usable)
}

/// The hash of a signature that can be forged: browsers refuse it, and so does OpenSSL as it comes.
fn broken_hash(x509: &X509Certificate<'_>) -> Option<&'static str> {
    match x509.signature_algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.2" | "1.2.840.113549.1.1.4" => Some("MD5"),
        "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" | "1.2.840.10045.4.1" | "1.2.840.10040.4.3" => Some("SHA-1"),
        _ => None,
    }
}

/// A certificate of a publicly trusted CA is in a log of Certificate Transparency (RFC 6962 §3.3), or names a policy of the
/// CA/Browser Forum (baseline requirements 7.1.6.1); no other one does.
fn is_public(x509: &X509Certificate<'_>) -> bool {
    x509.extensions().iter().any(|extension| match extension.parsed_extension() {
        ParsedExtension::SCT(_) => true,
        ParsedExtension::CertificatePolicies(policies) => {
            policies.iter().any(|policy| policy.policy_id.to_id_string().starts_with("2.23.140.1."))
        }
        _ => false,
    })
}

/// Returns true if its TLS features (RFC 7633 §6) have `status_request`, number 5.
fn demands_staple(x509: &X509Certificate<'_>) -> bool {
    let features =
        x509.extensions().iter().find(|extension| extension.oid.to_id_string() == "1.3.6.1.5.5.7.1.24");
    // A sequence of integers: each has its tag, its length and, for this number, one byte.
    features.is_some_and(|features| features.value.windows(3).any(|number| number == [2, 1, 5]))
}

/// Returns true if it has an address of id-ad-caIssuers (RFC 5280 §4.2.2.1).
fn names_issuer(x509: &X509Certificate<'_>) -> bool {
    x509.extensions().iter().any(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => {
            access.iter().any(|access| access.access_method.to_id_string() == "1.3.6.1.5.5.7.48.2")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_asked_for() {
        for name in
            ["localhost", "a.example.org", "*.example.org", "xn--bcher-kva.example", "_acme.example.org"]
        {
            assert!(is_usable(name), "{name}");
        }
        let long = format!("{}.example.org", "a".repeat(64));
        for name in
            ["", "*", "*.", "a.*.org", "f*.example.org", "*.*.org", "a..b", "a b", "a/b", ".a", "a.", &long]
        {
            assert!(!is_usable(name), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_der_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = Parsed::from_der(&bytes);
        }

        /// A real certificate with one byte changed gets deeper into the parser than noise does.
        #[test]
        fn no_damage_to_a_certificate_panics(place in 0_usize..400, value in proptest::prelude::any::<u8>()) {
            let made = rcgen::generate_simple_self_signed(vec!["a.example.org".to_owned()]).unwrap();
            let mut der = made.cert.der().to_vec();
            let place = place % der.len();
            der[place] = value;
            let _ = Parsed::from_der(&der);
        }
    }
}
