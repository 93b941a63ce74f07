//! Plain-text dialogue before TLS on a port that others use too: STARTTLS and similar protocols, from both ends.
//!
//! In: bytes of a peer, however they were split. Out: what to answer, and [`Progress`]: wait for more, or TLS begins with the
//! next byte; or the [`Problem`] that ended it. Nothing here waits, reads a clock, or keeps anything that a peer sent.
//!
//! | I want to … | open |
//! |---|---|
//! | answer a client that will request TLS | [`Server`] |
//! | ask a server for TLS | [`Client`] |
//! | get past the greeting of a server behind us | [`Greeting`] |
//! | greet a client whose server has greeted us alone | [`second_greeting`] |
//! | do so for MySQL, whose server sends first, before TLS, and whose packets are numbered through it | [`mysql`] |
//! | reach a server through an HTTP or SOCKS proxy | [`Tunnel`] |
//!
//! **Injection.** The rule that CVE-2011-0411 (Postfix and many others) and CVE-2021-23214 (PostgreSQL) lacked: once a side has
//! requested TLS, or agreed to it, a further byte in plain text is an error and not input. A machine looks at what came together with
//! the last word, and forgets everything else with itself; what comes later goes to TLS, which refuses plain text.
//!
//! **Bounds.** A line or packet takes at most [`UNIT_LIMIT`] bytes (an LDAP or PostgreSQL one is refused by its announced length
//! already), a dialogue [`BYTE_LIMIT`] bytes and [`ROUND_LIMIT`] of them. Time is the caller's.

mod client;
mod dialogue_step;
mod greeting;
mod inbox;
mod ldap;
pub mod mysql;
mod postgresql;
mod problem;
mod protocol;
mod serving;
#[cfg(test)]
mod tests;
mod text;
mod tunnel;

pub(crate) use tunnel::base64;
mod xmpp;

pub use client::Client;
pub use greeting::{Greeted, Greeting};
pub use problem::Problem;
pub use protocol::{Protocol, is_safe_name};
pub use serving::Server;
pub use text::second_greeting;
pub use tunnel::{Credentials, Tunnel};

/// Most bytes of one line, packet, tag or head. IMAP's and XMPP's clients send long ones after TLS, not before.
pub const UNIT_LIMIT: usize = 4_096;

/// Most bytes of a whole dialogue that are taken from a peer.
pub const BYTE_LIMIT: usize = 16_384;

/// Most lines, packets or tags of a dialogue: a mail server's reply to EHLO has some twenty.
pub const ROUND_LIMIT: usize = 128;

/// Progress of a dialogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The peer must send more, after it has received the answer.
    More,
    /// The answer is the last plain text (it may be empty); TLS begins with the next byte of either side.
    Ready,
    /// The client began TLS with its first byte, which this protocol allows. Its bytes are in
    /// [`Server::into_received`].
    Direct,
    /// The client does not want TLS: it asks that a query of another connection be cancelled (PostgreSQL). The request, whole and alone, is
    /// [`Server::into_received`]; it has no answer.
    Cancel,
}

impl Progress {
    /// Returns true if the dialogue continues.
    pub const fn is_more(self) -> bool {
        matches!(self, Self::More)
    }
}
