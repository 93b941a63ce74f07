//! A backend that speaks HTTP/2: a connection that many requests share, with a separate task, and one request on it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use handfast_hyper::SharedPipe;
use handfast_leg::runtime::Runtime;
use handfast_leg::{Pipe, READ, Socket};
use handfast_net::clock::Moment;
use handfast_net::engine::TaskHandle;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_tls::buffer::Scratch;
use handfast_http::http1::{Field, Framing, HeadLimits, HeadProgress};
use http::Request;

use crate::backends::connector::Connected;
use crate::backends::endpoint::{InUse, OpenConnection};
use crate::backends::pool::SharedConnection;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::{Fault, MAX_INTERIM_RESPONSES};
use crate::requests::head::h2_heads;
use crate::requests::head::h2_queue::Queue;
use crate::requests::head::h2_stream::{StreamIn, StreamOut, broken};
use crate::requests::head::task::waker;

const STREAM_WINDOW: u32 = 65_535;
const CONNECTION_WINDOW: u32 = 1_048_576;
const SEND_BUFFER: usize = 65_536;

/// A connection that requests share, as long as its task lives.
pub(crate) struct Shared {
    /// `None`: no further request.
    send: RefCell<Option<SendRequest<Bytes>>>,
    open: Cell<usize>,
    served: Cell<u32>,
    most: u32,
    /// Content of requests that waits to be sent.
    queue: Rc<Queue>,
    task: Cell<TaskHandle>,
    wake: fn(TaskHandle),
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("open", &self.open)
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns true if another request can begin on it now.
    pub(crate) fn has_room(&self) -> bool {
        let send = self.send.borrow();
        send.as_ref().is_some_and(|send| {
            self.served.get() < self.most && self.open.get() < send.current_max_send_streams()
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.send.borrow().is_none()
    }
}

impl SharedConnection for Shared {
    fn retire(&self) {
        self.served.set(self.most);
        (self.wake)(self.task.get());
    }
}

/// Begins HTTP/2 on a connection, and starts its task. `most`: requests that it may serve; `idle`: how long it waits without one.
///
/// **Errors**: the connection broke.
pub(crate) async fn open<R: Runtime>(
    connected: Connected<R::Socket>,
    open: OpenConnection,
    scratch: &Rc<RefCell<Scratch>>,
    (most, idle): (u32, Duration),
    deadline: Moment,
) -> Result<Rc<Shared>, CloseReason>
where
    R::Socket: 'static,
{
    let Connected { leg, spoken, .. } = connected;
    let pipe = Rc::new(RefCell::new(Pipe::new(leg, Rc::clone(scratch), &spoken)));
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(32_768)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(20)
        .max_local_error_reset_streams(Some(128))
        .data_frame_budget(CONNECTION_WINDOW as usize)
        .enable_push(false);
    let mut shaking = Box::pin(builder.handshake::<_, Bytes>(SharedPipe::new(&pipe)));
    let waker = waker::<R>();
    let (send, connection) = loop {
        match shaking.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(made)) => break made,
            Poll::Ready(Err(error)) => return Err(at_connect(&error)),
            Poll::Pending if R::now() >= deadline => {
                return Err(CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline));
            }
            Poll::Pending => R::wait(deadline).await,
        };
    };
    let shared = Rc::new(Shared {
        send: RefCell::new(Some(send)),
        open: Cell::new(0),
        served: Cell::new(0),
        most,
        queue: Rc::default(),
        task: Cell::new(TaskHandle::NONE),
        wake: R::wake,
    });
    R::spawn(drive_connection::<R>(Rc::clone(&shared), connection, pipe, open, idle));
    Ok(shared)
}

fn at_connect(error: &h2::Error) -> CloseReason {
    CloseReason { step: Step::Connect, ..broken(Side::Backend, error).reason }
}

type SharedLeg<R> = Rc<RefCell<Pipe<<R as Runtime>::Socket>>>;

/// The task of a connection: frames in and out, until it is not needed any more or breaks.
async fn drive_connection<R: Runtime>(
    shared: Rc<Shared>,
    mut connection: client::Connection<SharedPipe<R::Socket, Box<dyn handfast_tls::session::Session>>, Bytes>,
    pipe: SharedLeg<R>,
    _open: OpenConnection,
    idle: Duration,
) where
    R::Socket: 'static,
{
    R::carries_bytes();
    pipe.borrow().leg().socket().adopt();
    shared.task.set(R::task());
    let waker = waker::<R>();
    let mut idle_since = R::now();
    let is_clean = loop {
        match Pin::new(&mut connection).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ended) => break ended.is_ok(),
            Poll::Pending => {}
        }
        shared.queue.wake();
        let now = R::now();
        if shared.open.get() > 0 {
            idle_since = now;
        } else if now >= idle_since + idle || shared.served.get() >= shared.most {
            // Without a handle the connection ends itself.
            if shared.send.take().is_some() {
                continue;
            }
            break true;
        }
        R::wait((idle_since + idle).max(now + Duration::from_millis(1))).await;
    };
    shared.send.take();
    drop(connection);
    if is_clean && let Some(pipe) = Rc::into_inner(pipe) {
        let mut leg = pipe.into_inner().into_leg();
        let _ = leg.send_close(&mut handfast_tls::buffer::Buffer::default(), true);
        leg.socket_mut().finish_at_drop();
    }
}

/// One request on a shared connection.
pub(crate) struct Http2Backend {
    pub(crate) in_use: InUse,
    shared: Rc<Shared>,
    /// Until its head is sent.
    request: Option<Request<()>>,
    is_empty: bool,
    response: Option<ResponseFuture>,
    pub(crate) incoming: Received,
    pub(crate) progress: HeadProgress,
    content: Option<StreamIn>,
    outgoing: StreamOut,
    limits: HeadLimits,
    pub(crate) has_refused: bool,
    /// The request has ended with trailers.
    pub(crate) has_trailers: bool,
    /// Interim responses that have come.
    interim: u32,
    is_reused: bool,
}

/// Heads that have come, as text.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) input: Vec<u8>,
}

impl fmt::Debug for Http2Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Backend").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Http2Backend {
    /// `is_empty`: the request has no content.
    pub(crate) fn new(
        shared: Rc<Shared>,
        in_use: InUse,
        request: Request<()>,
        is_empty: bool,
        limits: HeadLimits,
    ) -> Self {
        shared.open.set(shared.open.get() + 1);
        let is_reused = shared.served.replace(shared.served.get() + 1) > 0;
        let outgoing = StreamOut::new(&shared.queue);
        Self {
            in_use,
            shared,
            request: Some(request),
            is_empty,
            response: None,
            incoming: Received::default(),
            progress: HeadProgress::default(),
            content: None,
            outgoing,
            limits,
            has_refused: false,
            has_trailers: false,
            interim: 0,
            is_reused,
        }
    }

    pub(crate) fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Sends the head, when the connection takes another request.
    fn send_head(&mut self, io: &Io<'_>) -> Result<(), Fault> {
        let Some(request) = self.request.take() else { return Ok(()) };
        let mut send = self.shared.send.borrow().clone().ok_or_else(|| {
            self.has_refused = true;
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::CLOSED_EARLY);
            Fault::of(reason)
        })?;
        match send.poll_ready(&mut Context::from_waker(io.waker)) {
            Poll::Pending => self.request = Some(request),
            Poll::Ready(Err(error)) => return Err(self.failed(&error)),
            Poll::Ready(Ok(())) => {
                let (response, stream) =
                    send.send_request(request, self.is_empty).map_err(|error| self.failed(&error))?;
                self.response = Some(response);
                self.begin(stream);
            }
        }
        Ok(())
    }

    fn begin(&mut self, stream: SendStream<Bytes>) {
        self.outgoing.begin(stream);
        self.outgoing.is_done = self.is_empty;
    }

    /// A stream that failed before anything was done for it (RFC 9113 §8.7). A backend that leaves without an error serves the requests
    /// up to the last one that it names; those that fail come after it.
    fn failed(&mut self, error: &h2::Error) -> Fault {
        let is_leaving = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
        self.has_refused = is_leaving || error.reason() == Some(Reason::REFUSED_STREAM);
        broken(Side::Backend, error)
    }

    /// Takes the heads of responses that have come.
    pub(crate) fn collect_heads(&mut self, io: &Io<'_>) -> Result<(), Fault> {
        let Some(response) = &mut self.response else { return Ok(()) };
        let mut context = Context::from_waker(io.waker);
        // A failure is reported by the final one.
        while let Poll::Ready(Some(Ok(head))) = response.poll_informational(&mut context) {
            self.interim += 1;
            if self.interim > MAX_INTERIM_RESPONSES {
                return Err(Fault::too_many_interim());
            }
            self.incoming.input.extend(h2_heads::response_text(&head, false));
        }
        match Pin::new(response).poll(&mut context) {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(error)) => Err(self.failed(&error)),
            Poll::Ready(Ok(head)) => {
                self.response = None;
                let (parts, content) = head.into_parts();
                let content = StreamIn::new(content, None, self.limits, true);
                let head = http::Response::from_parts(parts, ());
                self.incoming.input.extend(h2_heads::response_text(&head, !content.has_ended()));
                self.content = Some(content);
                Ok(())
            }
        }
    }

    /// The framing of the stream decides, not that of the text, unless there is no content.
    pub(crate) fn begin_content(&mut self, head: usize, framing: Framing, _: &HeadLimits) {
        if let (Framing::None, Some(content)) = (framing, &mut self.content) {
            content.expect_no_content();
        }
        self.incoming.input.drain(..head);
        self.progress = HeadProgress::default();
    }

    /// Returns true if its stream is open and no final response was read.
    pub(crate) fn awaits_response(&self) -> bool {
        self.response.is_some() || !self.incoming.input.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.request.is_some() || self.outgoing.is_full()
    }
}

/// A request that is dropped before its end is reset by the `h2` crate.
impl Drop for Http2Backend {
    fn drop(&mut self) {
        self.shared.open.set(self.shared.open.get() - 1);
        (self.shared.wake)(self.shared.task.get());
    }
}

impl Source for Http2Backend {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.content.as_mut().map_or(Ok(false), |content| content.pump(READ, to, io))
    }

    fn has_ended(&self) -> bool {
        self.content.as_ref().is_some_and(StreamIn::has_ended)
    }
}

impl Sink for Http2Backend {
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.send_head(io)?;
        Ok(self.request.is_none() && self.outgoing.accepts(io))
    }

    fn room(&self) -> usize {
        self.outgoing.room()
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        output.out.extend_from_slice(data);
        Ok(())
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        self.has_trailers = !trailers.is_empty();
        self.outgoing.put_end(text, trailers);
        Ok(())
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        self.outgoing.flush(Side::Backend, output)
    }

    fn is_done(&self) -> bool {
        self.outgoing.is_done
    }
}
