//! The keys about admission by address.

use crate::kind::{AddressPrefix, Count, List};
use crate::schema::{Default, Key, Section};

pub(crate) static ALLOW_CLIENTS: Key<List<AddressPrefix>> = Key {
    name: "allow-clients",
    kind: List { item: AddressPrefix, bare: true, least: 1, unique: true },
    default: Default::Absent("clients from everywhere"),
    doc: "Addresses from which clients are served; all others are reset at once, with cause `client-refused` in the access log. \
          Clients of unix sockets are always let in: their mode decides.",
    why: "a firewall may decide it already",
    example: "[\"10.0.0.0/8\", \"2001:db8::/32\"]",
    elsewhere: &["allow", "allow-from", "whitelist", "allowlist", "allowed-ips", "source-ranges", "trusted"],
};

pub(crate) static REFUSE_CLIENTS: Key<List<AddressPrefix>> = Key {
    name: "refuse-clients",
    kind: List { item: AddressPrefix, bare: true, least: 1, unique: true },
    default: Default::Absent("no client is refused for its address"),
    doc: "Addresses from which clients are reset at once. It wins over `allow-clients`, whichever prefix is longer: who is \
          refused here never comes in.",
    why: "a firewall may decide it already",
    example: "\"203.0.113.0/24\"",
    elsewhere: &[
        "deny",
        "deny-from",
        "blacklist",
        "blocklist",
        "denylist",
        "deny-clients",
        "block",
        "reject",
    ],
};

/// `[service.handshake-rate]`
pub(crate) static HANDSHAKE_RATE: Section = Section {
    name: "handshake-rate",
    header: "[service.handshake-rate]",
    doc: "How fast clients of one address may begin handshakes, full or resumed. Those beyond it are reset before they have cost \
          anything, with cause `handshake-rate`. Also in one line: `handshake-rate = { per-second = 10, burst = 50 }`. It \
          takes 512 KiB of memory for the service, however many clients there are. Without it, there is no limit.",
    keys: &[&PER_SECOND, &BURST, &PREFIX_V4, &PREFIX_V6],
    sections: &[],
};

const MOST: u32 = 1_000_000;

pub(crate) static PER_SECOND: Key<Count> = Key {
    name: "per-second",
    kind: Count(1..=MOST),
    default: Default::Required,
    doc: "New handshakes a second that one address may begin in the long run.",
    why: "",
    example: "10",
    elsewhere: &["rate", "rps", "limit", "average", "fill-rate"],
};

pub(crate) static BURST: Key<Count> = Key {
    name: "burst",
    kind: Count(1..=MOST),
    default: Default::Absent("as many as `per-second`"),
    doc: "New handshakes that one address may begin at once after a pause.",
    why: "a browser opens six connections at once, a pool of a service all of its connections: with a small `per-second` it should be \
          written",
    example: "50",
    elsewhere: &["bucket", "bucket-size", "max-tokens", "capacity"],
};

pub(crate) static PREFIX_V4: Key<Count> = Key {
    name: "prefix-v4",
    kind: Count(0..=32),
    default: Default::Value("32"),
    doc: "IPv4 clients whose addresses share so many bits are counted together.",
    why: "each address by itself",
    example: "24",
    elsewhere: &["v4-prefix", "ipv4-prefix", "ipv4-mask", "mask-v4", "netmask"],
};

pub(crate) static PREFIX_V6: Key<Count> = Key {
    name: "prefix-v6",
    kind: Count(0..=128),
    default: Default::Value("64"),
    doc: "The same for IPv6 clients.",
    why: "one machine has a whole /64, and changes its address in it when it likes",
    example: "56",
    elsewhere: &["v6-prefix", "ipv6-prefix", "ipv6-mask", "mask-v6"],
};
