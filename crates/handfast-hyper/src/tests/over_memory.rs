//! Whole connections in memory, client and server in tasks of their own, which wake each other by their wakers alone.

use super::*;
use crate::client::Unready;

type Outcome = Rc<RefCell<Option<hyper::Result<Ended>>>>;

fn outcome() -> Outcome {
    Rc::default()
}

async fn done(outcome: &Outcome) -> hyper::Result<Ended> {
    let limit = soon::<InMemory>();
    while outcome.borrow().is_none() {
        assert!(InMemory::turn() < limit, "the server goes on and on");
        pause::<InMemory>(Duration::from_millis(5)).await;
    }
    outcome.borrow_mut().take().expect("it is there")
}

/// A server in a separate task, until `stop`.
fn server<S, B>(
    pipe: Pipe,
    service: S,
    version: Version,
    stop: impl Future<Output = ()> + 'static,
    limit: Duration,
) -> Outcome
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + 'static,
    B: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let outcome = outcome();
    let ending = Rc::clone(&outcome);
    let deadline = InMemory::turn() + limit;
    tasks::spawn(async move {
        let ended = serve::<InMemory, _, _, _, _>(pipe, service, version, stop, deadline).await;
        *ending.borrow_mut() = Some(ended);
    });
    outcome
}

#[test]
fn one_connection_carries_many_exchanges() {
    for version in VERSIONS {
        // Room for everything, and hardly any.
        for room in [1 << 20, 37] {
            in_memory(move || async move {
                let (near, far) = pair(room, true);
                let ended = server(far, service_fn(echo), version, std::future::pending(), TIMEOUT);
                let mut client =
                    Client::<_, InMemory>::open(&near, version, 1, soon::<InMemory>()).await.expect("ready");
                for number in 0..50_usize {
                    let body = vec![b'a' + (number % 26) as u8; number * 97];
                    let (status, answer) =
                        send_request(&mut client, &format!("/{number}"), body.clone()).await;
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
    in_memory(|| async {
        let (near, far) = pair(1000, true);
        let gate = Rc::new(Gate::default());
        let at_gate = Rc::clone(&gate);
        let service = service_fn(move |request: Request<Incoming>| {
            let gate = Rc::clone(&at_gate);
            async move {
                gate.pass(100).await;
                echo(request).await
            }
        });
        let _ended = server(far, service, Version::Http2, std::future::pending(), TIMEOUT);
        let mut client =
            Client::<_, InMemory>::open(&near, Version::Http2, 100, soon::<InMemory>()).await.expect("ready");
        let mut replies: Vec<Pin<Box<dyn Future<Output = Bytes>>>> = Vec::new();
        for number in 0..100 {
            let reply = client.send(post(Version::Http2, &format!("/{number}"), vec![b'z'; 3000]));
            replies.push(Box::pin(async {
                let body = reply.await.expect("an answer").into_body();
                body.collect().await.expect("a whole answer").to_bytes()
            }));
        }
        let answers = client.drive(all(replies), soon::<InMemory>()).await.expect("in time");
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(answer, &[format!("/{number} ").as_bytes(), &[b'z'; 3000]].concat());
        }
    });
}

#[test]
fn a_peer_that_vanishes_in_the_middle_ends_what_was_under_way() {
    for version in VERSIONS {
        in_memory(move || async move {
            let (near, far) = pair(1 << 16, true);
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
            let ended = server(far, service, version, std::future::pending(), TIMEOUT);
            let mut client =
                Client::<_, InMemory>::open(&near, version, 1, soon::<InMemory>()).await.expect("ready");
            let reply = client.send(post(version, "/", Vec::new()));
            let seen = client.drive(arrived.pass(2), soon::<InMemory>()).await;
            assert_eq!((seen, dropped.get()), (Some(()), 0));
            tasks::cut(&link(&near));
            let error =
                client.drive(reply, soon::<InMemory>()).await.expect("in time").expect_err("there is nobody");
            assert!(!crate::client::is_unseen(&error), "the server has seen it: {error}");
            let ended = done(&ended).await;
            assert!(ended.is_err(), "an end in the middle is none in order: {ended:?}");
            assert_eq!(dropped.get(), 1, "the service's work ended with its client");
        });
    }
}

/// hyper buffers some hundred kilobytes for a peer that does not read, and then waits.
#[test]
fn a_slow_reader_costs_a_bounded_amount() {
    for version in VERSIONS {
        in_memory(move || async move {
            let (near, far) = pair(1 << 16, true);
            let pieces = Rc::new(Cell::new(0));
            let service = {
                let pieces = Rc::clone(&pieces);
                service_fn(move |_: Request<Incoming>| {
                    let body = Endless(Rc::clone(&pieces));
                    async move { Ok(Response::new(body)) }
                })
            };
            let limit = Duration::from_millis(300);
            let ended = server(far, service, version, std::future::pending(), limit);
            let mut client =
                Client::<_, InMemory>::open(&near, version, 1, soon::<InMemory>()).await.expect("ready");
            let reply = client.send(post(version, "/", Vec::new()));
            let response = client.drive(reply, soon::<InMemory>()).await.expect("in time").expect("a head");
            // The body is not read, though the connection is driven.
            let more = client.drive(std::future::pending::<()>(), InMemory::turn() + limit / 2).await;
            assert_eq!(more, None);
            let taken = pieces.get();
            // HTTP/2: a stream's window of 2 MiB at the client, and the server's buffer.
            assert!((2..200).contains(&taken), "{taken} pieces of 16 KiB");
            let more = client.drive(std::future::pending::<()>(), InMemory::turn() + limit / 4).await;
            assert_eq!((more, pieces.get()), (None, taken), "nothing more is made");
            // Data that the reader refuses ends with the deadline, without a reader's help.
            assert_eq!(done(&ended).await.expect("it stood"), Ended::Deadline);
            drop(response);
        });
    }
}

#[test]
fn a_server_that_is_to_stop_answers_what_is_under_way_and_ends() {
    for version in VERSIONS {
        in_memory(move || async move {
            let (near, far) = pair(1 << 16, true);
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
            let gate = Rc::new(Gate::default());
            let stop = {
                let gate = Rc::clone(&gate);
                async move { gate.pass(2).await }
            };
            let ended = server(far, service, version, stop, TIMEOUT);
            let mut client =
                Client::<_, InMemory>::open(&near, version, 2, soon::<InMemory>()).await.expect("ready");
            let reply = client.send(post(version, "/last", Vec::new()));
            client.drive(arrived.pass(2), soon::<InMemory>()).await.expect("in time");
            // It has to stop while the request is under way; only then is it answered.
            gate.pass(2).await;
            pause::<InMemory>(Duration::from_millis(30)).await;
            let answer = async {
                go.pass(2).await;
                reply.await.expect("an answer").into_body().collect().await.expect("all of it").to_bytes()
            };
            assert_eq!(client.drive(answer, soon::<InMemory>()).await.expect("in time"), "/last ");
            let limit = soon::<InMemory>();
            while !client.is_closed() {
                assert!(InMemory::turn() < limit, "the server never ended");
                let _ = client
                    .drive(std::future::pending::<()>(), InMemory::turn() + Duration::from_millis(5))
                    .await;
            }
            assert_eq!(done(&ended).await.expect("nothing broke"), Ended::Orderly);
        });
    }
}

/// The task that drives it is woken, and not the one before.
#[test]
fn a_connection_goes_on_in_another_task() {
    for version in VERSIONS {
        in_memory(move || async move {
            let (near, far) = pair(100, true);
            let _ended = server(far, service_fn(echo), version, std::future::pending(), TIMEOUT);
            let mut client =
                Client::<_, InMemory>::open(&near, version, 1, soon::<InMemory>()).await.expect("ready");
            assert_eq!(send_request(&mut client, "/here", vec![b'h'; 1000]).await.1.len(), 1006);
            let there = Rc::new(Gate::default());
            let done = Rc::clone(&there);
            tasks::spawn(async move {
                assert_eq!(send_request(&mut client, "/there", vec![b't'; 1000]).await.1.len(), 1007);
                done.pass(1).await;
            });
            let limit = soon::<InMemory>();
            while there.there.get() == 0 {
                assert!(InMemory::turn() < limit, "nobody woke the task that has it now");
                pause::<InMemory>(Duration::from_millis(1)).await;
            }
        });
    }
}

#[test]
fn a_pipe_that_takes_nothing_is_not_waited_for() {
    in_memory(|| async {
        // HTTP/2 begins with words of the client's.
        let (near, _far) = pair(0, true);
        near.borrow_mut().leg_mut().keep(b"waits");
        let limit = InMemory::turn() + Duration::from_millis(20);
        let opened = Client::<Full<Bytes>, InMemory>::open(&near, Version::Http2, 1, limit).await;
        assert!(matches!(opened, Err(Unready::Deadline)), "{opened:?}");
        let (near, far) = pair(1000, true);
        tasks::cut(&link(&far));
        let opened =
            Client::<Full<Bytes>, InMemory>::open(&near, Version::Http2, 1, soon::<InMemory>()).await;
        assert!(matches!(opened, Err(Unready::Http(_))), "{opened:?}");
    });
}
