//! The backend's side of an exchange, in either version.

pub(crate) mod h1_backend;
pub(crate) mod h2_backend;

use std::fmt::Debug;

use handfast_leg::Socket;
use handfast_http::http1::{Field, Framing, HeadLimits, HeadProgress};

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

    /// The head of a response, as far as it has come, and how much of it was looked at.
    pub(crate) fn head(&self) -> (&[u8], HeadProgress) {
        either!(self, backend => (&backend.incoming.input, backend.progress))
    }

    pub(crate) fn set_progress(&mut self, progress: HeadProgress) {
        either!(self, backend => backend.progress = progress);
    }

    /// Puts the head of the request, unless it is sent already; `given` bytes of the text are.
    pub(crate) fn put_head(&self, head: &[u8], given: usize, output: &mut Output<'_>) {
        if matches!(self, Self::Http1(_)) {
            output.out.extend_from_slice(&head[given..]);
        }
    }

    /// Takes the heads that its connection has received. HTTP/2 has no flow control for them, so they are taken, and counted, also where
    /// the client takes nothing.
    pub(crate) fn collect_heads(&mut self, io: &Io<'_>) -> Result<(), Fault> {
        match self {
            Self::Http1(_) => Ok(()),
            Self::Http2(backend) => backend.collect_heads(io),
        }
    }

    /// Reads more of a response's head, at most `most` bytes; returns true if anything came.
    pub(crate) fn read_head(&mut self, most: usize, io: &mut Io<'_>) -> Result<bool, Fault> {
        match self {
            Self::Http1(backend) => backend.incoming.read_head(&mut backend.leg, most, io),
            Self::Http2(backend) => Ok(!backend.incoming.input.is_empty()),
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
        either!(self, backend => backend.begin_content(head, framing, limits));
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

    /// Returns true if [`Backend::collect_heads`] will report why the backend takes no more, or its response: its stream was reset.
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
    pub(crate) fn adopt(&self) {
        if let Self::Http1(backend) = self {
            backend.leg.socket().adopt();
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
