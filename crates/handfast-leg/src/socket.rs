//! Socket interface of a leg, so that tests can put memory in its place.
//!
//! In: calls that never wait. Out: bytes, ends and first faults, as [`Stream`] reports them.

use std::net::SocketAddr;

use handfast_net::fault::Fault;
use handfast_net::stream::{Read, SocketTimeouts, Stream, Write};

/// A stream of bytes in two directions. [`Stream`] is the one that is used; its documentation has the guarantees of
/// each method.
pub trait Socket {
    /// Reads what is there, without waiting. `buffer` must not be empty.
    ///
    /// **Errors**: the first fault; ever after, the same one.
    fn try_read(&mut self, buffer: &mut [u8]) -> Result<Read, Fault>;

    /// Writes as much of `bytes` as is taken, without waiting. `bytes` must not be empty.
    ///
    /// **Errors**: as [`Socket::try_read`].
    fn try_write(&mut self, bytes: &[u8]) -> Result<Write, Fault>;

    /// The same for the last bytes, which travel with the end that follows at once.
    ///
    /// **Errors**: as [`Socket::try_read`].
    fn try_write_last(&mut self, bytes: &[u8]) -> Result<Write, Fault>;

    /// Ends our direction behind what was written.
    fn end_writing(&mut self);

    /// Fetches a fault that was announced and that no call has met yet.
    ///
    /// **Errors**: the first fault.
    fn check(&mut self) -> Result<(), Fault>;

    /// Returns true if a fault has occurred.
    fn is_faulty(&self) -> bool;

    /// Bytes written that the peer has not acknowledged yet.
    fn unacknowledged(&self) -> usize;

    /// Bytes that the peer may have received without having acknowledged them.
    fn delayed_acknowledgement(&self) -> usize {
        0
    }

    /// Turns Nagle's algorithm off.
    fn no_delay(&mut self);

    /// Acknowledges what has come now, and not with what is sent next.
    fn acknowledge_now(&mut self);

    /// Waits for something to read without trying first, for a peer that cannot have answered yet.
    ///
    /// **Errors**: registering with the engine.
    fn expect_later(&mut self) -> Result<(), Fault>;

    /// Is woken by what happens to it, when nothing has blocked yet; what may be there is still tried first.
    ///
    /// **Errors**: registering with the engine.
    fn watch(&mut self) -> Result<(), Fault>;

    /// Returns true if an event reported that the peer ended its direction or is gone.
    fn peer_ended(&self) -> bool;

    /// Returns true if an event reported that both directions are over.
    fn is_broken(&self) -> bool;

    /// Bounds how long the kernel waits for a peer that is gone.
    fn set_timeouts(&self, timeouts: SocketTimeouts);

    /// Its own address; `None` where it has none, as a unix socket, or the kernel does not report it.
    fn local_address(&self) -> Option<SocketAddr>;

    /// Makes dropping it a clean close; otherwise dropping it is an abort.
    fn finish_at_drop(&mut self);

    /// Leaves the present task: events wake no task until one adopts it.
    fn release(&self);

    /// Moves the socket to the present task, which its events wake from now on. Earlier readiness is kept.
    fn adopt(&self);
}

impl Socket for Stream {
    fn try_read(&mut self, buffer: &mut [u8]) -> Result<Read, Fault> {
        Self::try_read(self, buffer)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        Self::try_write(self, bytes)
    }

    fn try_write_last(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        Self::try_write_last(self, bytes)
    }

    fn end_writing(&mut self) {
        Self::end_writing(self);
    }

    fn check(&mut self) -> Result<(), Fault> {
        Self::check(self)
    }

    fn is_faulty(&self) -> bool {
        self.fault().is_some()
    }

    fn unacknowledged(&self) -> usize {
        self.unsent()
    }

    fn delayed_acknowledgement(&self) -> usize {
        Self::delayed_acknowledgement(self)
    }

    fn no_delay(&mut self) {
        Self::no_delay(self);
    }

    fn acknowledge_now(&mut self) {
        Self::acknowledge_now(self);
    }

    fn expect_later(&mut self) -> Result<(), Fault> {
        Self::expect_later(self)
    }

    fn watch(&mut self) -> Result<(), Fault> {
        Self::watch(self)
    }

    fn peer_ended(&self) -> bool {
        Self::peer_ended(self)
    }

    fn is_broken(&self) -> bool {
        Self::is_broken(self)
    }

    fn set_timeouts(&self, timeouts: SocketTimeouts) {
        Self::set_timeouts(self, timeouts);
    }

    fn local_address(&self) -> Option<SocketAddr> {
        Self::local_address(self)
    }

    fn finish_at_drop(&mut self) {
        Self::finish_at_drop(self);
    }

    fn release(&self) {
        Self::release(self);
    }

    fn adopt(&self) {
        Self::adopt(self);
    }
}
