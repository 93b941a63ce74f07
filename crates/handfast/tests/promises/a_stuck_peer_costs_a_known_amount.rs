//! A stuck peer costs a known amount: at most 64 KiB of the program's memory for each direction, whatever the other side pushes;
//! and no other connection is affected.

use std::io::Write;
use std::time::{Duration, Instant};

use super::support::*;

/// What may be kept for one direction of one connection.
const EACH: u64 = 64 << 10;
/// What a crowd of connections may cost beside: the allocator's rounding, TLS state, the counters.
const BESIDE: u64 = 24 << 10;
const TUNNELS: usize = 50;

#[test]
fn a_backend_that_never_reads() {
    let stage = Stage::new(|peer| {
        peer.send(b"!");
        // Holds the connection without reading until the client has gone.
        while !backend::is_over(&peer.stream) {
            pause(Duration::from_millis(20));
        }
    });
    let config = Trust::version(Version::Tls13).config();
    let mut clients: Vec<Client> = (0..TUNNELS).map(|_| stage.client(&config)).collect();
    for client in &mut clients {
        client.read_exactly(1);
    }
    let before = stage.proxy.process().memory();
    for client in &mut clients {
        push_until_stuck(client);
    }
    let grown = stage.proxy.process().memory().saturating_sub(before);
    let allowed = TUNNELS as u64 * (EACH + BESIDE);
    assert!(grown <= allowed, "{TUNNELS} stuck tunnels cost {grown} bytes, allowed are {allowed}");
    for client in clients {
        client.reset();
    }
    stage.is_quiet();
}

/// Sends until nothing has been taken for a while.
fn push_until_stuck(client: &mut Client) {
    client.stream.set_nonblocking(true).expect("an open socket takes the option");
    let mut moved = Instant::now();
    while moved.elapsed() < Duration::from_millis(100) {
        if client.try_send_some(&[b's'; 65_536]).is_ok_and(|count| count > 0) {
            moved = Instant::now();
        } else {
            pause(Duration::from_millis(1));
        }
    }
    client.stream.set_nonblocking(false).expect("an open socket takes the option");
}

#[test]
fn a_client_that_never_reads() {
    let stage = Stage::new(|peer| {
        peer.send(b"!");
        let _ = peer.stream.set_write_timeout(Some(Duration::from_millis(300)));
        while peer.stream.write_all(&[b's'; 65_536]).is_ok() {}
    });
    let config = Trust::version(Version::Tls13).config();
    let before = stage.proxy.process().memory();
    let mut clients: Vec<Client> = (0..TUNNELS).map(|_| stage.client(&config)).collect();
    for client in &mut clients {
        client.read_exactly(1);
    }
    for _ in 0..TUNNELS {
        stage.backend.seen();
    }
    let grown = stage.proxy.process().memory().saturating_sub(before);
    let allowed = TUNNELS as u64 * (EACH + BESIDE);
    assert!(grown <= allowed, "{TUNNELS} stuck tunnels cost {grown} bytes, allowed are {allowed}");
    for client in clients {
        client.reset();
    }
    stage.is_quiet();
}

fn slowest(client: &mut Client) -> Duration {
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let start = Instant::now();
            client.echo(&[b'p'; 4096]);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[197]
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn the_neighbours_of_stuck_tunnels_do_not_wait() {
        let stuck_backend = Backend::start(|peer| {
            while !backend::is_over(&peer.stream) {
                pause(Duration::from_millis(20));
            }
        });
        let stage = Stage::with(Backend::echo(), |config, folder| {
            config.service("stuck", stuck_backend.address).certificate(&folder.file("web.pem"))
        });
        let config = Trust::version(Version::Tls13).config();
        let mut neighbour = stage.client(&config);
        let alone = slowest(&mut neighbour);
        let mut stuck: Vec<Client> =
            (0..TUNNELS).map(|_| Client::connect(stage.proxy.address_of("stuck"), &config)).collect();
        for client in &mut stuck {
            push_until_stuck(client);
        }
        let beside = slowest(&mut neighbour);
        let allowed = alone * 2 + Duration::from_millis(20);
        assert!(
            beside <= allowed,
            "99 of 100 round trips take {beside:?} now, {alone:?} before; allowed {allowed:?}"
        );
        // Nothing spins over what it cannot move.
        let cpu = stage.proxy.process().cpu();
        pause(Duration::from_millis(500));
        let spent = stage.proxy.process().cpu() - cpu;
        assert!(spent <= Duration::from_millis(50), "{spent:?} of CPU in half a second with nothing to do");
        for client in stuck {
            client.reset();
        }
        neighbour.finish();
        stage.is_quiet();
    }
}
