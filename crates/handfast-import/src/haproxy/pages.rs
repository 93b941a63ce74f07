//! `errorfile`, `errorfiles`, `http-error` and `http-response return`: pages for errors.
//!
//! A file of HAProxy is a whole response. Handfast has the content of a page in a file, and the status and fields of every error itself.

use std::path::Path;

use super::grammar::Line;
use super::proxy::Proxy;
use super::rules::without_condition;
use super::state::Import;
use crate::draft::Draft;
use crate::imported::{ImportError, read_bytes};
use crate::note::Fate;
use crate::toml::table;

/// Bytes of a page that Handfast takes.
pub(super) const MAX_PAGE_BYTES: usize = 64 << 10;
/// HAProxy's status where no server can be reached.
const UNAVAILABLE: u16 = 503;
/// Handfast's status there.
const BAD_GATEWAY: u16 = 502;
/// Fields of a response that Handfast writes itself, or that are about the connection.
const OWN_FIELDS: [&str; 6] =
    ["cache-control", "connection", "content-length", "content-type", "date", "keep-alive"];

/// A page: a status, and the path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) path: String,
}

/// The pages of a frontend.
pub(super) type Pages = Vec<Page>;

/// A whole response, as a file of HAProxy has it.
#[derive(Debug)]
pub(super) struct WholeResponse {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) content: String,
}

/// Reason why a file is no response or no text.
#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    #[error(transparent)]
    Read(#[from] ImportError),
    #[error("{0} is not a text of at most 64 KiB")]
    NoText(String),
    #[error("{0} does not begin as a response of HTTP")]
    NoResponse(String),
}

impl WholeResponse {
    fn parse(text: &str) -> Option<Self> {
        let (head, content) =
            text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n")).unwrap_or((text, ""));
        let mut lines = head.lines();
        let mut words = lines.next()?.strip_prefix("HTTP/")?.split_whitespace();
        let status = words.nth(1)?.parse().ok().filter(|status| (200..=599).contains(status))?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        Some(Self { status, fields: fields.collect(), content: content.to_owned() })
    }

    pub(super) fn kind(&self) -> &str {
        let kind = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        kind.map_or("", |(_, value)| value)
    }

    /// The fields besides those that Handfast writes.
    pub(super) fn other_fields(&self) -> impl Iterator<Item = &(String, String)> {
        self.fields.iter().filter(|(name, _)| !OWN_FIELDS.contains(&name.to_ascii_lowercase().as_str()))
    }
}

impl<'d> Import<'d> {
    /// Reads a text that a line names.
    ///
    /// **Errors**: it cannot be read, or is no text of a page.
    pub(super) fn text_file(&self, name: &str) -> Result<String, PageError> {
        let bytes = read_bytes(Path::new(&self.path(name)))?;
        let text = String::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_PAGE_BYTES);
        text.ok_or_else(|| PageError::NoText(name.to_owned()))
    }

    /// Reads a whole response.
    ///
    /// **Errors**: it cannot be read, or is none.
    pub(super) fn response_file(&self, name: &str) -> Result<WholeResponse, PageError> {
        let text = self.text_file(name)?;
        WholeResponse::parse(&text).ok_or_else(|| PageError::NoResponse(name.to_owned()))
    }

    /// Finds the file for a status in a section `http-errors`.
    pub(super) fn file_of_section(&self, section: &str, status: u16) -> Option<&'d str> {
        let sections = self.errors.iter().filter(|known| known.name() == section);
        let lines = sections.flat_map(|section| &section.lines);
        let mut files =
            lines.filter(|line| line.word(0) == "errorfile" && line.word(1).parse() == Ok(status));
        files.next_back().map(|line| line.word(2))
    }

    /// Returns the pages of a proxy; its own come after those of its defaults, and replace them.
    pub(super) fn pages(&mut self, proxy: &Proxy<'d>) -> Pages {
        let mut pages: Pages = Vec::new();
        let mut put = |page: Page| {
            pages.retain(|known| known.status != page.status);
            pages.push(page);
        };
        for line in proxy.all(&[]) {
            match line.word(0) {
                "errorfile" => {
                    let page = line.word(1).parse().ok();
                    page.and_then(|status| self.page_of_file(line, status, line.word(2))).map(&mut put);
                }
                "errorfiles" => {
                    let lines = self.errors.iter().filter(|section| section.name() == line.word(1));
                    let lines: Vec<&'d Line> = lines.flat_map(|section| &section.lines).collect();
                    let only: Vec<u16> = line.from(2).iter().filter_map(|word| word.parse().ok()).collect();
                    for file in lines.into_iter().filter(|file| file.word(0) == "errorfile") {
                        let status = file.word(1).parse().ok();
                        let status = status.filter(|status| only.is_empty() || only.contains(status));
                        status.and_then(|status| self.page_of_file(file, status, file.word(2))).map(&mut put);
                    }
                }
                "http-error" => {
                    self.page_of_words(line, line.from(1)).map(&mut put);
                }
                _ => {}
            }
        }
        pages.sort_by_key(|page| page.status);
        pages
    }

    /// The content of a whole response as a page.
    fn page_of_file(&mut self, line: &'d Line, status: u16, name: &str) -> Option<Page> {
        let response = match self.response_file(name) {
            Ok(response) => response,
            Err(error) => {
                let effect = format!(
                    "{error}: write what follows its first empty line as a page, and name that in error-pages"
                );
                self.note(line, Fate::Approximated, effect);
                return None;
            }
        };
        if response.status != status {
            self.note(line, Fate::Approximated, format!("the status stays {status}"));
        }
        let others: Vec<_> = response.other_fields().map(|(name, _)| name.as_str()).collect();
        if !others.is_empty() {
            let effect = format!("a page has no fields: {} are not sent", others.join(", "));
            self.note(line, Fate::Approximated, effect);
        }
        self.new_page(line, status, response.kind(), &response.content)
    }

    /// Writes a page with this content.
    fn new_page(&mut self, line: &'d Line, status: u16, kind: &str, content: &str) -> Option<Page> {
        if !(400..=599).contains(&status) || content.trim().is_empty() {
            let effect =
                "errors have Handfast's own content here: a page has some, and a status from 400 to 599";
            self.note(line, Fate::Approximated, effect);
            return None;
        }
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let end = match kind.as_str() {
            "text/plain" => "txt",
            "application/json" => "json",
            _ => "html",
        };
        if !["text/html", "text/plain", "application/json"].contains(&kind.as_str()) {
            self.note(line, Fate::Approximated, "the end of a page's name gives its type, here text/html");
        }
        let path = self.files.add(&format!("haproxy-{status}"), end, content);
        let effect = format!(
            "the content is the page {path}, which `handfast import -o` writes beside the new configuration"
        );
        self.note(line, Fate::Approximated, effect);
        if status == UNAVAILABLE {
            let effect = "where no server can be reached, the status is 502: without a page for it, this one is for both";
            self.note(line, Fate::Approximated, effect);
        }
        Some(Page { status, path })
    }

    /// `status N`, and a text or file: a page.
    fn page_of_words(&mut self, line: &'d Line, words: &[String]) -> Option<Page> {
        let of = |option: &str| {
            let at = words.iter().position(|word| word == option)?;
            words.get(at + 1).map(String::as_str)
        };
        let status = of("status").and_then(|status| status.parse().ok())?;
        let kind = of("content-type").unwrap_or("text/plain");
        if words.iter().any(|word| word == "hdr") {
            self.note(line, Fate::Approximated, "a page has no fields: those of `hdr` are not sent");
        }
        if let Some(name) = of("file").or(of("lf-file")) {
            let is_format = of("lf-file").is_some();
            return match self.text_file(name) {
                Ok(text) if is_format && text.contains('%') => self.no_page(line),
                Ok(text) => self.new_page(line, status, kind, &text),
                Err(error) => {
                    self.note(line, Fate::Approximated, format!("{error}: name it in error-pages"));
                    None
                }
            };
        }
        match (of("string"), of("lf-string").map(plain), of("errorfile"), of("errorfiles")) {
            (Some(text), ..) => self.new_page(line, status, kind, text),
            (_, Some(Some(text)), ..) => self.new_page(line, status, kind, &text),
            (.., Some(name), _) => self.page_of_file(line, status, name),
            (.., Some(section)) => {
                let name = self.file_of_section(section, status)?;
                self.page_of_file(line, status, name)
            }
            _ => self.no_page(line),
        }
    }

    fn no_page(&mut self, line: &'d Line) -> Option<Page> {
        let effect = "errors have Handfast's own content here: a page is a fixed text";
        self.note(line, Fate::Approximated, effect);
        None
    }

    /// `http-response return` for one status of a backend, which stays: a page in the place of its content.
    pub(super) fn page_of_response(&mut self, line: &'d Line, proxy: &Proxy<'d>) -> Option<Page> {
        let words = without_condition(line.from(2));
        let condition = &line.words[line.words.len() - line.from(2).len() + words.len()..];
        let before = self.notes.refusals();
        let page = self.page_of_words(line, words);
        match (status_of(condition, proxy), page) {
            (Some(status), Some(page)) if status == page.status => {
                let effect = "errors that Handfast makes in these routes have the page, too; the other fields of the backend are not sent";
                self.note(line, Fate::Approximated, effect);
                Some(page)
            }
            _ if self.notes.refused_since(before) => None,
            _ => {
                let effect = "a response is replaced by a page for its status, which stays: http-response return status 404 content-type text/html file PAGE if { status 404 }";
                self.note(line, Fate::Refused, effect);
                None
            }
        }
    }

    /// Writes the pages of a route. `frontend`: those of the frontend; `replaced`: those for errors of backends.
    pub(super) fn error_pages(
        &mut self,
        frontend: &Pages,
        backend: Option<&str>,
        replaced: &[(&'d Line, Page)],
        route: &mut Draft,
    ) {
        let mut pages = frontend.clone();
        let backend =
            self.proxies.iter().find(|proxy| Some(proxy.name()) == backend && proxy.kind() != "frontend");
        let of_backend = backend.cloned().map(|backend| self.pages(&backend)).unwrap_or_default();
        pages.retain(|page| of_backend.iter().all(|other| other.status != page.status));
        pages.extend(of_backend);
        let of = |status: u16| pages.iter().find(|page| page.status == status);
        if let (Some(unreachable), None) = (of(UNAVAILABLE), of(BAD_GATEWAY)) {
            let page = Page { status: BAD_GATEWAY, path: unreachable.path.clone() };
            pages.push(page);
        }
        for (line, page) in replaced {
            if pages.iter().any(|own| replaced.iter().all(|(_, page)| page != own)) {
                let effect = "pages of errorfile and http-error would replace errors of backends, too: write them for other backends, or leave them out";
                self.note(line, Fate::Refused, effect);
            }
            if !pages.contains(page) {
                pages.push(page.clone());
            }
        }
        pages.sort_by_key(|page| page.status);
        if pages.is_empty() {
            return;
        }
        let names: Vec<_> = pages.iter().map(|page| page.status.to_string()).collect();
        let entries = names.iter().zip(&pages).map(|(name, page)| (name.as_str(), page.path.as_str().into()));
        route.put("", "error-pages", table(entries));
        if !replaced.is_empty() {
            route.put("", "error-pages-for-backends", true);
        }
    }
}

/// Returns a text of the log format without samples.
pub(super) fn plain(text: &str) -> Option<String> {
    let text = text.replace("%%", "\0");
    (!text.contains('%')).then(|| text.replace('\0', "%"))
}

/// Returns the one status that a condition is about: `if { status 404 }`, or with a name.
fn status_of(condition: &[String], proxy: &Proxy<'_>) -> Option<u16> {
    let words: Vec<&str> = condition.iter().map(String::as_str).collect();
    match words[..] {
        ["if", "{", "status" | "res.status", status, "}"] => status.parse().ok(),
        ["if", name] => match proxy.acls(name)[..] {
            [line] if ["status", "res.status"].contains(&line.word(2)) && line.from(3).len() == 1 => {
                line.word(3).parse().ok()
            }
            _ => None,
        },
        _ => None,
    }
}

/// Moves the pages of routes to their service, if all routes that can have some have the same, and none for backends.
pub(super) fn move_to_service(service: &mut Draft) {
    let mut common: Option<crate::toml::Value> = None;
    for route in &mut service.routes {
        let route = route.of("");
        if route.has("error-pages-for-backends") {
            return;
        }
        let is_fixed = route.has("redirect")
            || route.text("respond").is_some_and(|text| text.contains("content") || text.as_str() < "400");
        match (route.value("error-pages"), &common) {
            (Some(pages), None) => common = Some(pages),
            (Some(pages), Some(known)) if pages.to_string() == known.to_string() => {}
            (None, _) if is_fixed => {}
            _ => return,
        }
    }
    let Some(pages) = common else { return };
    for route in &mut service.routes {
        route.of("").remove("error-pages");
    }
    service.put("http", "error-pages", pages);
}
