//! Trailer fields follow the rules for header fields: no peer can add, in the trailers, a field that a route sets, removes or copies.
//!
//! In: a sink, and the names that it must not get. Out: the same sink, without these trailers.

use handfast_http::http1::Field;

use crate::requests::head::content::{Io, Output, Sink};
use crate::requests::head::fault::Fault;

/// A sink that does not get certain trailer fields.
pub(crate) struct Filtered<'a, S, D> {
    pub(crate) sink: &'a mut S,
    /// Returns true for a trailer field, with the text that it was parsed from, that is dropped.
    pub(crate) drops: D,
}

impl<S: Sink, D: Fn(&Field, &[u8]) -> bool> Sink for Filtered<'_, S, D> {
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.sink.accepts(io)
    }

    fn room(&self) -> usize {
        self.sink.room()
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        self.sink.put(data, output)
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault> {
        let kept: Vec<Field> = trailers.iter().filter(|field| !(self.drops)(field, text)).copied().collect();
        self.sink.put_end(text, &kept, output)
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        self.sink.flush(output)
    }

    fn is_done(&self) -> bool {
        self.sink.is_done()
    }
}
