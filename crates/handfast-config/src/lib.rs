//! The configuration of the proxy: from text to a model, and from the model to sentences.
//!
//! In: a file, flags, or another program's configuration ([`ConfigSource`]). Out: a [`model::Config`], or every problem with its place.
//!
//! ```text
//!  handfast.toml ─ table ── kind ─ scalar ─┐
//!                    │                     ├─→ check ─→ model ─→ explain
//!  flags ──────────  │  keys ─ schema      │     │
//!                    │    └───→ reference  │     └──→ problem ─→ render
//!                 syntax ──────────────────┘
//! ```
//!
//! | question | file |
//! |---|---|
//! | which keys exist, and the reason for each default | `keys.rs` |
//! | what a configuration means | [`model`] |
//! | which other files belong to it | `include.rs` |
//! | which parts of a file no message shows | `hidden.rs` |
//! | why it was refused | `kind.rs` for one value, `check.rs` for several, `syntax.rs` for TOML |
#![forbid(unsafe_code)]

pub mod model;
mod file;
mod files;
mod flags;
mod foreign;
mod format;
mod hidden;
mod foreign_keys;
mod keys;
mod known_names;
mod schema;
mod kind;
mod scalar;
mod reading;
mod part;
mod machine;
mod include;
mod table;
mod policy;
mod check;
mod syntax;
mod problem;
mod render;
mod explain;
mod reference;
mod json_schema;
mod route_table;
mod request_routes;
mod request_table;
mod path_readings;
mod path_rule;
pub mod accounts;
mod address_file;
mod demand;
pub mod source;

pub use address_file::{AddressLineProblem, MAX_ADDRESS_FILE_BYTES, addresses};
pub use demand::{GroupDemand, ResourceDemand};
pub use explain::{
    CertificateFact, ExplainRequest, ExplainTarget, ExplainTargetError, explain, explain_host,
};
pub use file::{Loaded, Parsed, load, load_text, parse};
pub use flags::{FlagInput, from_flags};
pub use format::{FormatError, format};
pub use json_schema::json_schema;
pub use path_readings::{TooManyReadings, path_readings};
pub use path_rule::PathRule;
pub use problem::{Place, Problem, Severity};
pub use reference::reference;
pub use render::{render, summary};
pub use request_routes::{
    MAX_READINGS, ResolvedRoute, ResolvedRoutes, RoutesOfPath, new_target, new_target_stays_below,
};
pub use request_table::RequestTable;
pub use route_table::RouteTable;
pub use source::{ConfigSource, ConvertedConfig, ReadError};
