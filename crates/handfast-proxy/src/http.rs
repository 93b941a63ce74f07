//! Requests: what a connection of a service in HTTP mode carries instead of bytes.
//!
//! In: a client's leg after its handshake. Out: the reason why its connection ended, one record for each request, and a tunnel where the
//! protocol was changed. A request has a life in the words of a connection: hello (its head) → route → connect (a kept connection or a
//! new one) → relay → close.
//!
//! **One form.** Every head is HTTP/1 text that the strict parser of `handfast-wire` has accepted, also where HTTP/2 carries it: it is
//! written as text first (`h2_heads.rs`). So routing, forwarding and the rules about framing exist once.
//!
//! | question | file |
//! |---|---|
//! | a client's connection: requests one after the other | `session.rs` |
//! | an HTTP/2 client's connection: a task for each request | `h2_session.rs` |
//! | one request, from its head to the end of its response | `exchange.rs` |
//! | … to its backends, with retries | `to_backend.rs` |
//! | … through the cache of its service | `cached.rs`, `cached_plan.rs` |
//! | … and what moves between its client and its backend | `relay.rs` |
//! | what is known of a request, and what its backend receives | `request.rs`, `forward.rs` |
//! | a connection to a backend for a request | `upstream.rs` |
//! | where content comes from, and where it goes | `content.rs` |
//! | the backend, in either version | `backend.rs` |
//! | what all requests of a connection share | `connection.rs` |
//! | what an exchange needs of its client | `client.rs` |
//! | one side in HTTP/1 | `h1_client.rs`, `h1_backend.rs` |
//! | one side in HTTP/2 | `h2_client.rs`, `h2_backend.rs` |
//! | what a request must meet before it is served | `gate.rs`, `refusal.rs` |
//! | who sends a request, where its route asks | `identity.rs`, `sender.rs` |
//! | a server that is asked about a request | `auth_server.rs` |
//! | servers that receive copies of requests | `copy.rs`, `mirror.rs` |
//! | requests of the proxy's own | `own.rs`, `nobody.rs` |
//! | what a route changes in requests and responses | `rules.rs`, `trailers.rs` |
//! | responses of our own | `answer.rs`, `answering.rs` |
//! | why an exchange failed, and the status for its client | `fault.rs` |

mod answer;
mod answering;
mod auth_server;
mod backend;
mod cached;
mod cached_plan;
mod client;
mod connection;
mod content;
mod copy;
mod exchange;
mod fault;
mod forward;
mod gate;
mod h1_backend;
mod h1_client;
mod h2_backend;
mod h2_client;
mod h2_heads;
mod h2_queue;
mod h2_session;
mod identity;
mod mirror;
mod nobody;
mod own;
mod refusal;
mod relay;
mod request;
mod rules;
mod sender;
mod session;
mod task;
mod to_backend;
mod trailers;
#[cfg(test)]
mod testing;
mod upstream;

pub(crate) use connection::{HttpConnection, Totals, client_address};
pub(crate) use forward::new_id;
pub(crate) use h1_backend::Tunnel;
pub(crate) use session::{Served, serve};
pub(crate) use task::waker;
