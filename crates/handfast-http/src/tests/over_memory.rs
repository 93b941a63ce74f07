//! Whole connections in memory, client and server in tasks of their own, which wake each other by their wakers alone.

use super::memory::pair;
use super::*;
use crate::client::Unready;
use crate::serve;

type Outcome = Rc<RefCell<Option<hyper::Result<Ended>>>>;

fn outcome() -> Outcome {
    Rc::default()
}

async fn done(outcome: &Outcome) -> hyper::Result<Ended> {
    let limit = soon();
    while outcome.borrow().is_none() {
        assert!(engine::now() < limit, "the server goes on and on");
        engine::timer(engine::now() + Duration::from_millis(5)).await;
    }
    outcome.borrow_mut().take().expect("it is there")
}

/// A server in a task of its own, until `stop`.
fn server<S, B>(
    pipe: Rc<RefCell<super::memory::End>>,
    service: S,
    settings: Settings,
    stop: impl Future<Output = ()> + 'static,
    limit: Duration,
) -> Outcome
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + 'static,
    B: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let outcome = outcome();
    let said = Rc::clone(&outcome);
    spawn(Priority::Flow, async move {
        let ended = serve(pipe, service, &settings, stop, engine::now() + limit).await;
        *said.borrow_mut() = Some(ended);
    });
    outcome
}

#[test]
fn one_connection_carries_many_exchanges() {
    for version in VERSIONS {
        // Room for everything, and hardly any.
        for room in [1 << 20, 37] {
            on_engine(move || async move {
                let (near, far) = pair(room);
                let ended =
                    server(far, service_fn(echo), settings(version), std::future::pending(), PATIENCE);
                let mut client = Client::open(near, version, 1, soon()).await.expect("ready");
                for number in 0..50_usize {
                    let body = vec![b'a' + (number % 26) as u8; number * 97];
                    let (status, answer) = ask(&mut client, &format!("/{number}"), body.clone()).await;
                    assert_eq!(status, StatusCode::OK);
                    assert_eq!(answer, [format!("/{number} ").as_bytes(), &body].concat());
                }
                assert!(!client.is_closed(), "it is kept");
                drop(client);
                // With HTTP/1.1 nothing was under way; either way the server's task ends with its peer.
                let _ = done(&ended).await;
            });
        }
    }
}

#[test]
fn a_hundred_streams_are_under_way_together() {
    on_engine(|| async {
        let (near, far) = pair(1000);
        let gate = Rc::new(Gate::default());
        let at_gate = Rc::clone(&gate);
        let service = service_fn(move |request: Request<Incoming>| {
            let gate = Rc::clone(&at_gate);
            async move {
                gate.pass(100).await;
                echo(request).await
            }
        });
        let _ended = server(far, service, settings(Version::Http2), std::future::pending(), PATIENCE);
        let mut client = Client::open(near, Version::Http2, 100, soon()).await.expect("ready");
        let mut replies: Vec<Pin<Box<dyn Future<Output = Bytes>>>> = Vec::new();
        for number in 0..100 {
            let reply = client.send(post(Version::Http2, &format!("/{number}"), vec![b'z'; 3000]));
            replies.push(Box::pin(async {
                let body = reply.await.expect("an answer").into_body();
                body.collect().await.expect("a whole answer").to_bytes()
            }));
        }
        let answers = client.drive(all(replies), soon()).await.expect("in time");
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(answer, &[format!("/{number} ").as_bytes(), &[b'z'; 3000]].concat());
        }
    });
}

#[test]
fn a_peer_that_vanishes_in_the_middle_ends_what_was_under_way() {
    for version in VERSIONS {
        on_engine(move || async move {
            let (near, far) = pair(1 << 16);
            let (arrived, dropped) = (Rc::new(Gate::default()), Rc::new(Cell::new(0)));
            let service = {
                let (arrived, dropped) = (Rc::clone(&arrived), Rc::clone(&dropped));
                service_fn(move |_: Request<Incoming>| {
                    let (arrived, dropped) = (Rc::clone(&arrived), Dropped(Rc::clone(&dropped)));
                    async move {
                        let _dropped = dropped;
                        arrived.pass(2).await;
                        std::future::pending::<Reply>().await
                    }
                })
            };
            let ended = server(far, service, settings(version), std::future::pending(), PATIENCE);
            let mut client = Client::open(Rc::clone(&near), version, 1, soon()).await.expect("ready");
            let reply = client.send(post(version, "/", Vec::new()));
            let seen = client.drive(arrived.pass(2), soon()).await;
            assert_eq!((seen, dropped.get()), (Some(()), 0));
            near.borrow().vanish();
            let error = client.drive(reply, soon()).await.expect("in time").expect_err("there is nobody");
            assert!(!crate::client::is_unseen(&error), "the server has seen it: {error}");
            assert!(done(&ended).await.is_err(), "an end in the middle is none in order");
            assert_eq!(dropped.get(), 1, "the service's work ended with its client");
        });
    }
}

/// hyper buffers some hundred kilobytes for somebody who does not read, and then waits.
#[test]
fn a_slow_reader_costs_a_bounded_amount() {
    for version in VERSIONS {
        on_engine(move || async move {
            let (near, far) = pair(1 << 16);
            let pieces = Rc::new(Cell::new(0));
            let service = {
                let pieces = Rc::clone(&pieces);
                service_fn(move |_: Request<Incoming>| {
                    let body = Endless(Rc::clone(&pieces));
                    async move { Ok(Response::new(body)) }
                })
            };
            let limit = Duration::from_millis(300);
            let ended = server(far, service, settings(version), std::future::pending(), limit);
            let mut client = Client::open(near, version, 1, soon()).await.expect("ready");
            let reply = client.send(post(version, "/", Vec::new()));
            let response = client.drive(reply, soon()).await.expect("in time").expect("a head");
            // The body is not read, though the connection is driven.
            let more = client.drive(std::future::pending::<()>(), engine::now() + limit / 2).await;
            assert_eq!(more, None);
            let taken = pieces.get();
            // HTTP/2: a stream's window of 2 MiB at the client, and the server's buffer.
            assert!((2..200).contains(&taken), "{taken} pieces of 16 KiB");
            let more = client.drive(std::future::pending::<()>(), engine::now() + limit / 4).await;
            assert_eq!((more, pieces.get()), (None, taken), "nothing more is made");
            // What the reader will not have ends with the deadline, without a reader's help.
            assert_eq!(done(&ended).await.expect("it stood"), Ended::Deadline);
            drop(response);
        });
    }
}

#[test]
fn a_server_that_is_to_stop_answers_what_is_under_way_and_ends() {
    for version in VERSIONS {
        on_engine(move || async move {
            let (near, far) = pair(1 << 16);
            let (arrived, go) = (Rc::new(Gate::default()), Rc::new(Gate::default()));
            let service = {
                let (arrived, go) = (Rc::clone(&arrived), Rc::clone(&go));
                service_fn(move |request: Request<Incoming>| {
                    let (arrived, go) = (Rc::clone(&arrived), Rc::clone(&go));
                    async move {
                        arrived.pass(2).await;
                        go.pass(2).await;
                        echo(request).await
                    }
                })
            };
            let stop = {
                let arrived = Rc::clone(&arrived);
                async move {
                    while arrived.there.get() < 2 {
                        engine::timer(engine::now() + Duration::from_millis(5)).await;
                    }
                }
            };
            let ended = server(far, service, settings(version), stop, PATIENCE);
            let mut client = Client::open(near, version, 2, soon()).await.expect("ready");
            let reply = client.send(post(version, "/last", Vec::new()));
            client.drive(arrived.pass(2), soon()).await.expect("in time");
            // Told to stop while the request is under way; only then may it be answered.
            engine::sleep(Duration::from_millis(30)).await;
            let answer = async {
                go.pass(2).await;
                reply.await.expect("an answer").into_body().collect().await.expect("all of it").to_bytes()
            };
            assert_eq!(client.drive(answer, soon()).await.expect("in time"), "/last ");
            let limit = soon();
            while !client.is_closed() {
                assert!(engine::now() < limit, "the server never ended");
                let _ = client
                    .drive(std::future::pending::<()>(), engine::now() + Duration::from_millis(5))
                    .await;
            }
            assert_eq!(done(&ended).await.expect("nothing broke"), Ended::Orderly);
        });
    }
}

/// The timers that hyper has run on the engine.
#[test]
fn a_client_that_says_nothing_is_given_up() {
    on_engine(|| async {
        for version in VERSIONS {
            let (near, far) = pair(1 << 16);
            let limit = Duration::from_millis(50);
            let settings = Settings { head: limit, ping: limit, ..settings(version) };
            let begin = Moment::now();
            // HTTP/2's begins with its first word; after that it is asked for signs of life.
            if version == Version::Http2 {
                let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
                hello.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
                let written = std::future::poll_fn(|context| {
                    crate::Pipe::poll_write(&mut *near.borrow_mut(), context, &hello)
                });
                assert_eq!(written.await.expect("there is room"), hello.len());
            }
            let ended = server(far, service_fn(echo), settings, std::future::pending(), PATIENCE);
            let error = done(&ended).await.expect_err("it was silent");
            assert!(error.is_timeout(), "{error:?}");
            assert!(Moment::now().since(begin) >= limit);
        }
    });
}

/// Waits until another thread has done its work.
async fn elsewhere() {
    let (say, hear) = std::sync::mpsc::sync_channel(1);
    let mut say = Some(say);
    std::future::poll_fn(move |context| {
        if let Some(say) = say.take() {
            let waker = context.waker().clone();
            let work = move || {
                say.send(()).expect("there is room");
                waker.wake();
            };
            std::thread::Builder::new().name("elsewhere".into()).spawn(work).expect("a thread");
        }
        hear.try_recv().map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await;
}

/// What a service waits for need not be of this thread.
#[test]
fn a_service_may_wait_for_another_thread() {
    for version in VERSIONS {
        on_engine(move || async move {
            let (near, far) = pair(1 << 16);
            let service = service_fn(|request: Request<Incoming>| async {
                elsewhere().await;
                echo(request).await
            });
            let _ended = server(far, service, settings(version), std::future::pending(), PATIENCE);
            let mut client = Client::open(near, version, 1, soon()).await.expect("ready");
            for number in 0..100 {
                let path = format!("/{number}");
                assert_eq!(ask(&mut client, &path, Vec::new()).await.1, format!("{path} "));
            }
        });
    }
}

/// Whoever drives it is woken, and not who did before.
#[test]
fn a_connection_goes_on_in_another_task() {
    for version in VERSIONS {
        on_engine(move || async move {
            let (near, far) = pair(100);
            let _ended = server(far, service_fn(echo), settings(version), std::future::pending(), PATIENCE);
            let mut client = Client::open(near, version, 1, soon()).await.expect("ready");
            assert_eq!(ask(&mut client, "/here", vec![b'h'; 1000]).await.1.len(), 1006);
            let there = Rc::new(Gate::default());
            let done = Rc::clone(&there);
            spawn(Priority::Flow, async move {
                assert_eq!(ask(&mut client, "/there", vec![b't'; 1000]).await.1.len(), 1007);
                done.pass(1).await;
            });
            let limit = soon();
            while there.there.get() == 0 {
                assert!(engine::now() < limit, "nobody woke the task that has it now");
                engine::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}

#[test]
fn a_pipe_that_takes_nothing_is_not_waited_for() {
    on_engine(|| async {
        // HTTP/2 begins with words of the client's.
        let (near, _far) = pair(0);
        let limit = engine::now() + Duration::from_millis(20);
        let opened = Client::<Full<Bytes>>::open(near, Version::Http2, 1, limit).await;
        assert!(matches!(opened, Err(Unready::Deadline)), "{opened:?}");
        let (near, far) = pair(1000);
        far.borrow().vanish();
        let opened = Client::<Full<Bytes>>::open(near, Version::Http2, 1, soon()).await;
        assert!(matches!(opened, Err(Unready::Http(_))), "{opened:?}");
    });
}
