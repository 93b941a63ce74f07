//! The keys inside of values: tables in place of an address, a path or a text.

use crate::kind::{Backend, Count, FilePath, Switch, Text};
use crate::schema::section;

/// What others call a backend, a certificate, and its key.
pub(super) const BACKEND_WORDS: &str = "connect upstream target server servers proxy-pass to forward remote";
pub(super) const CERTIFICATE_WORDS: &str =
    "cert certs crt pem-file pem-dir pem ssl-certificate tls certificate-file chain";
pub(super) const KEY_WORDS: &str = "private-key ssl-certificate-key certificate-key keyfile key-file";

section! {
    /// One certificate whose key is in a separate file.
    CERTIFICATE_PAIR = "certificate", "{ certificate = …, key = …, ocsp = … }";

    /// PEM file of the chain.
    PAIR_CERTIFICATE: FilePath = "certificate", FilePath,
        example "\"web.pem\"", elsewhere CERTIFICATE_WORDS;

    /// PEM file of the key.
    PAIR_KEY: FilePath = "key", FilePath,
        example "\"web.key\"", elsewhere KEY_WORDS;

    /// OCSP response to staple, DER or PEM. It is checked against the certificate, read again when it changes, and not stapled
    /// any more when its time is over. Nothing is fetched.
    PAIR_OCSP: FilePath = "ocsp", FilePath,
        absent "the file beside the certificate with `.ocsp` behind its name, if it is there",
        example "\"web.pem.ocsp\"", elsewhere "ssl_stapling_file";
}

section! {
    /// One backend with its share.
    BACKEND_TABLE = "backend", "{ address = …, weight = … }";

    /// Where it is.
    BACKEND_ADDRESS: Backend = "address", Backend,
        example "\"10.0.0.2:80\"", elsewhere BACKEND_WORDS;

    /// Its share of new connections, in proportion to the others'; 0: none.
    WEIGHT: Count<u32> = "weight", Count(0..=256),
        default "1",
        why "all backends are equal by default",
        example "3", elsewhere "share priority w";

    /// Whether it is used only while no other one is up.
    BACKUP: Switch = "backup", Switch,
        default "false",
        why "a backend that is written is meant to be used",
        example "true", elsewhere "fallback spare standby";
}

section! {
    /// Bytes that are no text.
    HEX_TABLE = "hex", "{ hex = … }";

    /// The bytes, two digits each.
    HEX: Text = "hex", Text("hexadecimal digits, such as `\"0d0a\"`"),
        example "\"0d0a\"", elsewhere "bytes binary";
}
