//! A configuration's life, third part: what runs. Immutable; a connection keeps the one it was accepted with.
//!
//! In: a [`Config`] that has been checked, and the files that it names. Out: a [`State`] with everything loaded, or
//! everything that is wrong with it. Nothing that serves is touched before the state is whole.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_tls::certificate::Certificate;
use handfast_tls::client_certificates::{self, ClientCertificates as ClientRule, Demand};
use handfast_tls::load::{self, FileStamp, Source};
use handfast_tls::policy::{self, Policy};
use handfast_tls::server::{Server, ServerSettings};
use handfast_tls::store::{CertificateStore, Resolver, UnknownName};
use handfast_tls::throwaway::{self, Throwaway};
use handfast_tls::ticket::{KeySet, TicketKeys, TicketSettings};
use handfast_tls::{Finding, Severity};

use crate::config::CertificateFact;
use crate::config::model::{
    self, Address, CertificateSource, ClientCertificates, Config, NameRule, Places, Service, Tickets,
};
use crate::metrics::CertificateSnapshot;
use crate::permits::{AddressLimit, Pool};
use crate::standing::Standings;

/// What runs.
#[derive(Debug)]
pub(crate) struct State {
    /// Counts the states of this process; in every log line, so that a line can be explained by its configuration.
    pub(crate) generation: u64,
    pub(crate) config: Config,
    pub(crate) services: Vec<ServiceState>,
    /// Where the built-in backend listens, if it runs.
    pub(crate) built_in: Option<Address>,
    /// Files this state was made from, as they were.
    pub(crate) files: Arc<Vec<(PathBuf, FileStamp)>>,
    /// Folders in which a change may concern it.
    pub(crate) folders: Vec<PathBuf>,
}

/// One service, with what its files hold.
#[derive(Debug)]
pub(crate) struct ServiceState {
    pub(crate) model: Service,
    /// The service's own, then one for each of its rules.
    pub(crate) settings: Vec<ServerSettings>,
    pub(crate) ring: (RingId, Arc<KeySet>),
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) address_limit: Option<Arc<AddressLimit>>,
    /// How its backends do; the same for every state that has the service.
    pub(crate) standings: Arc<Standings>,
    pub(crate) store: Arc<CertificateStore>,
}

/// Everything noticed while a state was made, errors first.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Why it cannot serve.
    pub(crate) errors: Vec<String>,
    /// What an operator wants to know all the same.
    pub(crate) warnings: Vec<String>,
}

impl Report {
    fn take(&mut self, findings: Vec<Finding>, places: &Places) {
        for finding in findings {
            let hint = finding.hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
            let line = format!("{finding}{}{hint}", places.suffix(&finding.file));
            match finding.severity {
                Severity::Error => self.error(line),
                _ => self.warn(line),
            }
        }
    }

    fn error(&mut self, what: impl ToString) {
        let what = what.to_string();
        // Services that share a file share its faults.
        if !self.errors.contains(&what) {
            self.errors.push(what);
        }
    }

    fn warn(&mut self, what: String) {
        if !self.warnings.contains(&what) {
            self.warnings.push(what);
        }
    }
}

/// Which set of ticket keys a service uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RingId(usize);

/// What makes two services use the same keys: their file, rotation and lifetime.
type RingIdentity = (Option<PathBuf>, Duration, Duration);

/// All ticket keys of the process. They outlive reloads, so sessions do too.
#[derive(Debug, Default)]
pub(crate) struct KeyRings {
    rings: Vec<(RingIdentity, TicketKeys)>,
}

impl KeyRings {
    fn ring(
        &mut self,
        tickets: &Tickets,
        now: SystemTime,
    ) -> Result<(RingId, Arc<KeySet>), handfast_tls::Error> {
        let identity = (tickets.key_file.clone(), tickets.rotate, tickets.lifetime);
        let known = self.rings.iter().position(|(known, _)| *known == identity);
        let index = match known {
            Some(index) => index,
            None => {
                let settings = TicketSettings { rotate: tickets.rotate, lifetime: tickets.lifetime };
                let keys = match &tickets.key_file {
                    Some(path) => TicketKeys::load_or_create(path, now, settings)?,
                    None => TicketKeys::random(now, settings)?,
                };
                self.rings.push((identity, keys));
                self.rings.len() - 1
            }
        };
        Ok((RingId(index), self.rings[index].1.keys()))
    }

    /// Rotates what is due and reads what other processes wrote; the sets that have changed, and what went wrong.
    pub(crate) fn refresh(&mut self, now: SystemTime) -> (Vec<(RingId, Arc<KeySet>)>, Vec<String>) {
        let mut changed = Vec::new();
        let mut problems = Vec::new();
        for (index, (_, keys)) in self.rings.iter_mut().enumerate() {
            match keys.refresh(now) {
                Ok(Some(keys)) => changed.push((RingId(index), keys)),
                Ok(None) => {}
                Err(error) => problems.push(error.to_string()),
            }
        }
        (changed, problems)
    }

    /// When to refresh next; `None` without any keys.
    pub(crate) fn next_refresh(&self) -> Option<SystemTime> {
        self.rings.iter().map(|(_, keys)| keys.next_refresh()).min()
    }
}

/// What outlives the states of a process.
#[derive(Debug)]
pub(crate) struct Lasting {
    pub(crate) rings: KeyRings,
    /// The CA in PEM, and what it signed.
    pub(crate) throwaway: Option<(String, Arc<Certificate>)>,
    pub(crate) built_in: Option<Address>,
    pub(crate) threads: usize,
}

/// What came of making a state.
#[derive(Debug)]
pub(crate) struct Built {
    /// The state; `None` when the report has errors.
    pub(crate) state: Option<State>,
    pub(crate) report: Report,
    /// Whether looking again in a moment may help: a file is being written.
    pub(crate) may_be_half_written: bool,
    /// The files as they were read, so that the same failure is not found again and again.
    pub(crate) files: Vec<(PathBuf, FileStamp)>,
}

/// Makes a state from `config`; `previous` lends what must not begin anew (the count of connections).
///
/// **Errors**: all of them, in the report. **Cost**: reads every file named; 10,000 certificates take under a second.
pub(crate) fn build(
    config: Config,
    generation: u64,
    previous: Option<&State>,
    lasting: &mut Lasting,
    now: SystemTime,
) -> Built {
    let mut builder = Builder {
        report: Report::default(),
        files: Vec::new(),
        folders: Vec::new(),
        may_be_half_written: false,
        lasting,
        places: &config.places,
        now,
    };
    let services = config.services.iter().filter_map(|model| builder.service(model, previous)).collect();
    let Builder { report, files, folders, may_be_half_written, lasting, .. } = builder;
    // As with certificates: what is as it was stays where it is.
    let unchanged = previous.map(|previous| &previous.files).filter(|known| ***known == files);
    let state = report.errors.is_empty().then(|| State {
        generation,
        config,
        services,
        built_in: lasting.built_in.clone(),
        files: unchanged.map_or_else(|| Arc::new(files.clone()), Arc::clone),
        folders,
    });
    Built { state, report, may_be_half_written, files }
}

struct Builder<'a, 'p> {
    report: Report,
    files: Vec<(PathBuf, FileStamp)>,
    folders: Vec<PathBuf>,
    may_be_half_written: bool,
    lasting: &'a mut Lasting,
    places: &'p Places,
    now: SystemTime,
}

impl Builder<'_, '_> {
    fn service(&mut self, model: &Service, previous: Option<&State>) -> Option<ServiceState> {
        let before =
            previous.and_then(|state| state.services.iter().find(|service| service.model.name == model.name));
        let store = self.store(model, before.map(|before| &before.store))?;
        if let Some(before) = before {
            self.refuse_newly_invalid(&store, &before.store);
        }
        let unknown_name = match model.tls.unknown_name {
            model::UnknownName::First => UnknownName::First,
            model::UnknownName::Refuse => UnknownName::Refuse,
        };
        let resolver = Arc::new(Resolver::new(Arc::clone(&store), unknown_name));
        let ring = match self.lasting.rings.ring(&model.tls.tickets, self.now) {
            Ok(ring) => Some(ring),
            Err(error) => {
                let hint = error.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
                let file = model.tls.tickets.key_file.as_deref();
                let place = file.map(|file| self.places.suffix(file)).unwrap_or_default();
                self.report.error(format!("{error}{place}{hint}"));
                None
            }
        };
        let own = self.settings(model, None, &resolver);
        let exceptions: Vec<_> =
            model.names.iter().map(|rule| self.settings(model, Some(rule), &resolver)).collect();
        let settings = std::iter::once(own).chain(exceptions).collect::<Option<Vec<_>>>()?;
        self.try_out(&settings, ring.as_ref()?.1.clone());
        Some(ServiceState {
            pool: pool(model, before, self.lasting.threads),
            address_limit: address_limit(model, before),
            standings: before
                .map_or_else(|| Standings::new(&model.name), |before| Arc::clone(&before.standings)),
            model: model.clone(),
            settings,
            // Ticket keys as they are now; threads get newer ones as they come.
            ring: ring?,
            store,
        })
    }

    /// Reads the certificates of a service. Those that it served `before` are kept as they are in memory.
    fn store(
        &mut self,
        model: &Service,
        before: Option<&Arc<CertificateStore>>,
    ) -> Option<Arc<CertificateStore>> {
        let mut certificates = Vec::new();
        let mut sources = Vec::new();
        for source in &model.tls.certificates {
            match source {
                CertificateSource::File { certificate, key } => {
                    sources.push(Source::File { certificate: certificate.clone(), key: key.clone() });
                }
                CertificateSource::Folder(folder) => sources.push(Source::Folder(folder.clone())),
                CertificateSource::Throwaway { .. } => match &self.lasting.throwaway {
                    Some((_, certificate)) => certificates.push(Arc::clone(certificate)),
                    None => self.report.error("the throwaway certificate was not made"),
                },
            }
        }
        let loaded = load::load(&sources, self.now);
        self.may_be_half_written |= loaded.may_be_half_written();
        self.report.take(loaded.findings, self.places);
        self.files.extend(loaded.files_read);
        self.folders.extend(loaded.folders);
        certificates.extend(loaded.certificates);
        if certificates.is_empty() {
            self.report.error(format!("service {}: no certificate can be served", model.name));
            return None;
        }
        if let Some(before) = before {
            load::keep_known(&mut certificates, before.certificates());
        }
        let now = seconds(self.now);
        let (store, findings) = CertificateStore::new(certificates, now);
        self.report.take(findings, self.places);
        // The same certificates in the same order, and no date has passed that would sort them anew.
        let same = |before: &&Arc<CertificateStore>| {
            before.rebuild_at().is_none_or(|at| now < at)
                && before
                    .certificates()
                    .iter()
                    .map(Arc::as_ptr)
                    .eq(store.certificates().iter().map(Arc::as_ptr))
        };
        Some(before.filter(same).map_or_else(|| Arc::new(store), Arc::clone))
    }

    /// At a start an expired certificate is a warning: its clients may not look, and others have other names. At a
    /// reload it would replace one that works, so it is refused, unless it was served before already.
    fn refuse_newly_invalid(&mut self, store: &CertificateStore, before: &CertificateStore) {
        let now = seconds(self.now);
        let served = |certificate: &Certificate| {
            before.certificates().iter().any(|known| known.chain().first() == certificate.chain().first())
        };
        for certificate in store.certificates() {
            if !certificate.is_valid_at(now) && !served(certificate) {
                let file = certificate.files().first().map(|file| file.display().to_string());
                let how = if certificate.not_after() < now { "has expired" } else { "is not valid yet" };
                self.report.error(format!(
                    "{}: {} {how}; a reload does not replace what is served by that",
                    file.unwrap_or_default(),
                    certificate.subject()
                ));
            }
        }
    }

    /// The TLS settings of a service, or of one of its rules.
    fn settings(
        &mut self,
        model: &Service,
        rule: Option<&NameRule>,
        resolver: &Arc<Resolver>,
    ) -> Option<ServerSettings> {
        let tls = &model.tls;
        let policy = self.policy(rule.and_then(|rule| rule.policy.as_ref()).unwrap_or(&tls.policy))?;
        let demand =
            rule.and_then(|rule| rule.client_certificates.as_ref()).unwrap_or(&tls.client_certificates);
        let client_certificates = match demand {
            ClientCertificates::Off => None,
            ClientCertificates::Request { ca } => Some(self.client_rule(ca, Demand::Request)?),
            ClientCertificates::Require { ca } => Some(self.client_rule(ca, Demand::Require)?),
        };
        let names = rule.map(|rule| rule.names.join(" ")).unwrap_or_default();
        Some(ServerSettings {
            policy,
            resolver: Arc::clone(resolver),
            client_certificates,
            alpn: rule.and_then(|rule| rule.alpn.clone()).unwrap_or_else(|| tls.alpn.clone()),
            tickets_per_handshake: tls.tickets.per_handshake,
            ticket_lifetime: tls.tickets.lifetime,
            scope: format!("{} {names}", model.name),
        })
    }

    /// Makes a TLS server of each settings, as the threads will, so that none of them can fail later.
    fn try_out(&mut self, settings: &[ServerSettings], keys: Arc<KeySet>) {
        for settings in settings {
            if let Err(failure) = Server::new(settings.clone(), Arc::clone(&keys)) {
                self.report.error(format!("service {}: {failure}", settings.scope));
            }
        }
    }

    fn policy(&mut self, policy: &model::Policy) -> Option<Policy> {
        let list = |list: &'_ Option<Vec<String>>| list.clone();
        let (versions, suites, groups) = (list(&policy.versions), list(&policy.suites), list(&policy.groups));
        match policy::resolve(&policy.base, versions.as_deref(), suites.as_deref(), groups.as_deref()) {
            Ok(policy) => Some(policy),
            Err(problems) => {
                problems.iter().for_each(|problem| self.report.error(problem));
                None
            }
        }
    }

    fn client_rule(&mut self, ca: &std::path::Path, demand: Demand) -> Option<ClientRule> {
        let loaded = client_certificates::load(ca, demand, self.now);
        self.report.take(loaded.findings, self.places);
        self.files.extend(loaded.files_read);
        self.folders.extend(loaded.folders);
        loaded.rule
    }
}

/// The count of connections goes on over a reload that leaves the limit as it was; with another limit it begins anew,
/// and the connections that stand do not count.
fn pool(model: &Service, before: Option<&ServiceState>, threads: usize) -> Option<Arc<Pool>> {
    let limit = model.max_connections?;
    let same = before.filter(|before| before.model.max_connections == Some(limit));
    same.and_then(|before| before.pool.clone()).or_else(|| Some(Pool::new(limit, threads)))
}

fn address_limit(model: &Service, before: Option<&ServiceState>) -> Option<Arc<AddressLimit>> {
    let limit = model.max_connections_per_address?;
    let same = before.filter(|before| before.model.max_connections_per_address == Some(limit));
    same.and_then(|before| before.address_limit.clone()).or_else(|| Some(AddressLimit::new(limit)))
}

/// Makes the throwaway certificate if `config` asks for one and there is none yet, and writes its CA.
///
/// **Errors**: making it, or writing the CA's file; in words.
pub(crate) fn make_throwaway(config: &Config, lasting: &mut Lasting, now: SystemTime) -> Result<(), String> {
    let sources = config.services.iter().flat_map(|service| &service.tls.certificates);
    for source in sources {
        let CertificateSource::Throwaway { ca_file } = source else { continue };
        if lasting.throwaway.is_none() {
            lasting.throwaway = Some(throwaway(now)?);
        }
        if let Some((ca_pem, _)) = &lasting.throwaway {
            write_aside(ca_file, ca_pem)
                .map_err(|error| format!("write the throwaway CA to {}: {error}", ca_file.display()))?;
        }
    }
    Ok(())
}

/// Writes a file that is never seen half written.
fn write_aside(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let aside = PathBuf::from(name);
    std::fs::File::create(&aside)?.write_all(text.as_bytes())?;
    std::fs::rename(&aside, path)
}

/// A throwaway certificate and its CA.
pub(crate) fn throwaway(now: SystemTime) -> Result<(String, Arc<Certificate>), String> {
    let Throwaway { ca_pem, certificate } = throwaway::make(None, now).map_err(|error| error.to_string())?;
    Ok((ca_pem, Arc::new(certificate)))
}

impl State {
    /// What is known of the certificates, for metrics.
    pub(crate) fn certificate_snapshots(&self) -> Vec<CertificateSnapshot> {
        let of_service = |service: &ServiceState| {
            let name = service.model.name.clone();
            let snapshots = service.store.certificates().iter().map(move |certificate| CertificateSnapshot {
                service: name.clone(),
                name: certificate.dns_names().first().map_or(certificate.subject(), |name| name).into(),
                kind: certificate.kind().into(),
                not_after: SystemTime::UNIX_EPOCH
                    + Duration::from_secs(u64::try_from(certificate.not_after()).unwrap_or(0)),
            });
            snapshots.collect::<Vec<_>>()
        };
        self.services.iter().flat_map(of_service).collect()
    }

    /// The same, for explanations.
    pub(crate) fn certificate_facts(&self, now: SystemTime) -> Vec<CertificateFact> {
        let of_service = |service: &ServiceState| {
            let name = service.model.name.clone();
            let facts = service.store.certificates().iter().map(move |certificate| CertificateFact {
                service: name.clone(),
                names: certificate.dns_names().iter().map(ToString::to_string).collect(),
                kind: certificate.kind().into(),
                expires_in_days: (certificate.not_after() - seconds(now)).div_euclid(86_400),
                file: certificate.files().first().cloned().unwrap_or_default(),
            });
            facts.collect::<Vec<_>>()
        };
        self.services.iter().flat_map(of_service).collect()
    }

    /// Whether it would be made otherwise now: a file has changed, or a certificate has begun or ceased to be valid
    /// that another one can stand in for.
    pub(crate) fn is_outdated(&self, now: SystemTime) -> bool {
        let due = |service: &ServiceState| service.store.rebuild_at().is_some_and(|at| at <= seconds(now));
        self.services.iter().any(due) || load::changed(&self.files)
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
