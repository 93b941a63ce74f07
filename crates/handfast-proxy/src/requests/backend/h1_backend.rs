//! A backend that speaks HTTP/1: a connection, for one request after the other.

use std::any::Any;
use std::sync::Arc;

use handfast_http::http1::{Field, Framing, HeadLimits, HeadProgress};
use handfast_leg::{Leg, READ, Socket};
use handfast_net::clock::Moment;
use handfast_observe::metrics::ServiceMetrics;
use handfast_observe::reason::Step;
use handfast_tls::buffer::{Buffer, Scratch};

use crate::backends::connector::Connected;
use crate::backends::endpoint::{InUse, OpenConnection};
use crate::backends::pool::{self, Bounds, Identity, Pool};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::head::content::{Incoming, Io, Outgoing, Output, Sink, Source, flush};
use crate::requests::head::fault::Fault;

/// Reads that may bring no content while a connection waits.
const MAX_EMPTY_READS: usize = 16;

/// A connection to a backend.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    leg: Leg<S>,
    open: OpenConnection,
    /// Requests that it has served.
    served: u32,
    _counted: Idle,
}

/// Counts a connection as idle.
#[derive(Debug)]
struct Idle(Arc<ServiceMetrics>);

impl Idle {
    fn new(metrics: &Arc<ServiceMetrics>) -> Self {
        metrics.pool_kept();
        Self(Arc::clone(metrics))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.pool_dropped();
    }
}

impl<S: Socket + 'static> pool::Connection for Connection<S>
where
    S: std::fmt::Debug,
{
    fn release(&self) {
        self.leg.socket().release();
    }

    fn is_idle(&mut self, scratch: &mut Scratch) -> bool {
        // Tickets may come at any time; content without a request is a response to nothing, and records without end are no waiting.
        for _ in 0..MAX_EMPTY_READS {
            match self.leg.read(scratch, READ) {
                Ok(got) if !got.moved => return !self.leg.is_full(),
                Ok(got) if got.length > 0 || got.failed.is_some() || self.leg.has_ended() => return false,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        false
    }

    fn close(self: Box<Self>, scratch: &mut Scratch) {
        end_cleanly(self.leg, &mut scratch.records);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// close_notify where there is TLS, and FIN. It does not wait until all of it can be written: nothing is on its way.
fn end_cleanly<S: Socket>(mut leg: Leg<S>, records: &mut Buffer) {
    let _ = leg.send_close(records, true);
    leg.socket_mut().finish_at_drop();
}

/// A backend that speaks another protocol from here on.
pub(crate) struct Tunnel<S: Socket> {
    pub(crate) connected: Connected<S>,
    pub(crate) in_use: InUse,
}

/// Keeps a connection for the next request of this client alone.
pub(crate) fn keep_for_client<S>(connection: &HttpConnection, identity: Identity, backend: Http1Backend<S>)
where
    S: Socket + std::fmt::Debug + 'static,
{
    let (_, requests) = connection.http.pool_bounds();
    if let Some(kept) = backend.into_connection(requests, &connection.service.metrics) {
        connection.tied.replace(Some((identity, Box::new(kept))));
    }
}

/// The connection that was kept for this client, if it serves such a request and is still open.
pub(crate) fn take_for_client<S>(
    connection: &HttpConnection,
    identity: &Identity,
    scratch: &mut Scratch,
) -> Option<Box<Connection<S>>>
where
    S: Socket + std::fmt::Debug + 'static,
{
    let (known, mut kept) = connection.tied.take()?;
    if !known.is_same_as(identity) || !kept.is_idle(scratch) {
        kept.close(scratch);
        return None;
    }
    kept.into_any().downcast().ok()
}

/// A request on a connection.
#[derive(Debug)]
pub(crate) struct Http1Backend<S> {
    pub(crate) leg: Leg<S>,
    pub(crate) in_use: InUse,
    pub(crate) incoming: Incoming,
    pub(crate) progress: HeadProgress,
    outgoing: Outgoing,
    served: u32,
    /// Bytes of another protocol pass, and the end of the client's is passed on as such.
    is_tunnel: bool,
}

impl<S: Socket + std::fmt::Debug + 'static> Http1Backend<S> {
    /// A new connection, for a request whose content has this framing.
    pub(crate) fn new(connected: Connected<S>, in_use: InUse, framing: Framing) -> Self {
        let Connected { leg, spoken, .. } = connected;
        Self {
            leg,
            in_use,
            incoming: Incoming::new(spoken),
            progress: HeadProgress::default(),
            outgoing: Outgoing::new(framing),
            served: 0,
            is_tunnel: false,
        }
    }

    /// One that was kept.
    pub(crate) fn reused(
        connection: Connection<S>,
        in_use: impl FnOnce(OpenConnection) -> InUse,
        framing: Framing,
    ) -> Self {
        let Connection { leg, open, served, .. } = connection;
        leg.socket().adopt();
        Self {
            leg,
            in_use: in_use(open),
            incoming: Incoming::new(Vec::new()),
            progress: HeadProgress::default(),
            outgoing: Outgoing::new(framing),
            served,
            is_tunnel: false,
        }
    }

    /// Returns true if it has served a request before.
    pub(crate) fn is_reused(&self) -> bool {
        self.served > 0
    }

    pub(crate) fn begin_content(&mut self, head: usize, framing: Framing, limits: &HeadLimits) {
        self.incoming.begin(head, framing, limits, true);
        self.progress = HeadProgress::default();
    }

    /// Switches both directions to another protocol.
    pub(crate) fn begin_tunnel(&mut self, head: usize, limits: &HeadLimits) {
        self.begin_content(head, Framing::UntilClose, limits);
        self.outgoing = Outgoing::new(Framing::UntilClose);
        self.is_tunnel = true;
    }

    /// Its connection, for another protocol.
    pub(crate) fn into_tunnel(self) -> Tunnel<S> {
        let Self { leg, in_use, incoming, .. } = self;
        Tunnel { connected: Connected { leg, given: 0, spoken: incoming.input }, in_use }
    }

    /// Itself without a request; `None`, and ended, where it cannot serve another one, of `requests` in all.
    pub(crate) fn into_connection(
        self,
        requests: u32,
        metrics: &Arc<ServiceMetrics>,
    ) -> Option<Connection<S>> {
        let served = self.served.saturating_add(1);
        let has_all = self.outgoing.has_ended() || self.outgoing.is_empty();
        let is_clean =
            has_all && self.incoming.has_ended() && self.incoming.input.is_empty() && !self.leg.is_full();
        if !is_clean || self.leg.has_ended() || served >= requests {
            let Self { leg, .. } = self;
            end_cleanly(leg, &mut Buffer::default());
            return None;
        }
        let open = self.in_use.into_idle()?;
        Some(Connection { leg: self.leg, open, served, _counted: Idle::new(metrics) })
    }

    /// Keeps it for the next request, if nothing is left over on it; else ends it.
    pub(crate) fn keep(
        self,
        metrics: &Arc<ServiceMetrics>,
        (pool, identity): (&Pool, &Identity),
        (bounds, requests): (Bounds, u32),
        now: Moment,
        scratch: &mut Scratch,
    ) {
        if let Some(connection) = self.into_connection(requests, metrics) {
            pool.keep(identity, Box::new(connection), bounds, now, scratch);
        }
    }

    /// Ends it after a response that leaves it in a clean state.
    pub(crate) fn close(self, scratch: &mut Scratch) {
        end_cleanly(self.leg, &mut scratch.records);
    }
}

impl<S: Socket> Source for Http1Backend<S> {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.incoming.pump(&mut self.leg, to, io)
    }

    fn has_ended(&self) -> bool {
        self.incoming.has_ended()
    }
}

impl<S: Socket> Sink for Http1Backend<S> {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Outgoing::accepts(&mut self.leg)
    }

    fn room(&self) -> usize {
        READ
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        self.outgoing.put(&mut self.leg, data, output)
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault> {
        self.outgoing.put_end(self.leg.side().into(), text, trailers, output)
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        flush(&mut self.leg, output)?;
        if self.is_tunnel && self.outgoing.has_ended() && !self.leg.is_full() {
            let sent = self.leg.send_close(output.records, false);
            sent.map_err(|broken| Fault::leg(Step::Relay, &broken))?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.outgoing.has_ended() && !self.leg.is_full()
    }
}
