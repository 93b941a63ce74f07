//! Files as responses: folders, and pages for errors.

use std::path::PathBuf;
use std::sync::Arc;

use handfast_http::content_coding::ContentCoding;

/// The files that the requests of a route are answered with (`files`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Their folder.
    pub folder: PathBuf,
    /// Names of the file that is sent for a folder, the preferred one first.
    pub index: Vec<Box<str>>,
    /// Extension that is added to a path that leads to no file, with its dot.
    pub extension: Option<Box<str>>,
    /// File for paths that lead to none, below the folder.
    pub fallback: Option<Box<str>>,
    /// Codings of precompressed files.
    pub precompressed: Vec<ContentCoding>,
}

/// Statuses that a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorStatus {
    /// One status, from 400 to 599.
    One(u16),
    /// All that begin with this digit: 4 or 5.
    Class(u16),
}

impl ErrorStatus {
    /// Returns true if it has a status.
    pub fn has(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
        }
    }
}

/// The pages for errors of a route, or of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages {
    /// Files by status (`error-pages`): single statuses first.
    pub pages: Arc<[(ErrorStatus, PathBuf)]>,
    /// True if they also replace the content of errors that backends send.
    pub replace_backends: bool,
}

/// Pages that a route sets; `None`: those of its service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteErrorPages {
    /// `error-pages`.
    pub pages: Option<Arc<[(ErrorStatus, PathBuf)]>>,
    /// `error-pages-for-backends`.
    pub replace_backends: Option<bool>,
}

impl RouteErrorPages {
    /// Returns the pages of the route: those that it sets, and its service's for the rest.
    pub fn resolve(&self, service: &ErrorPages) -> ErrorPages {
        ErrorPages {
            pages: Arc::clone(self.pages.as_ref().unwrap_or(&service.pages)),
            replace_backends: self.replace_backends.unwrap_or(service.replace_backends),
        }
    }
}
