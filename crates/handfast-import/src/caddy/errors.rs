//! `errors` (`handle_errors`): pages for errors that Caddy makes itself.
//!
//! Its routes are run once for each kind of requests, for statuses in the place of requests: the first response for a status is its page.

use std::path::Path;

use super::matchers::ServiceFacts;
use super::walk::Cell;
use super::{At, Import};
use crate::cells::Formula;
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::table;

/// All statuses of errors, as `error-pages` writes them.
const ALL: [&str; 2] = ["4xx", "5xx"];
const STATUS: &str = "{http.error.status_code}";
/// The text that most sites write; Handfast's own has it, too.
const STATUS_AND_TEXT: &str = "{http.error.status_code} {http.error.status_text}";
/// Routes within routes.
const MAX_DEPTH: usize = 16;

/// Reason why handlers of errors are no pages.
#[derive(Debug, thiserror::Error)]
enum ErrorsError {
    #[error("pages are for hosts, paths, methods and fields that choose a route, and for statuses")]
    Condition,
    #[error("a handler before the page is for some statuses alone")]
    Partial,
    #[error("{0}: a page is a file or a fixed text")]
    Handler(String),
    #[error("the status of an error stays")]
    Status,
    #[error("more than {MAX_DEPTH} subroutes within each other")]
    Depth,
}

/// State of the run.
#[derive(Clone, Debug, Default)]
struct State {
    root: Option<String>,
    uri: Option<String>,
    /// Pages by status; `None`: Handfast's own content.
    pages: Vec<(String, Option<String>)>,
}

impl State {
    /// Adds a page for statuses without one.
    fn put(&mut self, status: &str, page: Option<String>) {
        let class = format!("{}xx", &status[..1]);
        if !self.pages.iter().any(|(known, _)| known == status || *known == class) {
            self.pages.push((status.to_owned(), page));
        }
    }
}

/// Requests for which the handlers are run.
#[derive(Clone, Copy)]
struct Requests<'c> {
    cell: &'c Cell,
    facts: ServiceFacts,
    depth: usize,
}

impl<'v> Import<'v> {
    /// Writes the pages of a route.
    pub(super) fn error_pages(
        &mut self,
        server: &At<'v>,
        cell: &Cell,
        facts: ServiceFacts,
        route: &mut Draft,
    ) {
        let errors = server.get("errors");
        let mut state = State { root: cell.root.clone(), ..State::default() };
        let requests = Requests { cell, facts, depth: 0 };
        let statuses = ALL.map(str::to_owned);
        if let Err(error) = self.error_routes(&errors.get("routes"), requests, &statuses, &mut state) {
            let effect = format!("errors have Handfast's own content here: {error}");
            self.note(&errors, "errors", Fate::Approximated, effect);
        }
        let pages = state.pages.into_iter().filter_map(|(status, page)| Some((status, page?)));
        let mut pages: Vec<_> = pages.collect();
        pages.sort();
        if !pages.is_empty() {
            let pages = pages.iter().map(|(status, page)| (status.as_str(), page.as_str().into()));
            route.put("", "error-pages", table(pages));
        }
    }

    /// Runs routes. Returns true if one has answered for all of the statuses.
    fn error_routes(
        &mut self,
        routes: &At<'v>,
        requests: Requests<'_>,
        statuses: &[String],
        state: &mut State,
    ) -> Result<bool, ErrorsError> {
        if requests.depth > MAX_DEPTH {
            return Err(ErrorsError::Depth);
        }
        for route in routes.items() {
            let Some(own) = self.statuses(&route.get("match"), requests)? else { continue };
            let is_whole = own == ALL;
            let own = if is_whole { statuses.to_vec() } else { own };
            let (root, uri) = (state.root.clone(), state.uri.clone());
            let is_answered = self.error_handlers(&route.get("handle"), requests, &own, state)?;
            if is_answered && is_whole {
                return Ok(true);
            }
            if !is_whole && !is_answered && (state.root != root || state.uri != uri) {
                return Err(ErrorsError::Partial);
            }
            (state.root, state.uri) =
                if is_whole { (state.root.clone(), state.uri.clone()) } else { (root, uri) };
        }
        Ok(false)
    }

    /// Runs the handlers of a route.
    fn error_handlers(
        &mut self,
        handlers: &At<'v>,
        requests: Requests<'_>,
        statuses: &[String],
        state: &mut State,
    ) -> Result<bool, ErrorsError> {
        for handler in handlers.items() {
            let name = handler.get("handler").text().unwrap_or_default();
            let is_plain = |keys: &[&str]| handler.entries().iter().all(|(key, _)| keys.contains(key));
            match name {
                "subroute" if is_plain(&["handler", "routes"]) => {
                    let requests = Requests { depth: requests.depth + 1, ..requests };
                    if self.error_routes(&handler.get("routes"), requests, statuses, state)? {
                        return Ok(true);
                    }
                }
                "vars" if is_plain(&["handler", "root"]) => {
                    state.root = handler.get("root").text().map(str::to_owned)
                }
                "rewrite" if is_plain(&["handler", "uri"]) => {
                    state.uri = handler.get("uri").text().map(str::to_owned)
                }
                "headers" | "encode" => {
                    self.note_once(&handler, name, "a page has no fields, and is not compressed");
                }
                "file_server" if is_plain(&["handler", "root", "hide", "index_names"]) => {
                    self.error_files(&handler, statuses, state)?;
                    return Ok(true);
                }
                "static_response" if is_plain(&["handler", "body", "headers", "status_code", "close"]) => {
                    self.error_text(&handler, statuses, state)?;
                    return Ok(true);
                }
                _ => return Err(ErrorsError::Handler(name.to_owned())),
            }
        }
        Ok(false)
    }

    /// A file for each status.
    fn error_files(
        &mut self,
        handler: &At<'v>,
        statuses: &[String],
        state: &mut State,
    ) -> Result<(), ErrorsError> {
        let wrong = || ErrorsError::Handler("file_server".into());
        let root = handler.get("root").text().map(str::to_owned).or_else(|| state.root.clone());
        let root = root.filter(|root| !root.contains('{')).ok_or_else(wrong)?;
        let uri = state.uri.clone().filter(|uri| uri.starts_with('/')).ok_or_else(wrong)?;
        let is_fixed = |text: &str| {
            !text.contains(['{', '?', '#', '%']) && !text.ends_with('/') && !text.contains("/..")
        };
        if !is_fixed(&uri.replace(STATUS, "")) {
            return Err(wrong());
        }
        let root = self.path(root.trim_end_matches('/'));
        let file = |status: &str| format!("{root}{}", uri.replace(STATUS, status));
        let mut found = Vec::new();
        for status in statuses {
            if uri.contains(STATUS) && ALL.contains(&status.as_str()) {
                // A page that is missing is an error of a configuration.
                let class = (0..100).map(|number| format!("{}{number:02}", &status[..1]));
                found.extend(class.filter(|one| Path::new(&file(one)).is_file()));
            } else {
                found.push(status.clone());
            }
        }
        for status in &found {
            state.put(status, Some(file(status)));
        }
        statuses.iter().for_each(|status| state.put(status, None));
        let effect = if found.is_empty() {
            format!("{} is not there for any status: name the pages in error-pages", file("404"))
        } else {
            "a page must be there, with at most 64 KiB of text: pages that come later are added to error-pages".into()
        };
        self.note(handler, "file_server", Fate::Approximated, effect);
        Ok(())
    }

    /// A text for all of the statuses.
    fn error_text(
        &mut self,
        handler: &At<'v>,
        statuses: &[String],
        state: &mut State,
    ) -> Result<(), ErrorsError> {
        let code = handler.get("status_code");
        let stays = !code.is_there()
            || code.text() == Some(STATUS)
            || statuses.iter().all(|status| code.number().is_some_and(|code| *status == code.to_string()));
        if !stays {
            return Err(ErrorsError::Status);
        }
        let body = handler.get("body").text().unwrap_or_default();
        if body.is_empty() || body.trim() == STATUS_AND_TEXT {
            let effect = "errors have Handfast's own text, with the status and the identifier of the request";
            self.note(handler, "static_response", Fate::Approximated, effect);
            statuses.iter().for_each(|status| state.put(status, None));
            return Ok(());
        }
        if body.contains(['{', '}']) {
            return Err(ErrorsError::Handler("static_response".into()));
        }
        let fields = handler.get("headers").entries();
        let kind = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let kind = kind.map(|(_, values)| values.texts().concat().to_ascii_lowercase()).unwrap_or_default();
        let end = match kind.split(';').next().unwrap_or_default() {
            "text/html" => "html",
            "application/json" => "json",
            _ => "txt",
        };
        if fields.iter().any(|(name, _)| !name.eq_ignore_ascii_case("content-type")) {
            self.note_once(handler, "headers", "a page has no fields, and is not compressed");
        }
        let page = self.files.add("caddy-error", end, body);
        let effect = format!(
            "the text is the page {page}, which `handfast import -o` writes beside the new configuration"
        );
        self.note(handler, "body", Fate::Approximated, effect);
        statuses.iter().for_each(|status| state.put(status, Some(page.clone())));
        Ok(())
    }

    /// Returns the statuses that a route of errors is for; `None`: none for these requests.
    fn statuses(
        &mut self,
        sets: &At<'v>,
        requests: Requests<'_>,
    ) -> Result<Option<Vec<String>>, ErrorsError> {
        let sets = sets.items();
        if sets.is_empty() {
            return Ok(Some(ALL.map(str::to_owned).into()));
        }
        let (mut found, mut is_any): (Vec<String>, bool) = (Vec::new(), false);
        for set in sets {
            let (mut own, mut holds) = (None, true);
            for (name, at) in set.entries() {
                if name == "expression" {
                    let text = at.text().or(at.get("expr").text()).unwrap_or_default();
                    own = Some(expression(text).ok_or(ErrorsError::Condition)?);
                    continue;
                }
                let formula = self.matcher(name, &at, requests.facts).map_err(|_| ErrorsError::Condition)?;
                match formula.within(&requests.cell.conditions) {
                    Formula::Always(value) => holds &= value,
                    _ => return Err(ErrorsError::Condition),
                }
            }
            match own {
                _ if !holds => {}
                Some(own) => found.extend(own),
                None => is_any = true,
            }
        }
        Ok(match (is_any, found.is_empty()) {
            (true, _) => Some(ALL.map(str::to_owned).into()),
            (false, true) => None,
            (false, false) => Some(found),
        })
    }
}

/// Returns the statuses of an expression, as `handle_errors 404 5xx` writes it.
fn expression(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in text.split("||") {
        let part: String = part.chars().filter(|sign| !sign.is_whitespace()).collect();
        let part = part.strip_prefix('(').and_then(|part| part.strip_suffix(')')).unwrap_or(&part);
        let rest = part.strip_prefix(STATUS)?;
        if let Some(status) = rest.strip_prefix("==") {
            all.push(status.to_owned());
        } else if let Some(list) = rest.strip_prefix("in[").and_then(|list| list.strip_suffix(']')) {
            all.extend(list.split(',').map(str::to_owned));
        } else {
            let class = rest.strip_prefix(">=")?.get(..1)?;
            (rest == format!(">={class}00&&{STATUS}<={class}99")).then_some(())?;
            all.push(format!("{class}xx"));
        }
    }
    let is_error = |status: &String| {
        ALL.contains(&status.as_str())
            || status.len() == 3 && status.parse().is_ok_and(|status: u16| (400..=599).contains(&status))
    };
    all.iter().all(is_error).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_about_statuses_are_read() {
        let s = STATUS;
        for (text, expected) in [
            (format!("{s} == 404"), Some(vec!["404"])),
            (format!("{s} in [404, 410]"), Some(vec!["404", "410"])),
            (format!("{s} >= 500 && {s} <= 599"), Some(vec!["5xx"])),
            (format!("{s} >= 400 && {s} <= 499 || {s} in [500]"), Some(vec!["4xx", "500"])),
            (format!("({s} == 502) || ({s} == 503)"), Some(vec!["502", "503"])),
            (format!("{s} >= 500 && {s} <= 504"), None),
            (format!("{s} == 200"), None),
            (format!("{s} != 404"), None),
            ("true".to_owned(), None),
            (String::new(), None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(expression(&text), expected, "{text}");
        }
    }
}
