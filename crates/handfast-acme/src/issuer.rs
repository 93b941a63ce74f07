//! A real issuer, asked through `instant-acme`: accounts, orders, challenges, suggestions (ARI), revocation.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use handfast_pki::files::read_text;
use handfast_text::foreign::excerpt;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType,
    Error as AcmeError, ExternalAccountKey, Key, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
    RevocationRequest,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use crate::authority::{Authority, Challenge};
use crate::error::Error;
use crate::jws::{AccountKey, AccountSigner, key_authorization};
use crate::keys::RemoteAccount;
use crate::model::{ChallengeKind, ExternalAccount, Issuer};
use crate::name::Name;
use crate::store::Store;
use crate::transport::Transport;

/// Timeout for an issuer to check a challenge, or to sign.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of a file with the key of an account that was made elsewhere.
const MAX_KEY_BYTES: u64 = 16 << 10;

/// An account as it is stored. The key is stored before the account is made, so that a process which was killed asks for the same one.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    /// The key, PKCS#8 in base64url; empty where the library does not have it.
    key: String,
    /// Credentials of the account for the library; `None`: it was not made yet.
    account: Option<AccountCredentials>,
    /// The URL of an account whose key the library does not have; `None`: it was not made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Its key, DER in base64url; `None`: it is in the key process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_key: Option<String>,
}

impl StoredAccount {
    fn new(key: &[u8], account: Option<AccountCredentials>) -> Self {
        Self { key: BASE64URL_NOPAD.encode(key), account, url: None, own_key: None }
    }
}

/// Stores an account that was made elsewhere, with its key unless that is in the key process.
///
/// **Errors**: the file cannot be written.
pub(crate) fn store_account(
    store: &Store,
    directory: &str,
    url: &str,
    key: Option<&AccountKey>,
) -> Result<(), Error> {
    let own_key = key.map(|key| BASE64URL_NOPAD.encode(key.der()));
    let stored = StoredAccount { key: String::new(), account: None, url: Some(url.to_owned()), own_key };
    store.save_account(directory, &stored)
}

/// An account with an issuer.
pub(crate) struct Connected {
    account: Account,
    transport: Transport,
    signer: Option<Arc<dyn AccountSigner>>,
    profile: Option<String>,
    order: Option<Order>,
    store: Store,
    directory: String,
}

impl Connected {
    /// Opens the account with the issuer of a directory (its own, or its staging one), and makes it where there is none.
    ///
    /// **Errors**: the issuer refuses or cannot be reached; the store cannot be read or written.
    pub(crate) async fn open(
        issuer: &Issuer,
        directory: &str,
        contact: &[String],
        store: &Store,
    ) -> Result<Self, Error> {
        let transport = Transport::new(issuer.ca.as_deref(), directory)?;
        let stored: Option<StoredAccount> = store.account(directory)?;
        if let Some(signer) = signer(stored.as_ref(), directory, store)? {
            return Self::open_signed(issuer, directory, contact, store, (stored, signer)).await;
        }
        let account = match stored {
            Some(StoredAccount { account: Some(account), .. }) => {
                Account::builder_with_http(Box::new(transport.clone())).from_credentials(account).await
            }
            unfinished => {
                return Self::register(issuer, directory, contact, store, unfinished, transport).await;
            }
        };
        let account = account.map_err(|error| failed("open the account", &error, &transport))?;
        Ok(Self::with(account, transport, issuer, directory, store))
    }

    /// The same with a key that the library does not have: it signs with a throwaway key, and the transport signs again.
    async fn open_signed(
        issuer: &Issuer,
        directory: &str,
        contact: &[String],
        store: &Store,
        (stored, signer): (Option<StoredAccount>, Arc<dyn AccountSigner>),
    ) -> Result<Self, Error> {
        let binding = issuer.external.as_ref().map(binding_key).transpose()?;
        let transport =
            Transport::new(issuer.ca.as_deref(), directory)?.signed_by(Arc::clone(&signer), binding);
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let account = if let Some(StoredAccount { url: Some(url), .. }) = &stored {
            let (_, throwaway) = Key::generate_pkcs8().map_err(Error::key)?;
            let opened = builder.from_parts(url.clone(), throwaway, directory.to_owned()).await;
            opened.map_err(|error| failed("open the account", &error, &transport))?
        } else {
            let contact: Vec<String> = contact.iter().map(|address| format!("mailto:{address}")).collect();
            let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
            let new =
                NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
            let external = issuer.external.as_ref().map(external_key).transpose()?;
            let made = builder.create(&new, directory.to_owned(), external.as_ref()).await;
            let (account, _) = made.map_err(|error| failed("make an account", &error, &transport))?;
            let own_key = stored.and_then(|stored| stored.own_key);
            let url = Some(account.id().to_owned());
            store.save_account(
                directory,
                &StoredAccount { key: String::new(), account: None, url, own_key },
            )?;
            tracing::info!("acme: account {} at {directory}", excerpt(account.id()));
            account
        };
        let mut opened = Self::with(account, transport, issuer, directory, store);
        opened.signer = Some(signer);
        Ok(opened)
    }

    async fn register(
        issuer: &Issuer,
        directory: &str,
        contact: &[String],
        store: &Store,
        unfinished: Option<StoredAccount>,
        transport: Transport,
    ) -> Result<Self, Error> {
        let pkcs8 = match unfinished {
            Some(known) => BASE64URL_NOPAD.decode(known.key.as_bytes()).map_err(Error::key)?,
            None => {
                let (_, pkcs8) = Key::generate_pkcs8().map_err(Error::key)?;
                store.save_account(directory, &StoredAccount::new(pkcs8.secret_pkcs8_der(), None))?;
                pkcs8.secret_pkcs8_der().to_vec()
            }
        };
        let contact: Vec<String> = contact.iter().map(|address| format!("mailto:{address}")).collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let made = match &issuer.external {
            // The library makes the key itself then; it is stored with the account.
            Some(external) => {
                let external = external_key(external)?;
                let new = NewAccount {
                    contact: &contact,
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                builder.create(&new, directory.to_owned(), Some(&external)).await
            }
            None => {
                let der = PrivatePkcs8KeyDer::from(pkcs8.clone());
                let account_key = Key::from_pkcs8_der(der.clone_key()).map_err(Error::key)?;
                builder.create_from_key((account_key, PrivateKeyDer::Pkcs8(der)), directory.to_owned()).await
            }
        };
        let (account, credentials) = made.map_err(|error| failed("make an account", &error, &transport))?;
        if issuer.external.is_none() && !contact.is_empty() {
            let outcome = account.update_contacts(&contact).await;
            outcome.map_err(|error| failed("set the contact of the account", &error, &transport))?;
        }
        store.save_account(directory, &StoredAccount::new(&pkcs8, Some(credentials)))?;
        tracing::info!("acme: account {} at {directory}", excerpt(account.id()));
        Ok(Self::with(account, transport, issuer, directory, store))
    }

    fn with(account: Account, transport: Transport, issuer: &Issuer, directory: &str, store: &Store) -> Self {
        let (store, directory) = (store.clone(), directory.to_owned());
        Self {
            account,
            transport,
            signer: None,
            profile: issuer.profile.clone(),
            order: None,
            store,
            directory,
        }
    }

    /// Forgets the account, and keeps its key: the issuer does not know it any more, and the next try makes it again.
    fn forget_account(&self) -> Result<(), Error> {
        let stored: Option<StoredAccount> = self.store.account(&self.directory)?;
        let Some(stored) = stored else { return Ok(()) };
        self.store.save_account(&self.directory, &StoredAccount { account: None, url: None, ..stored })
    }

    /// The window in which the issuer suggests to renew a certificate (DER), and when to ask again in seconds; `None`: the issuer suggests
    /// nothing.
    ///
    /// **Errors**: the issuer's answer is none.
    pub(crate) async fn suggestion(&self, leaf: &[u8]) -> Result<Option<((i64, i64), i64)>, Error> {
        let leaf = CertificateDer::from(leaf);
        let Ok(identifier) = CertificateIdentifier::try_from(&leaf) else { return Ok(None) };
        match self.account.renewal_info(&identifier).await {
            Ok((info, again)) => {
                let window = info.suggested_window;
                let again = i64::try_from(again.as_secs()).unwrap_or(i64::MAX);
                Ok(Some(((window.start.unix_timestamp(), window.end.unix_timestamp()), again)))
            }
            Err(AcmeError::Unsupported(_)) => Ok(None),
            Err(error) => Err(failed("ask when to renew", &error, &self.transport)),
        }
    }

    /// Revokes a certificate (DER). **Errors**: the issuer refuses or cannot be reached.
    pub(crate) async fn revoke(&self, leaf: &[u8]) -> Result<(), Error> {
        let request = RevocationRequest { certificate: &CertificateDer::from(leaf), reason: None };
        self.account.revoke(&request).await.map_err(|error| failed("revoke", &error, &self.transport))
    }

    fn present(&mut self) -> Result<&mut Order, Error> {
        self.order.as_mut().ok_or(Error::NoOrder)
    }
}

impl Authority for Connected {
    async fn order(&mut self, name: &Name, replaces: Option<&[u8]>) -> Result<String, Error> {
        let identifiers = [name.identifier()];
        let new = || {
            let new = NewOrder::new(&identifiers);
            match &self.profile {
                Some(profile) => new.profile(profile),
                None => new,
            }
        };
        let leaf = replaces.map(CertificateDer::from);
        let replaced = leaf.as_ref().and_then(|leaf| CertificateIdentifier::try_from(leaf).ok());
        let outcome = match replaced {
            // An issuer that does not know the certificate, or has replaced it already, refuses only the hint.
            Some(replaced) => match self.account.new_order(&new().replaces(replaced)).await {
                Err(AcmeError::Unsupported(_)) => self.account.new_order(&new()).await,
                Err(AcmeError::Api(problem)) if is_about_replacing(problem.r#type.as_deref()) => {
                    self.account.new_order(&new()).await
                }
                outcome => outcome,
            },
            None => self.account.new_order(&new()).await,
        };
        if let Err(AcmeError::Api(problem)) = &outcome
            && problem.r#type.as_deref().is_some_and(|kind| kind.ends_with(":accountDoesNotExist"))
        {
            self.forget_account()?;
        }
        let order = outcome.map_err(|error| failed("order", &error, &self.transport))?;
        let url = order.url().to_owned();
        self.order = Some(order);
        Ok(url)
    }

    async fn resume(&mut self, url: &str) -> Result<(), Error> {
        let outcome = self.account.order(url.to_owned()).await;
        let mut order = outcome.map_err(|error| failed("look at the order", &error, &self.transport))?;
        if order.state().status == OrderStatus::Invalid {
            return Err(Error::Issuer {
                act: "go on with the order",
                what: "it is invalid".to_owned(),
                pause: None,
            });
        }
        self.order = Some(order);
        Ok(())
    }

    async fn challenges(&mut self, kinds: &[ChallengeKind]) -> Result<Vec<Challenge>, Error> {
        let (transport, signer) = (self.transport.clone(), self.signer.clone());
        let mut authorizations = self.present()?.authorizations();
        let mut challenges = Vec::new();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization =
                authorization.map_err(|error| failed("look at the challenges", &error, &transport))?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let kind = chosen(kinds, &authorization.challenges)?;
            let Some(challenge) = authorization.challenge(type_of(kind)) else { continue };
            let (authorization, digest) = match &signer {
                Some(signer) => key_authorization(&**signer, &challenge.token),
                None => {
                    let authorization = challenge.key_authorization();
                    (authorization.as_str().to_owned(), authorization.digest().as_ref().to_vec())
                }
            };
            challenges.push(Challenge { kind, token: challenge.token.clone(), authorization, digest });
        }
        Ok(challenges)
    }

    async fn verdict(&mut self, kinds: &[ChallengeKind]) -> Result<(), Error> {
        let transport = self.transport.clone();
        let order = self.present()?;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization =
                authorization.map_err(|error| failed("look at the challenges", &error, &transport))?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let kind = chosen(kinds, &authorization.challenges)?;
            if let Some(mut challenge) = authorization.challenge(type_of(kind)) {
                let outcome = challenge.set_ready().await;
                outcome.map_err(|error| failed("have the challenge looked at", &error, &transport))?;
            }
        }
        if matches!(order.state().status, OrderStatus::Valid | OrderStatus::Processing | OrderStatus::Ready) {
            return Ok(());
        }
        let retries = RetryPolicy::new().timeout(TIMEOUT);
        match order.poll_ready(&retries).await {
            Ok(OrderStatus::Ready) => Ok(()),
            Ok(_) => Err(refused(order, &transport).await),
            Err(error) => Err(failed("prove the name", &error, &transport)),
        }
    }

    async fn finalize(&mut self, request: &[u8]) -> Result<(), Error> {
        let transport = self.transport.clone();
        let order = self.present()?;
        if matches!(order.state().status, OrderStatus::Valid | OrderStatus::Processing) {
            return Ok(());
        }
        order.finalize_csr(request).await.map_err(|error| failed("finalize the order", &error, &transport))
    }

    async fn certificate(&mut self) -> Result<String, Error> {
        let transport = self.transport.clone();
        let retries = RetryPolicy::new().timeout(TIMEOUT);
        let outcome = self.present()?.poll_certificate(&retries).await;
        outcome.map_err(|error| failed("fetch the certificate", &error, &transport))
    }
}

/// Returns the reason why an order was refused: the issuer's errors about a challenge.
async fn refused(order: &mut Order, transport: &Transport) -> Error {
    let mut authorizations = order.authorizations();
    let mut found = Vec::new();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        found.extend(errors.map(ToString::to_string));
    }
    let what = if found.is_empty() { "it was not accepted".to_owned() } else { found.join("; ") };
    Error::Issuer { act: "prove the name", what, pause: transport.pause() }
}

fn chosen(kinds: &[ChallengeKind], offered: &[instant_acme::Challenge]) -> Result<ChallengeKind, Error> {
    let is_offered =
        |kind: &&ChallengeKind| offered.iter().any(|challenge| challenge.r#type == type_of(**kind));
    kinds.iter().find(is_offered).copied().ok_or_else(|| {
        let offered = offered.iter().map(|challenge| match &challenge.r#type {
            ChallengeType::Http01 => "http-01".to_owned(),
            ChallengeType::Dns01 => "dns-01".to_owned(),
            ChallengeType::TlsAlpn01 => "tls-alpn-01".to_owned(),
            ChallengeType::Unknown(word) => word.clone(),
            _ => "another".to_owned(),
        });
        Error::NoChallenge { offered: offered.collect() }
    })
}

fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
        ChallengeKind::DnsPersist01 => ChallengeType::Unknown(kind.word().to_owned()),
    }
}

/// RFC 9773 §5 and §7.4: `alreadyReplaced`; older servers answer `malformed` or `conflict` to a certificate that they do not know.
fn is_about_replacing(kind: Option<&str>) -> bool {
    let word = kind.and_then(|kind| kind.rsplit(':').next());
    matches!(word, Some("alreadyReplaced" | "malformed" | "conflict" | "unauthorized"))
}

/// Returns the signer for requests of an account, if that is not the library itself.
fn signer(
    stored: Option<&StoredAccount>,
    directory: &str,
    store: &Store,
) -> Result<Option<Arc<dyn AccountSigner>>, Error> {
    if let Some(keys) = store.keys() {
        return Ok(Some(Arc::new(RemoteAccount::open(keys, directory)?)));
    }
    let Some(own_key) = stored.and_then(|stored| stored.own_key.as_ref()) else { return Ok(None) };
    let failed = |source| Error::AccountKey { directory: directory.to_owned(), source };
    let der = BASE64URL_NOPAD.decode(own_key.as_bytes()).map_err(|error| failed(error.into()))?;
    Ok(Some(Arc::new(AccountKey::from_der(&der).map_err(|error| failed(error.into()))?)))
}

fn external_key(external: &ExternalAccount) -> Result<ExternalAccountKey, Error> {
    Ok(ExternalAccountKey::new(external.id.clone(), &binding_key(external)?))
}

fn binding_key(external: &ExternalAccount) -> Result<Vec<u8>, Error> {
    let path = &external.key_file;
    let text = read_text(path, MAX_KEY_BYTES).map_err(Error::store("read", path))?;
    let key = BASE64URL_NOPAD.decode(text.trim().trim_end_matches('=').as_bytes());
    key.map_err(|error| Error::Malformed {
        path: path.clone(),
        what: format!("expected a key in base64url: {error}"),
    })
}

fn failed(act: &'static str, error: &AcmeError, transport: &Transport) -> Error {
    match error {
        AcmeError::Timeout(_) => Error::Late { seconds: TIMEOUT.as_secs() },
        error => Error::Issuer { act, what: error.to_string(), pause: transport.pause() },
    }
}
