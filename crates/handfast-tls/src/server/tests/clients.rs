//! Alerts for clients with and without certificates, and what the log has about them.

use std::fs;

use rustls::AlertDescription as A;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls::{Error, SignatureScheme};
use rustls_pki_types::PrivateKeyDer;

use super::*;
use crate::client_certificates::tests::load;
use crate::client_certificates::{ClientCertificateSettings, Demand, KnownLists, Trust, load_all};
use handfast_testkit::maker::{Folder, Maker};

/// Presents whatever it has, whichever CAs are requested.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn with(pair: Pair, chain: &[u8], key: &[u8]) -> Pair {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().unwrap();
    let key = any_supported_type(&PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap();
    let mut client = (*pair.client).clone();
    client.client_auth_cert_resolver = Arc::new(Shows(Arc::new(CertifiedKey::new(chain, key))));
    Pair { client: Arc::new(client), ..pair }
}

/// A server that requires certificates by the CA in `ca.pem`.
fn asking(version: &'static SupportedProtocolVersion, folder: &Folder) -> Pair {
    let rule = load(&folder.at("ca.pem"), Demand::Require, &Arc::default(), SystemTime::now()).rule.unwrap();
    pair_asking(version, false, Some(rule))
}

/// Returns the client's error and the failure for the log.
fn refused(pair: &Pair) -> (A, FailureKind, String) {
    let mut talk = pair.talk("localhost");
    for _ in 0..4 {
        let mut answer = talk.outgoing.filled();
        while !answer.is_empty() {
            talk.client.read_tls(&mut answer).unwrap();
            talk.client.process_new_packets().unwrap();
        }
        talk.outgoing.clear();
        let bytes = sent(&mut talk.client);
        if let Err(failure) = talk.give(&bytes) {
            let mut answer = talk.outgoing.filled();
            talk.client.read_tls(&mut answer).unwrap();
            let Err(Error::AlertReceived(alert)) = talk.client.process_new_packets() else {
                panic!("{failure}: no alert")
            };
            // The log names what it has shown.
            let shown = pair.client.client_auth_cert_resolver.resolve(&[], &[]);
            let shown = shown.map(|shown| Box::new(ShownCertificate::of(&shown.cert[0])));
            assert_eq!(talk.session.agreed().client_certificate, shown);
            return (alert, failure.kind, failure.detail.into());
        }
    }
    panic!("it was let in");
}

/// A CA, `ca.pem` and `ca.key`.
fn authority(folder: &Folder) {
    folder.openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 3000",
    );
}

/// A client's certificate by it, and its key.
fn client(folder: &Folder, key: &str, extensions: &str, sign: &str) -> (Vec<u8>, Vec<u8>) {
    folder.put("extensions", extensions);
    folder.openssl(&format!("req -newkey {key} -nodes -keyout client.key -out client.csr -subj /CN=client"));
    folder.openssl(&format!(
        "x509 -req -in client.csr -CA ca.pem -CAkey ca.key -extfile extensions -out client.pem -days 30 {sign}"
    ));
    (fs::read(folder.at("client.pem")).unwrap(), fs::read(folder.at("client.key")).unwrap())
}

fn is_refused_as(folder: &Folder, (chain, key): (&[u8], &[u8]), alert: A, words: &str) {
    for version in [&TLS12, &TLS13] {
        let expected = format!("the client's certificate was refused: {words}");
        let refusal = refused(&with(asking(version, folder), chain, key));
        assert_eq!(refusal, (alert, FailureKind::PeerCertificate, expected), "{version:?}");
    }
}

const EC: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

#[test]
fn a_client_without_a_certificate_receives_the_alert_of_its_version() {
    let folder = Folder::new();
    authority(&folder);
    for (version, alert) in [(&TLS12, A::HandshakeFailure), (&TLS13, A::CertificateRequired)] {
        let expected = "the client sent no certificate, one is required".to_owned();
        assert_eq!(refused(&asking(version, &folder)), (alert, FailureKind::PeerCertificate, expected));
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_named_truly() {
    let usual = "basicConstraints=CA:FALSE";
    let cases = [
        (
            (EC, usual, "-sha1"),
            A::BadCertificate,
            "it, or a CA certificate above it, is signed with SHA-1, which is broken; expected SHA-256 or better",
        ),
        (
            ("rsa:1024", usual, "-sha256"),
            A::BadCertificate,
            "its key has 1024 bits, expected 2048 or more: keys of this size can be factored, or soon can be; clients refuse them",
        ),
        (
            ("ed448", usual, "-sha256"),
            A::UnsupportedCertificate,
            "it has an Ed448 key, expected RSA, ECDSA, Ed25519 or ML-DSA",
        ),
        (
            (EC, "keyUsage=keyAgreement", "-sha256"),
            A::UnsupportedCertificate,
            "its key usage does not allow signatures (digitalSignature)",
        ),
        (
            (EC, "extendedKeyUsage=serverAuth", "-sha256"),
            A::UnsupportedCertificate,
            "its extended key usage does not allow clients (clientAuth)",
        ),
        (
            (EC, "basicConstraints=CA:TRUE", "-sha256"),
            A::UnsupportedCertificate,
            "it is a CA's certificate, expected that of one client or server",
        ),
        (
            (EC, "1.2.3.4=critical,ASN1:NULL", "-sha256"),
            A::BadCertificate,
            "it, or a CA certificate above it, has a critical extension that is not known here",
        ),
    ];
    let folder = Folder::new();
    authority(&folder);
    // A client that is refused for its certificate needs no key to sign with.
    let (good, good_key) = client(&folder, EC, usual, "-sha256");
    for ((key, extensions, sign), alert, words) in cases {
        let (chain, _) = client(&folder, key, extensions, sign);
        is_refused_as(&folder, (&chain, &good_key), alert, words);
    }
    let allowed = "keyUsage=digitalSignature,keyAgreement\nextendedKeyUsage=clientAuth";
    let (allowed, allowed_key) = client(&folder, EC, allowed, "-sha256");
    for version in [&TLS12, &TLS13] {
        with(asking(version, &folder), &good, &good_key).talk("localhost").establish();
        let talk = with(asking(version, &folder), &allowed, &allowed_key).talk("localhost").establish();
        assert_eq!(
            talk.session.agreed().client_certificate.map(|own| own.subject).as_deref(),
            Some("CN=client")
        );
    }
    let (_, other_key) = client(&folder, EC, usual, "-sha256");
    let words = "the handshake was not signed with its key";
    is_refused_as(&folder, (&good, &other_key), A::DecryptError, words);
}

/// As `openssl x509 -req` made them without `-extfile` until OpenSSL 3.2.
fn version_1(folder: &Folder, by: &str) -> (Vec<u8>, Vec<u8>) {
    folder.openssl(&format!("req -newkey {EC} -nodes -keyout old.key -out old.csr -subj /CN=old"));
    folder.openssl(&format!(
        "x509 -req -in old.csr -CA {by}.pem -CAkey {by}.key -set_serial 7 -out old.pem -days 30"
    ));
    let (chain, key) = (fs::read(folder.at("old.pem")).unwrap(), fs::read(folder.at("old.key")).unwrap());
    let der = CertificateDer::from_pem_slice(&chain).unwrap();
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
    assert_eq!(parsed.version(), x509_parser::x509::X509Version::V1);
    (chain, key)
}

#[test]
fn a_certificate_of_version_1_may_be_a_clients_own_and_no_cas() {
    let folder = Folder::new();
    authority(&folder);
    folder.put("extensions", "basicConstraints=critical,CA:TRUE");
    folder.openssl(&format!("req -newkey {EC} -nodes -keyout middle.key -out middle.csr -subj /CN=middle"));
    folder.openssl(
        "x509 -req -in middle.csr -CA ca.pem -CAkey ca.key -set_serial 9 -extfile extensions -out middle.pem -days 30",
    );
    let middle = fs::read(folder.at("middle.pem")).unwrap();
    let (direct, direct_key) = version_1(&folder, "ca");
    let (below, below_key) = version_1(&folder, "middle");
    let below = [below, middle].concat();
    for version in [&TLS12, &TLS13] {
        for (chain, key) in [(&direct, &direct_key), (&below, &below_key)] {
            let talk = with(asking(version, &folder), chain, key).talk("localhost").establish();
            let own = talk.session.agreed().client_certificate.map(|own| own.subject);
            assert_eq!(own.as_deref(), Some("CN=old"));
        }
    }
    let words = "the handshake was not signed with its key";
    is_refused_as(&folder, (&direct, &below_key), A::DecryptError, words);
    // In the place of a CA it is not looked at.
    folder.openssl("x509 -in old.pem -out issuer.pem");
    folder.openssl("ec -in old.key -out issuer.key");
    folder.openssl(&format!("req -newkey {EC} -nodes -keyout child.key -out child.csr -subj /CN=child"));
    folder.put("extensions", "basicConstraints=CA:FALSE");
    folder.openssl(
        "x509 -req -in child.csr -CA issuer.pem -CAkey issuer.key -set_serial 3 -extfile extensions -out child.pem -days 30",
    );
    let read = |name: &str| fs::read(folder.at(name)).unwrap();
    let chain = [read("child.pem"), read("issuer.pem"), read("middle.pem")].concat();
    let words = "none of the CAs for client certificates signed it";
    is_refused_as(&folder, (&chain, &read("child.key")), A::UnknownCA, words);
    let mut talk = with(asking(&TLS13, &folder), &direct, &direct_key);
    // A bit of what was signed differs.
    let der = CertificateDer::from_pem_slice(&direct).unwrap();
    let mut changed = der.to_vec();
    let place = changed.windows(3).rposition(|letters| letters == b"old").unwrap();
    changed[place] = b'b';
    let key = any_supported_type(&PrivateKeyDer::from_pem_slice(&direct_key).unwrap()).unwrap();
    let mut client = (*talk.client).clone();
    client.client_auth_cert_resolver =
        Arc::new(Shows(Arc::new(CertifiedKey::new(vec![changed.into()], key))));
    talk.client = Arc::new(client);
    let refusal = refused(&talk);
    assert!(
        refusal.2.ends_with("a signature on it, or on a CA certificate above it, is wrong"),
        "{refusal:?}"
    );
}

/// Without a CA: exactly this certificate is good.
#[test]
fn a_pinned_certificate_of_version_1_is_good() {
    let folder = Folder::new();
    authority(&folder);
    let (chain, key) = version_1(&folder, "ca");
    let file = folder.put("clients.pem", &chain);
    let keys = Arc::default();
    let settings = ClientCertificateSettings {
        trust: Trust::Certificates(&file),
        ..ClientCertificateSettings::new(&file, Demand::Require, &keys)
    };
    let rule = load_all(&settings, &KnownLists::default(), SystemTime::now()).rule.unwrap();
    for version in [&TLS12, &TLS13] {
        let pair = with(pair_asking(version, false, Some(rule.clone())), &chain, &key);
        pair.talk("localhost").establish();
    }
}

#[test]
fn dates_are_reported_in_words_and_strangers_by_their_alert() {
    let folder = Folder::new();
    let ca = Maker::authority("ca").self_signed();
    folder.put("ca.pem", ca.pem());
    let old = Maker::new(&["a.example.org"]).valid((2020, 1, 1), (2021, 1, 1)).signed_by(&ca);
    let of = |made: &handfast_testkit::maker::Made| (made.pem().into_bytes(), made.key_pem().into_bytes());
    let (chain, key) = of(&old);
    let words = "it expired on 2021-01-01 00:00:00 UTC";
    is_refused_as(&folder, (&chain, &key), A::CertificateExpired, words);
    let future = Maker::new(&["a.example.org"]).valid((2090, 1, 1), (2091, 1, 1)).signed_by(&ca);
    let (chain, key) = of(&future);
    let words = "it is not valid before 2090-01-01 00:00:00 UTC";
    is_refused_as(&folder, (&chain, &key), A::CertificateExpired, words);
    let stranger = Maker::authority("stranger").self_signed();
    let (chain, key) =
        of(&Maker::new(&["a.example.org"]).valid((2020, 1, 1), (2099, 1, 1)).signed_by(&stranger));
    let words = "none of the CAs for client certificates signed it";
    is_refused_as(&folder, (&chain, &key), A::UnknownCA, words);
    let many = [chain.as_slice(), stranger.pem().repeat(11).as_bytes()].concat();
    let words = "11 CA certificates came with it, expected 10 at most";
    is_refused_as(&folder, (&many, &key), A::BadCertificate, words);
}

/// With its certificate, which the ticket carries: it need not be presented twice.
#[test]
fn who_was_let_in_comes_back_with_a_ticket() {
    let folder = Folder::new();
    let ca = Maker::authority("ca").self_signed();
    folder.put("ca.pem", ca.pem());
    let own = Maker::new(&["a.example.org"]).valid((2020, 1, 1), (2099, 1, 1)).signed_by(&ca);
    for version in [&TLS12, &TLS13] {
        let rule = load(&folder.at("ca.pem"), Demand::Require, &Arc::default(), SystemTime::now()).rule;
        let pair = pair_asking(version, true, rule);
        let pair = with(pair, own.pem().as_bytes(), own.key_pem().as_bytes());
        let [first, again] = [(); 2].map(|()| pair.talk("localhost").establish().session.agreed());
        assert_eq!((first.resumed, again.resumed), (Some(false), Some(true)), "{version:?}");
        assert!(first.client_certificate.is_some());
        assert_eq!(first.client_certificate, again.client_certificate, "{version:?}");
    }
}

/// The proxy keeps sessions of both sides in boxes.
#[test]
fn a_session_in_a_box_is_the_same_session() {
    use std::io::{Read as _, Write as _};
    let folder = Folder::new();
    authority(&folder);
    let (chain, key) =
        client(&folder, "ec -pkeyopt ec_paramgen_curve:P-256", "keyUsage=digitalSignature", "");
    let own = CertificateDer::from_pem_slice(&chain).unwrap();
    for version in [&TLS12, &TLS13] {
        let talk = with(asking(version, &folder), &chain, &key).talk("localhost").establish();
        let Talk { session, mut client, .. } = talk;
        assert_eq!(session.peer_certificates().first(), Some(&own), "the client's own");
        let agreed = session.agreed();
        let mut boxed: Box<dyn Session> = Box::new(session);
        assert!(boxed.is_established());
        assert_eq!((boxed.agreed(), boxed.peer_certificates().first()), (agreed, Some(&own)));
        client.writer().write_all(b"hello").unwrap();
        let records = sent(&mut client);
        let (mut plaintext, mut outgoing) = (Buffer::default(), Buffer::default());
        let (first, rest) = records.split_at(3);
        boxed.receive(&mut first.to_vec(), &mut plaintext, &mut outgoing);
        assert_eq!(boxed.kept(), first);
        let mut more = [boxed.kept(), rest].concat();
        boxed.receive(&mut more, &mut plaintext, &mut outgoing);
        assert_eq!(plaintext.filled(), b"hello");
        boxed.encrypt(b"answer", &mut outgoing).unwrap();
        boxed.close(&mut outgoing);
        let mut answer = outgoing.filled();
        while !answer.is_empty() {
            client.read_tls(&mut answer).unwrap();
            client.process_new_packets().unwrap();
        }
        let mut some = [0; 10];
        assert_eq!(client.reader().read(&mut some).unwrap(), 6);
        assert_eq!(client.reader().read(&mut some).unwrap(), 0, "close_notify has come");
    }
}

/// A client that fails and may be served elsewhere: its entries in the log and the metrics.
#[test]
fn who_fails_where_that_is_tolerated_is_named_and_not_believed() {
    use crate::client_certificates::{ClientCertificateSettings, KnownLists, load_all};
    use crate::session::Verdict;
    use handfast_pki::presented::CertificateFault;
    let folder = Folder::new();
    authority(&folder);
    let (chain, key) =
        client(&folder, "ec -pkeyopt ec_paramgen_curve:P-256", "keyUsage=digitalSignature", "");
    let stranger = Maker::new(&["client.example"]).valid((2020, 1, 1), (2099, 1, 1)).self_signed();
    let (keys, ca) = (Arc::default(), folder.at("ca.pem"));
    let judged = |demand, shown: Option<(&[u8], &[u8])>| {
        let settings = ClientCertificateSettings {
            tolerates: true,
            ..ClientCertificateSettings::new(&ca, demand, &keys)
        };
        let rule = load_all(&settings, &KnownLists::default(), SystemTime::now()).rule;
        let pair = pair_asking(&TLS13, false, rule);
        let pair = match shown {
            Some((chain, key)) => with(pair, chain, key),
            None => pair,
        };
        let agreed = pair.talk("localhost").establish().session.agreed();
        let fault = agreed.verdict.map(|verdict| match *verdict {
            Verdict::Failed { fault, .. } => Some(fault),
            Verdict::Allowed(_) | Verdict::Unverified => None,
        });
        (fault, agreed.client_certificate.is_some())
    };
    assert_eq!(judged(Demand::Require, Some((&chain, &key))), (None, true));
    assert_eq!(judged(Demand::Require, None), (Some(Some(CertificateFault::Missing)), false));
    assert_eq!(judged(Demand::Request, None), (None, false));
    let (own, its) = (stranger.pem(), stranger.key_pem());
    let (fault, is_named) = judged(Demand::Require, Some((own.as_bytes(), its.as_bytes())));
    assert!(fault == Some(Some(CertificateFault::UnknownCa)) && !is_named, "{fault:?}");
}

/// Certificates are public: a client that presents one must have its key too.
#[test]
fn who_shows_a_certificate_without_its_key_is_refused() {
    let folder = Folder::new();
    authority(&folder);
    let (chain, _) = client(&folder, EC, "keyUsage=digitalSignature", "");
    let thief = Maker::new(&["a.example.org"]).self_signed().key_pem();
    for version in [&TLS12, &TLS13] {
        let pair = with(asking(version, &folder), &chain, thief.as_bytes());
        let (_, kind, message) = refused(&pair);
        assert_eq!(kind, FailureKind::PeerCertificate, "{message}");
        assert!(message.contains("the handshake was not signed with its key"), "{message}");
    }
}
