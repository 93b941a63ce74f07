//! A client's certificate as logs name it, whether it was accepted or refused.
//!
//! In: the certificate as the client sent it. Out: its subject, serial number and fingerprint. rustls does not keep a refused
//! certificate, so the verifier records it for the thread.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

/// Bytes of a subject that are kept: longer than any log shows.
const SUBJECT_BYTES: usize = 1024;
/// Bytes of a serial number that are kept; RFC 5280 §4.1.2.2 allows 20.
const SERIAL_BYTES: usize = 64;

/// Properties that distinguish a certificate from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// Its subject; empty when it cannot be read.
    pub subject: Box<str>,
    /// Its serial number in hexadecimal digits, without a sign; empty when it cannot be read.
    pub serial: Box<str>,
    /// SHA-256 of the whole certificate, in hexadecimal digits.
    pub fingerprint: Box<str>,
}

impl ShownCertificate {
    /// Of a certificate in DER. **Cost**: linear in its length.
    pub fn of(certificate: &[u8]) -> Self {
        let hexadecimal = |bytes: &[u8]| HEXLOWER.encode(bytes).into();
        let fingerprint = hexadecimal(digest(&SHA256, certificate).as_ref());
        let (subject, serial) = match x509_parser::parse_x509_certificate(certificate) {
            Ok((_, certificate)) => {
                let mut subject = certificate.subject().to_string();
                subject.truncate(subject.floor_char_boundary(SUBJECT_BYTES));
                // A zero byte in front only marks the number as positive.
                let serial = match certificate.raw_serial() {
                    [0, rest @ ..] if !rest.is_empty() => rest,
                    serial => serial,
                };
                (subject.into(), hexadecimal(&serial[..serial.len().min(SERIAL_BYTES)]))
            }
            Err(_) => (Box::default(), Box::default()),
        };
        Self { subject, serial, fingerprint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_testkit::maker::Maker;

    #[test]
    fn a_certificate_is_named_by_subject_serial_and_fingerprint() {
        let made = Maker::new(&["a.example.org"]).self_signed();
        let der = made.certificate.der();
        let shown = ShownCertificate::of(der);
        let (_, parsed) = x509_parser::parse_x509_certificate(der).expect("we made it");
        assert_eq!(&*shown.subject, "CN=a test");
        assert_eq!(shown.serial.trim_start_matches('0'), format!("{:x}", parsed.serial));
        assert_eq!(shown.fingerprint.len(), 64);
        let unreadable = ShownCertificate::of(b"no certificate");
        assert_eq!((&*unreadable.subject, &*unreadable.serial), ("", ""));
        // `printf 'no certificate' | sha256sum`
        assert_eq!(
            &*unreadable.fingerprint,
            "de826f9e5acba22f80b95e447f9a1a29db2441d3f8dee9d83dfbb0e52370dfc0"
        );
    }
}
