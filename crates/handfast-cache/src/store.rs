//! Objects on the disk.
//!
//! In: keys, heads, content. Out: the same later, complete and unchanged, or nothing.
//!
//! | question | file |
//! |---|---|
//! | look up, begin, update, release | `store/cache.rs` |
//! | parts that a worker holds: a hit, a filler, a follower, a reader | `store/hit.rs`, `store/filler.rs`, `store/reader.rs` |
//! | a response in transfer | `store/fill.rs` |
//! | the content of an object in another coding | `store/coded.rs` |
//! | from a fill to an object, step by step | `store/writer.rs` |
//! | purge, list | `store/purge.rs` |
//! | a folder that was used before | `store/rebuild.rs` |
//! | index in memory; order of eviction | `store/index.rs`, `store/shared.rs` |
//! | files and their format | `store/folder.rs`, `store/head_file.rs`, `store/file.rs` |
//! | threads and locks | `store/pool.rs`, `store/disk_work.rs`, `store/lock.rs` |
//! | counters, disk errors | `store/counters.rs`, `store/disk_errors.rs` |
//! | settings | `store/settings.rs` |

pub(crate) mod lock;
pub(crate) mod settings;
pub(crate) mod folder;
pub(crate) mod head_file;
pub(crate) mod counters;
pub(crate) mod disk_errors;
pub(crate) mod pool;
pub(crate) mod disk_work;
pub(crate) mod file;
pub(crate) mod fill;
pub(crate) mod index;
pub(crate) mod leftovers;
pub(crate) mod shared;
pub(crate) mod writer;
pub(crate) mod rebuild;
pub(crate) mod reader;
pub(crate) mod hit;
pub(crate) mod filler;
pub(crate) mod coded;
pub(crate) mod cache;
pub(crate) mod purge;
#[cfg(test)]
mod tests;
