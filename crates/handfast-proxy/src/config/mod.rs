//! A configuration's life: file → model → state → reload. Here: the first two.
//!
//! ```text
//!  handfast.toml ─ reader ─ kind ─ scalar ─┐
//!                    │                     ├─→ check ─→ model ─→ explain
//!  flags ──────────  │  keys ─ schema      │     │
//!                    │    └───→ reference  │     └──→ problem ─→ render
//!                 syntax ──────────────────┘
//! ```
//!
//! | question | file |
//! |---|---|
//! | what may be written, and why is the default what it is | `keys.rs` |
//! | what does it mean | [`model`] |
//! | why was it refused | `kind.rs` for one value, `check.rs` for several, `syntax.rs` for TOML |

pub mod model;
mod file;
mod files;
mod flags;
mod foreign;
mod keys;
mod schema;
mod kind;
mod scalar;
mod reader;
mod policy;
mod check;
mod syntax;
mod problem;
mod render;
mod explain;
mod reference;
mod route_table;
pub mod accounts;
mod demand;
pub mod source;

pub use demand::{GroupDemand, ResourceDemand};
pub(crate) use explain::explain_host;
pub use explain::{CertificateFact, explain};
pub use file::{Loaded, Parsed, load, load_text, parse};
pub use flags::{FlagInput, from_flags};
pub use problem::{Place, Problem, Severity};
pub use reference::reference;
pub use render::{render, summary};
pub use route_table::RouteTable;
pub use scalar::asked_name;
pub use source::{ConfigSource, ConvertedConfig, ReadError};
