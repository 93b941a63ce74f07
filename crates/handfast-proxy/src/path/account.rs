//! A connection in the books: that it is counted when it is accepted and when it ends, each once, whatever happens to it; and whether its
//! client is admitted.
//!
//! In: a client that was accepted, and in the end the reason. Out: its record in the metrics and the access log, its permits
//! given back.

use std::net::SocketAddr;
use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::admission::Denied;
use crate::admission::permits::{AddressPermit, Permit};
use crate::backends::endpoint::Endpoint;
use crate::backends::standing::FailurePolicy;
use crate::worker::context::WorkerContext;
use crate::worker::open::OpenConnection;
use crate::worker::services::ThreadService;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::Limit;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::record::Record;

#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) thread: Rc<WorkerContext>,
    /// With the state it was accepted with, to its end.
    pub(crate) service: Rc<ThreadService>,
    pub(crate) record: Record,
    /// Its entry in the list of open connections.
    pub(crate) open: Rc<OpenConnection>,
    /// Of the client's address, once it was let in, where the service limits that.
    pub(crate) address_permit: Option<AddressPermit>,
    closed: bool,
    _permits: Permits,
}

/// Of the process, and of the service where it has a limit.
pub(crate) type Permits = (Permit, Option<Permit>);

impl Account {
    pub(crate) fn open(
        thread: &Rc<WorkerContext>,
        service: &Rc<ThreadService>,
        client: Option<SocketAddr>,
        permits: Permits,
    ) -> Self {
        service.metrics.accepted();
        thread.connection_began();
        let named = (service.index, Rc::clone(&service.name));
        let record = Record::new(named, service.generation, client);
        let open = thread.open.connection(OpenConnection::new(client, Moment::now()));
        let (thread, service) = (Rc::clone(thread), Rc::clone(service));
        Self { thread, service, record, open, address_permit: None, closed: false, _permits: permits }
    }

    /// Admits the client, or returns why not; counted. Its address is the socket's, or the one that a proxy in front has named: so it is
    /// called at accept, or after the header that names it.
    ///
    /// **Cost**: nothing where the service has no such rule; else two searches in sorted lists, and one exchange in a table that
    /// all threads share; a lock of a table where `max-connections-per-address` is set.
    pub(crate) fn admit(&mut self, now: Moment) -> Result<(), CloseReason> {
        self.open.client.set(self.record.client);
        let Some(client) = self.record.client else { return Ok(()) };
        let address = client.ip().to_canonical();
        let checked =
            self.service.admission.as_ref().map_or(Ok(()), |admission| admission.check(address, now));
        let checked = checked.and_then(|()| {
            let Some(limit) = &self.service.address_limit else { return Ok(()) };
            let denied = Denied { limit: Limit::Address, cause: Cause::AddressLimit, detail: None };
            self.address_permit = Some(limit.take(address).ok_or(denied)?);
            Ok(())
        });
        checked.map_err(|Denied { limit, cause, detail }| {
            self.service.metrics.refused(limit);
            CloseReason { detail, ..CloseReason::new(Step::Accept, Side::Operator, cause) }
        })
    }

    /// Records that a backend failed this connection; the number of failures that it may have.
    pub(crate) fn backend_failed(&mut self, endpoint: &Endpoint, reason: &CloseReason) -> FailurePolicy {
        self.record.backend_failures.add(&endpoint.name, reason.cause);
        let limits = &self.service.model.limits;
        FailurePolicy { failures: limits.backend_failures, pause: limits.backend_retry }
    }

    pub(crate) fn close(&mut self, reason: &CloseReason) {
        if !std::mem::replace(&mut self.closed, true) {
            self.service.metrics.closed(&self.record, reason);
            if reason.cause.is_failure() {
                self.thread.metrics.failed(&self.record, reason);
            }
            self.thread.log(&self.record, reason);
            self.thread.connection_ended();
        }
    }
}

/// A connection whose task panicked, or was dropped with its thread, has ended too.
impl Drop for Account {
    fn drop(&mut self) {
        if !self.closed {
            let internal = CloseReason::new(Step::Relay, Side::Local, Cause::Internal);
            self.close(&internal.because("its task was ended"));
        }
    }
}
