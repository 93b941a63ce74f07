//! Maximum lengths of headers.

/// Most bytes of a header of version 1, its line end included (section 2.1).
pub const V1_LIMIT: usize = 107;

/// Most bytes of a header of version 2 that [`peek`](super::peek) takes from a peer. A length field could announce 65,551; what proxies send is
/// below 600 bytes, and below 4 KiB with a client's certificate.
pub const V2_LIMIT: usize = 4_096;
