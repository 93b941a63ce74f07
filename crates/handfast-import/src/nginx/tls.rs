//! `ssl_…` of servers.

use super::grammar::Directive;
use super::scope::Scope;
use super::state::Import;
use crate::draft::{Draft, MIXED};
use crate::note::Fate;
use crate::openssl;
use crate::toml::{Section, list, table};

impl Import<'_> {
    /// The certificates of a server. Several are an RSA and an ECDSA one.
    pub(super) fn certificates(&mut self, server: &Directive, scope: &Scope<'_>, draft: &mut Draft) {
        if scope.all("ssl_certificate").iter().any(|file| file.argument(0) == "$acme_certificate") {
            return self.ordered(server, draft);
        }
        if draft.is_ordered() {
            self.note(server, Fate::Refused, MIXED);
        }
        let keys = scope.all("ssl_certificate_key");
        let staple = scope.text("ssl_stapling_file");
        for (certificate, key) in scope.all("ssl_certificate").into_iter().zip(keys) {
            if [certificate, key].iter().any(|file| file.argument(0).contains(['$', ':'])) {
                self.note(certificate, Fate::Refused, "certificates and keys are read from files");
            }
            let mut pair = vec![
                ("certificate", self.path(certificate.argument(0)).into()),
                ("key", self.path(key.argument(0)).into()),
            ];
            pair.extend(staple.map(|file| ("ocsp", self.path(file).into())));
            draft.of("").append("certificate", table(pair));
        }
        if scope.all("ssl_certificate").is_empty() && !scope.is_on("ssl_reject_handshake") {
            self.note(server, Fate::Refused, "it listens with TLS and has no ssl_certificate");
        }
    }

    /// Converts the requirements on clients: versions, suites, groups, and the client certificate.
    pub(super) fn client_tls(&mut self, scope: &Scope<'_>, draft: &mut Draft) {
        if let Some(versions) = scope.last("ssl_protocols") {
            self.versions(versions, draft.of(""));
        }
        if let Some(ciphers) = scope.last("ssl_ciphers") {
            let known = openssl::suites(ciphers.argument(0));
            if !known.unknown.is_empty() {
                let effect = format!("left out: {}", known.unknown.join(", "));
                self.note_of(ciphers, "ssl_ciphers", Fate::Approximated, effect);
            }
            let names = Some(known.names).filter(|names| !names.is_empty());
            openssl::write_suites(None, names, draft.of(""));
        }
        if let Some(curves) = scope.last("ssl_ecdh_curve").filter(|curves| curves.argument(0) != "auto") {
            let known = openssl::groups(curves.argument(0));
            if !known.unknown.is_empty() {
                self.note(curves, Fate::Approximated, format!("left out: {}", known.unknown.join(", ")));
            }
            if !known.names.is_empty() {
                draft.put("", "groups", list(known.names));
            }
        }
        self.client_certificates(scope, draft);
    }

    fn client_certificates(&mut self, scope: &Scope<'_>, draft: &mut Draft) {
        let Some(verify) = scope.last("ssl_verify_client") else { return };
        let mode = match verify.argument(0) {
            "off" => return,
            "on" => "require",
            "optional" => "request",
            _ => {
                self.note(verify, Fate::Refused, "clients are verified here, or not asked");
                return;
            }
        };
        draft.put("client-certificates", "mode", mode);
        match scope.text("ssl_client_certificate") {
            Some(file) => draft.put("client-certificates", "ca", self.path(file)),
            None => self.note(verify, Fate::Refused, "it needs ssl_client_certificate"),
        }
        if let Some(file) = scope.text("ssl_crl") {
            draft.put("client-certificates", "crl", self.path(file));
        }
        let effect = "a client without a good certificate is refused in the handshake, and not by status 400";
        self.note(verify, Fate::Approximated, effect);
    }

    /// `ssl_protocols` and `proxy_ssl_protocols`.
    pub(super) fn versions(&mut self, directive: &Directive, section: &mut Section) {
        let has = |name: &&str| directive.arguments.iter().any(|word| word == name);
        let versions: Vec<_> =
            ["TLSv1.3", "TLSv1.2"].into_iter().filter(has).map(|name| &name[4..]).collect();
        match versions.as_slice() {
            [] => self.note(directive, Fate::Refused, "TLS 1.2 is the oldest supported version (RFC 8996)"),
            [only] => section.put("versions", list([*only])),
            _ => {}
        }
        if directive.arguments.len() > versions.len() && !versions.is_empty() {
            self.note(directive, Fate::Approximated, "TLS 1.2 is the oldest supported version");
        }
    }
}
