//! What is spoken before TLS, as it was configured.

use handfast_wire::starttls::Protocol;

/// What clients speak before they ask for TLS, or backends before they are asked (`starttls`, `starttls-name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starttls {
    /// The protocol.
    pub protocol: Protocol,
    /// What we call ourselves in it, or in XMPP towards a backend the domain that is asked for; `None`: the machine's name, or
    /// that of the backend.
    pub name: Option<String>,
}
