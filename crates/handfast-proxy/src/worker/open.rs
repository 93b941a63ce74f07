//! Open connections and requests of one thread, for the status.
//!
//! In: connections and requests as they begin, which keep what they have moved here. Out: an [`OpenSnapshot`], made on request.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};

use handfast_net::clock::Moment;
use handfast_net::engine;
use handfast_observe::open::{self, OpenCollector, OpenSnapshot};
use handfast_observe::request_record::{
    ConnectionFacts, HttpVersion, RequestPart, RequestRecord, RequestTexts,
};

/// Entries that are looked at before other tasks of the thread continue.
const MAX_BATCH: usize = 1_000;
/// Entries for which a list keeps its memory: single connections, one after the other, must not allocate it each time.
const MIN_CAPACITY: usize = 64;

/// A connection that has not ended.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    pub(crate) accepted: Moment,
    /// Its client, as a proxy in front reported it where there is one.
    pub(crate) client: Cell<Option<SocketAddr>>,
    /// Requests that ended.
    pub(crate) requests: Cell<u64>,
    pub(crate) bytes_to_backend: Cell<u64>,
    pub(crate) bytes_to_client: Cell<u64>,
}

/// A request that has not ended.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    connection: Rc<ConnectionFacts>,
    texts: Rc<RequestTexts>,
    protocol: HttpVersion,
    route: Option<Rc<str>>,
    began: Moment,
    /// The part that takes time now, and the backend that was tried last.
    pub(crate) part: Cell<Option<RequestPart>>,
    pub(crate) backend: RefCell<Option<Rc<str>>>,
    pub(crate) bytes_from_client: Cell<u64>,
    pub(crate) bytes_to_client: Cell<u64>,
}

impl OpenConnection {
    pub(crate) fn new(client: Option<SocketAddr>, accepted: Moment) -> Self {
        Self {
            accepted,
            client: Cell::new(client),
            requests: Cell::default(),
            bytes_to_backend: Cell::default(),
            bytes_to_client: Cell::default(),
        }
    }
}

impl OpenRequest {
    pub(crate) fn new(record: &RequestRecord, began: Moment) -> Self {
        Self {
            connection: Rc::clone(&record.connection),
            texts: Rc::clone(&record.texts),
            protocol: record.protocol,
            route: record.route.clone(),
            began,
            part: Cell::new(None),
            backend: RefCell::new(None),
            bytes_from_client: Cell::default(),
            bytes_to_client: Cell::default(),
        }
    }

    fn describe(&self, seconds: f64) -> open::OpenRequest {
        let texts = &self.texts;
        open::OpenRequest {
            id: texts.id().into(),
            service: (&*self.connection.service).into(),
            client: address(self.connection.client),
            protocol: self.protocol.name().into(),
            method: texts.method().into(),
            host: texts.host().map(Box::from),
            path: texts.path_alone().into(),
            route: self.route.as_deref().map(Box::from),
            backend: self.backend.borrow().as_deref().map(Box::from),
            part: self.part.get().map_or("hello", RequestPart::name).into(),
            seconds,
            bytes_from_client: self.bytes_from_client.get(),
            bytes_to_client: self.bytes_to_client.get(),
        }
    }
}

fn address(client: Option<SocketAddr>) -> Option<IpAddr> {
    client.map(|client| client.ip().to_canonical())
}

/// Entries that last as long as their connection or request. Those that are gone are swept out once they are half of the list, so that they
/// hold no memory in the middle of the heap.
#[derive(Debug)]
struct List<T> {
    entries: Vec<Weak<T>>,
    ended: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), ended: 0 }
    }
}

impl<T> List<T> {
    fn add(&mut self, entry: T) -> Rc<T> {
        let entry = Rc::new(entry);
        self.entries.push(Rc::downgrade(&entry));
        entry
    }

    /// One of them has ended. **Cost**: in the mean two looks at an entry.
    fn end(&mut self) {
        self.ended += 1;
        if self.ended * 2 >= self.entries.len() {
            self.entries.retain(|entry| entry.strong_count() > 0);
            self.ended = 0;
            if self.entries.capacity() > (self.entries.len() * 4).max(MIN_CAPACITY) {
                self.entries.shrink_to(self.entries.len() * 2);
            }
        }
    }

    /// The entries at these places that are not gone; `None`: there are no further places.
    fn some(&self, from: usize) -> Option<Vec<Rc<T>>> {
        let entries = self.entries.get(from..).filter(|entries| !entries.is_empty())?;
        Some(entries.iter().take(MAX_BATCH).filter_map(Weak::upgrade).collect())
    }
}

/// Everything that a thread has open.
#[derive(Debug, Default)]
pub(crate) struct OpenList {
    connections: RefCell<List<OpenConnection>>,
    requests: RefCell<List<OpenRequest>>,
}

impl OpenList {
    /// A connection began; exactly one [`connection_ended`](Self::connection_ended) follows. **Cost**: one allocation.
    pub(crate) fn connection(&self, connection: OpenConnection) -> Rc<OpenConnection> {
        self.connections.borrow_mut().add(connection)
    }

    /// A connection has ended.
    pub(crate) fn connection_ended(&self) {
        self.connections.borrow_mut().end();
    }

    /// A request began; exactly one [`request_ended`](Self::request_ended) follows. **Cost**: one allocation.
    pub(crate) fn request(&self, request: OpenRequest) -> Rc<OpenRequest> {
        self.requests.borrow_mut().add(request)
    }

    /// A request has ended.
    pub(crate) fn request_ended(&self) {
        self.requests.borrow_mut().end();
    }

    /// Describes what is open; other tasks of the thread continue in between, so what begins or ends meanwhile may be missing.
    pub(crate) async fn snapshot(&self) -> OpenSnapshot {
        let mut collector = OpenCollector::default();
        let mut from = 0;
        while let Some(requests) = { self.requests.borrow().some(from) } {
            let now = engine::now();
            for request in requests {
                let seconds = now.since(request.began).as_secs_f64();
                collector.add_request(seconds, || request.describe(seconds));
                collector.add_client(&open::OpenClient {
                    client: address(request.connection.client),
                    requests_open: 1,
                    bytes_to_backend: request.bytes_from_client.get(),
                    bytes_to_client: request.bytes_to_client.get(),
                    ..open::OpenClient::default()
                });
            }
            from += MAX_BATCH;
            engine::yield_now().await;
        }
        let mut from = 0;
        while let Some(connections) = { self.connections.borrow().some(from) } {
            let now = engine::now();
            for connection in connections {
                collector.add_client(&open::OpenClient {
                    client: address(connection.client.get()),
                    connections: 1,
                    requests: connection.requests.get(),
                    requests_open: 0,
                    bytes_to_backend: connection.bytes_to_backend.get(),
                    bytes_to_client: connection.bytes_to_client.get(),
                    oldest_seconds: now.since(connection.accepted).as_secs_f64(),
                });
            }
            from += MAX_BATCH;
            engine::yield_now().await;
        }
        collector.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_forgets_what_is_gone_and_never_what_is_open() {
        let mut list = List::default();
        let kept: Vec<Rc<usize>> = (0..10).map(|number| list.add(number)).collect();
        for number in 0..100_000 {
            drop(list.add(number));
            list.end();
            assert!(
                list.entries.len() <= 2 * kept.len() + 2,
                "{} entries for 10 that are open",
                list.entries.len()
            );
        }
        let open: Vec<Rc<usize>> = list.some(0).expect("there are some");
        assert_eq!(open, kept);
        let many: Vec<Rc<usize>> = (0..5_000).map(|number| list.add(number)).collect();
        for entry in many {
            drop(entry);
            list.end();
        }
        assert!(
            list.entries.len() <= 2 * kept.len() + 2 && list.entries.capacity() <= 64,
            "{}",
            list.entries.capacity()
        );
    }
}
