//! A stuck peer costs a known amount: at most 64 KiB of the program's memory for each direction, whatever the other side pushes, and 2 MiB
//! for a client of HTTP/2 with a hundred streams; and no other connection is affected.

use std::io::Write;
use std::time::{Duration, Instant};

use super::support::http2::*;
use super::support::*;

/// Bytes that may be kept for one direction of one connection.
const EACH: u64 = 64 << 10;
/// Additional bytes for each of many connections: the allocator's rounding, TLS state, the counters.
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

/// The frames of a stream's request.
type Frames<'a> = dyn Fn(u32) -> Vec<u8> + 'a;

/// Bytes that a client of HTTP/2 may cost with as many streams as it may have.
const HTTP2: u64 = 2 << 20;
const HTTP2_CLIENTS: usize = 4;
const STREAMS: u32 = 100;
/// Setting SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.5.2).
const INITIAL_WINDOW: u16 = 4;
const WINDOW_UPDATE: u8 = 8;

/// The memory that the proxy has when it has not changed for a while.
fn settled_memory(proxy: &Proxy) -> u64 {
    let (mut last, mut since) = (proxy.process().memory(), Instant::now());
    wait_until("the proxy's memory to settle", || {
        pause(Duration::from_millis(50));
        let now = proxy.process().memory();
        if now.abs_diff(last) > 256 << 10 {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(now)
    })
}

/// Clients with a hundred streams each, of which nothing moves: they read nothing, open their windows by a byte, or send content that no
/// backend reads.
#[test]
fn clients_of_http2() {
    // The content comes with the head, or after it.
    let responses = |with_head: usize| {
        Backend::start(move |peer| {
            let _ = peer.head();
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
            peer.send(&[head, vec![b'r'; with_head]].concat());
            pause(Duration::from_millis(20));
            peer.send(&vec![b'r'; 1_000_000 - with_head]);
            peer.read_to_end();
        })
    };
    let readers_of_nothing = || {
        Backend::start(|peer| {
            while !backend::is_over(&peer.stream) {
                pause(Duration::from_millis(20));
            }
        })
    };
    let get = |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &get("/"));
    let post = |stream| {
        let fields = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
        let head: Vec<_> =
            fields.iter().flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect();
        let content = frame(DATA, 0, stream, &[b'p'; 10_000]);
        [frame(HEADERS, END_HEADERS, stream, &head), content].concat()
    };
    let wide = frame(WINDOW_UPDATE, 0, 0, &((1_u32 << 31) - 1 - 65_535).to_be_bytes());
    let cases: [(&str, Backend, u32, &Frames<'_>); 4] = [
        ("read nothing", responses(0), (1 << 31) - 1, &get),
        ("read nothing of content behind its head", responses(100_000), (1 << 31) - 1, &get),
        ("have windows of a byte", responses(0), 1, &get),
        ("send what is not read", readers_of_nothing(), 65_535, &post),
    ];
    for (what, backend, window, request) in cases {
        let stage = Stage::with(backend, |config, _| config.text("service", "mode", "http"));
        let trust = Trust::version(Version::Tls13).protocol("h2").config();
        // The first connection of a thread makes the buffers that all its connections use.
        for _ in 0..HTTP2_CLIENTS {
            stage.client(&trust).reset();
        }
        let before = settled_memory(&stage.proxy);
        let clients: Vec<Client> = (0..HTTP2_CLIENTS)
            .map(|_| {
                let mut client = stage.client(&trust);
                let streams = (0..STREAMS).flat_map(|stream| request(2 * stream + 1));
                let first = [preface(&[(INITIAL_WINDOW, window)]), wide.clone()].concat();
                client.send(&first.into_iter().chain(streams).collect::<Vec<_>>());
                client
            })
            .collect();
        let each = settled_memory(&stage.proxy).saturating_sub(before) / HTTP2_CLIENTS as u64;
        println!("clients that {what} cost {each} bytes each");
        assert!(each <= HTTP2, "clients that {what} cost {each} bytes each, allowed are {HTTP2}");
        clients.into_iter().for_each(Client::reset);
    }
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
