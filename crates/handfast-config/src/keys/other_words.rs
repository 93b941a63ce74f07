//! Words of other programs for what several sections have.

/// A backend.
pub(super) const BACKEND_WORDS: &str = "connect upstream target server servers proxy-pass to forward remote";
/// A certificate.
pub(super) const CERTIFICATE_WORDS: &str =
    "cert certs crt pem-file pem-dir pem ssl-certificate tls certificate-file chain";
/// The key of a certificate.
pub(super) const KEY_WORDS: &str = "private-key ssl-certificate-key certificate-key keyfile key-file";
