//! `protocol`: the dialogue before TLS.

use super::grammar::Setting;
use super::translation::{Translation, approximate, refuse};
use crate::address::Address;
use crate::draft::Draft;
use crate::note::Notes;

/// stunnel's names and ours.
const STARTTLS: [(&str, &str); 6] = [
    ("imap", "imap"),
    ("ldap", "ldap"),
    ("nntp", "nntp"),
    ("pgsql", "postgresql"),
    ("pop3", "pop3"),
    ("smtp", "smtp"),
];

pub(super) fn before_tls(translation: &Translation<'_>, draft: &mut Draft, notes: &mut Notes) {
    let Some(setting) = translation.given.get("protocol") else { return };
    let value = setting.value.to_ascii_lowercase();
    let ours = STARTTLS.iter().find(|(theirs, _)| *theirs == value).map(|(_, ours)| *ours);
    match (translation.is_client(), value.as_str(), ours) {
        (true, _, Some(ours)) => towards_backend(translation, ours, draft, notes),
        (false, _, Some(ours)) => draft.put("", "starttls", ours),
        (true, "connect", _) => connect(translation, setting, draft, notes),
        (false, "proxy", _) => draft.put("proxy-protocol", "send", "v1"),
        (_, "socks", _) => {
            refuse(notes, setting, "Handfast is no SOCKS server: where connections go is configured")
        }
        _ => refuse(notes, setting, "this protocol is not supported"),
    }
}

fn towards_backend(translation: &Translation<'_>, ours: &'static str, draft: &mut Draft, notes: &mut Notes) {
    let given = translation.given;
    draft.put("backend-tls", "starttls", ours);
    if let Some(name) = given.get("protocolhost").filter(|_| ours == "smtp") {
        draft.put("backend-tls", "starttls-name", name.value.as_str());
    }
    for key in ["protocolusername", "protocolpassword"] {
        if let Some(setting) = given.get(key) {
            refuse(notes, setting, "logging in is left to the client, which sees the whole session");
        }
    }
}

/// HTTP CONNECT: `connect` is the proxy on the way, `protocolHost` the backend.
fn connect(translation: &Translation<'_>, setting: &Setting, draft: &mut Draft, notes: &mut Notes) {
    let given = translation.given;
    let Some(host) = given.get("protocolhost") else {
        return refuse(
            notes,
            setting,
            "without protocolHost the destination to request from the proxy is unknown",
        );
    };
    let Some(backend) = Address::parse(&host.value) else {
        return refuse(notes, host, "expected HOST:PORT");
    };
    let through = draft.of("").take_list("backend");
    draft.of("").append("backend", backend.backend("localhost"));
    draft.put("connect-through", "type", "http");
    let mut through = through.into_iter();
    if let Some(first) = through.next() {
        draft.of("connect-through").put("address", first);
    }
    if through.next().is_some() {
        approximate(notes, setting, "only the first proxy is used");
    }
    if let Some(authentication) =
        given.get("protocolauthentication").filter(|setting| setting.value != "basic")
    {
        refuse(notes, authentication, "only basic authentication is supported");
    }
    if let Some(user) = given.get("protocolusername") {
        draft.put("connect-through", "user", user.value.as_str());
        draft.put("connect-through", "password-file", "connect-through.password");
    }
}
