//! The same over the engine's own sockets, on loopback.

use std::net::SocketAddr;

use handfast_net::address::Address;
use handfast_net::dial::Dialling;
use handfast_net::listen::{Sharing, listen};
use handfast_net::stream::{Read, SocketTimeouts, Stream};

use super::*;

/// A server on a separate port, which serves each connection in a separate task; the outcomes of the connections, in the order
/// of their ends.
fn server(version: Version) -> (SocketAddr, Rc<RefCell<Vec<hyper::Result<Ended>>>>) {
    serving(version, echo)
}

fn serving<F: Future<Output = Reply> + 'static>(
    version: Version,
    service: fn(Request<Incoming>) -> F,
) -> (SocketAddr, Rc<RefCell<Vec<hyper::Result<Ended>>>>) {
    let timeouts = SocketTimeouts { unacknowledged: Duration::ZERO, keepalive: Duration::ZERO };
    let any = Address::Ip("127.0.0.1:0".parse().expect("an address"));
    let (local, mut sockets) = listen(&any, 0, 1, timeouts, Sharing::Alone).expect("a port");
    let Address::Ip(address) = local else { panic!("an address of TCP") };
    let mut listener = sockets.remove(0).open();
    let ends: Rc<RefCell<Vec<_>>> = Rc::default();
    let outcomes = Rc::clone(&ends);
    spawn(Priority::Flow, async move {
        loop {
            while let Some((stream, _)) = listener.try_accept().expect("it accepts") {
                let outcomes = Rc::clone(&outcomes);
                spawn(Priority::Flow, async move {
                    let stop = std::future::pending();
                    let pipe = plain(Side::Client, stream);
                    let service = service_fn(service);
                    let ended =
                        serve::<Engine, _, _, _, _>(pipe, service, version, stop, soon::<Engine>()).await;
                    outcomes.borrow_mut().push(ended);
                });
            }
            listener.ready(Moment::NEVER).await.expect("it is watched");
        }
    });
    (address, ends)
}

fn plain(side: Side, stream: Stream) -> Pipe<Stream> {
    pipe(Leg::plain(side, stream), &Rc::new(RefCell::new(Scratch::new(READ))))
}

async fn dial(address: SocketAddr) -> Pipe<Stream> {
    let mut dialling = Dialling::start(&Address::Ip(address)).expect("a socket");
    while dialling.advance(b"").expect("it listens").is_none() {
        engine::wait(soon::<Engine>()).await;
    }
    plain(Side::Backend, dialling.into_stream())
}

async fn ends(ends: &RefCell<Vec<hyper::Result<Ended>>>, count: usize) {
    let limit = soon::<Engine>();
    while ends.borrow().len() < count {
        assert!(engine::now() < limit, "the server goes on and on");
        engine::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn kept_connections_are_kept_and_end_in_order() {
    on_engine(|| async {
        let (address, ended) = server(Version::Http1);
        let stream = dial(address).await;
        let mut client =
            Client::<_, Engine>::open(&stream, Version::Http1, 1, soon::<Engine>()).await.expect("ready");
        for number in 0..100_usize {
            let body = vec![b'b'; number * 1000];
            let (_, answer) = send_request(&mut client, "/kept", body.clone()).await;
            assert_eq!(answer, [b"/kept ", &body[..]].concat());
        }
        drop(client);
        assert_eq!(ended.borrow().len(), 0, "one connection had them all");
        // Ours ends cleanly, and so it does for the server.
        let pipe = Rc::into_inner(stream).expect("hyper has let it go").into_inner();
        pipe.into_leg().socket_mut().finish_at_drop();
        ends(&ended, 1).await;
        assert_eq!(*ended.borrow()[0].as_ref().expect("nothing broke"), Ended::Orderly);
    });
}

/// The answer ends cleanly: its reader knows that it is whole.
#[test]
fn a_server_that_was_asked_to_close_ends_in_order() {
    on_engine(|| async {
        let (address, ended) = server(Version::Http1);
        let stream = dial(address).await;
        let mut client =
            Client::<_, Engine>::open(&stream, Version::Http1, 1, soon::<Engine>()).await.expect("ready");
        let mut request = post(Version::Http1, "/once", vec![b'o'; 100_000]);
        request.headers_mut().insert("connection", "close".parse().expect("a value"));
        let reply = client.send(request);
        let answer =
            async { reply.await.expect("an answer").into_body().collect().await.expect("all of it") };
        let answer = client.drive(answer, soon::<Engine>()).await.expect("in time");
        assert_eq!(answer.to_bytes().len(), 100_006);
        ends(&ended, 1).await;
        assert_eq!(*ended.borrow()[0].as_ref().expect("nothing broke"), Ended::Orderly);
        drop(client);
        let pipe = Rc::into_inner(stream).expect("hyper has let it go").into_inner();
        let mut leg = pipe.into_leg();
        let stream = leg.socket_mut();
        let end = loop {
            match stream.try_read(&mut [0; 10]).expect("no reset") {
                Read::Blocked => engine::wait(soon::<Engine>()).await,
                other => break other,
            };
        };
        assert_eq!(end, Read::End);
        // A reset behind the end would appear as an error that waits in the socket.
        engine::sleep(Duration::from_millis(20)).await;
        assert_eq!(stream.check(), Ok(()));
    });
}

#[test]
fn a_hundred_streams_over_one_socket() {
    on_engine(|| async {
        let (address, _ended) = server(Version::Http2);
        let stream = dial(address).await;
        let mut client =
            Client::<_, Engine>::open(&stream, Version::Http2, 100, soon::<Engine>()).await.expect("ready");
        for round in 0..3 {
            let mut replies: Vec<Pin<Box<dyn Future<Output = Bytes>>>> = Vec::new();
            for number in 0..100 {
                let body = vec![b'q'; 10_000];
                let reply = client.send(post(Version::Http2, &format!("/{round}/{number}"), body));
                replies.push(Box::pin(async {
                    let body = reply.await.expect("an answer").into_body();
                    body.collect().await.expect("a whole answer").to_bytes()
                }));
            }
            let answers = client.drive(all(replies), soon::<Engine>()).await.expect("in time");
            for (number, answer) in answers.iter().enumerate() {
                assert_eq!(answer, &[format!("/{round}/{number} ").as_bytes(), &[b'q'; 10_000]].concat());
            }
        }
    });
}

#[test]
fn a_client_that_resets_is_noticed() {
    on_engine(|| async {
        for version in VERSIONS {
            let (address, ended) = server(version);
            let stream = dial(address).await;
            let mut client =
                Client::<_, Engine>::open(&stream, version, 1, soon::<Engine>()).await.expect("ready");
            // A request with a body that never comes to its end, and the socket dropped, which resets it.
            let (_, answer) = send_request(&mut client, "/first", Vec::new()).await;
            assert_eq!(answer, "/first ");
            let reply = client.send(post(version, "/never", vec![0; 4 << 20]));
            let _ = client.drive(poll_fn(|_| Poll::Ready(())), soon::<Engine>()).await;
            drop((reply, client, stream));
            ends(&ended, 1).await;
            assert!(ended.borrow()[0].is_err(), "{:?}", ended.borrow()[0]);
        }
    });
}

/// A connection that is idle.
type IdleConnection = (Pipe<Stream>, Client<Full<Bytes>>);

/// As with a backend's connection that is kept for the next request.
#[test]
fn a_connection_goes_on_in_another_task() {
    on_engine(|| async {
        for version in VERSIONS {
            let (address, ended) = server(version);
            let kept: Rc<RefCell<Option<IdleConnection>>> = Rc::default();
            let done = Rc::new(Gate::default());
            for number in 0..20 {
                let (kept, finished) = (Rc::clone(&kept), Rc::clone(&done));
                spawn(Priority::Flow, async move {
                    let known = kept.borrow_mut().take();
                    let (stream, mut client) = match known {
                        None => {
                            let stream = dial(address).await;
                            let client =
                                Client::<_, Engine>::open(&stream, version, 1, soon::<Engine>()).await;
                            (stream, client.expect("ready"))
                        }
                        Some(known) => known,
                    };
                    stream.borrow().leg().socket().adopt();
                    let path = format!("/{number}");
                    let (_, answer) = send_request(&mut client, &path, vec![b'p'; 50_000]).await;
                    assert_eq!(answer, [path.as_bytes(), b" ", &[b'p'; 50_000]].concat());
                    stream.borrow().leg().socket().release();
                    *kept.borrow_mut() = Some((stream, client));
                    finished.pass(1).await;
                });
                let limit = soon::<Engine>();
                while done.there.get() <= number {
                    assert!(engine::now() < limit, "nobody woke the task that has it now");
                    engine::sleep(Duration::from_millis(1)).await;
                }
            }
            assert_eq!(ended.borrow().len(), 0, "one connection had them all");
        }
    });
}

/// Waits until another thread has done its work.
async fn elsewhere() {
    let (say, hear) = std::sync::mpsc::sync_channel(1);
    let mut say = Some(say);
    poll_fn(move |context| {
        if let Some(say) = say.take() {
            let waker = context.waker().clone();
            let work = move || {
                say.send(()).expect("there is room");
                waker.wake();
            };
            std::thread::Builder::new().name("elsewhere".into()).spawn(work).expect("a thread");
        }
        hear.try_recv().map_or(Poll::Pending, Poll::Ready)
    })
    .await;
}

/// A service may wait for events of another thread.
#[test]
fn a_service_may_wait_for_another_thread() {
    for version in VERSIONS {
        on_engine(move || async move {
            let (address, _ended) = serving(version, |request| async {
                elsewhere().await;
                echo(request).await
            });
            let stream = dial(address).await;
            let mut client =
                Client::<_, Engine>::open(&stream, version, 1, soon::<Engine>()).await.expect("ready");
            for number in 0..100 {
                let path = format!("/{number}");
                assert_eq!(send_request(&mut client, &path, Vec::new()).await.1, format!("{path} "));
            }
        });
    }
}
