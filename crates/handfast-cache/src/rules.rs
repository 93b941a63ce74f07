//! The rules of a shared cache: RFC 9111, RFC 5861, RFC 9211, RFC 9213. Pure: times are arguments, nothing is read or written.
//!
//! In: parsed heads, times. Out: decisions and heads as text.
//!
//! | question | file |
//! |---|---|
//! | what an object is stored under; what a client cannot poison | `rules/key.rs` |
//! | what an operator decides | `rules/policy.rs` |
//! | which responses are stored, and for how long they are fresh | `rules/stored.rs` |
//! | which requests a stored response is for | `rules/vary.rs` |
//! | whether it may be used | `rules/reuse.rs` |
//! | conditional requests to the origin; 304; HEAD; invalidation | `rules/validate.rs` |
//! | what the client receives: whole, part, 304 | `rules/cached_response.rs` |
//! | conditions and ranges of a request, for a cache and for files | `rules/conditional.rs` |
//! | `Cache-Control`, `CDN-Cache-Control` | `rules/directives.rs` |
//! | `Cache-Status` | `rules/cache_status.rs` |
//! | lists and dates | `rules/lists.rs` |

pub(crate) mod lists;
pub(crate) mod directives;
pub(crate) mod policy;
pub(crate) mod key;
pub(crate) mod vary;
pub(crate) mod stored;
pub(crate) mod reuse;
pub(crate) mod validate;
pub(crate) mod conditional;
pub(crate) mod cached_response;
pub(crate) mod cache_status;
#[cfg(test)]
pub(crate) mod tests;
