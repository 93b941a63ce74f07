//! The keys of a proxy on the way to the backends.

use crate::kind::{Backend, Choice, FilePath, Text};
use crate::model::TunnelKind;
use crate::schema::{Default, Key, Section};

/// `[service.connect-through]`
pub(crate) static CONNECT_THROUGH: Section = Section {
    name: "connect-through",
    header: "[service.connect-through]",
    doc: "A proxy that the backends of the service, and of its rules, are reached through. Their names are told to it as they \
          are written, and not looked up here. Without this section, backends are dialled directly.",
    keys: &[&THROUGH_TYPE, &THROUGH_ADDRESS, &THROUGH_USER, &THROUGH_PASSWORD],
    sections: &[],
};

pub(crate) static THROUGH_TYPE: Key<Choice<TunnelKind>> = Key {
    name: "type",
    kind: Choice(&[("http", TunnelKind::Http), ("socks5", TunnelKind::Socks5)]),
    default: Default::Required,
    doc: "What the proxy speaks. `http`: HTTP/1.1 CONNECT. `socks5`: SOCKS version 5.",
    why: "",
    example: "\"socks5\"",
    elsewhere: &["kind", "protocol", "proxy-type"],
};

pub(crate) static THROUGH_ADDRESS: Key<Backend> = Key {
    name: "address",
    kind: Backend,
    default: Default::Required,
    doc: "Where the proxy is. Of a name with several addresses each is a way to each backend, and one that fails is left out \
          like a backend that fails.",
    why: "",
    example: "\"10.0.0.2:3128\"",
    elsewhere: &["proxy", "connect", "host", "server", "url", "upstream"],
};

pub(crate) static THROUGH_USER: Key<Text> = Key {
    name: "user",
    kind: Text { form: "text, such as `\"handfast\"`" },
    default: Default::Absent("no authentication"),
    doc: "The user to authenticate as: by Basic authentication (`http`), or by user and password (`socks5`, RFC 1929). Neither is encrypted.",
    why: "most proxies inside a network know their clients by address",
    example: "\"handfast\"",
    elsewhere: &["username", "login", "protocol-username", "protocolusername"],
};

pub(crate) static THROUGH_PASSWORD: Key<FilePath> = Key {
    name: "password-file",
    kind: FilePath,
    default: Default::Absent("needed with `user` only"),
    doc: "File with that user's password and nothing else; a line end behind it does not count.",
    why: "a configuration is read by more people than may know it",
    example: "\"proxy-password\"",
    elsewhere: &["password", "passwd", "secret", "protocol-password", "protocolpassword"],
};
