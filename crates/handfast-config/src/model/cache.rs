//! The cache of a service.
//!
//! Made by `file/cache.rs`, run by `handfast-proxy/src/http/cache.rs`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::Share;

/// The cache of a service (`[service.cache]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Its folder, for itself alone.
    pub folder: PathBuf,
    /// Most bytes of content on the disk.
    pub size: u64,
    /// Paths whose content never changes.
    pub immutable: PathPatterns,
    /// Most bytes of one object.
    pub object: u64,
    /// The share of its age for which a response without a statement is fresh; `None`: it is not.
    pub heuristic: Option<Share>,
    /// Additional time for which a stale response is served during a revalidation.
    pub while_revalidate: Duration,
    /// Additional time for which a stale response is served if the backend sends an error.
    pub if_error: Duration,
    /// The same where no response comes from it.
    pub if_unreachable: Duration,
    /// True if responses with `Set-Cookie` are stored.
    pub stores_set_cookie: bool,
    /// True if `Cache-Control` of requests is obeyed.
    pub clients_decide: bool,
    /// True if links of a stored response are sent while it is validated.
    pub early_hints: bool,
}

/// Patterns of paths, ready to be searched.
#[derive(Clone, Debug, Default)]
pub struct PathPatterns {
    written: Vec<String>,
    set: Arc<GlobSet>,
}

impl PathPatterns {
    /// Returns true if a path, without its query, matches one of them.
    pub fn fit(&self, path: &str) -> bool {
        !self.written.is_empty() && self.set.is_match(path)
    }

    /// As they are written.
    pub fn written(&self) -> &[String] {
        &self.written
    }
}

impl PartialEq for PathPatterns {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

/// One that cannot be read is left out: [`pattern`] was asked about each.
impl From<Vec<String>> for PathPatterns {
    fn from(written: Vec<String>) -> Self {
        let mut set = GlobSetBuilder::new();
        written.iter().filter_map(|text| pattern(text).ok()).for_each(|glob| {
            set.add(glob);
        });
        let set = Arc::new(set.build().unwrap_or_else(|_| GlobSet::empty()));
        Self { written, set }
    }
}

/// Reads a pattern.
///
/// **Errors**: what is wrong with it.
pub(crate) fn pattern(text: &str) -> Result<globset::Glob, globset::ErrorKind> {
    let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(false).build();
    glob.map_err(|error| error.kind().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_paths() {
        let patterns =
            PathPatterns::from(["/maven2/**", "/pool/**/*.deb", "/one"].map(str::to_owned).to_vec());
        for (path, fits) in [
            ("/maven2/org/a.jar", true),
            ("/maven2/", true),
            ("/maven2x/a", false),
            ("/a/maven2/b", false),
            ("/pool/main/a/a_1.deb", true),
            ("/pool/a_1.deb", true),
            ("/pool/a_1.deb.asc", false),
            ("/one", true),
            ("/one/two", false),
            ("/ONE", false),
        ] {
            assert_eq!(patterns.fit(path), fits, "{path}");
        }
        assert!(!PathPatterns::default().fit("/"));
    }
}
