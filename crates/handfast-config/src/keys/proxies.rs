//! The keys about proxies in front of a service, and behind it.

use crate::kind::*;
use crate::model::{SentCertificate, SentHeader, TunnelKind};
use crate::schema::section;

section! {
    /// PROXY headers, by which proxies tell each other who the client is. In: from the proxies in front that are listed. Out:
    /// to the backends. Without it no header is accepted, and none is sent.
    PROXY_PROTOCOL = "proxy-protocol", "[service.proxy-protocol]";

    /// Addresses of the proxies in front. A connection from there must begin with a PROXY header, of version 1 or 2, within
    /// `limits.handshake`; the client's address in it then counts for limits, rules and the log. `unix`: clients that connect
    /// to a unix socket of this service. Other clients are served as themselves, and refused if they send a header.
    ACCEPT_FROM: List<OrFile<ProxySenders>> = "accept-from", List::of(OrFile(ProxySenders)),
        absent "no address",
        why "a sender of headers can claim any address",
        example "[\"10.0.0.0/8\", \"2001:db8::5\"]",
        elsewhere "accept-proxy read-proxy expect-proxy set-real-ip-from trusted-proxies allow from";

    /// The header that backends get, in one write with the first bytes. `v1`: the addresses, in a line of text. `v2`: also the
    /// host name, the application protocol, the TLS version, suite, group and key, a name for the connection that is in the
    /// access log too (`unique_id`), and a checksum. Before the ClientHello, in the clear, where the backend speaks TLS.
    /// `address`: the client's address as bytes alone, as hitch's `write-ip` has it: 2 and four bytes, or 10 and sixteen.
    SEND: Choice<Option<SentHeader>> = "send", Choice(&[
        ("off", None),
        ("v1", Some(SentHeader::V1)),
        ("v2", Some(SentHeader::V2)),
        ("address", Some(SentHeader::Address)),
    ]),
        default "\"off\"",
        why "a backend that does not expect a header takes it for the client's first bytes",
        example "\"v2\"",
        elsewhere "send-proxy send-proxy-v2 send-proxy-v2-ssl send-proxy-v2-ssl-cn write-proxy write-proxy-v1 write-proxy-v2 write-ip \
                   proxy-protocol-version";

    /// Parts of the client's certificate in a header of version 2. `off`: whether there was one. `cn`: also the Common Name of its
    /// subject. `der`: also the whole certificate, if the header stays below 64 KiB with it; the receiver must take headers of that size.
    /// `hitch`: the certificate in PEM (`TRUSTED CERTIFICATE`) instead, with the number 0xe0, as hitch's `proxy-client-cert` has it.
    SEND_CLIENT_CERTIFICATE: Choice<SentCertificate> = "client-certificate",
        Choice(&[
            ("off", SentCertificate::Off),
            ("cn", SentCertificate::CommonName),
            ("der", SentCertificate::Der),
            ("hitch", SentCertificate::Hitch),
        ]),
        default "\"off\"",
        why "it is personal data, and in the clear",
        example "\"cn\"", elsewhere "proxy-client-cert ssl-cn cert";
}

section! {
    /// A proxy that the backends of the service, and of its rules, are reached through. It receives their names as they are
    /// written; they are not looked up here. Without this section, backends are dialled directly.
    CONNECT_THROUGH = "connect-through", "[service.connect-through]";

    /// Protocol of the proxy. `http`: HTTP/1.1 CONNECT. `socks5`: SOCKS version 5.
    THROUGH_TYPE: Choice<TunnelKind> = "type", Choice(&[("http", TunnelKind::Http), ("socks5", TunnelKind::Socks5)]),
        example "\"socks5\"", elsewhere "kind protocol proxy-type";

    /// Address of the proxy. Of a name with several addresses each is a way to each backend, and one that fails is left out like a
    /// backend that fails.
    THROUGH_ADDRESS: Backend = "address", Backend,
        example "\"10.0.0.2:3128\"", elsewhere "proxy connect host server url upstream";

    /// The user to authenticate as: by Basic authentication (`http`), or by user and password (`socks5`, RFC 1929). Neither is
    /// encrypted.
    THROUGH_USER: Text = "user", Text("text, such as `\"handfast\"`"),
        absent "no authentication",
        why "most proxies inside a network know their clients by address",
        example "\"handfast\"", elsewhere "username login protocol-username protocolusername";

    /// File with that user's password and nothing else; a line end behind it does not count.
    THROUGH_PASSWORD: CredentialPath = "password-file", CredentialPath,
        absent "needed with `user` only",
        why "a configuration is read by more people than may know it",
        example "\"proxy-password\"", elsewhere "password passwd secret protocol-password protocolpassword";
}
