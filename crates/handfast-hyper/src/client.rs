//! The client's side: requests on one connection.
//!
//! In: an established pipe, and requests. Out: their answers. The caller chooses a connection for each request, gives up
//! requests, and interprets their answers.

use std::cell::RefCell;
use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use handfast_leg::runtime::{Engine, Runtime};
use handfast_leg::{Pipe, Socket};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_tls::session::Session;
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor as _;
use hyper::{Request, Response};

use crate::Version;
use crate::driver::Driver;
use crate::pipe::SharedPipe;

/// Tasks that hyper has for a connection whatever is under way on it …
const OWN_TASKS: usize = 4;
/// … and for each request: one that waits for the answer, and one that sends the body. As many again for those that were given
/// up and have not been polled since.
const TASKS_EACH: usize = 4;

/// An answer on its way.
pub type Reply = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>>>>;

/// Reason why a connection could not be made ready for requests.
#[derive(Debug)]
pub enum Unready {
    /// The deadline passed.
    Deadline,
    /// hyper failed.
    Http(hyper::Error),
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("make an HTTP connection ready: the deadline passed"),
            Self::Http(error) => write!(f, "make an HTTP connection ready: {}", sentence(error)),
        }
    }
}

impl std::error::Error for Unready {}

enum Sender<B> {
    Http1(http1::SendRequest<B>),
    Http2(http2::SendRequest<B>),
}

/// A connection for requests, of the task that polls it; another one may go on with it. Dropping it ends hyper's work on it,
/// and the pipe is its other owner's.
pub struct Client<B, R = Engine> {
    sender: Sender<B>,
    driver: Driver<R>,
    end: Rc<RefCell<End>>,
}

/// End of hyper's work on a connection.
#[derive(Default)]
struct End {
    /// Error that broke the connection, unless it ended cleanly.
    error: Option<hyper::Error>,
    /// Bytes that came with the last answer and do not belong to it (HTTP/1.1).
    unread: usize,
}

impl<B, R> fmt::Debug for Client<B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl<B, R> Client<B, R>
where
    R: Runtime,
    B: Body + Unpin + 'static,
    B::Data: Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Makes a pipe ready for requests, of which up to `streams` are under way at once (with HTTP/1.1 one, whatever its value).
    /// It takes a write at most: HTTP/2 sends its settings, and does not wait for the other side's.
    ///
    /// **Errors**: the pipe broke, or takes nothing until `deadline`.
    pub async fn open<S: Socket + 'static, T: Session + 'static>(
        pipe: &Rc<RefCell<Pipe<S, T>>>,
        version: Version,
        streams: usize,
        deadline: Moment,
    ) -> Result<Self, Unready> {
        let pipe = SharedPipe::new(pipe);
        let mut driver = Driver::new(streams.max(1).saturating_mul(TASKS_EACH).saturating_add(OWN_TASKS));
        let tasks = driver.executor();
        let end = Rc::default();
        let sender = match version {
            Version::Http1 => {
                let shaken = driver.drive(http1::handshake(pipe), deadline).await.ok_or(Unready::Deadline)?;
                let (sender, connection) = shaken.map_err(Unready::Http)?;
                tasks.execute(keep_end_of_http1(connection, Rc::clone(&end)));
                Sender::Http1(sender)
            }
            Version::Http2 => {
                let shaking = http2::Builder::new(tasks.clone()).handshake(pipe);
                let shaken = driver.drive(shaking, deadline).await.ok_or(Unready::Deadline)?;
                let (sender, connection) = shaken.map_err(Unready::Http)?;
                tasks.execute(keep_end_of_http2(connection, Rc::clone(&end)));
                Sender::Http2(sender)
            }
        };
        Ok(Self { sender, driver, end })
    }

    /// Returns a description of bytes that the other side sent without a request, with HTTP/1.1: beyond the end of an answer
    /// (RFC 9112 §6.3). Known once the connection was polled after the answer.
    pub fn unrequested(&self) -> Option<String> {
        let end = self.end.borrow();
        if end.unread > 0 {
            return Some(format!("{} bytes behind the end of the last answer", end.unread));
        }
        // hyper has no question for it: it is the only error without a source that is none of these.
        let error = end.error.as_ref().filter(|error| {
            let other =
                error.is_incomplete_message() || error.is_canceled() || error.is_closed() || error.is_user();
            !other && error.source().is_none() && !error.is_parse()
        })?;
        Some(sentence(error))
    }

    /// Returns its HTTP version.
    pub fn version(&self) -> Version {
        match self.sender {
            Sender::Http1(_) => Version::Http1,
            Sender::Http2(_) => Version::Http2,
        }
    }

    /// Returns true if a request can be sent now. With HTTP/1.1 that is when the previous answer was read to its end.
    pub fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    /// Returns true if no request can be sent any more.
    pub fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Sends a request with the next round of polling. Dropping the reply gives the request up: HTTP/2 resets its stream,
    /// HTTP/1.1 has only the connection to end.
    pub fn send(&mut self, request: Request<B>) -> Reply {
        match &mut self.sender {
            Sender::Http1(sender) => Box::pin(sender.send_request(request)),
            Sender::Http2(sender) => Box::pin(sender.send_request(request)),
        }
    }

    /// Drives the connection until `future` is done, which may be a reply, its body, or several of them; `None` when that is not
    /// before `deadline`.
    pub async fn drive<F: Future>(&mut self, future: F, deadline: Moment) -> Option<F::Output> {
        self.driver.drive(future, deadline).await
    }

    /// As [`Driver::begin_round`], for a caller that polls replies itself.
    pub fn begin_round(&mut self) -> Waker {
        self.driver.begin_round()
    }

    /// As [`Driver::poll_tasks`].
    pub fn poll_tasks(&self, context: &mut Context<'_>) {
        self.driver.poll_tasks(context);
    }

    /// As [`Driver::another_round`].
    pub async fn another_round(&mut self) -> bool {
        self.driver.another_round().await
    }

    /// As [`Driver::wait`].
    pub async fn wait(&mut self, deadline: Moment) -> Woken {
        self.driver.wait(deadline).await
    }
}

/// Drives a connection to its end, and keeps how it ended. hyper would drop what it has received beyond the last answer.
async fn keep_end_of_http1<I, B>(connection: http1::Connection<I, B>, end: Rc<RefCell<End>>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match connection.without_shutdown().await {
        Ok(http1::Parts { mut io, read_buf, .. }) => {
            end.borrow_mut().unread = read_buf.len();
            // The pipe's other owner sees why, if it fails.
            let _ = poll_fn(|context| Pin::new(&mut io).poll_flush(context)).await;
        }
        Err(error) => end.borrow_mut().error = Some(error),
    }
}

/// Drives a connection to its end, and keeps how it ended.
async fn keep_end_of_http2(connection: impl Future<Output = hyper::Result<()>>, end: Rc<RefCell<End>>) {
    end.borrow_mut().error = connection.await.err();
}

/// Returns true if the other side has not looked at the request that ended with this error. Such a request may be sent again
/// on another connection, whatever it requests.
///
/// **Source**: RFC 9113 §8.7; with HTTP/1.1, that it was never written.
pub fn is_unseen(error: &hyper::Error) -> bool {
    if error.is_canceled() || error.is_closed() {
        return true;
    }
    let Some(error) = error.source().and_then(|source| source.downcast_ref::<h2::Error>()) else {
        return false;
    };
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    let going = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    error.is_remote() && (refused || going)
}

/// An error and what is behind it, in one line.
pub fn sentence(error: &hyper::Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        sentence = format!("{sentence}: {error}");
        source = error.source();
    }
    sentence
}
