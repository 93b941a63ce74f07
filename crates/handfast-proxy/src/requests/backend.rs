//! The backend's side of an exchange, in either version.

pub(crate) mod h1_backend;
pub(crate) mod h2_backend;

use std::fmt::Debug;

use handfast_http::http1::{
    Field, Framing, HeadLimits, HeadProgress, OwnedRequest, ResponseHead, parse_response,
};
use handfast_http::http2::frame::ErrorCode;
use handfast_http::http2::{HeadFault, HeadText};
use handfast_leg::Socket;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::backends::endpoint::InUse;
use crate::requests::backend::h1_backend::{Http1Backend, Tunnel};
use crate::requests::backend::h2_backend::Http2Backend;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::Fault;
use crate::worker::context::HttpBuffers;

/// A request at its backend.
#[derive(Debug)]
pub(crate) enum Backend<S: Socket> {
    Http1(Box<Http1Backend<S>>),
    Http2(Box<Http2Backend>),
}

/// The head of a response, as it was received.
pub(crate) enum ReceivedHead {
    /// Text that begins with it, and how much of it was looked at.
    Text(Vec<u8>, HeadProgress),
    /// That of a stream, and whether the stream ended with it.
    Stream(Box<HeadText>, bool),
}

impl ReceivedHead {
    /// Returns the head; `None`: more must come.
    ///
    /// **Errors**: it is wrong.
    pub(crate) fn parse<'a>(
        &'a mut self,
        fields: &'a mut Vec<Field>,
        limits: &HeadLimits,
    ) -> Result<Option<ResponseHead<'a>>, Fault> {
        match self {
            Self::Text(text, progress) => parse_response(text, progress, fields, limits)
                .map_err(|error| Fault::message(Step::Relay, &error)),
            Self::Stream(head, is_last) => match head.response(!*is_last) {
                Ok(head) => Ok(Some(head)),
                Err(HeadFault::Refused(error)) => Err(Fault::message(Step::Relay, &error)),
                Err(HeadFault::Malformed(detail)) => {
                    let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
                    Err(Fault::of(reason.because(detail)))
                }
            },
        }
    }
}

/// Calls the same method of both.
macro_rules! either {
    ($backend:expr, $name:ident => $call:expr) => {
        match $backend {
            Backend::Http1($name) => $call,
            Backend::Http2($name) => $call,
        }
    };
}

impl<S: Socket + Debug + 'static> Backend<S> {
    pub(crate) fn in_use(&self) -> &InUse {
        either!(self, backend => &backend.in_use)
    }

    /// Returns true if its connection has served a request before.
    pub(crate) fn is_reused(&self) -> bool {
        either!(self, backend => backend.is_reused())
    }

    /// Puts the head of the request, unless it is sent already; `given` bytes of its text are.
    pub(crate) fn put_head(&mut self, head: &OwnedRequest, given: usize, io: &mut Io<'_>) {
        match self {
            Self::Http1(_) => io.buffers.out.extend_from_slice(&head.text()[given..]),
            Self::Http2(backend) => backend.put_head(&head.head()),
        }
    }

    /// **Errors**: its stream of HTTP/2 carries nothing more, or has brought too many heads.
    pub(crate) fn check(&mut self) -> Result<(), Fault> {
        match self {
            Self::Http1(_) => Ok(()),
            Self::Http2(backend) => backend.check(),
        }
    }

    /// Reads more of a response's head, at most `most` bytes; returns true if anything came.
    pub(crate) fn read_head(&mut self, most: usize, io: &mut Io<'_>) -> Result<bool, Fault> {
        match self {
            Self::Http1(backend) => backend.incoming.read_head(&mut backend.leg, most, io),
            Self::Http2(backend) => Ok(backend.has_received_head()),
        }
    }

    /// Takes what has come of the head of a response out of it; give it back by [`Backend::give_back`].
    ///
    /// **Errors**: there are too many heads.
    pub(crate) fn take_head(&mut self) -> Result<Option<ReceivedHead>, Fault> {
        Ok(match self {
            Self::Http1(backend) => {
                Some(ReceivedHead::Text(std::mem::take(&mut backend.incoming.input), backend.progress))
            }
            Self::Http2(backend) => {
                backend.take_head()?.map(|(head, is_last)| ReceivedHead::Stream(head, is_last))
            }
        })
    }

    /// Gives back what [`Backend::take_head`] has taken.
    pub(crate) fn give_back(&mut self, head: ReceivedHead) {
        if let (Self::Http1(backend), ReceivedHead::Text(input, progress)) = (self, head) {
            (backend.incoming.input, backend.progress) = (input, progress);
        }
    }

    /// Gives back a head that is not accepted, for this fault. A malformed one ends its stream with PROTOCOL_ERROR (RFC 9113 §8.1.1).
    pub(crate) fn refuse_head(&mut self, head: ReceivedHead, fault: &Fault) {
        match self {
            Self::Http1(_) => self.give_back(head),
            Self::Http2(backend) if fault.rule.is_none() => backend.reset(ErrorCode::PROTOCOL_ERROR),
            Self::Http2(_) => {}
        }
    }

    /// Returns true if nothing of a response has come.
    pub(crate) fn is_untouched(&self) -> bool {
        match self {
            Self::Http1(backend) => backend.incoming.input.is_empty(),
            Self::Http2(backend) => !backend.has_received_head(),
        }
    }

    /// Returns true if nothing more comes from it.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Http1(backend) => backend.leg.has_ended(),
            Self::Http2(_) => false,
        }
    }

    /// Returns true if the stream of its response ended with the head. In HTTP/1 the head alone announces what follows.
    pub(crate) fn ended_with_its_head(&self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(backend) => backend.has_ended(),
        }
    }

    /// The head of this length was taken; its content comes next.
    pub(crate) fn begin_content(&mut self, head: usize, framing: Framing, limits: &HeadLimits) {
        match self {
            Self::Http1(backend) => backend.begin_content(head, framing, limits),
            Self::Http2(backend) => backend.begin_content(framing),
        }
    }

    /// Switches both directions to another protocol.
    pub(crate) fn begin_tunnel(&mut self, head: usize, limits: &HeadLimits) {
        if let Self::Http1(backend) = self {
            backend.begin_tunnel(head, limits);
        }
    }

    /// Returns true if bytes that were put wait for the backend to take them.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Http1(backend) => backend.leg.is_full(),
            Self::Http2(backend) => backend.is_full(),
        }
    }

    /// Returns true if [`Backend::check`] will report why the backend takes no more, or its response: its stream was reset.
    pub(crate) fn reports_reason(&self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(backend) => backend.awaits_response(),
        }
    }

    /// Returns true if it has refused the request before it processed any of it, and has not received its trailers.
    pub(crate) fn has_refused(&self) -> bool {
        match self {
            Self::Http1(_) => false,
            // Nothing keeps trailers for another attempt.
            Self::Http2(backend) => backend.has_refused && !backend.has_trailers,
        }
    }

    /// The present task has it from now on.
    pub(crate) fn adopt<R: Runtime>(&self) {
        match self {
            Self::Http1(backend) => backend.leg.socket().adopt(),
            Self::Http2(backend) => backend.adopt::<R>(),
        }
    }

    /// The connection, where it serves one request at a time. The thread gets the buffer of its head back.
    pub(crate) fn into_http1(self, buffers: &mut HttpBuffers) -> Option<Box<Http1Backend<S>>> {
        match self {
            Self::Http1(mut backend) => {
                backend.incoming.give_back(buffers);
                Some(backend)
            }
            Self::Http2(_) => None,
        }
    }

    /// Its connection, for another protocol.
    pub(crate) fn into_tunnel(self) -> Option<Tunnel<S>> {
        match self {
            Self::Http1(backend) => Some(backend.into_tunnel()),
            Self::Http2(_) => None,
        }
    }
}

impl<S: Socket> Source for Backend<S> {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        either!(self, backend => backend.pump(to, io))
    }

    fn has_ended(&self) -> bool {
        either!(self, backend => backend.has_ended())
    }
}

impl<S: Socket> Sink for Backend<S> {
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault> {
        either!(self, backend => backend.accepts(io))
    }

    fn room(&self) -> usize {
        either!(self, backend => backend.room())
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        either!(self, backend => backend.put(data, output))
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault> {
        either!(self, backend => backend.put_end(text, trailers, output))
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        either!(self, backend => backend.flush(output))
    }

    fn is_done(&self) -> bool {
        either!(self, backend => backend.is_done())
    }
}
