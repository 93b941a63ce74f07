//! A TLS session as the path sees it: bytes in, plaintext and replies out. It has no socket and no buffer.
//!
//! In: bytes from the peer, and data to send to it. Out: plaintext, records, and the agreed parameters. Only
//! `server.rs`, `client.rs` and `unbuffered.rs` depend on the library that does the work.

use std::fmt;
use std::sync::Arc;

use handfast_pki::ShownCertificate;
use handfast_pki::names::Names;
use handfast_pki::presented::CertificateFault;
use rustls_pki_types::CertificateDer;

use crate::buffer::Buffer;

/// One side of a TLS connection.
pub trait Session {
    /// Takes in what arrived: decrypted data goes to `plaintext`, replies of the protocol (flights, tickets, key
    /// updates, alerts) to `outgoing`.
    ///
    /// `incoming` begins with what [`Session::kept`] gives; all of it is taken, and what is not a whole record or
    /// message yet is kept. On failure the alert for the peer is in `outgoing`; nothing more is taken in after that.
    ///
    /// **Cost**: one copy of the plaintext. Never more bytes than came in, and a flight's.
    fn receive(&mut self, incoming: &mut [u8], plaintext: &mut Buffer, outgoing: &mut Buffer) -> Received;

    /// The beginning of a record or message, which must stand in front of what is received next. Empty most of the
    /// time, and then without memory; at most a handshake message of the greatest length, and its records.
    fn kept(&self) -> &[u8];

    /// Encrypts `plaintext` into records behind whatever is in `outgoing`.
    ///
    /// **Errors**: the keys are used up (2^64 records, or a library's smaller limit), or the handshake is not done.
    fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut Buffer) -> Result<(), Failure>;

    /// Writes `close_notify`: the end of what we send (RFC 9846 §6.1). Once; later calls write nothing.
    fn close(&mut self, outgoing: &mut Buffer);

    /// Returns true if application data can be sent and received.
    fn is_established(&self) -> bool;

    /// Returns the parameters agreed on so far.
    fn agreed(&self) -> Agreed;

    /// The certificates that the peer sent, its own first, in a session that has been resumed too; empty when it sent none.
    fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &[]
    }

    /// The names of the certificate that was served to the client, for HTTP 421 (RFC 9110 §15.5.20); `None` before one was
    /// chosen, and for a client's session. In a resumed session no certificate is sent: then they are those of the one that a
    /// full handshake would serve now.
    fn served_names(&self) -> Option<&Arc<Names>> {
        None
    }
}

impl<T: Session + ?Sized> Session for Box<T> {
    fn receive(&mut self, incoming: &mut [u8], plaintext: &mut Buffer, outgoing: &mut Buffer) -> Received {
        (**self).receive(incoming, plaintext, outgoing)
    }

    fn kept(&self) -> &[u8] {
        (**self).kept()
    }

    fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut Buffer) -> Result<(), Failure> {
        (**self).encrypt(plaintext, outgoing)
    }

    fn close(&mut self, outgoing: &mut Buffer) {
        (**self).close(outgoing);
    }

    fn is_established(&self) -> bool {
        (**self).is_established()
    }

    fn agreed(&self) -> Agreed {
        (**self).agreed()
    }

    fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        (**self).peer_certificates()
    }

    fn served_names(&self) -> Option<&Arc<Names>> {
        (**self).served_names()
    }
}

/// Result of [`Session::receive`].
#[derive(Debug)]
pub struct Received {
    /// The peer has sent `close_notify`: no more plaintext will come.
    pub closed: bool,
    /// Reason why the session cannot continue, if it failed.
    pub failure: Option<Failure>,
}

/// Parameters that both sides agreed on; `None` for those that are undecided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: Option<&'static str>,
    /// IANA name of the suite.
    pub suite: Option<&'static str>,
    /// IANA name of the group.
    pub group: Option<&'static str>,
    /// Signature of the handshake: for a server the kind of its key (`RSA-2048`, `ECDSA-P256`), for a client the scheme
    /// that the server used (`ecdsa_secp256r1_sha256`); `None` in a resumed session.
    pub signature: Option<&'static str>,
    /// True if a session was resumed.
    pub resumed: Option<bool>,
    /// True if a HelloRetryRequest was needed.
    pub hello_retry: bool,
    /// Application protocol.
    pub alpn: Option<Box<str>>,
    /// The client's certificate: one that is good, or one for which the handshake was refused, as `verdict` states then.
    /// `None` where a client with a bad certificate is served.
    pub client_certificate: Option<Box<ShownCertificate>>,
    /// Verdict on the client's certificate, if it is more than "its CA is trusted".
    pub verdict: Option<Box<Verdict>>,
}

/// Verdict on a client by its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Let in by this rule, as it is written.
    Allowed(Box<str>),
    /// Let in with a certificate of which only the key was checked: what it contains may be false.
    Unverified,
    /// Refused; or, where there is a place for such clients, to be served there and nowhere else.
    Failed {
        /// Kind of fault.
        fault: CertificateFault,
        /// The same in a sentence.
        words: Box<str>,
    },
}

/// Reason why a session failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In which of a few ways.
    pub kind: FailureKind,
    /// The sentence for people.
    pub detail: Box<str>,
    /// Instruction to fix it, where that is known.
    pub hint: Option<&'static str>,
    /// The number of the alert that the peer sent (RFC 9846 §6), if that is what happened.
    pub alert: Option<u8>,
    /// Fault of the peer's certificate, if that is the cause.
    pub certificate: Option<CertificateFault>,
}

/// The ways a session fails, by which side's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The peer sent a fatal alert.
    Alert,
    /// The peer broke the protocol, or shares no version, suite, group or signature with our policy.
    Peer,
    /// The peer's certificate is missing or was refused.
    PeerCertificate,
    /// The process that holds the private keys did not sign.
    KeyProcess,
    /// A fault of ours.
    Ourselves,
}

impl Failure {
    /// A failure with its sentence.
    pub fn new(kind: FailureKind, detail: impl Into<Box<str>>) -> Self {
        Self { kind, detail: detail.into(), hint: None, alert: None, certificate: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_its_sentence() {
        assert_eq!(Failure::new(FailureKind::Peer, "it broke off").to_string(), "it broke off");
    }
}
