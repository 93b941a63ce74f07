//! A certificate to try things with: no files needed, and nothing left to steal.
//!
//! In: perhaps a host name. Out: a CA's certificate for clients to trust, and a certificate that it signed. The CA's key is
//! forgotten before [`make`] returns, so trusting this CA trusts one certificate and never another.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use x509_parser::time::ASN1Time;

use crate::certificate::Certificate;
use crate::unix_time::date;
use crate::unix_time::unix_seconds;

/// Validity in seconds: 30 days.
const VALIDITY: i64 = 30 * 86_400;

/// Valid from an hour ago on, for clients whose clocks are slow.
const CLOCK_SLACK: i64 = 3_600;

/// A local CA that signed once and forgot its key, and what it signed.
#[derive(Debug)]
pub struct Throwaway {
    /// The CA's certificate, for clients to trust.
    pub ca_pem: String,
    /// The certificate to serve: ECDSA P-256, 30 days.
    pub certificate: Arc<Certificate>,
}

/// Reason why the certificate could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrowawayError {
    /// The names that it was for.
    pub host: String,
    /// Error of the certificate generator.
    pub what: String,
}

impl fmt::Display for ThrowawayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "make throwaway certificate for {:?}: {}", self.host, self.what)
    }
}

impl std::error::Error for ThrowawayError {}

/// Makes one for `localhost`, `127.0.0.1`, `::1`, and `host` (a DNS name or an IP address) if given.
///
/// **Errors**: for a host that is neither.
///
/// **Cost**: two ECDSA keys and two signatures: below a millisecond.
pub fn make(host: Option<&str>, now: SystemTime) -> Result<Throwaway, ThrowawayError> {
    let names = names(host);
    let failed = |what: String| ThrowawayError { host: names.join(", "), what };
    let (ca_pem, pem) = sign(&names, unix_seconds(now)).map_err(|error| failed(error.to_string()))?;
    let (certificate, findings) =
        Certificate::from_pem(pem.as_bytes(), Path::new("(throwaway)"), unix_seconds(now));
    let what = || findings.first().map_or_else(String::new, ToString::to_string);
    let certificate = certificate.ok_or_else(|| failed(what()))?;
    Ok(Throwaway { ca_pem, certificate: Arc::new(certificate) })
}

fn names(host: Option<&str>) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    // An IPv6 address may come in the brackets it has in a URL.
    let host = host.map(|host| host.trim_start_matches('[').trim_end_matches(']'));
    names.extend(host.map(str::to_owned).filter(|host| !names.contains(host)));
    names
}

/// The CA's certificate, and the chain and key to serve, both in PEM.
fn sign(names: &[String], now: i64) -> Result<(String, String), rcgen::Error> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    dates(&mut ca, now);
    // The time distinguishes several of them in a client's list.
    ca.distinguished_name.push(DnType::CommonName, format!("Handfast throwaway CA of {}", date(now)));
    // It signs server certificates itself and no other CA.
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = ca.self_signed(&ca_key)?;

    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(names.to_vec())?;
    dates(&mut leaf, now);
    leaf.distinguished_name.push(DnType::CommonName, "Handfast throwaway certificate");
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let certificate = leaf.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;
    Ok((ca_certificate.pem(), certificate.pem() + &key.serialize_pem()))
}

fn dates(params: &mut CertificateParams, now: i64) {
    // A clock so wrong that these are no dates leaves rcgen's own, which are valid from 1975 to 4096.
    let from = ASN1Time::from_timestamp(now.saturating_sub(CLOCK_SLACK));
    let to = ASN1Time::from_timestamp(now.saturating_add(VALIDITY));
    if let (Ok(from), Ok(to)) = (from, to) {
        params.not_before = from.to_datetime();
        params.not_after = to.to_datetime();
    }
}

/// Returns true if `host` can be in a certificate: a DNS name or an IP address.
pub fn is_host(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || rustls_pki_types::DnsName::try_from(host).is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Verifies the certificate for a name at a time, as a client that trusts the CA.
    fn verify(made: &Throwaway, name: &str, seconds: u64) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(made.ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), provider.into()).build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let chain = made.certificate.chain();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], now).map(|_| ())
    }

    #[test]
    fn a_client_that_trusts_the_ca_accepts_it_for_its_names_and_its_time_only() {
        let now = 1_793_534_400;
        let made = make(Some("box.example.org"), at(now)).unwrap();
        for name in ["localhost", "127.0.0.1", "::1", "box.example.org"] {
            verify(&made, name, now).unwrap();
        }
        verify(&made, "other.example.org", now).unwrap_err();
        verify(&made, "localhost", now + 29 * 86_400).unwrap();
        verify(&made, "localhost", now + 31 * 86_400).unwrap_err();
        verify(&made, "localhost", now - 7_200).unwrap_err();
        assert_eq!(made.certificate.kind(), "ECDSA-P256");
    }

    #[test]
    fn no_two_are_alike() {
        let (one, other) = (make(None, at(0)).unwrap(), make(None, at(0)).unwrap());
        assert_ne!(one.ca_pem, other.ca_pem);
        assert_ne!(one.certificate.chain(), other.certificate.chain());
    }

    #[test]
    fn a_host_may_be_an_address_and_must_be_something() {
        let made = make(Some("[2001:db8::7]"), at(0)).unwrap();
        assert!(made.certificate.ip_names().contains(&"2001:db8::7".parse().unwrap()));
        assert_eq!(make(Some("localhost"), at(0)).unwrap().certificate.dns_names().len(), 1);
        assert!(is_host("a.example.org") && is_host("10.0.0.7") && !is_host("a b"));
    }
}
