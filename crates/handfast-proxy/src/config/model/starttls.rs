//! What clients speak before TLS, as it was configured.

use handfast_wire::starttls::Protocol;

/// What clients speak before they ask for TLS (`starttls`, `starttls-name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starttls {
    /// The protocol.
    pub protocol: Protocol,
    /// What we call ourselves in it; `None`: the machine's name.
    pub name: Option<String>,
}
