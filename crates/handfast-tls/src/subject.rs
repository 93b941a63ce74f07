//! Parts of a certificate's subject.
//!
//! In: a certificate in DER. Out: text, bounded.

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
}
