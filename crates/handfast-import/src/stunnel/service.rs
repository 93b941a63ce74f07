//! One service: its listeners, its backends, and the protocols of both sides.

use std::path::Path;
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::grammar::Setting;
use super::translation::{Translation, approximate, leave_out, refuse};
use super::{limits, protocol, tls, trust};
use crate::address::Address;
use crate::draft::Draft;
use crate::note::{Fate, Notes};
use crate::toml::{Value, list, table};

/// The longest delay of `retry`.
const HOUR_MILLISECONDS: u64 = 3_600_000;
/// The meaning of a wildcard.
const WILDCARD: &str =
    "* matches one part of a name here, and any number in stunnel: longer names go to the primary service";

/// The note about servers, which staple without any option since stunnel 5.71.
const STAPLING: &str = "stunnel asks the responder that the certificate names, and staples its response; here nothing is asked, and a job has to \
                        write the response into the file that is stapled";
/// The meaning of `*` alone.
const ANY_NAME: &str = "it is for every name that no other section of this service has, and not for clients without a name; in stunnel the \
                        first section that fits decides";

/// The text of stunnel's message, so that a search for it finds this one.
const TWO_ENDS: &str = "Each service must define two endpoints";

impl Translation<'_> {
    /// Converts the service. The notes report problems.
    pub(super) fn draft(&self, notes: &mut Notes) -> Draft {
        let mut draft = Draft::default();
        match self.primary() {
            Some((primary, _)) => self.name_of_rule(primary, &mut draft, notes),
            None => {
                draft.put("", "name", plain_name(&self.service.name));
                self.clients(&mut draft, notes);
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
                Some("") => approximate(notes, setting, ANY_NAME),
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

    /// Converts the source of its clients: inetd, a program (`exec`), or a listener (`accept`).
    fn clients(&self, draft: &mut Draft, notes: &mut Notes) {
        match (self.is_inetd, self.given.get("exec"), self.given.get("accept")) {
            (true, _, Some(accept)) => {
                refuse(notes, accept, "expected in a [service]: without one, inetd accepts")
            }
            (true, _, None) => draft.put("", "only-client", "stdin"),
            (false, Some(exec), None) if self.given.get("connect").is_some() => {
                let mut client = vec![("program", self.command_line(exec, notes))];
                client.extend(self.again(notes).map(|again| ("again", again)));
                draft.put("", "only-client", table(client));
            }
            _ => self.listen(draft, notes),
        }
    }

    /// A program with its arguments.
    fn command_line(&self, exec: &Setting, notes: &mut Notes) -> Value {
        let mut words = vec![exec.value.as_str()];
        if let Some(arguments) = self.given.get("execargs") {
            let mut given = arguments.value.split_whitespace();
            let name = given.next().unwrap_or_default();
            if exec.value.rsplit('/').next() != Some(name) && exec.value != name {
                approximate(
                    notes,
                    arguments,
                    "the program's name is its path here, whatever the first word says",
                );
            }
            words.extend(given);
        }
        if let Some(pty) = self.given.get("pty").filter(|setting| setting.is_yes()) {
            refuse(notes, pty, "programs get a socket, not a terminal");
        }
        list(words)
    }

    /// The value of `again`: stunnel's `retry = DELAY` has milliseconds, and a second for `yes`.
    fn again(&self, notes: &mut Notes) -> Option<Value> {
        let setting = self.given.get("retry")?;
        let milliseconds = match setting.value.to_ascii_lowercase().as_str() {
            "no" => return None,
            "yes" => return Some(true.into()),
            delay => delay.parse::<u64>().ok().filter(|delay| *delay <= HOUR_MILLISECONDS),
        };
        let Some(milliseconds) = milliseconds else {
            refuse(notes, setting, "expected yes, no, or at most 3600000 milliseconds");
            return None;
        };
        if milliseconds == 0 {
            approximate(
                notes,
                setting,
                "it is started again after a millisecond, which is the shortest delay here",
            );
        }
        Some(handfast_text::duration::written(Duration::from_millis(milliseconds.max(1))).into())
    }

    fn listen(&self, draft: &mut Draft, notes: &mut Notes) {
        let backends: Vec<_> =
            self.given.all("connect").filter_map(|setting| self.backend(setting)).collect();
        for setting in self.given.all("accept") {
            match Address::parse(&setting.value).and_then(|address| address.listener("0.0.0.0")) {
                Some(listener) if backends.contains(&listener) && self.given.all("accept").count() > 1 => {
                    leave_out(notes, setting, "its backend listens there, so nothing else can");
                }
                Some(listener) => draft.of("").append("listen", listener),
                None => refuse(notes, setting, "expected an address and a port: names are not listened on"),
            }
        }
        if self.given.get("accept").is_none() {
            let effect = format!("without accept nothing listens for it: {TWO_ENDS}");
            notes.add(&self.service.place, &self.service.name, Fate::Refused, effect);
        }
    }

    fn backends(&self, draft: &mut Draft, notes: &mut Notes) {
        let is_even = self.given.get("failover").is_some_and(|setting| setting.value == "rr");
        let mut count = 0;
        for setting in self.given.all("connect") {
            let Some(address) = self.backend(setting) else {
                refuse(notes, setting, "expected a host and a port, a port, or the path of a unix socket");
                continue;
            };
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
        let is_client = draft.of("").has("only-client");
        match self.given.get("exec").filter(|_| !is_client || self.is_inetd) {
            Some(exec) if count > 0 => refuse(notes, exec, format!("expected connect or exec: {TWO_ENDS}")),
            Some(exec) => {
                let program = self.command_line(exec, notes);
                draft.of("").append("backend", table([("program", program)]));
                count = 1;
            }
            None => {}
        }
        if count == 0 {
            let effect = format!("without connect it goes nowhere: {TWO_ENDS}");
            notes.add(&self.service.place, &self.service.name, Fate::Refused, effect);
        }
    }

    fn backend(&self, setting: &Setting) -> Option<String> {
        Address::parse(&setting.value).map(|address| address.backend("localhost"))
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
        let setting = cert;
        let (cert, key) = (self.path(cert), key.map(|key| self.path(key)));
        if self.is_client() {
            draft.put("backend-tls", "certificate", cert);
            if let Some(key) = key {
                draft.put("backend-tls", "key", key);
            }
            return;
        }
        if names_responder(&cert) && !Path::new(&format!("{cert}.ocsp")).exists() {
            let effect = format!("{STAPLING}: {cert}.ocsp");
            notes.add(&setting.place, &setting.name, Fate::Approximated, effect);
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

/// Returns true if the first certificate of a file names an OCSP responder.
fn names_responder(file: &str) -> bool {
    /// id-ad-ocsp, 1.3.6.1.5.5.7.48.1, in DER.
    const OCSP: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 0x30, 1];
    let mut certificates = CertificateDer::pem_file_iter(file).into_iter().flatten();
    let first = certificates.next().and_then(Result::ok);
    first.is_some_and(|certificate| certificate.windows(OCSP.len()).any(|bytes| bytes == OCSP))
}

/// Names of services are for logs and metrics: letters, digits and a few signs.
fn plain_name(name: &str) -> String {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() || "-_.".contains(sign) { sign } else { '-' };
    name.chars().map(plain).take(64).collect()
}
