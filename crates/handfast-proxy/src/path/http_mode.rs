//! Steps connect and relay of a connection whose client sends requests: `requests/serve.rs` serves them.
//!
//! In: a client after its handshake. Out: why its connection ended; after a change of the protocol its bytes are relayed.

use std::rc::Rc;

use handfast_config::model::Variable;
use handfast_leg::Leg;
use handfast_leg::runtime::Runtime;
use handfast_observe::reason::CloseReason;
use handfast_observe::request_record::ConnectionFacts;
use handfast_tls::session::{Session, Verdict};

use crate::path::account::Account;
use crate::path::connect::ConnectedBackend;
use crate::path::connection::Connection;
use crate::path::proxy_header_out;
use crate::path::relay::{Relay, TICKET_DELAY};
use crate::requests::{HttpConnection, Served, Totals, Tunnel, client_address};
use crate::worker::request_routes::ThreadHttp;
use crate::worker::services::Chosen;

/// A client that sends requests.
pub(super) struct Requests {
    pub(super) http: Rc<ThreadHttp>,
    pub(super) chosen: Chosen,
    /// Bytes that came with its handshake.
    pub(super) first: Vec<u8>,
}

impl Requests {
    /// Serves them until the connection ends, and returns the close reason.
    pub(super) async fn run<R: Runtime>(&mut self, connection: &mut Connection<R>) -> CloseReason
    where
        R::Socket: 'static,
    {
        let began = R::now();
        let of_all = of_all_requests(connection, self);
        let mut client = connection.client.take().expect("taken by close.rs alone, after every other step");
        // Tickets go with the first response, or with what comes before it.
        client.hold(began + TICKET_DELAY);
        if self.first.is_empty() {
            client.acknowledge_flight();
        }
        let (client, served) =
            crate::requests::serve::<R>(&of_all, client, std::mem::take(&mut self.first)).await;
        if let Some((_, kept)) = of_all.tied.take() {
            kept.close(&mut of_all.thread.scratch.borrow_mut());
        }
        let sent = client.sent();
        connection.client = Some(client);
        let record = &mut connection.account.record;
        record.bytes_to_client = sent;
        record.bytes_to_backend = of_all.totals.to_backends.get();
        match served {
            Served::Ended(reason) => {
                // A tunnel has a separate line: its bytes are in no request's.
                record.requests = of_all.totals.requests.get();
                record.seconds.relay = R::now().since(began);
                reason
            }
            Served::Tunnel(Tunnel { connected, in_use }, first) => {
                record.backend = Some(Rc::clone(&in_use.endpoint().name));
                let backend = ConnectedBackend { connected, in_use };
                match Relay::begin(connection, &first, backend) {
                    Ok(mut relay) => Box::pin(relay.run(connection)).await,
                    Err(reason) => reason,
                }
            }
        }
    }
}

fn of_all_requests<R: Runtime>(connection: &mut Connection<R>, requests: &Requests) -> HttpConnection {
    let session = connection.client.as_ref().and_then(Leg::session);
    let names = session.and_then(|session| session.served_names()).cloned();
    let proxy_header = proxy_header_out::header(connection);
    let without_addresses = || proxy_header_out::without_addresses(connection);
    let proxy_facts = if requests.http.has_cache() { without_addresses() } else { Vec::new() };
    let Account { thread, service, record, .. } = &connection.account;
    let is_verified =
        !matches!(record.tls.verdict.as_deref(), Some(Verdict::Unverified | Verdict::Failed { .. }));
    let certificate = record.tls.client_certificate.as_deref().filter(|_| is_verified);
    let facts = ConnectionFacts {
        service: Rc::clone(&record.service),
        generation: record.generation,
        client: record.client,
        server_name: record.server_name.clone(),
        tls_version: record.tls.version,
        client_subject: certificate.map(|shown| shown.subject.clone()),
    };
    let client = record.client;
    let http = &requests.http;
    let shown = certificate.filter(|_| http.writes(Variable::is_about_certificate));
    // Most need the first one at most, and an idle connection keeps what is taken.
    let needed = match () {
        () if http.writes(|variable| variable == Variable::ClientCertificateChain) => usize::MAX,
        () if http.has_certificate_conditions() || http.writes(Variable::is_certificate) => 1,
        () => 0,
    };
    let session = connection.client.as_ref().and_then(Leg::session).filter(|_| is_verified);
    let chain = session.map_or(&[][..], |session| session.peer_certificates());
    HttpConnection {
        thread: Rc::clone(thread),
        service: Rc::clone(service),
        chosen: requests.chosen,
        facts: Rc::new(facts),
        client_address: client_address(client),
        client_certificate: shown.map(|shown| Rc::new(shown.clone())),
        client_chain: chain.iter().take(needed).map(|certificate| certificate.as_ref().into()).collect(),
        is_trusted: requests.http.trusted.as_ref().is_some_and(|trusted| trusted.has(client)),
        http: Rc::clone(&requests.http),
        names,
        is_http2: record.tls.alpn.as_deref() == Some("h2"),
        proxy_header,
        proxy_facts: proxy_facts.into(),
        accepted: connection.accepted,
        tied: Rc::default(),
        totals: Rc::new(Totals::of(&connection.account.open)),
    }
}
