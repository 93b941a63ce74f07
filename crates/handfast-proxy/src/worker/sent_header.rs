//! Whether and how backends get a PROXY header: the setting of a service.

use handfast_wire::proxy_header::Version;

use handfast_config::model::{ProxyProtocol, SentCertificate};

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentHeader {
    pub(crate) version: Version,
    pub(crate) certificate: SentCertificate,
}

impl SentHeader {
    /// `None` where no header is sent.
    pub(crate) fn new(configured: &ProxyProtocol) -> Option<Self> {
        let certificate = configured.client_certificate;
        configured.send.map(|version| Self { version, certificate })
    }
}
