//! Results as data with a versioned schema; then as text, JSON, CSV, OpenMetrics, HdrHistogram log or HTML.
//!
//! In: a [`Report`]. Out: strings. Nothing here measures, decides or opens a file.
//!
//! | what | file |
//! |---|---|
//! | the data, and the schema's version | [`model`] |
#![forbid(unsafe_code)]

pub mod model;

pub use model::Report;
