//! Every protocol from both ends: whole dialogues, however they are split, and what peers with bad intentions send.

use proptest::prelude::*;

use super::mysql::{Login, TlsSide};
use super::*;

mod answers;
mod hostile;

const LDAP_ASK: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
const XMPP_OPEN: &str = "<?xml version='1.0'?><stream:stream to='im.example' xmlns='jabber:client' \
                         xmlns:stream=\"http://etherx.jabber.org/streams\" version='1.0'>";
const XMPP_ASK: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

/// A greeting of MariaDB's that offers TLS: version 10, its name, a thread, eight bytes, capabilities, the rest.
fn mysql_greeting(lower: u16) -> Vec<u8> {
    let mut payload = b"\x0a11.8.3-MariaDB\0\x07\0\0\0abcdefgh\0".to_vec();
    payload.extend_from_slice(&lower.to_le_bytes());
    payload.extend_from_slice(
        b"\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0mysql_native_password\0",
    );
    [&[payload.len() as u8, 0, 0, 0][..], &payload].concat()
}

/// Returns the client's bytes up to its request for TLS, and the last words of the answer.
fn clients() -> Vec<(Protocol, Vec<u8>, &'static [u8])> {
    let xmpp = format!("{XMPP_OPEN}\n{XMPP_ASK}").into_bytes();
    let long = format!("{XMPP_OPEN}<t:starttls xmlns:t=\"urn:ietf:params:xml:ns:xmpp-tls\" >\n</t:starttls>");
    let search = [&b"\x30\x0c\x02\x01\x01\x63\x07\x04\0\x0a\x01\0\x0a\x01"[..], LDAP_ASK].concat();
    let gss = [&[0, 0, 0, 8, 4, 210, 22, 48], SSL_REQUEST].concat();
    vec![
        (
            Protocol::Smtp,
            b"EHLO a\r\nMAIL FROM:<a>\r\nstarttls\r\n".into(),
            b"220 2.0.0 Ready to start TLS\r\n",
        ),
        (Protocol::Smtp, b"STARTTLS\n".into(), b"220 2.0.0 Ready to start TLS\r\n"),
        (Protocol::Lmtp, b"LHLO a\r\nSTARTTLS\r\n".into(), b"220 2.0.0 Ready to start TLS\r\n"),
        (Protocol::Imap, b"1 LOGIN a b\r\nx.2 STARTTLS\r\n".into(), b"x.2 OK Begin TLS negotiation now\r\n"),
        (Protocol::Pop3, b"CAPA\r\nUSER a\r\nSTLS\r\n".into(), b"+OK Begin TLS negotiation\r\n"),
        (Protocol::Nntp, b"CAPABILITIES\r\nSTARTTLS\r\n".into(), b"382 Continue with TLS negotiation\r\n"),
        (Protocol::Ldap, LDAP_ASK.into(), b"1.3.6.1.4.1.1466.20037"),
        (Protocol::Ldap, search, b"1.3.6.1.4.1.1466.20037"),
        (Protocol::PostgreSql, SSL_REQUEST.into(), b"S"),
        (Protocol::PostgreSql, gss, b"NS"),
        (Protocol::Xmpp, xmpp.clone(), b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"),
        (Protocol::Xmpp, long.into(), b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"),
        (Protocol::XmppServer, xmpp, b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"),
    ]
}

/// A protocol, the messages of its server in turn up to its acceptance, and the client's last request.
type Scene = (Protocol, Vec<Vec<u8>>, &'static [u8]);

/// Returns the server's messages in turn up to its acceptance, and the client's last request.
fn servers() -> Vec<Scene> {
    let turns = |turns: &[&[u8]]| turns.iter().map(|turn| turn.to_vec()).collect::<Vec<_>>();
    let features = format!(
        "{XMPP_OPEN}<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>\
         <mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms></stream:features>"
    );
    let xmpp = turns(&[features.as_bytes(), b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"]);
    let smtp =
        turns(&[b"220-a\r\n220 b\r\n", b"250-a\r\n250-SIZE 1\r\n250-STARTTLS\r\n250 X\r\n", b"220 go\r\n"]);
    let ldap = b"\x30\x24\x02\x01\x01\x78\x1f\x0a\x01\0\x04\0\x04\0\x8a\x161.3.6.1.4.1.1466.20037";
    vec![
        (Protocol::Smtp, smtp.clone(), b"STARTTLS\r\n"),
        (Protocol::Lmtp, smtp, b"STARTTLS\r\n"),
        (
            Protocol::Imap,
            turns(&[b"* OK [CAPABILITY IMAP4rev1] hi\r\n", b"* CAPABILITY X\r\na1 OK go\r\n"]),
            b"a1 STARTTLS\r\n",
        ),
        (Protocol::Pop3, turns(&[b"+OK hi <1@a>\r\n", b"+OK\r\n"]), b"STLS\r\n"),
        (Protocol::Nntp, turns(&[b"201 hi\r\n", b"382 go\r\n"]), b"STARTTLS\r\n"),
        (Protocol::Ldap, turns(&[ldap]), LDAP_ASK),
        (Protocol::PostgreSql, turns(&[b"S"]), SSL_REQUEST),
        (Protocol::Xmpp, xmpp.clone(), XMPP_ASK.as_bytes()),
        (Protocol::XmppServer, xmpp, XMPP_ASK.as_bytes()),
    ]
}

fn serve(protocol: Protocol, pieces: &[&[u8]]) -> (Result<Progress, Problem>, Vec<u8>) {
    let (mut server, mut answer) = (Server::new(protocol, "mail.example"), Vec::new());
    server.begin(&mut answer);
    for (at, piece) in pieces.iter().enumerate() {
        let outcome = server.take(piece, &mut answer);
        if outcome != Ok(Progress::More) {
            assert_eq!(at + 1, pieces.len(), "{protocol}: {outcome:?} before the last piece");
            return (outcome, answer);
        }
    }
    (Ok(Progress::More), answer)
}

fn run_client(protocol: Protocol, turns: &[Vec<u8>]) -> (Result<Progress, Problem>, Vec<u8>) {
    let (mut client, mut words) = (Client::new(protocol, "im.example"), Vec::new());
    client.begin(&mut words);
    let mut outcome = Ok(Progress::More);
    for turn in turns {
        outcome = client.take(turn, &mut words);
        if outcome != Ok(Progress::More) {
            break;
        }
    }
    (outcome, words)
}

#[test]
fn every_protocol_comes_to_tls_as_a_server_however_it_is_split() {
    for (protocol, sent, last) in clients() {
        let (whole, answer) = serve(protocol, &[&sent]);
        assert_eq!(whole, Ok(Progress::Ready), "{protocol}");
        assert!(answer.ends_with(last), "{protocol}: {}", String::from_utf8_lossy(&answer));
        for at in 1..sent.len() {
            let parts = serve(protocol, &[&sent[..at], &sent[at..]]);
            assert_eq!(parts, (Ok(Progress::Ready), answer.clone()), "{protocol} at {at}");
        }
        let bytes: Vec<&[u8]> = sent.chunks(1).collect();
        assert_eq!(serve(protocol, &bytes), (Ok(Progress::Ready), answer), "{protocol} by bytes");
    }
}

#[test]
fn every_protocol_comes_to_tls_as_a_client_however_it_is_split() {
    for (protocol, turns, last) in servers() {
        let (whole, words) = run_client(protocol, &turns);
        assert_eq!(whole, Ok(Progress::Ready), "{protocol}");
        assert!(words.ends_with(last), "{protocol}: {}", String::from_utf8_lossy(&words));
        let bytes: Vec<Vec<u8>> = turns.concat().chunks(1).map(<[u8]>::to_vec).collect();
        assert_eq!(run_client(protocol, &bytes), (Ok(Progress::Ready), words), "{protocol} by bytes");
    }
}

/// Our own two ends understand each other.
#[test]
fn the_two_ends_meet() {
    for protocol in Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::MySql) {
        let (mut server, mut client) =
            (Server::new(protocol, "a.example"), Client::new(protocol, "b.example"));
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        server.begin(&mut to_client);
        client.begin(&mut to_server);
        let mut agreed = false;
        for _ in 0..8 {
            if !to_server.is_empty() {
                let from_client = std::mem::take(&mut to_server);
                let outcome = server.take(&from_client, &mut to_client).expect("a request it knows");
                agreed = outcome == Progress::Ready;
            }
            let from_server = std::mem::take(&mut to_client);
            if client.take(&from_server, &mut to_server).expect("an answer it knows") == Progress::Ready {
                assert!(agreed && to_server.is_empty(), "{protocol}");
                break;
            }
            agreed = false;
        }
        assert!(agreed, "{protocol}");
    }
}

#[test]
fn tls_at_once_is_for_protocols_whose_client_speaks_first() {
    let hello = [22, 3, 1, 0, 200, 1, 0, 0];
    for protocol in Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::MySql) {
        let mut server = Server::new(protocol, "a");
        let outcome = server.take(&hello, &mut Vec::new());
        if protocol.server_speaks_first() {
            assert_eq!(outcome, Err(Problem::TlsAtOnce), "{protocol}");
        } else {
            assert_eq!(outcome, Ok(Progress::Direct), "{protocol}");
            assert_eq!(server.into_received(), hello, "nothing of the hello is lost");
        }
    }
    // Behind a word in plain text it is no beginning any more.
    let (outcome, _) = serve(Protocol::PostgreSql, &[&[0, 0, 0, 8, 4, 210, 22, 48], &hello]);
    assert!(matches!(outcome, Err(Problem::Unexpected { .. })), "{outcome:?}");
}

#[test]
fn refusals_are_in_the_protocols_own_words() {
    let problem_of = |protocol, bytes: &[u8]| {
        let (outcome, answer) = serve(protocol, &[bytes]);
        (outcome, String::from_utf8_lossy(&answer).into_owned())
    };
    for (protocol, command, words) in [
        (Protocol::Smtp, &b"AUTH PLAIN x\r\n"[..], "530 5.7.0 "),
        (Protocol::Smtp, b"STARTTLS now\r\n", "501 5.5.4 "),
        (Protocol::Lmtp, b"EHLO a\r\n", "500 5.5.1 "),
        (Protocol::Imap, b"a LOGIN b c\r\n", "a NO [PRIVACYREQUIRED] "),
        (Protocol::Imap, b"\xff\xfe\r\n", "* BAD "),
        (Protocol::Pop3, b"USER a\r\n", "-ERR STLS first"),
        (Protocol::Nntp, b"GROUP a\r\n", "483 "),
        // A simple bind: result code 13 in a bind response with the request's number.
        (
            Protocol::Ldap,
            b"\x30\x0c\x02\x01\x05\x60\x07\x02\x01\x03\x04\0\x80\0",
            "\x02\x01\x05\x61\x15\x0a\x01\x0d",
        ),
    ] {
        let (outcome, answer) = problem_of(protocol, command);
        assert_eq!(outcome, Ok(Progress::More), "{protocol} {command:?}");
        assert!(answer.contains(words), "{protocol}: {answer:?}");
    }
    let startup = [&[0, 0, 0, 16, 0, 3, 0, 0][..], b"user\0a\0\0"].concat();
    let (outcome, answer) = problem_of(Protocol::PostgreSql, &startup[..16.min(startup.len())]);
    assert!(matches!(outcome, Err(Problem::Insisted { .. })), "{outcome:?}");
    assert!(answer.starts_with('E') && answer.contains("C28000"), "{answer:?}");
    let (outcome, answer) = problem_of(Protocol::Xmpp, format!("{XMPP_OPEN}<auth/>").as_bytes());
    assert!(matches!(outcome, Err(Problem::Insisted { .. })), "{outcome:?}");
    assert!(answer.contains("policy-violation") && answer.ends_with("</stream:stream>"), "{answer:?}");
    assert!(answer.contains("from='im.example'"), "{answer:?}");
    for (protocol, bye) in
        [(Protocol::Smtp, "QUIT\r\n"), (Protocol::Imap, "a LOGOUT\r\n"), (Protocol::Pop3, "QUIT\r\n")]
    {
        assert!(matches!(problem_of(protocol, bye.as_bytes()).0, Err(Problem::Left { .. })), "{protocol}");
    }
}

#[test]
fn a_server_that_refuses_is_understood() {
    let of = |protocol, turns: &[&[u8]]| {
        let turns: Vec<Vec<u8>> = turns.iter().map(|turn| turn.to_vec()).collect();
        run_client(protocol, &turns).0.expect_err("a no")
    };
    let not_offered = Problem::NotOffered;
    assert_eq!(of(Protocol::Smtp, &[b"220 a\r\n", b"250-a\r\n250 SIZE\r\n"]), not_offered);
    assert_eq!(of(Protocol::PostgreSql, &[b"N"]), not_offered);
    let features = format!("{XMPP_OPEN}<stream:features><bind/></stream:features>");
    assert_eq!(of(Protocol::Xmpp, &[features.as_bytes()]), not_offered);
    let header = XMPP_OPEN.as_bytes();
    let error = "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>";
    for turns in [vec![header, error.as_bytes()], vec![header, b"<stream:error>", &error.as_bytes()[14..]]] {
        let condition = Problem::Refused { message: "stream error host-unknown".into() };
        assert_eq!(of(Protocol::Xmpp, &turns), condition, "the condition, not the element around it");
    }
    let condition = Problem::Refused { message: "stream error policy-violation".into() };
    let features = &servers()[7].1[0];
    assert_eq!(
        of(Protocol::Xmpp, &[features, error.replace("host-unknown", "policy-violation").as_bytes()]),
        condition
    );
    assert_eq!(of(Protocol::MySql, &[&mysql_greeting(0xf7fe)]), not_offered);
    let refused = b"\x30\x0d\x02\x01\x01\x78\x08\x0a\x01\x35\x04\0\x04\x01x";
    for (protocol, turns) in [
        (Protocol::Smtp, vec![&b"554 no\r\n"[..]]),
        (Protocol::Smtp, vec![b"220 a\r\n", b"250 STARTTLS\r\n", b"454 later\r\n"]),
        (Protocol::Imap, vec![b"* PREAUTH come in\r\n"]),
        (Protocol::Imap, vec![b"* OK\r\n", b"a1 BAD no\r\n"]),
        (Protocol::Pop3, vec![b"+OK\r\n", b"-ERR\r\n"]),
        (Protocol::Nntp, vec![b"200 a\r\n", b"580 no\r\n"]),
        (Protocol::Ldap, vec![refused]),
        (Protocol::MySql, vec![b"\x0a\0\0\0\xff\x10\x04Too man"]),
    ] {
        let problem = of(protocol, &turns);
        assert!(matches!(problem, Problem::Refused { .. }), "{protocol}: {problem:?}");
    }
    // An error message in plain text is not authenticated.
    assert!(matches!(of(Protocol::PostgreSql, &[b"Eabc"]), Problem::Unexpected { .. }));
}

#[test]
fn what_is_neither_yes_nor_no_is_reported_with_what_was_expected() {
    fn expected<T: std::fmt::Debug>(outcome: Result<T, Problem>) -> &'static str {
        match outcome {
            Err(Problem::Unexpected { expected, .. }) => expected,
            other => panic!("{other:?}"),
        }
    }
    let of = |protocol, turns: &[&[u8]]| {
        let turns: Vec<Vec<u8>> = turns.iter().map(|turn| turn.to_vec()).collect();
        expected(run_client(protocol, &turns).0)
    };
    assert_eq!(of(Protocol::Imap, &[b"hello\r\n"]), "* OK");
    assert_eq!(of(Protocol::Imap, &[b"a1 OK hello\r\n"]), "* OK", "nobody was asked yet");
    assert_eq!(of(Protocol::Imap, &[b"* CAPABILITY X\r\n"]), "* OK");
    assert_eq!(of(Protocol::Imap, &[b"* OK\r\n", b"a2 OK go\r\n"]), "a1 OK");
    assert_eq!(of(Protocol::Pop3, &[b"OK\r\n"]), "+OK or -ERR");

    let greeted = |protocol, line: &[u8]| Greeting::new(protocol).expect("it greets").take(line);
    for line in [&b"OK\r\n"[..], b"220 a\r\n", b"a-b-c\r\n"] {
        assert_eq!(expected(greeted(Protocol::Pop3, line)), "+OK");
    }
    assert_eq!(expected(greeted(Protocol::Imap, b"* NO\r\n")), "* OK");
    for (protocol, line) in [(Protocol::Pop3, &b"-ERR full\r\n"[..]), (Protocol::Imap, b"* BYE full\r\n")] {
        let outcome = greeted(protocol, line);
        assert!(matches!(&outcome, Ok(Greeted::Refused { words, .. }) if words == line), "{outcome:?}");
    }
}

#[test]
fn only_more_goes_on() {
    let go_on = [Progress::More, Progress::Ready, Progress::Direct].map(Progress::is_more);
    assert_eq!(go_on, [true, false, false]);
}

#[test]
fn a_second_greeting_is_one_and_does_not_describe_tls() {
    for protocol in Protocol::ALL {
        let words = second_greeting(protocol, "a.example");
        let Some(mut greeting) = Greeting::new(protocol) else {
            assert!(words.is_empty(), "{protocol}");
            continue;
        };
        assert_eq!(greeting.take(&words), Ok(Greeted::Ready(Vec::new())), "{protocol}");
        let words = String::from_utf8_lossy(&words);
        assert!(words.contains("a.example") && !words.contains("STARTTLS"), "{words}");
    }
}

#[test]
fn a_greeting_is_taken_and_what_follows_it_is_kept() {
    for (protocol, greeting) in [
        (Protocol::Smtp, &b"220-a\r\n220 b\r\n"[..]),
        (Protocol::Lmtp, b"220 a\r\n"),
        (Protocol::Imap, b"* OK a\r\n"),
        (Protocol::Pop3, b"+OK a\r\n"),
        (Protocol::Nntp, b"200 a\r\n"),
    ] {
        let both = [greeting, b"more"].concat();
        for at in 0..greeting.len() {
            let mut machine = Greeting::new(protocol).expect("it greets");
            assert_eq!(machine.take(&both[..at]), Ok(Greeted::More), "{protocol} at {at}");
            assert_eq!(machine.take(&both[at..]), Ok(Greeted::Ready(b"more".into())), "{protocol} at {at}");
        }
    }
    let mut machine = Greeting::new(Protocol::Smtp).expect("it greets");
    let refused = machine.take(b"554-no\r\n554 never\r\n").expect("a greeting");
    assert!(matches!(refused, Greeted::Refused { words, .. } if words == b"554-no\r\n554 never\r\n"));
    let mut machine = Greeting::new(Protocol::Imap).expect("it greets");
    assert!(machine.take(b"* PREAUTH in\r\n").is_err(), "nobody has been let in");
    for protocol in [Protocol::Ldap, Protocol::PostgreSql, Protocol::Xmpp, Protocol::MySql] {
        assert!(Greeting::new(protocol).is_none(), "{protocol}");
    }
}

#[test]
fn a_tunnel_stands_and_keeps_what_the_server_says_first() {
    let credentials = || Credentials::new("aladdin", "open sesame");
    let mut tunnel = Tunnel::http("2001:db8::1", 25, credentials()).expect("an address");
    let mut words = Vec::new();
    tunnel.begin(&mut words);
    let request = "CONNECT [2001:db8::1]:25 HTTP/1.1\r\nHost: [2001:db8::1]:25\r\n\
                   Proxy-Authorization: Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&words), request);
    let reply = b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n220 hi\r\n";
    assert_eq!(tunnel.take(reply, &mut words), Ok(Progress::Ready));
    assert_eq!(tunnel.into_received(), b"220 hi\r\n");

    let mut tunnel = Tunnel::socks5("a.example", 5432, credentials()).expect("a name");
    let mut words = Vec::new();
    tunnel.begin(&mut words);
    for (reply, expected) in [
        (&[5, 2][..], &b"\x01\x07aladdin\x0bopen sesame"[..]),
        (&[1, 0], b"\x05\x01\0\x03\x09a.example\x15\x38"),
    ] {
        words.clear();
        assert_eq!(tunnel.take(reply, &mut words), Ok(Progress::More));
        assert_eq!(words, expected);
    }
    assert_eq!(tunnel.take(&[5, 0, 0, 3, 1, b'x', 0, 0, b'!'], &mut words), Ok(Progress::Ready));
    assert_eq!(tunnel.into_received(), b"!");
}

#[test]
fn a_tunnel_that_is_refused_reports_the_reason() {
    let http = |reply: &[u8]| {
        let mut tunnel = Tunnel::http("a", 1, None).expect("a name");
        tunnel.take(reply, &mut Vec::new()).map_err(|problem| problem.to_string())
    };
    assert_eq!(http(b"HTTP/1.1 407 Who are you\r\n\r\n"), Err("it said HTTP/1.1 407 Who are you".into()));
    assert!(http(b"SSH-2.0-x\r\n").is_err(), "it is no HTTP proxy");
    let socks = |reply: &[&[u8]]| {
        let mut tunnel = Tunnel::socks5("a", 1, None).expect("a name");
        reply.iter().map(|reply| tunnel.take(reply, &mut Vec::new())).find(Result::is_err)
    };
    assert_eq!(
        socks(&[&[5, 0], &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]]).map(|e| e.unwrap_err().to_string()),
        Some("it said connection refused (reply 5)".into())
    );
    assert!(socks(&[&[5, 2]]).is_some(), "a password was not offered");
    assert!(socks(&[&[5, 0xff]]).is_some());
    assert!(Tunnel::http("a\r\nHost: b", 1, None).is_none(), "no line of ours is ended by a name");
    assert!(Credentials::new("a:b", "c").is_none() && Credentials::new("a", "b\n").is_none());
}

/// A login of 36 payload bytes with these capabilities and this number.
fn mysql_packet(number: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[number], payload].concat()
}

#[test]
fn mysqls_greeting_is_passed_on_and_its_request_read() {
    let bytes = mysql_greeting(0xfffe);
    for at in 0..bytes.len() {
        assert_eq!(mysql::greeting(&bytes[..at]), Ok(None), "at {at}");
    }
    let greeting = mysql::greeting(&bytes).expect("a greeting").expect("whole");
    assert!(greeting.offers_tls());
    assert_eq!(greeting.packet(true), bytes, "with TLS it is as it came");
    let plain = mysql::greeting(&greeting.packet(false)).expect("a greeting").expect("whole");
    assert!(!plain.offers_tls());
    assert_eq!(plain.packet(true), bytes);
    assert!(mysql::greeting(&[&bytes[..], b"x"].concat()).is_err(), "it is the client's turn");

    let mut answer = Vec::new();
    let (_, words) = run_client(Protocol::MySql, &[bytes]);
    let request = |received: &[u8]| mysql::Request { packet: words.clone(), received: received.into() };
    assert_eq!(mysql::Greeting::request(&words, &mut answer), Ok(Some(request(b""))));
    // MariaDB's client sends both at once, as no answer comes between them.
    let hello = [&words[..], &[22, 3, 1]].concat();
    assert_eq!(mysql::Greeting::request(&hello, &mut answer), Ok(Some(request(&[22, 3, 1]))));
    assert_eq!(mysql::Greeting::request(&words[..20], &mut answer), Ok(None));
    let injected = mysql::Greeting::request(&[&words[..], b"xy"].concat(), &mut answer);
    assert_eq!(injected, Err(Problem::Injected { count: 2 }));
    assert!(answer.is_empty());
    let login = mysql_packet(1, &[&0x0200_u32.to_le_bytes()[..], &[0; 40]].concat());
    assert!(matches!(mysql::Greeting::request(&login, &mut answer), Err(Problem::Insisted { .. })));
    assert_eq!(&answer[3..7], [2, 0xff, 0x57, 0x0c], "error 3159 in the packet after the client's");
    assert_eq!(mysql::Greeting::request(&[22, 3, 1, 1, 0], &mut answer), Err(Problem::TlsAtOnce));
}

#[test]
fn a_mysql_login_keeps_its_numbers_on_both_sides() {
    let login = |ssl: u32, number| {
        mysql_packet(number, &[&(0x0200 | ssl).to_le_bytes()[..], &[7; 28], b"user\0"].concat())
    };
    for (side, first, sent) in
        [(TlsSide::Client, login(0x800, 2), login(0, 1)), (TlsSide::Backend, login(0, 1), login(0x800, 2))]
    {
        let mut carried = Login::new(side);
        let (mut to_backend, mut to_client) = (Vec::new(), Vec::new());
        for byte in first.chunks(1) {
            carried.carry_client(byte, &mut to_backend).expect("a login");
        }
        assert_eq!(to_backend, sent, "{side:?}");
        let step = if side == TlsSide::Client { 1 } else { -1_i8 };
        let more = mysql_packet(3, b"\x01\x04");
        carried.carry_backend(&more, &mut to_client).expect("a question");
        assert_eq!(to_client, mysql_packet(3_u8.wrapping_add_signed(step), b"\x01\x04"));
        assert!(!carried.is_decided());
        to_client.clear();
        let end = [mysql_packet(5, b"\0\0\0"), mysql_packet(0, b"\0")].concat();
        carried.carry_backend(&end, &mut to_client).expect("an OK");
        let passed =
            [mysql_packet(5_u8.wrapping_add_signed(step), b"\0\0\0"), mysql_packet(0, b"\0")].concat();
        assert_eq!(to_client, passed, "what follows the decision is as it came");
        assert!(carried.is_decided());
    }
    let mut asking = Login::new(TlsSide::Backend);
    asking.receive_client(&login(0, 1)).expect("a login");
    let request = asking.request().expect("whole");
    assert_eq!((request.len(), &request[..8]), (36, &[32, 0, 0, 1, 0, 0x0a, 0, 0][..]));
}
