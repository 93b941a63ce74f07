//! Copies of requests, for servers that no client waits for (`mirror`).
//!
//! In: a request as its backend receives it. Out: the same request at a server of the mirror, whose response is dropped. A request without
//! content is copied when it begins; one with content when it was answered, if its content came whole and is small enough to be kept.

use std::rc::Rc;

use handfast_leg::runtime::Runtime;
use handfast_observe::metrics::CopyEnd;
use handfast_observe::reason::CloseReason;
use handfast_wire::http1::{Field, ResponseHead};

use crate::backends::connector::Cancellation;
use crate::http::answer::Answer;
use crate::http::client::{After, Client};
use crate::http::connection::HttpConnection;
use crate::http::content::{Io, Output, Sink, Source};
use crate::http::copy::Copy;
use crate::http::fault::Fault;
use crate::http::own;
use crate::http::request::Request;
use crate::http::task::waker;

/// Copies that one thread has under way. A mirror that answers slowly must not fill the memory.
const MOST: usize = 256;

/// Sends a copy, in a task of its own.
pub(crate) fn send<R: Runtime>(connection: &HttpConnection, request: &Request, copy: Copy)
where
    R::Socket: 'static,
{
    let metrics = &connection.service.metrics;
    if !copy.is_whole() || Rc::strong_count(&copy.mirror.under_way) > MOST {
        metrics.request_copied(CopyEnd::Dropped);
        return;
    }
    let Copy { mirror, content, .. } = copy;
    let under_way = Rc::clone(&mirror.under_way);
    let mut connection = own::towards(connection, &mirror.http, mirror.route);
    let mut own = Request::own(request.head.clone(), &connection);
    own.framing = request.framing;
    own.is_head = request.is_head;
    own.is_idempotent = request.is_idempotent;
    R::spawn(async move {
        connection.waker = waker::<R>();
        let mut nobody = Nobody { content, is_given: own.is_empty(), dropped: 0, is_done: false };
        let ended = own::exchange::<R>(&connection, &mut own, &mut nobody).await;
        let end = if ended.is_ok() { CopyEnd::Answered } else { CopyEnd::Failed };
        connection.service.metrics.request_copied(end);
        drop(under_way);
    });
}

/// Has the content of a request, and drops the response.
struct Nobody {
    content: Vec<u8>,
    is_given: bool,
    /// Bytes of the response.
    dropped: u64,
    is_done: bool,
}

impl Source for Nobody {
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

impl Sink for Nobody {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(true)
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

/// It never leaves.
impl Cancellation for Nobody {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        Ok(())
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        Ok(())
    }
}

impl Client for Nobody {
    fn put_head(&mut self, _: &ResponseHead<'_>, _: &Request, _: After, _: &mut Output<'_>) {}

    fn put_answer(&mut self, _: &Answer, _: Option<&Request>, _: bool, _: &mut Output<'_>) {}

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
