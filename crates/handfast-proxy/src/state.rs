//! A configuration's life, third part: what runs. Immutable; a connection keeps the one it was accepted with.
//!
//! In: a [`Config`] that has been checked, and the files that it names. Out: a [`State`] with everything loaded, or
//! everything that is wrong with it (`state/build.rs`). Nothing that serves is touched before the state is whole.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_tls::client_certificates::{ClientCertificates as ClientRule, Demand};
use handfast_tls::load::{self, FileProblem, FileStamp, Source, Trouble};
use handfast_tls::server::ServerSettings;
use handfast_tls::store::CertificateStore;
use handfast_tls::ticket::KeySet;
use handfast_tls::weak::Lists;

use crate::admission::Admission;
use crate::config::CertificateFact;
use crate::config::model::{Address, ClientCertificates, Config, Service};
use crate::metrics::{CertificateSnapshot, FileProblemSnapshot};
use crate::permits::{AddressLimit, Pool};
use crate::standing::Standings;

mod build;
mod carried;
mod dialling;
mod report;
mod rings;
mod words;

pub(crate) use build::{Built, build};
pub(crate) use carried::{CarriedOver, SharedCarriedOver, make_throwaway, throwaway};
pub(crate) use dialling::DialTls;
pub(crate) use report::Report;
pub(crate) use rings::{KeyRings, RingId};

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
    /// Keys that are nobody's secret.
    pub(crate) known_keys: Arc<Lists>,
}

/// One service, with what its files hold.
#[derive(Debug)]
pub(crate) struct ServiceState {
    pub(crate) model: Service,
    /// The service's own, then one for each of its rules; none where no TLS ends here.
    pub(crate) settings: Vec<ServerSettings>,
    /// TLS towards the backends, in the same order; `None`: plain text.
    pub(crate) dialling: Vec<Option<Arc<DialTls>>>,
    /// `None` where no TLS ends here.
    pub(crate) ring: Option<(RingId, Arc<KeySet>)>,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) address_limit: Option<Arc<AddressLimit>>,
    /// Whom it lets in by address, where it does not let in everybody.
    pub(crate) admission: Option<Arc<Admission>>,
    /// How its backends do; the same for every state that has the service.
    pub(crate) standings: Arc<Standings>,
    pub(crate) store: Arc<CertificateStore>,
    /// Where the certificates come from.
    sources: Vec<Source>,
    /// Files that are not used as they are; what they were is served instead.
    pub(crate) problems: Vec<FileProblem>,
}

/// A rule about client certificates, and what it was made of.
type Authorities = (PathBuf, Demand, ClientRule);

impl ServiceState {
    /// The rules about client certificates that are in use, with the file and the demand that they were made of.
    fn authorities(&self) -> Vec<Authorities> {
        let of_rules = self.model.names.iter().map(|rule| rule.client_certificates.as_ref());
        let Some(tls) = &self.model.tls else { return Vec::new() };
        let demands =
            std::iter::once(None).chain(of_rules).map(|own| own.unwrap_or(&tls.client_certificates));
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

impl State {
    /// What is known of the certificates, for metrics.
    pub(crate) fn certificate_snapshots(&self) -> Vec<CertificateSnapshot> {
        let of_service = |service: &ServiceState| {
            let name = service.model.name.clone();
            let snapshots = service.store.certificates().iter().map(move |certificate| CertificateSnapshot {
                service: name.clone(),
                name: certificate.dns_names().first().map_or(certificate.subject(), |name| name).into(),
                kind: certificate.kind().into(),
                not_after: time(certificate.not_after()),
                staple_until: certificate.staple_until().map(time),
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
                staple_until: certificate.staple_until(),
                expires_in_days: (certificate.not_after() - seconds(now)).div_euclid(86_400),
                file: certificate.files().first().cloned().unwrap_or_default(),
            });
            facts.collect::<Vec<_>>()
        };
        self.services.iter().flat_map(of_service).collect()
    }

    /// Whether it would be made otherwise now: a file has changed, a certificate has begun or ceased to be valid that
    /// another one can stand in for, an OCSP response has expired, or one whose file was removed has been served for long enough.
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
                not_stapled: count(Trouble::Staple),
            }
        };
        self.services.iter().map(of_service).collect()
    }
}

fn time(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
