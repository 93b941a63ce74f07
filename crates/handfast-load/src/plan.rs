//! Parses the parts of a plan that users write: values, requests, kinds of client, names. The result is a
//! [`Plan`], which report and replay share ([`handfast_report::plan`]).

pub use handfast_report::plan::{
    Arrivals, Body, Close, ExpectedStatuses, Header, HttpVersion, Member, Model, Plan, Rates, Request,
    Source, Stage, Take, Target, Think, Tls, Verify, WeightedName, Work,
};

pub mod error;
mod limits;
pub mod mix;
pub mod profile;
pub mod request;
pub mod take;
pub mod values;
mod weight;

pub use error::PlanError;
