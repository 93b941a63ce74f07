//! A failing backend is named, with what it did; another is tried when it refuses; it is marked down when it keeps failing,
//! however soon its clients leave, and comes back by itself.

use std::net::TcpListener;
use std::time::Duration;

use super::support::*;

#[test]
fn the_next_backend_serves_when_the_first_refuses() {
    let (folder, backend) = (folder::Folder::new(), Backend::echo());
    let proxy = Proxy::start(Config::to(&folder, Backend::refusing()).backend(backend.address));
    let trust = Trust::version(Version::Tls13).config();
    for _ in 0..10 {
        let mut client = Client::connect(proxy.address(), &trust);
        client.echo(b"served all the same");
        client.finish();
    }
    let record = proxy.record("one that was refused first", |record| record.number("backends_failed") == 1);
    assert!(record.reason().ends_with("/finished"), "{record:?}");
    assert_eq!(record.text("backend"), backend.address.to_string(), "{record:?}");
    assert_eq!(backend.accepted(), 10, "every one of them");
}

#[test]
fn a_backend_that_keeps_failing_is_marked_down_and_comes_back() {
    let good = Backend::echo();
    let (gone, socket) = Backend::refusing_at_first();
    let folder = folder::Folder::new();
    let config = Config::to(&folder, good.address)
        .backend(gone)
        .set("process", "threads", 1)
        .set("service.limits", "backend-failures", 2)
        .text("service.limits", "backend-retry", "300ms");
    let proxy = Proxy::start(config);
    let trust = Trust::version(Version::Tls13).config();
    let serve = || {
        let mut client = Client::connect(proxy.address(), &trust);
        client.echo(b"x");
        client.finish();
    };
    let up = || proxy.metrics().sum("handfast_backend_up", &[("backend", &gone.to_string())]);
    wait_until("the failing backend to be marked down", || {
        serve();
        (up() < 0.5).then_some(())
    });
    let failures =
        || proxy.metrics().sum("handfast_backend_failures_total", &[("backend", &gone.to_string())]);
    let back = Backend::on_bound(socket, backend::Peer::read_to_end);
    assert!(failures() >= 2.0);
    wait_until("it to be tried again", || {
        let mut client = Client::connect(proxy.address(), &trust);
        client.send(b"x");
        client.close_notify();
        client.read_to_end();
        (back.accepted() > 0 && up() > 0.5).then_some(())
    });
}

/// A listener whose queue is full, so that further SYNs are dropped, and what fills it.
fn full() -> (TcpListener, Vec<std::net::TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    rustix::net::listen(&listener, 0).expect("a listener may listen again");
    let full = listener.local_addr().expect("a bound socket has an address");
    let connect = |_| std::net::TcpStream::connect_timeout(&full, Duration::from_millis(100)).ok();
    let filling = (0..4).filter_map(connect).collect();
    (listener, filling)
}

#[test]
fn clients_that_do_not_wait_find_it_out_too() {
    let (listener, _filling) = full();
    let full = listener.local_addr().expect("a bound socket has an address");
    let stage = Stage::with(Backend::echo(), |_, folder| {
        Config::to(folder, full).text("service.limits", "connect", "1m").text(
            "service.limits",
            "handshake",
            "1m",
        )
    });
    let clients: Vec<_> = (0..3).map(|_| stage.any_client()).collect();
    // Longer than a SYN waits for its answer before it is sent again.
    pause(Duration::from_millis(1_200));
    clients.into_iter().for_each(Client::reset);
    let up = || stage.proxy.metrics().sum("handfast_backend_up", &[("backend", &full.to_string())]);
    wait_until("it to be marked down", || (up() < 0.5).then_some(()));
    stage.proxy.record("a client that left", |record| record.reason() == "connect/client/reset");
    stage.is_quiet();
}

#[test]
fn a_backend_that_does_not_answer_is_named() {
    let (listener, _filling) = full();
    let full = listener.local_addr().expect("a bound socket has an address");
    let stage = Stage::with(Backend::echo(), |_, folder| {
        Config::to(folder, full).text("service.limits", "connect", "300ms")
    });
    if let Ok(mut client) =
        Client::try_connect(stage.proxy.address(), &Trust::version(Version::Tls13).config(), "localhost")
    {
        let ending = client.read_to_end();
        assert!(!ending.close_notify, "{ending:?}");
    }
    let record = stage.proxy.record_of("connect/backend/connect-timeout");
    assert!((0.25..2.0).contains(&record.seconds("connect")), "{record:?}");
    stage.is_quiet();
}

#[test]
fn a_missing_unix_socket_is_named() {
    let stage = Stage::with(Backend::echo(), |_, folder| {
        Config::to(folder, format!("unix:{}", folder.file("nobody.sock").display()))
    });
    if let Ok(mut client) =
        Client::try_connect(stage.proxy.address(), &Trust::version(Version::Tls13).config(), "localhost")
    {
        assert!(!client.read_to_end().close_notify);
    }
    stage.proxy.record("the connection", |record| {
        record.reason().starts_with("connect/") && record.reason().ends_with("/path-missing")
    });
    stage.is_quiet();
}

#[test]
fn a_name_without_an_address_is_named() {
    // RFC 6761 §6.4: names under `invalid` never have one.
    let stage = Stage::with(Backend::echo(), |_, folder| Config::to(folder, "missing.invalid:8080"));
    if let Ok(mut client) =
        Client::try_connect(stage.proxy.address(), &Trust::version(Version::Tls13).config(), "localhost")
    {
        assert!(!client.read_to_end().close_notify);
    }
    stage.proxy.record("the connection", |record| {
        record.reason().starts_with("connect/") && record.reason().ends_with("/name-not-resolved")
    });
    stage.is_quiet();
}

#[test]
fn work_goes_round_or_to_the_least_busy() {
    for (balance, busy_gets) in [("round-robin", 5), ("least-connections", 0)] {
        let (one, other) = (Backend::echo(), Backend::echo());
        let folder = folder::Folder::new();
        let config = Config::to(&folder, one.address)
            .backend(other.address)
            .set("process", "threads", 1)
            .text("service", "balance", balance);
        let proxy = Proxy::start(config);
        let trust = Trust::version(Version::Tls13).config();
        let mut held = Client::connect(proxy.address(), &trust);
        held.echo(b"stays");
        let busy = if one.accepted() == 1 { &one } else { &other };
        for number in 1..=10 {
            let mut client = Client::connect(proxy.address(), &trust);
            client.echo(b"comes and goes");
            client.finish();
            wait_until("it to be over", || (proxy.records().len() == number).then_some(()));
        }
        assert_eq!(busy.accepted() - 1, busy_gets, "{balance}");
    }
}
