//! The server's side: requests of one connection, answered by a service.
//!
//! In: a pipe that stands, and a service. Out: how the connection ended. Which protocol it speaks was agreed on before
//! (ALPN, or configuration): nothing is guessed from the bytes.

use std::cell::RefCell;
use std::error::Error;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use handfast_net::clock::Moment;
use hyper::Response;
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::Service;

use crate::Version;
use crate::driver::{Driver, Tasks};
use crate::pipe::{Pipe, Shared};
use crate::timer::EngineTimer;

/// How a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is spoken on it.
    pub version: Version,
    /// Requests that it may have under way at once; with HTTP/1.1 it is one.
    pub streams: u32,
    /// How long the head of a request may take, with HTTP/1.1, from the end of the answer before: a kept connection ends
    /// after so long without a request. Zero: no limit but the caller's.
    pub head: Duration,
    /// Silence after which the other side is asked for a sign of life, with HTTP/2, and time that it has for one. Zero: it
    /// is never asked.
    pub ping: Duration,
}

/// How a connection ended that did not break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With every answer sent, and ours in order.
    Orderly,
    /// It was not over at the deadline.
    Deadline,
}

/// What both of hyper's connections can do.
trait Connection {
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<hyper::Result<()>>;
    /// Ends when what is under way has been answered.
    fn stop(self: Pin<&mut Self>);
}

macro_rules! connection {
    ($connection:ty) => {
        impl<P, S, B> Connection for $connection
        where
            P: Pipe + 'static,
            S: Service<hyper::Request<Incoming>, Response = Response<B>> + 'static,
            S::Future: 'static,
            S::Error: Into<Box<dyn Error + Send + Sync>>,
            B: Body + 'static,
            B::Error: Into<Box<dyn Error + Send + Sync>>,
        {
            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
                Future::poll(self, context)
            }

            fn stop(self: Pin<&mut Self>) {
                self.graceful_shutdown();
            }
        }
    };
}

connection!(http1::Connection<Shared<P>, S>);
connection!(http2::Connection<Shared<P>, S, Tasks>);

/// Serves a connection until it ends, or until `stop` resolves and what is under way then has been answered: HTTP/2 says
/// GOAWAY, HTTP/1.1 closes after the answer. At `deadline` it is left, whatever it does.
///
/// It belongs to the task that awaits it. `stop` may be any future: a timer, a channel of another thread. **Cancel**: drops
/// the requests that are under way; the pipe is its other owner's, to be ended or dropped.
///
/// **Errors**: the pipe broke, the other side does not speak the protocol, or was silent for too long.
pub async fn serve<P, S, B>(
    pipe: Rc<RefCell<P>>,
    service: S,
    settings: &Settings,
    stop: impl Future<Output = ()>,
    deadline: Moment,
) -> Result<Ended, hyper::Error>
where
    P: Pipe + 'static,
    S: Service<hyper::Request<Incoming>, Response = Response<B>> + 'static,
    S::Future: 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // HTTP/2 counts a stream as over when the other side resets it, though its task is there until the next round: room for as
    // many again. Who resets faster than that has the new ones reset, and is sent away by h2 before long.
    let most = settings.streams.max(1) as usize * 2;
    let mut driver = Driver::new(most);
    let mut connection = begin(pipe, service, settings, driver.executor());
    let mut stop = pin!(stop);
    let mut stopping = false;
    let whole = std::future::poll_fn(|context| {
        if !stopping && stop.as_mut().poll(context).is_ready() {
            stopping = true;
            connection.as_mut().stop();
        }
        connection.as_mut().poll(context)
    });
    match driver.drive(whole, deadline).await {
        Some(outcome) => outcome.map(|()| Ended::Orderly),
        None => Ok(Ended::Deadline),
    }
}

fn begin<P, S, B>(
    pipe: Rc<RefCell<P>>,
    service: S,
    settings: &Settings,
    tasks: Tasks,
) -> Pin<Box<dyn Connection>>
where
    P: Pipe + 'static,
    S: Service<hyper::Request<Incoming>, Response = Response<B>> + 'static,
    S::Future: 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let some = |limit: Duration| Some(limit).filter(|limit| !limit.is_zero());
    match settings.version {
        Version::Http1 => {
            let mut builder = http1::Builder::new();
            builder.timer(EngineTimer).header_read_timeout(some(settings.head));
            Box::pin(builder.serve_connection(Shared(pipe), service))
        }
        Version::Http2 => {
            let mut builder = http2::Builder::new(tasks);
            builder.timer(EngineTimer).max_concurrent_streams(settings.streams);
            if let Some(ping) = some(settings.ping) {
                builder.keep_alive_interval(ping).keep_alive_timeout(ping);
            }
            Box::pin(builder.serve_connection(Shared(pipe), service))
        }
    }
}
