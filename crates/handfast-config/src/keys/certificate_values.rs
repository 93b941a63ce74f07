//! The keys of a certificate that is a table.

use super::other_words::{CERTIFICATE_WORDS, KEY_WORDS};
use crate::kind::CredentialPath;
use crate::schema::section;

section! {
    /// One certificate whose key is in a separate file.
    CERTIFICATE_PAIR = "certificate", "{ certificate = …, key = …, ocsp = … }";

    /// PEM file of the chain.
    PAIR_CERTIFICATE: CredentialPath = "certificate", CredentialPath,
        example "\"web.pem\"", elsewhere CERTIFICATE_WORDS;

    /// PEM file of the key.
    PAIR_KEY: CredentialPath = "key", CredentialPath,
        example "\"web.key\"", elsewhere KEY_WORDS;

    /// OCSP response to staple, DER or PEM. It is checked against the certificate, read again when it changes, and not stapled
    /// any more when its time is over. Nothing is fetched.
    PAIR_OCSP: CredentialPath = "ocsp", CredentialPath,
        absent "the file beside the certificate with `.ocsp` behind its name, if it is there",
        example "\"web.pem.ocsp\"", elsewhere "ssl_stapling_file";
}
