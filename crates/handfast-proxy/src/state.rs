//! A configuration's life, third part: what runs. Immutable; a connection keeps the one it was accepted with.
//!
//! A [`State`] is made of a [`Config`] and the files that it names, whole or not at all (`state/build.rs`).

use crate::backends::tls::BackendTlsSettings;
use handfast_process::sandbox::Reach;
use handfast_process::writable_files::own_files;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_pki::certificate::Certificate;
use handfast_pki::load::{self, FileProblem, FileStamp, ProblemKind, Source};
use handfast_pki::source::{CertificateSource, Files, SourceNeeds};
use handfast_pki::weak::Lists;
use handfast_tls::client_certificates::{ClientCertificates as ClientRule, Demand, KnownLists};
use handfast_tls::keyed_hash::HashKey;
use handfast_tls::server::ServerSettings;
use handfast_tls::store::{CertificateStore, UnknownName};
use handfast_tls::ticket::KeySet;

use crate::admission::Admission;
use crate::admission::admin_token::AdminToken;
use crate::admission::gate::Gates;
use crate::admission::permits::{AddressLimit, Pool};
use crate::backends::group::RotationCounters;
use crate::backends::slots::Slots;
use crate::backends::standing::Standings;
use crate::backends::tunnel::{OwnTargets, ProxyHop};
use crate::cache::{self, ServiceCache};
use crate::files::ServiceFiles;
use handfast_admin::{CacheAct, OrderRefusal};
use handfast_config::model::{
    Backend, BackendTls, ClientChecks, Config, Route, Service, backend_sets, each_once,
};
use handfast_config::source::ConfigSource;
use handfast_config::{CertificateFact, ExplainTarget, explain_host};
use handfast_observe::metrics::{CertificateSnapshot, FileProblemSnapshot, RevocationListSnapshot};
use handfast_process::key_process::{KeyProcess, KeyProcessHealth};
use tokio::sync::oneshot;

mod addresses;
mod build;
mod carried;
mod checks;
mod report;
mod service;

pub(crate) use build::{Built, build};
pub(crate) use carried::{
    CarriedOver, GivenKeys, KeyRings, RingId, SharedCarriedOver, ThrowawayError, make_throwaway,
};
pub(crate) use checks::check_plans;
pub(crate) use report::Report;

#[derive(Debug)]
pub(crate) struct State {
    /// Counts the states of this process; in every log line, so that a line can be explained by its configuration.
    pub(crate) generation: u64,
    pub(crate) config: Config,
    pub(crate) services: Vec<ServiceState>,
    /// Addresses of the targets that this process has made for itself.
    pub(crate) own_targets: OwnTargets,
    /// Files this state was made from, as they were.
    pub(crate) files: Arc<Vec<(PathBuf, FileStamp)>>,
    /// Folders in which a change may concern it.
    pub(crate) folders: Vec<PathBuf>,
    /// Compromised keys.
    pub(crate) known_keys: Arc<Lists>,
    /// The token of requests that change something at the admin address; `None`: none is needed.
    pub(crate) admin_token: Option<Arc<AdminToken>>,
    /// Key process that holds the private keys; `None`: this process holds them.
    keys: Option<Arc<KeyProcess>>,
}

/// One service, with what its files hold.
#[derive(Debug)]
pub(crate) struct ServiceState {
    pub(crate) model: Arc<Service>,
    /// Settings for its clients: those of the service itself, then of each of its rules.
    pub(crate) routes: Vec<RouteState>,
    /// The proxy on the way to them.
    pub(crate) through: Option<Arc<ProxyHop>>,
    /// `None` where no TLS ends here.
    pub(crate) ring: Option<(RingId, Arc<KeySet>)>,
    pub(crate) pool: Option<Arc<Pool>>,
    /// Worker threads of the process.
    pub(crate) threads: usize,
    pub(crate) address_limit: Option<Arc<AddressLimit>>,
    /// Clients that it admits by address; `None`: it admits all.
    pub(crate) admission: Option<Arc<Admission>>,
    /// Conditions that its requests must meet, by route.
    pub(crate) gates: Gates,
    /// The secrets that cookies are made from, by route.
    pub(crate) sticky_keys: Vec<Option<HashKey>>,
    /// Folders and pages for errors, by route.
    pub(crate) files: ServiceFiles,
    /// Cache of its responses.
    pub(crate) cache: Option<Arc<ServiceCache>>,
    /// The requests that its backends have; the same for every state that has the service.
    pub(crate) slots: Arc<Slots>,
    /// Turns of its backends, on all threads.
    pub(crate) turns: RotationCounters,
    /// State of its backends; the same for every state that has the service.
    pub(crate) standings: Arc<Standings>,
    pub(crate) store: Arc<CertificateStore>,
    /// Sources of its certificates.
    sources: Vec<Source>,
    /// Files that are not used as they are; their earlier versions are served instead.
    pub(crate) problems: Vec<FileProblem>,
}

/// One route of a service, with what its files hold. Routes with equal settings share one value.
#[derive(Debug)]
pub(crate) struct RouteState {
    pub(crate) route: Route,
    /// TLS with its clients; `None` where it does not end here.
    pub(crate) server: Option<Arc<ServerSettings>>,
    /// TLS towards its backends; `None`: plain text.
    pub(crate) backend_tls: Option<Arc<BackendTlsSettings>>,
}

/// A rule about client certificates, and what it was made of.
type Authorities = (ClientChecks, Demand, ClientRule);

impl ServiceState {
    /// Every backend, those of rules and of clients whose certificate fails too. Lists that routes share come once.
    pub(crate) fn backends(&self) -> impl Iterator<Item = &Backend> {
        backend_sets(self.routes.iter().map(|route| &route.route)).flat_map(|set| set.backends.iter())
    }

    /// Returns true if a certificate is requested from any of its clients.
    pub(crate) fn requests_certificates(&self) -> bool {
        let mut tls = self.routes.iter().filter_map(|route| route.route.tls.as_ref());
        tls.any(|tls| tls.client_certificates.checks().is_some())
    }

    /// Returns the facts about one of its certificates, for explanations.
    fn fact(&self, certificate: &Certificate, is_for_the_name: bool, now: SystemTime) -> CertificateFact {
        CertificateFact {
            service: self.model.name.clone(),
            names: certificate.dns_names().iter().map(ToString::to_string).collect(),
            kind: certificate.kind().into(),
            staple_until: certificate.staple_until(),
            expires_in_days: (certificate.not_after() - seconds(now)).div_euclid(86_400),
            file: certificate.files().first().cloned().unwrap_or_default(),
            is_for_the_name,
        }
    }

    /// The settings of TLS towards backends, each once.
    fn backend_tls(&self) -> impl Iterator<Item = &Arc<BackendTlsSettings>> {
        let of_routes = self.routes.iter().filter_map(|route| route.backend_tls.as_ref());
        each_once(of_routes, |settings| Arc::as_ptr(settings))
    }

    /// The routes whose clients' TLS ends here, the first one of each settings.
    fn terminating(&self) -> impl Iterator<Item = (&Route, &Arc<ServerSettings>)> {
        let routes = self.routes.iter().filter_map(|route| Some((&route.route, route.server.as_ref()?)));
        each_once(routes, |(_, server)| Arc::as_ptr(server))
    }

    /// The settings of TLS with its clients, each once.
    pub(crate) fn server_settings(&self) -> impl Iterator<Item = &Arc<ServerSettings>> {
        self.terminating().map(|(_, server)| server)
    }

    /// The rules about client certificates that are in use.
    fn client_rules(&self) -> impl Iterator<Item = &ClientRule> {
        self.server_settings().filter_map(|server| server.client_certificates.as_ref())
    }

    /// The same, with the file and the demand that they were made of.
    fn authorities(&self) -> Vec<Authorities> {
        let made = self.terminating().filter_map(|(route, server)| {
            let (demand, checks) = route.tls.as_ref()?.client_certificates.checks()?;
            Some((checks.clone(), demand, server.client_certificates.clone()?))
        });
        made.collect()
    }
}

impl State {
    /// Lists or purges objects of its caches, in another thread.
    pub(crate) fn list_or_purge_caches(
        &self,
        service: Option<&str>,
        act: CacheAct,
        reply: oneshot::Sender<Result<String, OrderRefusal>>,
    ) {
        let of_service = |state: &&ServiceState| service.is_none_or(|service| state.model.name == service);
        let caches: Vec<_> =
            self.services.iter().filter(of_service).filter_map(|service| service.cache.clone()).collect();
        drop(tokio::task::spawn_blocking(move || {
            // The requester might have disconnected.
            let outcome = cache::list_or_purge(&caches, &act);
            let _ = reply.send(outcome.map_err(|error| OrderRefusal::Refused(error.into())));
        }));
    }

    /// The caches of its services.
    pub(crate) fn caches(&self) -> Vec<Arc<ServiceCache>> {
        self.services.iter().filter_map(|service| service.cache.clone()).collect()
    }

    /// Gives the folders of its caches to the process that follows; a write that was begun is waited for in another thread.
    pub(crate) fn release_caches(&self) {
        let caches = self.caches();
        let release = move || caches.iter().for_each(|cache| cache.release());
        if let Err(error) = std::thread::Builder::new().name("cache-end".into()).spawn(release) {
            tracing::warn!(
                "give up the folders of caches: start a thread: {error}; they are free when this process ends"
            );
        }
    }

    /// Notifies the key process, if there is one, of the keys in use.
    pub(crate) fn report_needed_keys(&self, carried: &CarriedOver) {
        let Some(keys) = &carried.keys else { return };
        let served = self.certificates().map(|(_, certificate)| certificate);
        let shown = self.services.iter().flat_map(|service| service.backend_tls());
        let shown = shown.filter_map(|dialling| dialling.identity());
        keys.set_needed(&served.chain(shown).filter_map(|certificate| certificate.key_id()).collect());
    }

    /// The files that serving by this state, and by those that follow from the same source, uses.
    pub(crate) fn reach(&self, source: &ConfigSource) -> Reach {
        let needs = certificate_needs(&self.config);
        // All that the file names, `sandbox-folders` too.
        let named = self.config.places.paths().chain(needs.paths());
        let read = source.file().into_iter().chain(named).chain(self.files.iter().map(|(path, _)| path));
        // Only the key process needs it.
        let read = read.filter(|path| !self.config.is_for_keys_alone(path));
        Reach { read: read.cloned().collect(), write: own_files(&self.config), folders: self.folders.clone() }
    }

    /// Of the process that holds the private keys; `None`: this one does.
    pub(crate) fn key_process_health(&self) -> Option<Arc<KeyProcessHealth>> {
        self.keys.as_ref().map(|keys| Arc::clone(keys.health()))
    }

    /// Every certificate, with its service.
    fn certificates(&self) -> impl Iterator<Item = (&ServiceState, &Arc<Certificate>)> {
        self.services
            .iter()
            .flat_map(|service| service.store.certificates().iter().map(move |one| (service, one)))
    }

    /// Returns the facts about all certificates, for metrics.
    pub(crate) fn certificate_snapshots(&self) -> Vec<CertificateSnapshot> {
        let snapshot = |(service, certificate): (&ServiceState, &Arc<Certificate>)| CertificateSnapshot {
            service: service.model.name.clone(),
            name: certificate.dns_names().first().map_or(certificate.subject(), |name| name).into(),
            kind: certificate.kind().into(),
            not_after: time(certificate.not_after()),
            staple_until: certificate.staple_until().map(time),
        };
        self.certificates().map(snapshot).collect()
    }

    /// The revocation lists in force, for metrics: those of each CA once for each service.
    pub(crate) fn revocation_lists(&self) -> Vec<RevocationListSnapshot> {
        let mut lists: Vec<RevocationListSnapshot> = Vec::new();
        for service in &self.services {
            for fact in service.client_rules().flat_map(ClientRule::list_facts) {
                let list = RevocationListSnapshot {
                    service: service.model.name.clone(),
                    issuer: fact.issuer.into(),
                    entries: fact.entries as u64,
                    next_update: fact.next_update.map(time),
                    late_at: fact.late_at.map(time),
                };
                // Rules of one service mostly have the same lists; of two of one name the first to expire counts.
                let same = |known: &&mut RevocationListSnapshot| {
                    (&known.service, &known.issuer) == (&list.service, &list.issuer)
                };
                match lists.iter_mut().find(same) {
                    Some(known) if known.next_update <= list.next_update => {}
                    Some(known) => *known = list,
                    None => lists.push(list),
                }
            }
        }
        lists
    }

    /// The same, for explanations.
    pub(crate) fn certificate_facts(&self, now: SystemTime) -> Vec<CertificateFact> {
        self.certificates().map(|(service, certificate)| service.fact(certificate, false, now)).collect()
    }

    /// Explains how a client that asks for `target` is served, service by service, in sentences.
    pub(crate) fn explain_host(&self, target: &ExplainTarget, now: SystemTime) -> String {
        let name = target.server_name();
        let of_service = |service: &ServiceState| {
            let unknown_name = service.model.tls.as_ref().map_or(UnknownName::First, |tls| tls.unknown_name);
            let is_known = service.store.has_name(name);
            let shown = service.store.candidates(name, unknown_name);
            let facts: Vec<_> = shown.map(|certificate| service.fact(certificate, is_known, now)).collect();
            explain_host(&service.model, target, &facts)
        };
        let services: Vec<_> = self.services.iter().filter_map(of_service).collect();
        if services.is_empty() {
            return format!("No service listens on the port of {target}\n");
        }
        let what = if target.request.is_some() { "A request for" } else { "A client that asks for" };
        let sni = if target.request.is_some() { "" } else { " (SNI)" };
        format!("{what} {target}{sni}\n\n{}", services.join("\n"))
    }

    /// The revocation lists that are in memory, for the next state.
    fn known_lists(&self) -> KnownLists {
        let mut known = KnownLists::default();
        let rules = self.services.iter().flat_map(ServiceState::client_rules);
        rules.for_each(|rule| known.add(rule.lists()));
        known
    }

    /// Returns true if a rebuild would give another state although no file has changed: a certificate that another one can replace has
    /// begun or ceased to be valid, an OCSP response has expired, a revocation list is late or has expired, or a certificate whose file was
    /// removed has been served for long enough.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        let keep = i64::try_from(self.config.process.keep_removed_certificates.as_secs()).unwrap_or(i64::MAX);
        let is_over = |problem: &FileProblem| {
            problem.kind == ProblemKind::Removed && problem.since.saturating_add(keep) <= seconds(now)
        };
        let due = |service: &ServiceState| {
            let of_lists = service.client_rules().filter_map(ClientRule::attention_at);
            service.store.rebuild_at().into_iter().chain(of_lists).any(|at| at <= seconds(now))
                || service.problems.iter().any(is_over)
        };
        self.services.iter().any(due)
    }

    /// Returns true if any of these files has changed.
    pub(crate) fn have_changed(&self, files: &[(PathBuf, FileStamp)]) -> bool {
        load::changed(files, self.keys.as_deref().map(|keys| keys as _))
    }

    /// Returns the number of certificate files of each service that are not used as they are.
    pub(crate) fn file_problems(&self) -> Vec<FileProblemSnapshot> {
        let of_service = |service: &ServiceState| {
            let count = |kind| service.problems.iter().filter(|problem| problem.kind == kind).count() as u64;
            FileProblemSnapshot {
                service: service.model.name.clone(),
                broken: count(ProblemKind::Broken),
                removed: count(ProblemKind::Removed),
                not_stapled: count(ProblemKind::Staple),
            }
        };
        self.services.iter().map(of_service).collect()
    }
}

/// The paths that the certificates of a configuration need, those for backends too: for the sandbox and the key process.
pub(crate) fn certificate_needs(config: &Config) -> SourceNeeds {
    let mut needs = SourceNeeds::default();
    for service in &config.services {
        let written = service.tls.iter().flat_map(|tls| &tls.certificates);
        needs.extend(written.filter_map(|written| written.on_disk()).map(|source| source.needs()));
        let routes = service.routes();
        let backend_tls =
            each_once(routes.iter().filter_map(|route| route.backends.tls.as_ref()), |tls| Arc::as_ptr(tls));
        needs.extend(backend_tls.filter_map(|tls| identity_source(tls)).map(|source| source.needs()));
    }
    needs
}

/// The files of the certificate that is shown to backends. Clients staple nothing.
fn identity_source(model: &BackendTls) -> Option<Files> {
    let (certificate, key) = model.identity.clone()?;
    Some(Files { certificate, key, ocsp: None })
}

fn time(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
