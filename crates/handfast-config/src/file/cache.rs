//! The cache of a service, from `[service.cache]` to the model.

use std::time::Duration;

use crate::keys;
use crate::model::Cache;
use crate::problem::Fault;
use crate::table::Table;

/// Default duration for serving a stale response while no backend can be reached.
const UNREACHABLE: Duration = Duration::from_secs(600);

/// The inner `None`: there is none; `None`: something is wrong, which is then noted.
pub(super) fn cache(service: &Table<'_>) -> Option<Option<Cache>> {
    service.read(&keys::CACHE, |section| {
        let (folder, size) = (section.required(&keys::CACHE_FOLDER), section.required(&keys::CACHE_SIZE));
        let object = section.or_default(&keys::CACHE_MAX_OBJECT) as u64;
        let size = size? as u64;
        let if_error = section.optional(&keys::CACHE_IF_ERROR);
        if object > size && section.written(&keys::CACHE_MAX_OBJECT).is_some() {
            let fault = Fault::new("`max-object` is never reached: the whole cache is smaller, see `size`");
            section.warn(&keys::CACHE_MAX_OBJECT, fault);
        }
        Some(Cache {
            folder: folder?,
            size,
            immutable: section.list(&keys::CACHE_IMMUTABLE).into(),
            object: object.min(size),
            heuristic: section.optional(&keys::CACHE_HEURISTIC),
            while_revalidate: section.optional(&keys::CACHE_WHILE_REVALIDATE).unwrap_or_default(),
            if_error: if_error.unwrap_or_default(),
            if_unreachable: if_error.unwrap_or(UNREACHABLE),
            stores_set_cookie: section.or_default(&keys::CACHE_SET_COOKIE),
            clients_decide: section.or_default(&keys::CACHE_CLIENTS_DECIDE),
            early_hints: section.or_default(&keys::CACHE_EARLY_HINTS),
        })
    })
}
