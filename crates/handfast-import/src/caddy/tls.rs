//! `apps.tls` and `tls_connection_policies`: certificates, versions, and clients' certificates.

use super::{At, Import};
use crate::draft::{Draft, WholeDraft, acme_section};
use crate::note::Fate;
use crate::openssl;
use crate::toml::{Section, Value, list, table};

/// Certificates of `apps.tls`, which are for all servers.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    /// Entries of `certificate`.
    files: Vec<Value>,
    acme: Section,
    /// Names whose certificates come from an authority that is Caddy's own.
    internal: Vec<String>,
    is_all_internal: bool,
}

impl<'v> Import<'v> {
    /// `apps.tls`.
    pub(super) fn certificates(&mut self) -> Certificates {
        let root = At::new(self.root, String::new());
        let tls = root.get("apps").get("tls");
        self.report_keys(tls.clone(), "tls");
        let mut certificates = Certificates::default();
        let sources = tls.get("certificates");
        self.report_keys(sources.clone(), "certificates");
        for file in sources.get("load_files").items() {
            self.report_keys(file.clone(), "load_files");
            let path = |import: &Self, key: &str| import.path(file.get(key).text().unwrap_or_default());
            let keys = [("certificate", path(self, "certificate").into()), ("key", path(self, "key").into())];
            certificates.files.push(table(keys));
        }
        for folder in sources.get("load_folders").texts() {
            certificates.files.push(format!("{}/", self.path(&folder).trim_end_matches('/')).into());
        }
        let automation = tls.get("automation");
        self.report_keys(automation.clone(), "automation");
        for policy in automation.get("policies").items() {
            self.report_keys(policy.clone(), "automation policy");
            self.policy(&policy, &mut certificates);
        }
        certificates
    }

    /// A policy of certificates that are ordered.
    fn policy(&mut self, policy: &At<'v>, certificates: &mut Certificates) {
        let subjects = policy.get("subjects").texts();
        for (at, issuer) in policy.get("issuers").items().iter().enumerate() {
            let module = issuer.get("module").text().unwrap_or_default();
            self.module(issuer, &format!("issuer {module}"), module);
            match module {
                "internal" => {
                    certificates.is_all_internal |= subjects.is_empty();
                    certificates.internal.extend(subjects.iter().cloned());
                }
                "acme" if at == 0 => {
                    self.report_keys(issuer.clone(), "acme");
                    self.report_keys(issuer.get("challenges"), "challenges");
                    for (theirs, ours) in [
                        ("ca", "directory"),
                        ("email", "contact"),
                        ("profile", "profile"),
                        ("test_ca", "staging"),
                    ] {
                        let Some(text) = issuer.get(theirs).text() else { continue };
                        match certificates.acme.text(ours) {
                            Some(known) if known != format!("\"{text}\"") => {
                                let effect = format!("certificates are ordered in one way, here {known}");
                                self.note(issuer, theirs, Fate::Approximated, effect);
                            }
                            _ => certificates.acme.put(ours, text),
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// TLS with clients of a server.
    pub(super) fn client_tls(
        &mut self,
        server: &At<'v>,
        (names, certificates): (&[String], &Certificates),
        service: &mut Draft,
        whole: &mut WholeDraft,
    ) {
        for file in &certificates.files {
            service.of("").append("certificate", file.clone());
        }
        let automatic = server.get("automatic_https");
        let skipped = automatic.get("skip_certificates").texts();
        let orders = !automatic.get("disable_certificates").is_true() && !automatic.get("disable").is_true();
        let ordered: Vec<&String> = names.iter().filter(|name| orders && !skipped.contains(name)).collect();
        if let Some(name) = ordered.iter().find(|name| {
            certificates.is_all_internal || certificates.internal.contains(name) || is_local(name)
        }) {
            if certificates.files.is_empty() {
                let effect = format!(
                    "the certificate of {name} comes from an authority of Caddy's own: write a certificate"
                );
                self.note(server, "automatic_https", Fate::Refused, effect);
            }
        } else if certificates.files.is_empty() && ordered.is_empty() {
            self.note(server, "tls_connection_policies", Fate::Refused, "it has TLS and no certificate");
        } else if certificates.files.is_empty() {
            self.ordered(server, &ordered, certificates, service, whole);
        }
        self.policies(server, service);
    }

    fn ordered(
        &mut self,
        server: &At<'v>,
        names: &[&String],
        certificates: &Certificates,
        service: &mut Draft,
        whole: &mut WholeDraft,
    ) {
        if let Some(name) = names.iter().find(|name| name.starts_with('*')) {
            let effect =
                format!("{name}: names with `*` are proven by DNS alone: write acme.challenges by hand");
            self.note(server, "automatic_https", Fate::Refused, effect);
        }
        service.order([]);
        whole.acme = acme_section(true);
        whole.acme.extend(&certificates.acme);
        self.note_once(
            server,
            "automatic_https",
            "certificates are ordered again, and the issuer's terms are accepted, as by Caddy: read [acme]; `handfast acme import` takes Caddy's account",
        );
    }

    fn policies(&mut self, server: &At<'v>, service: &mut Draft) {
        let policies = server.get("tls_connection_policies").items();
        let names = |policy: &At<'v>| policy.get("match").get("sni").texts();
        for policy in &policies {
            self.report_keys(policy.clone(), "tls policy");
            for (key, at) in policy.get("match").entries().into_iter().filter(|(key, _)| *key != "sni") {
                self.note(&at, key, Fate::Refused, "TLS settings are for names");
            }
            if names(policy).is_empty() {
                self.settings(policy, service);
            }
        }
        if !policies.is_empty() && !policies.iter().any(|policy| names(policy).is_empty()) {
            service.put("", "unknown-name", "refuse");
        }
        for policy in policies.iter().filter(|policy| !names(policy).is_empty()) {
            let mut rule = Draft::default();
            rule.put("", "names", list(names(policy)));
            self.settings(policy, &mut rule);
            let keys = ["versions", "suites", "groups"];
            let has_own = |draft: &mut Draft| keys.iter().any(|key| draft.of("").has(key));
            // A rule takes over from the service what it does not set itself.
            if has_own(service) && !has_own(&mut rule) {
                rule.put("", "policy", "2026-11");
            }
            if !service.of("client-certificates").is_empty() && rule.of("client-certificates").is_empty() {
                rule.put("client-certificates", "mode", "off");
            }
            if has_own(&mut rule) || rule.of("").has("policy") || !rule.of("client-certificates").is_empty() {
                service.rules.push(rule);
            }
        }
    }

    fn settings(&mut self, policy: &At<'v>, draft: &mut Draft) {
        let (least, most) = (policy.get("protocol_min").text(), policy.get("protocol_max").text());
        match (least, most) {
            (Some("tls1.3"), _) => draft.put("", "versions", list(["1.3"])),
            (_, Some("tls1.2")) => draft.put("", "versions", list(["1.2"])),
            _ => {}
        }
        let suites = policy.get("cipher_suites").texts();
        if !suites.is_empty() {
            let known = openssl::iana_suites(&suites.join(":"));
            if !known.unknown.is_empty() {
                let effect = format!("left out: {}", known.unknown.join(", "));
                self.note(policy, "cipher_suites", Fate::Approximated, effect);
            }
            let names = Some(known.names).filter(|names| !names.is_empty());
            openssl::write_suites(None, names, draft.of(""));
        }
        let curves = policy.get("curves").texts().join(":").replace("x25519mlkem768", "X25519MLKEM768");
        if !curves.is_empty() {
            let known = openssl::groups(&curves);
            if !known.unknown.is_empty() {
                let effect = format!("left out: {}", known.unknown.join(", "));
                self.note(policy, "curves", Fate::Approximated, effect);
            }
            if !known.names.is_empty() {
                draft.put("", "groups", list(known.names));
            }
        }
        self.client_certificates(&policy.get("client_authentication"), draft);
    }

    fn client_certificates(&mut self, clients: &At<'v>, draft: &mut Draft) {
        if !clients.is_there() {
            return;
        }
        self.report_keys(clients.clone(), "client_authentication");
        let pool = clients.get("ca");
        let files = match pool.get("provider").text() {
            Some("file") => pool.get("pem_files").texts(),
            None => clients.get("trusted_ca_certs_pem_files").texts(),
            Some(other) => {
                self.note(
                    &pool,
                    other,
                    Fate::Refused,
                    "authorities are read from one file: write `provider` file",
                );
                return;
            }
        };
        let mode = clients.get("mode").text();
        match (mode, &files[..]) {
            (Some("require_and_verify") | None, [file]) => {
                draft.put("client-certificates", "mode", "require");
                draft.put("client-certificates", "ca", self.path(file));
            }
            (Some("verify_if_given"), [file]) => {
                draft.put("client-certificates", "mode", "request");
                draft.put("client-certificates", "ca", self.path(file));
            }
            (Some("require"), []) => {
                draft.put("client-certificates", "mode", "require");
                draft.put("client-certificates", "verify", "insecure-anything");
                let effect = "clients' certificates are not verified, as before: write `ca`, and remove `verify`";
                self.note(clients, "mode", Fate::Same, effect);
            }
            _ => self.note(clients, "mode", Fate::Refused, "expected require_and_verify or verify_if_given, with one file of authorities, or require without one"),
        }
    }
}

/// Names that no public authority signs.
fn is_local(name: &str) -> bool {
    name == "localhost"
        || [".localhost", ".local", ".internal", ".home.arpa"].iter().any(|end| name.ends_with(end))
        || !name.contains('.')
        || name.parse::<std::net::IpAddr>().is_ok()
}
