//! Words of other programs for what several sections have.

/// A backend.
pub(super) const BACKEND_WORDS: &str = "connect upstream target server servers proxy-pass to forward remote";
/// A folder whose files are responses.
pub(super) const FILES_WORDS: &str =
    "root alias file-server static static-files document-root documentroot www webroot serve-dir";
/// A certificate.
pub(super) const CERTIFICATE_WORDS: &str =
    "cert certs crt pem-file pem-dir pem ssl-certificate tls certificate-file chain";
/// The key of a certificate.
pub(super) const KEY_WORDS: &str = "private-key ssl-certificate-key certificate-key keyfile key-file";
