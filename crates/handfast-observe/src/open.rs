//! Requests that are open, and the clients that are connected, at one moment: an answer to "what does this process do now".
//!
//! In: what each worker has open. Out: bounded lists, whatever there is. No query strings: they may have secrets.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Requests that are listed: those that are open for longest.
pub const MAX_REQUESTS: usize = 100;
/// Clients that are listed: those with most bytes.
pub const MAX_CLIENTS: usize = 50;
/// Clients that are added up, so that a look at many connections needs little memory; what further ones have is counted together.
const ADDED_UP: usize = 10_000;

/// Everything that is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenSnapshot {
    /// Requests, the oldest first.
    pub requests: Vec<OpenRequest>,
    /// The number of open requests.
    pub requests_in_all: u64,
    /// Clients with connections, those with most bytes first.
    pub clients: Vec<OpenClient>,
    /// The number of client addresses with connections.
    pub clients_in_all: u64,
    /// Worker threads that did not answer in time, so that theirs are missing.
    pub missing_workers: u64,
}

/// A request that has begun and not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenRequest {
    /// Its identifier, as in the access log.
    pub id: Box<str>,
    /// Its service.
    pub service: Box<str>,
    /// The address of its client; `None`: a unix socket.
    pub client: Option<IpAddr>,
    /// The HTTP version.
    pub protocol: Box<str>,
    /// Its method.
    pub method: Box<str>,
    /// The host that it names.
    pub host: Option<Box<str>>,
    /// Its path, without the query.
    pub path: Box<str>,
    /// Its route; `None`: none took it.
    pub route: Option<Box<str>>,
    /// The backend that was tried last.
    pub backend: Option<Box<str>>,
    /// The part that takes time now, as in the access log: `queue`, `connect`, `answer`, `relay`.
    pub part: Box<str>,
    /// Seconds since its head was complete.
    pub seconds: f64,
    /// Bytes of its content so far.
    pub bytes_from_client: u64,
    /// Bytes of the content of its response so far.
    pub bytes_to_client: u64,
}

/// The open connections of a client address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenClient {
    /// The address; `None`: unix sockets.
    pub client: Option<IpAddr>,
    /// Its connections.
    pub connections: u64,
    /// Requests that ended on them.
    pub requests: u64,
    /// Requests that are open.
    pub requests_open: u64,
    /// Bytes to backends on these connections.
    pub bytes_to_backend: u64,
    /// Bytes to the client.
    pub bytes_to_client: u64,
    /// Seconds for which its oldest connection is open.
    pub oldest_seconds: f64,
}

impl OpenClient {
    fn bytes(&self) -> u64 {
        self.bytes_to_backend.saturating_add(self.bytes_to_client)
    }

    fn add(&mut self, more: &Self) {
        let Self {
            client: _,
            connections,
            requests,
            requests_open,
            bytes_to_backend,
            bytes_to_client,
            oldest_seconds,
        } = more;
        self.connections += connections;
        self.requests += requests;
        self.requests_open += requests_open;
        self.bytes_to_backend = self.bytes_to_backend.saturating_add(*bytes_to_backend);
        self.bytes_to_client = self.bytes_to_client.saturating_add(*bytes_to_client);
        self.oldest_seconds = self.oldest_seconds.max(*oldest_seconds);
    }
}

/// Adds up what is open, in memory of a bounded size.
#[derive(Debug, Default)]
pub struct OpenCollector {
    snapshot: OpenSnapshot,
    /// Seconds of the youngest request that is listed, once the list is full.
    youngest: f64,
    clients: HashMap<Option<IpAddr>, OpenClient>,
}

impl OpenCollector {
    /// Adds a request; `describe` makes it, where it is among those that are listed.
    pub fn add_request(&mut self, seconds: f64, describe: impl FnOnce() -> OpenRequest) {
        self.snapshot.requests_in_all += 1;
        let requests = &mut self.snapshot.requests;
        if requests.len() == MAX_REQUESTS {
            // They come in the order of their age, so nearly all others are younger.
            if seconds <= self.youngest {
                return;
            }
            let youngest = requests.iter().position(|request| request.seconds <= self.youngest);
            requests.swap_remove(youngest.unwrap_or_default());
        }
        requests.push(describe());
        if requests.len() == MAX_REQUESTS {
            self.youngest = requests.iter().map(|request| request.seconds).fold(f64::INFINITY, f64::min);
        }
    }

    /// Adds a connection, or a request, of a client.
    pub fn add_client(&mut self, more: &OpenClient) {
        let is_full = self.clients.len() >= ADDED_UP;
        match self.clients.get_mut(&more.client) {
            Some(known) => known.add(more),
            None if is_full => self.snapshot.clients_in_all += 1,
            None => drop(self.clients.insert(more.client, more.clone())),
        }
    }

    /// Returns the lists in their order. Those of several workers are merged again.
    pub fn finish(mut self) -> OpenSnapshot {
        self.snapshot.clients_in_all += self.clients.len() as u64;
        let mut clients: Vec<OpenClient> = self.clients.into_values().collect();
        clients.sort_by_key(|client| (Reverse(client.bytes()), client.client));
        // Several workers can have connections of one client: enough is sent for the sum.
        self.snapshot.clients = clients;
        self.snapshot
    }
}

impl OpenSnapshot {
    /// Merges the snapshots of all workers.
    pub fn merged(parts: Vec<Self>) -> Self {
        let mut collector = OpenCollector::default();
        let mut requests_in_all = 0;
        for part in parts {
            requests_in_all += part.requests_in_all;
            part.clients.iter().for_each(|client| collector.add_client(client));
            for request in part.requests {
                collector.add_request(request.seconds, || request);
            }
        }
        let mut all = collector.finish();
        all.requests_in_all = requests_in_all;
        all.requests.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        all.clients.truncate(MAX_CLIENTS);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: u32, bytes: u64) -> OpenClient {
        let client = Some(Ipv4Addr::from(number).into());
        OpenClient { client, connections: 1, bytes_to_client: bytes, ..OpenClient::default() }
    }

    #[test]
    fn the_oldest_requests_and_the_largest_clients_are_listed() {
        let part = |first: u64| {
            let mut collector = OpenCollector::default();
            for number in (first..10_000).step_by(2) {
                let request = || OpenRequest { seconds: number as f64, ..OpenRequest::default() };
                collector.add_request(number as f64, request);
                collector.add_client(&client((number % 500) as u32, number));
            }
            collector.finish()
        };
        let all = OpenSnapshot::merged(vec![part(0), part(1)]);
        assert_eq!((all.requests_in_all, all.requests.len()), (10_000, MAX_REQUESTS));
        let seconds: Vec<f64> = all.requests.iter().map(|request| request.seconds).collect();
        let expected: Vec<f64> = (9_900..10_000).rev().map(f64::from).collect();
        assert_eq!(seconds, expected);
        assert_eq!((all.clients_in_all, all.clients.len()), (500, MAX_CLIENTS));
        assert_eq!((all.clients[0].client, all.clients[0].connections), (client(499, 0).client, 20));
    }

    #[test]
    fn clients_without_end_need_bounded_memory() {
        let mut collector = OpenCollector::default();
        (0..50_000).for_each(|number| collector.add_client(&client(number, 1)));
        assert_eq!(collector.clients.len(), ADDED_UP);
        let all = OpenSnapshot::merged(vec![collector.finish()]);
        assert_eq!(all.clients.len(), MAX_CLIENTS);
    }
}
