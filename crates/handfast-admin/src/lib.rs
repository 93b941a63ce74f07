//! The admin listener: requests of an operator and a monitoring system to a running proxy. `HELP` in `respond.rs` lists them.
//!
//! In: HTTP/1.1 requests on a loopback address or a unix socket. Out: metrics, a status page, readiness; and reload and
//! drain by `POST`. It runs on the control thread and uses the proxy only through [`Control`].
//!
//! **Access:** every client that can reach the address reads; to change something can need a token. A web page in a browser on the same machine must
//! not use it, so on TCP the `Host` must be an IP address, `localhost` or one of `admin.hosts` (a name that was rebound to 127.0.0.1 is
//! refused), and a `POST` that a browser marks as coming from another site is refused.
#![forbid(unsafe_code)]

mod authorization;
mod client;
mod control;
mod hour;
mod page;
mod rates;
mod respond;
mod serve;
mod status;

pub use authorization::RequiredToken;
pub use client::{AdminRequest, Neighbour, neighbour, request_address, send_request};
pub use control::{
    BackendOutcome, BackendRefusal, CacheAct, Control, MaintenanceOutcome, MaintenanceRefusal, NotReady,
    OpenOutcome, OrderOutcome, OrderRefusal, Overview, ReloadOutcome, ReloadRefusal, ServiceOverview,
    StillServing,
};
pub use rates::{
    Attempts, Rates, Recent, RecentHandshakes, RecentRequests, RecentService, RecentTimes, ServiceRates,
};
pub use serve::{AdminListener, AdminSocket, bind, forget, serve};
pub use status::{Attention, SCHEMA, Status, Urgency};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
