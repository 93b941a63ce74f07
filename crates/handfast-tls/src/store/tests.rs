//! Tests for the choice of a certificate, by name and by the signatures that the client can verify.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use handfast_testkit::maker::{Maker, NOW};

const ECDSA: &[SignatureScheme] = &[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256];
const RSA_ONLY: &[SignatureScheme] = &[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256];

/// A certificate that goes by the first of its names.
fn certificate(maker: &Maker) -> Arc<Certificate> {
    named(maker, &maker.names[0])
}

fn named(maker: &Maker, file: &str) -> Arc<Certificate> {
    let (made, findings) = Certificate::from_pem(maker.self_signed().both().as_bytes(), Path::new(file), NOW);
    Arc::new(made.unwrap_or_else(|| panic!("{findings:?}")))
}

fn of(names: &[&str]) -> Arc<Certificate> {
    certificate(&Maker::new(names))
}

fn rsa(names: &[&str]) -> Arc<Certificate> {
    certificate(&Maker::new(names).algorithm(&rcgen::PKCS_RSA_SHA256))
}

fn store(certificates: &[&Arc<Certificate>]) -> CertificateStore {
    CertificateStore::new(certificates.iter().map(|certificate| (*certificate).clone()).collect(), NOW).0
}

/// The file of the one that is chosen for a client that can verify everything.
fn chosen(store: &CertificateStore, name: &str) -> Option<String> {
    match store.select(Some(name), ECDSA, UnknownName::Refuse) {
        Selection::Chosen(certificate) => Some(certificate.file().display().to_string()),
        _ => None,
    }
}

#[test]
fn a_store_has_what_it_was_made_of() {
    let one = of(&["a.example.org"]);
    assert!(one.subject().contains("a test"), "{}", one.subject());
    let store = store(&[&one]);
    assert!(store.certificates().len() == 1 && Arc::ptr_eq(&store.certificates()[0], &one));
}

#[test]
fn an_exact_name_wins_over_a_wildcard_and_a_wildcard_is_one_label() {
    let store = store(&[&of(&["*.example.org"]), &of(&["a.example.org"]), &of(&["*.b.example.org"])]);
    let expected = [
        ("a.example.org", Some("a.example.org")),
        ("A.Example.ORG", Some("a.example.org")),
        ("a.example.org.", Some("a.example.org")),
        ("c.example.org", Some("*.example.org")),
        ("b.example.org", Some("*.example.org")),
        ("c.b.example.org", Some("*.b.example.org")),
        ("c.a.example.org", None),
        ("example.org", None),
        (".example.org", None),
        ("org", None),
        ("", None),
        ("*.example.org", Some("*.example.org")), // no client can ask for it, and it would do no harm
        ("a.example.org\0", None),
    ];
    for (name, file) in expected {
        assert_eq!(chosen(&store, name).as_deref(), file, "{name:?}");
        assert_eq!(store.has_name(Some(name)), file.is_some(), "{name:?}");
    }
}

#[test]
fn of_two_kinds_the_client_gets_the_cheapest_it_can_verify() {
    let (ecdsa, rsa) = (of(&["a.example.org"]), rsa(&["a.example.org"]));
    for store in [store(&[&ecdsa, &rsa]), store(&[&rsa, &ecdsa])] {
        let kind = |schemes| match store.select(Some("a.example.org"), schemes, UnknownName::Refuse) {
            Selection::Chosen(certificate) => certificate.kind(),
            Selection::UnknownName => "unknown",
            Selection::NoCommonSignature(_) => "none",
        };
        assert_eq!(kind(ECDSA), "ECDSA-P256");
        assert_eq!(kind(RSA_ONLY), "RSA-2048");
        assert_eq!(kind(&[SignatureScheme::ED25519]), "none");
        assert_eq!(kind(&[]), "none");
        // The same for clients that ask for no name.
        let Selection::Chosen(default) = store.select(None, RSA_ONLY, UnknownName::Refuse) else { panic!() };
        assert_eq!(default.kind(), "RSA-2048");
    }
}

#[test]
fn a_wildcard_of_the_right_kind_stands_in_for_an_exact_name_of_the_wrong_one() {
    let store = store(&[&of(&["a.example.org"]), &rsa(&["*.example.org"])]);
    let Selection::Chosen(found) = store.select(Some("a.example.org"), RSA_ONLY, UnknownName::Refuse) else {
        panic!()
    };
    assert_eq!(found.kind(), "RSA-2048");
}

#[test]
fn unknown_names_get_the_first_or_nothing() {
    let store = store(&[&of(&["a.example.org"]), &of(&["b.example.org"])]);
    let unknown = Some("c.example.org");
    assert!(matches!(store.select(unknown, ECDSA, UnknownName::Refuse), Selection::UnknownName));
    let Selection::Chosen(first) = store.select(unknown, ECDSA, UnknownName::First) else { panic!() };
    assert_eq!(&*first.dns_names()[0], "a.example.org");
    let Selection::Chosen(first) = store.select(None, ECDSA, UnknownName::Refuse) else { panic!() };
    assert_eq!(&*first.dns_names()[0], "a.example.org");

    let store = Arc::new(store);
    let refusing = Resolver::new(store.clone(), UnknownName::Refuse);
    assert!(refusing.refuses(unknown) && !refusing.refuses(None) && !refusing.refuses(Some("b.example.org")));
    assert!(!Resolver::new(store, UnknownName::First).refuses(unknown));

    let (empty, _) = CertificateStore::new(Vec::new(), NOW);
    assert!(!empty.has_name(None));
    assert!(matches!(empty.select(None, ECDSA, UnknownName::First), Selection::UnknownName));
}

#[test]
fn of_the_same_name_and_kind_the_last_to_expire_wins_and_the_other_is_named() {
    let short = named(&Maker::new(&["a.example.org"]), "short");
    let long = named(&Maker::new(&["a.example.org"]).valid((2026, 1, 1), (2028, 1, 1)), "long");
    for order in [vec![short.clone(), long.clone()], vec![long.clone(), short.clone()]] {
        let (store, findings) = CertificateStore::new(order, NOW);
        assert_eq!(chosen(&store, "a.example.org").as_deref(), Some("long"));
        let found: Vec<_> =
            findings.iter().map(|finding| (finding.reason, finding.file.display().to_string())).collect();
        assert_eq!(found, [(Reason::Shadowed, "short".to_owned())]);
        assert!(findings[0].message.contains("long"));
    }
    // One with a name that no other has is still needed, and so is one of another kind.
    let more = named(&Maker::new(&["a.example.org", "b.example.org"]), "more");
    let (_, findings) = CertificateStore::new(vec![long.clone(), more, rsa(&["a.example.org"])], NOW);
    assert_eq!(findings, []);
}

#[test]
fn the_valid_win_over_those_that_are_not() {
    let expired = named(&Maker::new(&["a.example.org"]).valid((2020, 1, 1), (2026, 10, 1)), "expired");
    let future = named(&Maker::new(&["a.example.org"]).valid((2026, 12, 1), (2030, 1, 1)), "future");
    let valid = named(&Maker::new(&["a.example.org"]).algorithm(&rcgen::PKCS_RSA_SHA256), "valid");
    let found = store(&[&expired, &future, &valid]);
    assert_eq!(chosen(&found, "a.example.org").as_deref(), Some("valid"));
    assert_eq!(found.rebuild_at(), Some(future.not_before()));
    // Alone an expired one is still served: clients report the rest.
    assert_eq!(chosen(&store(&[&expired]), "a.example.org").as_deref(), Some("expired"));
    assert_eq!(store(&[&expired]).rebuild_at(), None);
}

#[test]
fn the_last_selection_is_taken_once_and_belongs_to_its_thread() {
    side_channels::set_selection(Some(Selected {
        kind: "RSA-2048",
        names: Arc::default(),
        server_name: None,
        compressed: None,
    }));
    assert!(std::thread::scope(|scope| scope.spawn(last_selection).join().unwrap()).is_none());
    assert_eq!(last_selection().unwrap().kind, "RSA-2048");
    assert!(last_selection().is_none());
}

/// rustls's own client against the resolver: what is chosen is what is served, in both versions, and what cannot be
/// served is refused with the right alert.
mod with_rustls {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};
    use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    /// Believes everything, and can verify only some signatures.
    #[derive(Debug)]
    struct Believer(Vec<SignatureScheme>);

    impl ServerCertVerifier for Believer {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = default_provider().signature_verification_algorithms;
            rustls::crypto::verify_tls12_signature(message, certificate, signed, &algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = default_provider().signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature(message, certificate, signed, &algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.clone()
        }
    }

    /// Shakes hands; `Ok` is the certificate that the client saw, `Err` the alert that the client received.
    fn shake(
        resolver: Resolver,
        name: &str,
        schemes: &[SignatureScheme],
        version: &'static SupportedProtocolVersion,
    ) -> Result<CertificateDer<'static>, rustls::Error> {
        let server = ServerConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        let client = ClientConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Believer(schemes.to_vec())))
            .with_no_client_auth();
        let mut server = ServerConnection::new(server.into()).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(client.into(), name).unwrap();
        while client.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            let _ = server.process_new_packets();
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            assert!(!bytes.is_empty(), "the handshake is blocked");
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(client.peer_certificates().unwrap()[0].clone())
    }

    #[test]
    fn what_is_chosen_is_served() {
        let certificates = [of(&["a.example.org"]), rsa(&["a.example.org"]), of(&["*.example.org"])];
        let (store, _) = CertificateStore::new(certificates.to_vec(), NOW);
        let store = Arc::new(store);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            for (name, schemes, expected) in
                [("a.example.org", ECDSA, 0), ("a.example.org", RSA_ONLY, 1), ("b.example.org", ECDSA, 2)]
            {
                let resolver = Resolver::new(store.clone(), UnknownName::Refuse);
                let seen = shake(resolver, name, schemes, version).unwrap();
                assert_eq!(seen, certificates[expected].chain()[0], "{name} {version:?}");
                let selected = last_selection().unwrap();
                assert_eq!(selected.kind, certificates[expected].kind());
                assert_eq!(selected.server_name.as_deref(), Some(name));
            }
        }
    }

    #[test]
    fn no_common_signature_is_a_handshake_failure_and_not_a_denied_access() {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let (store, _) = CertificateStore::new(vec![of(&["a.example.org"])], NOW);
            let resolver = Resolver::new(store.into(), UnknownName::First);
            let error = shake(resolver, "a.example.org", RSA_ONLY, version).unwrap_err();
            assert_eq!(error, rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure));
        }
    }

    /// Shows why [`Resolver::refuses`] must be called first. When this fails, rustls sends the right alert, and the
    /// call can be removed.
    #[test]
    fn rustls_still_has_no_alert_for_unknown_names() {
        let (store, _) = CertificateStore::new(vec![of(&["a.example.org"])], NOW);
        let resolver = Resolver::new(store.into(), UnknownName::Refuse);
        let error = shake(resolver, "x.example.org", ECDSA, &rustls::version::TLS13).unwrap_err();
        assert_eq!(error, rustls::Error::AlertReceived(rustls::AlertDescription::AccessDenied));
        assert!(last_selection().is_none());
    }
}

/// RFC 9525 §6.3 in another form, to compare the maps with.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(suffix) => name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == suffix),
        None => pattern == name,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_name_is_known_exactly_when_a_pattern_matches(
        patterns in proptest::collection::vec("(\\*\\.)?[ab](\\.[ab]){0,2}", 1..4),
        name in "[ab]?(\\.[ab]){0,3}",
    ) {
        let names: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let store = store(&[&of(&names)]);
        prop_assert_eq!(store.has_name(Some(&name)), patterns.iter().any(|pattern| matches(pattern, &name)));
    }
}
