//! Certificates and keys as files and values: what is known of them before, and without, a TLS session.
//!
//! In: paths, PEM and DER, and the time (passed in, never read here). Out: certificates with their keys, CAs that judge a peer's
//! certificates, and findings that name what is wrong with a file and how to fix it. No sockets, no sessions, no threads that
//! outlive a call, and only files that the caller names.
//!
//! | question | file |
//! |---|---|
//! | what is in this file, does the key fit | [`certificate`] |
//! | contents of a folder, unused files | [`load`] |
//! | does the certificate cover this name | [`names`] |
//! | is a peer's certificate good | [`presented`] |
//! | which names and keys are accepted, by rules | [`rules`] |
//! | which certificates are revoked | [`revocation`] |
//! | is this key known to be weak | [`weak`] |
//! | is one key in certificates of unrelated owners | [`shared_keys`] |
//! | keys in another process | [`apart`] |
//! | a certificate to try things with | [`throwaway`] |
//! | a file that may be anything | [`files`], [`read`](mod@read) |
#![forbid(unsafe_code)]

pub mod apart;
mod asn1;
pub mod certificate;
pub mod compressed;
mod der;
pub mod files;
pub mod finding;
mod identifiers;
mod key;
pub mod key_kind;
pub mod load;
pub mod names;
mod outline;
pub mod parsed;
pub mod pem;
mod pkcs12;
pub mod presented;
pub mod read;
pub mod rules;
pub mod revocation;
mod sections;
pub mod shared_keys;
mod shown;
mod signed;
pub mod source;
mod staple;
pub mod subject;
pub mod throwaway;
pub mod unix_time;
pub mod weak;

pub use asn1::algorithms;
pub use finding::{Finding, Reason, Severity};
pub use identifiers::spaced;
pub use presented::Pin;
pub use shown::ShownCertificate;
