//! Files: `root`, `alias`, `index`, `try_files`, `error_page`.

use super::grammar::Directive;
use super::location::{Routes, written};
use super::scope::{Scope, own};
use super::state::Import;
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::{Value, list, table};

/// Files that are tried for a path, as Handfast has them.
#[derive(Default)]
struct Tried {
    /// A folder has an index.
    has_index: bool,
    extension: Option<String>,
    fallback: Option<String>,
}

impl<'d> Import<'d> {
    /// A location, or a server, whose requests are answered with files.
    pub(super) fn files(
        &mut self,
        at: &'d Directive,
        (path, is_exact): (&str, bool),
        scope: &Scope<'d>,
        route: &mut Draft,
        routes: &Routes<'_>,
    ) {
        let alias = own(at.inner(), "alias");
        let Some(root) = alias.or_else(|| scope.last("root")) else {
            self.note(at, Fate::Refused, "it has neither proxy_pass, return, root nor alias");
            return;
        };
        let text = root.argument(0);
        if text.contains('$') {
            self.note(root, Fate::Refused, "a folder is a path without variables");
            return;
        }
        let mut folder = self.path(text);
        if alias.is_some() {
            let mut new = "/".to_owned();
            if is_exact && let Some((above, name)) = text.rsplit_once('/') {
                // It is the file for this very path.
                (folder, new) = (self.path(if above.is_empty() { "/" } else { above }), format!("/{name}"));
            } else if !path.ends_with('/') {
                self.note(
                    root,
                    Fate::Approximated,
                    format!("paths such as {path}s are not for it: it is for {path} and those below"),
                );
            }
            if path != "/" {
                route.put("", "path", path);
                route.put("", "rewrite-path", new);
            }
        } else if path != "/" {
            route.put("", "path", written(path, is_exact));
        }
        if scope.is_on("autoindex") {
            self.note_of(at, "autoindex on", Fate::Refused, "folders are not listed");
        }
        let Some(tried) = self.tried(scope) else { return };
        let index = self.index(scope, &tried);
        let precompressed = scope.is_on("gzip_static") || scope.text("gzip_static") == Some("always");
        let is_plain =
            index.is_none() && tried.extension.is_none() && tried.fallback.is_none() && !precompressed;
        let value: Value = if is_plain {
            folder.into()
        } else {
            let mut keys: Vec<(&str, Value)> = vec![("folder", folder.into())];
            keys.extend(index.map(|index| ("index", list(index))));
            keys.extend(tried.extension.map(|extension| ("extension", extension.into())));
            keys.extend(tried.fallback.map(|file| ("fallback", file.into())));
            keys.extend(precompressed.then(|| ("precompressed", list(["gzip"]))));
            table(keys)
        };
        if let Some(mirror) = scope.last("mirror").filter(|mirror| mirror.argument(0) != "off") {
            self.note(mirror, Fate::Refused, "requests for files are not copied");
        }
        route.put("", "files", value);
        self.access(scope, route);
        self.response_fields(scope, route, routes.facts);
    }

    /// `index`; `None`: the default of both programs.
    fn index(&mut self, scope: &Scope<'d>, tried: &Tried) -> Option<Vec<String>> {
        if !tried.has_index {
            return Some(Vec::new());
        }
        let written = scope.last("index")?;
        let is_name = |name: &&String| !name.contains(['/', '$']) && !name.starts_with('.');
        if let Some(other) = written.arguments.iter().find(|name| !is_name(name)) {
            self.note_of(
                written,
                &format!("index {other}"),
                Fate::Refused,
                "an index is the name of a file in the folder",
            );
        }
        let names: Vec<String> = written.arguments.iter().filter(is_name).cloned().collect();
        (names != ["index.html"]).then_some(names)
    }

    /// `try_files`; `None`: it cannot be converted.
    fn tried(&mut self, scope: &Scope<'d>) -> Option<Tried> {
        let Some(written) = scope.last("try_files") else {
            return Some(Tried { has_index: true, ..Tried::default() });
        };
        let mut tried = Tried::default();
        let (last, before) = written.arguments.split_last()?;
        let mut is_good = before.first().is_some_and(|first| first == "$uri");
        for file in before.iter().skip(1) {
            match file.strip_prefix("$uri") {
                Some("/") => tried.has_index = true,
                Some(name) if name.starts_with("/index.") => tried.has_index = true,
                Some(end) if end.starts_with('.') && !end.contains(['/', '$']) => {
                    tried.extension = Some(end.to_owned())
                }
                _ => is_good = false,
            }
        }
        match last.split(['?', '$']).next().unwrap_or_default() {
            "=404" => {}
            file if file.starts_with('/') && !file.contains(['@', '{']) && !file.ends_with(".php") => {
                tried.fallback = Some(file.to_owned());
            }
            _ => is_good = false,
        }
        if !is_good {
            let effect = "files are tried in the order `$uri`, `$uri.html`, `$uri/`, then a file or `=404`: no backend and no other location comes after them";
            self.note(written, Fate::Refused, effect);
            return None;
        }
        Some(tried)
    }

    /// `error_page` of a server or location, for its routes that have no others, where the page is a file.
    pub(super) fn error_pages(&mut self, scope: &Scope<'d>, routes: &mut [Draft]) {
        let mut pages: Vec<(String, Value)> = Vec::new();
        for directive in scope.all("error_page") {
            let Some((page, statuses)) = directive.arguments.split_last() else { continue };
            let has_change = statuses.iter().any(|status| status.starts_with('='));
            let file = Some(page).filter(|page| page.starts_with('/') && !page.contains('$') && !has_change);
            let Some(file) = file.and_then(|page| file_of(self, page, scope)) else {
                let effect = "errors have Handfast's own content: a page is a file, and the status stays";
                self.note(directive, Fate::Approximated, effect);
                continue;
            };
            let effect = format!("the page {file} must be there, with at most 64 KiB of text");
            self.note(directive, Fate::Approximated, effect);
            pages.extend(statuses.iter().map(|status| (status.clone(), file.as_str().into())));
        }
        if pages.is_empty() {
            return;
        }
        let pages = table(pages.iter().map(|(status, file)| (status.as_str(), file.clone())));
        for route in routes {
            if route.of("").has("error-pages") {
                continue;
            }
            route.put("", "error-pages", pages.clone());
            if scope.is_on("proxy_intercept_errors") && route.of("").has("backend") {
                route.put("", "error-pages-for-backends", true);
            }
        }
    }
}

/// Returns the file for a path of a server.
fn file_of<'d>(import: &Import<'d>, path: &str, scope: &Scope<'d>) -> Option<String> {
    let mut locations = scope.server().iter().filter(|inner| inner.name == "location");
    let is_it = |location: &&Directive| location.arguments == ["=".to_owned(), path.to_owned()];
    let own_scope = locations.rfind(is_it).map(|location| scope.of_location(location));
    let scope = own_scope.as_ref().unwrap_or(scope);
    let root = scope.text("root").filter(|root| !root.contains('$') && scope.last("alias").is_none())?;
    Some(format!("{}{path}", import.path(root).trim_end_matches('/')))
}
