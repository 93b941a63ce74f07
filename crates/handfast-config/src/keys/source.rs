//! The key about where connections to backends come from.

use crate::kind::{List, SourceAddress};
use crate::schema::{Default, Key};

pub(crate) static SOURCE: Key<List<SourceAddress>> = Key {
    name: "source",
    kind: List { item: SourceAddress, bare: true, least: 1, unique: true },
    default: Default::Absent("the address that the kernel chooses by the route"),
    doc: "Addresses of this machine that connections to backends come from, in turn. Each has its own source ports: when one has \
          none left towards a backend, the next one is tried. At most 16. `\"client\"`: the client's own address, which \
          needs CAP_NET_ADMIN, and routes that bring the answers back to this machine; see the guide.",
    why: "one address has 28,232 ports towards each backend by Linux's default, which is enough for most",
    example: "[\"10.0.0.5\", \"10.0.0.6\"]",
    elsewhere: &["local", "bind-source", "source-address", "proxy-bind", "outgoing", "transparent", "usesrc"],
};
