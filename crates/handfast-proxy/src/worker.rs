//! State that one worker thread owns. Nothing here is shared with other threads but the counters.
//!
//! | question | file |
//! |---|---|
//! | its buffers, log, permits and phase | `context.rs` |
//! | the services as it serves them: rules, TLS servers, backends | `services.rs` |
//! | a client that waits for its backend | `waiting_client.rs` |
//! | HTTP mode of a service | `request_routes.rs` |
//! | open connections and requests, for the status | `open.rs` |
//! | the thread that answers hellos for it in a crowd | `signer.rs` |

pub(crate) mod challenges;
pub(crate) mod context;
pub(crate) mod request_routes;
pub(crate) mod open;
pub(crate) mod services;
pub(crate) mod sticky;
pub(crate) mod signer;
pub(crate) mod waiting_client;
