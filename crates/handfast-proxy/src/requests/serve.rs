//! A client's connection, in each version, and each of its requests from its head to the end of its response.

pub(crate) mod h2_session;
pub(crate) mod identity;
pub(crate) mod serve_request;
pub(crate) mod session;
