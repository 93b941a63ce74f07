//! Keys and certificates of an experiment: an authority, the proxy's certificate and another for the same name, clients' own.
//!
//! In: nothing. Out: PEM, as text to be written where the proxy reads it, and what the laboratory's own ends need.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_tls::certificate::Certificate;
use handfast_tls::client::{Client, ClientSettings, Identity, Verification};
use handfast_tls::policy;
use handfast_tls::server::{Server, ServerSettings};
use handfast_tls::store::{CertificateStore, Resolver, UnknownName};
use handfast_tls::ticket::{TicketKeys, TicketSettings};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::trouble::{Trouble, lab};

/// The name that certificates are for.
pub(crate) const NAME: &str = "localhost";
/// Certificates between a hostile client's own and the authority.
const LONG: usize = 100;
const HOUR: Duration = Duration::from_secs(3600);

/// What all experiments share.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// The authority that all peers trust.
    pub(crate) ca: String,
    /// Certificate and key of the proxy.
    pub(crate) web: String,
    /// Its certificate alone.
    pub(crate) web_alone: String,
    /// Another certificate for the same name, with its key.
    pub(crate) other: String,
    /// The key of the other one.
    pub(crate) other_key: String,
    /// Chain and key of a client whose chain is absurdly long.
    pub(crate) long: (String, String),
}

impl Certificates {
    /// Makes them.
    ///
    /// **Cost**: a hundred signatures.
    pub(crate) fn make() -> Result<Self, Trouble> {
        make().map_err(lab("make certificates"))
    }

    /// A client of the laboratory's own, which trusts the authority.
    pub(crate) fn client(&self, identity: Option<&(String, String)>) -> Result<Client, Trouble> {
        let settings = ClientSettings {
            server_name: Some(NAME.to_owned()),
            verification: Verification::Roots(self.ca.clone().into_bytes()),
            identity: identity.map(|(chain, key)| Identity::Pem(chain.clone().into(), key.clone().into())),
            ..ClientSettings::default()
        };
        Client::new(&settings, NAME).map_err(|failure| Trouble::Lab(failure.detail.into()))
    }

    /// What the laboratory's own backends answer hellos with.
    pub(crate) fn server(&self) -> Result<Arc<Server>, Trouble> {
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let (certificate, _) = Certificate::from_pem(self.web.as_bytes(), Path::new("web.pem"), seconds);
        let wrong = |what: &str| Trouble::Lab(format!("make a TLS server: {what}"));
        let certificate = certificate.ok_or_else(|| wrong("its certificate"))?;
        let (store, _) = CertificateStore::new(vec![Arc::new(certificate)], seconds);
        let settings = ServerSettings {
            policy: policy::resolve(policy::DEFAULT, None, None, None).map_err(|_| wrong("its policy"))?,
            resolver: Arc::new(Resolver::new(Arc::new(store), UnknownName::First)),
            client_certificates: None,
            alpn: Vec::new(),
            tickets_per_handshake: 1,
            ticket_lifetime: HOUR,
            scope: "lab".into(),
        };
        let keys = TicketKeys::random(now, TicketSettings { rotate: HOUR, lifetime: HOUR })
            .map_err(|error| wrong(&error.to_string()))?;
        Server::new(settings, keys.keys()).map(Arc::new).map_err(|failure| wrong(&failure.detail))
    }
}

fn make() -> Result<Certificates, rcgen::Error> {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok::<_, rcgen::Error>(params)
    };
    let leaf = |issuer: &Issuer<'_, KeyPair>, name: &str| {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, issuer)?.pem();
        Ok::<_, rcgen::Error>((certificate, key.serialize_pem()))
    };
    let (key, params) = (KeyPair::generate()?, authority("Handfast lab")?);
    let ca = params.self_signed(&key)?.pem();
    let root = Issuer::new(params, key);
    let (web_alone, web_key) = leaf(&root, NAME)?;
    let (other, other_key) = leaf(&root, NAME)?;
    let mut above = root;
    let mut chain = String::new();
    for number in 0..LONG {
        let (key, params) = (KeyPair::generate()?, authority(&format!("Handfast lab, number {number}"))?);
        chain = format!("{}{chain}", params.signed_by(&key, &above)?.pem());
        above = Issuer::new(params, key);
    }
    let (long, long_key) = leaf(&above, "client.example")?;
    Ok(Certificates {
        ca,
        web: format!("{web_alone}{web_key}"),
        other: format!("{other}{other_key}"),
        web_alone,
        other_key,
        long: (format!("{long}{chain}"), long_key),
    })
}
