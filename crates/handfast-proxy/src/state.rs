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
use handfast_tls::load::{self, Before, FileProblem, FileStamp, Kept, Source, Trouble};
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
use crate::error::Error;
use crate::metrics::{CertificateSnapshot, FileProblemSnapshot};
use crate::permits::{AddressLimit, Pool};
use crate::standing::Standings;

mod words;

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
    /// Where the certificates come from.
    sources: Vec<Source>,
    /// Files that are not used as they are; what they were is served instead.
    pub(crate) problems: Vec<FileProblem>,
}

/// The certificates of a service, where they come from, and files that are not used.
type Read = (Arc<CertificateStore>, Vec<Source>, Vec<FileProblem>);

/// A rule about client certificates, and what it was made of.
type Authorities = (PathBuf, Demand, ClientRule);

/// Everything noticed while a state was made, errors first.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Why it cannot serve.
    pub(crate) errors: Vec<String>,
    /// What an operator wants to know all the same.
    pub(crate) warnings: Vec<String>,
    /// Files that were left out, and what is served instead: a state was made without them.
    pub(crate) left_out: Vec<String>,
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

    fn leave_out(&mut self, what: String) {
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
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
        has_new_problems: false,
        authorities: Vec::new(),
        authority_problems: Vec::new(),
        keep_removed: config.process.keep_removed_certificates,
        lasting,
        places: &config.places,
        now,
    };
    let services = config.services.iter().filter_map(|model| builder.service(model, previous)).collect();
    let Builder { report, files, folders, may_be_half_written, has_new_problems, lasting, .. } = builder;
    let may_be_half_written = has_new_problems || (may_be_half_written && !report.errors.is_empty());
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
    /// Files that cannot be used, and could when the state before was made.
    has_new_problems: bool,
    /// Of the service that is being made: what it had before, and files of authorities that cannot be used now.
    authorities: Vec<Authorities>,
    authority_problems: Vec<FileProblem>,
    keep_removed: Duration,
    lasting: &'a mut Lasting,
    places: &'p Places,
    now: SystemTime,
}

impl Builder<'_, '_> {
    fn service(&mut self, model: &Service, previous: Option<&State>) -> Option<ServiceState> {
        let before =
            previous.and_then(|state| state.services.iter().find(|service| service.model.name == model.name));
        let (store, sources, mut problems) = self.store(model, before)?;
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
        self.authorities = before.map(ServiceState::authorities).unwrap_or_default();
        let own = self.settings(model, None, &resolver);
        let exceptions: Vec<_> =
            model.names.iter().map(|rule| self.settings(model, Some(rule), &resolver)).collect();
        for problem in self.authority_problems.drain(..) {
            self.has_new_problems |= !before.is_some_and(|before| problem.is_known(&before.problems));
            problems.push(problem);
        }
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
            sources,
            problems,
        })
    }

    /// Reads the certificates of a service. Those that it served `before` are kept as they are in memory, and go on being
    /// served where their files cannot be used now.
    fn store(&mut self, model: &Service, before: Option<&ServiceState>) -> Option<Read> {
        let (mut certificates, sources) = self.sources(model);
        let mut loaded = load::load(&sources, self.now);
        self.may_be_half_written |= loaded.may_be_half_written();
        let kept = before.map(|before| self.keep(model, &mut loaded, &sources, before)).unwrap_or_default();
        self.report.take(loaded.findings, self.places);
        self.files.extend(loaded.files_read);
        self.folders.extend(loaded.folders);
        certificates.extend(loaded.certificates);
        if certificates.is_empty() {
            self.report.error(format!("service {}: no certificate can be served", model.name));
            return None;
        }
        let before = before.map(|before| &before.store);
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
        Some((before.filter(same).map_or_else(|| Arc::new(store), Arc::clone), sources, kept.problems))
    }

    /// Where the certificates of a service are, and those that are in no file.
    fn sources(&mut self, model: &Service) -> (Vec<Arc<Certificate>>, Vec<Source>) {
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
        (certificates, sources)
    }

    /// What is served on although its file cannot be used; said here.
    fn keep(
        &mut self,
        model: &Service,
        loaded: &mut load::Loaded,
        sources: &[Source],
        before: &ServiceState,
    ) -> Kept {
        let known = Before {
            sources: &before.sources,
            certificates: before.store.certificates(),
            problems: &before.problems,
        };
        let kept = load::keep(loaded, sources, known, self.keep_removed, self.now);
        for problem in &kept.problems {
            self.has_new_problems |= !problem.is_known(&before.problems);
            let line = words::problem(problem, self.keep_removed);
            match problem.trouble {
                Trouble::Broken => self.report.leave_out(line),
                Trouble::Removed => self.report.warn(line),
            }
        }
        for certificate in &kept.dropped {
            self.report.warn(words::dropped(certificate, &model.name, self.keep_removed));
        }
        kept
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
        let mut loaded = client_certificates::load(ca, demand, self.now);
        if loaded.rule.is_none()
            && let Some((_, _, known)) =
                self.authorities.iter().find(|(file, known, _)| file == ca && *known == demand)
        {
            loaded.rule = Some(known.clone());
            let (errors, others) =
                loaded.findings.into_iter().partition(|finding| finding.severity == Severity::Error);
            loaded.findings = others;
            self.leave_out_authorities(errors);
        }
        self.report.take(loaded.findings, self.places);
        self.files.extend(loaded.files_read);
        self.folders.extend(loaded.folders);
        loaded.rule
    }

    /// A file of authorities that cannot be used keeps no certificate from being renewed.
    fn leave_out_authorities(&mut self, errors: Vec<Finding>) {
        for Finding { file, message: what, hint, .. } in errors {
            let problem = FileProblem {
                file,
                trouble: Trouble::Broken,
                what,
                hint,
                kept: None,
                since: seconds(self.now),
            };
            self.report.leave_out(words::authorities(&problem));
            if !self.authority_problems.iter().any(|known| known.file == problem.file) {
                self.authority_problems.push(problem);
            }
        }
    }
}

impl ServiceState {
    /// The rules about client certificates that are in use, with the file and the demand that they were made of.
    fn authorities(&self) -> Vec<Authorities> {
        let of_rules = self.model.names.iter().map(|rule| rule.client_certificates.as_ref());
        let demands = std::iter::once(None)
            .chain(of_rules)
            .map(|own| own.unwrap_or(&self.model.tls.client_certificates));
        let made = demands.zip(&self.settings).filter_map(|(demand, settings)| {
            let rule = settings.client_certificates.clone()?;
            match demand {
                ClientCertificates::Off => None,
                ClientCertificates::Request { ca } => Some((ca.clone(), Demand::Request, rule)),
                ClientCertificates::Require { ca } => Some((ca.clone(), Demand::Require, rule)),
            }
        });
        made.collect()
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
/// **Errors**: making it, or writing the CA's file.
pub(crate) fn make_throwaway(config: &Config, lasting: &mut Lasting, now: SystemTime) -> Result<(), Error> {
    let sources = config.services.iter().flat_map(|service| &service.tls.certificates);
    for source in sources {
        let CertificateSource::Throwaway { ca_file } = source else { continue };
        if lasting.throwaway.is_none() {
            lasting.throwaway = Some(throwaway(now)?);
        }
        if let Some((ca_pem, _)) = &lasting.throwaway {
            write_aside(ca_file, ca_pem)
                .map_err(|source| Error::WriteCa { file: ca_file.clone(), source })?;
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
pub(crate) fn throwaway(now: SystemTime) -> Result<(String, Arc<Certificate>), Error> {
    let Throwaway { ca_pem, certificate } = throwaway::make(None, now).map_err(Error::Throwaway)?;
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

    /// Whether it would be made otherwise now: a file has changed, a certificate has begun or ceased to be valid that
    /// another one can stand in for, or one whose file was removed has been served for long enough.
    pub(crate) fn is_outdated(&self, now: SystemTime) -> bool {
        let keep = i64::try_from(self.config.process.keep_removed_certificates.as_secs()).unwrap_or(i64::MAX);
        let is_over = |problem: &FileProblem| {
            problem.trouble == Trouble::Removed && problem.since.saturating_add(keep) <= seconds(now)
        };
        let due = |service: &ServiceState| {
            service.store.rebuild_at().is_some_and(|at| at <= seconds(now))
                || service.problems.iter().any(is_over)
        };
        self.services.iter().any(due) || load::changed(&self.files)
    }

    /// How many certificate files of each service are not used as they are.
    pub(crate) fn file_problems(&self) -> Vec<FileProblemSnapshot> {
        let of_service = |service: &ServiceState| {
            let count =
                |trouble| service.problems.iter().filter(|problem| problem.trouble == trouble).count() as u64;
            FileProblemSnapshot {
                service: service.model.name.clone(),
                broken: count(Trouble::Broken),
                removed: count(Trouble::Removed),
            }
        };
        self.services.iter().map(of_service).collect()
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
