//! Files that the routes for requests need: users, secrets of cookies, folders, pages for errors.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handfast_cache::Folder;
use handfast_config::model::{self, RouteAccess, RouteAction, Sticky};
use handfast_config::{ResolvedRoute, ResolvedRoutes};
use handfast_pki::finding::Reason;
use handfast_pki::load::FileStamp;
use handfast_pki::{Finding, Severity};
use handfast_process::trusted_path::folder_of;
use handfast_tls::keyed_hash::HashKey;

use super::ServiceBuilder;
use crate::admission::gate::{Gate, Gates};
use crate::admission::sticky::{self, CookieKeyError};
use crate::admission::users::{self, Users};
use crate::files::{self, ErrorPage, ErrorPages, RouteFiles, ServiceFiles};

/// Makes the conditions of requests, with the users of files.
impl ServiceBuilder<'_, '_, '_> {
    /// `None` where a file of users cannot be used.
    pub(super) fn gates(&mut self) -> Option<Gates> {
        let Some(http) = &self.model.http else { return Some(Gates::default()) };
        let before = self.before.map(|before| &before.gates);
        let mut gates = Gates::default();
        let mut is_whole = true;
        let mut gate = |name: &str, access: &RouteAccess, gates: &Gates| {
            let users = access.basic.as_ref().map(|basic| self.users(&basic.file, gates));
            is_whole &= !matches!(users, Some(None));
            Gate::new(name, access, before, users.flatten(), &self.context.carried.verifier)
        };
        gates.service = gate("", &http.access, &gates);
        for route in &http.routes {
            let of_route = gate(&route.name, &route.access, &gates);
            gates.routes.push(of_route);
        }
        is_whole.then_some(gates)
    }

    /// The secrets that cookies are made from; `None` where a file cannot be used.
    pub(super) fn sticky_keys(&mut self) -> Option<Vec<Option<HashKey>>> {
        let routes = self.model.http.as_ref().map_or(&[][..], |http| &http.routes);
        let keys: Vec<Option<Option<HashKey>>> = routes
            .iter()
            .map(|route| match &route.sticky {
                Some(Sticky::Cookie { key, .. }) => self.sticky_key(key.as_deref()).map(Some),
                Some(Sticky::Header(_)) | None => Some(None),
            })
            .collect();
        keys.into_iter().collect()
    }

    fn sticky_key(&mut self, file: Option<&Path>) -> Option<HashKey> {
        let made = match (file, &self.context.carried.sticky_key) {
            (None, Some(known)) => return Some(known.clone()),
            (None, None) => HashKey::random().map_err(CookieKeyError::Random),
            (Some(file), _) => {
                self.context.took(Vec::new(), vec![(file.to_path_buf(), FileStamp::of(file))], Vec::new());
                let read = self.context.user.act_on(file, || sticky::key(file));
                let place = self.context.places.suffix(file);
                let read = read.unwrap_or_else(|error| Err(error.into()));
                read.map_err(|source| CookieKeyError::File { file: file.to_owned(), place, source })
            }
        };
        match made {
            Ok(key) => {
                if file.is_none() {
                    self.context.carried.sticky_key = Some(key.clone());
                }
                Some(key)
            }
            Err(what) => {
                self.context.report.error(format!("service {}: {what}", self.model.name));
                None
            }
        }
    }

    /// Reads a file of users, once for all routes. Where it cannot be used, those that it had are let in.
    fn users(&mut self, file: &Path, made: &Gates) -> Option<Arc<Users>> {
        if let Some(users) = Gate::known_users(made, file) {
            return Some(Arc::clone(users));
        }
        let known = self.before.and_then(|before| Gate::known_users(&before.gates, file));
        self.context.took(
            Vec::new(),
            vec![(file.to_path_buf(), FileStamp::of(file))],
            [folder_of(file).to_path_buf()].into(),
        );
        let read = self.context.user.act_on(file, || users::read(file));
        match (read.unwrap_or_else(|error| Err(error.into())), known) {
            (Ok(users), Some(known)) if known.is_same(&users) => Some(Arc::clone(known)),
            (Ok(users), _) => Some(Arc::new(users)),
            (Err(error), None) => {
                let place = self.context.places.suffix(file);
                let name = &self.model.name;
                let hint = error.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
                self.context
                    .report
                    .error(format!("service {name}: users of {}{place}: {error}{hint}", file.display()));
                None
            }
            (Err(error), Some(known)) => {
                let (message, hint) = (error.to_string(), error.hint().map(str::to_owned));
                let (severity, reason) = (Severity::Error, Reason::Unreadable);
                let finding = Finding { severity, reason, file: file.to_path_buf(), message, hint };
                self.leave_out(vec![finding], "the users of its old version are let in");
                Some(Arc::clone(known))
            }
        }
    }
}

/// Opens folders, and reads pages for errors.
impl ServiceBuilder<'_, '_, '_> {
    /// `None` where one cannot be used.
    pub(super) fn files(&mut self) -> Option<ServiceFiles> {
        let Some(resolved) = ResolvedRoutes::new(self.model) else { return Some(ServiceFiles::default()) };
        let mut pages = HashMap::new();
        let routes: Vec<_> =
            resolved.routes.iter().map(|route| self.route_files(route, &mut pages)).collect();
        let fallback = self.route_files(&resolved.fallback, &mut pages);
        Some(ServiceFiles { routes: routes.into_iter().collect::<Option<_>>()?, fallback: fallback? })
    }

    fn route_files(&mut self, route: &ResolvedRoute<'_>, known: &mut KnownPages) -> Option<RouteFiles> {
        let folder = match route.action {
            RouteAction::Files(model) => Some(self.folder(model)),
            _ => None,
        };
        let pages = &route.error_pages.pages;
        let pages: Vec<_> =
            pages.iter().map(|(status, path)| (*status, self.error_page(path, known))).collect();
        let pages = pages.into_iter().map(|(status, page)| Some((status, page?)));
        let pages = pages.collect::<Option<_>>();
        let folder = match folder {
            Some(opened) => Some(opened?),
            None => None,
        };
        let error_pages = ErrorPages { pages: pages?, replace_backends: route.error_pages.replace_backends };
        Some(RouteFiles { folder, error_pages })
    }

    fn folder(&mut self, model: &model::Files) -> Option<Arc<Folder>> {
        let path = &model.folder;
        // A changed link is followed again: a new version of a site is often switched to by one.
        if path.is_symlink() {
            let stamp = FileStamp::of(path);
            self.context.took(Vec::new(), vec![(path.clone(), stamp)], vec![folder_of(path).to_path_buf()]);
        }
        let threads = &mut self.context.carried.file_threads;
        let opened = self.context.user.act(|| files::open(model, threads));
        let error = match opened {
            Ok(Ok(folder)) => return Some(Arc::new(folder)),
            Ok(Err(error)) => format!("{error}\n  hint: {}", files::hint(&error)),
            Err(error) => error.to_string(),
        };
        let (name, place) = (&self.model.name, self.context.places.suffix(path));
        self.context.report.error(format!("service {name}: files of {}{place}: {error}", path.display()));
        None
    }

    /// Reads a page, once for all routes.
    fn error_page(&mut self, path: &Path, known: &mut KnownPages) -> Option<Arc<ErrorPage>> {
        if let Some(page) = known.get(path) {
            return page.clone();
        }
        let stamp = FileStamp::of(path);
        self.context.took(Vec::new(), vec![(path.to_path_buf(), stamp)], vec![folder_of(path).to_path_buf()]);
        let read = self.context.user.act(|| ErrorPage::read(path));
        let read = read.map_err(|error| error.to_string());
        let page = read.and_then(|read| read.map_err(|error| error.to_string())).map(Arc::new);
        if let Err(error) = &page {
            let (name, place) = (&self.model.name, self.context.places.suffix(path));
            self.context.report.error(format!(
                "service {name}: error page {}{place}: {error}\n  hint: it must be a text of at most 64 KiB that the user that serves can \
                 read",
                path.display()
            ));
        }
        known.insert(path.to_path_buf(), page.as_ref().ok().cloned());
        page.ok()
    }
}

/// Pages that were read, by their paths; `None`: one that cannot be used.
type KnownPages = HashMap<PathBuf, Option<Arc<ErrorPage>>>;
