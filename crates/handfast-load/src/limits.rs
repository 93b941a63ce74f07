//! Limits that a run must keep; a report is judged by them ([`handfast_report::limits`]).

pub use handfast_report::limits::{Bound, Direction, LimitError};
