//! Files that are sent to clients: folders of routes, and pages for errors.
//!
//! In: their settings. Out: open folders, whose files are opened as requests come, and pages in memory. Both are opened as the user that serves, at
//! the start as at a reload.

use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use handfast_cache::{DiskThreads, FileRules, Folder, media_type};
use handfast_config::model::{self, ErrorStatus};
use handfast_pki::files::read_text;

/// Most bytes of a page for errors.
pub(crate) const MAX_PAGE_BYTES: u64 = 64 << 10;

/// Threads that read files, by the device of their file system: one that hangs delays no other.
#[derive(Debug, Default)]
pub(crate) struct FileThreads(Vec<(u64, Weak<DiskThreads>)>);

impl FileThreads {
    /// Returns those of a device.
    pub(crate) fn of(&mut self, device: u64) -> Arc<DiskThreads> {
        self.0.retain(|(_, threads)| threads.strong_count() > 0);
        let known = self.0.iter().find(|(known, _)| *known == device);
        known.and_then(|(_, threads)| threads.upgrade()).unwrap_or_else(|| {
            let threads = Arc::default();
            self.0.push((device, Arc::downgrade(&threads)));
            threads
        })
    }
}

/// Opens the folder of a route.
///
/// **Errors**: it is missing, or no folder, or its files cannot be opened.
pub(crate) fn open(model: &model::Files, threads: &mut FileThreads) -> io::Result<Folder> {
    let rules = FileRules {
        index: model.index.clone(),
        extension: model.extension.clone(),
        fallback: model.fallback.clone(),
        precompressed: model.precompressed.clone(),
    };
    let descriptors_below = handfast_net::limits::file_numbers();
    Folder::open(&model.folder, rules, |device| threads.of(device), descriptors_below)
}

/// Returns advice for the error of [`open`].
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make the folder, or correct its path",
        io::ErrorKind::NotADirectory => "name the folder that the file is in",
        io::ErrorKind::PermissionDenied => {
            "let the user that serves (process.user) search the folder and those above it: chmod o+x, or its group"
        }
        io::ErrorKind::Unsupported => "files are served by Linux 5.6 and later, which has openat2(2)",
        _ => "the folder must be there, and searchable for the user that serves",
    }
}

/// A page for errors.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ErrorPage {
    pub(crate) content: Box<str>,
    pub(crate) content_type: Box<str>,
}

impl ErrorPage {
    /// Reads a page.
    ///
    /// **Errors**: it cannot be read, is no regular file, is too large, or no text.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let content = read_text(path, MAX_PAGE_BYTES)?.as_str().into();
        let content_type = media_type(path.as_os_str().as_encoded_bytes()).into();
        Ok(Self { content, content_type })
    }
}

/// The pages for errors of a route.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorPages {
    /// By status; single statuses first.
    pub(crate) pages: Arc<[(ErrorStatus, Arc<ErrorPage>)]>,
    /// True if they also replace the content of errors that backends send.
    pub(crate) replace_backends: bool,
}

impl ErrorPages {
    /// Returns the page for a status.
    pub(crate) fn find(&self, status: u16) -> Option<&Arc<ErrorPage>> {
        self.pages.iter().find(|(of, _)| of.has(status)).map(|(_, page)| page)
    }
}

/// Folder and pages of a route.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteFiles {
    /// The folder of `files`.
    pub(crate) folder: Option<Arc<Folder>>,
    pub(crate) error_pages: ErrorPages,
}

/// The files of all routes of a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceFiles {
    /// In the order of its routes.
    pub(crate) routes: Vec<RouteFiles>,
    /// Of the service itself.
    pub(crate) fallback: RouteFiles,
}

impl ServiceFiles {
    /// Starts the threads that open and read files. In the sandbox, so that they are in it.
    ///
    /// **Errors**: no thread can be started.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.routes.iter().filter_map(|route| route.folder.as_ref()).try_for_each(|folder| folder.start())
    }
}
