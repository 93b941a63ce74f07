//! Certificates, keys, tickets and policies: everything that TLS needs before a client connects, and a TLS session
//! behind one small trait.
//!
//! In: paths, PEM bytes, names of policies, and the time (passed in, never read here). Out: rustls configurations'
//! parts, and findings that name what is wrong with a file and how to fix it. No sockets, no threads that outlive a
//! call, and only files that the caller names.
//!
//! | question | file |
//! |---|---|
//! | which versions, suites and groups | [`policy`] |
//! | what is in this file, does the key fit | [`certificate`] |
//! | which OCSP response goes with it | [`load`] |
//! | does the served certificate cover this name | [`names`] |
//! | contents of a folder, unused files | [`load`] |
//! | keys in another process | [`apart`] |
//! | which certificate for this name and client | [`store`] |
//! | clients that may resume, and the ticket keys | [`ticket`] |
//! | which client certificates are accepted | [`client_certificates`] |
//! | is this key known to be weak | [`weak`] |
//! | is one key in certificates of unrelated owners | [`shared_keys`] |
//! | a session as a server | [`server`] |
//! | a session as a client | [`client`] |
//! | a certificate to try things with | [`throwaway`] |
//! | records that no library would write | [`forge`] |
//! | single operations and handshakes in memory, to be timed | [`operations`] |
//! | which instructions this CPU has for it | [`features`] |
#![forbid(unsafe_code)]

pub mod features;
pub mod files;
pub mod finding;
pub mod policy;
pub mod apart;
pub mod certificate;
pub mod key_kind;
pub mod keyed_hash;
pub mod load;
pub mod names;
pub mod store;
pub mod ticket;
pub mod client_certificates;
pub mod weak;
pub mod shared_keys;
pub mod throwaway;
pub mod source;
pub mod buffer;
pub mod session;
pub mod subject;
pub mod server;
pub mod client;
pub mod forge;
pub mod operations;
mod alerts;
mod compressed;
mod der;
mod error_words;
mod error;
mod identifiers;
mod key;
mod parsed;
mod pem;
mod pkcs12;
mod presented;
pub mod random;
mod read;
mod revocation;
mod sections;
mod signed;
mod shown;
mod side_channels;
mod staple;
mod strict;
mod unbuffered;
mod unix_time;

#[cfg(test)]
mod testing;

/// Seeds this thread's random generator and draws its first supply: better at the start of a thread than in its first
/// handshake.
pub fn warm_up() {
    // If the generator fails, the first handshake fails too, and reports it.
    let _ = random::fill(&mut [0; 32]);
}

/// Fills `bytes` with random numbers by the generator that keys and tickets are made with.
///
/// **Errors**: it fails. **Cost**: as [`warm_up`] says.
pub fn random_bytes(bytes: &mut [u8]) -> Result<(), Error> {
    random::fill(bytes).map_err(|_| Error::Random)
}

pub use error::Error;
pub use finding::{Finding, Reason, Severity};
pub use pem::fault as pem_fault;
pub use presented::Pin;
