//! Parts of a certificate's subject.
//!
//! In: a certificate in DER. Out: text, bounded.

use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::x509::X509Name;

/// Longest name that is given; X.520 bounds it to 64 characters, which is not enforced.
const LONG: usize = 1_024;

/// The Common Name of a certificate's subject: the first one, as OpenSSL gives it. `None` when there is none, or it is no text.
///
/// **Cost**: one pass over the certificate.
pub fn common_name(certificate: &[u8]) -> Option<Box<str>> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name[..name.floor_char_boundary(LONG)].into())
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
        line.extend(
            ['/']
                .into_iter()
                .chain(kind.chars())
                .chain(['='])
                .chain(value.chars().filter(|sign| *sign != '\0')),
        );
    }
    line.truncate(line.floor_char_boundary(LONG));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Maker;

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
