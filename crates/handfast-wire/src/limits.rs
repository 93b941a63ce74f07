//! Sizes that the parsers of handshake messages and their messages about errors share.

/// Bytes of a handshake message before its body: a type and a length of three bytes (RFC 9846 §4).
pub(crate) const MESSAGE_HEADER_LENGTH: usize = 4;

/// Most records that may carry one ClientHello: one with post-quantum key shares and a ticket, a byte each.
///
/// It bounds the work that one-byte records make when they come one by one, for each call looks at every header again:
/// 8 million headers in all, measured at 50 ms for 4,096 segments sent. The same segments spent on hellos that are
/// answered cost far more, so no state is kept between calls to save it.
pub const RECORD_COUNT_LIMIT: usize = 4_096;
