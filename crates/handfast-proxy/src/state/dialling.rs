//! The files that TLS towards backends needs: trusted authorities and our certificate. Read once for all threads.

use crate::backends::tls::DialTls;
use std::path::Path;
use std::sync::Arc;

use handfast_tls::certificate::Certificate;
use handfast_tls::client::{self, ClientSettings, Identity, Trust, Verification};
use handfast_tls::load::{self, Source};
use handfast_tls::{Finding, Severity};

use super::build::Builder;
use crate::backends::tls::client_for;
use crate::config::model::{BackendAlpn, BackendTls, BackendVerification};

impl Builder<'_, '_> {
    /// Reads what `model` names. `before`: what the service dialled with until now, kept where a file cannot be used, and
    /// where nothing has changed.
    pub(super) fn dialling(
        &mut self,
        service: &str,
        model: &BackendTls,
        before: &[Arc<DialTls>],
    ) -> Option<Arc<DialTls>> {
        let policy = self.policy(&model.policy);
        let verification = self.verification(service, model, before);
        let identity = self.identity(model, before);
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
            self.report.error(format!("service {service}: TLS towards the backends: {failure}"));
            return None;
        }
        let made = DialTls { model: model.clone(), client };
        let known = before.iter().find(|known| known.is_same_as(&made));
        Some(known.map_or_else(|| Arc::new(made), Arc::clone))
    }

    fn verification(
        &mut self,
        service: &str,
        model: &BackendTls,
        before: &[Arc<DialTls>],
    ) -> Option<Verification> {
        let trust = match model.verify {
            BackendVerification::Nothing => return Some(Verification::Off),
            BackendVerification::Pins => return Some(Verification::Trust(Trust::only_pins(&model.pins))),
            BackendVerification::Full | BackendVerification::AnyName => match &model.ca {
                Some(ca) => self.trust(ca, before)?,
                None => self.system_trust(service)?,
            },
        };
        Some(Verification::Trust(trust.asking(&model.pins, model.verify == BackendVerification::Full)))
    }

    fn trust(&mut self, ca: &Path, before: &[Arc<DialTls>]) -> Option<Trust> {
        let mut loaded = client::load_trust(ca, &self.known_keys, self.now);
        let known = || before.iter().find(|known| known.model.ca.as_deref() == Some(ca))?.trust().cloned();
        let trust = loaded.trust.take().or_else(|| {
            let known = known()?;
            let still = "backends' certificates are checked against its old version";
            self.keep_in_spite_of(&mut loaded.findings, still);
            Some(known)
        });
        self.took(loaded.findings, loaded.files_read, loaded.folders);
        trust
    }

    /// The machine's own list, read once for all services.
    fn system_trust(&mut self, service: &str) -> Option<Trust> {
        let known_keys = &self.known_keys;
        let trust = self.system.get_or_insert_with(|| client::system_trust(known_keys));
        match trust {
            Ok(trust) => Some(trust.clone()),
            Err(failure) => {
                let problem = format!("service {service}: TLS towards the backends: {failure}");
                self.report.error(problem);
                None
            }
        }
    }

    /// The certificate that is shown to backends; the inner `None`: none is.
    fn identity(&mut self, model: &BackendTls, before: &[Arc<DialTls>]) -> Option<Option<Arc<Certificate>>> {
        let Some((certificate, key)) = &model.identity else { return Some(None) };
        let source = Source::File { certificate: certificate.clone(), key: key.clone(), ocsp: None };
        let holder = self.carried.holder();
        let mut loaded = load::load_from(&[source], &self.known_keys, self.now, holder.as_ref());
        // Clients staple nothing.
        loaded.staples.clear();
        self.may_be_half_written |= loaded.may_be_half_written();
        let has_errors = loaded.has_errors();
        let known =
            || before.iter().find(|known| known.model.identity == model.identity)?.identity().cloned();
        let found = loaded.certificates.pop().filter(|_| !has_errors).or_else(|| {
            let known = known()?;
            self.keep_in_spite_of(&mut loaded.findings, "its old version is shown to backends");
            Some(known)
        });
        self.took(loaded.findings, loaded.files_read, loaded.folders);
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
