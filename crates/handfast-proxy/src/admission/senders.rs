//! The proxies that must send a PROXY header (`accept-from`).

use std::net::SocketAddr;

use handfast_net::prefix::{Prefix, PrefixSet};

use handfast_config::model::ProxySender;

/// Who must send a header.
#[derive(Debug, Default)]
pub(crate) struct TrustedSenders {
    prefixes: PrefixSet,
    unix: bool,
}

impl TrustedSenders {
    /// `None` where no proxy must.
    pub(crate) fn new(listed: &[ProxySender]) -> Option<Self> {
        let prefix = |sender: &ProxySender| match sender {
            ProxySender::Prefix(prefix) => Some(*prefix),
            ProxySender::Unix => None,
        };
        let prefixes: PrefixSet =
            listed.iter().filter_map(prefix).collect::<Vec<Prefix>>().into_iter().collect();
        (!listed.is_empty()).then(|| Self { prefixes, unix: listed.contains(&ProxySender::Unix) })
    }

    /// Whether a connection from here must begin with a header; `None`: from a unix socket.
    pub(crate) fn has(&self, peer: Option<SocketAddr>) -> bool {
        peer.map_or(self.unix, |peer| self.prefixes.contains(peer.ip()))
    }
}
