//! Interface between an exchange and its client, in either version.

pub(crate) mod compressing;
pub(crate) mod discarding;
pub(crate) mod h1_client;
pub(crate) mod h2_client;

use handfast_http::http1::ResponseHead;

use crate::backends::connector::Cancellation;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::head::content::{Output, Sink, Source};
use crate::requests::head::fault::Fault;

/// The client's side of an exchange, in either version.
pub(crate) trait Client: Source + Sink + Cancellation {
    /// Puts the head of a response, interim ones included.
    fn put_head(&mut self, head: &ResponseHead<'_>, request: &Request, after: After, output: &mut Output<'_>);

    /// Puts a whole response of our own.
    fn put_answer(
        &mut self,
        answer: &OwnResponse,
        request: Option<&Request>,
        close: bool,
        output: &mut Output<'_>,
    );

    /// Returns true if its connection can carry another request after this response.
    fn keeps_open(&self, request: &Request, response: &ResponseHead<'_>) -> bool;

    /// Returns true if a changed protocol is carried as bytes of its connection.
    fn can_tunnel(&self) -> bool;

    /// Returns true if another task carries on with a response that has begun.
    fn hands_over(&self) -> bool {
        false
    }

    /// Bytes of the request's content so far.
    fn received(&self) -> u64;

    /// Bytes of the response's content so far.
    fn sent(&self) -> u64;

    /// Returns the bytes of content so far: of the request, and of the response.
    fn moved(&self) -> (u64, u64) {
        (self.received(), self.sent())
    }

    /// Returns true if bytes that were put wait for the client to take them.
    fn is_full(&self) -> bool;

    /// **Errors**: it is gone.
    fn check(&mut self) -> Result<(), Fault>;
}

/// Facts about the message after its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After {
    /// True if the client's connection can carry another request.
    pub(crate) keeps_open: bool,
    /// True if it is known that no content follows.
    pub(crate) is_over: bool,
}
