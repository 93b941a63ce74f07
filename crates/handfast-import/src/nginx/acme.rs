//! `acme_issuer` and `acme_certificate` of nginx's ACME module: certificates that are ordered.

use super::grammar::Directive;
use super::scope::own;
use super::state::Import;
use crate::draft::{self, Draft};
use crate::note::Fate;
use crate::toml::Section;

impl<'d> Import<'d> {
    /// The section `acme`, if a server orders its certificate. All certificates are ordered from the first issuer.
    pub(super) fn issuer(&mut self, http: &'d [Directive]) -> Section {
        let mut issuers = http.iter().filter(|inner| inner.name == "acme_issuer");
        let Some(issuer) = issuers.next() else { return Section::default() };
        for other in issuers {
            let effect =
                "certificates are ordered from one issuer, the first: write this one as [[acme.fallback]]";
            self.note(other, Fate::Approximated, effect);
        }
        let accepts = own(issuer.inner(), "accept_terms_of_service").is_some();
        let mut section = draft::acme_section(accepts);
        for setting in issuer.inner() {
            self.setting(setting, &mut section);
        }
        let effect = "certificates are ordered again, with a new account: read [acme]";
        self.note(issuer, Fate::Approximated, effect);
        section
    }

    fn setting(&mut self, setting: &Directive, section: &mut Section) {
        let value = setting.argument(0);
        match setting.name.as_str() {
            "uri" => section.put("directory", value),
            "contact" => section.append("contact", value.strip_prefix("mailto:").unwrap_or(value)),
            "profile" => section.put("profile", value),
            "ssl_trusted_certificate" => section.put("ca", self.path(value)),
            "challenge" => {
                let kind = if value.starts_with("http") { "http-01" } else { "tls-alpn-01" };
                section.append("challenges", kind);
            }
            "external_account_key" if !setting.argument(1).starts_with("data:") => {
                section.put("eab-key-id", value);
                section.put("eab-key-file", self.path(setting.argument(1)));
            }
            "accept_terms_of_service" | "state_path" | "account_key" => {}
            "ssl_verify" if value == "on" => {}
            "ssl_verify" => self.note(
                setting,
                Fate::Refused,
                "the certificate of the issuer's server is verified: write `ca`",
            ),
            _ => self.note(setting, Fate::Approximated, "Handfast has no such setting of an issuer"),
        }
    }

    /// The names of a server whose certificate is ordered.
    pub(super) fn ordered(&mut self, server: &Directive, draft: &mut Draft) {
        let Some(order) = own(server.inner(), "acme_certificate") else {
            return self.note(server, Fate::Refused, "`$acme_certificate` needs acme_certificate");
        };
        let written = order.arguments.iter().skip(1).filter(|word| !word.contains('='));
        let mut names: Vec<&String> = written.collect();
        if names.is_empty() {
            names =
                own(server.inner(), "server_name").into_iter().flat_map(|names| &names.arguments).collect();
        }
        for name in names.iter().filter(|name| name.starts_with(['*', '.', '~'])) {
            let effect =
                format!("{name}: names with `*` are proven by DNS alone: write acme.challenges by hand");
            self.note(order, Fate::Refused, effect);
        }
        if !draft.order(names.into_iter().map(String::as_str)) {
            self.note(order, Fate::Refused, draft::MIXED);
        }
    }
}
