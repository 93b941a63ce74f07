//! The admin listener: requests of an operator and a monitoring system to a running proxy.
//!
//! In: HTTP/1.1 requests on a loopback address or a unix socket. Out: metrics, a status page, readiness; and reload and
//! drain by `POST`. It runs on the control thread and knows the proxy only through [`Control`].
//!
//! | request | answer |
//! |---|---|
//! | `GET /` or `/status` | the status page; JSON with `Accept: application/json`; `?refresh=5` reloads it every 5 s |
//! | `GET /status.json` | the same as JSON, with the version of its schema |
//! | `GET /metrics` | OpenMetrics text, or the older format for clients that do not accept it |
//! | `GET /ready` | 200, or 503 with the reason: new connections should (not) be sent here |
//! | `GET /live` | 200 while the event loop of the control thread runs |
//! | `POST /reload` | 200 when the new configuration is served; 409 with the problems, and the old one is served on |
//! | `POST /drain` | 202; accepting stops, connections end by themselves until the drain deadline |
//! | `POST /hand-over` | 202 when this process is stopping: the address is given up for the process that comes after it; else 409 |
//!
//! **Access:** every client that can reach the address; there is no password. A web page in a browser on the same machine must
//! not use it, so on TCP the `Host` must be an IP address, `localhost` or one of `admin.hosts` (a name that was rebound to 127.0.0.1 is
//! refused), and a `POST` that a browser marks as coming from another site is refused.
#![forbid(unsafe_code)]

mod ask;
mod control;
mod hour;
mod other_instance;
mod page;
mod rates;
mod respond;
mod serve;
mod status;

pub use ask::ask;
pub use control::{
    BackendOutcome, BackendRefusal, Control, NotReady, Overview, ReloadOutcome, ReloadRefusal,
    ServiceOverview, StillServing,
};
pub use other_instance::{Neighbour, ask_for_address, neighbour};
pub use serve::{AdminListener, AdminSocket, bind, forget, serve};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
