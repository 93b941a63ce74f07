//! Reasons why a text is no rule.

use std::fmt;

use crate::presented::BadPin;

/// The forms, for messages.
pub const FORMS: &str = "`cn:NAME`, `subject:CN=…, O=…`, `dns:NAME`, `dns:*.DOMAIN`, `ip:ADDRESS`, `ip:NETWORK/BITS`, \
                         `uri:…`, `spiffe://DOMAIN/PATH`, `email:NAME@DOMAIN`, `email:*@DOMAIN` or `pin:sha256/BASE64`; as OpenSSL compares, \
                         `insecure-dns-or-cn:NAME` and `insecure-email-or-subject:NAME@DOMAIN`";

/// Reason why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It has no kind in front.
    NoKind(Box<str>),
    /// Nothing follows this kind.
    Empty(Box<str>),
    /// No kind has this name.
    UnknownKind(Box<str>),
    /// A common name with a wildcard.
    CommonNameWildcard,
    /// A host name that is none.
    HostName(Box<str>),
    /// A wildcard for a name that is compared with wildcards.
    ComparedWildcard,
    /// An address or network that is none.
    Network(Box<str>),
    /// A network whose address has bits of hosts.
    NetworkBits {
        /// The network.
        text: Box<str>,
        /// Bits of the network.
        bits: u8,
    },
    /// `**` before the end of a URI.
    DoubleStar,
    /// A wildcard beside other text between slashes.
    PartialWildcard,
    /// A SPIFFE ID that is none.
    SpiffeId(Box<str>),
    /// A trust domain that is none.
    TrustDomain(Box<str>),
    /// The path of a SPIFFE ID with empty or relative parts.
    SpiffePath,
    /// A wildcard beside other text in front of the `@`.
    LocalPartWildcard,
    /// An e-mail address with a wildcard, to be compared with that of the subject.
    SubjectAddressWildcard,
    /// An e-mail address that is none.
    Address(Box<str>),
    /// A part of a subject that is none.
    SubjectPart(Box<str>),
    /// A pin that is none.
    Pin {
        /// The pin.
        text: Box<str>,
        /// The expected form.
        expected: BadPin,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKind(text) => write!(f, "`{text}` does not say what it is about, expected {FORMS}"),
            Self::Empty(kind) => write!(f, "nothing follows `{kind}:`"),
            Self::UnknownKind(kind) => write!(f, "`{kind}:` is no kind of rule, expected {FORMS}"),
            Self::CommonNameWildcard => f.write_str("a common name has no wildcards"),
            Self::HostName(text) => {
                write!(f, "`{text}` is no host name; a wildcard stands alone in front: `dns:*.example.org`")
            }
            Self::ComparedWildcard => {
                f.write_str("wildcards are in certificates here; `.example.org` is for all names below")
            }
            Self::Network(text) => {
                write!(f, "`{text}` is no IP address or network, such as `10.0.0.0/8`")
            }
            Self::NetworkBits { text, bits } => {
                write!(f, "`{text}` has bits beyond its {bits}: write the network's own address")
            }
            Self::DoubleStar => f.write_str("`**` stands only at the end: it is for all that may follow"),
            Self::PartialWildcard => f.write_str(
                "a wildcard is a whole part between slashes: `/web/*`, and `/**` at the end for all below",
            ),
            Self::SpiffeId(text) => {
                write!(f, "`{text}` is no SPIFFE ID, such as `spiffe://example.org/web/*`")
            }
            Self::TrustDomain(domain) => {
                write!(f, "`{domain}` is no trust domain: lower-case letters, digits, `-`, `.` and `_`")
            }
            Self::SpiffePath => f.write_str("the path of a SPIFFE ID has no empty parts, nor `.` or `..`"),
            Self::LocalPartWildcard => f.write_str("a wildcard replaces all that is in front of the `@`"),
            Self::SubjectAddressWildcard => f.write_str("such an address has no wildcards"),
            Self::Address(text) => {
                write!(f, "`{text}` is no address, such as `alice@example.org` or `*@example.org`")
            }
            Self::SubjectPart(part) => write!(f, "`{part}` is no part of a subject, such as `CN=alice`"),
            Self::Pin { text, expected } => write!(
                f,
                "`{text}` is no pin, {expected}; openssl x509 -in client.pem -pubkey -noout | openssl pkey -pubin -outform der \
                 | openssl dgst -sha256 -binary | base64 makes one"
            ),
        }
    }
}

impl std::error::Error for RuleError {}
