//! Tests for the number and the size of kept tickets.

use super::*;

/// Gives tickets of one size, which resume nothing.
#[derive(Debug)]
struct Tickets(usize);

impl rustls::server::ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3_600
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        Some(vec![7; self.0])
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn the_pool_is_bounded() {
    for (keeps_many_tickets, kept) in [(false, tickets::MIN_TICKETS_PER_THREAD), (true, tickets::LIMIT)] {
        let client = client(&ClientSettings { keeps_many_tickets, ..settings(&["1.3"]) });
        let mut config = server(&authority());
        config.send_tls13_tickets = 100;
        for _ in 0..50 {
            talk(&client, &config, false).establish();
        }
        assert_eq!(client.tickets(), kept);
    }
}

/// Counted: of the connections of two threads, the first one alone shakes hands in full.
#[test]
fn threads_resume_each_others_sessions() {
    for version in ["1.2", "1.3"] {
        let (client, authority) = (client(&settings(&[version])), authority());
        let config = server(&authority);
        let resumed = |client: &Client| talk(client, &config, true).establish().session.agreed().resumed;
        assert_eq!(resumed(&client), Some(false));
        let other = client.for_another_thread();
        let there = std::thread::scope(|scope| {
            let mut builder = std::thread::Builder::new().name("another".to_owned());
            builder = builder.stack_size(1 << 20);
            let run = || (0..3).map(|_| resumed(&other)).collect::<Vec<_>>();
            builder.spawn_scoped(scope, run).unwrap().join().unwrap()
        });
        assert_eq!(there, [Some(true); 3], "{version}");
        assert_eq!(resumed(&client), Some(true), "{version}: and back");
        // Another policy has another pool.
        let stricter = ClientSettings {
            verification: Verification::Roots(authority.pem().into_bytes()),
            alpn: vec!["imap".into()],
            ..settings(&[version])
        };
        assert_eq!(self::client(&stricter).tickets(), 0);
    }
}

#[test]
fn a_pool_of_several_threads_is_larger_and_has_a_bound() {
    let client = client(&settings(&["1.3"]));
    let others: Vec<_> = (0..3).map(|_| client.for_another_thread()).collect();
    let mut config = server(&authority());
    config.send_tls13_tickets = 100;
    talk(&client, &config, false).establish();
    assert_eq!(client.tickets(), 4 * tickets::MIN_TICKETS_PER_THREAD);
    drop(others);
    talk(&client, &config, false).establish();
    assert_eq!(client.tickets(), tickets::MIN_TICKETS_PER_THREAD);
}

/// A thread that is suspended while it has the tickets costs the others a full handshake, and no time.
#[test]
fn no_connection_waits_for_the_tickets() {
    let client = client(&settings(&["1.3"]));
    let config = server(&authority());
    talk(&client, &config, false).establish();
    let (before, resumed) = (client.tickets(), client.pool.held(|| talk(&client, &config, true).establish()));
    assert_eq!(resumed.session.agreed().resumed, Some(false));
    assert_eq!(client.tickets(), before, "none was taken, and none was kept");
    assert_eq!(talk(&client, &config, true).establish().session.agreed().resumed, Some(true));
}

#[test]
fn tickets_have_a_bound_in_bytes_together() {
    let client = client(&settings(&["1.3"]));
    let mut config = server(&authority());
    config.send_tls13_tickets = 3;
    let size = tickets::TICKET_BYTES - 100;
    config.ticketer = Arc::new(Tickets(size));
    let first = talk(&client, &config, false).establish();
    let certificates = first.session.chain().map(<[u8]>::len).sum::<usize>();
    assert!(certificates > 0);
    assert_eq!((client.tickets(), client.pool.bytes()), (3, 3 * (size + certificates)));
    for _ in 0..3 {
        talk(&client, &config, false).establish();
    }
    let most = tickets::TICKET_BYTES_PER_THREAD / (size + certificates);
    assert_eq!((client.tickets(), client.pool.bytes()), (most, most * (size + certificates)));
    // Taken tickets no longer count.
    let pending: Vec<_> = (0..most).map(|_| talk(&client, &config, true)).collect();
    assert!(pending.iter().all(|talk| talk.session.offered_ticket()));
    assert_eq!((client.tickets(), client.pool.bytes()), (0, 0));
    config.ticketer = Arc::new(Tickets(200));
    for _ in 0..3 {
        talk(&client, &config, false).establish();
    }
    assert_eq!((client.tickets(), client.pool.bytes()), (8, 8 * (200 + certificates)));
}

#[test]
fn an_oversized_ticket_is_not_kept() {
    for version in ["1.2", "1.3"] {
        for (size, is_kept) in
            [(tickets::TICKET_BYTES, true), (tickets::TICKET_BYTES + 1, false), (60_000, false)]
        {
            let client = client(&settings(&[version]));
            let mut config = server(&authority());
            config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
            config.ticketer = Arc::new(Tickets(size));
            let first = talk(&client, &config, false).establish();
            assert!(first.session.tickets_received() > 0, "TLS {version}, {size} bytes");
            assert_eq!(client.tickets() > 0, is_kept, "TLS {version}, {size} bytes");
        }
    }
}
