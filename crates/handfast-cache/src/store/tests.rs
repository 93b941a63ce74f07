//! Tests of the store.

pub(crate) mod faults;
