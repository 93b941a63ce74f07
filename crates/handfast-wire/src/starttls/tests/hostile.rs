//! Peers with bad intentions: plain text where TLS has to begin, talk without end, and noise.

use super::*;

/// CVE-2011-0411, CVE-2021-23214: what a stranger puts behind the request for TLS would be taken for the client's.
#[test]
fn plain_text_behind_a_request_is_refused_and_not_kept() {
    for (protocol, sent, last) in clients() {
        let is_xmpp = matches!(protocol, Protocol::Xmpp | Protocol::XmppServer);
        for injected in [&b"\n"[..], b"EHLO evil\r\n", &[22, 3, 1, 0, 200], b"\x0c"] {
            let (outcome, answer) = serve(protocol, &[&[&sent, injected].concat()]);
            if is_xmpp && injected == b"\n" {
                continue;
            }
            assert_eq!(outcome, Err(Problem::Injected { count: injected.len() }), "{protocol} {injected:?}");
            assert!(!answer.ends_with(last), "{protocol}: nobody is told to begin");
        }
    }
}

/// The same from the other side: a server's words before TLS that would be read after it.
#[test]
fn plain_text_behind_a_yes_is_refused() {
    for (protocol, mut turns, _) in servers() {
        let last = turns.last_mut().expect("it says yes");
        last.extend_from_slice(b"!");
        assert_eq!(run_client(protocol, &turns).0, Err(Problem::Injected { count: 1 }), "{protocol}");
    }
    let greeting = [mysql_greeting(0xfffe), vec![1]].concat();
    assert_eq!(run_client(Protocol::MySql, &[greeting]).0, Err(Problem::Injected { count: 1 }));
}

/// White space between tags has no meaning in XML, and never reaches the other side. Clients send a line end behind `<starttls/>`.
#[test]
fn white_space_of_xml_is_no_injection() {
    let of_xmpp = |protocol: &Protocol| matches!(protocol, Protocol::Xmpp | Protocol::XmppServer);
    const BLANK: &[u8] = b" \t\r\n\n";
    for (protocol, sent, last) in clients().into_iter().filter(|(protocol, ..)| of_xmpp(protocol)) {
        let (outcome, answer) = serve(protocol, &[&[&sent, BLANK].concat()]);
        assert_eq!(outcome, Ok(Progress::Ready), "{protocol}");
        assert!(answer.ends_with(last), "{protocol}");
        let (outcome, _) = serve(protocol, &[&[&sent, BLANK, b"<a/>\n"].concat()]);
        assert_eq!(outcome, Err(Problem::Injected { count: 5 }), "{protocol}: the rest counts");
    }
    for (protocol, turns, _) in servers().into_iter().filter(|(protocol, ..)| of_xmpp(protocol)) {
        let turns: Vec<_> = turns.iter().map(|turn| [turn, BLANK].concat()).collect();
        assert_eq!(
            run_client(protocol, &turns).0,
            Ok(Progress::Ready),
            "{protocol}: of a server, behind its features and its yes"
        );
    }
}

#[test]
fn a_server_that_answers_before_it_is_asked_is_refused() {
    for (protocol, turns, _) in servers().into_iter().filter(|(_, turns, _)| turns.len() > 1) {
        let at_once = turns.concat();
        let (outcome, _) = run_client(protocol, &[at_once]);
        assert!(matches!(outcome, Err(Problem::Injected { .. })), "{protocol}: {outcome:?}");
    }
}

#[test]
fn no_dialogue_lasts_forever() {
    let noop = [
        (Protocol::Smtp, &b"NOOP\r\n"[..]),
        (Protocol::Lmtp, b"RSET\r\n"),
        (Protocol::Imap, b"a NOOP\r\n"),
        (Protocol::Pop3, b"X\r\n"),
        (Protocol::Nntp, b"X\r\n"),
        (Protocol::Ldap, b"\x30\x06\x02\x01\x05\x50\x01\x04"),
        (Protocol::PostgreSql, &[0, 0, 0, 8, 4, 210, 22, 48]),
    ];
    for (protocol, word) in noop {
        let (mut server, mut answer) = (Server::new(protocol, "a"), Vec::new());
        let rounds = (0..=ROUND_LIMIT).find(|_| server.take(word, &mut answer) == Err(Problem::TooMuch));
        assert_eq!(rounds, Some(ROUND_LIMIT), "{protocol}");
        assert!(answer.len() < 32_768, "{protocol}: what is answered is bounded too");
        // At once, as one read of the greatest size would bring it.
        let (outcome, answer) = serve(protocol, &[&word.repeat(65_536 / word.len())]);
        assert_eq!(outcome, Err(Problem::TooMuch), "{protocol}");
        assert!(answer.len() < 32_768, "{protocol}");
    }
    for protocol in Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::MySql) {
        let long = [b'<', b'0'][usize::from(protocol == Protocol::Ldap)];
        let (outcome, _) = serve(protocol, &[&[long; 65_536]]);
        assert!(outcome.is_err(), "{protocol}: a line or packet without end");
        let (outcome, _) = run_client(protocol, &[vec![b' '; 65_536]]);
        assert!(outcome.is_err(), "{protocol}: of a server too");
    }
    let endless = b"250-a\r\n".repeat(ROUND_LIMIT + 1);
    assert_eq!(run_client(Protocol::Smtp, &[b"220 a\r\n".into(), endless]).0, Err(Problem::TooMuch));
    let mut tunnel = Tunnel::http("a", 1, None).expect("a name");
    let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &b"a: b\r\n".repeat(4_000)].concat();
    assert!(tunnel.take(&endless, &mut Vec::new()).is_err());
    let mut greeting = Greeting::new(Protocol::Smtp).expect("it greets");
    assert_eq!(greeting.take(&b"220-a\r\n".repeat(ROUND_LIMIT + 1)), Err(Problem::TooMuch));
}

/// A packet is refused by the length that it announces, before it has come.
#[test]
fn an_announced_length_reserves_nothing() {
    assert_eq!(serve(Protocol::Ldap, &[b"\x30\x84\xff\xff\xff\xff"]).0, Err(Problem::UnitTooLong));
    assert_eq!(serve(Protocol::PostgreSql, &[&[0, 0, 0x20, 0]]).0, Err(Problem::UnitTooLong));
    assert!(serve(Protocol::PostgreSql, &[&[0xff, 0xff, 0xff, 0xff]]).0.is_err());
    assert_eq!(mysql::greeting(&[0xff, 0xff, 0xff, 0]), Err(Problem::UnitTooLong));
    let mut login = Login::new(TlsSide::Client);
    assert_eq!(login.carry_client(&[0xff, 0xff, 0xff, 2], &mut Vec::new()), Err(Problem::UnitTooLong));
}

#[test]
fn a_name_never_ends_what_it_stands_in() {
    for name in ["a\r\nb", "a' b", "<a>", "", "a b"] {
        let (mut server, mut answer) = (Server::new(Protocol::Smtp, name), Vec::new());
        server.begin(&mut answer);
        assert_eq!(answer, b"220 localhost ESMTP\r\n", "{name:?}");
    }
    let open = XMPP_OPEN.replace("im.example", "a&apos; x=&apos;");
    let (_, answer) = serve(Protocol::Xmpp, &[open.as_bytes()]);
    assert!(String::from_utf8_lossy(&answer).contains("from='mail.example'"), "not the client's words");
}

/// Each dialogue with one byte changed, and cut at each byte: an error or more to come, never a panic, and a peer's
/// plain text never comes out of a machine.
#[test]
fn every_single_byte_may_be_another() {
    for (protocol, sent, _) in clients() {
        for at in 0..sent.len() {
            for byte in
                [0, b'\n', b' ', b'<', b'>', 0x30, 0x7f, 0x80, 0x84, 0xff, sent[at] ^ 1, sent[at] ^ 0x20]
            {
                let mut changed = sent.clone();
                changed[at] = byte;
                let _ = serve(protocol, &[&changed]);
            }
        }
    }
    let mut servers = servers();
    servers.push((Protocol::MySql, vec![mysql_greeting(0xfffe)], b""));
    for (protocol, turns, _) in servers {
        for (turn, at) in
            turns.iter().enumerate().flat_map(|(turn, sent)| (0..sent.len()).map(move |at| (turn, at)))
        {
            for byte in [0, b'\n', b' ', b'<', b'>', 0x30, 0x80, 0x84, 0xff, turns[turn][at] ^ 1] {
                let mut changed = turns.clone();
                changed[turn][at] = byte;
                let _ = run_client(protocol, &changed);
            }
        }
    }
}

proptest! {
    #[test]
    fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..600), cut in 0_usize..600) {
        let (first, second) = noise.split_at(cut.min(noise.len()));
        for protocol in Protocol::ALL {
            let mut server = Server::new(protocol, "a");
            let _ = server.take(first, &mut Vec::new()).is_ok_and(|progress| {
                progress == Progress::More && server.take(second, &mut Vec::new()).is_ok()
            });
            let _ = run_client(protocol, &[first.to_vec(), second.to_vec()]);
            if let Some(mut greeting) = Greeting::new(protocol) {
                let _ = greeting.take(&noise);
            }
        }
        for tunnel in [Tunnel::http("a", 1, None), Tunnel::socks5("a", 1, None)] {
            let _ = tunnel.expect("a name").take(&noise, &mut Vec::new());
        }
        let _ = mysql::greeting(&noise);
        let _ = mysql::Greeting::request(&noise, &mut Vec::new());
        for side in [TlsSide::Client, TlsSide::Backend] {
            let mut login = Login::new(side);
            let _ = login.carry_client(&noise, &mut Vec::new());
            let _ = login.request();
            let _ = login.carry_backend(&noise, &mut Vec::new());
        }
    }

    /// The same as the fuzz target: a machine that waits for more of the whole waits for more of its parts, and has
    /// sent the same.
    #[test]
    fn how_it_is_split_changes_nothing(
        which in 0_usize..100, cut in 0_usize..400, noise in proptest::collection::vec(any::<u8>(), 0..8), lines in 0_usize..2,
    ) {
        let all = clients();
        let (protocol, sent, _) = &all[which % all.len()];
        let sent = [&sent[..cut.min(sent.len()) * lines.min(1)], &noise].concat();
        let whole = serve(*protocol, &[&sent]);
        let (first, second) = sent.split_at(cut.min(sent.len()) / 2);
        if whole.0 == Ok(Progress::More) {
            prop_assert_eq!(whole, serve(*protocol, &[first, second]));
        }
    }

    #[test]
    fn lines_of_any_kind_never_panic(lines in proptest::collection::vec("[A-Za-z0-9 *+<>'/=:-]{0,40}\r\n", 0..12)) {
        let sent = lines.concat().into_bytes();
        for protocol in Protocol::ALL {
            let _ = Server::new(protocol, "a").take(&sent, &mut Vec::new());
            let _ = run_client(protocol, std::slice::from_ref(&sent));
        }
    }
}
