//! Tests of the store: what it keeps, what it does when the disk does not, and what a reader never sees.

pub(crate) mod faults;
mod bench;
mod bounds;
mod coded;
mod crash;
mod disk;
mod objects;
mod sharing;
