//! The keys of `[service.proxy-protocol]`.

use handfast_wire::proxy_header::Version;

use crate::kind::{Choice, List, ProxySenders};
use crate::model::SentCertificate;
use crate::schema::{Default, Key, Section};

/// `[service.proxy-protocol]`
pub(crate) static PROXY_PROTOCOL: Section = Section {
    name: "proxy-protocol",
    header: "[service.proxy-protocol]",
    doc: "PROXY headers, by which proxies tell each other who the client is. In: from the proxies in front that are listed. \
          Out: to the backends. Without it no header is accepted, and none is sent.",
    keys: &[&ACCEPT_FROM, &SEND, &SEND_CLIENT_CERTIFICATE],
    sections: &[],
};

pub(crate) static ACCEPT_FROM: Key<List<ProxySenders>> = Key {
    name: "accept-from",
    kind: List { item: ProxySenders, bare: true, least: 1, unique: true },
    default: Default::Absent("no address"),
    doc: "Addresses of the proxies in front. A connection from there must begin with a PROXY header, of version 1 or 2, within \
          `limits.handshake`; the client's address in it then counts for limits, rules and the log. `unix`: clients that connect to a unix \
          socket of this service. Other clients are served as themselves, and refused if they send a header.",
    why: "a sender of headers can claim any address",
    example: "[\"10.0.0.0/8\", \"2001:db8::5\"]",
    elsewhere: &[
        "accept-proxy",
        "read-proxy",
        "expect-proxy",
        "set-real-ip-from",
        "trusted-proxies",
        "allow",
        "from",
    ],
};

pub(crate) static SEND: Key<Choice<Option<Version>>> = Key {
    name: "send",
    kind: Choice(&[("off", None), ("v1", Some(Version::V1)), ("v2", Some(Version::V2))]),
    default: Default::Value("\"off\""),
    doc: "The header that backends get, in one write with the first bytes. `v1`: the addresses, in a line of text. `v2`: also the host name, \
          the application protocol, the TLS version, suite, group and key, a name for the connection that is in the access log too (`unique_id`), \
          and a checksum. Before the ClientHello, in the clear, where the backend speaks TLS.",
    why: "a backend that does not expect a header takes it for the client's first bytes",
    example: "\"v2\"",
    elsewhere: &[
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2-ssl",
        "send-proxy-v2-ssl-cn",
        "write-proxy",
        "write-proxy-v1",
        "write-proxy-v2",
        "proxy-protocol-version",
    ],
};

pub(crate) static SEND_CLIENT_CERTIFICATE: Key<Choice<SentCertificate>> = Key {
    name: "client-certificate",
    kind: Choice(&[
        ("off", SentCertificate::Off),
        ("cn", SentCertificate::CommonName),
        ("der", SentCertificate::Der),
    ]),
    default: Default::Value("\"off\""),
    doc: "What a header of version 2 says of the client's certificate. `off`: whether there was one. `cn`: also the Common Name of its subject. \
          `der`: also the whole certificate, if the header stays below 64 KiB with it; the receiver must take headers of that size.",
    why: "it is personal data, and in the clear",
    example: "\"cn\"",
    elsewhere: &["proxy-client-cert", "ssl-cn", "cert"],
};
