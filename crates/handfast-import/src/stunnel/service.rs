//! One service: its listeners, its backends, and the protocols of both sides.

use super::translation::{Translation, approximate, refuse};
use super::{limits, protocol, tls, trust};
use crate::address::Address;
use crate::draft::Draft;
use crate::note::{Fate, Notes};
use crate::toml::{list, table};

/// The meaning of a wildcard.
const WILDCARD: &str =
    "* matches one part of a name here, and any number in stunnel: longer names go to the primary service";

impl Translation<'_> {
    /// Converts the service. The notes report problems.
    pub(super) fn draft(&self, notes: &mut Notes) -> Draft {
        let mut draft = Draft::default();
        match self.primary() {
            Some((primary, _)) => self.name_of_rule(primary, &mut draft, notes),
            None => {
                draft.put("", "name", plain_name(&self.service.name));
                self.listen(&mut draft, notes);
            }
        }
        self.backends(&mut draft, notes);
        self.source(&mut draft, notes);
        self.certificate(&mut draft, notes);
        tls::versions_and_suites(self, &mut draft, notes);
        trust::peers(self, &mut draft, notes);
        protocol::before_tls(self, &mut draft, notes);
        if self.primary().is_none() {
            limits::limits(self, &mut draft, notes);
        }
        draft
    }

    fn name_of_rule(&self, primary: &str, draft: &mut Draft, notes: &mut Notes) {
        let prefix = format!("{primary}:");
        let mut names = Vec::new();
        for setting in self.given.all("sni") {
            let Some(name) = setting.value.strip_prefix(&prefix).map(str::trim) else { continue };
            match name.strip_prefix('*') {
                Some(rest) if !rest.starts_with('.') => {
                    refuse(notes, setting, "expected a name, or a wildcard such as *.example.org");
                }
                Some(_) => approximate(notes, setting, WILDCARD),
                None => {}
            }
            names.push(name);
        }
        draft.put("", "names", list(names));
        draft.comments.push(format!("[{}]", self.service.name));
    }

    fn listen(&self, draft: &mut Draft, notes: &mut Notes) {
        for setting in self.given.all("accept") {
            match Address::parse(&setting.value).and_then(|address| address.listener("0.0.0.0")) {
                Some(listener) => draft.of("").append("listen", listener),
                None => refuse(notes, setting, "expected an address and a port: names are not listened on"),
            }
        }
        if self.given.get("accept").is_none() {
            let effect = "without accept nothing listens for it";
            notes.add(&self.service.place, &self.service.name, Fate::Refused, effect);
        }
    }

    fn backends(&self, draft: &mut Draft, notes: &mut Notes) {
        let is_even = self.given.get("failover").is_some_and(|setting| setting.value == "rr");
        let mut count = 0;
        for setting in self.given.all("connect") {
            let Some(address) = Address::parse(&setting.value) else {
                refuse(notes, setting, "expected a host and a port, a port, or the path of a unix socket");
                continue;
            };
            let address = address.backend("localhost");
            count += 1;
            draft.of("").append(
                "backend",
                if count == 1 || is_even {
                    address.into()
                } else {
                    table([("address", address.into()), ("backup", true.into())])
                },
            );
        }
        if count == 0 && self.given.get("exec").is_none() {
            let effect = "without connect it goes nowhere";
            notes.add(&self.service.place, &self.service.name, Fate::Refused, effect);
        }
    }

    /// The source address of connections to backends.
    fn source(&self, draft: &mut Draft, notes: &mut Notes) {
        if let Some(setting) = self.given.get("local") {
            let host = setting.value.rsplit_once(':').map_or(setting.value.as_str(), |(host, _)| host);
            match [setting.value.as_str(), host].iter().find_map(|text| text.parse::<std::net::IpAddr>().ok())
            {
                Some(address) => draft.put("", "source", list([address.to_string()])),
                None => refuse(notes, setting, "expected an address of this machine, not a name"),
            }
        }
        let Some(setting) = self.given.get("transparent") else { return };
        match setting.value.as_str() {
            "source" | "yes" => draft.put("", "source", "client"),
            "none" | "no" => {}
            _ => refuse(
                notes,
                setting,
                "connections that a firewall redirected are not sent on to where they were for",
            ),
        }
    }

    /// The certificate for the TLS peer: one chain, with its key.
    fn certificate(&self, draft: &mut Draft, notes: &mut Notes) {
        let Some(cert) = self.given.get("cert") else {
            if !self.is_client() {
                notes.add(
                    &self.service.place,
                    &self.service.name,
                    Fate::Refused,
                    "a server needs a certificate: cert",
                );
            }
            return;
        };
        let key = self.given.get("key");
        for setting in [Some(cert), key].into_iter().flatten() {
            if setting.value.to_ascii_lowercase().starts_with("pkcs11:") {
                refuse(notes, setting, "expected a file, in PEM or PKCS#12: keys in devices are not used");
            }
        }
        let (cert, key) = (self.path(cert), key.map(|key| self.path(key)));
        if self.is_client() {
            draft.put("backend-tls", "certificate", cert);
            if let Some(key) = key {
                draft.put("backend-tls", "key", key);
            }
            return;
        }
        draft.of("").append(
            "certificate",
            match key {
                None => cert.into(),
                Some(key) => table([("certificate", cert.into()), ("key", key.into())]),
            },
        );
    }
}

/// Names of services are for logs and metrics: letters, digits and a few signs.
fn plain_name(name: &str) -> String {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() || "-_.".contains(sign) { sign } else { '-' };
    name.chars().map(plain).take(64).collect()
}
