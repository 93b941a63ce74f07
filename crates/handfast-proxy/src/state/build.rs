//! Making a state: reads everything that a configuration names, and reports every problem with it. Nothing that serves is touched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_pki::Finding;
use handfast_pki::certificate::Certificate;
use handfast_pki::load::FileStamp;
use handfast_pki::shared_keys;
use handfast_pki::weak::{self, Lists};
use handfast_tls::client::Trust;
use handfast_tls::client_certificates::KnownLists;
use handfast_tls::policy::{self, Policy};
use handfast_tls::session::Failure;
use handfast_tls::ticket::KeySet;

use crate::admission::admin_token::AdminToken;

use super::addresses::AddressFiles;
use super::carried::{CarriedOver, RingId};
use super::report::{self, Report};
use super::service::ServiceBuilder;
use super::{ServiceState, State, seconds};
use handfast_config::model::{self, Config, Places};
use handfast_process::privileges::ServiceUser;

/// Seconds before the end of a certificate from which it is reported at each start, reload and check.
const EXPIRY_WARNING_SECONDS: i64 = 72 * 3_600;

#[derive(Debug)]
pub(crate) struct Built {
    /// The state; `None` when the report has errors.
    pub(crate) state: Option<State>,
    pub(crate) report: Report,
    /// True if another attempt in a moment may help: a file is being written.
    pub(crate) may_be_half_written: bool,
    /// The files as they were read, so that the same failure is not found repeatedly.
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
    let mut context = BuildContext {
        report: Report::default(),
        files: Vec::new(),
        folders: Vec::new(),
        may_be_half_written: false,
        has_new_problems: false,
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
    context.load_key_lists(&config.process.weak_keys, previous);
    let admin_token = config.admin_token_file.as_ref().and_then(|file| context.admin_token(file));
    let mut address_files = AddressFiles::new(&config.places, ServiceUser::from(&config.process));
    let filled: Vec<_> = config.services.iter().map(|service| address_files.fill(service)).collect();
    let AddressFiles { files, folders, errors, .. } = address_files;
    context.took(Vec::new(), files, folders);
    errors.into_iter().for_each(|error| context.report.error(error));
    let mut service = |model| ServiceBuilder::new(&mut context, model, previous).build();
    let services: Vec<ServiceState> = filled.iter().map(AsRef::as_ref).filter_map(&mut service).collect();
    context.compare_keys(&services, previous);
    context.warn_of_expiry(&services);
    let may_be_half_written =
        context.has_new_problems || (context.may_be_half_written && !context.report.errors.is_empty());
    let BuildContext { report, mut files, folders, known_keys, carried, .. } = context;
    files.iter_mut().for_each(|(_, stamp)| *stamp = stamp.settled(now));
    // As with certificates: what is as it was stays where it is.
    let unchanged = previous.map(|previous| &previous.files).filter(|known| ***known == files);
    let state = report.errors.is_empty().then(|| State {
        generation,
        config,
        services,
        own_targets: Arc::clone(&carried.own_targets),
        files: unchanged.map_or_else(|| Arc::new(files.clone()), Arc::clone),
        folders,
        known_keys,
        admin_token,
        keys: carried.keys.clone(),
    });
    Built { state, report, may_be_half_written, files }
}

/// Data that the services of a state share while it is made: the report, the files read so far, and files that are read once for all.
pub(super) struct BuildContext<'a, 'p> {
    pub(super) report: Report,
    pub(super) files: Vec<(PathBuf, FileStamp)>,
    pub(super) folders: Vec<PathBuf>,
    pub(super) may_be_half_written: bool,
    /// Files that cannot be used, and could when the state before was made.
    pub(super) has_new_problems: bool,
    /// The authorities that this machine trusts, once they were needed.
    pub(super) system: Option<Result<Trust, Failure>>,
    /// Revocation lists that need not be read again.
    pub(super) lists: KnownLists,
    pub(super) keep_removed: Duration,
    /// True if no private key may be in this process.
    pub(super) keys_apart: bool,
    pub(super) known_keys: Arc<Lists>,
    pub(super) carried: &'a mut CarriedOver,
    pub(super) places: &'p Places,
    /// The user that serves: files that it can replace are read with its rights.
    pub(super) user: ServiceUser,
    pub(super) now: SystemTime,
}

impl BuildContext<'_, '_> {
    /// Reads the lists of known keys. If a file cannot be used now, the keys of its earlier version are still refused.
    fn load_key_lists(&mut self, files: &[PathBuf], previous: Option<&State>) {
        let loaded = weak::load(files, previous.map(|previous| &previous.known_keys));
        self.may_be_half_written |= loaded.findings.iter().any(Finding::may_be_half_written);
        self.report.take(loaded.findings, self.places);
        for Finding { file, message: what, hint, .. } in &loaded.kept {
            let still = "keys of its old version are refused";
            self.report.leave_out(report::still_used(file, what, hint.as_deref(), still));
        }
        self.files.extend(loaded.files_read);
        self.folders.extend(loaded.folders);
        self.known_keys = loaded.lists;
    }

    /// Reads the token of the admin address.
    fn admin_token(&mut self, file: &Path) -> Option<Arc<AdminToken>> {
        self.files.push((file.to_path_buf(), FileStamp::of(file)));
        self.folders.extend(file.parent().map(Path::to_path_buf));
        let place = self.places.suffix(file);
        let shown = file.display();
        match self.user.act_on(file, || AdminToken::read(file)).unwrap_or_else(|error| Err(error.into())) {
            Ok(token) => {
                if token.is_readable_by_others {
                    self.report.warn(format!(
                        "admin.token-file {shown}{place}: all users of this machine can read it\n  hint: chmod o-r {shown}"
                    ));
                }
                Some(Arc::new(token))
            }
            Err(what) => {
                self.report.error(format!("admin.token-file {shown}{place}: {what}"));
                None
            }
        }
    }

    /// Of all services together: their owners might not know of each other.
    fn compare_keys(&mut self, services: &[ServiceState], previous: Option<&State>) {
        let all = |services: &[ServiceState]| -> Vec<Arc<Certificate>> {
            services.iter().flat_map(|service| service.store.certificates()).cloned().collect()
        };
        let certificates = all(services);
        let before = previous.map(|previous| all(&previous.services)).unwrap_or_default();
        self.report.take(shared_keys::shared_factors_of_all(&certificates, &before), self.places);
        self.report.take(shared_keys::shared_keys(&certificates), self.places);
    }

    /// Certificates that are valid now and expire within hours. One of a day is renewed with a third of its life left.
    fn warn_of_expiry(&mut self, services: &[ServiceState]) {
        let now = seconds(self.now);
        for certificate in services.iter().flat_map(|service| service.store.certificates()) {
            let left = certificate.not_after().saturating_sub(now);
            let life = certificate.not_after().saturating_sub(certificate.not_before());
            if left < 0 || left >= EXPIRY_WARNING_SECONDS.min(life / 3) {
                continue;
            }
            self.report.warn(report::expires(certificate, left));
        }
    }

    pub(super) fn ring(&mut self, tickets: &model::Tickets) -> Option<(RingId, Arc<KeySet>)> {
        match self.carried.rings.ring(tickets, self.now) {
            Ok(ring) => Some(ring),
            Err(error) => {
                let hint = report::hint(error.hint().as_deref());
                let file = tickets.key_source.file();
                let place = file.map(|file| self.places.suffix(file)).unwrap_or_default();
                self.report.error(format!("{error}{place}{hint}"));
                None
            }
        }
    }

    pub(super) fn policy(&mut self, policy: &model::Policy) -> Option<Policy> {
        let model::Policy { base, versions, suites, groups } = policy;
        match policy::resolve(base, versions.as_deref(), suites.as_deref(), groups.as_deref()) {
            Ok(policy) => Some(policy),
            Err(problems) => {
                problems.iter().for_each(|problem| self.report.error(problem));
                None
            }
        }
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
}

#[cfg(test)]
mod tests;
