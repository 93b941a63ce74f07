//! The PROXY header that a backend gets before anything else, where the service sends one.
//!
//! In: a connection whose client is known, with its handshake behind it. Out: bytes to send in one write with the first ones;
//! none where the service sends no header. Made once for a connection, whichever backend takes it.

use handfast_leg::Socket;
use handfast_pki::subject::common_name;
use handfast_tls::session::{Agreed, Session, Verdict};
use handfast_wire::proxy_header::{Tls, Writer, address_bytes, certificate_pem, tlv, write_v1};

use crate::path::connection::Connection;
use crate::requests::new_id;
use handfast_config::model::{SentCertificate, SentHeader};
use handfast_leg::runtime::Runtime;
use handfast_observe::record::Record;

/// Header and certificate for the process that starts programs: programs receive the client's certificate.
const TO_PROGRAMS: (SentHeader, SentCertificate) = (SentHeader::V2, SentCertificate::Der);

/// The header for this connection's backends that listen; empty where none is sent.
///
/// **Cost**: nothing where none is sent; else a system call (the socket's own address) unless a proxy in front sent it.
pub(crate) fn header<R: Runtime>(connection: &mut Connection<R>) -> Vec<u8> {
    sent(connection).map(|sent| made(connection, sent)).unwrap_or_default()
}

/// The header for a program that is started for this connection.
pub(crate) fn header_for_program<R: Runtime>(connection: &mut Connection<R>) -> Vec<u8> {
    made(connection, TO_PROGRAMS)
}

/// The same header without addresses and the connection's name, for the key of a cache: backends may answer by all the rest. Empty where they
/// receive none of it.
pub(crate) fn without_addresses<R: Runtime>(connection: &Connection<R>) -> Vec<u8> {
    let Some((SentHeader::V2, sent)) = sent(connection) else { return Vec::new() };
    let mut header = Writer::proxy(None);
    // A fingerprint has a hundredth of the certificate's size, and identifies it.
    if matches!(sent, SentCertificate::Der | SentCertificate::Hitch)
        && let Some(shown) = &connection.account.record.tls.client_certificate
    {
        let _ = header.add(tlv::SSL_CLIENT_CERT, shown.fingerprint.as_bytes());
    }
    let name = if sent == SentCertificate::Off { sent } else { SentCertificate::CommonName };
    add_facts(&mut header, connection, name);
    header.finish(false)
}

/// The header that backends get, and what it has of the client's certificate.
fn sent<R: Runtime>(connection: &Connection<R>) -> Option<(SentHeader, SentCertificate)> {
    let settings = &connection.account.service.model.proxy_protocol;
    settings.send.zip(Some(settings.client_certificate))
}

fn made<R: Runtime>(
    connection: &mut Connection<R>,
    (version, sent): (SentHeader, SentCertificate),
) -> Vec<u8> {
    let record = &connection.account.record;
    let proxied = record.proxied();
    let destination = proxied.and_then(|proxied| proxied.destination);
    let destination = destination.or_else(|| connection.client.as_ref()?.socket().local_address());
    let endpoints = record.client.zip(destination);
    match version {
        SentHeader::V1 => {
            let mut line = Vec::new();
            write_v1(&mut line, endpoints);
            return line;
        }
        SentHeader::Address => return address_bytes(record.client.map(|client| client.ip())),
        SentHeader::V2 => {}
    }
    let id = unique_id(record);
    let mut header = Writer::proxy(endpoints);
    // The first four are short: whatever a peer chose was bounded where it was read.
    let _ = header.add(tlv::UNIQUE_ID, &id);
    add_facts(&mut header, connection, sent);
    let header = header.finish(true);
    connection.account.record.details().unique_id = Some(id);
    header
}

/// Adds what is known of the client's connection besides its addresses.
fn add_facts<R: Runtime>(header: &mut Writer, connection: &Connection<R>, sent: SentCertificate) {
    let record = &connection.account.record;
    let proxied = record.proxied();
    let session = connection.client.as_ref().and_then(|leg| leg.session());
    let certificate = session.and_then(|session| session.peer_certificates().first()).map(AsRef::as_ref);
    if let Some(name) = record.server_name.as_deref().or_else(|| proxied?.authority.as_deref()) {
        let _ = header.add(tlv::AUTHORITY, name.as_bytes());
    }
    let own_protocol = record.tls.alpn.as_deref().map(str::as_bytes);
    if let Some(protocol) = own_protocol.or_else(|| proxied?.alpn.as_deref()) {
        let _ = header.add(tlv::ALPN, protocol);
    }
    if record.tls.version.is_some() {
        add_tls(header, &record.tls, certificate, sent);
    }
    if let Some(certificate) = certificate.filter(|_| sent == SentCertificate::Hitch) {
        // One that is too large for any header is left out, as with `der`.
        let _ = header
            .add(tlv::HITCH_CLIENT_CERT, certificate_pem("TRUSTED CERTIFICATE", certificate).as_bytes());
    }
}

/// The name that a proxy in front gave to the connection, or else one of ours: 32 hexadecimal digits.
fn unique_id(record: &Record) -> Box<[u8]> {
    if let Some(id) = record.unique_id() {
        return id[..id.len().min(tlv::UNIQUE_ID_LIMIT)].into();
    }
    new_id().into_bytes().into()
}

/// Adds what TLS did with the client.
fn add_tls(header: &mut Writer, tls: &Agreed, certificate: Option<&[u8]>, sent: SentCertificate) {
    let mut client = Tls::USED;
    if certificate.is_some() {
        client |= Tls::CERTIFICATE_IN_SESSION;
        if tls.resumed != Some(true) {
            client |= Tls::CERTIFICATE_NOW;
        }
    }
    // 0 says that a certificate was there and good; a client with a bad one comes so far only where it has a place.
    // One that was not verified is not good either.
    let is_good = !matches!(tls.verdict.as_deref(), Some(Verdict::Failed { .. } | Verdict::Unverified));
    let verify = u32::from(certificate.is_none() || !is_good);
    let name = certificate.filter(|_| sent != SentCertificate::Off).and_then(common_name);
    let texts = [
        (tlv::SSL_VERSION, tls.version),
        (tlv::SSL_CIPHER, tls.suite.map(|suite| named(OPENSSL_NAMES, suite).unwrap_or(suite))),
        (tlv::SSL_KEY_ALG, tls.signature.map(|kind| named(KEY_NAMES, kind).unwrap_or(kind))),
        (tlv::SSL_GROUP, tls.group),
        (tlv::SSL_SIG_SCHEME, scheme(tls)),
        (tlv::SSL_CN, name.as_deref()),
    ];
    let texts = texts.into_iter().filter_map(|(number, text)| Some((number, text?.as_bytes())));
    let mut values: Vec<(u8, &[u8])> = texts.collect();
    if let Some(certificate) = certificate.filter(|_| sent == SentCertificate::Der) {
        values.push((tlv::SSL_CLIENT_CERT, certificate));
        if header.add_tls(client, verify, &values) {
            return;
        }
        // Too large for any header: the rest is sent nevertheless, and that there was one.
        values.pop();
    }
    let _ = header.add_tls(client, verify, &values);
}

fn scheme(tls: &Agreed) -> Option<&'static str> {
    named(SCHEMES, tls.signature.filter(|_| tls.version == Some("TLSv1.3"))?)
}

/// Suites of TLS 1.2 by OpenSSL's names, which the specification gives as its example; those of TLS 1.3 have one name.
const OPENSSL_NAMES: &[(&str, &str)] = &[
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
];

/// Kinds of keys as HAProxy writes them, whose readers are those of this header.
const KEY_NAMES: &[(&str, &str)] = &[
    ("RSA-1024", "RSA1024"),
    ("RSA-2048", "RSA2048"),
    ("RSA-3072", "RSA3072"),
    ("RSA-4096", "RSA4096"),
    ("RSA-8192", "RSA8192"),
    ("ECDSA-P256", "EC256"),
    ("ECDSA-P384", "EC384"),
    ("ECDSA-P521", "EC521"),
];

/// The scheme of our signature with TLS 1.3, where the key leaves one alone (RFC 9846 §4.3.3).
const SCHEMES: &[(&str, &str)] = &[
    ("ECDSA-P256", "ecdsa_secp256r1_sha256"),
    ("ECDSA-P384", "ecdsa_secp384r1_sha384"),
    ("ECDSA-P521", "ecdsa_secp521r1_sha512"),
    ("Ed25519", "ed25519"),
    ("ML-DSA-44", "mldsa44"),
    ("ML-DSA-65", "mldsa65"),
    ("ML-DSA-87", "mldsa87"),
];

fn named(names: &[(&str, &'static str)], ours: &str) -> Option<&'static str> {
    names.iter().find(|(known, _)| *known == ours).map(|(_, theirs)| *theirs)
}

#[cfg(test)]
mod tests {
    use handfast_pki::presented::CertificateFault;
    use handfast_wire::proxy_header::{Peek, V2_LIMIT, peek};

    use super::*;

    fn agreed() -> Agreed {
        Agreed {
            version: Some("TLSv1.2"),
            suite: Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            group: Some("x25519"),
            signature: Some("RSA-2048"),
            resumed: Some(false),
            ..Agreed::default()
        }
    }

    /// Returns the TLS part as a backend reads it: bits, the verdict, and the values.
    fn read(
        tls: &Agreed,
        certificate: Option<&[u8]>,
        sent: SentCertificate,
    ) -> (u8, u32, Vec<(u8, Vec<u8>)>) {
        let mut header = Writer::proxy(None);
        add_tls(&mut header, tls, certificate, sent);
        let bytes = header.finish(true);
        let Peek::Complete(header) = peek(&bytes, 1 << 17) else { panic!("a good header") };
        let tls = header.tls().expect("it is there");
        (tls.client, tls.verify, tls.values().map(|tlv| (tlv.number, tlv.value.to_vec())).collect())
    }

    #[test]
    fn tls_is_described_in_the_words_of_others() {
        let (client, verify, values) = read(&agreed(), None, SentCertificate::Der);
        assert_eq!((client, verify), (Tls::USED, 1), "no certificate is not a good one");
        let texts: Vec<_> = values.iter().map(|(number, text)| (*number, text.as_slice())).collect();
        let expected: [(u8, &[u8]); 4] = [
            (tlv::SSL_VERSION, b"TLSv1.2"),
            (tlv::SSL_CIPHER, b"ECDHE-RSA-AES128-GCM-SHA256"),
            (tlv::SSL_KEY_ALG, b"RSA2048"),
            (tlv::SSL_GROUP, b"x25519"),
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_certificate_is_sent_as_far_as_was_configured() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "Grüße");
        let der = parameters.self_signed(&key).expect("a certificate").der().to_vec();
        let header_read = |sent| read(&agreed(), Some(&der), sent);
        let (client, verify, values) = header_read(SentCertificate::Off);
        assert_eq!((client, verify, values.len()), (7, 0, 4));
        let (_, _, values) = header_read(SentCertificate::CommonName);
        assert_eq!((values.len(), &values[4]), (5, &(tlv::SSL_CN, "Grüße".as_bytes().to_vec())));
        let (_, _, values) = header_read(SentCertificate::Der);
        assert_eq!((values.len(), &values[5]), (6, &(tlv::SSL_CLIENT_CERT, der.clone())));
        // hitch's has its own number beside these.
        assert_eq!(header_read(SentCertificate::Hitch).2.len(), 5);
        // A failed certificate is reported as such, for backends that serve such clients.
        let words = "revoked".into();
        let verdict = Verdict::Failed { fault: CertificateFault::Revoked, words };
        let failed = Agreed { verdict: Some(Box::new(verdict)), ..agreed() };
        assert_eq!(read(&failed, Some(&der), SentCertificate::Off).1, 1);
        let unverified = Agreed { verdict: Some(Box::new(Verdict::Unverified)), ..agreed() };
        assert_eq!(read(&unverified, Some(&der), SentCertificate::Off).1, 1);
        // A certificate of an earlier connection is reported as that.
        let resumed = Agreed { resumed: Some(true), ..agreed() };
        assert_eq!(read(&resumed, Some(&der), SentCertificate::Off).0, 5);
        // One that no header has room for is left out, and nothing else.
        let (client, _, values) = read(&agreed(), Some(&vec![0; 70_000]), SentCertificate::Der);
        assert_eq!((client, values.len()), (7, 4));
    }

    #[test]
    fn the_scheme_is_sent_where_the_key_decides_it() {
        let scheme_of = |kind, version| {
            scheme(&Agreed { version: Some(version), signature: Some(kind), ..Agreed::default() })
        };
        for (kind, name) in [
            ("ECDSA-P256", "ecdsa_secp256r1_sha256"),
            ("ECDSA-P384", "ecdsa_secp384r1_sha384"),
            ("ECDSA-P521", "ecdsa_secp521r1_sha512"),
            ("Ed25519", "ed25519"),
            ("ML-DSA-44", "mldsa44"),
            ("ML-DSA-65", "mldsa65"),
            ("ML-DSA-87", "mldsa87"),
        ] {
            assert_eq!(scheme_of(kind, "TLSv1.3"), Some(name));
        }
        assert_eq!(scheme_of("ECDSA-P256", "TLSv1.2"), None);
        assert_eq!(scheme_of("RSA-2048", "TLSv1.3"), None);
        assert_eq!((named(KEY_NAMES, "ECDSA-P256"), named(KEY_NAMES, "Ed25519")), (Some("EC256"), None));
        assert_eq!(named(OPENSSL_NAMES, "TLS_AES_128_GCM_SHA256"), None, "it has one name");
        assert_eq!(V2_LIMIT, 4_096, "what another of us takes");
    }
}
