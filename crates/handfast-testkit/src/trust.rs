//! Settings of a test's TLS client: its offers, its trust anchors and its sessions. In: a few choices. Out: rustls' configuration.

use std::sync::Arc;

use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, NamedGroup, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};

use crate::certificates::{Authority, Identity, authority};

/// The two versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2
    Tls12,
    /// TLS 1.3
    Tls13,
}

impl Version {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Tls12, Self::Tls13];

    /// As rustls has it.
    pub fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// A client's choices; sessions are remembered by every client made from one configuration.
#[derive(Clone)]
pub struct Trust {
    versions: Vec<&'static SupportedProtocolVersion>,
    post_quantum_first: bool,
    identity: Option<Identity>,
    above: Vec<CertificateDer<'static>>,
    protocols: Vec<Vec<u8>>,
    authority: CertificateDer<'static>,
    memory: Memory,
}

/// Sessions that a client offers to resume.
#[derive(Clone, Copy)]
enum Memory {
    /// None: every handshake is a full one.
    Forgetful,
    /// Those that the same name gave it.
    Usual,
    /// Any, to any name.
    Careless,
}

impl Trust {
    /// One version, the authority of the tests, tickets remembered.
    pub fn version(version: Version) -> Self {
        Self { versions: vec![version.supported()], ..Self::any_version() }
    }

    /// Both versions, the authority of the tests, tickets remembered.
    pub fn any_version() -> Self {
        let authority = authority().certificate.clone();
        Self {
            versions: Version::BOTH.map(Version::supported).to_vec(),
            post_quantum_first: false,
            identity: None,
            above: Vec::new(),
            protocols: Vec::new(),
            authority,
            memory: Memory::Usual,
        }
    }

    /// Sends the large key share of X25519MLKEM768 in the hello.
    pub fn post_quantum(mut self) -> Self {
        self.post_quantum_first = true;
        self
    }

    /// Trusts another authority than that of the tests.
    pub fn trusting(mut self, other: &Authority) -> Self {
        self.authority = other.certificate.clone();
        self
    }

    /// Trusts a certificate in PEM instead of the authority of the tests.
    pub fn trusting_pem(mut self, pem: &str) -> Self {
        self.authority = CertificateDer::from_pem_slice(pem.as_bytes()).expect("it is PEM");
        self
    }

    /// Offers any session to any name, as an attacker would.
    pub fn careless(mut self) -> Self {
        self.memory = Memory::Careless;
        self
    }

    /// Resumes no session.
    pub fn forgetful(mut self) -> Self {
        self.memory = Memory::Forgetful;
        self
    }

    /// Shows a certificate when asked.
    pub fn showing(mut self, identity: &Identity) -> Self {
        self.identity = Some(identity.clone());
        self
    }

    /// Sends these behind its own certificate, whether they belong there or not.
    pub fn sending(mut self, above: Vec<CertificateDer<'static>>) -> Self {
        self.above = above;
        self
    }

    /// Offers an application protocol.
    pub fn protocol(mut self, name: &str) -> Self {
        self.protocols.push(name.as_bytes().to_vec());
        self
    }

    /// The configuration.
    #[expect(
        clippy::disallowed_methods,
        reason = "this client is the tests' own, and shares no policy with the program"
    )]
    pub fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).expect("the authority is well-formed");
        let builder = ClientConfig::builder_with_provider(Arc::new(self.provider()))
            .with_protocol_versions(&self.versions)
            .expect("the provider has suites for both versions")
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.clone()));
                let mut chain = vec![identity.certificate.clone()];
                chain.extend_from_slice(&self.above);
                builder.with_client_auth_cert(chain, key).expect("the key fits its certificate")
            }
        };
        config.resumption = match self.memory {
            Memory::Forgetful => Resumption::disabled(),
            Memory::Usual => Resumption::in_memory_sessions(256),
            Memory::Careless => Resumption::store(Arc::new(AnyName(ClientSessionMemoryCache::new(8)))),
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config)
    }

    fn provider(&self) -> CryptoProvider {
        let mut provider = aws_lc_rs::default_provider();
        let group = match self.post_quantum_first {
            true => aws_lc_rs::kx_group::X25519MLKEM768,
            false => aws_lc_rs::kx_group::X25519,
        };
        provider.kx_groups.retain(|known| known.name() != group.name());
        provider.kx_groups.insert(0, group);
        provider
    }
}

/// Remembers sessions without looking at the name they are for.
#[derive(Debug)]
struct AnyName(ClientSessionMemoryCache);

fn one_name() -> ServerName<'static> {
    ServerName::try_from("any.example").expect("it is well-formed")
}

impl ClientSessionStore for AnyName {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(one_name(), group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(&one_name())
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(one_name(), value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(&one_name())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.remove_tls12_session(&one_name());
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(one_name(), value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&one_name())
    }
}
