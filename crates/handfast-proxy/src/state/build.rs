//! Making a state: reads everything that a configuration names, and says everything that is wrong with it.
//!
//! In: a configuration, the state before, what is carried over. Out: [`Built`]. Nothing that serves is touched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_tls::certificate::Certificate;
use handfast_tls::client_certificates::{self, ClientCertificates as ClientRule, Demand};
use handfast_tls::load::{self, Before, FileProblem, FileStamp, Kept, Source, Trouble};
use handfast_tls::policy::{self, Policy};
use handfast_tls::server::{Server, ServerSettings};
use handfast_tls::store::{CertificateStore, Resolver, UnknownName};
use handfast_tls::ticket::KeySet;
use handfast_tls::{Finding, Severity};

use super::carried::CarriedOver;
use super::report::Report;
use super::{Authorities, ServiceState, State, seconds, words};
use crate::admission::Admission;
use crate::config::model::{self, CertificateSource, ClientCertificates, Config, NameRule, Places, Service};
use crate::permits::{AddressLimit, Pool};
use crate::standing::Standings;

/// The certificates of a service, where they come from, and files that are not used.
type Read = (Arc<CertificateStore>, Vec<Source>, Vec<FileProblem>);

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

/// Makes a state from `config`; `previous` lends what must not begin again (the count of connections).
///
/// **Errors**: all of them, in the report. **Cost**: reads every file named; 10,000 certificates take under a second.
pub(crate) fn build(
    config: Config,
    generation: u64,
    previous: Option<&State>,
    carried: &mut CarriedOver,
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
        carried,
        places: &config.places,
        now,
    };
    let services = config.services.iter().filter_map(|model| builder.service(model, previous)).collect();
    let Builder { report, files, folders, may_be_half_written, has_new_problems, carried, .. } = builder;
    let may_be_half_written = has_new_problems || (may_be_half_written && !report.errors.is_empty());
    // As with certificates: what is as it was stays where it is.
    let unchanged = previous.map(|previous| &previous.files).filter(|known| ***known == files);
    let state = report.errors.is_empty().then(|| State {
        generation,
        config,
        services,
        built_in: carried.built_in.clone(),
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
    carried: &'a mut CarriedOver,
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
        let ring = match self.carried.rings.ring(&model.tls.tickets, self.now) {
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
            pool: pool(model, before, self.carried.threads),
            address_limit: address_limit(model, before),
            admission: Admission::new(&model.admission, before.and_then(|before| before.admission.as_ref())),
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
        // The same certificates in the same order, and no date has passed that would sort them again.
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
                CertificateSource::Throwaway { .. } => match &self.carried.throwaway {
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

    fn client_rule(&mut self, ca: &Path, demand: Demand) -> Option<ClientRule> {
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

/// The count of connections goes on over a reload that leaves the limit as it was; with another limit it begins again,
/// and the open connections do not count.
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
