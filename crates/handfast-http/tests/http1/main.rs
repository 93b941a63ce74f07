//! HTTP/1 through the front door: published smuggling cases, other parsers as a second opinion, and properties for all bytes.
//!
//! In: requests made here or read from `../data/http-cases`. Out: nothing but the verdicts.

#![forbid(unsafe_code)]

mod cases;
mod compared;
mod inputs;
mod relay;
mod served;
mod split;
