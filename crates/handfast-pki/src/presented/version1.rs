//! A peer's own certificate of X.509 version 1, written as one of version 3 without extensions.
//!
//! webpki reads version 3 alone, and OpenSSL lets such a certificate be a peer's own: `openssl x509 -req` made them for decades.
//! Both versions have the same fields in the same order. So webpki is given the fields in the form that it reads, and when it
//! asks whether the issuer signed that form, the signature over the original is verified instead. Everything else (issuer,
//! dates, constraints of the CAs above) is decided as for version 3. It is done for a peer's own certificate alone: in version 1
//! nothing shows that a certificate is no CA's, so one that a peer sends is never an issuer.
//!
//! In: a certificate from a peer. Out: a [`Rewritten`], if it is of version 1 and without extensions.

use rustls_pki_types::CertificateDer;

use crate::der::{Der, INTEGER, SEQUENCE, value};

/// Version 3 as it is written: `[0] EXPLICIT INTEGER`.
const VERSION_3: [u8; 5] = [0xa0, 3, INTEGER, 1, 2];

/// A certificate of version 1 as webpki can read it.
#[derive(Debug)]
pub struct Rewritten<'a> {
    /// The certificate as version 3.
    pub certificate: CertificateDer<'static>,
    /// Its part that is signed.
    signed: Vec<u8>,
    /// The part that the issuer did sign.
    original: &'a [u8],
}

impl<'a> Rewritten<'a> {
    /// `None` if it is of another version, or damaged.
    ///
    /// **Cost**: nothing for version 3; else its bytes twice.
    pub fn of(own: &'a CertificateDer<'_>) -> Option<Self> {
        let mut outside = Der(own);
        let mut certificate = Der(outside.expect(SEQUENCE)?);
        let original = certificate.whole(SEQUENCE)?;
        let fields = Der(original).expect(SEQUENCE)?;
        let mut body = Der(fields);
        // The version is not written where it is 1.
        body.expect(INTEGER)?;
        // Algorithm, issuer, validity, subject, key; and nothing that a later version has.
        for _ in 0..5 {
            body.expect(SEQUENCE)?;
        }
        if !body.is_empty() || !outside.is_empty() {
            return None;
        }
        let signed = value(SEQUENCE, &[&VERSION_3, fields].concat());
        let certificate = value(SEQUENCE, &[&signed, certificate.0].concat());
        Some(Self { certificate: certificate.into(), signed, original })
    }

    /// Returns the bytes that the issuer signed, where `message` is the rewritten part; else `message`.
    pub(super) fn original_of<'m>(&'m self, message: &'m [u8]) -> &'m [u8] {
        if *message == *self.signed { self.original } else { message }
    }
}
