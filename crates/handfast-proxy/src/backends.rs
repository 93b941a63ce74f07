//! Backends: their endpoints, their state, the choice of the next one, and connecting to it.
//!
//! | question | file |
//! |---|---|
//! | one address that can be dialled, and attempts to connect to it | `endpoint.rs` |
//! | the backends of one route, and which is tried next | `group.rs`, `balance.rs` |
//! | whether a backend is up, for all threads | `standing.rs` |
//! | waiting for the trial of one that was down | `trial.rs` |
//! | health checks | `checks.rs` |
//! | what names resolve to | `names.rs` |
//! | the proxy on the way to a backend | `tunnel.rs` |
//! | first bytes to a backend before TLS | `opening.rs` |
//! | TLS towards a backend | `tls.rs` |
//! | all of this, step by step: a connection that can serve | `connector.rs` |
//! | connections that wait for the next request | `pool.rs` |

pub(crate) mod balance;
pub(crate) mod checks;
pub(crate) mod connector;
pub(crate) mod endpoint;
pub(crate) mod group;
pub(crate) mod names;
pub(crate) mod opening;
pub(crate) mod pool;
pub(crate) mod slots;
pub(crate) mod standing;
pub(crate) mod tls;
pub(crate) mod trial;
pub(crate) mod tunnel;
