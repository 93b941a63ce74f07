//! The keys of what clients speak before TLS; read in `config/file/starttls.rs`.

use crate::kind::{AnnouncedName, StarttlsProtocol};
use crate::schema::{Default, Key};

pub(crate) static STARTTLS: Key<StarttlsProtocol> = Key {
    name: "starttls",
    kind: StarttlsProtocol,
    default: Default::Absent("clients speak TLS from the first byte"),
    doc: "What clients speak before they ask for TLS on the same connection. Handfast answers in that protocol, lets nothing through \
          but the request for TLS, and takes the backend's own greeting for itself. The backend is spoken to as without it. \
          Clients of `ldap`, `postgresql` and `xmpp` may also begin TLS at once; `postgresql` answers ALPN for them.",
    why: "TLS from the first byte is simpler and safer (RFC 8314); this is for clients that cannot do it",
    example: "\"smtp\"",
    elsewhere: &["protocol", "start-tls", "stls", "upgrade", "opportunistic-tls"],
};

pub(crate) static STARTTLS_NAME: Key<AnnouncedName> = Key {
    name: "starttls-name",
    kind: AnnouncedName,
    default: Default::Absent("the machine's name"),
    doc: "What Handfast calls itself in greetings before TLS; with `xmpp`, the domain where the client does not say one.",
    why: "mail clients expect the server's name there",
    example: "\"mail.example.org\"",
    elsewhere: &["server-name", "hostname", "myhostname", "greeting"],
};
