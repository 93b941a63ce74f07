//! Making one service of a state: what it needs of files, and what is kept of the service that it replaces.

mod requests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use handfast_net::dial;
use handfast_pki::certificate::Certificate;
use handfast_pki::load::{self, Before, FileProblem, KeepResult, ProblemKind, Source};
use handfast_pki::source::CertificateSource;
use handfast_pki::{Finding, Severity};
use handfast_tls::client::{self, ClientSettings, Identity, Revocation, Trust, Verification};
use handfast_tls::client_certificates::{self, ClientCertificates as ClientRule, Demand};
use handfast_tls::server::{Server, ServerSettings};
use handfast_tls::store::{CertificateStore, Resolver};
use handfast_tls::ticket::KeySet;

use super::build::BuildContext;
use super::carried::RingId;
use super::{Authorities, RouteState, ServiceState, State, identity_source, report, seconds};
use crate::admission::Admission;
use crate::admission::permits::{AddressLimit, Pool};
use crate::backends::group::RotationCounters;
use crate::backends::standing::Standings;
use crate::backends::tls::{BackendTlsSettings, client_for};
use crate::backends::tunnel::ProxyHop;
use crate::cache::ServiceCache;
use handfast_config::model::{
    self, BackendAlpn, BackendRevocation, BackendTls, BackendVerification, CertificateEntry, ClientChecks,
    RouteTls, Service, each_once,
};

/// Parts of a service whose TLS ends here; empty for another one.
#[derive(Debug, Default)]
struct Termination {
    ring: Option<(RingId, Arc<KeySet>)>,
    store: Arc<CertificateStore>,
    sources: Vec<Source>,
    problems: Vec<FileProblem>,
}

pub(super) struct ServiceBuilder<'b, 'a, 'p> {
    pub(super) context: &'b mut BuildContext<'a, 'p>,
    pub(super) model: &'b Service,
    pub(super) before: Option<&'b ServiceState>,
    /// Rules about client certificates that it had before.
    authorities: Vec<Authorities>,
    /// Files of authorities that cannot be used now.
    authority_problems: Vec<FileProblem>,
}

impl<'b, 'a, 'p> ServiceBuilder<'b, 'a, 'p> {
    pub(super) fn new(
        context: &'b mut BuildContext<'a, 'p>,
        model: &'b Service,
        previous: Option<&'b State>,
    ) -> Self {
        let before =
            previous.and_then(|state| state.services.iter().find(|service| service.model.name == model.name));
        let authorities = before.map(ServiceState::authorities).unwrap_or_default();
        Self { context, model, before, authorities, authority_problems: Vec::new() }
    }

    /// Reads all files of the service, so that everything that is wrong with it is reported.
    pub(super) fn build(mut self) -> Option<ServiceState> {
        let (model, before) = (self.model, self.before);
        let state = |route| RouteState { route, server: None, backend_tls: None };
        let mut routes: Vec<RouteState> = model.routes().into_iter().map(state).collect();
        let tls = model.tls.as_ref().map(|tls| self.termination(tls, &mut routes));
        let has_backend_tls = self.backend_tls(&mut routes);
        let through = self.through();
        let is_new = |problem: &FileProblem| !before.is_some_and(|before| problem.is_known(&before.problems));
        self.context.has_new_problems |= self.authority_problems.iter().any(is_new);
        self.source();
        let gates = self.gates();
        let sticky_keys = self.sticky_keys();
        let files = self.files();
        has_backend_tls?;
        let termination = tls.unwrap_or_else(|| Some(Termination::default()))?;
        let Termination { ring, store, sources, mut problems } = termination;
        problems.append(&mut self.authority_problems);
        Some(ServiceState {
            pool: pool(model, before, self.context.carried.threads),
            threads: self.context.carried.threads,
            address_limit: address_limit(model, before),
            admission: Admission::new(&model.admission, before.and_then(|before| before.admission.as_ref())),
            gates: gates?,
            sticky_keys: sticky_keys?,
            files: files?,
            cache: self.cache(),
            turns: RotationCounters::default(),
            slots: before.map(|before| Arc::clone(&before.slots)).unwrap_or_default(),
            standings: before
                .map_or_else(|| Standings::new(&model.name), |before| Arc::clone(&before.standings)),
            model: Arc::new(model.clone()),
            routes,
            ring,
            store,
            sources,
            problems,
            through: through?,
        })
    }

    /// Its cache, which goes on over a reload.
    fn cache(&self) -> Option<Arc<ServiceCache>> {
        let model = self.model.http.as_ref()?.cache.as_ref()?;
        let before = self.before.and_then(|before| before.cache.as_ref());
        Some(ServiceCache::new(&self.model.name, model, before))
    }

    /// The proxy on the way to the backends; the inner `None`: there is none.
    fn through(&mut self) -> Option<Option<Arc<ProxyHop>>> {
        let Some(through) = &self.model.connect_through else { return Some(None) };
        match ProxyHop::read(through, &self.context.user) {
            Ok(through) => {
                let known = self
                    .before
                    .and_then(|before| before.through.as_ref())
                    .filter(|known| ***known == through);
                Some(Some(known.map_or_else(|| Arc::new(through), Arc::clone)))
            }
            Err(problem) => {
                self.context.report.error(format!("service {}: connect-through: {problem}", self.model.name));
                None
            }
        }
    }

    /// Checks that this machine, and the user of this process, can dial from the configured source addresses.
    fn source(&mut self) {
        let name = &self.model.name;
        match &self.model.source {
            model::Source::Route => {}
            model::Source::Own(own) => {
                for source in own {
                    if let Err(error) = dial::is_here(*source) {
                        self.context.report.warn(format!(
                            "service {name}: connections cannot come from {source}: {error}\n  hint: `ip address` lists this \
                             machine's addresses; the other sources are used meanwhile"
                        ));
                    }
                }
            }
            model::Source::Client => {
                if let Err(error) = dial::can_be_foreign() {
                    self.context.report.error(format!(
                        "service {name}: connections cannot come from clients' addresses (IP_TRANSPARENT): {error}\n  hint: it needs \
                         CAP_NET_ADMIN: `AmbientCapabilities=CAP_NET_ADMIN` in the systemd unit, or \
                         `setcap cap_net_admin+ep` on the program"
                    ));
                }
            }
        }
    }

    /// Makes the parts of a service whose TLS ends here; the settings go to the routes.
    fn termination(&mut self, tls: &model::Tls, routes: &mut [RouteState]) -> Option<Termination> {
        // Without a certificate the rest is checked nevertheless: all problems are reported at once, and what the report
        // has of this keeps it from being served.
        let served = self.store(tls).unwrap_or_default();
        let ordered = tls.certificates.iter().filter_map(|entry| match entry {
            CertificateEntry::Acme { names, .. } => Some(names.iter().map(|name| name.as_str().into())),
            _ => None,
        });
        let resolver = Resolver::new(Arc::clone(&served.store), tls.unknown_name).awaiting(ordered.flatten());
        let resolver = Arc::new(resolver);
        let ring = self.context.ring(&tls.tickets);
        // Routes that ask the same of clients share what is made for it. A ticket of one is then good for another: the route is
        // chosen again for each connection, and what was asked is the same.
        let mut made = HashMap::new();
        for RouteState { route, server, .. } in routes.iter_mut() {
            let Some(settings) = &route.tls else { continue };
            let make = || self.settings(tls, settings, &resolver).map(Arc::new);
            server.clone_from(made.entry(Arc::as_ptr(settings)).or_insert_with(make));
        }
        if made.values().any(Option::is_none) {
            return None;
        }
        // Ticket keys as they are now; threads get newer ones as they come.
        let ring = ring?;
        self.try_out(routes, &ring.1);
        Some(Termination { ring: Some(ring), ..served })
    }

    /// TLS towards the backends of each route; `None` where it cannot be made.
    fn backend_tls(&mut self, routes: &mut [RouteState]) -> Option<()> {
        // Routes with the same settings share what is made for them, and with it the sessions.
        let mut made = HashMap::new();
        for RouteState { route, backend_tls, .. } in routes {
            let Some(settings) = &route.backends.tls else { continue };
            let make = || self.dialling(settings);
            backend_tls.clone_from(made.entry(Arc::as_ptr(settings)).or_insert_with(make));
        }
        made.values().all(Option::is_some).then_some(())
    }

    /// Reads the certificates of a service. Those that it served `before` are kept as they are in memory, and go on being
    /// served where their files cannot be used now.
    fn store(&mut self, tls: &model::Tls) -> Option<Termination> {
        let before = self.before;
        let sources = self.sources(tls);
        let mut certificates: Vec<_> = sources.iter().flat_map(|source| source.in_memory()).collect();
        let sources: Vec<_> = sources.iter().flat_map(|source| source.places()).collect();
        let holder = self.context.carried.holder();
        let mut loaded =
            load::load_from(&sources, &self.context.known_keys, self.context.now, holder.as_ref());
        self.context.may_be_half_written |= loaded.may_be_half_written();
        let mut kept = before.map(|before| self.keep(&mut loaded, &sources, before)).unwrap_or_default();
        kept.problems.extend(self.staples(&mut loaded));
        self.context.took(loaded.findings, loaded.files_read, loaded.folders);
        certificates.extend(loaded.certificates);
        let is_ordered = |source: &Source| matches!(source, Source::Awaited { .. });
        if certificates.is_empty() && !sources.iter().any(is_ordered) {
            self.context.report.error(format!("service {}: no certificate can be served", self.model.name));
            return None;
        }
        let before = before.map(|before| &before.store);
        if let Some(before) = before {
            load::keep_known(&mut certificates, before.certificates());
        }
        let now = seconds(self.context.now);
        let (store, findings) = CertificateStore::new(certificates, now);
        self.context.report.take(findings, self.context.places);
        // The same certificates in the same order, and no date has passed that would sort them again.
        let same = |before: &&Arc<CertificateStore>| {
            before.rebuild_at().is_none_or(|at| now < at)
                && before
                    .certificates()
                    .iter()
                    .map(Arc::as_ptr)
                    .eq(store.certificates().iter().map(Arc::as_ptr))
        };
        let store = before.filter(same).map_or_else(|| Arc::new(store), Arc::clone);
        Some(Termination { ring: None, store, sources, problems: kept.problems })
    }

    fn sources(&mut self, tls: &model::Tls) -> Vec<Box<dyn CertificateSource>> {
        let mut sources: Vec<Box<dyn CertificateSource>> = Vec::new();
        for written in &tls.certificates {
            match (written.on_disk(), &self.context.carried.throwaway) {
                (Some(source), _) => sources.push(source),
                (None, _) if self.context.keys_apart => self.context.report.error(
                    "the throwaway certificate's key is made in this process, which process.private-keys = \"separate-process\" forbids\n  \
                     hint: name a certificate and its key in files, or private-keys = \"in-process\"",
                ),
                (None, Some(throwaway)) => sources.push(Box::new(Arc::clone(throwaway))),
                (None, None) => self.context.report.error("the throwaway certificate was not made"),
            }
        }
        sources
    }

    /// Keeps certificates in use whose file cannot be used, and reports them.
    fn keep(&mut self, loaded: &mut load::Loaded, sources: &[Source], before: &ServiceState) -> KeepResult {
        let known = Before {
            sources: &before.sources,
            certificates: before.store.certificates(),
            problems: &before.problems,
        };
        let kept = load::keep(loaded, sources, known, self.context.keep_removed, self.context.now);
        for problem in &kept.problems {
            self.context.has_new_problems |= !problem.is_known(&before.problems);
            let line = report::problem(problem, self.context.keep_removed);
            match problem.kind {
                ProblemKind::Broken | ProblemKind::Staple => self.context.report.leave_out(line),
                ProblemKind::Removed => self.context.report.warn(line),
            }
        }
        for certificate in &kept.dropped {
            self.context.report.warn(report::dropped(
                certificate,
                &self.model.name,
                self.context.keep_removed,
            ));
        }
        kept
    }

    /// OCSP responses that cannot be used: errors of the configuration at a start if nothing but a person mends them. At
    /// a reload the response of before is stapled as long as it is good, and then none.
    fn staples(&mut self, loaded: &mut load::Loaded) -> Vec<FileProblem> {
        let before = self.before;
        if let Some(before) = before {
            load::keep_staples(loaded, before.store.certificates(), self.context.now);
        }
        let mut problems = Vec::new();
        for finding in std::mem::take(&mut loaded.staples) {
            let Finding { file, message: what, hint, .. } = finding.clone();
            let since = seconds(self.context.now);
            let mut problem = FileProblem { file, kind: ProblemKind::Staple, what, hint, kept: None, since };
            let Some(before) = before else {
                self.context.report.take(vec![finding], self.context.places);
                problems.push(problem);
                continue;
            };
            match before.problems.iter().find(|known| problem.is_known(std::slice::from_ref(*known))) {
                Some(known) => problem.since = known.since,
                None => self.context.has_new_problems = true,
            }
            self.context.report.leave_out(report::problem(&problem, self.context.keep_removed));
            problems.push(problem);
        }
        problems
    }

    /// TLS with the clients of routes that have these `settings`.
    fn settings(
        &mut self,
        tls: &model::Tls,
        settings: &RouteTls,
        resolver: &Arc<Resolver>,
    ) -> Option<ServerSettings> {
        let policy = self.context.policy(&settings.policy)?;
        let client_certificates = match settings.client_certificates.checks() {
            None => None,
            Some((demand, checks)) => Some(self.client_rule(checks, demand)?),
        };
        let rule = settings.first_route.checked_sub(1).map(|rule| &self.model.rules[rule]);
        let names = rule.map(|rule| rule.names.join(" ")).unwrap_or_default();
        Some(ServerSettings {
            policy,
            resolver: Arc::clone(resolver),
            client_certificates,
            alpn: settings.alpn.clone(),
            tickets_per_handshake: tls.tickets.per_handshake,
            ticket_lifetime: tls.tickets.lifetime,
            // Part of what binds tickets, over upgrades too: its text must stay as it is.
            scope: format!("{} {names}", self.model.name),
        })
    }

    /// Makes a TLS server of each settings, as the threads will, so that none of them can fail later.
    fn try_out(&mut self, routes: &[RouteState], keys: &Arc<KeySet>) {
        let settings = routes.iter().filter_map(|route| route.server.as_ref());
        for settings in each_once(settings, |settings| Arc::as_ptr(settings)) {
            if let Err(failure) = Server::new((**settings).clone(), Arc::clone(keys)) {
                self.context.report.error(format!("service {}: {failure}", settings.scope));
            }
        }
    }

    fn client_rule(&mut self, checks: &ClientChecks, demand: Demand) -> Option<ClientRule> {
        let tls_settings = checks.tls_settings(demand, &self.context.known_keys);
        let mut loaded = client_certificates::load_all(&tls_settings, &self.context.lists, self.context.now);
        let still = "clients' certificates are checked against the revocation lists that were in it, until these expire";
        self.leave_out(loaded.left_out, still);
        let is_known = |(known, of, _): &&Authorities| known == checks && *of == demand;
        if loaded.rule.is_none()
            && let Some((_, _, known)) = self.authorities.iter().find(is_known)
        {
            loaded.rule = Some(known.clone());
            let still = "clients' certificates are checked against its old version";
            self.keep_in_spite_of(&mut loaded.findings, still);
        }
        self.context.took(loaded.findings, loaded.files_read, loaded.folders);
        if let Some(rule) = &loaded.rule {
            self.context.lists.add(rule.lists());
        }
        loaded.rule
    }

    /// A file of authorities or revocation lists that cannot be used keeps no certificate from being renewed.
    fn leave_out(&mut self, errors: Vec<Finding>, still: &str) {
        for Finding { file, message: what, hint, .. } in errors {
            let problem = FileProblem {
                file,
                kind: ProblemKind::Broken,
                what,
                hint,
                kept: None,
                since: seconds(self.context.now),
            };
            let FileProblem { file, what, hint, .. } = &problem;
            self.context.report.leave_out(report::still_used(file, what, hint.as_deref(), still));
            if !self.authority_problems.iter().any(|known| known.file == problem.file) {
                self.authority_problems.push(problem);
            }
        }
    }
}

/// The files that TLS towards backends needs: trusted authorities and our certificate.
impl<'b> ServiceBuilder<'b, '_, '_> {
    /// Reads what `model` names. What the service dialled with until now is kept where a file cannot be used, and where nothing
    /// has changed.
    fn dialling(&mut self, model: &BackendTls) -> Option<Arc<BackendTlsSettings>> {
        let policy = self.context.policy(&model.policy);
        let verification = self.verification(model);
        let identity = self.identity(model);
        let client = ClientSettings {
            policy: Some(policy?),
            alpn: match &model.alpn {
                BackendAlpn::Own(protocols) => protocols.clone(),
                BackendAlpn::Client => Vec::new(),
            },
            identity: identity?.map(Identity::Loaded),
            verification: verification?,
            ..ClientSettings::default()
        };
        if let Err(failure) = client_for(model, &client, None) {
            self.context
                .report
                .error(format!("service {}: TLS towards the backends: {failure}", self.model.name));
            return None;
        }
        let made = BackendTlsSettings::new(model.clone(), client);
        let known = self.known(|known| known.is_same_as(&made));
        Some(known.map_or_else(|| Arc::new(made), Arc::clone))
    }

    fn known(&self, is_it: impl Fn(&BackendTlsSettings) -> bool) -> Option<&'b Arc<BackendTlsSettings>> {
        self.before?.backend_tls().find(|known| is_it(known))
    }

    fn verification(&mut self, model: &BackendTls) -> Option<Verification> {
        let trust = match model.verify {
            BackendVerification::Nothing => return Some(Verification::Off),
            BackendVerification::Pins => return Some(Verification::Trust(Trust::only_pins(&model.pins))),
            BackendVerification::Full | BackendVerification::CommonName | BackendVerification::AnyName => {
                match &model.ca {
                    Some(ca) => self.trust(ca)?,
                    None => self.system_trust()?,
                }
            }
        };
        let trust = trust.asking(&model.pins, model.verify.requires_name());
        let trust = match model.verify {
            BackendVerification::CommonName => trust.or_common_name(),
            _ => trust,
        };
        Some(Verification::Trust(trust.revocation(match model.revocation {
            BackendRevocation::Off => Revocation::Unchecked,
            BackendRevocation::Stapled => Revocation::Stapled,
            BackendRevocation::StapleRequired => Revocation::StapleRequired,
        })))
    }

    fn trust(&mut self, ca: &Path) -> Option<Trust> {
        let mut loaded = client::load_trust(ca, &self.context.known_keys, self.context.now);
        let trust = loaded.trust.take().or_else(|| {
            let known = self.known(|known| known.model.ca.as_deref() == Some(ca))?.trust().cloned()?;
            let still = "backends' certificates are checked against its old version";
            self.keep_in_spite_of(&mut loaded.findings, still);
            Some(known)
        });
        self.context.took(loaded.findings, loaded.files_read, loaded.folders);
        trust
    }

    /// The machine's own list, read once for all services.
    fn system_trust(&mut self) -> Option<Trust> {
        let known_keys = &self.context.known_keys;
        let trust = self.context.system.get_or_insert_with(|| client::system_trust(known_keys));
        match trust {
            Ok(trust) => Some(trust.clone()),
            Err(failure) => {
                let problem = format!("service {}: TLS towards the backends: {failure}", self.model.name);
                self.context.report.error(problem);
                None
            }
        }
    }

    /// The certificate that is shown to backends; the inner `None`: none is.
    fn identity(&mut self, model: &BackendTls) -> Option<Option<Arc<Certificate>>> {
        let Some(source) = identity_source(model) else { return Some(None) };
        let holder = self.context.carried.holder();
        let mut loaded =
            load::load_from(&source.places(), &self.context.known_keys, self.context.now, holder.as_ref());
        // Clients staple nothing.
        loaded.staples.clear();
        self.context.may_be_half_written |= loaded.may_be_half_written();
        let has_errors = loaded.has_errors();
        let found = loaded.certificates.pop().filter(|_| !has_errors).or_else(|| {
            let known = self.known(|known| known.model.identity == model.identity)?.identity().cloned()?;
            self.keep_in_spite_of(&mut loaded.findings, "its old version is shown to backends");
            Some(known)
        });
        self.context.took(loaded.findings, loaded.files_read, loaded.folders);
        found.map(Some)
    }

    /// Files that cannot be used now, while what they were is used on.
    fn keep_in_spite_of(&mut self, findings: &mut Vec<Finding>, still: &str) {
        let (errors, others) =
            std::mem::take(findings).into_iter().partition(|finding| finding.severity == Severity::Error);
        *findings = others;
        self.leave_out(errors, still);
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
