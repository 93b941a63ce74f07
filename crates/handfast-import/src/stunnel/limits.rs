//! Time limits, session tickets, and options of sockets.

use super::grammar::Setting;
use super::translation::{Translation, leave_out, refuse};
use crate::draft::Draft;
use crate::note::Notes;

/// stunnel's TIMEOUTidle, when it is not written.
const IDLE: &str = "12h";

pub(super) fn limits(translation: &Translation<'_>, draft: &mut Draft, notes: &mut Notes) {
    let given = translation.given;
    draft.put("limits", "idle", IDLE);
    for (option, key) in [
        ("timeoutbusy", "handshake"),
        ("timeoutconnect", "connect"),
        ("timeoutidle", "idle"),
        ("timeoutclose", "half-closed-client"),
    ] {
        let Some(setting) = given.get(option) else { continue };
        match duration(setting, notes) {
            Some(duration) => draft.put("limits", key, duration),
            None => continue,
        }
    }
    tickets(translation, draft, notes);
    for setting in given.all("socket") {
        socket(setting, draft, notes);
    }
}

/// Whole seconds, as a duration of ours.
fn duration(setting: &Setting, notes: &mut Notes) -> Option<String> {
    match setting.value.parse::<u32>() {
        Ok(0) => {
            leave_out(notes, setting, "expected one second or more: our default is kept");
            None
        }
        Ok(seconds) => Some(handfast_text::duration::written(std::time::Duration::from_secs(seconds.into()))),
        Err(_) => {
            refuse(notes, setting, "expected a number of seconds");
            None
        }
    }
}

fn tickets(translation: &Translation<'_>, draft: &mut Draft, notes: &mut Notes) {
    let given = translation.given;
    let is_off = given.get("sessionresume").is_some_and(|setting| !setting.is_yes());
    match (translation.is_client(), is_off) {
        (true, true) => draft.put("backend-tls", "resumption", false),
        (false, true) => draft.put("tickets", "per-handshake", 0),
        _ => {}
    }
    let Some(setting) = given.get("sessioncachetimeout").filter(|_| !translation.is_client()) else { return };
    if let Some(duration) = duration(setting, notes) {
        draft.put("tickets", "lifetime", duration);
    }
}

/// `l:TCP_NODELAY=1`: for the listener (a), clients (l) or backends (r).
fn socket(setting: &Setting, draft: &mut Draft, notes: &mut Notes) {
    let (_, option) = setting.value.split_once(':').unwrap_or(("", &setting.value));
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match (name.trim(), value.trim()) {
        ("TCP_NODELAY" | "SO_KEEPALIVE" | "SO_REUSEADDR", "1" | "yes") => {}
        ("TCP_KEEPIDLE", seconds) if seconds.parse::<u32>().is_ok_and(|seconds| seconds > 0) => {
            draft.put("limits", "tcp-keepalive", format!("{seconds}s"));
        }
        _ => leave_out(notes, setting, "this socket option is not changed"),
    }
}
