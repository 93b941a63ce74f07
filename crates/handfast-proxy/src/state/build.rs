//! Making a state: reads everything that a configuration names, and says everything that is wrong with it.
//!
//! In: a configuration, the state before, what is carried over. Out: [`Built`]. Nothing that serves is touched.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_net::dial;
use handfast_tls::certificate::Certificate;
use handfast_tls::client::Trust;
use handfast_tls::client_certificates::{self, ClientCertificates as ClientRule, Demand, KnownLists};
use handfast_tls::load::{self, Before, FileProblem, FileStamp, Kept, ProblemKind, Source};
use handfast_tls::policy::{self, Policy};
use handfast_tls::server::{Server, ServerSettings};
use handfast_tls::session::Failure;
use handfast_tls::shared_keys;
use handfast_tls::store::{CertificateStore, Resolver};
use handfast_tls::ticket::KeySet;
use handfast_tls::weak::{self, Lists};
use handfast_tls::{Finding, Severity};

use super::carried::CarriedOver;
use super::report::Report;
use super::rings::RingId;
use super::{Authorities, RouteState, ServiceState, State, seconds, words};
use crate::admission::Admission;
use crate::admission::permits::{AddressLimit, Pool};
use crate::backends::standing::Standings;
use crate::backends::tunnel::Through;
use crate::config::model::{
    self, CertificateSource, ClientChecks, Config, Places, RouteTls, Service, each_once,
};
use handfast_process::privileges::ServiceUser;

/// What a service needs where TLS ends here; nothing where it does not.
#[derive(Debug, Default)]
struct Termination {
    ring: Option<(RingId, Arc<KeySet>)>,
    store: Arc<CertificateStore>,
    sources: Vec<Source>,
    problems: Vec<FileProblem>,
}

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
        system: None,
        lists: previous.map(State::known_lists).unwrap_or_default(),
        keep_removed: config.process.keep_removed_certificates,
        keys_apart: config.process.private_keys_apart,
        known_keys: Arc::default(),
        carried,
        places: &config.places,
        user: ServiceUser::from(&config.process),
        now,
    };
    builder.lists(&config.process.weak_keys, previous);
    let services: Vec<ServiceState> =
        config.services.iter().filter_map(|model| builder.service(model, previous)).collect();
    builder.compare_keys(&services, previous);
    let Builder {
        known_keys,
        report,
        mut files,
        folders,
        may_be_half_written,
        has_new_problems,
        carried,
        ..
    } = builder;
    files.iter_mut().for_each(|(_, stamp)| *stamp = stamp.settled(now));
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
        known_keys,
        keys: carried.keys.clone(),
    });
    Built { state, report, may_be_half_written, files }
}

pub(super) struct Builder<'a, 'p> {
    pub(super) report: Report,
    pub(super) files: Vec<(PathBuf, FileStamp)>,
    pub(super) folders: Vec<PathBuf>,
    pub(super) may_be_half_written: bool,
    /// Files that cannot be used, and could when the state before was made.
    has_new_problems: bool,
    /// Of the service that is being made: what it had before, and files of authorities that cannot be used now.
    authorities: Vec<Authorities>,
    authority_problems: Vec<FileProblem>,
    /// Whom this machine trusts, once that has been asked for.
    pub(super) system: Option<Result<Trust, Failure>>,
    /// Revocation lists that need not be read again.
    lists: KnownLists,
    keep_removed: Duration,
    /// Whether no private key may be in this process.
    keys_apart: bool,
    pub(super) known_keys: Arc<Lists>,
    pub(super) carried: &'a mut CarriedOver,
    pub(super) places: &'p Places,
    /// The user that serves: files that it can replace are read with its rights.
    user: ServiceUser,
    pub(super) now: SystemTime,
}

impl Builder<'_, '_> {
    /// Reads the lists of known keys. Where a file cannot be used now, what it held goes on being refused.
    fn lists(&mut self, files: &[PathBuf], previous: Option<&State>) {
        let loaded = weak::load(files, previous.map(|previous| &previous.known_keys));
        self.may_be_half_written |= loaded.findings.iter().any(Finding::may_be_half_written);
        self.report.take(loaded.findings, self.places);
        for Finding { file, message: what, hint, .. } in &loaded.kept {
            self.report.leave_out(words::known_keys(file, what, hint.as_deref()));
        }
        self.files.extend(loaded.files_read);
        self.folders.extend(loaded.folders);
        self.known_keys = loaded.lists;
    }

    /// Of all services together: their owners may not know of each other.
    fn compare_keys(&mut self, services: &[ServiceState], previous: Option<&State>) {
        let all = |services: &[ServiceState]| -> Vec<Arc<Certificate>> {
            services.iter().flat_map(|service| service.store.certificates()).cloned().collect()
        };
        let certificates = all(services);
        let before = previous.map(|previous| all(&previous.services)).unwrap_or_default();
        self.report.take(shared_keys::shared_factors_of_all(&certificates, &before), self.places);
        self.report.take(shared_keys::shared_keys(&certificates), self.places);
    }

    fn service(&mut self, model: &Service, previous: Option<&State>) -> Option<ServiceState> {
        let before =
            previous.and_then(|state| state.services.iter().find(|service| service.model.name == model.name));
        self.authorities = before.map(ServiceState::authorities).unwrap_or_default();
        let state = |route| RouteState { route, server: None, backend_tls: None };
        let mut routes: Vec<RouteState> = model.routes().into_iter().map(state).collect();
        let tls = model.tls.as_ref().map(|tls| self.termination(model, tls, &mut routes, before));
        let has_backend_tls = self.backend_tls(model, &mut routes, before);
        let through = self.through(model, before);
        let mut late = Vec::new();
        for problem in self.authority_problems.drain(..) {
            self.has_new_problems |= !before.is_some_and(|before| problem.is_known(&before.problems));
            late.push(problem);
        }
        self.source(model);
        has_backend_tls?;
        let Termination { ring, store, sources, mut problems } = match tls {
            Some(tls) => tls?,
            None => Termination::default(),
        };
        problems.extend(late);
        Some(ServiceState {
            pool: pool(model, before, self.carried.threads),
            address_limit: address_limit(model, before),
            admission: Admission::new(&model.admission, before.and_then(|before| before.admission.as_ref())),
            standings: before
                .map_or_else(|| Standings::new(&model.name), |before| Arc::clone(&before.standings)),
            model: model.clone(),
            routes,
            ring,
            store,
            sources,
            problems,
            through: through?,
        })
    }

    /// The proxy on the way to the backends; the inner `None`: there is none.
    fn through(&mut self, model: &Service, before: Option<&ServiceState>) -> Option<Option<Arc<Through>>> {
        let Some(through) = &model.connect_through else { return Some(None) };
        match Through::read(through, &self.user) {
            Ok(through) => {
                let known =
                    before.and_then(|before| before.through.as_ref()).filter(|known| ***known == through);
                Some(Some(known.map_or_else(|| Arc::new(through), Arc::clone)))
            }
            Err(problem) => {
                self.report.error(format!("service {}: connect-through: {problem}", model.name));
                None
            }
        }
    }

    /// Whether this machine, and the user that this process is, can dial from where the service says.
    fn source(&mut self, model: &Service) {
        let name = &model.name;
        match &model.source {
            model::Source::Route => {}
            model::Source::Own(own) => {
                for source in own {
                    if let Err(error) = dial::is_here(*source) {
                        self.report.warn(format!(
                            "service {name}: connections cannot come from {source}: {error}\n  hint: `ip address` lists this \
                             machine's addresses; the other sources are used meanwhile"
                        ));
                    }
                }
            }
            model::Source::Client => {
                if let Err(error) = dial::can_be_foreign() {
                    self.report.error(format!(
                        "service {name}: connections cannot come from clients' addresses (IP_TRANSPARENT): {error}\n  hint: it needs \
                         CAP_NET_ADMIN: `AmbientCapabilities=CAP_NET_ADMIN` in the systemd unit, or \
                         `setcap cap_net_admin+ep` on the program"
                    ));
                }
            }
        }
    }

    /// What a service needs where TLS ends here; the settings go to the routes.
    fn termination(
        &mut self,
        model: &Service,
        tls: &model::Tls,
        routes: &mut [RouteState],
        before: Option<&ServiceState>,
    ) -> Option<Termination> {
        // Without a certificate the rest is looked at all the same: everything that is wrong is said at once, and what the report
        // has of this keeps it from being served.
        let now = seconds(self.now);
        let nothing = || (Arc::new(CertificateStore::new(Vec::new(), now).0), Vec::new(), Vec::new());
        let (store, sources, problems) = self.store(model, tls, before).unwrap_or_else(nothing);
        let resolver = Arc::new(Resolver::new(Arc::clone(&store), tls.unknown_name.into()));
        let ring = self.ring(&tls.tickets);
        // Routes that ask the same of clients share what is made for it. A ticket of one is then good for another: the route is
        // chosen again for each connection, and what was asked is the same.
        let mut made = HashMap::new();
        for RouteState { route, server, .. } in routes.iter_mut() {
            let Some(settings) = &route.tls else { continue };
            let make = || self.settings(model, tls, settings, &resolver).map(Arc::new);
            server.clone_from(made.entry(Arc::as_ptr(settings)).or_insert_with(make));
        }
        if made.values().any(Option::is_none) {
            return None;
        }
        // Ticket keys as they are now; threads get newer ones as they come.
        let ring = ring?;
        self.try_out(routes, &ring.1);
        Some(Termination { ring: Some(ring), store, sources, problems })
    }

    fn ring(&mut self, tickets: &model::Tickets) -> Option<(RingId, Arc<KeySet>)> {
        match self.carried.rings.ring(tickets, self.now) {
            Ok(ring) => Some(ring),
            Err(error) => {
                let hint = error.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
                let file = tickets.key_file.as_deref();
                let place = file.map(|file| self.places.suffix(file)).unwrap_or_default();
                self.report.error(format!("{error}{place}{hint}"));
                None
            }
        }
    }

    /// TLS towards the backends of each route; `None` where it cannot be made.
    fn backend_tls(
        &mut self,
        model: &Service,
        routes: &mut [RouteState],
        before: Option<&ServiceState>,
    ) -> Option<()> {
        let before: Vec<_> = before.iter().flat_map(|before| before.backend_tls()).cloned().collect();
        // Routes with the same settings share what is made for them, and with it the sessions.
        let mut made = HashMap::new();
        for RouteState { route, backend_tls, .. } in routes {
            let Some(settings) = &route.backends.tls else { continue };
            let make = || self.dialling(&model.name, settings, &before);
            backend_tls.clone_from(made.entry(Arc::as_ptr(settings)).or_insert_with(make));
        }
        made.values().all(Option::is_some).then_some(())
    }

    /// Reads the certificates of a service. Those that it served `before` are kept as they are in memory, and go on being
    /// served where their files cannot be used now.
    fn store(&mut self, model: &Service, tls: &model::Tls, before: Option<&ServiceState>) -> Option<Read> {
        let (mut certificates, sources) = self.sources(tls);
        let holder = self.carried.holder();
        let mut loaded = load::load_from(&sources, &self.known_keys, self.now, holder.as_ref());
        self.may_be_half_written |= loaded.may_be_half_written();
        let mut kept =
            before.map(|before| self.keep(model, &mut loaded, &sources, before)).unwrap_or_default();
        kept.problems.extend(self.staples(&mut loaded, before));
        self.took(loaded.findings, loaded.files_read, loaded.folders);
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
    fn sources(&mut self, tls: &model::Tls) -> (Vec<Arc<Certificate>>, Vec<Source>) {
        let mut certificates = Vec::new();
        let mut sources = Vec::new();
        for source in &tls.certificates {
            match source {
                CertificateSource::File { certificate, key, ocsp } => {
                    let (certificate, key, ocsp) = (certificate.clone(), key.clone(), ocsp.clone());
                    sources.push(Source::File { certificate, key, ocsp });
                }
                CertificateSource::Folder(folder) => sources.push(Source::Folder(folder.clone())),
                CertificateSource::Throwaway { .. } if self.keys_apart => self.report.error(
                    "the throwaway certificate's key is made in this process, which process.private-keys = \"apart\" forbids\n  \
                     hint: name a certificate and its key in files, or private-keys = \"in-process\"",
                ),
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
            match problem.kind {
                ProblemKind::Broken | ProblemKind::Staple => self.report.leave_out(line),
                ProblemKind::Removed => self.report.warn(line),
            }
        }
        for certificate in &kept.dropped {
            self.report.warn(words::dropped(certificate, &model.name, self.keep_removed));
        }
        kept
    }

    /// OCSP responses that cannot be used: errors of the configuration at a start if nothing but a person mends them. At
    /// a reload the response of before is stapled as long as it is good, and then none.
    fn staples(&mut self, loaded: &mut load::Loaded, before: Option<&ServiceState>) -> Vec<FileProblem> {
        if let Some(before) = before {
            load::keep_staples(loaded, before.store.certificates(), self.now);
        }
        let mut problems = Vec::new();
        for finding in std::mem::take(&mut loaded.staples) {
            let Finding { file, message: what, hint, .. } = finding.clone();
            let since = seconds(self.now);
            let mut problem = FileProblem { file, kind: ProblemKind::Staple, what, hint, kept: None, since };
            let Some(before) = before else {
                self.report.take(vec![finding], self.places);
                problems.push(problem);
                continue;
            };
            match before.problems.iter().find(|known| problem.is_known(std::slice::from_ref(*known))) {
                Some(known) => problem.since = known.since,
                None => self.has_new_problems = true,
            }
            self.report.leave_out(words::problem(&problem, self.keep_removed));
            problems.push(problem);
        }
        problems
    }

    /// TLS with the clients of routes that have these `settings`.
    fn settings(
        &mut self,
        model: &Service,
        tls: &model::Tls,
        settings: &RouteTls,
        resolver: &Arc<Resolver>,
    ) -> Option<ServerSettings> {
        let policy = self.policy(&settings.policy)?;
        let client_certificates = match settings.client_certificates.checks() {
            None => None,
            Some((demand, checks)) => Some(self.client_rule(checks, demand)?),
        };
        let rule = settings.first_route.checked_sub(1).map(|rule| &model.rules[rule]);
        let names = rule.map(|rule| rule.names.join(" ")).unwrap_or_default();
        Some(ServerSettings {
            policy,
            resolver: Arc::clone(resolver),
            client_certificates,
            alpn: settings.alpn.clone(),
            tickets_per_handshake: tls.tickets.per_handshake,
            ticket_lifetime: tls.tickets.lifetime,
            // Part of what binds tickets, over upgrades too: its text must stay as it is.
            scope: format!("{} {names}", model.name),
        })
    }

    /// Makes a TLS server of each settings, as the threads will, so that none of them can fail later.
    fn try_out(&mut self, routes: &[RouteState], keys: &Arc<KeySet>) {
        let settings = routes.iter().filter_map(|route| route.server.as_ref());
        for settings in each_once(settings, |settings| Arc::as_ptr(settings)) {
            if let Err(failure) = Server::new((**settings).clone(), Arc::clone(keys)) {
                self.report.error(format!("service {}: {failure}", settings.scope));
            }
        }
    }

    pub(super) fn policy(&mut self, policy: &model::Policy) -> Option<Policy> {
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

    fn client_rule(&mut self, checks: &ClientChecks, demand: Demand) -> Option<ClientRule> {
        let wanted = checks.wanted(demand, &self.known_keys);
        let mut loaded = client_certificates::load_all(&wanted, &self.lists, self.now);
        self.leave_out(loaded.left_out, words::LISTS_STILL);
        let is_known = |(known, of, _): &&Authorities| known == checks && *of == demand;
        if loaded.rule.is_none()
            && let Some((_, _, known)) = self.authorities.iter().find(is_known)
        {
            loaded.rule = Some(known.clone());
            let (errors, others) =
                loaded.findings.into_iter().partition(|finding| finding.severity == Severity::Error);
            loaded.findings = others;
            self.leave_out(errors, "clients' certificates are checked against its old version");
        }
        self.took(loaded.findings, loaded.files_read, loaded.folders);
        if let Some(rule) = &loaded.rule {
            self.lists.add(rule.lists());
        }
        loaded.rule
    }

    /// Notes what was seen in files that were read, and where to look for a change.
    pub(super) fn took(
        &mut self,
        findings: Vec<Finding>,
        files: Vec<(PathBuf, FileStamp)>,
        folders: Vec<PathBuf>,
    ) {
        self.report.take(findings, self.places);
        self.files.extend(files);
        self.folders.extend(folders);
    }

    /// A file of authorities or revocation lists that cannot be used keeps no certificate from being renewed.
    pub(super) fn leave_out(&mut self, errors: Vec<Finding>, still: &str) {
        for Finding { file, message: what, hint, .. } in errors {
            let problem = FileProblem {
                file,
                kind: ProblemKind::Broken,
                what,
                hint,
                kept: None,
                since: seconds(self.now),
            };
            self.report.leave_out(words::still_used(&problem, still));
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

#[cfg(test)]
mod tests;
