//! Hellos through the front door: captured ones, wrong ones, and every property that `peek` promises.
//!
//! In: bytes made by `build.rs` or read from `../data`. Out: nothing but the verdicts. A hello in `../data` is hex,
//! whole records as a client sent them, behind a line that names the client.

#![forbid(unsafe_code)]

mod build;
mod captured;
mod refused;
mod properties;
