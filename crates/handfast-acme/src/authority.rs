//! Operations that an order needs of an issuer. `issuer.rs` queries a real one; tests have one in memory.

use crate::error::Error;
use crate::model::ChallengeKind;
use crate::name::Name;

/// A challenge that an issuer has set for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Kind of proof of the name.
    pub(crate) kind: ChallengeKind,
    /// The token of HTTP-01.
    pub(crate) token: String,
    /// The content of the file of HTTP-01.
    pub(crate) authorization: String,
    /// SHA-256 of it, for TLS-ALPN-01.
    pub(crate) digest: Vec<u8>,
}

/// One order with an issuer, step by step. The steps are called in the order in which they are listed.
pub(crate) trait Authority {
    /// Sends a new order for a name; returns its URL. `replaces`: the certificate (DER) that it renews.
    async fn order(&mut self, name: &Name, replaces: Option<&[u8]>) -> Result<String, Error>;

    /// Goes on with an order that was sent before.
    async fn resume(&mut self, url: &str) -> Result<(), Error>;

    /// The challenges to answer, one for each authorization that is pending, of the first kind that is offered; none when the name is
    /// proven already.
    async fn challenges(&mut self, kinds: &[ChallengeKind]) -> Result<Vec<Challenge>, Error>;

    /// Says that all of them are answered, and waits for the issuer's verdict.
    async fn verdict(&mut self, kinds: &[ChallengeKind]) -> Result<(), Error>;

    /// Sends the request for the certificate (DER). Does nothing where that was done before.
    async fn finalize(&mut self, request: &[u8]) -> Result<(), Error>;

    /// The chain, in PEM.
    async fn certificate(&mut self) -> Result<String, Error>;
}
