//! Responses of a route that the proxy makes: what its other keys mean depends on them.

use crate::keys;
use crate::schema::Entry;
use crate::table::Table;

/// Response that the proxy makes for the requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnResponse {
    /// None: backends get them.
    None,
    /// `redirect` or `respond`.
    Fixed,
    /// `files`.
    Files,
}

/// Finds that of a route.
pub(super) fn own_response(section: &Table<'_>) -> OwnResponse {
    let is_written = |key: &dyn Entry| section.written(key).is_some();
    match () {
        () if is_written(&keys::ROUTE_REDIRECT) || is_written(&keys::ROUTE_RESPOND) => OwnResponse::Fixed,
        () if is_written(&keys::ROUTE_FILES) => OwnResponse::Files,
        () => OwnResponse::None,
    }
}
