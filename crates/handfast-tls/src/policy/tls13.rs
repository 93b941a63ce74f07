//! The library's suites of TLS 1.3, of which each policy's parts are made.

use rustls::{SupportedCipherSuite, Tls13CipherSuite};

/// `suite`, which must be one of TLS 1.3.
pub(super) const fn of_tls13(suite: &'static SupportedCipherSuite) -> &'static Tls13CipherSuite {
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite,
        SupportedCipherSuite::Tls12(_) => panic!("only suites of TLS 1.3 are put together here"),
    }
}
