//! The peer of the clients: hyper's server.

use std::error::Error;
use std::pin::pin;

use handfast_leg::runtime::Runtime;
use handfast_leg::{Pipe, Socket};
use handfast_tls::session::Session;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;

use super::*;
use crate::driver::Tasks;
use crate::{Driver, SharedPipe};

/// End of a connection that did not break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With every answer sent, and cleanly.
    Orderly,
    /// It was not over at the deadline.
    Deadline,
}

/// Operations that both of hyper's connections have.
trait Connection {
    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<hyper::Result<()>>;
    /// Ends when what is under way has been answered.
    fn stop(self: Pin<&mut Self>);
}

macro_rules! connection {
    ($connection:ty, $($runtime:ident)?) => {
        impl<S, T, V, B, $($runtime)?> Connection for $connection
        where
            S: Socket + 'static,
            T: Session + 'static,
            V: Service<Request<Incoming>, Response = Response<B>> + 'static,
            V::Future: 'static,
            V::Error: Into<Box<dyn Error + Send + Sync>>,
            B: Body + 'static,
            B::Error: Into<Box<dyn Error + Send + Sync>>,
            $($runtime: Runtime,)?
        {
            fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<hyper::Result<()>> {
                Future::poll(self, context)
            }

            fn stop(self: Pin<&mut Self>) {
                self.graceful_shutdown();
            }
        }
    };
}

connection!(http1::Connection<SharedPipe<S, T>, V>,);
connection!(http2::Connection<SharedPipe<S, T>, V, Tasks<R>>, R);

/// Serves a connection until it ends, or until `stop` resolves and what is under way then has been answered. At `deadline` it is
/// left, whatever it does.
pub(super) async fn serve<R, S, T, V, B>(
    pipe: Rc<RefCell<Pipe<S, T>>>,
    service: V,
    version: Version,
    stop: impl Future<Output = ()>,
    deadline: Moment,
) -> Result<Ended, hyper::Error>
where
    R: Runtime,
    S: Socket + 'static,
    T: Session + 'static,
    V: Service<Request<Incoming>, Response = Response<B>> + 'static,
    V::Future: 'static,
    V::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Twice 100 streams: a stream that was reset has its task until the next round.
    let mut driver = Driver::<R>::new(200);
    let shared = SharedPipe::new(&pipe);
    let mut connection: Pin<Box<dyn Connection>> = match version {
        Version::Http1 => Box::pin(http1::Builder::new().serve_connection(shared, service)),
        Version::Http2 => {
            let mut builder = http2::Builder::new(driver.executor());
            Box::pin(builder.max_concurrent_streams(100).serve_connection(shared, service))
        }
    };
    let mut stop = pin!(stop);
    let mut is_stopping = false;
    let whole = poll_fn(|context| {
        if !is_stopping && stop.as_mut().poll(context).is_ready() {
            is_stopping = true;
            connection.as_mut().stop();
        }
        connection.as_mut().poll(context)
    });
    let Some(outcome) = driver.drive(whole, deadline).await else { return Ok(Ended::Deadline) };
    outcome?;
    // Data that the client sent before it ended may be unread; the rest is with the kernel.
    let _ = driver.drive(poll_fn(|context| pipe.borrow_mut().poll_shutdown(context)), deadline).await;
    pipe.borrow_mut().leg_mut().socket_mut().finish_at_drop();
    Ok(Ended::Orderly)
}
