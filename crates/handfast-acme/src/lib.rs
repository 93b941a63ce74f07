//! Certificates by ACME (RFC 8555): names in, files with key and chain out, renewed before they expire.
//!
//! In: [`Settings`](model::Settings), and the process that serves ([`Host`]). Out: files in a folder ([`Store`]), answers to challenges,
//! the state of every name. The protocol is that of the crate `instant-acme`; when and where something is ordered is decided here.
//!
//! | question | file |
//! |---|---|
//! | when is a certificate renewed, what follows a failure, how many orders are allowed | [`schedule`], pure |
//! | what is remembered of a name | [`record`] |
//! | what is on the disk, and what survives a crash | [`store`] |
//! | the steps of one order | `order.rs`, over `authority.rs`; with a real issuer `issuer.rs` |
//! | where private keys are, and what the key process does with them | `keys.rs`, `keeper.rs`, `jws.rs` |
//! | what other clients have left behind | `import.rs` |
//! | the loop over all names | `driver.rs` |
#![forbid(unsafe_code)]

pub mod model;
pub mod name;
pub mod record;
pub mod schedule;
pub mod store;

mod answers;
mod authority;
mod dns_records;
mod driver;
mod error;
mod import;
mod file_name;
mod issuer;
mod jws;
mod keeper;
mod keys;
mod order;
mod real;
mod running;
mod status;
mod transport;

#[cfg(test)]
mod testing;

pub use answers::Answers;
pub use dns_records::dns_records;
pub use error::{Error, UnusableError};
pub use import::{Found, FoundAccount, find, find_accounts, keep, put, put_chain};
pub use keeper::{Keeper, KeeperError};
pub use keys::KeysApart;
pub use name::Name;
pub use real::{Host, RecordError};
pub use running::{Running, stored};
pub use status::{NameStatus, OrderEnd, Request, RequestError};
pub use store::Store;
