//! The usual scene: one backend, one proxy in front of it, a folder for their files. In: what the backend does and what the
//! configuration says beside the usual. Out: clients, and at the end the proof that nothing was left behind.

use std::sync::Arc;

use rustls::ClientConfig;

use super::backend::{Backend, Peer};
use super::client::Client;
use super::config::Config;
use super::deadline::wait_until_seeing;
use super::folder::Folder;
use super::proxy::Proxy;
use super::trust::{Trust, Version};

/// A scene.
pub(crate) struct Stage {
    /// Files of the configuration.
    pub(crate) folder: Folder,
    /// The backend of its first service.
    pub(crate) backend: Backend,
    /// The proxy.
    pub(crate) proxy: Proxy,
    /// Descriptors it had open before the first client.
    descriptors: usize,
}

impl Stage {
    /// A backend that echoes.
    pub(crate) fn echo() -> Self {
        Self::with(Backend::echo(), |config, _| config)
    }

    /// A backend with a script.
    pub(crate) fn new(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        Self::with(Backend::start(script), |config, _| config)
    }

    /// A backend, and a configuration that says more than the usual.
    pub(crate) fn with(backend: Backend, more: impl FnOnce(Config, &Folder) -> Config) -> Self {
        let folder = Folder::new();
        let config = more(Config::to(&folder, backend.address), &folder);
        let proxy = Proxy::start(config);
        // The first look at the admin page opens what is opened once.
        let _ = proxy.metrics();
        let descriptors = proxy.process().descriptors();
        Self { folder, backend, proxy, descriptors }
    }

    /// The configuration as it was written at first, to be changed and written again.
    pub(crate) fn config(&self) -> Config {
        Config::to(&self.folder, self.backend.address)
    }

    /// A client after its handshake.
    pub(crate) fn client(&self, config: &Arc<ClientConfig>) -> Client {
        Client::connect(self.proxy.address(), config)
    }

    /// A client with TLS 1.3.
    pub(crate) fn any_client(&self) -> Client {
        self.client(&Trust::version(Version::Tls13).config())
    }

    /// Connections that ended for a cause, by side.
    pub(crate) fn closed(&self, side: &str, cause: &str) -> f64 {
        self.proxy.metrics().sum("handfast_connections_closed_total", &[("side", side), ("cause", cause)])
    }

    /// Waits until so many connections have ended for a cause.
    pub(crate) fn counts(&self, side: &str, cause: &str, times: usize) {
        wait_until_seeing(
            &format!("{times} connections that ended for {side}/{cause}"),
            || ((self.closed(side, cause) - times as f64).abs() < 0.5).then_some(()),
            || closed_lines(&self.proxy),
        );
    }

    /// Waits for the state in which many tests end: no connection is open, no descriptor is left behind.
    pub(crate) fn is_quiet(&self) {
        let standing = || self.proxy.metrics().sum("handfast_connections", &[]);
        wait_until_seeing(
            "no connection to stand",
            || (standing() < 0.5).then_some(()),
            || standing().to_string(),
        );
        self.proxy.settles_at(self.descriptors);
    }

    /// As [`Self::is_quiet`], after a fresh client was served; for backends that echo.
    pub(crate) fn serves_and_is_quiet(&self) {
        let mut client = self.any_client();
        client.echo(b"still there?");
        client.finish();
        self.is_quiet();
    }
}

/// The lines of the metrics page that count ended connections.
fn closed_lines(proxy: &Proxy) -> String {
    let metrics = proxy.metrics();
    let lines = metrics.text().lines().filter(|line| line.starts_with("handfast_connections_closed"));
    lines.collect::<Vec<_>>().join("\n")
}
