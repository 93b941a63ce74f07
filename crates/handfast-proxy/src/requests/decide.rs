//! Decisions about a request, without waiting: its route, access rules and limits, the head for its backend, its plan for the cache, and
//! responses of the proxy's own.

pub(crate) mod own_response;
pub(crate) mod cache_plan;
pub(crate) mod client_certificate;
pub(crate) mod compression;
pub(crate) mod connection;
pub(crate) mod forward;
pub(crate) mod gate;
pub(crate) mod request;
pub(crate) mod rules;
pub(crate) mod trace;
