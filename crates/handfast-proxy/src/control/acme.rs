//! Certificates that this process orders: the thread that does, as the control thread holds it.
//!
//! In: configurations, operators' requests. Out: challenges for the workers, and the state of every name. New certificates are files, which
//! the watch on files finds.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_acme::model::{ChallengeKind, ExternalAccount, Issuer, Settings};
use handfast_acme::{
    Answers, Found, FoundAccount, Host, Keeper, Name, NameStatus, OrderEnd, RecordError, Request,
    RequestError, Running, Store,
};
use rustix::fs::Access;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::control::admin_state::Reply;
use crate::control::dns_command::{DnsCommand, DnsCommandError};
use handfast_config::model::{AcmeChallenge, AcmeIssuer, CertificateEntry, Config};
use handfast_pki::apart::Holder;
use handfast_process::privileges::ServiceUser;
use handfast_process::trusted_path;

/// Events that may wait for the control thread; the thread that orders waits then.
const MAX_WAITING_EVENTS: usize = 64;
/// Timeout for workers to install new challenges. A worker that hangs must not hold up orders: most answers come from other workers.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Event from the ordering thread for the control thread.
#[derive(Debug)]
pub(crate) enum AcmeEvent {
    /// Every worker, and every machine of the fleet, answers by these from now on. The sender is dropped when they do.
    Answers(Answers, Sender<Infallible>),
    /// Request for permission to order the certificate of a name on this machine.
    Claim(String, oneshot::Sender<bool>),
    /// Outcome of an order.
    Ended(String, OrderEnd),
    /// A certificate with its key, for other machines.
    Share(String, String),
    /// The state of all names.
    Report(Vec<NameStatus>),
}

/// The thread that orders, if there is one.
#[derive(Debug)]
pub(crate) struct Ordering {
    running: Option<Running>,
    sender: Sender<AcmeEvent>,
    events: Receiver<AcmeEvent>,
    dns: Option<DnsCommand>,
    holder: Option<Arc<dyn Holder>>,
}

impl Ordering {
    /// Orders nothing yet. `dns`: what sets records in DNS; `holder`: the key process, if private keys are not in this one.
    pub(crate) fn new(dns: Option<DnsCommand>, holder: Option<Arc<dyn Holder>>) -> Self {
        let (sender, events) = channel(MAX_WAITING_EVENTS);
        Self { running: None, sender, events, dns, holder }
    }

    /// Orders what this configuration needs, from now on. An order that is under way goes on, unless settings have changed: then the next
    /// thread goes on with it.
    pub(crate) fn follow(&mut self, config: &Config) {
        let settings = settings(config);
        if self.running.as_ref().map(Running::settings) == settings.as_ref() {
            return;
        }
        self.running = None;
        let Some(settings) = settings else { return };
        let listeners =
            Listeners { events: self.sender.clone(), dns: self.dns.clone(), holder: self.holder.clone() };
        match Running::start(settings, listeners) {
            Ok(running) => self.running = Some(running),
            Err(error) => tracing::error!("acme: start the thread that orders certificates: {error}"),
        }
    }

    /// Returns the next event. **Cancel**: loses nothing.
    pub(crate) async fn event(&mut self) -> Option<AcmeEvent> {
        self.events.recv().await
    }

    /// Passes an operator's request on: to order the certificate of a name now, or to revoke it.
    pub(crate) fn send_request(&self, name: String, revokes: bool, reply: Reply<RequestError>) {
        let Some(running) = &self.running else {
            // The requester may have disconnected.
            let _ = reply.send(Err(RequestError::NothingOrdered));
            return;
        };
        let request = match revokes {
            true => Request::Revoke { name, reply },
            false => Request::Renew { name, reply },
        };
        // A request that is dropped is answered with "busy".
        let _ = running.requests().try_send(request);
    }

    /// Takes a certificate that another machine has ordered.
    pub(crate) fn take(&self, name: String, pem: String) {
        self.request(Request::Take { name, pem });
    }

    /// Requests that all certificates are sent to other machines.
    pub(crate) fn share(&self) {
        self.request(Request::Share);
    }

    fn request(&self, request: Request) {
        if let Some(running) = &self.running {
            // It is sent, or requested, again.
            let _ = running.requests().try_send(request);
        }
    }

    /// Orders nothing more, and lets another process do it.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }
}

/// Reason why certificates cannot be ordered, or those of another client not be taken.
#[derive(Debug, thiserror::Error)]
pub enum OrderingError {
    /// No service has a name whose certificate is ordered.
    #[error("no certificate is ordered by this configuration")]
    NothingOrdered,
    /// The folder of the private keys cannot be opened.
    #[error(transparent)]
    Keeper(std::io::Error),
    /// The folder of another client has nothing of use.
    #[error("{}: no certificate there is for a name that is ordered, and no account for an issuer", .0.display())]
    NothingFound(PathBuf),
    /// A certificate or an account cannot be taken.
    #[error(transparent)]
    Acme(#[from] handfast_acme::Error),
    /// This process cannot act as the user that serves.
    #[error(transparent)]
    User(#[from] handfast_process::error::Error),
    /// Root must not write where another user can replace folders by links.
    #[error(
        "{} belongs to the user with the number {owner}\n  hint: run this command as that user, or write process.user",
        .folder.display()
    )]
    OtherOwner {
        /// The folder of the store.
        folder: PathBuf,
        /// The number of its owner.
        owner: u32,
    },
    /// The folder of the private keys cannot be made.
    #[error("make the folder of private keys {}", .0.display())]
    NoKeyFolder(PathBuf),
    /// The folder of the private keys cannot be used.
    #[error(
        "open the folder of private keys {}: {source}{place}\n  hint: make it, for the user that starts the proxy alone: \
         mkdir -m 700, in a folder that no other user can change",
        .folder.display()
    )]
    KeyFolder {
        /// The folder.
        folder: PathBuf,
        /// The line of the configuration that names it.
        place: String,
        /// Error of the system, or the part of the path that another user can change.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The folder of the store cannot be made or written to.
    #[error(
        "{source}{place}\n  hint: accounts and certificates are kept there: make the folder, and give it to the user that serves"
    )]
    Store {
        /// The line of the configuration that names it.
        place: String,
        /// Error of the store.
        source: handfast_acme::Error,
    },
}

/// The listeners of this process, as the thread that orders sees them.
struct Listeners {
    events: Sender<AcmeEvent>,
    dns: Option<DnsCommand>,
    holder: Option<Arc<dyn Holder>>,
}

impl Host for Listeners {
    fn publish(&self, answers: Answers) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            let (installed, mut all): (Sender<Infallible>, _) = channel(1);
            if self.events.send(AcmeEvent::Answers(answers, installed)).await.is_ok() {
                // Nothing is ever sent: it ends when every worker has dropped its sender.
                let _ = timeout(INSTALL_TIMEOUT, all.recv()).await;
            }
        })
    }

    fn record(
        &self,
        sets: bool,
        host: String,
        value: String,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + '_>> {
        Box::pin(async move {
            let dns = self.dns.as_ref().ok_or(DnsCommandError::NotConfigured)?;
            Ok(dns.run(sets, host, value).await?)
        })
    }

    fn may_order(&self, name: String) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            // Without an answer there is no order; it is asked again.
            let sent = self.events.send(AcmeEvent::Claim(name, reply)).await;
            sent.is_ok() && answer.await.unwrap_or(false)
        })
    }

    fn ended(&self, name: String, end: OrderEnd) {
        // Other machines find out when the lease is over.
        let _ = self.events.try_send(AcmeEvent::Ended(name, end));
    }

    fn share(&self, name: String, pem: String) {
        // The next machine that asks receives it.
        let _ = self.events.try_send(AcmeEvent::Share(name, pem));
    }

    fn holder(&self) -> Option<Arc<dyn Holder>> {
        self.holder.clone()
    }

    fn report(&self, names: Vec<NameStatus>) {
        // The next report has the same and more.
        let _ = self.events.try_send(AcmeEvent::Report(names));
    }
}

/// Returns the settings for the certificates that a configuration orders; `None`: it orders none.
pub(crate) fn settings(config: &Config) -> Option<Settings> {
    let acme = config.acme.as_ref()?;
    let mut names = Vec::new();
    for entry in config.services.iter().flat_map(|service| &service.tls).flat_map(|tls| &tls.certificates) {
        let CertificateEntry::Acme { names: written, .. } = entry else { continue };
        for name in written.iter().filter_map(|name| Name::parse(name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let kind = |challenge: &AcmeChallenge| match challenge {
        AcmeChallenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
        AcmeChallenge::Http01 => ChallengeKind::Http01,
        AcmeChallenge::DnsPersist01 => ChallengeKind::DnsPersist01,
        AcmeChallenge::Dns01 => ChallengeKind::Dns01,
    };
    let issuer = |issuer: &AcmeIssuer| Issuer {
        directory: issuer.directory.clone(),
        staging: issuer.staging.clone(),
        dns_name: issuer.dns_name.clone(),
        ca: issuer.ca.clone(),
        profile: issuer.profile.clone(),
        external: issuer
            .external
            .as_ref()
            .map(|(id, key_file)| ExternalAccount { id: id.clone(), key_file: key_file.clone() }),
    };
    (!names.is_empty()).then(|| Settings {
        folder: acme.folder.clone(),
        key_folder: acme.key_folder.clone(),
        issuers: acme.issuers.iter().map(issuer).collect(),
        contact: acme.contact.clone(),
        challenges: acme.challenges.iter().map(kind).collect(),
        names,
    })
}

/// The state of every name as the store has it, and the records in DNS that prove them; `None`: nothing is ordered.
pub fn ordered(config: &Config) -> Option<(Vec<NameStatus>, Vec<String>)> {
    let settings = settings(config)?;
    Some((handfast_acme::stored(&settings), handfast_acme::dns_records(&settings)))
}

/// Takes certificates and accounts of other ACME clients from a folder into the store, as the user that serves; a line for each. Where
/// `key-folder` is written, private keys are put there as the present user.
///
/// **Errors**: nothing is ordered; the store cannot be written by that user.
pub fn import(config: &Config, folder: &Path) -> Result<Vec<String>, OrderingError> {
    let settings = settings(config).ok_or(OrderingError::NothingOrdered)?;
    // As the present user: keys of other programs are mostly root's.
    let (found, accounts) =
        (handfast_acme::find(&settings, folder), handfast_acme::find_accounts(&settings, folder));
    prepare_keys(config)?;
    let keeper =
        settings.key_folder.as_deref().map(Keeper::open).transpose().map_err(OrderingError::Keeper)?;
    let user = ServiceUser::from(&config.process);
    if config.process.user.is_none() {
        is_ours(&settings.folder)?;
    }
    let import = Import { settings: &settings, keeper: keeper.as_ref(), user: &user };
    let certificates = found.iter().map(|found| {
        let (name, file) = (&found.name, found.file.display());
        match import.certificate(found) {
            Ok(true) => format!("{name}: taken from {file}"),
            Ok(false) => format!("{name}: the store has one that is as good as {file}"),
            Err(error) => format!("{name}: {file} is not taken: {error}"),
        }
    });
    let accounts = accounts.iter().map(|account| {
        let (directory, file) = (&account.directory, account.file.display());
        match import.account(account) {
            Ok(true) => format!("account at {directory}: taken from {file}"),
            Ok(false) => format!("account at {directory}: the store has one; {file} is not taken"),
            Err(error) => format!("account at {directory}: {file} is not taken: {error}"),
        }
    });
    let lines: Vec<_> = certificates.chain(accounts).collect();
    match lines.is_empty() {
        true => Err(OrderingError::NothingFound(folder.to_owned())),
        false => Ok(lines),
    }
}

struct Import<'a> {
    settings: &'a Settings,
    keeper: Option<&'a Keeper>,
    user: &'a ServiceUser,
}

impl Import<'_> {
    fn certificate(&self, found: &Found) -> Result<bool, OrderingError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        match self.keeper {
            Some(keeper) if !handfast_acme::keep(self.settings, keeper, found, now)? => Ok(false),
            Some(_) => self.as_user(|| handfast_acme::put_chain(self.settings, found)).map(|()| true),
            None => self.as_user(|| handfast_acme::put(self.settings, found, now)),
        }
    }

    fn account(&self, account: &FoundAccount) -> Result<bool, OrderingError> {
        if !account.is_needed(self.settings) {
            return Ok(false);
        }
        if let Some(keeper) = self.keeper {
            account.keep(keeper)?;
        }
        self.as_user(|| account.put(self.settings)).map(|()| true)
    }

    fn as_user<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, handfast_acme::Error> + Send,
    ) -> Result<T, OrderingError> {
        Ok(self.user.act(act)??)
    }
}

/// Root must not write where another user can replace folders by links, and what it made that user could not read.
fn is_ours(folder: &Path) -> Result<(), OrderingError> {
    let owner = std::fs::symlink_metadata(folder).map(|metadata| metadata.uid());
    let own = rustix::process::geteuid().as_raw();
    match owner {
        Ok(owner) if owner != own => Err(OrderingError::OtherOwner { folder: folder.to_owned(), owner }),
        _ => Ok(()),
    }
}

/// Makes the folder of the private keys, as the present user.
///
/// **Errors**: as [`check_keys`].
pub(crate) fn prepare_keys(config: &Config) -> Result<(), OrderingError> {
    if let Some(real) = check_keys(config)? {
        // If it cannot be made, it cannot be opened.
        let _ = std::fs::DirBuilder::new().mode(0o700).create(&real);
        check_keys(config)?.map_or(Ok(()), |real| Err(OrderingError::NoKeyFolder(real)))?;
    }
    Ok(())
}

/// Checks that no other user can enter the folder of the private keys; `Some`: where it is to be made.
///
/// **Errors**: with the hint what to do.
pub(crate) fn check_keys(config: &Config) -> Result<Option<PathBuf>, OrderingError> {
    let Some(folder) = config.acme.as_ref().and_then(|acme| acme.key_folder.as_ref()) else {
        return Ok(None);
    };
    let failed = |source| {
        let place = config.places.suffix(folder);
        OrderingError::KeyFolder { folder: folder.clone(), place, source }
    };
    let real = trusted_path::resolve(folder).map_err(|error| failed(error.into()))?;
    match Keeper::open(&real) {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = trusted_path::folder_of(&real);
            rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| failed(error.into()))?;
            Ok(Some(real))
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// The key process, for the command of the program that runs it: holds the keys of files, and makes those of ordered certificates.
/// `configuration`: the file that it reads for a proxy which cannot.
///
/// **Errors**: those of the start of the process.
pub fn hold_keys(channels: usize, configuration: Option<PathBuf>) -> io::Result<()> {
    handfast_process::key_process::hold(channels, configuration, |folder| {
        let keeper = Keeper::open(folder)?;
        Ok(Box::new(move |request: &[u8]| Ok(keeper.answer(request)?)))
    })
}

/// Makes the folder of the store, and checks that it can be written: before the sandbox, as the user that serves.
///
/// **Errors**: with the hint what to do.
pub(crate) fn prepare(config: &Config) -> Result<(), OrderingError> {
    let Some(acme) = &config.acme else { return Ok(()) };
    Store::new(&acme.folder)
        .prepare()
        .map_err(|source| OrderingError::Store { place: config.places.suffix(&acme.folder), source })
}
