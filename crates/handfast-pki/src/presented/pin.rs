//! A public key by its hash, as people pin it.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64;
use rustls_pki_types::CertificateDer;

use crate::outline::Outline;

/// SHA-256 of a certificate's SubjectPublicKeyInfo: the same for every certificate of that key.
///
/// Written as `sha256/` and base64 (RFC 7469 §2.1.1); curl's `sha256//` is read too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pin([u8; 32]);

impl Pin {
    /// The pin of a certificate's key; `None` when the certificate cannot be read.
    ///
    /// **Cost**: one pass over the certificate and a hash over its key, some microseconds.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        Outline::read(certificate).map(|outline| Self::of_outline(&outline))
    }

    pub(crate) fn of_outline(outline: &Outline<'_>) -> Self {
        let mut pin = [0; 32];
        pin.copy_from_slice(digest(&SHA256, outline.key_whole).as_ref());
        Self(pin)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256/{}", BASE64.encode(&self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no pin; shows what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPin;

impl fmt::Display for BadPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `sha256/` and the base64 of the 32 bytes of a SHA-256, which ends in `=`")
    }
}

impl std::error::Error for BadPin {}

impl FromStr for Pin {
    type Err = BadPin;

    fn from_str(text: &str) -> Result<Self, BadPin> {
        let base64 = text.strip_prefix("sha256/").ok_or(BadPin)?;
        // curl writes a second slash, and base64 may begin with one too: 32 bytes are 44 characters.
        let base64 = base64.strip_prefix('/').filter(|rest| rest.len() == 44).unwrap_or(base64);
        let bytes = BASE64.decode(base64.as_bytes()).map_err(|_| BadPin)?;
        Ok(Self(bytes.try_into().map_err(|_| BadPin)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `openssl x509 -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64`.
    #[test]
    fn it_is_what_openssl_makes_of_the_same_certificate() {
        let pem = include_bytes!("testdata/pin.crt");
        let der = <CertificateDer<'_> as rustls_pki_types::pem::PemObject>::from_pem_slice(pem).expect("PEM");
        let expected = include_str!("testdata/pin.txt").trim();
        assert_eq!(Pin::of(&der).expect("readable").to_string(), format!("sha256/{expected}"));
    }

    #[test]
    fn a_pin_is_read_as_it_is_written_and_as_curl_writes_it() {
        let text = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        let pin: Pin = text.parse().expect("a pin");
        assert_eq!(pin.to_string(), text);
        assert_eq!(text.replace("sha256/", "sha256//").parse(), Ok(pin));
        // One pin in 64 begins with a slash.
        let text = "sha256//dHkWC9pnytiZcVgXAzQNFMfw7J4eI8kh5JHU7RtXLc=";
        let pin: Pin = text.parse().expect("a pin as openssl writes it");
        assert_eq!(pin.to_string(), text);
        assert_eq!(text.replace("sha256/", "sha256//").parse(), Ok(pin));
        for wrong in ["", "sha256/", "sha1/47DEQpj8HBSa", "sha256/AAAA", "sha256/*", &text[7..], &text[..50]]
        {
            assert_eq!(wrong.parse::<Pin>(), Err(BadPin), "{wrong}");
        }
    }
}
