//! Requests: what a connection of a service in HTTP mode carries instead of bytes.
//!
//! In: a client's leg after its handshake. Out: the reason why its connection ended, one record for each request, and a tunnel where the
//! protocol was changed. A request has a life in the words of a connection: hello (its head) → route → connect (a pooled connection or a
//! new one) → relay → close.
//!
//! **One form.** Every head is text in the form of HTTP/1 with the index of its fields, by the strict parser of `handfast-http` or by its decoder of
//! HTTP/2. So routing, forwarding and the rules about framing exist once.
//!
//! **Folders are layers**: one uses only those below it in this table, which `tests/tidy/layers.rs` checks.
//!
//! | folder | what it has |
//! |---|---|
//! | `serve/` | a client's connection in each version, and one request from its head to the end of its response |
//! | `cached/` | a request through the cache of its service |
//! | `files.rs` | a request for a file |
//! | `relay/` | a request to its backends and back, with retries; requests of the proxy's own: mirror, authentication server, revalidation |
//! | `backend/` | the backend's side of an exchange, in each version |
//! | `client/` | the client's side of an exchange, in each version; a client that discards responses |
//! | `decide/` | route, access rules, limits, the head for the backend, the plan for the cache, responses of the proxy's own |
//! | `head/` | connections and streams of HTTP/2, content, trailers, reasons of failures and refusals |

mod backend;
mod cached;
mod client;
mod decide;
mod files;
mod head;
mod relay;
mod serve;
#[cfg(test)]
mod testing;

pub(crate) use backend::h1_backend::Tunnel;
pub(crate) use decide::connection::{HttpConnection, Totals, client_address};
pub(crate) use decide::forward::new_id;
pub(crate) use serve::session::{Served, serve};
