//! Sessions against rustls's own server, in memory.

use std::io::{Read as _, Write as _};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::server::{ServerConnection, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::*;
use crate::session::FailureKind;
use handfast_testkit::maker::{Made, Maker};

mod pool;

/// The hint for a certificate of another name.
const BY_A_NAME_OF_ITS_OWN: &str = "ask for the server by a name that its certificate has";

fn settings(versions: &[&str]) -> ClientSettings {
    ClientSettings {
        versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        suites: Vec::new(),
        groups: vec!["x25519".into()],
        policy: None,
        server_name: Some("localhost".into()),
        server_names: Vec::new(),
        alpn: vec!["http/1.1".into()],
        identity: None,
        verification: Verification::Off,
        early_data: false,
        keeps_many_tickets: false,
        key_lines: None,
    }
}

fn authority() -> Made {
    Maker::authority("a CA").self_signed()
}

/// A server with a certificate for `localhost` and 127.0.0.1 that `authority` signed.
fn server(authority: &Made) -> ServerConfig {
    let made = Maker::new(&["localhost", "127.0.0.1"]).signed_by(authority);
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![made.certificate.der().clone()],
            PrivateKeyDer::try_from(made.key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Kept by the server, not in the ticket: rustls takes early data for no other session.
    config.session_storage = rustls::server::ServerSessionMemoryCache::new(1000);
    config.send_tls13_tickets = 2;
    config
}

/// A session, and the server that it talks to.
struct Talk {
    session: ClientSession,
    server: ServerConnection,
    plaintext: Buffer,
    outgoing: Buffer,
    /// Bytes that the server read.
    received: Vec<u8>,
    /// Most bytes that the session is given at once.
    piece: usize,
}

fn talk(client: &Client, config: &ServerConfig, resume: bool) -> Talk {
    talk_as(client, 0, config, resume)
}

fn talk_as(client: &Client, name: usize, config: &ServerConfig, resume: bool) -> Talk {
    let server = ServerConnection::new(Arc::new(config.clone())).unwrap();
    let session = client.connect_as(name, resume).unwrap();
    let (plaintext, outgoing) = (Buffer::default(), Buffer::default());
    let mut talk = Talk { session, server, plaintext, outgoing, received: Vec::new(), piece: usize::MAX };
    talk.session.start(&mut talk.outgoing).unwrap();
    talk
}

impl Talk {
    /// Gives the server what the session wrote, and the session what it answers; what the server thinks of it.
    fn exchange(&mut self) -> Result<(), Failure> {
        let mut bytes = self.outgoing.filled();
        while !bytes.is_empty() && self.server.read_tls(&mut bytes).unwrap() > 0 {
            if let Err(error) = self.server.process_new_packets() {
                eprintln!("the server: {error}");
                break;
            }
            let mut some = [0; 20_000];
            while let Ok(count @ 1..) = self.server.reader().read(&mut some) {
                self.received.extend_from_slice(&some[..count]);
            }
        }
        self.outgoing.clear();
        let mut answer = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut answer).unwrap();
        }
        self.give(&answer)
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for piece in bytes.chunks(self.piece) {
            let mut incoming = [self.session.kept(), piece].concat();
            let received = self.session.receive(&mut incoming, &mut self.plaintext, &mut self.outgoing);
            received.failure.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn establish(mut self) -> Self {
        for _ in 0..4 {
            self.exchange().unwrap();
        }
        assert!(self.session.is_established() && !self.server.is_handshaking());
        self
    }

    /// The failure that ends the handshake.
    fn fail(mut self) -> Failure {
        (0..4).find_map(|_| self.exchange().err()).expect("a failure")
    }
}

fn client(settings: &ClientSettings) -> Client {
    Client::new(settings, "localhost").unwrap()
}

#[test]
fn bytes_pass_both_ways_in_both_versions_and_any_split() {
    for (version, name) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        for piece in [1, 7, 1_000, usize::MAX] {
            let mut talk = talk(&client(&settings(&[version])), &server(&authority()), false);
            talk.piece = piece;
            let mut talk = talk.establish();
            let agreed = talk.session.agreed();
            assert_eq!((agreed.version, agreed.group), (Some(name), Some("X25519")));
            assert_eq!((agreed.signature, agreed.resumed), (Some("ecdsa_secp256r1_sha256"), Some(false)));
            assert_eq!((agreed.alpn.as_deref(), agreed.client_certificate), (Some("http/1.1"), None));
            assert!(!agreed.hello_retry && !talk.session.offered_ticket());

            let data: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
            talk.session.encrypt(&data, &mut talk.outgoing).unwrap();
            talk.exchange().unwrap();
            assert_eq!(talk.received, data);
            talk.server.writer().write_all(&data).unwrap();
            talk.exchange().unwrap();
            assert_eq!(talk.plaintext.filled(), data);
            talk.session.close(&mut talk.outgoing);
            talk.exchange().unwrap();
            assert_eq!(talk.server.reader().read(&mut [0]).unwrap(), 0, "close_notify has come");
            assert!(talk.session.kept().is_empty());
        }
    }
}

/// rustls remembers places in the buffer of the last call; with another one it would panic.
#[test]
fn a_message_in_pieces_may_wait_while_we_speak() {
    for version in ["1.2", "1.3"] {
        let mut talk = talk(&client(&settings(&[version])), &server(&authority()), false);
        let mut hello = talk.outgoing.filled();
        talk.server.read_tls(&mut hello).unwrap();
        talk.server.process_new_packets().unwrap();
        talk.outgoing.clear();
        let mut answer = Vec::new();
        while talk.server.wants_write() {
            talk.server.write_tls(&mut answer).unwrap();
        }
        // The ServerHello's message in two records; the second comes late.
        let length = usize::from(u16::from_be_bytes([answer[3], answer[4]]));
        let (body, rest) = answer[5..].split_at(length);
        let record = |part: &[u8]| [&[22, 3, 3], &(part.len() as u16).to_be_bytes()[..], part].concat();
        talk.give(&record(&body[..40])).unwrap();
        assert!(talk.session.encrypt(b"too early", &mut talk.outgoing).is_err());
        assert_eq!(talk.session.early_data(b"too late", &mut talk.outgoing), 0);
        talk.session.close(&mut talk.outgoing);
        talk.give(&[record(&body[40..]), rest.to_vec()].concat()).unwrap();
        talk.establish();
    }
}

#[test]
fn a_ticket_resumes_once_and_only_when_asked() {
    let client = client(&settings(&["1.3"]));
    let config = server(&authority());
    let first = talk(&client, &config, true).establish();
    assert!(!first.session.offered_ticket(), "the pool was empty");
    assert_eq!((first.session.tickets_received(), client.tickets()), (2, 2));
    let full = talk(&client, &config, false).establish();
    assert_eq!((full.session.agreed().resumed, client.tickets()), (Some(false), 4));

    let pending: Vec<_> = (0..4).map(|_| talk(&client, &config, true)).collect();
    assert!(pending.iter().all(|talk| talk.session.offered_ticket()));
    assert_eq!(client.tickets(), 0);
    let fifth = talk(&client, &config, true);
    assert!(!fifth.session.offered_ticket(), "each was given once");
    for talk in pending {
        let agreed = talk.establish().session.agreed();
        assert_eq!((agreed.resumed, agreed.signature), (Some(true), None));
    }
    assert_eq!(client.tickets(), 8, "resumed sessions bring tickets too");
}

#[test]
fn a_tls12_session_resumes_again_and_again() {
    for tickets in [true, false] {
        let client = client(&settings(&["1.3", "1.2"]));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let made = Maker::new(&["localhost"]).self_signed();
        let mut old = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![made.certificate.der().clone()],
                PrivateKeyDer::try_from(made.key.serialize_der()).unwrap(),
            )
            .unwrap();
        if tickets {
            old.ticketer = aws_lc_rs::Ticketer::new().unwrap();
        }
        let first = talk(&client, &old, true).establish();
        assert_eq!((first.session.agreed().resumed, first.session.tickets_received()), (Some(false), 1));
        let pending: Vec<_> = (0..3).map(|_| talk(&client, &old, true)).collect();
        for talk in pending {
            assert!(talk.session.offered_ticket());
            let agreed = talk.establish().session.agreed();
            assert_eq!((agreed.resumed, agreed.signature), (Some(true), None));
        }
        assert_eq!(client.tickets(), tickets::LIMIT, "as good as that many");
        let full = talk(&client, &old, false).establish();
        assert_eq!(full.session.agreed().resumed, Some(false));
    }
}

#[test]
fn a_ticket_is_for_the_name_that_it_came_from() {
    let ca = authority();
    let config = server(&ca);
    for version in ["1.3", "1.2"] {
        let names = vec!["localhost".to_owned(), "other.example".to_owned()];
        let client = client(&ClientSettings { server_names: names, ..settings(&[version]) });
        let first = talk_as(&client, 0, &config, false).establish();
        assert_eq!(first.server.server_name(), Some("localhost"));
        assert!(client.tickets() > 0);
        let other = talk_as(&client, 1, &config, true);
        assert!(!other.session.offered_ticket(), "TLS {version}: the other name has given none");
        let other = other.establish();
        assert_eq!(other.server.server_name(), Some("other.example"));
        for name in [0, 1] {
            let again = talk_as(&client, name, &config, true).establish();
            assert_eq!(again.session.agreed().resumed, Some(true), "TLS {version}: name {name}");
        }
    }
}

#[test]
fn of_several_names_each_is_verified_for_itself() {
    let ca = authority();
    let settings = ClientSettings {
        server_names: vec!["localhost".into(), "other.example".into()],
        verification: Verification::Roots(ca.pem().into_bytes()),
        ..settings(&["1.3"])
    };
    let (client, config) = (client(&settings), server(&ca));
    talk_as(&client, 0, &config, false).establish();
    let failure = talk_as(&client, 1, &config, false).fail();
    assert!(failure.detail.contains("expected \"other.example\""), "{failure}");
}

#[test]
fn early_data_arrives_with_the_hello_or_is_known_to_be_refused() {
    let client = client(&ClientSettings { early_data: true, ..settings(&["1.3"]) });
    let mut config = server(&authority());
    config.max_early_data_size = 1_000;
    let mut first = talk(&client, &config, true);
    assert_eq!(first.session.early_data(b"no ticket", &mut first.outgoing), 0);
    let first = first.establish();
    assert_eq!(first.session.early_data_accepted(), None);

    // Accepted, up to what the ticket allows.
    let data = [7; 900];
    let mut second = talk(&client, &config, true);
    assert_eq!(second.session.early_data(&data, &mut second.outgoing), 900);
    assert_eq!(second.session.early_data(&data, &mut second.outgoing), 100);
    assert_eq!(second.session.early_data(&data, &mut second.outgoing), 0);
    assert_eq!(second.session.early_data_accepted(), None, "not known yet");
    second.piece = 1;
    let hello = second.outgoing.filled().to_vec();
    second.server.read_tls(&mut &hello[..]).unwrap();
    second.server.process_new_packets().unwrap();
    let mut got = Vec::new();
    second.server.early_data().expect("early data").read_to_end(&mut got).unwrap();
    assert_eq!(got, [7; 1_000]);
    second.outgoing.clear();
    let second = second.establish();
    assert_eq!(second.session.early_data_accepted(), Some(true));
    assert_eq!(second.session.agreed().resumed, Some(true));

    // Refused: a server that does not want it any more, though it resumes.
    config.max_early_data_size = 0;
    let mut third = talk(&client, &config, true);
    assert_eq!(third.session.early_data(&data, &mut third.outgoing), 900);
    let mut third = third.establish();
    assert_eq!(third.session.early_data_accepted(), Some(false));
    third.session.encrypt(&data, &mut third.outgoing).unwrap();
    third.exchange().unwrap();
    assert_eq!(third.received, data, "only what was sent again");

    // Full handshakes, and those whose caller sends none, have none.
    let mut full = talk(&client, &config, false);
    assert_eq!(full.session.early_data(&data, &mut full.outgoing), 0);
}

#[test]
fn early_data_that_was_possible_and_not_sent_harms_nobody() {
    let client = client(&ClientSettings { early_data: true, ..settings(&["1.3"]) });
    let mut config = server(&authority());
    config.max_early_data_size = 1_000;
    talk(&client, &config, true).establish();
    let talk = talk(&client, &config, true).establish();
    assert_eq!((talk.session.agreed().resumed, talk.session.early_data_accepted()), (Some(true), None));
}

#[test]
fn early_data_with_a_client_certificate_is_known_to_be_accepted() {
    let ca = authority();
    let mine = Maker::new(&["me"]).signed_by(&ca);
    let client = client(&ClientSettings {
        early_data: true,
        identity: Some(Identity::Pem(mine.pem().into_bytes(), mine.key_pem().into_bytes())),
        ..settings(&["1.3"])
    });
    let mut config = asking(&ca);
    config.max_early_data_size = 1_000;
    talk(&client, &config, true).establish();
    let mut second = talk(&client, &config, true);
    assert_eq!(second.session.early_data(b"now", &mut second.outgoing), 3);
    assert_eq!(second.establish().session.early_data_accepted(), Some(true));
}

#[test]
fn a_hello_retry_is_seen_every_time() {
    let provider = CryptoProvider { kx_groups: vec![kx_group::SECP256R1], ..aws_lc_rs::default_provider() };
    let made = Maker::new(&["localhost"]).self_signed();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![made.certificate.der().clone()],
            PrivateKeyDer::try_from(made.key.serialize_der()).unwrap(),
        )
        .unwrap();
    let groups = vec!["X25519".into(), "SECP256R1".into()];
    let client = client(&ClientSettings { groups, ..settings(&["1.3"]) });
    for _ in 0..2 {
        let agreed = talk(&client, &config, false).establish().session.agreed();
        assert_eq!((agreed.hello_retry, agreed.group), (true, Some("secp256r1")));
    }
}

#[test]
fn certificates_are_held_against_the_host_and_the_cas() {
    let ca = authority();
    let config = server(&ca);
    let with = |verification: &Verification, host: &str, server_name: Option<&str>| {
        let server_name = server_name.map(str::to_owned);
        let settings =
            ClientSettings { verification: verification.clone(), server_name, ..settings(&["1.3", "1.2"]) };
        talk(&Client::new(&settings, host).unwrap(), &config, false)
    };
    let trusted = Verification::Roots(ca.pem().into_bytes());
    for host in ["localhost", "127.0.0.1"] {
        with(&trusted, host, None).establish();
    }
    // The host counts, not the name in SNI.
    with(&trusted, "localhost", Some("other.example")).establish();
    let failure = with(&trusted, "other.example", Some("localhost")).fail();
    assert_eq!(failure.kind, FailureKind::PeerCertificate);
    assert_eq!(
        &*failure.detail,
        "the server's certificate was refused: it is for localhost, 127.0.0.1; expected \"other.example\""
    );
    assert_eq!(failure.hint, Some(BY_A_NAME_OF_ITS_OWN), "another CA would not help");

    let other = Verification::Roots(Maker::authority("another CA").self_signed().pem().into_bytes());
    let failure = with(&other, "localhost", None).fail();
    assert_eq!(&*failure.detail, "the server's certificate was refused: none of the trusted CAs signed it");
    assert!(failure.hint.is_some_and(|hint| hint.contains("--ca")), "{failure:?}");
    with(&Verification::Off, "other.example", None).establish();
    assert!(matches!(
        Client::new(
            &ClientSettings { verification: Verification::System, ..settings(&["1.3"]) },
            "localhost"
        ),
        Ok(_) | Err(Failure { kind: FailureKind::Ourselves, .. })
    ));
}

/// A server that shows `made`.
fn showing(made: &Made) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![made.certificate.der().clone()],
            PrivateKeyDer::try_from(made.key.serialize_der()).unwrap(),
        )
        .unwrap()
}

#[test]
fn a_server_whose_own_certificate_is_named_is_good() {
    let with = |trusted: &Made, host: &str, shown: &Made| {
        let verification = Verification::Roots(trusted.pem().into_bytes());
        let settings = ClientSettings { verification, ..settings(&["1.3", "1.2"]) };
        talk(&Client::new(&settings, host).unwrap(), &showing(shown), false)
    };
    let until = |maker: Maker, year: i32| maker.valid((2020, 1, 1), (year, 1, 1));
    let named = |is_authority: bool| Maker { is_authority, ..Maker::new(&["localhost"]) };
    // openssl req -x509 makes CAs of all, rcgen does not.
    for is_authority in [true, false] {
        let own = until(named(is_authority), 2099).self_signed();
        with(&own, "localhost", &own).establish();
        let failure = with(&own, "other.example", &own).fail();
        let expected =
            "the server's certificate was refused: it is for localhost; expected \"other.example\"";
        assert_eq!((&*failure.detail, failure.hint), (expected, Some(BY_A_NAME_OF_ITS_OWN)));
        // Another with the same name is another.
        let other = until(named(is_authority), 2099).self_signed();
        let expected = "the server's certificate was refused: it signed itself, and is not among the trusted certificates";
        for trusted in [&own, &authority()] {
            let failure = with(trusted, "localhost", &other).fail();
            assert_eq!(&*failure.detail, expected);
            assert!(failure.hint.is_some_and(|hint| hint.contains("this very certificate")), "{failure:?}");
        }
        let old = until(named(is_authority), 2021).self_signed();
        let failure = with(&old, "localhost", &old).fail();
        let expected = "the server's certificate was refused: it expired on 2021-01-01 00:00:00 UTC";
        assert_eq!((&*failure.detail, failure.hint), (expected, None));
    }
    // One that another CA signed too, as curl accepts; but no certificate that it would have signed.
    let own = until(named(false), 2099).signed_by(&authority());
    with(&own, "localhost", &own).establish();
    with(&own, "localhost", &until(named(false), 2099).signed_by(&own)).fail();
    let nameless = until(Maker::authority("localhost"), 2099).self_signed();
    let failure = with(&nameless, "localhost", &nameless).fail();
    assert!(failure.detail.contains("no alternative names (subjectAltName)"), "{failure}");
    assert!(failure.hint.is_some_and(|hint| hint.contains("subjectAltName=DNS:")), "{failure:?}");
}

#[test]
fn a_refused_certificate_is_reported_to_the_server() {
    let settings = ClientSettings {
        verification: Verification::Roots(Maker::authority("another CA").self_signed().pem().into_bytes()),
        ..settings(&["1.3"])
    };
    let mut talk = talk(&client(&settings), &server(&authority()), false);
    assert!(talk.exchange().is_err());
    assert!(!talk.outgoing.is_empty(), "an alert");
    let mut bytes = talk.outgoing.filled();
    talk.server.read_tls(&mut bytes).unwrap();
    let error = talk.server.process_new_packets().unwrap_err();
    assert_eq!(error, rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA));
    assert_eq!(talk.give(b"whatever"), Ok(()), "nothing more is taken in");
}

/// A server that demands client certificates of `authority`.
fn asking(authority: &Made) -> ServerConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.der().clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let made = Maker::new(&["localhost"]).signed_by(authority);
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![made.certificate.der().clone()],
            PrivateKeyDer::try_from(made.key.serialize_der()).unwrap(),
        )
        .unwrap()
}

#[test]
fn a_client_certificate_is_sent_when_asked_for() {
    let ca = authority();
    let config = asking(&ca);
    let mine = Maker::new(&["me"]).signed_by(&ca);
    for version in ["1.2", "1.3"] {
        let with = ClientSettings {
            identity: Some(Identity::Pem(mine.pem().into_bytes(), mine.key_pem().into_bytes())),
            ..settings(&[version])
        };
        let talk = talk(&client(&with), &config, false).establish();
        assert_eq!(talk.server.peer_certificates().unwrap()[0], *mine.certificate.der());
        assert_eq!(talk.session.agreed().client_certificate, None, "the peer is a server");
    }
    let failure = talk(&client(&settings(&["1.3"])), &config, false).fail();
    assert_eq!((failure.kind, &*failure.detail), (FailureKind::Alert, "alert certificate_required (116)"));
}

fn refused(settings: &ClientSettings) -> String {
    let failure = Client::new(settings, "localhost").expect_err("these settings cannot be");
    assert_eq!(failure.kind, FailureKind::Ourselves);
    failure.detail.into()
}

#[test]
fn settings_that_cannot_be_are_reported_with_what_can() {
    let none = settings(&["1.3", "1.2"]);
    let list = |word: &str| vec![word.to_owned()];
    let versions = refused(&settings(&["1.1"]));
    assert!(versions.contains("\"1.1\"") && versions.contains("1.3, 1.2"), "{versions}");
    let suites = refused(&ClientSettings { suites: list("AES"), ..none.clone() });
    assert!(suites.contains("\"AES\"") && suites.contains("TLS_AES_128_GCM_SHA256"), "{suites}");
    let groups = refused(&ClientSettings { groups: list("P-256"), ..none.clone() });
    assert!(groups.contains("hint: write secp256r1"), "{groups}");
    let name = refused(&ClientSettings { server_name: Some("127.0.0.1".into()), ..none.clone() });
    assert!(name.contains("expected a DNS name"), "{name}");
    let roots = ClientSettings { verification: Verification::Roots(b"none".to_vec()), ..none.clone() };
    assert!(refused(&roots).contains("no certificate there"));
    let (mine, other) = (Maker::new(&["me"]).self_signed(), Maker::new(&["me"]).self_signed());
    let pair = |key: String| Some(Identity::Pem(mine.pem().into_bytes(), key.into_bytes()));
    let mixed = refused(&ClientSettings { identity: pair(other.key_pem()), ..none.clone() });
    assert!(mixed.starts_with("client certificate and key: "), "{mixed}");
    let keyless = refused(&ClientSettings { identity: pair(String::new()), ..none });
    assert!(keyless.starts_with("client key: "), "{keyless}");
}

#[test]
fn a_version_that_the_lists_leave_nothing_for_is_not_offered() {
    let both = settings(&["1.3", "1.2"]);
    let only = ClientSettings { groups: vec!["X25519MLKEM768".into()], ..both.clone() };
    let mut hello = Buffer::default();
    client(&only).connect(false).unwrap().start(&mut hello).unwrap();
    let Peek::Complete(hello) = peek(hello.filled(), 1 << 16) else { panic!("a whole hello") };
    assert_eq!((hello.versions, hello.key_shares), (vec![0x0304], vec![0x11ec]));
    let suites = vec!["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".into()];
    let mut hello = Buffer::default();
    client(&ClientSettings { suites, ..both }).connect(false).unwrap().start(&mut hello).unwrap();
    let Peek::Complete(hello) = peek(hello.filled(), 1 << 16) else { panic!("a whole hello") };
    assert!(!hello.offers_version(0x0304) && hello.offers_version(0x0303));
}

#[test]
fn sni_is_what_was_requested_or_nothing() {
    for name in [Some("service.example"), None] {
        let settings = ClientSettings { server_name: name.map(str::to_owned), ..settings(&["1.3"]) };
        let mut hello = Buffer::default();
        client(&settings).connect(false).unwrap().start(&mut hello).unwrap();
        let Peek::Complete(hello) = peek(hello.filled(), 1 << 16) else { panic!("a whole hello") };
        assert_eq!(hello.server_name.as_deref(), name);
    }
}

#[test]
fn a_server_with_an_ml_dsa_certificate_is_verified() {
    let fixture = |name: &str| {
        std::fs::read(format!("{}/../handfast-pki/fixtures/ml-dsa/{name}", env!("CARGO_MANIFEST_DIR")))
            .unwrap()
    };
    for (bits, scheme) in [("44", "mldsa44"), ("65", "mldsa65"), ("87", "mldsa87")] {
        let chain = vec![CertificateDer::from_pem_slice(&fixture(&format!("{bits}.pem"))).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&fixture(&format!("{bits}.seed.key"))).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let trusting = |root: Vec<u8>| {
            client(&ClientSettings {
                alpn: Vec::new(),
                verification: Verification::Roots(root),
                ..settings(&["1.3"])
            })
        };
        let talk = talk(&trusting(fixture("root.pem")), &config, false).establish();
        assert_eq!(talk.session.agreed().signature, Some(scheme));
        let stranger = authority().pem().into_bytes();
        assert_eq!(talk_as(&trusting(stranger), 0, &config, false).fail().kind, FailureKind::PeerCertificate);
    }
}

#[test]
fn what_a_server_shows_and_gives_is_reported() {
    let ca = authority();
    for (version, lifetime) in [("1.2", None), ("1.3", Some(std::time::Duration::from_secs(86_400)))] {
        let client = client(&settings(&[version]));
        assert_eq!(client.newest_ticket(), None);
        let talk = talk(&client, &server(&ca), false).establish();
        let presented = talk.session.chain().map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert!(matches!(&presented[..], [own] if own.len() > 100), "{presented:?}");
        assert!(talk.session.chain().eq(presented.iter().map(Vec::as_slice)));
        assert_eq!(client.newest_ticket(), Some(observed::Ticket { lifetime, early_data: 0 }), "{version}");
        assert_eq!(client.staple_bytes(), 0);
    }
    let made = Maker::new(&["localhost"]).signed_by(&ca);
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert_with_ocsp(
            vec![made.certificate.der().clone()],
            PrivateKeyDer::try_from(made.key.serialize_der()).unwrap(),
            vec![7; 99],
        )
        .unwrap();
    let mut settings = settings(&["1.3"]);
    settings.alpn.clear();
    let client = self::client(&settings);
    talk(&client, &config, false).establish();
    assert_eq!(client.staple_bytes(), 99);
}
