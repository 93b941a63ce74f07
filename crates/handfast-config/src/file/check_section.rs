//! `[service.check]`: which keys go together.

use crate::check::warn_no_effect;
use crate::keys::{self, CheckWord};
use crate::model::{Check, CheckKind};
use crate::problem::Fault;
use crate::reading::values;
use crate::schema::Entry;
use crate::table::Table;

/// Reads the section; `has_tls`: some connections to the backends use TLS.
pub(super) fn check(section: &Table<'_>, has_tls: bool) -> Option<Check> {
    let word = section.required(&keys::CHECK_TYPE);
    let interval = section.or_default(&keys::CHECK_INTERVAL);
    let timeout = section.or_default(&keys::CHECK_TIMEOUT);
    let rise = section.or_default(&keys::CHECK_RISE);
    let fall = section.or_default(&keys::CHECK_FALL);
    let port = section.optional(&keys::CHECK_PORT);
    let tls = section.optional(&keys::CHECK_TLS);
    let path = section.optional(&keys::CHECK_PATH);
    let host = section.optional(&keys::CHECK_HOST);
    let status = section.optional(&keys::CHECK_STATUS).map(values);
    let send = section.optional(&keys::CHECK_SEND);
    let expect = section.optional(&keys::CHECK_EXPECT);

    if timeout > interval {
        let what = "`timeout` is longer than `interval`: one check would begin before the last one ended";
        let written = section.written(&keys::CHECK_TIMEOUT).is_some();
        let key: &dyn Entry = if written { &keys::CHECK_TIMEOUT } else { &keys::CHECK_INTERVAL };
        section.error(key, Fault::new(what).hint("make `interval` longer, or `timeout` shorter"));
    }
    let foreign = |keys: &[&'static dyn Entry], of: &str| {
        for key in keys {
            let fault = Fault::new(format!("`{}` belongs to a check of type `{of}`", key.name));
            section.error(*key, fault.hint(format!("remove it, or write `type = \"{of}\"`")));
        }
    };
    let word = word?;
    if word != CheckWord::Http {
        foreign(&[&keys::CHECK_PATH, &keys::CHECK_HOST, &keys::CHECK_STATUS], "http");
    }
    if word != CheckWord::SendExpect {
        foreign(&[&keys::CHECK_SEND, &keys::CHECK_EXPECT], "send-expect");
    }
    if !has_tls && (tls == Some(true) || word == CheckWord::Tls) {
        let key: &dyn Entry = if tls == Some(true) { &keys::CHECK_TLS } else { &keys::CHECK_TYPE };
        let fault = Fault::new("a check over TLS, but nothing says how TLS is spoken with the backends");
        let hint = "add [service.backend-tls]; backends that clients reach without it are checked by `type = \"tcp\"`";
        section.error(key, fault.hint(hint));
    }
    if !has_tls && tls == Some(false) && matches!(word, CheckWord::Http | CheckWord::SendExpect) {
        warn_no_effect(section, &keys::CHECK_TLS, "connections to the backends are in plain text");
    }
    if tls.is_some() && matches!(word, CheckWord::Tcp | CheckWord::Tls) {
        let fault = Fault::new("`tls` is for the types `http` and `send-expect`");
        section.error(&keys::CHECK_TLS, fault.hint("remove it: the type says it all"));
    }
    // Text that goes into a request must not end its line.
    let is_plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
    let path = path.unwrap_or_else(|| "/".to_owned());
    if !path.starts_with('/') || !is_plain(&path) {
        let what = "a path begins with `/` and has no spaces, control characters or letters beyond ASCII";
        section.error(&keys::CHECK_PATH, Fault::new(what).hint("write `%20` for a space"));
    }
    if host.as_ref().is_some_and(|host| !is_plain(host)) {
        let fault = Fault::new("a host has no spaces, control characters or letters beyond ASCII");
        section.error(&keys::CHECK_HOST, fault);
    }
    let kind = match word {
        CheckWord::Tcp => CheckKind::Tcp,
        CheckWord::Tls => CheckKind::Tls,
        CheckWord::Http => CheckKind::Http { path, host, status: status.unwrap_or_else(|| vec![200..=399]) },
        CheckWord::SendExpect => {
            if section.written(&keys::CHECK_EXPECT).is_none() {
                let fault = Fault::new("a check of type `send-expect` has no `expect`");
                section.missing(fault.hint("add a line such as `expect = \"+PONG\"`"));
            }
            CheckKind::SendExpect { send: send.unwrap_or_default(), expect: expect? }
        }
    };
    Some(Check { kind, interval, timeout, rise, fall, port, plain: tls == Some(false) })
}
