//! Limits of a peer's certificates, and of the work for them; `path.rs` has the bounds of the search itself.

/// CA certificates that may come with a peer's own one. Public chains have one to three, those of governments' bridges
/// five or six, and a path may have no more than six (webpki's bound); the others are roots and second ways to one.
pub(super) const INTERMEDIATES: usize = 10;
/// Bytes of all certificates. A chain of four RSA-4096 certificates has 8 KiB, one of four of ML-DSA-87 30 KiB.
pub(super) const BYTES: usize = 48 * 1024;
/// Paths that are checked; a chain that is in use has one, or two while a CA changes.
pub(super) const PATHS: usize = 4;
