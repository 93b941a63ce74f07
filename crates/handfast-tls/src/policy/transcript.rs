//! The transcript of a handshake in which rustls reads a different first hello than the client sent.
//!
//! In: the message as rustls reads it, and as it was sent. Out: the hash of what was sent (RFC 9846 §4.4.1), which is what
//! the client hashes. `server/opening.rs` explains why rustls receives another one.
//!
//! rustls asks a suite for a hash and feeds it the messages as it read them. So the hash of our suites, begun while an
//! [`ReplacementGuard`](crate::side_channels::ReplacementGuard) is alive on this thread, takes the one message for the other; all else passes as it is.

use std::sync::Arc;

use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::{SupportedCipherSuite, Tls13CipherSuite};

use super::tls13::of_tls13;
use crate::side_channels::{self, ReplacedHello};

/// The hash of a suite, by the library's.
pub(super) struct AsSent {
    library: &'static dyn Hash,
}

impl AsSent {
    /// That of `suite`, which must be one of TLS 1.3.
    pub(super) const fn of(suite: &'static SupportedCipherSuite) -> Self {
        let suite: &Tls13CipherSuite = of_tls13(suite);
        Self { library: suite.common.hash_provider }
    }
}

impl Hash for AsSent {
    fn start(&self) -> Box<dyn Context> {
        match side_channels::replaced_hello() {
            None => self.library.start(),
            Some(readings) => Box::new(Translated { hash: self.library.start(), readings }),
        }
    }

    fn hash(&self, data: &[u8]) -> Output {
        self.library.hash(data)
    }

    fn output_len(&self) -> usize {
        self.library.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.library.algorithm()
    }

    fn fips(&self) -> bool {
        self.library.fips()
    }
}

struct Translated {
    hash: Box<dyn Context>,
    readings: Arc<ReplacedHello>,
}

impl Context for Translated {
    fn fork_finish(&self) -> Output {
        self.hash.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self { hash: self.hash.fork(), readings: Arc::clone(&self.readings) })
    }

    fn finish(self: Box<Self>) -> Output {
        self.hash.finish()
    }

    fn update(&mut self, data: &[u8]) {
        let was_read = data == self.readings.read;
        self.hash.update(if was_read { &self.readings.sent } else { data });
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;

    use super::*;
    use crate::side_channels::ReplacementGuard;

    static HASH: AsSent = AsSent::of(&TLS13_AES_128_GCM_SHA256);

    fn digest(messages: &[&[u8]]) -> Vec<u8> {
        let mut context = HASH.start();
        messages.iter().for_each(|message| context.update(message));
        let forked = context.fork();
        assert_eq!(context.fork_finish().as_ref(), forked.finish().as_ref());
        context.finish().as_ref().to_vec()
    }

    #[test]
    fn one_message_is_taken_for_the_other_and_nothing_else() {
        let plain = digest(&[b"sent", b"next"]);
        let instead = ReplacementGuard::new(b"read".to_vec(), b"sent".to_vec());
        assert_eq!(digest(&[b"read", b"next"]), plain);
        assert_eq!(digest(&[b"", b"read", b"next"]), plain);
        assert_ne!(digest(&[b"readnext"]), plain);
        drop(instead);
        assert_ne!(digest(&[b"read", b"next"]), plain, "the guard was dropped");
        assert_eq!(digest(&[b"sent", b"next"]), plain);
    }
}
