//! Replacement of the client in a request of the proxy itself whose response is discarded.

use handfast_http::http1::{Field, ResponseHead};
use handfast_leg::READ;
use handfast_observe::reason::CloseReason;

use crate::backends::connector::Cancellation;
use crate::requests::client::{After, Client};
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::Fault;

/// Has the content of a request, drops the response, and never leaves.
pub(crate) struct DiscardingClient {
    content: Vec<u8>,
    is_given: bool,
    /// Bytes of the response.
    dropped: u64,
    is_done: bool,
}

impl DiscardingClient {
    /// With this content. `is_given`: the request has none.
    pub(crate) fn new(content: Vec<u8>, is_given: bool) -> Self {
        Self { content, is_given, dropped: 0, is_done: false }
    }
}

impl Source for DiscardingClient {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        to.put(&self.content, &mut io.output())?;
        to.put_end(&[], &[], &mut io.output())?;
        self.is_given = true;
        Ok(true)
    }

    fn has_ended(&self) -> bool {
        self.is_given
    }
}

impl Sink for DiscardingClient {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(true)
    }

    fn room(&self) -> usize {
        READ
    }

    fn put(&mut self, data: &[u8], _: &mut Output<'_>) -> Result<(), Fault> {
        self.dropped += data.len() as u64;
        Ok(())
    }

    fn put_end(&mut self, _: &[u8], _: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        self.is_done = true;
        Ok(())
    }

    fn flush(&mut self, _: &mut Output<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Cancellation for DiscardingClient {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        Ok(())
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        Ok(())
    }
}

impl Client for DiscardingClient {
    fn put_head(&mut self, _: &ResponseHead<'_>, _: &Request, _: After, _: &mut Output<'_>) {}

    fn put_answer(&mut self, _: &OwnResponse, _: Option<&Request>, _: bool, _: &mut Output<'_>) {}

    fn keeps_open(&self, _: &Request, _: &ResponseHead<'_>) -> bool {
        true
    }

    fn can_tunnel(&self) -> bool {
        false
    }

    fn received(&self) -> u64 {
        if self.is_given { self.content.len() as u64 } else { 0 }
    }

    fn sent(&self) -> u64 {
        self.dropped
    }

    fn is_full(&self) -> bool {
        false
    }

    fn check(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}
