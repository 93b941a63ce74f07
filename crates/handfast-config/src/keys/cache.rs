//! The keys of `[service.cache]`: what is kept of responses, and where.

use super::limits::{DAY, MONTH};
use crate::kind::*;
use crate::schema::section;

/// Most bytes that can be written for a size.
const MAX_SIZE_BYTES: usize = handfast_text::size::MAX_BYTES as usize;

section! {
    /// A cache on disk for responses of backends (RFC 9111), shared by all clients of the service. What may be kept, and for how long, is said by the
    /// fields of the backend (`Cache-Control`, `Expires`, `Vary`), except below `immutable`.
    CACHE = "cache", "[service.cache]";

    /// The folder of the cache, for this service alone. It is made if it is not there, and belongs to the user that serves.
    CACHE_FOLDER: FolderPath = "folder", FolderPath,
        example "\"/var/cache/handfast/web\"", elsewhere "proxy-cache-path path cacheroot cache-root directory storage";

    /// Most bytes of content on the disk. Beyond it the objects that were not used for longest are removed.
    CACHE_SIZE: Size = "size", Size(1024 * 1024..=MAX_SIZE_BYTES),
        example "\"50GiB\"", elsewhere "max-size total-max-size capacity max-bytes cachemaxfilesize";

    /// Paths whose content never changes: a complete response with status 200 is kept without end, and served without asking the backend, whatever
    /// it says about freshness. `**` is any number of parts, `*` any text within one part.
    CACHE_IMMUTABLE: List<PathPattern> = "immutable", List::of(PathPattern),
        absent "the backend's fields say how long each response is fresh",
        why "only the operator knows which names never get other content",
        example "[\"/maven2/**\", \"/pool/**/*.deb\"]",
        elsewhere "proxy-cache-valid cacheignorecachecontrol cacheignorequerystring ignore-headers force-cache ttl";

    /// Most bytes of one object. A larger response is forwarded and not kept.
    CACHE_MAX_OBJECT: Size = "max-object", Size(1024..=MAX_SIZE_BYTES),
        default "\"1GiB\"",
        why "packages, images and layers of containers have less",
        example "\"4GiB\"", elsewhere "max-object-size max-file-size cachemaxfilesize proxy-max-temp-file-size";

    /// Freshness of a response without any statement about it, as a share of its age since `Last-Modified`; a day at most.
    CACHE_HEURISTIC: Share = "heuristic", Share,
        absent "the backend is asked each time, if the response has a validator",
        why "a guess can show people an old page",
        example "\"10%\"", elsewhere "cachelastmodifiedfactor heuristic-expiration refresh-pattern lm-factor";

    /// Additional time for which a stale response is served during a revalidation in the background, where its response states nothing about
    /// that (RFC 5861).
    CACHE_WHILE_REVALIDATE: Span = "stale-while-revalidate", Span { range: seconds(1)..=DAY, zero: None },
        absent "the backend says it, or the request waits",
        why "only the operator knows how old a response may be",
        example "\"30s\"", elsewhere "proxy-cache-background-update grace cachestaleonwhilerevalidate";

    /// Additional time for which a stale response is served where the backend fails, and the response states nothing about that (RFC 5861): it sends
    /// 500, 502, 503 or 504, or no response comes from it. Never what has `must-revalidate`, `no-cache` or `s-maxage`.
    CACHE_IF_ERROR: Span = "stale-if-error", Span { range: seconds(1)..=MONTH, zero: Some("off") },
        absent "the backend says it; else 10 minutes if no response comes from it, and errors that it sends are forwarded",
        why "RFC 9111 §4.2.4 permits it for a cache that is disconnected, and a restart of the backend is not noticed; an error that it sends may be \
             meant",
        example "\"1d\"", elsewhere "proxy-cache-use-stale cachestaleonerror keep";

    /// Stores responses with `Set-Cookie`, cookie included, if the backend allows them to be shared.
    CACHE_SET_COOKIE: Switch = "store-set-cookie", Switch,
        default "false",
        why "every client would get the cookie of the first one",
        example "true", elsewhere "cacheignoreheaders proxy-ignore-headers";

    /// Obeys `Cache-Control` of requests: with it, each client can have the backend asked (`no-cache`, as browsers send on reload).
    CACHE_CLIENTS_DECIDE: Switch = "client-directives", Switch,
        default "true",
        why "RFC 9111 wants it so, and a reload then shows the newest page",
        example "false", elsewhere "cacheignorecachecontrol ignore-client-no-cache reload-into-ims";

    /// Sends the `Link` fields of a stored response as early hints (103, RFC 8297) to clients of HTTP/2 while the backend
    /// validates it.
    CACHE_EARLY_HINTS: Switch = "early-hints", Switch,
        default "false",
        why "the next response may have other links, and the client has then loaded what it does not need",
        example "true", elsewhere "early-hints proxy-early-hints h2earlyhints";
}
