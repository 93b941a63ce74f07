//! `{ certificate = …, key = … }`: a certificate with its key in another file.

use crate::kind::FilePath;
use crate::schema::{Default, Key, Section};

/// What others call a certificate, and its key.
pub(crate) const CERTIFICATE_WORDS: &[&str] = &[
    "cert",
    "certs",
    "crt",
    "pem-file",
    "pem-dir",
    "pem",
    "ssl-certificate",
    "tls",
    "certificate-file",
    "chain",
];
pub(crate) const KEY_WORDS: &[&str] =
    &["private-key", "ssl-certificate-key", "certificate-key", "keyfile", "key-file"];

/// `{ certificate = "…", key = "…" }`
pub(crate) static CERTIFICATE_PAIR: Section = Section {
    name: "certificate",
    header: "{ certificate = …, key = …, ocsp = … }",
    doc: "One certificate whose key is in a separate file.",
    keys: &[&PAIR_CERTIFICATE, &PAIR_KEY, &PAIR_OCSP],
    sections: &[],
};

pub(crate) static PAIR_CERTIFICATE: Key<FilePath> = Key {
    name: "certificate",
    kind: FilePath,
    default: Default::Required,
    doc: "PEM file of the chain.",
    why: "",
    example: "\"web.pem\"",
    elsewhere: CERTIFICATE_WORDS,
};

pub(crate) static PAIR_KEY: Key<FilePath> = Key {
    name: "key",
    kind: FilePath,
    default: Default::Required,
    doc: "PEM file of the key.",
    why: "",
    example: "\"web.key\"",
    elsewhere: KEY_WORDS,
};

pub(crate) static PAIR_OCSP: Key<FilePath> = Key {
    name: "ocsp",
    kind: FilePath,
    default: Default::Absent("the file beside the certificate with `.ocsp` behind its name, if it is there"),
    doc: "OCSP response to staple, DER or PEM. It is checked against the certificate, read again when it changes, and not \
          stapled any more when its time is over. Nothing is fetched.",
    why: "",
    example: "\"web.pem.ocsp\"",
    elsewhere: &["ssl_stapling_file"],
};
