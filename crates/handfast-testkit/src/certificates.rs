//! An authority for all tests of a run, and certificates for names. Keys that are dear (RSA) are made once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, NameConstraints,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;

/// Certificate authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub certificate: CertificateDer<'static>,
    /// The same as PEM, to be trusted by clients.
    pub pem: String,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Identity {
    /// The certificate as PEM.
    pub certificate_pem: String,
    /// The key as PEM (PKCS #8).
    pub key_pem: String,
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The key (PKCS #8).
    pub key: Vec<u8>,
    serial: SerialNumber,
}

impl Identity {
    /// Chain and key in one PEM.
    pub fn combined(&self) -> String {
        format!("{}{}", self.certificate_pem, self.key_pem)
    }
}

/// Kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    Ecdsa,
    /// RSA with 2048 bits.
    Rsa,
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let key = new_key(KeyKind::Ecdsa);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let signed = params.self_signed(&key).expect("an authority may sign itself");
        let (certificate, pem) = (signed.der().clone(), signed.pem());
        Self { issuer: Issuer::new(params, key), certificate, pem }
    }

    /// Certificates of CAs that all have one name, `name`, and share three keys; each is signed by one of them. With them
    /// comes a client's that one of them signed.
    ///
    /// There is no end to the orders in which they may follow each other.
    pub fn tangle(name: &str, count: usize) -> (Identity, Vec<CertificateDer<'static>>) {
        let authorities = [Self::new(name), Self::new(name), Self::new(name)];
        let certificates = (0..count).map(|number| {
            let (of, by) = (&authorities[number % 3], &authorities[(number / 3 + number + 1) % 3]);
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let signed =
                params.signed_by(of.issuer.key(), &by.issuer).expect("an authority may sign another");
            signed.der().clone()
        });
        let certificates = certificates.collect();
        (authorities[0].identity(&["client.example"], KeyKind::Ecdsa), certificates)
    }

    /// A client's certificate below so many CAs, each signed by the one above it and the topmost by this one. Each of them
    /// constrains names `constraints` times, and the client has as many names, which all agree with them.
    pub fn ladder(&self, height: usize, constraints: usize) -> (Identity, Vec<CertificateDer<'static>>) {
        let mut above: Vec<(CertificateDer<'static>, Issuer<'static, KeyPair>)> = Vec::new();
        for step in 0..height {
            let key = new_key(KeyKind::Ecdsa);
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, format!("step {step}"));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            if constraints > 0 {
                // The one that fits is the last one that is looked at.
                let others =
                    (1..constraints).map(|number| GeneralSubtree::DnsName(format!("n{number}.example")));
                let permitted_subtrees =
                    others.chain([GeneralSubtree::DnsName("c.test".to_owned())]).collect();
                params.name_constraints =
                    Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
            }
            let by = above.last().map_or(&self.issuer, |(_, issuer)| issuer);
            let signed = params.signed_by(&key, by).expect("an authority may sign another");
            let certificate = signed.der().clone();
            above.push((certificate, Issuer::new(params, key)));
        }
        let names: Vec<String> = (0..constraints.max(1)).map(|number| format!("{number}.c.test")).collect();
        let mut params = CertificateParams::new(names).expect("tests use well-formed names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let by = above.last().map_or(&self.issuer, |(_, issuer)| issuer);
        let identity = Self::signed(params, &new_key(KeyKind::Ecdsa), by);
        (identity, above.into_iter().rev().map(|(certificate, _)| certificate).collect())
    }

    /// A certificate for some names, good from 2020 to 2099.
    pub fn identity(&self, names: &[&str], kind: KeyKind) -> Identity {
        self.identity_between(names, kind, 2020, 2099)
    }

    /// A certificate with a common name and, if there is one, a URI.
    pub fn identity_called(&self, common_name: &str, uri: Option<&str>) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let uri = uri.map(|uri| SanType::URI(uri.try_into().expect("tests use well-formed names")));
        params.subject_alt_names.extend(uri);
        self.sign(params, &new_key(KeyKind::Ecdsa))
    }

    /// A list of revoked certificates, good from now on for so many days; PEM.
    pub fn revocation_list(&self, revoked: &[&Identity], days: u64) -> String {
        let now = SystemTime::now();
        let entry = |identity: &&Identity| RevokedCertParams {
            serial_number: identity.serial.clone(),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: (now + Duration::from_secs(days * 86_400)).into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("the authority may sign lists");
        list.pem().expect("it is written as PEM")
    }

    /// A certificate that is good from one new year to another.
    pub fn identity_between(&self, names: &[&str], kind: KeyKind, from: i32, to: i32) -> Identity {
        self.identity_of(names, &new_key(kind), from, to)
    }

    /// A certificate for a key that is there already, RSA in PEM (PKCS #8).
    pub fn identity_with(&self, names: &[&str], key: &str) -> Identity {
        let key = KeyPair::from_pem_and_sign_algo(key, &PKCS_RSA_SHA256).expect("the library reads it");
        self.identity_of(names, &key, 2020, 2099)
    }

    /// A certificate that is good between two moments.
    pub fn identity_valid(&self, names: &[&str], from: SystemTime, to: SystemTime) -> Identity {
        let (mut params, key) = (params_for(names), new_key(KeyKind::Ecdsa));
        (params.not_before, params.not_after) = (from.into(), to.into());
        self.sign(params, &key)
    }

    fn identity_of(&self, names: &[&str], key: &KeyPair, from: i32, to: i32) -> Identity {
        let mut params = params_for(names);
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, key)
    }

    fn sign(&self, params: CertificateParams, key: &KeyPair) -> Identity {
        Self::signed(params, key, &self.issuer)
    }

    fn signed(mut params: CertificateParams, key: &KeyPair, by: &Issuer<'static, KeyPair>) -> Identity {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let serial = SerialNumber::from(NEXT.fetch_add(1, Ordering::Relaxed));
        params.serial_number = Some(serial.clone());
        let signed = params.signed_by(key, by).expect("the authority may sign");
        Identity {
            serial,
            certificate_pem: signed.pem(),
            key_pem: key.serialize_pem(),
            certificate: signed.der().clone(),
            key: key.serialize_der(),
        }
    }
}

fn params_for(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    CertificateParams::new(names).expect("tests use well-formed names")
}

fn new_key(kind: KeyKind) -> KeyPair {
    let made = match kind {
        KeyKind::Ecdsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        KeyKind::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
    };
    made.expect("the library makes such keys")
}

/// The authority that every client here trusts.
pub fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("Handfast tests"))
}

/// A certificate for `localhost` with an ECDSA key.
pub fn localhost() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| authority().identity(&["localhost"], KeyKind::Ecdsa))
}

/// A certificate for `localhost` with an RSA key.
pub fn localhost_rsa() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| authority().identity(&["localhost"], KeyKind::Rsa))
}
