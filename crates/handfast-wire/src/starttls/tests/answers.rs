//! Single answers, word for word, and the limits between what is taken and what is not.

use super::*;

/// The first word of the server's answer to this, without its greeting; and how it went on.
fn answered(protocol: Protocol, bytes: &[u8]) -> (Result<Progress, Problem>, Vec<u8>) {
    let mut server = Server::new(protocol, "mail.example");
    let mut answer = Vec::new();
    let outcome = server.take(bytes, &mut answer);
    (outcome, answer)
}

#[test]
fn every_command_has_its_answer() {
    const CAPABLE: &str = "250-mail.example\r\n250-ENHANCEDSTATUSCODES\r\n250 STARTTLS\r\n";
    const SYNTAX: &str = "501 5.5.4 Syntax error in parameters\r\n";
    const UNKNOWN: &str = "500 5.5.1 Command not recognized\r\n";
    const DONE: &str = "250 2.0.0 Ok\r\n";
    const FIRST: &str = "530 5.7.0 Must issue a STARTTLS command first\r\n";
    const IMAP: &str = "* CAPABILITY IMAP4rev1 STARTTLS LOGINDISABLED\r\na OK CAPABILITY completed\r\n";
    for (protocol, bytes, expected) in [
        (Protocol::Smtp, "EHLO a\r\n", CAPABLE),
        (Protocol::Smtp, "helo a\r\n", "250 mail.example\r\n"),
        (Protocol::Smtp, "LHLO a\r\n", UNKNOWN),
        (Protocol::Smtp, "EHLO\r\n", SYNTAX),
        (Protocol::Smtp, "HELO  \r\n", SYNTAX),
        (Protocol::Smtp, "NOOP x\r\n", DONE),
        (Protocol::Smtp, "RSET\r\n", DONE),
        (Protocol::Smtp, "QUIT now\r\n", FIRST),
        (Protocol::Lmtp, "LHLO a\r\n", CAPABLE),
        (Protocol::Lmtp, "EHLO a\r\n", UNKNOWN),
        (Protocol::Lmtp, "HELO a\r\n", UNKNOWN),
        (Protocol::Lmtp, "LHLO\r\n", SYNTAX),
        (Protocol::Imap, "a CAPABILITY\r\n", IMAP),
        (Protocol::Imap, "a NOOP\r\n", "a OK NOOP completed\r\n"),
        (Protocol::Imap, "a NOOP x\r\n", "a BAD no parameters allowed\r\n"),
        (Protocol::Imap, "a STARTTLS x\r\n", "a BAD no parameters allowed\r\n"),
        (Protocol::Imap, "a* NOOP\r\n", "* BAD a command has a tag and a name\r\n"),
        (Protocol::Imap, "NOOP\r\n", "* BAD a command has a tag and a name\r\n"),
        (Protocol::Pop3, "CAPA\r\n", "+OK Capability list follows\r\nSTLS\r\n.\r\n"),
        (Protocol::Pop3, "STLS x\r\n", "-ERR no parameters allowed\r\n"),
        (Protocol::Pop3, "CAPA x\r\n", "-ERR STLS first\r\n"),
        (Protocol::Nntp, "CAPABILITIES x\r\n", "101 Capability list:\r\nVERSION 2\r\nSTARTTLS\r\n.\r\n"),
        (Protocol::Nntp, "STARTTLS x\r\n", "501 No parameters allowed\r\n"),
        (Protocol::Nntp, "QUIT x\r\n", "483 Encryption required: STARTTLS first\r\n"),
    ] {
        let (outcome, answer) = answered(protocol, bytes.as_bytes());
        assert_eq!(
            (outcome, String::from_utf8_lossy(&answer).as_ref()),
            (Ok(Progress::More), expected),
            "{bytes}"
        );
    }
    assert_eq!(answered(Protocol::Smtp, b"STARTTLS \r\n").0, Ok(Progress::Ready), "blanks are no parameter");
    let (outcome, answer) = answered(Protocol::Nntp, b"QUIT\r\n");
    assert_eq!(outcome, Err(Problem::Left { message: "QUIT".into() }));
    assert_eq!(answer, b"205 closing connection\r\n");
    for (length, expected) in [(64, "OK"), (65, "BAD")] {
        let (_, answer) = answered(Protocol::Imap, format!("{} NOOP\r\n", "t".repeat(length)).as_bytes());
        assert!(String::from_utf8_lossy(&answer).contains(expected), "a tag of {length} characters");
    }
}

#[test]
fn protocols_have_a_word_and_a_name() {
    let words = "smtp lmtp imap pop3 nntp ldap postgresql mysql xmpp xmpp-server";
    assert_eq!(Protocol::ALL.map(Protocol::name).join(" "), words);
    for (protocol, word) in Protocol::ALL.into_iter().zip(words.split(' ')) {
        assert_eq!(Protocol::named(word), Some(protocol));
    }
    assert_eq!(Protocol::named("SMTP"), None);
    let names = Protocol::ALL.map(|protocol| protocol.to_string()).join(", ");
    assert_eq!(names, "SMTP, LMTP, IMAP, POP3, NNTP, LDAP, PostgreSQL, MySQL, XMPP, XMPP between servers");
}

#[test]
fn a_dialogue_may_be_as_long_as_its_limit() {
    let (mut server, mut answer) = (Server::new(Protocol::Smtp, "a"), Vec::new());
    let line = [&b"NOOP "[..], &[b'x'; 1_017], b"\r\n"].concat();
    for _ in 0..BYTE_LIMIT / line.len() {
        assert_eq!(server.take(&line, &mut answer), Ok(Progress::More));
    }
    assert_eq!(server.take(b"N", &mut answer), Err(Problem::TooMuch));
}

#[test]
fn a_postgresql_client_that_wants_something_else_is_distinguished() {
    let cancel = [&[0, 0, 0, 16, 4, 210, 22, 46][..], &[0; 8]].concat();
    for at in 0..cancel.len() {
        let (mut server, mut answer) = (Server::new(Protocol::PostgreSql, "a"), Vec::new());
        assert_eq!(server.take(&cancel[..at], &mut answer), Ok(Progress::More), "{at} bytes of it");
        assert_eq!(server.take(&cancel[at..], &mut answer), Ok(Progress::Cancel), "behind {at} bytes");
        assert_eq!((server.into_received(), answer), (cancel.clone(), Vec::new()), "it has no answer");
    }
    let (outcome, _) = answered(Protocol::PostgreSql, &[&cancel[..], b"x"].concat());
    assert_eq!(outcome, Err(Problem::Injected { count: 1 }), "nothing comes behind it");
    for (length, is_one) in [(15, false), (16, true), (268, true), (269, false)] {
        let mut other = cancel.clone();
        other.resize(usize::from(length), 7);
        other[2..4].copy_from_slice(&u16::to_be_bytes(length));
        let (outcome, _) = answered(Protocol::PostgreSql, &other);
        assert_eq!(outcome == Ok(Progress::Cancel), is_one, "a key of {} bytes", length - 12);
    }
    let (outcome, answer) = answered(Protocol::PostgreSql, &[0, 0, 0, 8, 0, 2, 0, 0]);
    assert!(matches!(outcome, Err(Problem::Unexpected { .. })) && answer.is_empty(), "version 2");
    let (_, answer) = answered(Protocol::PostgreSql, &[0, 0, 0, 9, 0, 3, 0, 0, 0]);
    let length = u32::from_be_bytes([answer[1], answer[2], answer[3], answer[4]]);
    assert_eq!(length as usize, answer.len() - 1, "the length of an error counts itself");
}

#[test]
fn ldap_is_read_and_answered_byte_for_byte() {
    // The same request with lengths of one and of three digits.
    let (head, rest) = LDAP_ASK.split_at(2);
    for digits in [&[0x81][..], &[0x83, 0, 0]] {
        let long = [&head[..1], digits, &head[1..], rest].concat();
        assert_eq!(answered(Protocol::Ldap, &long).0, Ok(Progress::Ready), "{digits:?}");
    }
    let outcome_of = |bytes: &[u8]| answered(Protocol::Ldap, bytes);
    let (outcome, _) = outcome_of(b"\x30\x05\x02\x01\x05\x42\0");
    assert_eq!(outcome, Err(Problem::Left { message: "an unbind request".into() }));
    // Delete: response 0x6b, confidentialityRequired.
    let (outcome, answer) = outcome_of(b"\x30\x06\x02\x01\x05\x4a\x01x");
    assert_eq!(outcome, Ok(Progress::More));
    assert_eq!(answer, b"\x30\x1a\x02\x01\x05\x6b\x15\x0a\x01\x0d\x04\0\x04\x0eStartTLS first");
    // StartTLS with a value, which it must not have, and another extended operation: no, and no name of StartTLS.
    let valued =
        [&b"\x30\x1f\x02\x01\x01\x77\x1a\x80\x16"[..], b"1.3.6.1.4.1.1466.20037", b"\x81\0"].concat();
    for bytes in [&valued[..], b"\x30\x08\x02\x01\x01\x77\x03\x80\x01x"] {
        let (outcome, answer) = outcome_of(bytes);
        assert_eq!(outcome, Ok(Progress::More));
        assert_eq!(answer, b"\x30\x1a\x02\x01\x01\x78\x15\x0a\x01\x0d\x04\0\x04\x0eStartTLS first");
    }
    // A message's number has one to four bytes.
    assert!(matches!(outcome_of(b"\x30\x04\x02\0\x42\0").0, Err(Problem::Unexpected { .. })));
}

#[test]
fn a_mysql_greeting_may_end_behind_its_capabilities() {
    let greeting = |after: usize| {
        let mut payload = b"\x0a8.0\0\x07\0\0\0abcdefgh\0\xfe\xff".to_vec();
        payload.truncate(payload.len() - 2 + after);
        mysql::greeting(&mysql_packet(0, &payload)).map(|greeting| greeting.is_some())
    };
    assert_eq!(greeting(2), Ok(true));
    for after in [0, 1] {
        assert!(matches!(greeting(after), Err(Problem::Unexpected { .. })), "{after} bytes of them");
    }
}

#[test]
fn what_is_no_request_for_tls_is_distinguished() {
    let request = |number: u8, capabilities: u32, length: usize| {
        let mut payload = capabilities.to_le_bytes().to_vec();
        payload.resize(length, 0);
        let mut answer = Vec::new();
        let outcome = mysql::Greeting::request(&mysql_packet(number, &payload), &mut answer);
        (outcome.map(|request| request.is_some()), answer)
    };
    assert_eq!(request(1, 0x0a00, 32), (Ok(true), vec![]));
    for (number, capabilities, length) in [(2, 0x0a00, 32), (1, 0x0800, 32), (1, 0x0a00, 31), (0, 0x0200, 40)]
    {
        let (outcome, answer) = request(number, capabilities, length);
        assert!(matches!(outcome, Err(Problem::Unexpected { .. })), "{number} {capabilities:x} {length}");
        assert!(answer.is_empty());
    }
    // A login, with the mark of TLS or without; a request that does not want TLS after all.
    for (capabilities, length) in [(0x0a00, 33), (0x0a00, 60), (0x0200, 60), (0x0200, 32)] {
        let (outcome, answer) = request(1, capabilities, length);
        assert!(matches!(outcome, Err(Problem::Insisted { .. })), "{capabilities:x} {length}: {outcome:?}");
        assert_eq!(usize::from(answer[0]), answer.len() - 4, "the length of an error is that of its payload");
    }
    let announced = |length: usize| {
        let header = ((length - 4) as u32).to_le_bytes();
        mysql::Greeting::request(&[header[0], header[1], header[2], 1], &mut Vec::new())
    };
    assert_eq!(announced(mysql::LOGIN_LIMIT), Ok(None));
    assert_eq!(announced(mysql::LOGIN_LIMIT + 1), Err(Problem::UnitTooLong));
    let mut login = Login::new(TlsSide::Client);
    let header = ((mysql::LOGIN_LIMIT - 4) as u32).to_le_bytes();
    assert_eq!(login.receive_client(&[header[0], header[1], header[2], 1]), Ok(()));
}

#[test]
fn a_mysql_login_has_an_end() {
    let mut login = Login::new(TlsSide::Backend);
    // Not whole, and too short for one: no request can be made of it.
    let whole = mysql_packet(1, &[&0x0a00_u32.to_le_bytes()[..], &[7; 28], b"user\0"].concat());
    login.receive_client(&whole[..whole.len() - 1]).expect("a beginning");
    assert_eq!(login.request(), None);
    let mut short = Login::new(TlsSide::Backend);
    short.receive_client(&mysql_packet(1, &[2; 31])).expect("a packet");
    assert_eq!(short.request(), None);
    // The mark of TLS stays where the client has set it already.
    let mut sent = Vec::new();
    login.carry_client(&whole[whole.len() - 1..], &mut sent).expect("a login");
    assert_eq!(sent[4..8], 0x0a00_u32.to_le_bytes());
    login.receive_client(b"\x01\0\0").expect("a beginning");
    assert_eq!(login.into_rest(), b"\x01\0\0");
    // Questions and answers, but not without end.
    let mut endless = Login::new(TlsSide::Client);
    let question = mysql_packet(3, b"\x01\x04");
    let mut carried = || endless.carry_backend(&question, &mut Vec::new());
    let rounds = (0..100).find(|_| carried() == Err(Problem::TooMuch));
    assert_eq!(rounds, Some(64));
}

#[test]
fn a_tunnel_says_what_it_is_asked_and_no_more() {
    let secret = Credentials::new("aladdin", "open sesame").expect("a password");
    assert_eq!(format!("{secret:?}"), "Credentials { user: \"aladdin\", .. }");
    let first = |tunnel: Option<Tunnel>| {
        let mut words = Vec::new();
        tunnel.expect("a name").begin(&mut words);
        String::from_utf8_lossy(&words).into_owned()
    };
    for (host, written) in [("a.example", "a.example"), ("[::1]", "[::1]"), ("::1", "[::1]")] {
        let request = format!("CONNECT {written}:1 HTTP/1.1\r\nHost: {written}:1\r\n\r\n");
        assert_eq!(first(Tunnel::http(host, 1, None)), request);
    }
    assert_eq!(first(Tunnel::socks5("a", 1, None)), "\u{5}\u{1}\0");
}

#[test]
fn a_tunnels_proxy_may_talk_only_so_long() {
    let take = |bytes: &[u8]| Tunnel::http("a", 1, None).expect("a name").take(bytes, &mut Vec::new());
    for none in ["2000", "20", "2x0", "200OK", "200\tOK", " 200", "600", "000"] {
        let outcome = take(format!("HTTP/1.1 {none}\r\n\r\n").as_bytes());
        assert!(matches!(outcome, Err(Problem::Unexpected { .. })), "{none}: {outcome:?}");
    }
    for yes in ["200", "200 ", "299 Yes"] {
        assert_eq!(take(format!("HTTP/1.0 {yes}\r\n\r\n").as_bytes()), Ok(Progress::Ready), "{yes}");
    }
    assert!(matches!(take(b"HTTP/1.1x200 OK\r\n\r\n"), Err(Problem::Unexpected { .. })));
    let begun = |length: usize| [&b"HTTP/1.1 200 "[..], &vec![b'x'; length - 13]].concat();
    assert_eq!(take(&begun(2 * UNIT_LIMIT)), Ok(Progress::More));
    assert_eq!(take(&begun(2 * UNIT_LIMIT + 1)), Err(Problem::UnitTooLong));
    // Answers before the answer count too.
    let mut tunnel = Tunnel::http("a", 1, None).expect("a name");
    let early = [&b"HTTP/1.1 103 "[..], &[b'x'; 1_007], b"\r\n\r\n"].concat();
    for _ in 0..BYTE_LIMIT / early.len() {
        assert_eq!(tunnel.take(&early, &mut Vec::new()), Ok(Progress::More));
    }
    assert_eq!(tunnel.take(b"HTTP", &mut Vec::new()), Err(Problem::TooMuch));
}

#[test]
fn a_socks_proxys_replies_are_read_to_their_end_and_said_in_words() {
    let request_with = |credentials| {
        let mut tunnel = Tunnel::socks5("a", 1, credentials).expect("a name");
        let mut words = Vec::new();
        tunnel.begin(&mut words);
        tunnel
    };
    assert_eq!(
        request_with(None).take(&[5, 0xff], &mut Vec::new()),
        Err(Problem::Refused { message: "no acceptable way to authenticate".into() })
    );
    let mut tunnel = request_with(Credentials::new("a", "b"));
    assert_eq!(tunnel.take(&[5, 2], &mut Vec::new()), Ok(Progress::More));
    assert_eq!(
        tunnel.take(&[1, 1], &mut Vec::new()),
        Err(Problem::Refused { message: "wrong user or password".into() })
    );
    for (reply, length) in [(&[5, 0, 0, 1][..], 10), (&[5, 0, 0, 4], 22), (&[5, 0, 0, 3, 7], 14)] {
        let mut reply = reply.to_vec();
        reply.resize(length, 9);
        for cut in 0..length {
            let mut tunnel = request_with(None);
            assert_eq!(tunnel.take(&[5, 0], &mut Vec::new()), Ok(Progress::More));
            assert_eq!(tunnel.take(&reply[..cut], &mut Vec::new()), Ok(Progress::More), "{cut} of {length}");
            let behind = [&reply[cut..], b"220"].concat();
            assert_eq!(tunnel.take(&behind, &mut Vec::new()), Ok(Progress::Ready), "{cut} of {length}");
            assert_eq!(tunnel.into_received(), b"220");
        }
    }
    // An address of another type has no known end: no tunnel.
    for kind in [0, 2, 5, 9, 255] {
        let mut tunnel = request_with(None);
        assert_eq!(tunnel.take(&[5, 0], &mut Vec::new()), Ok(Progress::More));
        assert_eq!(tunnel.take(&[5, 0, 0], &mut Vec::new()), Ok(Progress::More));
        let outcome = tunnel.take(&[kind, 0, 0, 0, 0, 0, 0], &mut Vec::new());
        assert!(matches!(outcome, Err(Problem::Unexpected { .. })), "{kind}: {outcome:?}");
    }
    for (code, words) in [
        (1, "general failure (reply 1)"),
        (2, "not allowed by its rules (reply 2)"),
        (3, "network unreachable (reply 3)"),
        (4, "host unreachable (reply 4)"),
        (5, "connection refused (reply 5)"),
        (6, "time to live expired (reply 6)"),
        (7, "command not supported (reply 7)"),
        (8, "address type not supported (reply 8)"),
        (9, "reply 9"),
    ] {
        let mut tunnel = request_with(None);
        assert_eq!(tunnel.take(&[5, 0], &mut Vec::new()), Ok(Progress::More));
        let outcome = tunnel.take(&[5, code], &mut Vec::new());
        assert_eq!(outcome, Err(Problem::Refused { message: words.into() }));
    }
}
