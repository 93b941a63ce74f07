//! Failures of encoders.

use handfast_http::content_coding::ContentCoding;

/// An encoder failed: it found no memory, or broke its own rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the encoder of `{}` failed", .0.name())]
pub struct EncodeError(pub ContentCoding);
