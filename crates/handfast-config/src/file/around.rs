//! The parts of a service that its rules and routes are read with.

use super::site::WrittenTls;
use crate::kind::Site;
use crate::model::{Address, Backend, BackendVersion, Clients, Policy};
use crate::reading::Written;

/// The parts of a service that its rules and routes inherit, or are checked against.
pub(super) struct Around<'a> {
    /// The version of HTTP towards backends; `None`: bytes are relayed.
    pub(super) http: Option<BackendVersion>,
    pub(super) policy: &'a Policy,
    pub(super) listen: &'a [Written<Address>],
    pub(super) clients: Clients,
    pub(super) backends: &'a [Written<Backend>],
    /// The one backend, if it is a site.
    pub(super) site: Option<&'a Written<Site>>,
    pub(super) backend_tls: Option<&'a WrittenTls>,
}

impl<'a> Around<'a> {
    /// TLS towards backends that are not the service's. The scheme of its site says nothing about them.
    pub(super) fn tls_of_others(&self) -> Option<&'a WrittenTls> {
        let is_by_scheme = |tls: &&WrittenTls| self.site.is_some_and(|site| site.span == tls.span);
        self.backend_tls.filter(|tls| !is_by_scheme(tls))
    }
}
