//! TLS towards the backends of one route, as one thread dials them.
//!
//! In: settings that all threads share (`state/service.rs`), and an endpoint. Out: a session that may begin. The threads share the
//! tickets of each endpoint, so that the second connection resumes, whichever thread it comes to; a thread never waits for another
//! one, and has a full handshake instead.

#![expect(
    clippy::disallowed_types,
    reason = "clients are looked up by their thread; the threads meet once an hour for each endpoint, and none of them waits"
)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_pki::certificate::Certificate;
use handfast_tls::client::{Client, ClientSession, ClientSettings, Identity, Trust, Verification};
use handfast_tls::session::Failure;
use handfast_wire::starttls::{Client as StarttlsClient, Protocol};

use crate::backends::endpoint::Endpoint;
use handfast_config::model::{BackendAlpn, BackendTls, SentName};
use handfast_net::host_name::host_name;

/// Time for which sessions are resumed before the backend has to show its certificate again. A resumed session checks none, and brings a
/// new ticket each time: without this limit an expired or replaced certificate would never be noticed.
const MAX_SESSION_AGE: Duration = Duration::from_secs(3_600);

/// Dialogue with a backend before TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendPrelude {
    /// Nothing: TLS begins with the first byte, or there is none.
    None,
    /// A protocol in which the backend is asked for TLS as soon as it is connected.
    Standard(Protocol),
    /// MySQL: its server speaks first, and TLS begins when the client's part of the login is known.
    ServerFirst,
}

/// Makes sessions with the endpoints of one route.
#[derive(Debug)]
pub(crate) struct BackendTlsClient {
    settings: Arc<BackendTlsSettings>,
    /// By the endpoint's name; made when it is dialled first.
    clients: RefCell<HashMap<Rc<str>, ThreadClient>>,
}

/// A thread's client for one endpoint.
#[derive(Debug)]
struct ThreadClient {
    client: Client,
    /// Client from which the clients of all threads are copied. It exists as long as one of them.
    _origin: Arc<Client>,
    at: Moment,
}

impl BackendTlsClient {
    pub(crate) fn new(settings: Arc<BackendTlsSettings>) -> Self {
        Self { settings, clients: RefCell::default() }
    }

    pub(crate) fn settings(&self) -> &Arc<BackendTlsSettings> {
        &self.settings
    }

    /// Begins a session with `endpoint`; `agreed`: the application protocol agreed on with the client.
    ///
    /// **Errors**: an endpoint without a name that could be checked, or rustls refusing its own configuration.
    ///
    /// **Cost**: computes the key share; some 20 microseconds more when the endpoint is dialled for the first time.
    pub(crate) fn session(
        &self,
        endpoint: &Endpoint,
        agreed: Option<&str>,
        now: Moment,
    ) -> Result<ClientSession, Failure> {
        let mut clients = self.clients.borrow_mut();
        if !clients.get(&endpoint.name).is_some_and(|made| is_resumable(made.at, now)) {
            match self.settings.origin(endpoint, now)? {
                Some((origin, at)) => {
                    let client = origin.for_another_thread();
                    clients.insert(Rc::clone(&endpoint.name), ThreadClient { client, _origin: origin, at });
                }
                // Another thread makes one at this moment: this connection has its own, and the next one finds the other.
                None => {
                    let client = client_for(&self.settings.model, &self.settings.client, endpoint.host())?;
                    return self.begin(&client, agreed);
                }
            }
        }
        self.begin(&clients[&endpoint.name].client, agreed)
    }

    fn begin(&self, client: &Client, agreed: Option<&str>) -> Result<ClientSession, Failure> {
        let resume = self.settings.model.resumption;
        match (&self.settings.model.alpn, agreed) {
            (BackendAlpn::Client, Some(protocol)) => client.connect_with_alpn(protocol, resume),
            _ => client.connect(resume),
        }
    }

    pub(crate) fn prelude(&self) -> BackendPrelude {
        match self.starttls() {
            None => BackendPrelude::None,
            Some(Protocol::MySql) => BackendPrelude::ServerFirst,
            Some(protocol) => BackendPrelude::Standard(protocol),
        }
    }

    /// The protocol in which backends are asked for TLS; `None`: TLS from the first byte.
    pub(crate) fn starttls(&self) -> Option<Protocol> {
        self.settings.model.starttls.as_ref().map(|starttls| starttls.protocol)
    }

    /// Describes a mismatch between the application protocols of the two sides of a connection; `None` without any.
    pub(crate) fn protocol_mismatch(&self, agreed: Option<&str>, chosen: Option<&str>) -> Option<String> {
        let agreed = agreed.filter(|_| self.settings.model.alpn == BackendAlpn::Client)?;
        // RFC 7301 §3.2 lets a server ignore the extension, and servers of HTTP/1.1 alone often do.
        let is_silent = chosen.is_none() && agreed == "http/1.1";
        (chosen != Some(agreed) && !is_silent)
            .then(|| format!("the client agreed to {agreed}, the backend chose {}", chosen.unwrap_or("none")))
    }

    /// Forgets the endpoints that are not dialled any more.
    pub(crate) fn keep_only(&self, endpoints: &[Rc<Endpoint>]) {
        self.clients.borrow_mut().retain(|name, _| endpoints.iter().any(|known| known.name == *name));
    }

    #[cfg(test)]
    pub(crate) fn endpoints(&self) -> usize {
        self.clients.borrow().len()
    }
}

/// Returns true if sessions of a client made at `at` are still resumed.
fn is_resumable(at: Moment, now: Moment) -> bool {
    now.since(at) < MAX_SESSION_AGE
}

/// The client that asks the backend written as `host` for TLS; `None`: TLS begins with the first byte.
pub(crate) fn starttls_client(
    model: &BackendTls,
    host: impl FnOnce() -> Option<String>,
) -> Option<StarttlsClient> {
    let starttls = model.starttls.as_ref()?;
    let known = starttls.name.clone();
    let name = match starttls.protocol {
        // An XMPP stream is for a domain.
        Protocol::Xmpp | Protocol::XmppServer => known.or_else(|| model.name.clone()).or_else(host),
        _ => known,
    };
    Some(StarttlsClient::new(starttls.protocol, &name.unwrap_or_else(host_name)))
}

/// A client for the backend that is written as `host`.
///
/// **Errors**: as [`Client::new`].
pub(crate) fn client_for(
    model: &BackendTls,
    settings: &ClientSettings,
    host: Option<String>,
) -> Result<Client, Failure> {
    let checked = model.name.clone().or(host).unwrap_or_default();
    let is_address = checked.parse::<std::net::IpAddr>().is_ok();
    let sent = match &model.server_name {
        SentName::Checked => Some(checked.clone()).filter(|name| !is_address && !name.is_empty()),
        SentName::Name(name) => Some(name.clone()),
        SentName::Nothing => None,
    };
    let settings = ClientSettings { server_name: sent, ..settings.clone() };
    // If no name is required, there may be none: a unix socket has none.
    let checked = if checked.is_empty() { "unnamed.invalid".to_owned() } else { checked };
    Client::new(&settings, &checked)
}

/// Client from which the clients of all threads are copied, and the time at which it was made.
#[derive(Debug)]
struct Origin {
    client: Weak<Client>,
    at: Moment,
}

/// TLS towards backends, ready to dial with but for the backend's name.
#[derive(Debug)]
pub(crate) struct BackendTlsSettings {
    pub(crate) model: BackendTls,
    pub(crate) client: ClientSettings,
    /// By the endpoint's name; gone when no thread has a client of it any more. Settings that ask for something else have others, so
    /// no ticket comes to them.
    origins: Mutex<HashMap<Box<str>, Origin>>,
}

impl BackendTlsSettings {
    pub(crate) fn new(model: BackendTls, client: ClientSettings) -> Self {
        Self { model, client, origins: Mutex::default() }
    }

    /// The client of an endpoint that all threads have copies of, made if there is none that is good; `None`: another thread looks
    /// for one at this moment.
    fn origin(&self, endpoint: &Endpoint, now: Moment) -> Result<Option<(Arc<Client>, Moment)>, Failure> {
        let mut origins = match self.origins.try_lock() {
            Ok(origins) => origins,
            Err(TryLockError::Poisoned(origins)) => origins.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let known = origins.get(&*endpoint.name).filter(|origin| is_resumable(origin.at, now));
        if let Some((client, at)) = known.and_then(|origin| Some((origin.client.upgrade()?, origin.at))) {
            return Ok(Some((client, at)));
        }
        let origin = Arc::new(client_for(&self.model, &self.client, endpoint.host())?);
        origins.retain(|_, origin| origin.client.strong_count() > 0);
        origins.insert((&*endpoint.name).into(), Origin { client: Arc::downgrade(&origin), at: now });
        Ok(Some((origin, now)))
    }

    pub(crate) fn trust(&self) -> Option<&Trust> {
        match &self.client.verification {
            Verification::Trust(trust) => Some(trust),
            _ => None,
        }
    }

    /// Returns the certificate for backends that request one.
    pub(crate) fn identity(&self) -> Option<&Arc<Certificate>> {
        match &self.client.identity {
            Some(Identity::Loaded(certificate)) => Some(certificate),
            _ => None,
        }
    }

    /// Returns true if one may resume the sessions of the other: everything that is required of the backend is the same.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let chain = |dial: &Self| dial.identity().map(|identity| identity.chain().to_vec());
        self.model == other.model
            && self.client.verification == other.client.verification
            && chain(self) == chain(other)
    }
}

#[cfg(test)]
mod tests;
