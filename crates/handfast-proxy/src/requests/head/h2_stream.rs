//! A stream of HTTP/2: content in either direction, for clients and backends.

use std::rc::Rc;

use handfast_http::http1::Field;
use handfast_http::http2::frame::ErrorCode;
use handfast_http::http2::{End, HeadFault, StreamKey, Trailers};
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::requests::head::content::{Io, Output, Sink};
use crate::requests::head::fault::Fault;
use crate::requests::head::h2_link::Http2Link;

/// One stream, as its owner has it; dropped, it is reset unless it is over.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) link: Rc<Http2Link>,
    pub(crate) key: StreamKey,
    /// The message that comes has ended, its trailers included.
    has_ended: bool,
    /// Bytes of content that have come, and have gone.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Most bytes that may come.
    limit: Option<u64>,
    /// By its head no content follows, whatever the stream brings.
    is_without_content: bool,
    /// The end was put, and goes with the next flush.
    end: Option<End>,
}

impl Stream {
    pub(crate) fn new(link: &Rc<Http2Link>, key: StreamKey) -> Self {
        Self {
            link: Rc::clone(link),
            key,
            has_ended: false,
            received: 0,
            sent: 0,
            limit: None,
            is_without_content: false,
            end: None,
        }
    }

    /// The present task is woken for it from now on.
    pub(crate) fn adopt<R: Runtime>(&self) {
        self.link.with(|connection| connection.set_owner(self.key, R::task()));
    }

    /// Most bytes of its content from here on.
    pub(crate) fn limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// No content follows: the length in the head of a 304 is that of a 200 (RFC 9113 §8.1.1).
    pub(crate) fn expect_no_content(&mut self) {
        self.is_without_content = true;
    }

    /// The head was the whole message.
    pub(crate) fn mark_ended(&mut self) {
        self.has_ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// **Errors**: why the stream carries nothing more.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self.link.inspect(|connection| connection.end(self.key)) {
            Some(end) => Err(self.link.fault(end)),
            None => Ok(()),
        }
    }

    /// Moves content that has come, `to.room()` bytes at most; see [`Source::pump`](crate::requests::head::content::Source::pump).
    pub(crate) fn pump(&mut self, most: usize, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        if self.has_ended {
            return Ok(false);
        }
        let most = most.min(to.room());
        let content = self.link.with(|connection| connection.take_content(self.key));
        let piece = &content.as_slice()[..content.as_slice().len().min(most)];
        let count = piece.len();
        self.received += count as u64;
        let is_too_large = self.limit.is_some_and(|limit| self.received > limit);
        let put = if count == 0 || is_too_large || self.is_without_content {
            Ok(())
        } else {
            to.put(piece, &mut io.output())
        };
        self.link.with(|connection| connection.give_back(self.key, content, count));
        if count > 0 && self.is_without_content {
            // The head was the whole message; content makes it malformed (RFC 9113 §8.1.1), and need not have an end.
            self.reset(ErrorCode::PROTOCOL_ERROR);
            self.has_ended = true;
            to.put_end(&[], &[], &mut io.output())?;
            to.flush(&mut io.output())?;
            return Ok(true);
        }
        put?;
        if is_too_large {
            return Err(Fault::new(Step::Relay, Side::Client, Cause::BodyTooLarge, 413));
        }
        if self.link.inspect(|connection| connection.has_ended(self.key)) {
            self.has_ended = true;
            self.pass_end(to, io)?;
        } else if !self.link.inspect(|connection| connection.has_content(self.key)) {
            match self.check() {
                Err(_) if self.is_without_content => {
                    self.has_ended = true;
                    to.put_end(&[], &[], &mut io.output())?;
                }
                // What came before it is passed on first.
                Err(_) if count > 0 => {}
                checked => checked?,
            }
        }
        let moved = count > 0 || self.has_ended;
        if moved {
            to.flush(&mut io.output())?;
        }
        Ok(moved)
    }

    /// Passes the end of the message on, with its trailers.
    fn pass_end(&self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<(), Fault> {
        let trailers = self.link.with(|connection| connection.take_received_trailers(self.key));
        let Some(mut trailers) = trailers else { return to.put_end(&[], &[], &mut io.output()) };
        match trailers.trailers() {
            Ok((text, fields)) => to.put_end(text, fields, &mut io.output()),
            Err(HeadFault::Refused(error)) => Err(Fault::message(Step::Relay, &error)),
            Err(HeadFault::Malformed(detail)) => {
                // RFC 9113 §8.1.1.
                self.reset(ErrorCode::PROTOCOL_ERROR);
                let reason = CloseReason::new(Step::Relay, self.link.peer(), Cause::Http2);
                Err(Fault::of(reason.because(detail)))
            }
        }
    }

    /// Returns true if more may be put; if not, the task is woken when it may.
    pub(crate) fn accepts(&self) -> bool {
        self.link.with(|connection| connection.accepts(self.key))
    }

    /// See [`Sink::room`].
    pub(crate) fn room(&self) -> usize {
        self.link.inspect(|connection| connection.room(self.key))
    }

    /// Returns true if content waits for the peer.
    pub(crate) fn is_full(&self) -> bool {
        self.link.inspect(|connection| connection.is_full(self.key))
    }

    /// Returns true if our end of the stream is on its way.
    pub(crate) fn is_done(&self) -> bool {
        self.end.is_none() && self.link.inspect(|connection| connection.is_done(self.key))
    }

    /// See [`Sink::put_end`].
    pub(crate) fn put_end(&mut self, text: &[u8], trailers: &[Field]) {
        self.end = Some(if trailers.is_empty() {
            End::Plain
        } else {
            End::Trailers(Box::new(Trailers { text: text.to_vec(), fields: trailers.to_vec() }))
        });
    }

    /// Sends what was put.
    pub(crate) fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        let end = self.end.take();
        if output.out.is_empty() && end.is_none() {
            return Ok(());
        }
        self.sent += output.out.len() as u64;
        let sent = self.link.with(|connection| connection.send(self.key, output.out, end));
        output.out.clear();
        sent.map_err(|end| self.link.fault(end))
    }

    /// Resets the stream, unless it is over.
    pub(crate) fn reset(&self, code: ErrorCode) {
        self.link.with(|connection| connection.reset(self.key, code));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // RFC 9113 §8.1: a response is whole without the rest of its request.
        let code = match (self.link.peer(), self.is_done()) {
            (Side::Client, true) => ErrorCode::NO_ERROR,
            (Side::Client, false) => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::CANCEL,
        };
        self.link.with(|connection| connection.release(self.key, code));
        self.link.wake_task();
    }
}
