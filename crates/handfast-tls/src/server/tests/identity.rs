//! Tests for data served beside the certificate itself: OCSP responses, compressed messages, post-quantum signatures.

#![expect(
    clippy::disallowed_types,
    reason = "rustls wants a verifier that threads may share; it is asked by one"
)]

use std::fs;
use std::io::Read;
use std::sync::Mutex;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::compress::{CertDecompressor, DecompressionFailed};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::{CertificateCompressionAlgorithm, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::UnixTime;

use super::*;
use crate::client_certificates::Demand;
use crate::client_certificates::tests::load;
use handfast_pki::load::{Source, load as load_certificates};
use handfast_testkit::maker::{Folder, Maker, NOW};

fn fixture(name: &str) -> Vec<u8> {
    fs::read(format!("{}/../handfast-pki/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The certificates in files that `put` writes, loaded as of `now`.
fn loaded(folder: &Folder, now: i64) -> Vec<Arc<Certificate>> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now.try_into().unwrap());
    let loaded = load_certificates(&[Source::Folder(folder.path().into())], &Default::default(), now);
    assert!(!loaded.has_errors() && loaded.staples.is_empty(), "{loaded:?}");
    loaded.certificates
}

/// Trusts every server and keeps the OCSP response; what it can verify is as asked.
#[derive(Debug)]
struct Keeps {
    response: Mutex<Vec<u8>>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for Keeps {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        response: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.response.lock().unwrap() = response.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}

/// A client that can verify `schemes` (empty: all) and shows the response that it got.
fn keeping(pair: Pair, schemes: &[SignatureScheme]) -> (Pair, Arc<Keeps>) {
    let schemes = if schemes.is_empty() { algorithms().supported_schemes() } else { schemes.to_vec() };
    let keeps = Arc::new(Keeps { response: Mutex::default(), schemes });
    let mut client = (*pair.client).clone();
    client.dangerous().set_certificate_verifier(Arc::clone(&keeps) as _);
    (Pair { client: Arc::new(client), ..pair }, keeps)
}

/// A folder with the certificate of the OCSP fixtures, and one of the responses beside it.
fn stapling(heading: &str) -> Folder {
    let folder = Folder::new();
    folder.put("web.pem", [fixture("ocsp/chain.pem"), fixture("ocsp/key.pem")].concat());
    let text = String::from_utf8(fixture("ocsp/responses.pem")).unwrap();
    let (_, text) = text.split_once(&format!("{heading}\n")).unwrap();
    let (response, _) = text.split_once("-----END OCSP RESPONSE-----").unwrap();
    folder.put("web.pem.ocsp", format!("{response}-----END OCSP RESPONSE-----\n"));
    folder
}

#[test]
fn a_response_is_stapled_in_both_versions_until_its_time_is_over() {
    for version in [&TLS12, &TLS13] {
        let certificates = loaded(&stapling("good"), NOW);
        let expected = certificates[0].certified().ocsp.clone().unwrap();
        let ca = String::from_utf8(fixture("ocsp/chain.pem")).unwrap();
        let (pair, keeps) = keeping(pair_serving(version, false, None, certificates, &ca), &[]);
        pair.talk("localhost").establish();
        assert_eq!(*keeps.response.lock().unwrap(), expected);

        // At its expiry, the store has to be rebuilt.
        let certificates = loaded(&stapling("good, in 2026 only"), NOW);
        let (store, _) = CertificateStore::new(certificates, NOW);
        assert_eq!(store.rebuild_at(), Some(1_796_083_201));
    }
}

#[test]
fn a_response_whose_time_passed_while_it_was_served_is_not_sent() {
    // Loaded in 2020, and nothing was loaded since.
    let certificates = loaded(&stapling("expired"), 1_590_000_000);
    assert_eq!(certificates[0].staple_until(), Some(1_609_459_200));
    let ca = String::from_utf8(fixture("ocsp/chain.pem")).unwrap();
    for version in [&TLS12, &TLS13] {
        let pair = pair_serving(version, false, None, certificates.clone(), &ca);
        let (pair, keeps) = keeping(pair, &[]);
        pair.talk("localhost").establish();
        assert!(keeps.response.lock().unwrap().is_empty());
    }
}

/// Notes the sizes of the messages that it was given.
#[derive(Debug)]
struct Notes(CertificateCompressionAlgorithm);

thread_local! {
    static COMPRESSED: std::cell::RefCell<Vec<(usize, usize)>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl CertDecompressor for Notes {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        COMPRESSED.with_borrow_mut(|seen| seen.push((input.len(), output.len())));
        let mut expanded = Vec::with_capacity(output.len());
        let read = match self.0 {
            CertificateCompressionAlgorithm::Zlib => {
                flate2::read::ZlibDecoder::new(input).read_to_end(&mut expanded).ok()
            }
            CertificateCompressionAlgorithm::Brotli => {
                brotli::Decompressor::new(input, 4096).read_to_end(&mut expanded).ok()
            }
            _ => zstd_safe::decompress(&mut expanded, input).ok(),
        };
        if read != Some(output.len()) {
            return Err(DecompressionFailed);
        }
        output.copy_from_slice(&expanded);
        Ok(())
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        self.0
    }
}

static NOTES: [Notes; 3] = [
    Notes(CertificateCompressionAlgorithm::Brotli),
    Notes(CertificateCompressionAlgorithm::Zlib),
    Notes(CertificateCompressionAlgorithm::Zstd),
];

/// Returns the compressed and the unpacked size of each certificate message that a client received compressed.
fn compressed_for(pair: Pair, offered: &'static [Notes]) -> Vec<(usize, usize)> {
    let mut client = (*pair.client).clone();
    client.cert_decompressors = offered.iter().map(|notes| notes as &dyn CertDecompressor).collect();
    let pair = Pair { client: Arc::new(client), ..pair };
    COMPRESSED.with_borrow_mut(Vec::clear);
    pair.talk("localhost").establish();
    COMPRESSED.take()
}

#[test]
fn a_client_that_offers_it_gets_the_chain_compressed_where_that_is_smaller() {
    let certificates = loaded(&stapling("good, by a responder"), NOW);
    let ca = String::from_utf8(fixture("ocsp/chain.pem")).unwrap();
    for version in [&TLS13, &TLS12] {
        for offered in NOTES.chunks(1).chain([&NOTES[..], &[]]) {
            let pair = pair_serving(version, false, None, certificates.clone(), &ca);
            let (pair, keeps) = keeping(pair, &[]);
            let seen = compressed_for(pair, offered);
            assert!(!keeps.response.lock().unwrap().is_empty(), "with its response");
            if version.version == rustls::ProtocolVersion::TLSv1_2 || offered.is_empty() {
                assert_eq!(seen, []);
                continue;
            }
            let [(small, large)] = seen[..] else { panic!("{offered:?} {seen:?}") };
            assert!(small < large * 9 / 10, "{offered:?} {seen:?}");
        }
    }
    // A post-quantum certificate is a key and a signature; it is sent as it is.
    let folder = Folder::new();
    folder.put("web.pem", fixture("ml-dsa/44.pem"));
    folder.put("web.key", fixture("ml-dsa/44.seed.key"));
    let root = String::from_utf8(fixture("ml-dsa/root.pem")).unwrap();
    let pair = pair_serving(&TLS13, true, None, loaded(&folder, NOW), &root);
    assert_eq!(compressed_for(pair, &NOTES), []);
}

#[test]
fn ml_dsa_certificates_are_served_with_keys_in_every_form() {
    let root = String::from_utf8(fixture("ml-dsa/root.pem")).unwrap();
    for (bits, name) in [("44", "ML-DSA-44"), ("65", "ML-DSA-65"), ("87", "ML-DSA-87")] {
        for form in ["seed", "both", "expanded"] {
            let folder = Folder::new();
            folder.put("web.pem", fixture(&format!("ml-dsa/{bits}.pem")));
            folder.put("web.key", fixture(&format!("ml-dsa/{bits}.{form}.key")));
            let pair = pair_serving(&TLS13, true, None, loaded(&folder, NOW), &root);
            let talk = pair.talk("localhost").establish();
            assert_eq!(talk.session.agreed().signature, Some(name), "{form}");
            let again = pair.talk("localhost").establish();
            assert!(again.offered && again.session.agreed().resumed == Some(true));
        }
    }
}

/// A certificate with a classical key beside one with ML-DSA, for one name.
#[test]
fn a_client_gets_ml_dsa_only_when_it_can_verify_nothing_else() {
    let folder = Folder::new();
    folder.put("new.pem", [fixture("ml-dsa/44.pem"), fixture("ml-dsa/44.seed.key")].concat());
    folder.put("old.pem", Maker::new(&["localhost"]).self_signed().both());
    let root = String::from_utf8(fixture("ml-dsa/root.pem")).unwrap();
    let signature = |version, schemes: &[SignatureScheme]| {
        let pair = pair_serving(version, false, None, loaded(&folder, NOW), &root);
        let (pair, _) = keeping(pair, schemes);
        pair.talk("localhost").establish().session.agreed().signature
    };
    assert_eq!(signature(&TLS13, &[]), Some("ECDSA-P256"));
    let both = [SignatureScheme::ML_DSA_44, SignatureScheme::ECDSA_NISTP256_SHA256];
    assert_eq!(signature(&TLS13, &both), Some("ECDSA-P256"));
    assert_eq!(signature(&TLS13, &[SignatureScheme::ML_DSA_44]), Some("ML-DSA-44"));
    // TLS 1.2 has no ML-DSA (draft-ietf-tls-mldsa).
    assert_eq!(signature(&TLS12, &both), Some("ECDSA-P256"));
}

#[test]
fn tls12_clients_of_an_ml_dsa_certificate_alone_are_refused() {
    let folder = Folder::new();
    folder.put("new.pem", [fixture("ml-dsa/65.pem"), fixture("ml-dsa/65.seed.key")].concat());
    let root = String::from_utf8(fixture("ml-dsa/root.pem")).unwrap();
    let pair = pair_serving(&TLS12, false, None, loaded(&folder, NOW), &root);
    let (client, hello) = pair.hello("localhost");
    let mut talk = Talk::new(client, pair.accept(&hello));
    let failure = talk.give(&hello).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Peer, "{failure}");
    let mut answer = talk.outgoing.filled();
    talk.client.read_tls(&mut answer).unwrap();
    let outcome = talk.client.process_new_packets();
    assert!(
        matches!(outcome, Err(Error::AlertReceived(rustls::AlertDescription::HandshakeFailure))),
        "{outcome:?}"
    );
}

#[test]
fn clients_show_ml_dsa_certificates() {
    let folder = Folder::new();
    folder.put("ca.pem", fixture("ml-dsa/root.pem"));
    for bits in ["44", "65", "87"] {
        let rule =
            load(&folder.at("ca.pem"), Demand::Require, &Default::default(), SystemTime::now()).rule.unwrap();
        let pair = pair_asking(&TLS13, false, Some(rule));
        let chain = CertificateDer::from_pem_slice(&fixture(&format!("ml-dsa/{bits}.pem"))).unwrap();
        let key =
            rustls_pki_types::PrivateKeyDer::from_pem_slice(&fixture(&format!("ml-dsa/{bits}.both.key")))
                .unwrap();
        let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let mut client = (*pair.client).clone();
        let shown = rustls::sign::CertifiedKey::new(vec![chain], key);
        client.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(shown));
        let pair = Pair { client: Arc::new(client), ..pair };
        let talk = pair.talk("localhost").establish();
        assert_eq!(
            talk.session.agreed().client_certificate.map(|own| own.subject).as_deref(),
            Some(&*format!("CN=ML-DSA-{bits}"))
        );
    }
}
