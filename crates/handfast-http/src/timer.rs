//! hyper's timer on our engine.
//!
//! In: moments of the standard library's clock. Out: [`handfast_net::engine::timer`]s.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Timer};

/// hyper's timer, for connections on a thread that runs an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineTimer;

/// One wait of hyper's.
#[derive(Debug)]
struct Sleep(Timer);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl hyper::rt::Sleep for Sleep {}

impl hyper::rt::Timer for EngineTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        // Not from the turn's clock, which may be a handshake old: a short time would be over before it began.
        Box::pin(Sleep(engine::timer(Moment::now() + duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(Instant::now()))
    }
}
