//! Plans and reports as data with a versioned schema; written as text, JSON, CSV, OpenMetrics, HdrHistogram log or HTML.
//!
//! In: a [`Report`]. Out: strings. Nothing here measures, decides or opens a file.
//!
//! | what | file |
//! |---|---|
//! | what a run is to do | [`plan`] |
//! | all options of a run, to repeat it | [`job`] |
//! | whether a latency or a rate kept its limit | [`limits`] |
//! | which steps are timed | [`series`] |
//! | the data, and the schema's version | [`model`] |
//! | for a person at a terminal, verdict first | [`text`] |
//! | for a person in a browser: one file, no script, no network | [`html`] |
//! | for programs, and for reading back | [`json`] |
//! | for programs, while a run goes on | [`live`] |
//! | a snapshot of a running test, to display it | [`run`] |
//! | for spreadsheets: seconds, percentiles | [`csv`] |
//! | for Prometheus and its like | [`openmetrics`] |
//! | for the HdrHistogram family of tools | [`hlog`] |
//! | is B faster than A, or is it chance | [`compare`] |
//! | the clients' measurements beside the proxy's counters | [`both_ends`] |
//! | what a CPU can do for TLS | [`speed`] |
//! | numbers with units that fit | [`units`] |
//! | why a tool cannot do what was requested | `tool_error` |
//! | the sentences that text and HTML share | `words` |
#![forbid(unsafe_code)]

pub mod both_ends;
pub mod compare;
pub mod csv;
pub mod hlog;
pub mod html;
pub mod job;
pub mod json;
mod judge;
pub mod limits;
pub mod live;
pub mod model;
pub mod openmetrics;
pub mod plan;
pub mod run;
pub mod series;
pub mod speed;
pub mod text;
mod tool_error;
mod words;

pub use handfast_text::units;
pub use html::to_html;
pub use json::{ReportError, from_json, to_json, to_line};
pub use model::Report;
pub use text::{Style, to_summary, to_text};
pub use tool_error::{ToolError, ToolErrorKind};

#[cfg(test)]
extern crate self as handfast_report;
#[cfg(test)]
#[path = "../examples/sample/made_up.rs"]
mod made_up;
