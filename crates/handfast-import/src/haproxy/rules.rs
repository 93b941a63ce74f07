//! `http-request`, `http-response`, `redirect`, `tcp-request` and `use_backend`, as what they do and when.

use super::around::Around;
use super::condition::{self, Phase};
use super::grammar::{self, Line};
use super::pages::Page;
use super::state::Import;
use super::value::{Text, parts, template};
use crate::cells::{Atom, Changes, Formula, is_of_connection, names_client};
use crate::note::Fate;
use crate::toml::Value;

/// Action of a rule.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// The client receives a fixed response. `is_refusal`: to keep the request away from the backend.
    Respond {
        value: Value,
        status: i64,
        fields: Changes,
        is_refusal: bool,
        /// True if the page for errors of this status is its content.
        has_page: bool,
    },
    Redirect {
        to: String,
        status: i64,
    },
    /// The connection is closed.
    Reject,
    /// The other rules of this phase are skipped.
    Allow,
    Password {
        realm: Option<String>,
    },
    Request(Changes),
    /// The beginning `from` of a path is replaced by `to`.
    Path {
        from: String,
        to: String,
    },
    Backend(String),
}

impl Action {
    /// Returns true if its requests must not reach a backend.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Reject | Self::Password { .. } | Self::Respond { is_refusal: true, .. })
    }
}

/// A rule of one phase.
#[derive(Clone, Debug)]
pub(super) struct Rule<'d> {
    pub(super) line: &'d Line,
    pub(super) phase: usize,
    pub(super) formula: Formula,
    pub(super) action: Action,
}

/// The rules of responses: those of a backend come before those of its frontend.
#[derive(Clone, Debug, Default)]
pub(super) struct OfResponses<'d> {
    /// With the condition, the changes, and whether they are also for responses that the proxy makes.
    pub(super) rules: Vec<(&'d Line, Formula, Changes, bool)>,
    /// Pages in the place of errors that backends send.
    pub(super) pages: Vec<(&'d Line, Page)>,
}

/// Words behind which the condition begins.
pub(super) fn without_condition(words: &[String]) -> &[String] {
    let end = words.iter().position(|word| word == "if" || word == "unless").unwrap_or(words.len());
    &words[..end]
}

impl<'d> Import<'d> {
    /// The rules of a proxy, in the order in which HAProxy runs them. `first`: the number of the first phase.
    pub(super) fn rules(&mut self, around: &mut Around<'_, 'd>, first: usize) -> Vec<Rule<'d>> {
        let mut rules = Vec::new();
        let proxy = around.proxy.clone();
        if let Some(line) = proxy.last(&["monitor-uri"]).filter(|_| self.is_http && first == 0) {
            if !line.word(1).starts_with('/') {
                self.note(line, Fate::Refused, "expected a path");
            }
            let formula = Formula::exact_path(line.word(1).into());
            let action = Action::Respond {
                value: 200.into(),
                status: 200,
                fields: Changes::default(),
                is_refusal: false,
                has_page: false,
            };
            rules.push(Rule { line, phase: first, formula, action });
        }
        for (phase, level) in ["connection", "session", "content"].into_iter().enumerate() {
            for line in proxy.own(&["tcp-request", level]) {
                let action = match line.word(2) {
                    "accept" => Action::Allow,
                    "reject" | "silent-drop" => Action::Reject,
                    // Its row has the note.
                    _ => continue,
                };
                if level == "connection" && around.accepts_header {
                    let effect =
                        "it is about the proxy in front, not about the client: write `tcp-request session`";
                    self.note(line, Fate::Refused, effect);
                }
                self.rule(line, first + phase, 3, action, around, Phase::Connection, &mut rules);
            }
        }
        if self.is_http {
            for line in proxy.own(&["http-request"]) {
                if never_holds(line.from(1), around) {
                    continue;
                }
                if let Some(action) = self.http_request(line, around) {
                    let condition = Phase::Request;
                    self.rule(line, first + 3, 1, action, around, condition, &mut rules);
                }
            }
            for line in proxy.own(&["redirect"]) {
                if never_holds(line.from(1), around) {
                    continue;
                }
                if let Some(action) = self.redirect(line, 1, around) {
                    self.rule(line, first + 4, 1, action, around, Phase::Request, &mut rules);
                }
            }
        }
        let phase = if self.is_http { Phase::Request } else { Phase::Connection };
        for line in proxy.own(&["use_backend"]) {
            if line.word(1).starts_with("%[") {
                self.map(line, first + 5, around, phase, &mut rules);
            } else {
                self.rule(
                    line,
                    first + 5,
                    2,
                    Action::Backend(line.word(1).into()),
                    around,
                    phase,
                    &mut rules,
                );
            }
        }
        if let Some(line) = proxy.last(&["default_backend"]) {
            let action = Action::Backend(line.word(1).into());
            rules.push(Rule { line, phase: first + 6, formula: Formula::Always(true), action });
        }
        rules
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of the rule")]
    fn rule(
        &mut self,
        line: &'d Line,
        phase: usize,
        from: usize,
        action: Action,
        around: &mut Around<'_, 'd>,
        kind: Phase,
        rules: &mut Vec<Rule<'d>>,
    ) {
        match condition::condition(line.from(from), around, kind) {
            Ok(formula) => {
                self.remarks(line, around);
                // A rule for a path that is replaced is for that path.
                let formula = match &action {
                    Action::Path { from, .. } if from != "/" => {
                        let path = Atom::Path(from.as_str().into());
                        let path = if from.ends_with('/') {
                            Formula::atom(path)
                        } else {
                            Formula::narrower(path, format!("the path begins with {from} at a whole part"))
                        };
                        Formula::All(vec![formula, path])
                    }
                    _ => formula,
                };
                self.push(Rule { line, phase, formula, action }, around, rules);
            }
            Err(error) => self.note(line, Fate::Refused, error.to_string()),
        }
    }

    /// Adds a rule, with notes about requests that it is no longer for.
    fn push(&mut self, rule: Rule<'d>, around: &Around<'_, 'd>, rules: &mut Vec<Rule<'d>>) {
        let mut formula = rule.formula.within(&crate::cells::Conditions::default());
        // No client reaches more by such a rule, and an exact path needs a copy of all later rules for the paths below it.
        if matches!(rule.action, Action::Respond { .. } | Action::Redirect { .. } | Action::Password { .. }) {
            let (wider, path) = formula.with_paths_below();
            formula = wider;
            if let Some(path) = path {
                let effect = format!("paths below it, such as {path}/a, match too");
                self.note(rule.line, Fate::Approximated, effect);
            }
        }
        let is_refusal = rule.action.is_refusal()
            || matches!(&rule.action, Action::Backend(name) if around.is_empty_backend(name));
        let (fewer, more) = (formula.narrower_parts(false), formula.narrower_parts(true));
        let is_allowed = matches!(rule.action, Action::Allow);
        let harmful = if is_refusal {
            &fewer
        } else if is_allowed {
            &more
        } else {
            &Vec::new()
        };
        if let Some(what) = harmful.first() {
            let effect = format!("requests that it refuses would be served: {what}");
            self.note(rule.line, Fate::Refused, effect);
        } else if let Some(what) = fewer.first().or(more.first()) {
            self.note(rule.line, Fate::Approximated, (*what).to_owned());
        }
        rules.push(Rule { formula, ..rule });
    }

    /// `use_backend %[…,map(FILE)]`: a backend for each name in a file.
    fn map(
        &mut self,
        line: &'d Line,
        phase: usize,
        around: &mut Around<'_, 'd>,
        kind: Phase,
        rules: &mut Vec<Rule<'d>>,
    ) {
        let text = line.word(1).trim_start_matches("%[").trim_end_matches(']');
        let mut parts = parts(text);
        let map = parts.pop().unwrap_or_default();
        let (method, arguments) = map.split_once('(').unwrap_or((&map, ""));
        let (file, default) =
            arguments.trim_end_matches(')').split_once(',').unwrap_or((arguments.trim_end_matches(')'), ""));
        let method = match method {
            "map" | "map_str" => "str",
            "map_dom" => "dom",
            "map_end" => "end",
            _ => {
                self.note(
                    line,
                    Fate::Refused,
                    "the name of a backend is a fixed text, or comes from a map of hosts",
                );
                return;
            }
        };
        if !line.from(2).is_empty() {
            self.note(line, Fate::Refused, "a map with a condition: write a `use_backend` for each host");
        }
        let entries = match grammar::entries(std::path::Path::new(&around.path(file))) {
            Ok(entries) => entries,
            Err(error) => {
                self.note(line, Fate::Refused, error.to_string());
                return;
            }
        };
        for entry in &entries {
            let Some((key, name)) = entry.split_once(char::is_whitespace) else { continue };
            let words = ["{", &parts.join(","), "-m", method, key, "}"].map(ToOwned::to_owned);
            let words: Vec<String> = std::iter::once("if".to_owned()).chain(words).collect();
            match condition::condition(&words, around, kind) {
                Ok(formula) => {
                    self.remarks(line, around);
                    let rule = Rule { line, phase, formula, action: Action::Backend(name.trim().into()) };
                    self.push(rule, around, rules);
                }
                Err(error) => {
                    self.note_of(line, &format!("{file}: {entry}"), Fate::Refused, error.to_string())
                }
            }
        }
        if !default.is_empty() {
            let action = Action::Backend(default.into());
            rules.push(Rule { line, phase, formula: Formula::Always(true), action });
        }
    }

    fn http_request(&mut self, line: &'d Line, around: &mut Around<'_, 'd>) -> Option<Action> {
        let words = without_condition(line.from(2));
        match line.word(1) {
            "allow" => Some(Action::Allow),
            "deny" | "tarpit" => {
                self.respond(line, words, if line.word(1) == "deny" { 403 } else { 500 }, true, around)
            }
            "reject" | "silent-drop" => self.respond(line, &[], 403, true, around),
            "return" => self.respond(line, words, 200, false, around),
            "redirect" => self.redirect(line, 2, around),
            "auth" => {
                let realm =
                    words.iter().position(|word| word == "realm").and_then(|at| words.get(at + 1)).cloned();
                Some(Action::Password { realm })
            }
            "set-header" | "add-header" | "del-header" => self.request_field(line, around),
            "set-path" | "replace-path" => {
                let change = path_change(line);
                if change.is_none() {
                    let effect =
                        "the beginning of a path can take the place of another one: ^/old/(.*) and /new/\\1";
                    self.note(line, Fate::Refused, effect);
                }
                change
            }
            // Their rows have the notes.
            _ => None,
        }
    }

    /// `redirect scheme`, `prefix` or `location`.
    fn redirect(&mut self, line: &'d Line, from: usize, around: &Around<'_, 'd>) -> Option<Action> {
        let words: Vec<&str> = without_condition(line.from(from)).iter().map(String::as_str).collect();
        let (mut kind, mut text, mut status, mut drops_query) = ("", "", "302", false);
        let mut rest = words.iter().copied();
        while let Some(word) = rest.next() {
            match word {
                "scheme" | "prefix" | "location" => (kind, text) = (word, rest.next().unwrap_or_default()),
                "code" => status = rest.next().unwrap_or_default(),
                "drop-query" => drops_query = true,
                _ => {
                    self.note(line, Fate::Refused, format!("{word}: a redirect has a target and a status"));
                    return None;
                }
            }
        }
        let converted = match template(text, around.facts) {
            Ok(converted) => converted,
            Err(what) => {
                self.note(line, Fate::Refused, format!("Handfast has no {what}"));
                return None;
            }
        };
        if let Some(remark) = converted.remark {
            self.note(line, Fate::Approximated, remark);
        }
        let target = if drops_query { "{path}" } else { "{target}" };
        let to = match kind {
            "scheme" => format!("{}://{{host}}{target}", converted.text),
            "prefix" if converted.text == "/" => target.to_owned(),
            "prefix" => format!("{}{target}", converted.text),
            _ => converted.text,
        };
        let is_target = ["http://", "https://", "{scheme}://"].iter().any(|start| to.starts_with(start))
            || to.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '{']));
        let code = status.parse().unwrap_or_default();
        if !is_target || ![301, 302, 303, 307, 308].contains(&code) {
            self.note(
                line,
                Fate::Refused,
                "expected a URL or a path, and a status of 301, 302, 303, 307 or 308",
            );
            return None;
        }
        if kind == "scheme" && around.facts.port.is_some_and(|port| port != 80 && port != 443) {
            self.note(line, Fate::Approximated, "the target has no port, where the client's Host has one");
        }
        Some(Action::Redirect { to, status: code })
    }

    /// `http-request set-header`, `add-header` and `del-header`.
    fn request_field(&mut self, line: &'d Line, around: &Around<'_, 'd>) -> Option<Action> {
        let (name, text) = (line.word(2).to_owned(), line.word(3));
        let lower = name.to_ascii_lowercase();
        let mut changes = Changes::default();
        let is_removed = line.word(1) == "del-header";
        if is_of_connection(&lower) {
            self.note(line, Fate::Approximated, "Handfast writes the fields of a connection by itself");
            return None;
        }
        if lower == "x-request-id" && text == "%[unique-id]" {
            return None;
        }
        let is_forwarding = names_client(&lower);
        if is_removed {
            if without_condition(line.from(2)).len() > 1 && line.word(3) != "-m" {
                self.note(line, Fate::Refused, "expected one name");
            }
            if line.word(3) == "-m" && line.word(4) != "str" {
                self.note(line, Fate::Refused, "a field is removed by its name");
            }
            if !is_forwarding && lower != "x-real-ip" {
                changes.remove(&name);
            }
            return Some(Action::Request(changes));
        }
        if is_forwarding {
            self.forwarding(line, &lower, text, around);
            return None;
        }
        match template(text, around.facts) {
            Ok(Text { text, remark }) => {
                if let Some(remark) = remark {
                    self.note(line, Fate::Approximated, remark);
                }
                if line.word(1) == "add-header" && lower != "host" {
                    changes.add(&name, text)
                } else {
                    changes.set(&name, text)
                }
                Some(Action::Request(changes))
            }
            Err(what) => {
                self.note(line, Fate::Refused, format!("Handfast has no {what}"));
                None
            }
        }
    }

    /// A field that names the client: Handfast writes the usual ones automatically, for all requests of a service.
    fn forwarding(&mut self, line: &'d Line, name: &str, text: &str, around: &Around<'_, 'd>) {
        let scheme = if around.facts.has_tls { "https" } else { "http" };
        let written = template(text, around.facts).map(|value| value.text);
        let is_usual = match (name, written.as_deref()) {
            ("x-forwarded-for", Ok("{client-address}")) => true,
            ("x-forwarded-proto", Ok(text)) => text == scheme || text == "{scheme}",
            ("x-forwarded-host", Ok("{host}")) => true,
            _ => false,
        };
        if is_usual {
            self.is_forwarded = true;
            let effect = "X-Forwarded-For, -Proto and -Host are sent, for all requests; what clients send in them is removed: list the proxies in front in http.trust-forwarded-from";
            self.note(line, Fate::Approximated, effect);
        } else {
            self.note(
                line,
                Fate::Refused,
                "Handfast writes X-Forwarded-For, -Proto and -Host by itself, and no others",
            );
        }
    }

    /// `http-response` and `http-after-response`.
    pub(super) fn of_responses(&mut self, around: &mut Around<'_, 'd>) -> OfResponses<'d> {
        let (mut rules, mut pages) = (Vec::new(), Vec::new());
        let proxy = around.proxy.clone();
        for kind in ["http-response", "http-after-response"] {
            for line in proxy.own(&[kind]) {
                if (kind, line.word(1)) == ("http-response", "return") {
                    pages.extend(self.page_of_response(line, &proxy).map(|page| (line, page)));
                    continue;
                }
                if !["set-header", "add-header", "del-header"].contains(&line.word(1)) {
                    // Their rows have the notes.
                    continue;
                }
                let (name, mut changes) = (line.word(2), Changes::default());
                if line.word(1) == "del-header" {
                    if line.word(3) == "-m" && line.word(4) != "str" {
                        self.note(line, Fate::Refused, "a field is removed by its name");
                    }
                    changes.remove(name);
                } else {
                    match template(line.word(3), around.facts) {
                        Ok(Text { text, remark }) => {
                            if let Some(remark) = remark {
                                self.note(line, Fate::Approximated, remark);
                            }
                            if line.word(1) == "add-header" {
                                changes.add(name, text)
                            } else {
                                changes.set(name, text)
                            }
                        }
                        Err(what) => self.note(line, Fate::Refused, format!("Handfast has no {what}")),
                    }
                }
                match condition::condition(line.from(3), around, Phase::Response) {
                    Ok(formula) => rules.push((line, formula, changes, kind == "http-after-response")),
                    Err(error) => self.note(line, Fate::Refused, error.to_string()),
                }
                self.remarks(line, around);
            }
        }
        OfResponses { rules, pages }
    }
}

/// Returns true if a condition never holds here, such as `ssl_fc` where clients speak plain text.
fn never_holds(words: &[String], around: &Around<'_, '_>) -> bool {
    let mut probe = around.clone();
    condition::condition(words, &mut probe, Phase::Request)
        .is_ok_and(|formula| formula.within(&crate::cells::Conditions::default()) == Formula::Always(false))
}

/// `set-path /new%[path]`, `set-path %[path,regsub(^/old/,/new/)]`, `replace-path ^/old/(.*) /new/\1`.
fn path_change(line: &Line) -> Option<Action> {
    let is_path = |text: &str| {
        (text.is_empty() || text.starts_with('/'))
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte))
    };
    let (from, to) = if line.word(1) == "set-path" {
        let text = line.word(2);
        if let Some(new) = text.strip_suffix("%[path]") {
            ("/".to_owned(), format!("{}/", new.trim_end_matches('/')))
        } else {
            let inner = text.strip_prefix("%[path,regsub(")?.strip_suffix(")]")?;
            let (from, to) = inner.split_once(',')?;
            let from = from.trim_matches(['"', '\'']).strip_prefix('^')?;
            let to = to.trim_matches(['"', '\'']);
            let from = from.strip_suffix("/?").unwrap_or(from);
            (from.to_owned(), to.to_owned())
        }
    } else {
        let pattern = line.word(2).strip_prefix('^')?;
        let pattern = pattern.strip_suffix('$').unwrap_or(pattern);
        let new = line.word(3).strip_suffix("\\1")?;
        (pattern.strip_suffix("(.*)")?.to_owned(), new.to_owned())
    };
    (is_path(&from) && is_path(&to) && !from.is_empty()).then_some(Action::Path { from, to })
}
