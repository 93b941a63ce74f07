//! Content of a stream in HTTP/2, in either direction, for clients and backends.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_http::http1::{Field, HeadLimits};
use http::HeaderMap;

use crate::requests::head::content::{Io, Output, Sink};
use crate::requests::head::fault::Fault;
use crate::requests::head::h2_heads;
use crate::requests::head::h2_queue::{Queue, QueuedStream};

/// Content that room is requested for at once.
const MAX_PIECE_BYTES: usize = 16_384;
/// DATA frames that are passed on before the response has its turn; each may be a single byte.
const MAX_PIECES: usize = 256;

/// Content that comes by a stream.
#[derive(Debug)]
pub(crate) struct StreamIn {
    stream: RecvStream,
    ended: bool,
    pub(crate) bytes: u64,
    limit: Option<u64>,
    limits: HeadLimits,
    is_response: bool,
    /// By its head no content follows, whatever the stream brings.
    is_without_content: bool,
}

impl StreamIn {
    /// Most bytes of its content from here on.
    pub(crate) fn limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    pub(crate) fn new(stream: RecvStream, limit: Option<u64>, limits: HeadLimits, is_response: bool) -> Self {
        let ended = stream.is_end_stream();
        Self { stream, ended, bytes: 0, limit, limits, is_response, is_without_content: false }
    }

    /// Notes that the message is whole. The length in the head of a 304 is that of a 200 (RFC 9113 §8.1.1), and the `h2` crate resets a stream
    /// whose DATA differ from it.
    pub(crate) fn expect_no_content(&mut self) {
        self.is_without_content = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Moves at most `most` bytes, and the rest of a frame; see [`Source::pump`].
    pub(crate) fn pump(&mut self, most: usize, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        let most = most.min(to.room());
        let mut context = Context::from_waker(io.waker);
        let mut taken = 0;
        let mut moved = false;
        let mut pieces = 0;
        while !self.ended && taken < most && pieces < MAX_PIECES {
            pieces += 1;
            match self.stream.poll_data(&mut context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(data))) => {
                    moved = true;
                    taken += data.len();
                    self.bytes += data.len() as u64;
                    if self.limit.is_some_and(|limit| self.bytes > limit) {
                        return Err(Fault::new(Step::Relay, Side::Client, Cause::BodyTooLarge, 413));
                    }
                    if !data.is_empty() {
                        to.put(&data, &mut io.output())?;
                    }
                    // The sink has it, and accepts no more than a read of this size ahead.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                }
                Poll::Ready(Some(Err(error))) if self.is_without_content && error.is_reset() => {
                    (moved, self.ended) = (true, true);
                    to.put_end(&[], &[], &mut io.output())?;
                }
                Poll::Ready(Some(Err(error))) => return Err(broken(self.side(), &error)),
                Poll::Ready(None) => match self.stream.poll_trailers(&mut context) {
                    Poll::Pending => break,
                    Poll::Ready(Err(error)) => return Err(broken(self.side(), &error)),
                    Poll::Ready(Ok(trailers)) => {
                        (moved, self.ended) = (true, true);
                        let mut output = io.output();
                        match trailers {
                            None => to.put_end(&[], &[], &mut output)?,
                            Some(trailers) => {
                                h2_heads::with_trailers(
                                    &trailers,
                                    &self.limits,
                                    self.is_response,
                                    |text, fields| to.put_end(text, fields, &mut output),
                                )??;
                            }
                        }
                    }
                },
            }
        }
        if moved {
            to.flush(&mut io.output())?;
        }
        Ok(moved)
    }

    fn side(&self) -> Side {
        if self.is_response { Side::Backend } else { Side::Client }
    }
}

/// Returns the fault for a stream that failed.
pub(crate) fn broken(side: Side, error: &h2::Error) -> Fault {
    let cause = if error.is_io() {
        Cause::CLOSED_EARLY
    } else if error.is_reset() {
        Cause::StreamReset
    } else {
        Cause::Http2
    };
    Fault::of(CloseReason::new(Step::Relay, side, cause).because(error.to_string()))
}

/// Content that goes by a stream.
#[derive(Debug)]
pub(crate) struct StreamOut {
    /// `None` before the head, and where a head was the whole message.
    pub(crate) stream: Option<SendStream<Bytes>>,
    /// Content that was put and is not sent.
    place: QueuedStream,
    /// The end was put, with this trailer section; and it was sent.
    end: Option<Option<HeaderMap>>,
    pub(crate) is_done: bool,
    pub(crate) bytes: u64,
}

impl StreamOut {
    pub(crate) fn new(queue: &Rc<Queue>) -> Self {
        Self { stream: None, place: QueuedStream::new(queue), end: None, is_done: false, bytes: 0 }
    }

    pub(crate) fn begin(&mut self, stream: SendStream<Bytes>) {
        self.stream = Some(stream);
    }

    pub(crate) fn accepts(&mut self, io: &Io<'_>) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.is_done) else { return true };
        if self.place.room() == 0 {
            self.place.wait(io.waker);
            return false;
        }
        stream.reserve_capacity(MAX_PIECE_BYTES);
        loop {
            if stream.capacity() > 0 {
                return true;
            }
            // It is ready once for each change, also where the capacity is still zero, and registers the waker only when it is not.
            match stream.poll_capacity(&mut Context::from_waker(io.waker)) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(_))) => {}
                // The next send returns the reason.
                Poll::Ready(None | Some(Err(_))) => return true,
            }
        }
    }

    /// Returns the share of the queue that a stream without content may take.
    pub(crate) fn share(&self) -> usize {
        self.place.share()
    }

    /// See [`Sink::room`].
    pub(crate) fn room(&self) -> usize {
        // Content that comes with a head waits until its client takes more.
        if self.stream.is_none() { self.place.share() } else { self.place.room() }
    }

    pub(crate) fn is_full(&self) -> bool {
        let is_full = |stream: &SendStream<Bytes>| stream.capacity() == 0 || self.place.room() == 0;
        self.stream.as_ref().is_some_and(|stream| !self.is_done && is_full(stream))
    }

    pub(crate) fn put_end(&mut self, text: &[u8], trailers: &[Field]) {
        let trailers = if trailers.is_empty() { None } else { h2_heads::fields(text, trailers, |_| true) };
        self.end = Some(trailers);
    }

    pub(crate) fn flush(&mut self, side: Side, output: &mut Output<'_>) -> Result<(), Fault> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let failed = |error: h2::Error| broken(side, &error);
        // A trailer section that was sent leaves `Some(None)` behind.
        let is_last = matches!(self.end, Some(None)) && !self.is_done;
        if !output.out.is_empty() || is_last {
            let data = self.place.count(output.out);
            output.out.clear();
            self.bytes += data.len() as u64;
            stream.send_data(data, is_last).map_err(failed)?;
            self.is_done |= is_last;
        }
        if let Some(trailers) = self.end.as_mut().and_then(Option::take) {
            stream.send_trailers(trailers).map_err(failed)?;
            self.is_done = true;
        }
        Ok(())
    }
}
