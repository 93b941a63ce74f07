//! The bus between machines: a NATS server, through async-nats.
//!
//! In: a [`BusAddress`] that `safety.rs` has checked. Out: a [`Bus`] that reconnects automatically.
//!
//! Users and passwords, and no nkeys: async-nats signs only with its feature `nkeys`, which brings 29 packages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, RequestErrorKind, ServerAddr, ServerInfo};
use bytes::Bytes;
use handfast_pki::files::read;
use handfast_text::foreign::excerpt;
use handfast_tls::client::{Client as TlsClient, ClientSettings, Verification};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{Bus, Fault, Feed, Later, QUEUE};
use crate::error::Problem;
use crate::{BusAddress, BusError};

/// Bound of a connection attempt, TLS included.
const CONNECTING: Duration = Duration::from_secs(5);
/// Timeout for handing a message to the connection: it passes only if the connection is lost and its queue is full.
const SENDING: Duration = Duration::from_secs(1);
/// The interval of pings to the server; two missing answers end the connection.
const PING: Duration = Duration::from_secs(1);
/// Longest pause between two attempts to connect again.
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(4);
/// Bytes of the file with the authorities.
const MAX_CA_BYTES: u64 = 4 << 20;
/// Complaints of the server that wait to be read; more are dropped, they are in the log.
const COMPLAINTS: usize = 64;

/// A connection to a NATS server.
pub(crate) struct Nats {
    client: Client,
    connected: watch::Receiver<bool>,
    place: String,
}

/// The settings of a connection.
pub(crate) struct ConnectionSettings<'a> {
    /// The server.
    pub(crate) address: &'a BusAddress,
    /// The same, parsed.
    pub(crate) server: ServerAddr,
    /// User and password.
    pub(crate) user: Option<(String, String)>,
    /// True if TLS is required.
    pub(crate) insist_on_tls: bool,
    /// Our name in the server's list of clients.
    pub(crate) name: &'a str,
    /// The subject of answers.
    pub(crate) inbox: String,
}

/// The host and port of a server, without user and password.
pub(crate) fn place(server: &ServerAddr) -> String {
    let host = server.host();
    let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
    format!("{}://{open}{host}{close}:{}", server.scheme(), server.port())
}

impl Nats {
    /// Connects. The second part of the answer are the server's complaints, as they come.
    ///
    /// **Errors**: the server is unreachable, its certificate is not trusted, or it rejects this user.
    pub(crate) async fn connect(
        settings: ConnectionSettings<'_>,
    ) -> Result<(Arc<Self>, mpsc::Receiver<String>), BusError> {
        let place = place(&settings.server);
        let (complain, complaints) = mpsc::channel(COMPLAINTS);
        let (connection, is_connected) = watch::channel(true);
        let connection = Arc::new(connection);
        let mut options = ConnectOptions::new()
            .name(settings.name)
            .custom_inbox_prefix(settings.inbox)
            .connection_timeout(CONNECTING)
            .ping_interval(PING)
            .subscription_capacity(QUEUE)
            .require_tls(settings.insist_on_tls)
            // Other servers in the server's list were not checked.
            .ignore_discovered_servers()
            .reconnect_delay_callback(pause)
            .event_callback(move |event| {
                let (complain, connection) = (complain.clone(), Arc::clone(&connection));
                async move { log(&event, &complain, &connection) }
            });
        if settings.address.tls_first {
            options = options.tls_first();
        }
        if let Some(ca) = &settings.address.ca {
            check_ca(ca)?;
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((user, password)) = settings.user {
            options = options.user_and_password(user, password);
        }
        let connecting = timeout(CONNECTING + CONNECTING, options.connect(settings.server)).await;
        let connected = connecting.map_err(|_| Problem::ConnectTimeout { place: place.clone() })?;
        let client = connected.map_err(|error| {
            let (place, purpose) = (place.clone(), settings.address.purpose);
            match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    Problem::LoginRejected { place, purpose }
                }
                kind => {
                    let is_of_tls = matches!(kind, ConnectErrorKind::Tls | ConnectErrorKind::Io);
                    let tls_first = (is_of_tls && settings.address.tls_first).then(|| purpose.tls_first());
                    Problem::Connect { place, what: with_source(&error), tls_first }
                }
            }
        })?;
        Ok((Arc::new(Self { client, connected: is_connected, place }), complaints))
    }

    /// The greeting of the server.
    pub(crate) fn greeting(&self) -> ServerInfo {
        self.client.server_info()
    }

    fn fault(&self, error: impl ToString, length: usize) -> Fault {
        let limit = self.limit();
        if length > limit {
            Fault::TooLarge { length, limit }
        } else {
            Fault::Gone(excerpt(&error.to_string()))
        }
    }
}

/// Checks the authorities of the server before the library reads them: it would wait for the writer of a FIFO, and its message has parts
/// of a file that is damaged.
fn check_ca(file: &Path) -> Result<(), Problem> {
    let unreadable = |source| Problem::ReadAuthorities { file: file.to_owned(), source };
    let pem = read(file, MAX_CA_BYTES).map_err(unreadable)?;
    let verification = Verification::Roots(pem.to_vec());
    let settings = ClientSettings { verification, ..ClientSettings::default() };
    let wrong = |source| Problem::Authorities { file: file.to_owned(), source };
    TlsClient::new(&settings, "bus").map(drop).map_err(wrong)
}

/// Grows from a tenth of a second, and is bounded.
fn pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(2)).unwrap_or(u32::MAX).min(6);
    // The first attempt of all is not a second one.
    if attempts < 2 {
        return Duration::ZERO;
    }
    (Duration::from_millis(100) * 2u32.pow(doublings)).min(MAX_RECONNECT_PAUSE)
}

/// The error of a connection, with the cause that the library keeps separately.
fn with_source(error: &async_nats::ConnectError) -> String {
    let text = error.to_string();
    let source = std::error::Error::source(error).map(ToString::to_string);
    excerpt(&match source.filter(|source| !text.contains(source.as_str())) {
        Some(source) => format!("{text}: {source}"),
        None => text,
    })
}

/// Logs what happened to the connection, and passes its state on.
fn log(event: &Event, complain: &mpsc::Sender<String>, connection: &watch::Sender<bool>) {
    match event {
        // The first one is not reported: the request goes on.
        Event::Connected if !connection.send_replace(true) => tracing::info!("bus reconnected"),
        Event::Connected => tracing::debug!("the bus is connected"),
        Event::Disconnected => {
            connection.send_replace(false);
            tracing::warn!("the connection to the bus was lost; reconnecting");
        }
        Event::SlowConsumer(_) => tracing::warn!("messages lost: too slow to read them"),
        Event::ServerError(error) => {
            tracing::debug!(%error, "the bus reports an error");
            // A caller that needs errors reads them; the first ones are enough.
            let _ = complain.try_send(error.to_string());
        }
        Event::ClientError(error) => tracing::debug!(%error, "the bus cannot be reached"),
        Event::LameDuckMode | Event::Draining | Event::Closed => tracing::debug!(%event, "the bus ends"),
    }
}

impl Bus for Nats {
    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Later<'a, Result<(), Fault>> {
        Box::pin(async move {
            let length = payload.len();
            match timeout(SENDING, self.client.publish(subject.to_owned(), payload)).await {
                Ok(sent) => sent.map_err(|error| self.fault(error, length)),
                Err(_) => Err(Fault::Gone("its queue is full".into())),
            }
        })
    }

    fn request<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        timeout: Duration,
    ) -> Later<'a, Result<Bytes, Fault>> {
        Box::pin(async move {
            let length = payload.len();
            let request = async_nats::Request::new().payload(payload).timeout(None);
            match tokio::time::timeout(timeout, self.client.send_request(subject.to_owned(), request)).await {
                Ok(Ok(message)) => Ok(message.payload),
                Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Err(Fault::NoSubscriber),
                Ok(Err(error)) => Err(self.fault(error, length)),
                Err(_) => Err(Fault::Late(timeout)),
            }
        })
    }

    fn subscribe<'a>(&'a self, pattern: &'a str) -> Later<'a, Result<Feed, Fault>> {
        Box::pin(async move {
            match timeout(SENDING, self.client.subscribe(pattern.to_owned())).await {
                Ok(Ok(subscriber)) => Ok(Feed::Nats(subscriber)),
                Ok(Err(error)) => Err(Fault::Gone(error.to_string())),
                Err(_) => Err(Fault::Gone("its queue is full".into())),
            }
        })
    }

    fn limit(&self) -> usize {
        self.client.max_payload()
    }

    fn is_connected(&self) -> bool {
        *self.connected.borrow()
    }

    fn until<'a>(&'a self, connected: bool) -> Later<'a, ()> {
        let mut state = self.connected.clone();
        Box::pin(async move {
            // The sender lives as long as the client.
            let _ = state.wait_for(|is| *is == connected).await;
        })
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn flush(&self) -> Later<'_, ()> {
        Box::pin(async {
            // Messages that cannot be sent in this time are not needed: every order is repeated or has a lease.
            let _ = timeout(SENDING, self.client.flush()).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_growing() {
        assert_eq!(pause(0), Duration::ZERO);
        assert_eq!(pause(1), Duration::ZERO);
        assert_eq!(pause(2), Duration::from_millis(100));
        assert_eq!(pause(5), Duration::from_millis(800));
        assert_eq!(pause(usize::MAX), MAX_RECONNECT_PAUSE);
    }

    #[test]
    fn a_place_never_shows_a_password() {
        let server: ServerAddr = "nats://me:secret@[::1]:4333".parse().unwrap();
        assert_eq!(place(&server), "nats://[::1]:4333");
    }
}
