//! TLS towards the backends, from its section to the model.

use super::check::no_effect;
use super::{policy, starttls};
use crate::keys;
use crate::model::{Backend, BackendAlpn, BackendTls, BackendVerification, BackendVersion, SentName, Target};
use crate::problem::Fault;
use crate::reading::Written;
use crate::schema::Entry;
use crate::table::Table;
use handfast_wire::starttls::Protocol;

/// The section; the inner `None`: plain text. `http`: the version of HTTP that is spoken by it.
pub(super) fn read(section: &Table<'_>, http: Option<BackendVersion>) -> Option<Written<Option<BackendTls>>> {
    let is_on = section.or_default(&keys::BACKEND_MODE);
    let verify = section.or_default(&keys::BACKEND_VERIFY);
    let ca = section.optional(&keys::BACKEND_CA);
    let pins = section.list(&keys::BACKEND_PINS);
    let certificate = section.optional(&keys::BACKEND_CERTIFICATE);
    let key = section.optional(&keys::BACKEND_CERTIFICATE_KEY);
    section.reading().named().trusted.extend(ca.clone());
    if !is_on {
        let others = section.entries().filter(|key| key.name != keys::BACKEND_MODE.name);
        no_effect(section, others, "backends are spoken to in plain text (`mode = \"off\"`)");
        return Some(Written { value: None, span: section.span().clone() });
    }
    check_verification(section, verify);
    let names = (&keys::BACKEND_STARTTLS, &keys::BACKEND_STARTTLS_NAME);
    let starttls = starttls::read(section, names.0, names.1, Some("the backend speaks"));
    if key.is_some() && section.written(&keys::BACKEND_CERTIFICATE).is_none() {
        let fault =
            Fault::new("a `key` without its `certificate`").hint("add `certificate`, or remove `key`");
        section.error(&keys::BACKEND_CERTIFICATE_KEY, fault);
    }
    let tls = BackendTls {
        verify,
        ca,
        name: section.optional(&keys::BACKEND_NAME),
        server_name: section.optional(&keys::BACKEND_SERVER_NAME).unwrap_or(SentName::Checked),
        pins,
        identity: certificate.map(|certificate| (certificate, key)),
        alpn: match http {
            Some(version) => super::http::backend_alpn(section, version),
            None => section.or_default(&keys::BACKEND_ALPN),
        },
        policy: policy::of_service(section),
        starttls,
        revocation: section.or_default(&keys::BACKEND_REVOCATION),
        resumption: section.or_default(&keys::BACKEND_RESUMPTION),
        missing_close_notify: section.or_default(&keys::BACKEND_MISSING_CLOSE_NOTIFY),
    };
    check_name(section, &tls);
    Some(Written { value: Some(tls), span: section.span().clone() })
}

/// Keys that contradict `verify`.
fn check_verification(section: &Table<'_>, verify: BackendVerification) {
    let has_no_effect = |key: &dyn Entry, what: &str| {
        let fault = Fault::new(format!("`{}` has no effect: {what}", key.name));
        section.error(key, fault.hint("remove it, or change `verify`"));
    };
    match verify {
        BackendVerification::Full | BackendVerification::CommonName | BackendVerification::AnyName => {}
        BackendVerification::Pins => {
            has_no_effect(&keys::BACKEND_CA, "the pins alone decide");
            has_no_effect(&keys::BACKEND_REVOCATION, "the pins alone decide");
            if section.written(&keys::BACKEND_PINS).is_none() {
                let fault = Fault::new("the pins alone are to decide, but there are none");
                section.missing(fault.hint("add `pins = [\"sha256/…\"]`"));
            }
        }
        BackendVerification::Nothing => {
            has_no_effect(&keys::BACKEND_CA, "nothing is asked of the certificate");
            has_no_effect(&keys::BACKEND_PINS, "nothing is asked of the certificate");
            has_no_effect(&keys::BACKEND_REVOCATION, "nothing is asked of the certificate");
        }
    }
    if matches!(verify, BackendVerification::AnyName | BackendVerification::Nothing) {
        let fault = Fault::new("an attacker on the network path can impersonate the backend");
        section.warn(&keys::BACKEND_VERIFY, fault.hint("give `ca` the backend's own certificate instead"));
    }
    if verify == BackendVerification::CommonName {
        let fault =
            Fault::new("authorities do not check common names as they check alternative names (RFC 9525)");
        let hint = "give the backend a certificate with subjectAltName, and remove `verify`";
        section.warn(&keys::BACKEND_VERIFY, fault.hint(hint));
    }
}

/// A name that no certificate is compared with, and that is not sent either.
fn check_name(section: &Table<'_>, tls: &BackendTls) {
    let is_checked = tls.verify.requires_name();
    let is_sent = tls.server_name == SentName::Checked;
    if !is_checked && !is_sent && !sends_domain(tls) {
        let why = "`verify` compares no name, and `server-name` is what is sent";
        no_effect(section, [&keys::BACKEND_NAME as &dyn Entry], why);
    }
}

/// Returns true if an XMPP stream is opened for the domain in `name`, or else for the backend's own name.
fn sends_domain(tls: &BackendTls) -> bool {
    tls.starttls.as_ref().is_some_and(|starttls| {
        matches!(starttls.protocol, Protocol::Xmpp | Protocol::XmppServer) && starttls.name.is_none()
    })
}

/// Warns of XMPP backends that are an address: the stream would be opened for it, and servers have domains.
fn check_domain(section: &Table<'_>, tls: &BackendTls, backends: &[Written<Backend>]) {
    if !sends_domain(tls) || tls.name.is_some() {
        return;
    }
    for backend in backends.iter().filter(|backend| matches!(backend.value.target, Target::Address(_))) {
        let fault = Fault::new(
            "an XMPP stream is opened for a domain, and this backend has none: the server will answer `host-unknown`",
        );
        let fault = fault.hint("add `starttls-name` with the domain that the server serves to `backend-tls`");
        section.reading().warning(&backend.span, fault);
    }
}

/// Checks that every backend has a name to verify, and can speak TLS.
pub(super) fn check_names(
    section: &Table<'_>,
    tls: &Written<Option<BackendTls>>,
    backends: &[Written<Backend>],
) {
    let Some(settings) = &tls.value else { return };
    check_domain(section, settings, backends);
    let is_named = settings.name.is_some() || !settings.verify.requires_name();
    for backend in backends {
        match &backend.value.target {
            Target::BuiltIn => {
                let fault = Fault::new("the built-in backend speaks no TLS, so `backend-tls` cannot be met");
                section.reading().error(&backend.span, fault.see(tls.span.clone(), "asked for here"));
            }
            Target::Program(_) => {
                let fault = Fault::new(
                    "a program at standard input and output speaks no TLS, so `backend-tls` cannot be met",
                );
                section.reading().error(&backend.span, fault.see(tls.span.clone(), "asked for here"));
            }
            Target::Address(super::Address::Unix(_)) if !is_named => {
                let fault = Fault::new("a unix socket has no name that its certificate could be for");
                let fault = fault.hint("add `name = \"backend.example.org\"` to the section");
                section.reading().error(&backend.span, fault.see(tls.span.clone(), "TLS is asked for here"));
            }
            _ => {}
        }
    }
}

/// Reports `alpn = "client"` where clients speak plain text, and so agree on no protocol.
pub(super) fn check_alpn(section: &Table<'_>, tls: Option<&BackendTls>, client_is_plain: bool) {
    if client_is_plain && tls.is_some_and(|tls| tls.alpn == BackendAlpn::Client) {
        let fault = Fault::new("`alpn = \"client\"`, but clients speak no TLS here and agree on nothing");
        section.error(&keys::BACKEND_ALPN, fault.hint("list the protocols, or remove `alpn`"));
    }
}
