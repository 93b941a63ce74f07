//! The files that TLS towards backends needs: trusted authorities and our certificate. Read once for all threads.

use crate::backends::tls::BackendTlsSettings;
use std::path::Path;
use std::sync::Arc;

use handfast_tls::certificate::Certificate;
use handfast_tls::client::{self, ClientSettings, Identity, Trust, Verification};
use handfast_tls::load;
use handfast_tls::source::{CertificateSource, Files};
use handfast_tls::{Finding, Severity};

use super::service::ServiceBuilder;
use crate::backends::tls::client_for;
use handfast_config::model::{BackendAlpn, BackendTls, BackendVerification};

impl<'b> ServiceBuilder<'b, '_, '_> {
    /// Reads what `model` names. What the service dialled with until now is kept where a file cannot be used, and where nothing
    /// has changed.
    pub(super) fn dialling(&mut self, model: &BackendTls) -> Option<Arc<BackendTlsSettings>> {
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
        let made = BackendTlsSettings { model: model.clone(), client };
        let known = self.known(|known| known.is_same_as(&made));
        Some(known.map_or_else(|| Arc::new(made), Arc::clone))
    }

    /// What the service dialled with until now.
    fn known(&self, is_it: impl Fn(&BackendTlsSettings) -> bool) -> Option<&'b Arc<BackendTlsSettings>> {
        self.before?.backend_tls().find(|known| is_it(known))
    }

    fn verification(&mut self, model: &BackendTls) -> Option<Verification> {
        let trust = match model.verify {
            BackendVerification::Nothing => return Some(Verification::Off),
            BackendVerification::Pins => return Some(Verification::Trust(Trust::only_pins(&model.pins))),
            BackendVerification::Full | BackendVerification::AnyName => match &model.ca {
                Some(ca) => self.trust(ca)?,
                None => self.system_trust()?,
            },
        };
        Some(Verification::Trust(trust.asking(&model.pins, model.verify == BackendVerification::Full)))
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
    pub(super) fn keep_in_spite_of(&mut self, findings: &mut Vec<Finding>, still: &str) {
        let (errors, others) =
            std::mem::take(findings).into_iter().partition(|finding| finding.severity == Severity::Error);
        *findings = others;
        self.leave_out(errors, still);
    }
}

/// The files of the certificate that is shown to backends. Clients staple nothing.
pub(super) fn identity_source(model: &BackendTls) -> Option<Files> {
    let (certificate, key) = model.identity.clone()?;
    Some(Files { certificate, key, ocsp: None })
}
