//! The subjects of a measurement: sizes, certificates, kinds of connection.

use super::operations::handshake::Kind;
use super::operations::{Group, Signature};

/// Bytes of a full record, and of a small one.
pub(super) const SIZES: [usize; 2] = [16_384, 1_024];

/// A certificate's file and what its key signs with.
pub(super) type File = (String, Signature);

/// A kind of connection in memory; without a signature a resumed one, under the certificate that does not matter then.
pub(super) fn kind(signature: Option<Signature>, group: Group, exchange: usize) -> Kind {
    Kind {
        signature: signature.unwrap_or(Signature::EcdsaP256),
        group,
        resumed: signature.is_none(),
        exchange,
    }
}
