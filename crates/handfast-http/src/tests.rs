//! Client and server against each other: over memory, where a peer can be slow or gone as a test wants, and over sockets.

mod driving;
mod memory;
mod over_memory;
mod over_sockets;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use handfast_net::clock::Moment;
use handfast_net::engine::{self, Observer, Priority, run, spawn, stop};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

use crate::{Client, Ended, Settings, Version};

/// For what comes at once, or never.
const PATIENCE: Duration = Duration::from_secs(20);

fn soon() -> Moment {
    engine::now() + PATIENCE
}

/// Runs `test` as a task on an engine of its own thread and passes a panic on, also one of another task.
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
                engine::sleep(PATIENCE * 2).await;
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

fn settings(version: Version) -> Settings {
    Settings { version, streams: 100, head: Duration::ZERO, ping: Duration::ZERO }
}

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
async fn ask(client: &mut Client<Full<Bytes>>, path: &str, body: Vec<u8>) -> (StatusCode, Bytes) {
    let reply = client.send(post(client.version(), path, body));
    let answer = async {
        let response = reply.await.expect("an answer");
        let status = response.status();
        (status, response.into_body().collect().await.expect("a whole answer").to_bytes())
    };
    let answer = client.drive(answer, soon()).await.expect("in time");
    // hyper knows that the answer is over; with HTTP/1.1 the next request waits until it says so.
    while !client.is_ready() && !client.is_closed() {
        client.drive(std::future::ready(()), soon()).await.expect("in time");
    }
    answer
}

/// Waits for all of them, polling each whenever anything happens.
async fn all<T>(futures: Vec<Pin<Box<dyn Future<Output = T>>>>) -> Vec<T> {
    let mut slots: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    std::future::poll_fn(move |context| {
        for (future, output) in &mut slots {
            if let Some(polled) = future
                && let std::task::Poll::Ready(done) = polled.as_mut().poll(context)
            {
                (*future, *output) = (None, Some(done));
            }
        }
        match slots.iter().all(|(_, output)| output.is_some()) {
            true => {
                std::task::Poll::Ready(slots.iter_mut().filter_map(|(_, output)| output.take()).collect())
            }
            false => std::task::Poll::Pending,
        }
    })
    .await
}

/// Holds everybody until `of` are there: only things that are under way together get past it.
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
        std::future::poll_fn(|context| {
            if self.there.get() >= of {
                return std::task::Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            std::task::Poll::Pending
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
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.set(self.0.get() + 1);
        std::task::Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16_384])))))
    }
}

/// Says when it is dropped.
struct Dropped(Rc<Cell<usize>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}
