//! Tests for the number of tickets that a client receives.

use rustls::client::TicketRequest;

use super::*;

/// A pair whose server sends this number of tickets after a full handshake.
fn pair_sending(tickets: u8, version: &'static SupportedProtocolVersion) -> Pair {
    let mut pair = pair(version, true);
    let rotation = TicketSettings { rotate: Duration::from_secs(3600), lifetime: Duration::from_secs(3600) };
    let keys = TicketKeys::random(SystemTime::now(), rotation).unwrap().keys();
    let settings = ServerSettings { tickets_per_handshake: tickets, ..pair.server.settings.clone() };
    pair.server = Server::new(settings, keys).unwrap();
    pair
}

/// Makes one more connection, and returns true if it resumes, with the number of tickets that it receives.
fn connect(pair: &Pair) -> (Option<bool>, u32) {
    let talk = pair.talk("localhost").establish();
    (talk.session.agreed().resumed, talk.client.tls13_tickets_received())
}

#[test]
fn a_full_handshake_gives_the_number_that_is_set_and_a_resumption_gives_one() {
    for tickets in [1, 2, 4] {
        let pair = pair_sending(tickets, &TLS13);
        assert_eq!(connect(&pair), (Some(false), tickets.into()));
        for _ in 0..6 {
            assert_eq!(connect(&pair), (Some(true), 1), "of {tickets}");
        }
    }
    let pair = pair_sending(0, &TLS13);
    assert_eq!([connect(&pair), connect(&pair)], [(Some(false), 0); 2]);
}

/// Two connections at once: neither has the ticket that the other one receives.
#[test]
fn each_ticket_of_a_handshake_is_good() {
    let pair = pair_sending(2, &TLS13);
    assert_eq!(connect(&pair), (Some(false), 2));
    let at_once = [pair.talk("localhost"), pair.talk("localhost"), pair.talk("localhost")];
    let resumed = at_once.map(|talk| talk.establish().session.agreed().resumed);
    assert_eq!(resumed, [Some(true), Some(true), Some(false)]);
}

/// The client was promised nothing by its old ticket: it starts over with as many as any other one.
#[test]
fn a_refused_ticket_is_followed_by_the_tickets_of_a_full_handshake() {
    let pair = pair_sending(2, &TLS13);
    assert_eq!(connect(&pair), (Some(false), 2));
    let rotation = TicketSettings { rotate: Duration::from_secs(3600), lifetime: Duration::from_secs(3600) };
    pair.server.update_keys(TicketKeys::random(SystemTime::now(), rotation).unwrap().keys());
    let talk = pair.talk("localhost").establish();
    assert!(talk.offered);
    assert_eq!((talk.session.agreed().resumed, talk.client.tls13_tickets_received()), (Some(false), 2));
}

#[test]
fn a_client_that_requests_tickets_receives_its_number_up_to_the_one_that_is_set() {
    let mut pair = pair_sending(3, &TLS13);
    let request = TicketRequest { new_session_count: 1, resumption_count: 9 };
    Arc::make_mut(&mut pair.client).send_ticket_request = Some(request);
    assert_eq!(connect(&pair), (Some(false), 1));
    assert_eq!(connect(&pair), (Some(true), 3));
}

#[test]
fn the_number_does_not_matter_to_tls12() {
    let pair = pair_sending(2, &TLS12);
    for resumed in [false, true, true] {
        assert_eq!(connect(&pair).0, Some(resumed));
    }
}

/// Tickets are sent in every handshake, so their size is bounded here.
#[test]
fn two_tickets_take_few_bytes() {
    let pair = pair_sending(2, &TLS13);
    for most in [560, 280] {
        let mut talk = pair.talk("localhost");
        talk.exchange();
        assert!(talk.session.is_established());
        let bytes = talk.outgoing.filled().len();
        assert!((most / 2..=most).contains(&bytes), "{bytes} bytes, at most {most}");
        talk.establish();
    }
}
