//! Parts of a certificate's subject.
//!
//! In: a certificate in DER, or the subject alone. Out: text.

use std::borrow::Cow;

use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::x509::X509Name;

use crate::der::{Der, OBJECT_IDENTIFIER, SEQUENCE, SET};

/// 2.5.4.3 (RFC 4519 §2.3)
pub(crate) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// 1.2.840.113549.1.9.1 (RFC 2985 §5.2.1)
pub(crate) const EMAIL_ADDRESS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];

/// Longest name that is given; X.520 bounds it to 64 characters, which is not enforced.
const MAX_NAME_BYTES: usize = 1_024;

/// The Common Name of a certificate's subject: the first one, as OpenSSL gives it. `None` when there is none, or it is no text.
///
/// **Cost**: one pass over the certificate.
pub fn common_name(certificate: &[u8]) -> Option<Box<str>> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name[..name.floor_char_boundary(MAX_NAME_BYTES)].into())
}

/// The names of a certificate's subject and of its issuer, in OpenSSL's one line: `/C=PL/O=Example/CN=a`. `None` when it cannot be read.
///
/// **Cost**: one pass over the certificate.
pub fn names_of(certificate: &[u8]) -> Option<(String, String)> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some((one_line(certificate.subject()), one_line(certificate.issuer())))
}

fn one_line(name: &X509Name<'_>) -> String {
    let mut line = String::new();
    for attribute in name.iter_attributes() {
        let kind = attribute.attr_type();
        let number = || kind.to_id_string();
        let kind = oid2abbrev(kind, oid_registry()).map_or_else(|_| number(), str::to_owned);
        let value = attribute.as_str().unwrap_or("?");
        // The C library ends a variable at a zero.
        line.extend(["/", &kind, "=", &value.replace('\0', "")]);
    }
    line.truncate(line.floor_char_boundary(MAX_NAME_BYTES));
    line
}

/// The parts of a name in DER without its header.
pub(crate) fn parts(content: &[u8]) -> Vec<(&[u8], Cow<'_, str>)> {
    let mut parts = Vec::new();
    let mut sets = Der(content);
    while let Some(set) = sets.expect(SET) {
        let mut set = Der(set);
        while let Some(part) = set.expect(SEQUENCE) {
            let mut part = Der(part);
            let kind = part.expect(OBJECT_IDENTIFIER);
            let value = part.next().and_then(|(tag, content)| text(tag, content));
            parts.extend(kind.zip(value));
        }
    }
    parts
}

/// A DirectoryString (RFC 5280 §4.1.2.4), or what older certificates have instead; `None`: in letters that are not
/// known here, and then no rule is for it.
pub(crate) fn text(tag: u8, content: &[u8]) -> Option<Cow<'_, str>> {
    match tag {
        // UTF8String, PrintableString, IA5String; a TeletexString where it is plain ASCII.
        0x0c | 0x13 | 0x16 => std::str::from_utf8(content).ok().map(Cow::Borrowed),
        0x14 if content.is_ascii() => std::str::from_utf8(content).ok().map(Cow::Borrowed),
        // BMPString
        0x1e => {
            let (pairs, []) = content.as_chunks::<2>() else { return None };
            let units = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
            char::decode_utf16(units).collect::<Result<String, _>>().ok().map(Cow::Owned)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_testkit::maker::Maker;

    #[test]
    fn a_common_name_is_read_where_there_is_one() {
        let made = Maker::new(&["a.example.org"]).self_signed();
        assert_eq!(common_name(made.certificate.der()).as_deref(), Some("a test"));
        assert_eq!(common_name(b"no certificate"), None);
    }

    #[test]
    fn names_are_written_as_openssl_does() {
        let made = Maker::new(&["a.example.org"]).self_signed();
        let (subject, issuer) = names_of(made.certificate.der()).expect("a certificate");
        assert_eq!((subject.as_str(), issuer.as_str()), ("/CN=a test", "/CN=a test"));
        assert_eq!(names_of(b"no certificate"), None);
    }
}
