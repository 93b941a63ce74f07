//! The keys about backends: which there are, and how one is picked.

use crate::kind::{Backend, BackendEntry, Choice, Count, List, Span, Switch, seconds};
use crate::model::Balance;
use crate::schema::{Default, Key, Section};

pub(crate) static BACKEND: Key<List<BackendEntry>> = Key {
    name: "backend",
    kind: List { item: BackendEntry, bare: true, least: 1, unique: true },
    default: Default::Required,
    doc: "Where its connections go, in plain text. Names are looked up again and again, see `resolve`. In a table, a backend \
          has a `weight` from 0 to 256 (else 1): its share in proportion to the others', and 0 for no new connections; each \
          address of a name has it for itself. `backup = true`: it is used only while no other one is up.",
    why: "",
    example: "\"127.0.0.1:8080\"",
    elsewhere: &[
        "connect",
        "upstream",
        "target",
        "server",
        "servers",
        "proxy-pass",
        "to",
        "forward",
        "remote",
    ],
};

pub(crate) static RULE_BACKEND: Key<List<BackendEntry>> = Key {
    name: "backend",
    kind: List { item: BackendEntry, bare: true, least: 1, unique: true },
    default: Default::Absent("those of the service"),
    doc: "Where connections for these names go.",
    why: "the service decides",
    example: "\"10.0.0.3:8080\"",
    elsewhere: BACKEND.elsewhere,
};

pub(crate) static BALANCE: Key<Choice<Balance>> = Key {
    name: "balance",
    kind: Choice(&Balance::WORDS),
    default: Default::Value("\"round-robin\""),
    doc: "How one of several backends is picked, by weight. `round-robin`: one after the other. `least-connections`: the one \
          with the fewest connections from the same worker thread. `two-choices`: of two drawn by lot, the one with fewer. \
          `source-hash`: by the client's address, so that a client comes to the same backend each time, also through another \
          Handfast with the same backends; when a backend is lost, only its own clients go elsewhere. Clients of unix sockets \
          have no address; they take turns.",
    why: "even and predictable; `least-connections` is better when connections differ much in length, `two-choices` when there are \
          many backends too",
    example: "\"least-connections\"",
    elsewhere: &["load-balancing", "lb", "failover", "policy-balance", "algorithm"],
};

pub(crate) static SLOW_START: Key<Span> = Key {
    name: "slow-start",
    kind: Span { range: seconds(1)..=seconds(86_400), zero: Some("off") },
    default: Default::Value("\"off\""),
    doc: "How long a backend that was down, and came up again, takes to get its whole share: it begins with next to nothing, and \
          grows evenly. While no other backend is up it gets everything at once.",
    why: "most backends are as fast in their first second as later",
    example: "\"30s\"",
    elsewhere: &["slowstart", "warm-up", "ramp-up"],
};

// ── inside the list of `backend` ──

/// `{ address = "…", weight = … }`
pub(crate) static BACKEND_TABLE: Section = Section {
    name: "backend",
    header: "{ address = …, weight = … }",
    doc: "One backend with its share.",
    keys: &[&BACKEND_ADDRESS, &WEIGHT, &BACKUP],
    sections: &[],
};

pub(crate) static BACKEND_ADDRESS: Key<Backend> = Key {
    name: "address",
    kind: Backend,
    default: Default::Required,
    doc: "Where it is.",
    why: "",
    example: "\"10.0.0.2:80\"",
    elsewhere: BACKEND.elsewhere,
};

pub(crate) static WEIGHT: Key<Count> = Key {
    name: "weight",
    kind: Count(0..=256),
    default: Default::Value("1"),
    doc: "Its share of new connections, in proportion to the others'; 0: none.",
    why: "all backends are equal by default",
    example: "3",
    elsewhere: &["share", "priority", "w"],
};

pub(crate) static BACKUP: Key<Switch> = Key {
    name: "backup",
    kind: Switch,
    default: Default::Value("false"),
    doc: "Whether it is used only while no other one is up.",
    why: "a backend that is written is meant to be used",
    example: "true",
    elsewhere: &["fallback", "spare", "standby"],
};
