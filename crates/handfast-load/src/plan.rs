//! What a run is to do, as people write it: requests, kinds of client, names. What comes of it is a
//! [`Plan`], which report and replay share ([`handfast_report::plan`]).

pub use handfast_report::plan::{
    Arrivals, Body, Close, Header, HttpVersion, Member, Model, Plan, Request, Target, Tls, Verify,
    WeightedName, Work,
};

pub mod error;
pub mod mix;
pub mod profile;
pub mod request;

pub use error::PlanError;

/// Reads how often something is used, against others.
fn weight(text: &str) -> Result<u32, PlanError> {
    let weight = text.parse::<u32>().ok().filter(|weight| (1..=1_000_000).contains(weight));
    weight.ok_or_else(|| PlanError::Weight(text.to_owned()))
}
