//! A client that sends its first request in a separate segment, with Nagle's algorithm on, waits for no delayed acknowledgement: its last flight
//! is acknowledged at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use handfast_testkit::client::dial;
use handfast_testkit::connection::Connection;

use super::support::folder::Folder;
use super::support::*;

/// The kernel delays acknowledgements by 40 ms, and tickets wait 5 ms for something to travel with.
const DELAYED: Duration = Duration::from_millis(4);

/// The middle of several, since a machine may be busy.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// From the end of the handshake to the first byte that comes back.
fn first_answer(proxy: &Proxy, config: &Arc<rustls::ClientConfig>, request: &[u8]) -> Duration {
    let stream = dial(proxy.address()).expect("it listens");
    stream.set_nodelay(false).expect("an open socket takes the option");
    let mut client = Connection::connect(stream, config, "localhost").expect("a handshake");
    let begun = Instant::now();
    client.try_send(request).expect("it is open");
    client.try_read_exactly(1).expect("an answer");
    begun.elapsed()
}

mod timed {
    use super::*;

    #[test]
    fn in_both_modes_and_with_and_without_tickets() {
        for (mode, request) in [("tcp", &b"x"[..]), ("http", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")] {
            let backend = match mode {
                "tcp" => Backend::echo(),
                _ => Backend::start(|peer| {
                    while peer.head().is_some() {
                        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                }),
            };
            for tickets in [0, 2] {
                let folder = Folder::new();
                let config = Config::to(&folder, backend.address).text("service", "mode", mode).set(
                    "tickets",
                    "per-handshake",
                    tickets,
                );
                let proxy = Proxy::start(config);
                let trust = Trust::version(Version::Tls13).forgetful().config();
                let took = median((0..21).map(|_| first_answer(&proxy, &trust, request)).collect());
                assert!(took < DELAYED, "{mode}, {tickets} tickets: {took:?}");
            }
        }
    }
}
