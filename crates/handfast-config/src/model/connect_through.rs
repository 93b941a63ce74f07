//! A proxy on the way to the backends (`[service.connect-through]`).

use std::path::PathBuf;

use super::Target;

/// The proxy that backends are reached through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectThrough {
    /// What it speaks.
    pub kind: TunnelKind,
    /// Where it is.
    pub proxy: Target,
    /// The user to authenticate as, and the file with the password.
    pub login: Option<(String, PathBuf)>,
}

/// What a proxy on the way speaks (`type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    /// HTTP CONNECT (RFC 9110 §9.3.6).
    Http,
    /// SOCKS version 5 (RFC 1928).
    Socks5,
}

impl TunnelKind {
    /// Its name in sentences.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Socks5 => "SOCKS5",
        }
    }
}
