//! Routes and their handlers, run for all requests at once.

use super::matchers::ServiceFacts;
use super::{At, Import, template};
use crate::cells::{Atom, Changes, Conditions, Formula, PathStart};
use crate::note::Fate;
use crate::toml::{Value, list, table};

/// Routes of a service. Conditions that are independent of each other multiply.
const MAX_ROUTES: usize = 2_000;
/// Conditions that hold for a cell at the same time. A file must not control the recursion depth.
const MAX_CONDITIONS: usize = 100;
/// Subroutes within subroutes.
const MAX_SUBROUTE_DEPTH: usize = 64;

/// Final outcome for the requests of a cell.
#[derive(Clone, Debug)]
pub(super) enum End<'v> {
    Backend(At<'v>),
    Respond {
        value: Value,
        status: i64,
        /// True if it is an error, which Caddy's handlers of errors answer.
        is_error: bool,
    },
    Redirect(String, i64),
    /// The value of `files`.
    Files(Value),
    /// No handler answers: an empty 200, which deferred changes of fields do not reach.
    Nothing,
}

/// Requests with the same conditions, and what the handlers so far do with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) conditions: Conditions,
    pub(super) request: Changes,
    pub(super) response: Changes,
    /// Fields of responses that are sent in addition to those of the backend.
    pub(super) beside: Changes,
    pub(super) path: Option<(String, String)>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) refuse: Vec<String>,
    pub(super) password: Option<Value>,
    pub(super) auth_server: Option<Value>,
    pub(super) max_body: Option<i64>,
    pub(super) compression: Option<Value>,
    /// Folder of files: the variable `root`.
    pub(super) root: Option<String>,
    /// Groups of routes of which one was used.
    pub(super) groups: Vec<String>,
}

/// Position of the walk: the next route or handler.
#[derive(Clone)]
struct Next<'v> {
    /// Routes of the same list, or handlers of the same route.
    list: Vec<At<'v>>,
    at: usize,
    are_routes: bool,
    /// True if a terminal route was used: nothing comes after it.
    is_last: bool,
    then: Option<std::rc::Rc<Next<'v>>>,
    depth: usize,
}

/// The walk through the routes of a service.
pub(super) struct Walk<'w, 'v> {
    pub(super) import: &'w mut Import<'v>,
    pub(super) facts: ServiceFacts,
    pub(super) server: At<'v>,
    pub(super) cells: Vec<(Cell, End<'v>)>,
    /// Outcome for requests that no handler answers.
    pub(super) rest: End<'v>,
    depth: usize,
    is_stopped: bool,
}

/// Returns true if handlers refuse or authenticate requests.
fn refuses(handlers: &At<'_>) -> bool {
    handlers.items().iter().any(|handler| match handler.get("handler").text() {
        Some("static_response") => {
            handler.get("abort").is_true()
                || handler.get("status_code").number().is_some_and(|status| status >= 400)
        }
        Some("error" | "authentication") => true,
        // An authorization server that receives a request first (`forward_auth`).
        Some("reverse_proxy") => handler.get("handle_response").is_there(),
        Some("subroute") => handler.get("routes").items().iter().any(|route| {
            refuses(&route.get("handle"))
                || route
                    .get("match")
                    .items()
                    .iter()
                    .any(|set| set.get("remote_ip").is_there() || set.get("client_ip").is_there())
        }),
        _ => false,
    })
}

/// Returns true if one of the handlers writes the response itself.
fn answers(handlers: &At<'_>) -> bool {
    handlers
        .items()
        .iter()
        .any(|handler| matches!(handler.get("handler").text(), Some("static_response" | "error")))
}

/// Returns true if handlers forward requests.
fn forwards(handlers: &At<'_>) -> bool {
    handlers.items().iter().any(|handler| match handler.get("handler").text() {
        Some("reverse_proxy" | "file_server") => true,
        Some("subroute") => handler.get("routes").items().iter().any(|route| forwards(&route.get("handle"))),
        _ => false,
    })
}

/// `encode`: the algorithms in their order, those with a level that Handfast has too.
fn compression(handler: &At<'_>) -> Value {
    const KNOWN: [&str; 3] = ["zstd", "br", "gzip"];
    let encodings = handler.get("encodings");
    let preferred: Vec<_> = handler.get("prefer").items();
    let preferred = preferred
        .iter()
        .filter_map(At::text)
        .filter_map(|name| KNOWN.into_iter().find(|known| *known == name));
    let mut algorithms: Vec<&str> = preferred.collect();
    algorithms.extend(
        KNOWN
            .iter()
            .filter(|name| encodings.get(name).is_there() && !algorithms.contains(name))
            .copied()
            .collect::<Vec<_>>(),
    );
    algorithms.retain(|name| encodings.get(name).is_there());
    let mut keys: Vec<(&str, Value)> = Vec::new();
    if !algorithms.is_empty() && algorithms != KNOWN {
        keys.push(("algorithms", list(algorithms.iter().copied())));
    }
    // Caddy compresses from 512 bytes on.
    let least = handler.get("minimum_length").number().filter(|length| *length > 0).unwrap_or(512);
    keys.push(("min-size", format!("{least}B").into()));
    let level = encodings.get("gzip").get("level").number().filter(|level| (1..=9).contains(level));
    keys.extend(level.map(|level| ("gzip-level", level.into())));
    table(keys)
}

impl<'w, 'v> Walk<'w, 'v> {
    pub(super) fn new(
        import: &'w mut Import<'v>,
        facts: ServiceFacts,
        server: At<'v>,
        rest: End<'v>,
    ) -> Self {
        Self { import, facts, server, cells: Vec::new(), rest, depth: 0, is_stopped: false }
    }

    pub(super) fn run(&mut self) {
        let list = self.server.get("routes").items();
        let next = Next { list, at: 0, are_routes: true, is_last: false, then: None, depth: 0 };
        self.step(Cell::default(), next);
    }

    /// The cells of a half.
    fn step(&mut self, cell: Cell, next: Next<'v>) {
        self.depth += 1;
        if self.depth > MAX_CONDITIONS {
            self.stop();
        }
        self.steps(cell, next);
        self.depth -= 1;
    }

    fn steps(&mut self, mut cell: Cell, mut next: Next<'v>) {
        while !self.is_stopped {
            let Some(item) = next.list.get(next.at).cloned() else {
                let Some(then) = next.then else {
                    let rest = if next.is_last { End::Nothing } else { self.rest.clone() };
                    return self.finish(cell, rest);
                };
                next = (*then).clone();
                continue;
            };
            if next.are_routes {
                let Some(after) = self.route(&mut cell, &item, next) else { return };
                next = after;
            } else {
                next.at += 1;
                let Some(after) = self.handler(&mut cell, &item, next) else { return };
                next = after;
            }
        }
    }

    /// A route: its handlers come next if its condition holds. `None`: the cell was split.
    fn route(&mut self, cell: &mut Cell, route: &At<'v>, mut next: Next<'v>) -> Option<Next<'v>> {
        let group = route.get("group").text().unwrap_or_default().to_owned();
        if !group.is_empty() && cell.groups.contains(&group) {
            next.at += 1;
            return Some(next);
        }
        let formula = match self.import.matches(&route.get("match"), self.facts) {
            Ok(formula) => formula,
            Err(error) => {
                self.import.note(route, "match", Fate::Refused, error.to_string());
                self.is_stopped = true;
                return None;
            }
        };
        let left = formula.left_in(&cell.conditions);
        if left == Formula::Always(false) {
            next.at += 1;
            return Some(next);
        }
        let handlers = route.get("handle");
        let formula = self.checked(cell, route, &handlers, formula)?.left_in(&cell.conditions);
        let mut taken = next.clone();
        taken.at += 1;
        if route.get("terminal").is_true() {
            taken = Next { list: Vec::new(), is_last: true, then: None, ..taken };
        }
        let depth = taken.depth + 1;
        let taken = Next {
            list: handlers.items(),
            at: 0,
            are_routes: false,
            is_last: false,
            then: Some(std::rc::Rc::new(taken)),
            depth,
        };
        if formula == Formula::Always(true) {
            cell.groups.extend(Some(group).filter(|group| !group.is_empty()));
            return Some(taken);
        }
        if let Some(atom) = formula.first_of_routes().cloned() {
            let mut part = cell.clone();
            part.conditions.assume(atom.clone(), true);
            self.step(part, next.clone());
            cell.conditions.assume(atom, false);
            return Some(next);
        }
        self.by_address(cell, route, &formula, (taken, next));
        None
    }

    /// Notes what is not quite the same about a condition. `None`: it cannot be written.
    fn checked(
        &mut self,
        cell: &Cell,
        route: &At<'v>,
        handlers: &At<'v>,
        formula: Formula,
    ) -> Option<Formula> {
        let whole = formula.within(&Conditions::default());
        if self.is_changed(cell, &whole) {
            self.import.note(
                route,
                "match",
                Fate::Refused,
                "an earlier handler changes what this condition is about",
            );
            self.is_stopped = true;
            return None;
        }
        let is_refusal = refuses(handlers);
        let (fewer, more) = (whole.narrower_parts(false), whole.narrower_parts(true));
        let harmful = match (is_refusal, forwards(handlers)) {
            (true, _) => fewer.first(),
            (false, true) => more.first(),
            (false, false) => None,
        };
        if let Some(what) = harmful {
            let effect =
                format!("requests that are refused, or asked for a password, would be served: {what}");
            self.import.note(route, "match", Fate::Refused, effect);
            self.is_stopped = true;
            return None;
        }
        // No client reaches more by such a route.
        let wider =
            if answers(handlers) { formula.clone().with_paths_below() } else { (formula.clone(), None) };
        if let (_, Some(path)) = &wider {
            let effect = format!("paths below it, such as {path}/a, match too");
            self.import.note(route, "match", Fate::Approximated, effect);
        }
        Some(wider.0)
    }

    fn is_changed(&self, cell: &Cell, formula: &Formula) -> bool {
        match formula {
            Formula::Always(_) => false,
            Formula::Not(inner) => self.is_changed(cell, inner),
            Formula::All(parts) | Formula::Any(parts) => parts.iter().any(|part| self.is_changed(cell, part)),
            Formula::Atom { atom: Atom::Path(_), .. } => cell.path.is_some(),
            Formula::Atom { atom: Atom::Hosts(_), .. } => cell.request.has("host"),
            Formula::Atom { atom: Atom::Field(name, _), .. } => cell.request.has(name),
            Formula::Atom { .. } => false,
        }
    }

    /// A condition on the client's address: one of the two ways must refuse all requests.
    fn by_address(
        &mut self,
        cell: &Cell,
        route: &At<'v>,
        formula: &Formula,
        (taken, next): (Next<'v>, Next<'v>),
    ) {
        let (atom, holds) = match formula {
            Formula::Atom { atom, .. } => (atom.clone(), true),
            Formula::Not(inner) => match &**inner {
                Formula::Atom { atom, .. } => (atom.clone(), false),
                _ => return self.no_gate(route),
            },
            _ => return self.no_gate(route),
        };
        let Atom::Source(clients) = &atom else { return self.no_gate(route) };
        let start = self.cells.len();
        let mut inside = cell.clone();
        inside.conditions.assume(atom.clone(), true);
        let mut outside = cell.clone();
        outside.conditions.assume(atom.clone(), false);
        let group = route.get("group").text().filter(|group| !group.is_empty()).map(ToOwned::to_owned);
        let taking = if holds { &mut inside } else { &mut outside };
        taking.groups.extend(group);
        let (of_inside, of_outside) = if holds { (taken, next) } else { (next, taken) };
        self.step(inside, of_inside);
        let mut of_inside = self.cells.split_off(start);
        self.step(outside, of_outside);
        let mut of_outside = self.cells.split_off(start);
        if self.is_stopped {
            return;
        }
        // If all are refused: with 403, or another status.
        let status = |cells: &[(Cell, End<'v>)]| {
            let statuses: Option<Vec<i64>> = cells
                .iter()
                .map(|(_, end)| match end {
                    End::Respond { status, .. } if *status >= 400 => Some(*status),
                    _ => None,
                })
                .collect();
            let statuses = statuses.filter(|statuses| !statuses.is_empty())?;
            Some(statuses.into_iter().find(|status| *status != 403).unwrap_or(403))
        };
        let refused = if let Some(status) = status(&of_outside) {
            if of_inside.iter().any(|(cell, _)| cell.allow.is_some()) {
                return self.no_gate(route);
            }
            of_inside.iter_mut().for_each(|(cell, _)| cell.allow = Some(clients.clone()));
            self.cells.append(&mut of_inside);
            status
        } else if let Some(status) = status(&of_inside) {
            of_outside.iter_mut().for_each(|(cell, _)| cell.refuse.extend(clients.iter().cloned()));
            self.cells.append(&mut of_outside);
            status
        } else {
            return self.no_gate(route);
        };
        if refused != 403 {
            self.import.note(route, "match", Fate::Approximated, "the status is 403");
        }
    }

    fn no_gate(&mut self, route: &At<'v>) {
        let effect = "addresses decide whether a request is refused, each list alone, and nothing else";
        self.import.note(route, "match", Fate::Refused, effect);
        self.is_stopped = true;
    }

    /// Too many routes.
    fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_stopped, true) {
            let effect = format!(
                "its routes would be more than {MAX_ROUTES}: conditions that are independent of each other multiply"
            );
            self.import.note(&self.server.clone(), "routes", Fate::Refused, effect);
        }
    }

    fn finish(&mut self, cell: Cell, end: End<'v>) {
        if self.cells.len() >= MAX_ROUTES {
            return self.stop();
        }
        self.cells.push((cell, end));
    }

    fn refused(&mut self, at: &At<'v>, option: &str, effect: impl Into<String>) -> Option<Next<'v>> {
        self.import.note(at, option, Fate::Refused, effect);
        self.is_stopped = true;
        None
    }

    /// A handler. `None`: nothing comes after it.
    fn handler(&mut self, cell: &mut Cell, handler: &At<'v>, next: Next<'v>) -> Option<Next<'v>> {
        let name = handler.get("handler").text().unwrap_or_default();
        let is_root =
            name == "vars" && handler.entries().iter().all(|(key, _)| ["handler", "root"].contains(key));
        if !is_root {
            self.import.module(handler, &format!("handler {name}"), name);
        }
        match name {
            "vars" => {
                cell.root = handler.get("root").text().map(str::to_owned).or(cell.root.take());
                Some(next)
            }
            "file_server" => {
                self.files(cell, handler);
                None
            }
            "subroute" => {
                if next.depth > MAX_SUBROUTE_DEPTH {
                    return self.refused(
                        handler,
                        name,
                        format!("more than {MAX_SUBROUTE_DEPTH} subroutes within each other"),
                    );
                }
                self.import.report_keys(handler.clone(), "subroute");
                let list = handler.get("routes").items();
                let depth = next.depth + 1;
                Some(Next {
                    list,
                    at: 0,
                    are_routes: true,
                    is_last: false,
                    then: Some(std::rc::Rc::new(next)),
                    depth,
                })
            }
            "headers" => self.headers(cell, handler, next),
            "rewrite" => self.rewrite(cell, handler, next),
            "static_response" | "error" => {
                self.respond(cell, handler, name);
                None
            }
            "authentication" => {
                self.password(cell, handler);
                Some(next)
            }
            "encode" => {
                cell.compression = Some(compression(handler));
                Some(next)
            }
            "request_body" => {
                self.import.report_keys(handler.clone(), name);
                cell.max_body = handler.get("max_size").number().filter(|size| *size > 0);
                Some(next)
            }
            "reverse_proxy" => match self.import.auth_server(handler) {
                Some(server) => {
                    if cell.auth_server.is_some() {
                        return self.refused(handler, name, "a route asks one server");
                    }
                    cell.auth_server = Some(server);
                    Some(next)
                }
                None => {
                    if cell.auth_server.is_some()
                        && handler
                            .value
                            .is_some_and(|value| value.to_string().contains("{http.auth.user.id}"))
                    {
                        let effect = "behind a server that is asked, the user is the one that it names";
                        return self.refused(handler, "{http.auth.user.id}", effect);
                    }
                    self.finish(cell.clone(), End::Backend(handler.clone()));
                    None
                }
            },
            _ => Some(next),
        }
    }

    fn headers(&mut self, cell: &mut Cell, handler: &At<'v>, next: Next<'v>) -> Option<Next<'v>> {
        self.import.report_keys(handler.clone(), "headers");
        self.import.report_keys(handler.get("response"), "headers response");
        self.import.report_keys(handler.get("request"), "headers request");
        self.import.request_fields(&handler.get("request"), self.facts, None, &mut cell.request);
        let response = handler.get("response");
        if response.get("deferred").is_true() {
            // The handler that comes first has the last word.
            let mut changes = Changes::default();
            self.import.fields(&response, self.facts, &mut changes);
            changes.then(&cell.response);
            cell.response = changes;
        } else {
            self.import.fields(&response, self.facts, &mut cell.beside);
        }
        Some(next)
    }

    /// Replaces the beginning of a path.
    fn rewrite(&mut self, cell: &mut Cell, handler: &At<'v>, next: Next<'v>) -> Option<Next<'v>> {
        self.import.report_keys(handler.clone(), "rewrite");
        let start = cell.conditions.path.clone().unwrap_or_else(|| "/".into());
        let path = start.text.trim_end_matches('*');
        let effect = "the beginning of a path can take the place of another one: strip_path_prefix, or a text in front of {http.request.uri}";
        let new = match (handler.get("uri").text(), handler.get("strip_path_prefix").text()) {
            (Some("{http.request.uri}"), None) => return Some(next),
            (Some(text), None) => match text.strip_suffix("{http.request.uri}") {
                Some(prefix) if prefix.starts_with('/') && !prefix.contains(['{', '?', '%']) => {
                    format!("{}{path}", prefix.trim_end_matches('/'))
                }
                _ => return self.refused(handler, "uri", effect),
            },
            (None, Some(prefix)) => {
                let prefix = format!("/{}", prefix.trim_matches('/'));
                let prefix = PathStart::new(prefix, true);
                if !prefix.covers(&start) {
                    // Requests with this beginning are others than those without.
                    let atom = Atom::Path(prefix.clone());
                    if start.covers(&prefix) {
                        let mut part = cell.clone();
                        part.conditions.assume(atom.clone(), true);
                        let mut again = next.clone();
                        again.at -= 1;
                        self.step(part, again);
                        cell.conditions.assume(atom, false);
                    }
                    return Some(next);
                }
                let rest = path.get(prefix.text.len()..).unwrap_or_default();
                if rest.is_empty() { "/".into() } else { rest.to_owned() }
            }
            _ => return self.refused(handler, "rewrite", effect),
        };
        if cell.path.is_some() || (new.ends_with('/') != path.ends_with('/') && new != "/") {
            return self.refused(handler, "rewrite", "a path is changed once");
        }
        cell.path = Some((start.text.clone(), new));
        Some(next)
    }

    /// `static_response` and `error`.
    fn respond(&mut self, cell: &mut Cell, handler: &At<'v>, name: &str) {
        self.import.report_keys(handler.clone(), name);
        let usual = if name == "error" { 500 } else { 200 };
        let code = handler.get("status_code");
        let status = if code.is_there() { code.number() } else { Some(usual) };
        let abort = handler.get("abort").is_true();
        let Some(status @ 200..=599) = (if abort { Some(403) } else { status }) else {
            self.refused(handler, "status_code", "expected a status from 200 to 599");
            return;
        };
        if abort {
            self.import.note(
                handler,
                "abort",
                Fate::Approximated,
                "the client receives a 403; Caddy closes the connection",
            );
        }
        let (mut location, mut kind, mut own) = (None, None, Changes::default());
        for (field, values) in handler.get("headers").entries() {
            let value = values.texts().join(", ");
            match field.to_ascii_lowercase().as_str() {
                "location" => location = Some(value),
                "content-type" => kind = Some(value),
                "www-authenticate" => {
                    self.refused(&values, field, "write basic-auth of a route by hand");
                    return;
                }
                _ => match template(&value, self.facts.port) {
                    Ok(value) => own.set(field, value),
                    Err(what) => {
                        self.refused(&values, field, format!("Handfast has no {what}"));
                        return;
                    }
                },
            }
        }
        own.then(&cell.response);
        cell.response = own;
        if let Some(location) = location {
            return self.redirect(cell, handler, &location, status);
        }
        let body = handler.get("body").text().unwrap_or_default();
        if body.contains("{http.") || body.contains("{env.") || body.contains("{vars.") {
            self.refused(handler, "body", "the content of a response is a fixed text");
            return;
        }
        let value = if body.is_empty() {
            status.into()
        } else {
            let kind = kind.unwrap_or_else(|| "text/plain; charset=utf-8".into());
            table([("status", status.into()), ("content", body.into()), ("type", kind.into())])
        };
        self.finish(cell.clone(), End::Respond { value, status, is_error: name == "error" });
    }

    /// `file_server`.
    fn files(&mut self, cell: &Cell, handler: &At<'v>) {
        self.import.report_keys(handler.clone(), "file_server");
        let root = handler.get("root").text().map(str::to_owned).or_else(|| cell.root.clone());
        let Some(root) = root.filter(|root| !root.contains('{')) else {
            self.refused(handler, "root", "expected a root without placeholders");
            return;
        };
        let (index, precompressed) = (handler.get("index_names").texts(), handler.get("precompressed"));
        let names = ["br", "zstd", "gzip"];
        let codings: Vec<_> = names.into_iter().filter(|name| precompressed.get(name).is_there()).collect();
        // Those of Caddy where none is written.
        let index =
            if index.is_empty() { vec!["index.html".to_owned(), "index.txt".to_owned()] } else { index };
        let mut keys: Vec<(&str, Value)> =
            vec![("folder", self.import.path(&root).into()), ("index", list(index))];
        if !codings.is_empty() {
            keys.push(("precompressed", list(codings)));
        }
        self.finish(cell.clone(), End::Files(table(keys)));
    }

    fn redirect(&mut self, cell: &Cell, handler: &At<'v>, location: &str, status: i64) {
        let to = match template(location, self.facts.port) {
            Ok(to) => to,
            Err(what) => {
                self.refused(handler, "Location", format!("Handfast has no {what}"));
                return;
            }
        };
        let to = if to == "{target}" { String::new() } else { to };
        let is_target = ["http://", "https://", "{scheme}://"].iter().any(|start| to.starts_with(start))
            || to.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '{']));
        if !is_target || ![301, 302, 303, 307, 308].contains(&status) {
            self.refused(
                handler,
                "Location",
                "expected a URL or a path, and a status of 301, 302, 303, 307 or 308",
            );
            return;
        }
        if cell.path.is_some() && (to.contains("{path}") || to.contains("{target}")) {
            self.refused(handler, "Location", "an earlier handler changes the path");
            return;
        }
        self.finish(cell.clone(), End::Redirect(to, status));
    }

    /// `http_basic`: names and hashes, for a file.
    fn password(&mut self, cell: &mut Cell, handler: &At<'v>) {
        self.import.report_keys(handler.get("providers"), "authentication");
        let basic = handler.get("providers").get("http_basic");
        self.import.report_keys(basic.clone(), "http_basic");
        if cell.password.is_some() || !basic.is_there() {
            self.refused(handler, "authentication", "a route has one list of users, of http_basic");
            return;
        }
        for account in basic.get("accounts").items() {
            let hash = account.get("password").text().unwrap_or_default();
            if !["$2a$", "$2b$", "$2y$", "$argon2"].iter().any(|kind| hash.starts_with(kind)) {
                self.refused(&account, "password", "the hash must be bcrypt or Argon2");
            }
        }
        self.import.lists += 1;
        let file = format!("caddy-users-{}.htpasswd", self.import.lists);
        let effect = format!(
            "users are read from a file: write each as NAME:HASH in {file}, beside the new configuration"
        );
        self.import.note(&basic, "accounts", Fate::Approximated, effect);
        let mut keys: Vec<(&str, Value)> = vec![("file", file.into())];
        keys.extend(basic.get("realm").text().map(|realm| ("realm", realm.into())));
        cell.password = Some(table(keys));
    }
}
