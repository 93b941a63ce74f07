//! TLS on the wire: records, the ClientHello, alerts and the names of their numbers; bytes to values, without I/O.
//!
//! In: bytes as they came from a client, however they were split. Out: [`Peek`], that is: wait for more, a
//! [`ClientHello`], or the exact way in which it is not one. Nothing here waits, panics on what a peer sent, or
//! allocates in proportion to a length whose bytes are not there yet.
//!
//! | I want to … | open |
//! |---|---|
//! | ask whether these bytes are a whole hello | `peek.rs` |
//! | know which fields of a hello are kept | `client_hello.rs` |
//! | know when a host name is refused | `server_name.rs` |
//! | tell HTTP or SSH from TLS | `foreign.rs` |
//! | see every way a hello can be wrong | `invalid.rs` |
//! | read or make a PROXY header | `proxy_header.rs` |
//! | recognize the message that ends a session | `farewell.rs` |
//! | get from plain text to TLS, as a client or a server | `starttls.rs` |
//! | read what a server chose | `server_hello.rs` |
//! | read a packet, a frame, a capture; write a capture | `packet.rs`, `link.rs`, `capture.rs`, `pcapng.rs` |
//! | say a number's name | `registry.rs` |

#![forbid(unsafe_code)]

// From bytes to a hello, in this order.
pub mod peek;
pub mod foreign;
pub mod record;
mod limits;
mod reader;
pub mod client_hello;
pub mod server_hello;
pub mod server_name;
pub mod invalid;
// Header before it, from a proxy in front.
pub mod proxy_header;
// … and from a client that is to ask for TLS first.
pub mod starttls;
// Its content.
pub mod farewell;
// Its transport, as captures have it.
pub mod capture;
pub mod link;
pub mod packet;
pub mod pcapng;
// Reports about it.
pub mod alert;
pub mod registry;

pub use alert::{Alert, AlertDescription, AlertLevel};
pub use client_hello::ClientHello;
pub use foreign::Foreign;
pub use invalid::Invalid;
pub use peek::{Peek, peek};
pub use server_hello::ServerHello;
pub use server_name::NameProblem;
