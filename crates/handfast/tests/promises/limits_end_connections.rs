//! Limits end connections on time, as aborts, and with the limit's name: idle, half-closed, lifetime, and the number
//! of connections of one address.

use std::time::{Duration, Instant};

use super::support::*;

/// Tolerance for noticing the end after a limit, on a busy machine.
const GRACE: Duration = Duration::from_millis(1500);

fn stage(key: &str, value: &str) -> Stage {
    Stage::with(Backend::echo(), |config, _| config.text("service.limits", key, value))
}

fn ends_after(limit: Duration, client: &mut Client, start: Instant) {
    let ending = client.read_to_end();
    let took = start.elapsed();
    assert!(ending.is_abort(), "cutting is no clean end: {ending:?}");
    assert!((limit - Duration::from_millis(50)..limit + GRACE).contains(&took), "ended after {took:?}");
}

#[test]
fn one_address_gets_its_share_and_no_more() {
    let stage =
        Stage::with(Backend::echo(), |config, _| config.set("service", "max-connections-per-address", 3));
    let config = Trust::version(Version::Tls13).config();
    let mut clients: Vec<Client> = (0..3).map(|_| stage.client(&config)).collect();
    for _ in 0..5 {
        let refused = Client::try_connect(stage.proxy.address(), &config, "localhost");
        assert!(matches!(refused, Err(Refusal::Ended(_))), "the fourth is turned away");
    }
    for client in &mut clients {
        client.echo(b"the others are not concerned");
    }
    let refused = stage.proxy.metrics().sum("handfast_connections_refused_total", &[("service", "web")]);
    assert!((refused - 5.0).abs() < 0.5, "{refused} were counted as refused");
    clients.pop().expect("there are three").finish();
    wait_until("a place to be free again", || {
        Client::try_connect(stage.proxy.address(), &config, "localhost").ok()
    })
    .echo(b"in its place");
}

#[test]
fn beyond_the_limit_of_a_service_connections_wait_and_are_then_served() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.set("process", "threads", 1).set("process", "max-connections", 4)
    });
    let config = Trust::version(Version::Tls13).config();
    let mut clients: Vec<Client> = (0..4).map(|_| stage.client(&config)).collect();
    let address = stage.proxy.address();
    let waiting = deadline::thread("the fifth client", move || {
        let mut fifth = Client::connect(address, &config);
        fifth.echo(b"at last");
        fifth.finish();
    });
    pause(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "the fifth waits while four are served");
    for client in &mut clients {
        client.echo(b"undisturbed");
    }
    clients.pop().expect("there are four").finish();
    waiting.join().expect("the fifth client is served in the end");
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn an_idle_connection_is_ended_and_a_busy_one_is_not() {
        let limit = Duration::from_millis(500);
        let stage = stage("idle", "500ms");
        let mut client = stage.any_client();
        for _ in 0..6 {
            client.echo(b"busy");
            pause(limit / 4);
        }
        client.echo(b"for the last time");
        let start = Instant::now();
        ends_after(limit, &mut client, start);
        stage.proxy.record("the connection", |record| record.reason().ends_with("/idle"));
        stage.is_quiet();
    }

    #[test]
    fn a_half_closed_connection_that_stays_silent_is_ended() {
        let limit = Duration::from_millis(500);
        let backend = Backend::start(|peer| {
            peer.read_exactly(4);
            peer.read_to_end();
            // Says nothing, and does not end either, until it is cut.
            while !backend::is_cut(&peer.stream) {
                pause(Duration::from_millis(10));
            }
        });
        let stage = Stage::with(backend, |config, _| config.text("service.limits", "half-closed", "500ms"));
        let mut client = stage.any_client();
        client.send(b"bye!");
        client.close_notify();
        let start = Instant::now();
        ends_after(limit, &mut client, start);
        stage.proxy.record("the connection", |record| record.reason().ends_with("/half-closed-idle"));
        stage.backend.seen();
        stage.is_quiet();
    }

    #[test]
    fn a_connection_reaches_its_greatest_age_however_busy() {
        let limit = Duration::from_secs(1);
        let stage = stage("lifetime", "1s");
        let start = Instant::now();
        let mut client = stage.any_client();
        let ending = client.read_to_end_while_writing();
        let took = start.elapsed();
        assert!(!ending.close_notify, "cutting is no clean end: {ending:?}");
        assert!((limit - Duration::from_millis(50)..limit + GRACE).contains(&took), "ended after {took:?}");
        stage.proxy.record("the connection", |record| record.reason().ends_with("/lifetime"));
        stage.is_quiet();
    }
}
