//! Converts Caddy's JSON: `tables/caddy.tsv` describes the conversion of each key and module.
//!
//! Each server becomes a service, and one more for port 80 if there are certificates to redirect to. `walk.rs` runs its routes and
//! handlers as Caddy does, and splits the requests into cells until each condition holds for all requests of one, or for none.

mod errors;
mod matchers;
mod proxy;
mod server;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests;
mod tls;
mod walk;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use handfast_text::foreign::without_values;
use serde_json::{Map, Value};

use crate::draft::WholeDraft;
use crate::imported::{ImportError, Imported, NewFiles, in_folder, read};
use crate::note::{Fate, Mark, Notes, Outcome, Place, UnknownVariable};
use crate::row::{self, Table};

/// Every supported or recognized key and module of Caddy's JSON. An example is merged into a configuration at the place in front of `|`.
pub(crate) static ROWS: Table = Table::new(|| row::rows(include_str!("../tables/caddy.tsv")));

/// The name of the service that redirects to those with TLS.
const REDIRECTS: &str = "redirects";

pub(crate) fn import(file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    let text = read(&folder.join(file))?;
    let root: Value = serde_json::from_str(&text).map_err(|error| {
        let what = if text.trim_start().starts_with('{') && text.contains('"') {
            ""
        } else {
            "; `caddy adapt --config Caddyfile` prints JSON"
        };
        ImportError::Grammar(vec![format!(
            "{}:{}: expected Caddy's JSON: {}{what}",
            file.display(),
            error.line(),
            without_values(&error)
        )])
    })?;
    let mut import = Import {
        file: Rc::new(file.to_owned()),
        folder,
        root: &root,
        notes: Notes::default(),
        noted: Vec::new(),
        lists: 0,
        files: NewFiles::default(),
        has_unchecked: false,
    };
    let mut whole = WholeDraft::default();
    import.report_keys(At::new(&root, String::new()), "");
    let http = At::new(&root, String::new()).get("apps").get("http");
    import.report_keys(At::new(&root, String::new()).get("apps"), "apps");
    import.report_keys(http.clone(), "http");
    import.process(&http, &mut whole);
    let tls = import.certificates();
    let of_all = import.notes.outcome_since(Mark::default());
    let mut services = import.servers(&http, &tls, of_all, &mut whole);
    let has_tls = services.iter_mut().any(|(_, service, outcome)| {
        *outcome != Outcome::Refused && service.of("").text("client-tls").is_none()
    });
    for (name, service, outcome) in services {
        // Redirects to services that are not there help no client.
        let is_useless = name == REDIRECTS && !has_tls;
        whole.add(name, service, if is_useless { Outcome::Refused } else { outcome });
    }
    Ok(whole.imported(&file.display().to_string(), import.notes, import.files))
}

/// A value and the keys that lead to it.
#[derive(Clone, Debug)]
struct At<'v> {
    value: Option<&'v Value>,
    keys: String,
}

impl<'v> At<'v> {
    fn new(value: &'v Value, keys: String) -> Self {
        Self { value: Some(value), keys }
    }

    fn get(&self, key: &str) -> Self {
        let value = self.value.and_then(|value| value.get(key)).filter(|value| !value.is_null());
        Self { value, keys: format!("{}/{key}", self.keys) }
    }

    fn is_there(&self) -> bool {
        self.value.is_some()
    }

    fn object(&self) -> Option<&'v Map<String, Value>> {
        self.value?.as_object()
    }

    /// The values of an object, by their keys.
    fn entries(&self) -> Vec<(&'v str, Self)> {
        let entries = self.object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), Self::new(value, format!("{}/{key}", self.keys)))).collect()
    }

    /// The elements of a list.
    fn items(&self) -> Vec<Self> {
        let items = self.value.and_then(Value::as_array).into_iter().flatten().enumerate();
        items.map(|(at, value)| Self::new(value, format!("{}/{at}", self.keys))).collect()
    }

    fn text(&self) -> Option<&'v str> {
        self.value?.as_str()
    }

    fn texts(&self) -> Vec<String> {
        self.items().iter().filter_map(At::text).map(ToOwned::to_owned).collect()
    }

    /// A number, also one that is written as a text.
    fn number(&self) -> Option<i64> {
        self.value?.as_i64().or_else(|| self.text()?.parse().ok())
    }

    fn is_true(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or(false)
    }

    /// Nanoseconds, or a text such as `1m30s`.
    fn time(&self) -> Option<Duration> {
        if let Some(number) = self.value?.as_u64() {
            return Some(Duration::from_nanos(number));
        }
        let (mut total, mut rest) = (Duration::ZERO, self.text()?);
        while !rest.is_empty() {
            let digits = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
            let number: f64 = rest[..digits].parse().ok()?;
            let after = &rest[digits..];
            let unit = after.find(|sign: char| sign.is_ascii_digit()).unwrap_or(after.len());
            let seconds = match &after[..unit] {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
            total += Duration::try_from_secs_f64(number * seconds).ok()?;
            rest = &after[unit..];
        }
        Some(total)
    }
}

/// As Handfast writes a time, within the bounds of its key. `None`: no limit.
fn bounded(time: Duration, least: u64, most_seconds: u64) -> Option<String> {
    if time.is_zero() || time > Duration::from_secs(most_seconds) {
        return None;
    }
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(least);
    Some(handfast_text::duration::written(Duration::from_millis(milliseconds)))
}

/// State of the conversion.
struct Import<'v> {
    file: Rc<PathBuf>,
    folder: &'v Path,
    root: &'v Value,
    notes: Notes,
    /// Effects that are already noted; each is noted once.
    noted: Vec<&'static str>,
    /// Lists of users so far.
    lists: usize,
    /// Pages of the new configuration.
    files: NewFiles,
    /// True if a backend of the service has no check.
    has_unchecked: bool,
}

impl<'v> Import<'v> {
    fn note(&mut self, at: &At<'_>, option: &str, fate: Fate, effect: impl Into<String>) {
        self.notes.add(&self.place(at), option, fate, effect);
    }

    fn place(&self, at: &At<'_>) -> Place {
        let keys = if at.keys.is_empty() { "/".to_owned() } else { at.keys.clone() };
        Place::Value(Rc::clone(&self.file), keys)
    }

    fn note_once(&mut self, at: &At<'_>, option: &str, effect: &'static str) {
        if !self.noted.contains(&effect) {
            self.noted.push(effect);
            self.note(at, option, Fate::Approximated, effect);
        }
    }

    fn path(&self, text: &str) -> String {
        in_folder(self.folder, text)
    }

    /// Reports the keys of an object. `context`: the first word of their rows.
    fn report_keys(&mut self, object: At<'v>, context: &str) {
        for (key, at) in object.entries() {
            if at.value.is_some_and(Value::is_null) {
                continue;
            }
            let name = if context.is_empty() { key.to_owned() } else { format!("{context} {key}") };
            self.module(&at, &name, key);
        }
    }

    /// Reports a key or module by the name of its row.
    fn module(&mut self, at: &At<'_>, name: &str, option: &str) {
        let place = self.place(at);
        match row::find(&ROWS, name) {
            None => self.notes.report_unknown(&ROWS, &place, option),
            Some(row) => self.notes.report(row, &place, option, ""),
        }
    }

    /// Settings of the whole process.
    fn process(&mut self, http: &At<'v>, whole: &mut WholeDraft) {
        for (theirs, ours) in [("grace_period", "drain"), ("shutdown_delay", "drain-delay")] {
            if let Some(time) = http.get(theirs).time().and_then(|time| bounded(time, 1, 3_600)) {
                whole.process.put(ours, time);
            }
        }
    }
}

/// A text with Caddy's placeholders as one with variables in braces. **Errors**: what Handfast does not have.
fn template(text: &str, port: Option<u16>) -> Result<String, UnknownVariable> {
    let (mut converted, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}', '\\']) {
        converted.push_str(&rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at + 1..];
        match sign {
            "\\" => match rest.strip_prefix('{') {
                Some(after) => {
                    converted.push_str("{{");
                    rest = after;
                }
                None => converted.push('\\'),
            },
            "{" => {
                let (name, after) =
                    rest.split_once('}').ok_or_else(|| UnknownVariable(format!("{{{rest}")))?;
                let variable = match name {
                    "http.request.remote.host" | "http.vars.client_ip" => "{client-address}".to_owned(),
                    "http.request.host" => "{host}".into(),
                    "http.request.uri" => "{target}".into(),
                    "http.request.uri.path" => "{path}".into(),
                    "http.request.scheme" => "{scheme}".into(),
                    "http.request.uuid" => "{request-id}".into(),
                    "http.request.tls.version" => "{tls-version}".into(),
                    "http.request.tls.server_name" => "{server-name}".into(),
                    "http.request.tls.client.subject" => "{client-subject}".into(),
                    "http.request.tls.client.certificate_der_base64" => "{client-certificate-der}".into(),
                    "http.request.tls.client.fingerprint" => "{client-fingerprint}".into(),
                    "http.auth.user.id" => "{user}".into(),
                    "http.request.port" => {
                        port.ok_or_else(|| UnknownVariable("{http.request.port}".into()))?.to_string()
                    }
                    other => return Err(UnknownVariable(format!("{{{other}}}"))),
                };
                converted.push_str(&variable);
                rest = after;
            }
            _ => converted.push_str("}}"),
        }
    }
    converted.push_str(rest);
    Ok(converted)
}
