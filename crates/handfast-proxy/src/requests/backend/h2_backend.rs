//! A backend that speaks HTTP/2: a connection that many requests share, with a separate task, and one request on it.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use handfast_http::http1::{Field, Framing, HeadLimits, RequestHead};
use handfast_http::http2::connection::{STREAM_WINDOW, Settings};
use handfast_http::http2::frame::ErrorCode;
use handfast_http::http2::{Connection, HeadText, Role, StreamEnd};
use handfast_leg::runtime::Runtime;
use handfast_leg::{Leg, READ, Socket};
use handfast_net::engine::TaskHandle;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::backends::connector::Connected;
use crate::backends::endpoint::{InUse, OpenConnection};
use crate::backends::pool::SharedConnection;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::{Fault, MAX_INTERIM_RESPONSES};
use crate::requests::head::h2_link::Http2Link;
use crate::requests::head::h2_stream::Stream;

/// Most requests at once on a connection, whatever its backend permits.
const MAX_STREAMS: u32 = 1_000;
/// Most bytes of a response's head.
const MAX_HEAD: usize = 32_768;

/// A connection that requests share, as long as its task lives.
pub(crate) struct Shared {
    link: Rc<Http2Link>,
    /// No further request begins on it.
    is_over: Cell<bool>,
    open: Cell<u32>,
    served: Cell<u32>,
    most: u32,
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
        self.served.get() < self.most && !self.is_over() && self.link.inspect(Connection::can_open)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get() || self.link.inspect(Connection::begins_no_more)
    }
}

impl SharedConnection for Shared {
    fn retire(&self) {
        self.served.set(self.most);
        self.link.wake_task();
    }
}

/// Begins HTTP/2 on a connection, and starts its task, which ends when it waits for `idle` without a request. `most`: requests that it may
/// serve.
pub(crate) fn open<R: Runtime>(
    connected: Connected<R::Socket>,
    open: OpenConnection,
    connection: &HttpConnection,
    (most, idle): (u32, Duration),
) -> Rc<Shared>
where
    R::Socket: 'static,
{
    let Connected { leg, spoken, .. } = connected;
    let head = HeadLimits { head: MAX_HEAD, ..connection.http.model.head };
    let settings = Settings {
        role: Role::Client,
        streams: MAX_STREAMS,
        window: STREAM_WINDOW,
        budget: connection.http.model.http2_window,
        head,
    };
    let link = Http2Link::new::<R>(settings, Side::Backend);
    let shared =
        Rc::new(Shared { link, is_over: Cell::new(false), open: Cell::new(0), served: Cell::new(0), most });
    let task =
        BackendTask { shared: Rc::clone(&shared), connection: connection.for_own_requests(), _open: open };
    R::spawn(task.run::<R>(leg, spoken, idle));
    shared
}

/// The task of a connection: frames in and out, until it is not needed any more or breaks.
struct BackendTask {
    shared: Rc<Shared>,
    connection: HttpConnection,
    _open: OpenConnection,
}

impl BackendTask {
    async fn run<R: Runtime>(self, mut leg: Leg<R::Socket>, first: Vec<u8>, idle: Duration)
    where
        R::Socket: 'static,
    {
        R::carries_bytes();
        leg.socket().adopt();
        let link = &self.shared.link;
        link.adopt::<R>();
        let began = link.take(&first, &mut HeadText::default(), R::now(), |_, _| {});
        let ended = match began {
            Ok(()) => self.drive::<R>(&mut leg, idle).await,
            Err(reason) => Err(reason),
        };
        self.shared.is_over.set(true);
        let is_clean = ended.is_ok();
        if let Err(reason) = ended {
            link.lose(reason);
        }
        let mut lent = self.connection.lend();
        let mut io = lent.io();
        let is_sent = link.send(&mut leg, &mut io).is_ok();
        if is_clean && is_sent {
            let _ = leg.send_close(&mut io.scratch.records, true);
            leg.socket_mut().finish_at_drop();
        }
    }

    /// **Errors**: the connection broke, or its backend ended it.
    async fn drive<R: Runtime>(&self, leg: &mut Leg<R::Socket>, idle: Duration) -> Result<(), CloseReason> {
        let Shared { link, open, served, most, .. } = &*self.shared;
        let mut idle_since = R::now();
        loop {
            if self.move_frames::<R>(leg)? {
                R::yield_now().await;
                continue;
            }
            let now = R::now();
            if open.get() > 0 {
                idle_since = now;
            } else if now >= idle_since + idle || served.get() >= *most || self.shared.is_over() {
                link.with(Connection::end_goodbye);
                return Ok(());
            }
            R::wait((idle_since + idle).max(now + Duration::from_millis(1))).await;
        }
    }

    /// See [`Http2Link::move_frames`].
    fn move_frames<R: Runtime>(&self, leg: &mut Leg<R::Socket>) -> Result<bool, CloseReason> {
        let mut lent = self.connection.lend();
        self.shared.link.move_frames(leg, &mut lent.io(), R::turn(), |_, _| {})
    }
}

/// One request on a shared connection.
pub(crate) struct Http2Backend {
    pub(crate) in_use: InUse,
    shared: Rc<Shared>,
    scheme: &'static str,
    task: TaskHandle,
    is_empty: bool,
    /// `None` until its head is sent.
    stream: Option<Stream>,
    /// A final head was taken.
    has_head: bool,
    /// The backend has not processed the request.
    pub(crate) has_refused: bool,
    /// The request has ended with trailers.
    pub(crate) has_trailers: bool,
    /// Interim responses that have come.
    interim: u32,
    is_reused: bool,
}

impl fmt::Debug for Http2Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Backend").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Http2Backend {
    /// A request of the present task. `is_empty`: it has no content; `scheme`: that of the connection.
    pub(crate) fn new<R: Runtime>(
        shared: Rc<Shared>,
        in_use: InUse,
        scheme: &'static str,
        is_empty: bool,
    ) -> Self {
        shared.open.set(shared.open.get() + 1);
        let is_reused = shared.served.replace(shared.served.get() + 1) > 0;
        Self {
            in_use,
            shared,
            scheme,
            task: R::task(),
            is_empty,
            stream: None,
            has_head: false,
            has_refused: false,
            has_trailers: false,
            interim: 0,
            is_reused,
        }
    }

    pub(crate) fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Sends the head, once.
    pub(crate) fn put_head(&mut self, head: &RequestHead<'_>) {
        if self.stream.is_some() {
            return;
        }
        let (scheme, link) = (self.scheme, &self.shared.link);
        let key = link.with(|connection| connection.open(self.task, head, scheme, self.is_empty));
        self.stream = key.map(|key| Stream::new(link, key));
    }

    /// The fault of a stream that carries nothing more.
    fn fault(&mut self, end: StreamEnd) -> Fault {
        self.has_refused = end == StreamEnd::Refused;
        self.shared.link.fault(end)
    }

    /// HTTP/2 has no flow control for heads, so they are counted also where the client takes nothing.
    ///
    /// **Errors**: its stream carries nothing more, and no head waits to be taken; or there are too many heads.
    pub(crate) fn check(&mut self) -> Result<(), Fault> {
        let Some(stream) = self.stream.as_ref().filter(|_| !self.has_head) else { return Ok(()) };
        let heads = stream.link.inspect(|connection| connection.heads(stream.key));
        if self.interim as usize + heads > MAX_INTERIM_RESPONSES as usize + 1 {
            return Err(Fault::too_many_interim());
        }
        match stream.link.inspect(|connection| connection.end(stream.key)) {
            // A head that is whole is passed on first, if its client takes it.
            Some(end) if heads == 0 || end != StreamEnd::Lost => Err(self.fault(end)),
            _ => Ok(()),
        }
    }

    /// Returns true if a head of a response can be taken.
    pub(crate) fn has_received_head(&self) -> bool {
        let has = |stream: &Stream| stream.link.inspect(|connection| connection.heads(stream.key) > 0);
        self.stream.as_ref().is_some_and(has)
    }

    /// Takes the next head of a response, and whether its stream ended with it.
    ///
    /// **Errors**: there are too many.
    pub(crate) fn take_head(&mut self) -> Result<Option<(Box<HeadText>, bool)>, Fault> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let taken = stream.link.with(|connection| connection.take_response_head(stream.key));
        let Some((head, is_last)) = taken else { return Ok(None) };
        self.interim += u32::from(head.is_interim());
        if self.interim > MAX_INTERIM_RESPONSES {
            return Err(Fault::too_many_interim());
        }
        self.has_head = !head.is_interim();
        if is_last {
            stream.mark_ended();
        }
        Ok(Some((head, is_last)))
    }

    /// The framing of the stream decides, unless there is no content.
    pub(crate) fn begin_content(&mut self, framing: Framing) {
        let Some(stream) = &mut self.stream else { return };
        match framing {
            // An interim head has none, and another head follows.
            Framing::None if !self.has_head => {}
            Framing::None => stream.expect_no_content(),
            Framing::Length(length) => {
                stream.link.with(|connection| connection.expect_content(stream.key, length));
            }
            _ => {}
        }
    }

    /// Resets its stream, unless it is over.
    pub(crate) fn reset(&self, code: ErrorCode) {
        if let Some(stream) = &self.stream {
            stream.reset(code);
        }
    }

    /// Returns true if its stream is open and no final response was read.
    pub(crate) fn awaits_response(&self) -> bool {
        self.stream.is_some() && !self.has_head
    }

    pub(crate) fn is_full(&self) -> bool {
        self.stream.as_ref().is_none_or(Stream::is_full)
    }

    /// The present task has it from now on.
    pub(crate) fn adopt<R: Runtime>(&self) {
        if let Some(stream) = &self.stream {
            stream.adopt::<R>();
        }
    }
}

impl Drop for Http2Backend {
    fn drop(&mut self) {
        if self.stream.is_none() {
            self.shared.link.with(|connection| connection.stop_waiting(self.task));
        }
        self.shared.open.set(self.shared.open.get() - 1);
        self.shared.link.wake_task();
    }
}

impl Source for Http2Backend {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.stream.as_mut().map_or(Ok(false), |stream| stream.pump(READ, to, io))
    }

    fn has_ended(&self) -> bool {
        self.has_head && self.stream.as_ref().is_some_and(Stream::has_ended)
    }
}

impl Sink for Http2Backend {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        match &self.stream {
            Some(stream) => Ok(stream.accepts()),
            None if self.shared.is_over() => {
                self.has_refused = true;
                Err(match self.shared.link.inspect(Connection::error) {
                    Some(_) => self.shared.link.fault(StreamEnd::Lost),
                    None => Fault::of(CloseReason::new(Step::Relay, Side::Backend, Cause::CLOSED_EARLY)),
                })
            }
            // Its settings may allow fewer streams than there are; a change of them wakes all.
            None => Ok(self.shared.link.with(|connection| connection.can_open_for(self.task))),
        }
    }

    fn room(&self) -> usize {
        self.stream.as_ref().map_or(READ, Stream::room)
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        output.out.extend_from_slice(data);
        Ok(())
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        self.has_trailers = !trailers.is_empty();
        if let Some(stream) = &mut self.stream {
            stream.put_end(text, trailers);
        }
        Ok(())
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        self.stream.as_mut().map_or(Ok(()), |stream| stream.flush(output))
    }

    fn is_done(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_done)
    }
}
