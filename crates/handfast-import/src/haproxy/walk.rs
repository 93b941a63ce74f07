//! The walk through the rules of a frontend and its backends, for all requests at once.

use std::collections::BTreeMap;

use super::grammar::Line;
use super::rules::{Action, Rule};
use super::state::Import;
use crate::cells::{Atom, Changes, Conditions, Formula};
use crate::note::Fate;
use crate::toml::Value;

/// Routes of a service. Conditions that are independent of each other multiply.
const MAX_ROUTES: usize = 2_000;
/// Conditions that hold for a cell at the same time. A file must not control the recursion depth.
const MAX_CONDITIONS: usize = 100;

/// Requests with the same conditions, and what the rules so far do with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) conditions: Conditions,
    pub(super) request: Changes,
    pub(super) path: Option<(String, String)>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) refuse: Vec<String>,
    pub(super) certificates: Option<Vec<String>>,
    pub(super) password: Option<(String, Option<String>)>,
    /// Clients that the rest of a phase is not for.
    pub(super) exempt: Option<(usize, Vec<String>)>,
    /// The backend that was chosen.
    pub(super) backend: Option<String>,
}

/// Final outcome for the requests of a cell.
#[derive(Clone, Debug)]
pub(super) enum End {
    Backend(String),
    /// The bool: with the page for errors of its status.
    Respond(Value, Changes, bool),
    Redirect(String, i64),
}

/// The walk through the rules of a service.
pub(super) struct Walk<'w, 'd> {
    pub(super) import: &'w mut Import<'d>,
    pub(super) frontend: Vec<Rule<'d>>,
    pub(super) backends: BTreeMap<String, Vec<Rule<'d>>>,
    /// The frontend's own name, if it has servers.
    pub(super) own: Option<String>,
    pub(super) head: &'d Line,
    pub(super) cells: Vec<(Cell, End)>,
    /// Clients of the whole service.
    pub(super) allow: Option<Vec<String>>,
    pub(super) refuse: Vec<String>,
    pub(super) depth: usize,
    pub(super) is_stopped: bool,
}

impl<'d> Walk<'_, 'd> {
    /// Runs the rules for a cell, from one on, and splits it where a rule is for a part of it.
    pub(super) fn run(&mut self, mut cell: Cell, from: usize) {
        let mut at = from;
        loop {
            if self.is_stopped {
                return;
            }
            let rules = match &cell.backend {
                None => &self.frontend,
                Some(name) => match self.backends.get(name) {
                    Some(rules) => rules,
                    None => return self.end_at_backend(cell),
                },
            };
            let Some(rule) = rules.get(at).cloned() else {
                return match (&cell.backend, &self.own) {
                    (Some(_), _) => self.end_at_backend(cell),
                    (None, Some(own)) => {
                        cell.backend = Some(own.clone());
                        self.end_at_backend(cell);
                    }
                    (None, None) => self.unanswered(cell),
                };
            };
            if cell.exempt.as_ref().is_some_and(|(phase, _)| *phase != rule.phase) {
                cell.exempt = None;
            }
            let formula = rule.formula.left_in(&cell.conditions);
            if formula == Formula::Always(false) {
                at += 1;
                continue;
            }
            if self.is_changed(&cell, &rule.formula) {
                return self.refuse(rule.line, "an earlier rule changes what this condition is about");
            }
            if let Some(atom) = formula.first_of_routes().cloned() {
                if cell.conditions.mixes_cases(&atom) {
                    let effect = "one condition on the path is without regard to case, and another one is not: write `-i` in both";
                    return self.refuse(rule.line, effect);
                }
                let mut part = cell.clone();
                part.conditions.assume(atom.clone(), true);
                self.depth += 1;
                if self.depth > MAX_CONDITIONS {
                    self.stop();
                }
                self.run(part, at);
                self.depth -= 1;
                cell.conditions.assume(atom, false);
                continue;
            }
            let step = if formula == Formula::Always(true) {
                self.apply(&mut cell, &rule)
            } else {
                self.gate(&mut cell, &rule, &formula)
            };
            match step {
                Some(Next::Rule) => at += 1,
                Some(Next::Phase) => {
                    let rules = match &cell.backend {
                        None => &self.frontend,
                        Some(name) => self.backends.get(name).unwrap_or(&self.frontend),
                    };
                    at = rules.iter().position(|other| other.phase > rule.phase).unwrap_or(rules.len());
                }
                Some(Next::Backend) => at = 0,
                None => return,
            }
        }
    }

    fn refuse(&mut self, line: &'d Line, effect: &str) {
        self.import.note(line, Fate::Refused, effect);
    }

    /// Too many routes.
    fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_stopped, true) {
            let effect = format!(
                "its rules would be more than {MAX_ROUTES} routes: conditions that are independent of each other multiply"
            );
            self.import.note(self.head, Fate::Refused, effect);
        }
    }

    fn finish(&mut self, cell: Cell, end: End) {
        if self.cells.len() >= MAX_ROUTES {
            return self.stop();
        }
        self.cells.push((cell, end));
    }

    fn end_at_backend(&mut self, cell: Cell) {
        let name = cell.backend.clone().unwrap_or_default();
        let has_servers = self.import.proxies.iter().any(|proxy| proxy.name() == name && !proxy.is_empty());
        if has_servers {
            self.finish(cell, End::Backend(name));
        } else {
            self.finish(cell, End::Respond(503.into(), Changes::default(), true));
        }
    }

    /// No backend takes the requests.
    fn unanswered(&mut self, cell: Cell) {
        if !self.import.is_http {
            let effect = "a backend must take clients with other names, and with none: write default_backend";
            return self.refuse(self.head, effect);
        }
        self.finish(cell, End::Respond(503.into(), Changes::default(), true));
    }

    /// Returns true if an earlier rule changed the path, host or field of a condition.
    fn is_changed(&self, cell: &Cell, formula: &Formula) -> bool {
        match formula {
            Formula::Always(_) => false,
            Formula::Not(inner) => self.is_changed(cell, inner),
            Formula::All(parts) | Formula::Any(parts) => parts.iter().any(|part| self.is_changed(cell, part)),
            Formula::Atom { atom: Atom::Path(_), .. } => cell.path.is_some(),
            Formula::Atom { atom: Atom::Hosts(_), .. } => self.import.is_http && cell.request.has("host"),
            Formula::Atom { atom: Atom::Field(name, _), .. } => cell.request.has(name),
            Formula::Atom { .. } => false,
        }
    }

    /// A rule that is for all requests of a cell. `None`: nothing comes after it.
    fn apply(&mut self, cell: &mut Cell, rule: &Rule<'d>) -> Option<Next> {
        if let Some((_, clients)) = cell.exempt.take() {
            return match rule.action {
                Action::Respond { is_refusal: true, .. } | Action::Reject => {
                    let source = Formula::atom(Atom::Source(clients)).negated();
                    self.gate(cell, rule, &source).map(|_| Next::Phase)
                }
                _ => {
                    self.refuse(
                        rule.line,
                        "it is not for the clients of an `allow` before it: no route depends on addresses",
                    );
                    None
                }
            };
        }
        match &rule.action {
            Action::Allow => return Some(Next::Phase),
            Action::Respond { value, fields, has_page, .. } => {
                self.finish(cell.clone(), End::Respond(value.clone(), fields.clone(), *has_page));
                return None;
            }
            Action::Redirect { to, status } => {
                if cell.path.is_some() && (to.contains("{path}") || to.contains("{target}")) {
                    self.refuse(rule.line, "an earlier rule changes the path");
                }
                self.finish(cell.clone(), End::Redirect(to.clone(), *status));
                return None;
            }
            Action::Reject if self.import.is_http && !cell.conditions.is_whole() => {
                self.finish(cell.clone(), End::Respond(403.into(), Changes::default(), true));
                return None;
            }
            Action::Reject => {
                let effect = if cell.conditions.is_whole() {
                    "no client would be served"
                } else {
                    "connections are refused by the client's address, and not by a name"
                };
                self.refuse(rule.line, effect);
                return None;
            }
            Action::Password { .. } => {
                self.refuse(rule.line, "the condition names the list: unless { http_auth(LIST) }");
                return None;
            }
            Action::Request(changes) => {
                if cell.path.is_some() && changes.mentions("{path}", "{target}") {
                    self.refuse(rule.line, "an earlier rule changes the path");
                }
                cell.request.then(changes);
            }
            Action::Path { from, to } => {
                let start = cell.conditions.path.as_ref().map_or("/", |path| path.text.as_str()).to_owned();
                let path = start.trim_end_matches('*');
                let rest = path.strip_prefix(from.as_str()).unwrap_or_default();
                let new = format!("{to}{rest}");
                let new = if new.is_empty() { "/".to_owned() } else { new };
                if cell.path.is_some()
                    || (new.ends_with('/') != path.ends_with('/') && new != "/")
                    || !new.starts_with('/')
                {
                    self.refuse(
                        rule.line,
                        "both paths must end with `/`, or none, and a path is changed once",
                    );
                }
                cell.path = Some((start, new));
            }
            Action::Backend(name) => {
                cell.backend = Some(name.clone());
                return Some(Next::Backend);
            }
        }
        Some(Next::Rule)
    }

    /// A rule that depends on the client.
    fn gate(&mut self, cell: &mut Cell, rule: &Rule<'d>, formula: &Formula) -> Option<Next> {
        let is_exempt = cell.exempt.is_some();
        match (&rule.action, formula) {
            (Action::Respond { is_refusal: true, .. } | Action::Reject, Formula::Any(parts)) => {
                for part in parts {
                    self.gate(cell, rule, part)?;
                }
            }
            (
                Action::Respond { is_refusal: true, status, .. },
                Formula::Atom { atom: Atom::Source(clients), .. },
            ) if !is_exempt => {
                self.status(rule.line, *status);
                cell.refuse.extend(clients.iter().cloned());
                cell.conditions.assume(Atom::Source(clients.clone()), false);
            }
            (Action::Respond { is_refusal: true, status, .. }, Formula::Not(inner)) if !is_exempt => {
                let Formula::Atom { atom, .. } = &**inner else { return self.no_gate(rule) };
                let place = match atom {
                    Atom::Source(_) => &mut cell.allow,
                    Atom::Certificate(_) => &mut cell.certificates,
                    _ => return self.no_gate(rule),
                };
                let (Atom::Source(clients) | Atom::Certificate(clients)) = atom else { return None };
                if place.as_ref().is_some_and(|known| known != clients) {
                    self.refuse(
                        rule.line,
                        "a route has one list of clients: write the addresses that are in both",
                    );
                }
                *place = Some(clients.clone());
                self.status(rule.line, *status);
                cell.conditions.assume(atom.clone(), true);
            }
            (Action::Reject, _) if !is_exempt => return self.reject(cell, rule, formula),
            (Action::Password { realm, .. }, Formula::Not(inner)) if !is_exempt => {
                let Formula::Atom { atom: Atom::User(list), .. } = &**inner else {
                    return self.no_gate(rule);
                };
                if cell.password.is_some() {
                    self.refuse(rule.line, "a route has one list of users");
                }
                self.import.user_list(rule.line, list);
                cell.password = Some((list.clone(), realm.clone()));
                cell.conditions.assume(Atom::User(list.clone()), true);
            }
            (Action::Allow, Formula::Atom { atom: Atom::Source(clients), .. }) => {
                let mut all = cell.exempt.take().map(|(_, known)| known).unwrap_or_default();
                all.extend(clients.iter().cloned());
                cell.exempt = Some((rule.phase, all));
            }
            _ => return self.no_gate(rule),
        }
        Some(Next::Rule)
    }

    /// Connections that are closed for their addresses.
    fn reject(&mut self, cell: &mut Cell, rule: &Rule<'d>, formula: &Formula) -> Option<Next> {
        let (atom, is_refused) = match formula {
            Formula::Atom { atom, .. } => (atom, true),
            Formula::Not(inner) => match &**inner {
                Formula::Atom { atom, .. } => (atom, false),
                _ => return self.no_gate(rule),
            },
            _ => return self.no_gate(rule),
        };
        let Atom::Source(clients) = atom else { return self.no_gate(rule) };
        if !cell.conditions.is_whole() {
            return self.no_gate(rule);
        }
        if is_refused {
            self.refuse.extend(clients.iter().cloned());
        } else if self.allow.as_ref().is_some_and(|known| known != clients) {
            self.refuse(rule.line, "a service has one list of clients: write the addresses that are in both");
        } else {
            self.allow = Some(clients.clone());
        }
        cell.conditions.assume(atom.clone(), !is_refused);
        Some(Next::Rule)
    }

    fn no_gate(&mut self, rule: &Rule<'d>) -> Option<Next> {
        let effect = "addresses, certificates and users decide whether a request is refused (`deny if`, `deny unless`, `auth unless`), each alone, and nothing else";
        self.refuse(rule.line, effect);
        None
    }

    fn status(&mut self, line: &'d Line, status: i64) {
        if status != 403 {
            self.import.note(line, Fate::Approximated, "the status is 403");
        }
    }
}

/// Step after a rule.
enum Next {
    Rule,
    /// The first rule of the next phase.
    Phase,
    /// The rules of the backend.
    Backend,
}
