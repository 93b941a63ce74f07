//! Synchronisation of the wall clock, as the kernel reports it.

use std::io;
use std::time::Duration;

/// Synchronisation of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronised {
    /// Something does; with the maximum error.
    Yes {
        /// The kernel's estimate.
        error: Duration,
    },
    /// Nothing that the kernel knows of.
    No,
}

/// Asks the kernel whether something keeps the wall clock right.
///
/// **Errors**: adjtimex(2), which some containers forbid.
pub fn synchronised() -> io::Result<Synchronised> {
    let (kept, error) = crate::sys::wall_clock()?;
    Ok(if kept { Synchronised::Yes { error } } else { Synchronised::No })
}
