//! Starting, in stages that are types: each consumes the one before it.
//!
//! | stage | type | what is certain then |
//! |---|---|---|
//! | prepared | [`Prepared`] | everything that can be refused without a socket was looked at: configuration, files, limits |
//! | bound | [`Bound`] | every address is bound, what needs privileges is open, and they are given up |
//! | serving | [`Serving`](crate::control::serving::Serving) | every worker accepts |
//!
//! Dropping a stage undoes it: sockets that were bound and never listened cost no client anything.

mod admin_address;
mod bound;
mod prepared;

pub(crate) use prepared::{Passed, Prepared};
