//! A stop drains and says how it went: no new client is accepted, open connections may finish until the deadline, the rest is cut as an
//! abort and counted; a second signal stops at once.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::support::*;

fn stage(drain: &str) -> Stage {
    Stage::with(Backend::echo(), |config, _| config.text("process", "drain", drain))
}

#[test]
fn after_the_last_one_has_finished() {
    let mut stage = stage("30s");
    let mut client = stage.any_client();
    client.echo(b"before");
    stage.proxy.signal(Signal::TERM);
    wait_until("the listener to be closed", || client::dial(stage.proxy.address()).err().map(|_| ()));
    assert_eq!(
        http::get(stage.proxy.admin(), "/ready", "*/*").status,
        503,
        "the status keeps a balancer away"
    );
    for _ in 0..10 {
        client.echo(b"what was begun goes on");
        pause(Duration::from_millis(30));
    }
    assert!(stage.proxy.lives());
    client.finish();
    assert_eq!(stage.proxy.ended().code(), Some(0));
    let record = stage.proxy.record("the tunnel", |record| record.number("bytes_to_backend") > 0);
    assert!(record.reason().ends_with("/finished"), "its line is written before the end: {record:?}");
}

#[test]
fn a_connection_in_its_handshake_may_finish_too() {
    let mut stage = stage("30s");
    let hello = hello::Hello::new(&Trust::version(Version::Tls13).config());
    let mut stream = client::dial(stage.proxy.address()).expect("the proxy listens");
    std::io::Write::write_all(&mut stream, &hello.record[..20]).expect("the proxy reads");
    wait_until("it to be accepted", || {
        (stage.proxy.metrics().sum("handfast_connections", &[]) > 0.5).then_some(())
    });
    stage.proxy.signal(Signal::TERM);
    wait_until("the listener to be closed", || client::dial(stage.proxy.address()).err().map(|_| ()));
    std::io::Write::write_all(&mut stream, &hello.record[20..]).expect("the proxy reads");
    let mut client = Client::handshake(stream, hello.tls).expect("it was let in before");
    client.echo(b"served");
    client.finish();
    assert_eq!(stage.proxy.ended().code(), Some(0));
}

#[test]
fn a_reload_while_draining_does_not_open_the_door_again() {
    let mut stage = stage("30s");
    let client = stage.any_client();
    stage.proxy.signal(Signal::TERM);
    wait_until("the listener to be closed", || client::dial(stage.proxy.address()).err().map(|_| ()));
    stage.proxy.signal(Signal::HUP);
    pause(Duration::from_millis(300));
    assert!(client::dial(stage.proxy.address()).is_err(), "it stays closed");
    client.finish();
    assert_eq!(stage.proxy.ended().code(), Some(0));
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn at_once_when_nobody_is_there() {
        for signal in [Signal::TERM, Signal::INT] {
            let stage = stage("30s");
            let mut proxy = stage.proxy;
            let start = Instant::now();
            proxy.signal(signal);
            let status = proxy.ended();
            assert_eq!(status.code(), Some(0), "{signal:?}: {:?}", proxy.talk.so_far());
            assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        }
    }

    #[test]
    fn at_the_deadline_the_rest_is_cut_and_counted() {
        let mut stage = stage("1s");
        let mut clients: Vec<Client> = (0..5).map(|_| stage.any_client()).collect();
        for client in &mut clients {
            client.echo(b"x");
        }
        let start = Instant::now();
        stage.proxy.signal(Signal::TERM);
        for client in &mut clients {
            let ending = client.read_to_end();
            assert!(ending.is_abort(), "cutting is no clean end: {ending:?}");
        }
        assert_eq!(stage.proxy.ended().code(), Some(0), "{:?}", stage.proxy.talk.so_far());
        let took = start.elapsed();
        assert!((Duration::from_millis(950)..Duration::from_millis(3000)).contains(&took), "{took:?}");
        let cut = stage
            .proxy
            .records()
            .iter()
            .filter(|record| record.reason().ends_with("/operator/stopped"))
            .count();
        assert_eq!(cut, 5, "{:?}", stage.proxy.records());
        let message = stage.proxy.talk.containing("cut");
        assert!(message.contains('5'), "it has the number: {message}");
    }

    #[test]
    fn a_second_signal_stops_at_once() {
        let mut stage = stage("1h");
        let mut client = stage.any_client();
        client.echo(b"x");
        stage.proxy.signal(Signal::TERM);
        wait_until("the listener to be closed", || client::dial(stage.proxy.address()).err().map(|_| ()));
        assert!(stage.proxy.lives());
        let start = Instant::now();
        stage.proxy.signal(Signal::TERM);
        stage.proxy.ended();
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(client.read_to_end().is_abort());
    }
}
