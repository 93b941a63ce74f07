//! A certificate to try things with.

use std::time::SystemTime;

use crate::Error;
use crate::certificate::Certificate;

/// A local CA that signed once and forgot its key, and what it signed.
#[derive(Debug)]
pub struct Throwaway {
    /// The CA's certificate, for clients to trust.
    pub ca_pem: String,
    /// The certificate to serve.
    pub certificate: Certificate,
}

/// Makes one for `localhost`, `127.0.0.1`, `::1`, and `host` if given.
pub fn make(host: Option<&str>, now: SystemTime) -> Result<Throwaway, Error> {
    let _ = now;
    Err(Error::Throwaway { host: host.unwrap_or("localhost").to_owned(), what: "not made yet".to_owned() })
}
