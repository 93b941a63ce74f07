//! Policies, tickets and client certificates: everything that a TLS session is made of beside certificates and keys as values
//! (`handfast-pki`), and the session behind one small trait.
//!
//! In: certificates, trusted CAs, names of policies, and the time (passed in, never read here). Out: rustls configurations'
//! parts, and sessions over buffers. No sockets, no threads that outlive a call, and only files that the caller names.
//!
//! | question | file |
//! |---|---|
//! | which versions, suites and groups | [`policy`] |
//! | which certificate for this name and client | [`store`] |
//! | clients that may resume, and the ticket keys | [`ticket`] |
//! | which client certificates are accepted | [`client_certificates`] |
//! | a session as a server | [`server`] |
//! | a session as a client | [`client`] |
//! | which instructions this CPU has for it | [`features`] |
#![forbid(unsafe_code)]

pub mod features;
pub mod policy;
pub mod keyed_hash;
pub mod store;
pub mod ticket;
pub mod client_certificates;
pub mod buffer;
pub mod session;
pub mod server;
pub mod client;
mod alerts;
mod error_words;
mod error;
mod peer_certificate;
mod prepared;
pub mod random;
mod side_channels;
mod unbuffered;

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
