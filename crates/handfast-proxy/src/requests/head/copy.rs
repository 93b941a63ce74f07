//! Copy of a request for a mirror, made while its backend receives the request.

use std::rc::Rc;

use handfast_http::http1::{Field, Framing};

use crate::requests::head::content::{Io, Output, Sink};
use crate::requests::head::fault::Fault;
use crate::worker::request_routes::ThreadMirror;

/// Copy of a request for a mirror.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) mirror: Rc<ThreadMirror>,
    pub(crate) content: Vec<u8>,
    /// The content has come to its end, …
    is_whole: bool,
    /// … or there is more of it than is kept.
    is_too_large: bool,
}

impl Copy {
    /// `None`: the request is not among those that are copied, or it has more content than is kept.
    pub(crate) fn new(mirror: &Rc<ThreadMirror>, framing: Framing) -> Option<Box<Self>> {
        let is_empty = match framing {
            Framing::None | Framing::Length(0) => true,
            Framing::Length(length) if length > mirror.content as u64 => return None,
            _ => false,
        };
        if !mirror.share.has(fastrand::u64(..)) {
            return None;
        }
        let mirror = Rc::clone(mirror);
        Some(Box::new(Self { mirror, content: Vec::new(), is_whole: is_empty, is_too_large: false }))
    }

    /// Returns true if the copy is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole && !self.is_too_large
    }

    fn keep(&mut self, data: &[u8]) {
        self.is_too_large |= self.content.len() + data.len() > self.mirror.content;
        if self.is_too_large {
            self.content = Vec::new();
        } else {
            self.content.extend_from_slice(data);
        }
    }
}

/// A backend, and the copy of what it receives.
pub(crate) struct Tee<'a, S> {
    pub(crate) sink: &'a mut S,
    pub(crate) copy: &'a mut Copy,
}

impl<S: Sink> Sink for Tee<'_, S> {
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.sink.accepts(io)
    }

    fn room(&self) -> usize {
        self.sink.room()
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        self.copy.keep(data);
        self.sink.put(data, output)
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault> {
        self.copy.is_whole = true;
        self.sink.put_end(text, trailers, output)
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        self.sink.flush(output)
    }

    fn is_done(&self) -> bool {
        self.sink.is_done()
    }
}
