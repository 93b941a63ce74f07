//! Client and server against each other: over memory, where the order of events comes from a seed, and over sockets.

mod driving;
mod h2_over_legs;
mod over_memory;
mod over_sockets;
mod server;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use handfast_leg::memory::tasks::{self, InMemory};
use handfast_leg::memory::toy::Toy;
use handfast_leg::memory::{Link, Memory};
use handfast_leg::runtime::{Engine, Runtime};
use handfast_leg::{Leg, READ, Side, Socket};
use handfast_net::clock::Moment;
use handfast_net::engine::{self, Observer, Priority, run, spawn, stop};
use handfast_tls::buffer::Scratch;
use handfast_tls::session::Session;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

use crate::{Client, Version};
use server::{Ended, serve};

type Pipe<S = Memory, T = Toy> = Rc<RefCell<handfast_leg::Pipe<S, T>>>;

/// For what comes at once, or never.
const TIMEOUT: Duration = Duration::from_secs(20);

fn soon<R: Runtime>() -> Moment {
    R::turn() + TIMEOUT
}

fn pipe<S: Socket, T: Session>(leg: Leg<S, T>, scratch: &Rc<RefCell<Scratch>>) -> Pipe<S, T> {
    Rc::new(RefCell::new(handfast_leg::Pipe::new(leg, Rc::clone(scratch), b"")))
}

/// The client's pipe and the server's, with room for `room` bytes in each direction; on one thread, they share its buffers.
fn pair(room: usize, is_tls: bool) -> (Pipe, Pipe) {
    let scratch = Rc::new(RefCell::new(Scratch::new(READ)));
    let (near, far) = tasks::pair(room);
    let end = |side, memory| {
        let mut leg = Leg::plain(side, memory);
        if is_tls {
            leg.secure(Toy::new(0x55));
        }
        pipe(leg, &scratch)
    };
    (end(Side::Backend, near), end(Side::Client, far))
}

fn link(pipe: &Pipe) -> Rc<RefCell<Link>> {
    Rc::clone(&pipe.borrow().leg().socket().link)
}

/// Runs `test` as a task in memory, in some orders of events.
fn in_memory<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    for seed in 0..20 {
        tasks::run(seed, || {
            tasks::spawn(test());
        });
    }
}

async fn pause<R: Runtime>(time: Duration) {
    let end = R::turn() + time;
    while R::wait(end).await == engine::Woken::Event {}
}

/// Runs `test` as a task on an engine of a separate thread and passes a panic on, also one of another task.
fn on_engine<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    struct Panics(Rc<Cell<bool>>);
    impl Observer for Panics {
        fn turn(&mut self, _: Duration, _: usize) {}
        fn before_sleep(&mut self) {}
        fn panicked(&mut self) {
            self.0.set(true);
            stop();
        }
    }
    let body = move || {
        let panicked = Rc::new(Cell::new(false));
        let start = || {
            spawn(Priority::Flow, async move {
                test().await;
                stop();
            });
            spawn(Priority::Flow, async {
                engine::sleep(TIMEOUT * 2).await;
                panic!("the test hangs");
            });
        };
        run(Panics(Rc::clone(&panicked)), start).expect("an epoll instance");
        assert!(!panicked.get(), "a task panicked; see above");
    };
    let thread = std::thread::Builder::new().name("engine-test".into()).spawn(body);
    thread.expect("a thread").join().expect("the test's thread");
}

const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];

type Reply = Result<Response<Full<Bytes>>, Infallible>;

/// Answers with path and body of the request.
async fn echo(request: Request<Incoming>) -> Reply {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(Response::new(Full::new(Bytes::from([path.as_bytes(), b" ", &body].concat()))))
}

fn post(version: Version, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let uri = match version {
        Version::Http1 => path.to_owned(),
        Version::Http2 => format!("http://a.example{path}"),
    };
    let request = Request::post(uri).header("host", "a.example");
    request.body(Full::new(Bytes::from(body))).expect("a request")
}

/// Sends a request and reads its answer to the end.
async fn send_request<R: Runtime>(
    client: &mut Client<Full<Bytes>, R>,
    path: &str,
    body: Vec<u8>,
) -> (StatusCode, Bytes) {
    let reply = client.send(post(client.version(), path, body));
    let answer = async {
        let response = reply.await.expect("an answer");
        let status = response.status();
        (status, response.into_body().collect().await.expect("a whole answer").to_bytes())
    };
    let answer = client.drive(answer, soon::<R>()).await.expect("in time");
    // hyper knows that the answer is over; with HTTP/1.1 the next request waits until it reports that.
    while !client.is_ready() && !client.is_closed() {
        client.drive(std::future::ready(()), soon::<R>()).await.expect("in time");
    }
    answer
}

/// Waits for all of them, polling each whenever anything happens.
async fn all<T>(futures: Vec<Pin<Box<dyn Future<Output = T>>>>) -> Vec<T> {
    let mut slots: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    poll_fn(move |context| {
        for (future, output) in &mut slots {
            if let Some(polled) = future
                && let Poll::Ready(done) = polled.as_mut().poll(context)
            {
                (*future, *output) = (None, Some(done));
            }
        }
        match slots.iter().all(|(_, output)| output.is_some()) {
            true => Poll::Ready(slots.iter_mut().filter_map(|(_, output)| output.take()).collect()),
            false => Poll::Pending,
        }
    })
    .await
}

/// Holds every task until `of` have arrived: only operations that run at the same time get past it.
#[derive(Default)]
struct Gate {
    there: Cell<usize>,
    waiting: RefCell<Vec<std::task::Waker>>,
}

impl Gate {
    async fn pass(&self, of: usize) {
        self.there.set(self.there.get() + 1);
        if self.there.get() == of {
            self.waiting.borrow_mut().drain(..).for_each(std::task::Waker::wake);
        }
        poll_fn(|context| {
            if self.there.get() >= of {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A body without an end, which counts what was taken of it; each piece is 16 KiB.
struct Endless(Rc<Cell<usize>>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.set(self.0.get() + 1);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16_384])))))
    }
}

/// Says when it is dropped.
struct Dropped(Rc<Cell<usize>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}
