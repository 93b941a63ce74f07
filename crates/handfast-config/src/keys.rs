//! Every section and key that a configuration may have: the one place where they are described.
//!
//! The reader reads by these descriptions, refuses what is not among them, and makes its messages of them;
//! `reference.rs` makes the reference page of them. A key added here and read nowhere fails a test.

use std::time::Duration;

use super::kind::{
    AdminAddress, Choice, Count, FileOrFolder, FilePath, List, LogTarget, NamePattern, Size, Span, Text,
    seconds,
};
use super::schema::{Default, Key, Section};

mod admission;
mod backend;
mod backend_tls;
mod proxy_protocol;
mod check;
mod client_certificates;
mod connect_through;
mod pair;
mod periods;
mod service;
mod source;
mod starttls;

pub(crate) use admission::*;
pub(crate) use backend::*;
pub(crate) use backend_tls::*;
pub(crate) use check::*;
pub(crate) use client_certificates::*;
pub(crate) use connect_through::*;
pub(crate) use pair::*;
use periods::{DAY, HOUR, MONTH, TENTH, WEEK};
pub(crate) use proxy_protocol::*;
pub(crate) use service::*;
pub(crate) use source::*;
pub(crate) use starttls::*;

/// The file itself.
pub(crate) static FILE: Section = Section {
    name: "",
    header: "the file",
    doc: "A configuration is a TOML file. Relative paths in it start from the folder it is in. Keys that are not listed \
          here are errors, so that a misspelt one cannot be overlooked.",
    keys: &[],
    sections: &[&PROCESS, &ACCESS_LOG, &ADMIN, &LIMITS, &TICKETS, &SERVICE],
};

// ── the process ──

/// `[process]`
pub(crate) static PROCESS: Section = Section {
    name: "process",
    header: "[process]",
    doc: "Settings of the whole process.",
    keys: &[
        &THREADS,
        &USER,
        &GROUP,
        &PROCESS_CONNECTIONS,
        &DRAIN_DELAY,
        &DRAIN,
        &WATCH_INTERVAL,
        &KEEP_REMOVED,
        &WEAK_KEYS,
        &UPGRADE_SOCKET,
        &PRIVATE_KEYS,
        &SANDBOX,
        &SANDBOX_FOLDERS,
    ],
    sections: &[],
};

pub(crate) static THREADS: Key<Count> = Key {
    name: "threads",
    kind: Count(1..=1024),
    default: Default::Absent("one for each CPU the process may run on"),
    doc: "Worker threads. Each has its own listeners, connections and buffers.",
    why: "a thread never waits for another one, so more of them than CPUs only cost memory",
    example: "4",
    elsewhere: &["workers", "worker-processes", "nbthread", "nthreads"],
};

pub(crate) static USER: Key<Text> = Key {
    name: "user",
    kind: Text { form: "text, such as `\"handfast\"`" },
    default: Default::Absent("stays the user who started it"),
    doc: "User to become once the listeners are bound. Needs to be started as root.",
    why: "which user is right depends on the machine",
    example: "\"handfast\"",
    elsewhere: &["setuid", "uid"],
};

pub(crate) static GROUP: Key<Text> = Key {
    name: "group",
    kind: Text { form: "text, such as `\"handfast\"`" },
    default: Default::Absent("the user's own group"),
    doc: "Group to become together with `user`.",
    why: "as `user`",
    example: "\"ssl-cert\"",
    elsewhere: &["setgid", "gid"],
};

pub(crate) static PROCESS_CONNECTIONS: Key<Count> = Key {
    name: "max-connections",
    kind: Count(1..=10_000_000),
    default: Default::Absent("what the limit of open files allows"),
    doc: "Connections served at once by the whole process. When they are all in use, new ones wait in the kernel's queue.",
    why: "the limit of open files is raised as far as allowed at start, and what it allows is said then",
    example: "10000",
    elsewhere: &["maxconn", "worker-connections"],
};

pub(crate) static DRAIN_DELAY: Key<Span> = Key {
    name: "drain-delay",
    kind: Span { range: Duration::ZERO..=HOUR, zero: None },
    default: Default::Value("\"0s\""),
    doc: "How long a stop goes on accepting and serving, while `/ready` already says that it is not ready. Only then are new \
          connections refused, and `drain` begins. A further signal ends it early.",
    why: "a load balancer needs some seconds to notice and to send new clients elsewhere; where there is none, it would only \
          make each stop longer",
    example: "\"10s\"",
    elsewhere: &["lame-duck", "shutdown-delay", "stop-delay", "pre-stop", "grace"],
};

pub(crate) static DRAIN: Key<Span> = Key {
    name: "drain",
    kind: Span { range: Duration::ZERO..=DAY, zero: None },
    default: Default::Value("\"30s\""),
    doc: "How long a stop waits for connections to end by themselves. After that the rest is cut, and the log says how many.",
    why: "long enough for requests, and well below the 90 s after which systemd kills",
    example: "\"5m\"",
    elsewhere: &["shutdown-timeout", "hard-stop-after", "graceful-timeout"],
};

pub(crate) static WATCH_INTERVAL: Key<Span> = Key {
    name: "watch-interval",
    kind: Span { range: TENTH..=DAY, zero: None },
    default: Default::Value("\"10s\""),
    doc: "How often certificates, keys and ticket keys are checked for changes, in addition to the kernel's notifications.",
    why: "network file systems send no notifications; a check costs one system call for each file",
    example: "\"1m\"",
    elsewhere: &["reload-interval", "refresh"],
};

pub(crate) static KEEP_REMOVED: Key<Span> = Key {
    name: "keep-removed-certificates",
    kind: Span { range: Duration::ZERO..=WEEK, zero: None },
    default: Default::Value("\"10m\""),
    doc: "How long a certificate is served on whose file was removed from its folder, unless others cover its names with the \
          same kind of key. After that it is no longer served, and the log says so. A file that is there and cannot be used, \
          and one that the configuration itself names, has no such limit: its old version is served until it is fixed.",
    why: "many tools renew by removing first and writing then, and in between the name would get another name's \
          certificate; ten minutes are longer than they take",
    example: "\"1h\"",
    elsewhere: &["certificate-grace", "grace", "removal-delay"],
};

pub(crate) static WEAK_KEYS: Key<List<FilePath>> = Key {
    name: "weak-keys",
    kind: List { item: FilePath, bare: true, least: 1, unique: true },
    default: Default::Absent("only what a key's own numbers tell"),
    doc: "Lists of keys that are known to others, such as those that Debian's OpenSSL made from 2006 to 2008: none of them is served,           trusted, or accepted from a client. A list is CSV with the SHA-256 of the modulus or x coordinate, a file of           `openssl-blacklist`, or what `handfast weak-keys pack` makes of those, which is read much sooner. They are kept in           memory, ten bytes for each key, and watched.",
    why: "complete lists are too large to come with a program, and others publish them",
    example: "[\"/usr/share/openssl-blacklist/blacklist.RSA-2048\", \"debian.weak\"]",
    elsewhere: &["blacklist", "blocklist", "weak-key-file", "known-keys", "weakkeys"],
};

pub(crate) static UPGRADE_SOCKET: Key<FilePath> = Key {
    name: "upgrade-socket",
    kind: FilePath,
    default: Default::Absent("none: the process cannot be upgraded while it serves"),
    doc: "A unix socket of mode 0600 at which `handfast upgrade` asks the running process to be replaced by a new one, which takes \
          over its listening sockets, ticket keys and what it knows of backends. Only root and the user of the process may ask.",
    why: "who may ask can make the process execute a program, with the rights that it has",
    example: "\"/run/handfast/upgrade.sock\"",
    elsewhere: &["upgrade-sock", "stats-socket", "expose-fd"],
};

pub(crate) static PRIVATE_KEYS: Key<Choice<bool>> = Key {
    name: "private-keys",
    kind: Choice(&[("in-process", false), ("apart", true)]),
    default: Default::Value("\"in-process\""),
    doc: "Where the private keys of certificates are, also of those that are shown to backends. With `\"apart\"` a second process reads \
          the files that hold them and makes the signatures, and the process that talks with the network never has one, \
          so its memory cannot leak one. It is started with this one, before privileges are given up, and again \
          within a second when it ends. Takes effect at a start or upgrade, not at a reload.",
    why: "one more process to run and to monitor, and a few microseconds for each signature",
    example: "\"apart\"",
    elsewhere: &["key-process", "privsep", "keyless", "keys-apart"],
};

pub(crate) static SANDBOX: Key<Choice<bool>> = Key {
    name: "sandbox",
    kind: Choice(&[("on", true), ("off", false)]),
    default: Default::Value("\"on\""),
    doc: "Whether the process gives up what serving does not need, once its addresses are bound: it can then open only files in the \
          folders that the configuration names, makes only the system calls that it is known to need (its workers none that open \
          a file), executes no program, gains no privileges and leaves no core dump. What is refused is said in the log. A kernel \
          without Landlock or seccomp serves without, which is said at the start.",
    why: "who finds a fault in the program should find nothing else; and it costs nothing",
    example: "\"off\"",
    elsewhere: &["disable-landlock", "landlock", "seccomp", "chroot", "jail"],
};

pub(crate) static SANDBOX_FOLDERS: Key<List<FileOrFolder>> = Key {
    name: "sandbox-folders",
    kind: List { item: FileOrFolder, bare: true, least: 1, unique: true },
    default: Default::Absent("the folders of the files that are named at the start"),
    doc: "Folders, with everything below them, that a reload may read files in although the configuration named none there at the \
          start. Without it such a reload is refused, and says so; a restart or `handfast upgrade` reads files anywhere.",
    why: "only the operator knows what will be named later",
    example: "[\"/etc/letsencrypt\", \"/srv/certificates\"]",
    elsewhere: &["read-paths", "allowed-paths", "readable"],
};

// ── looking in ──

/// `[access-log]`
pub(crate) static ACCESS_LOG: Section = Section {
    name: "access-log",
    header: "[access-log]",
    doc: "The access log: one JSON line for each connection, written when it has ended.",
    keys: &[&LOG_TO],
    sections: &[],
};

pub(crate) static LOG_TO: Key<LogTarget> = Key {
    name: "to",
    kind: LogTarget,
    default: Default::Value("\"stdout\""),
    doc: "Where the lines go. A file is opened again when the process receives USR1, for log rotation. `syslog` sends them to /dev/log \
          (facility `daemon`, severity `info`), `journald` to systemd's journal, as `handfast-access`; another socket is \
          `syslog:/run/other.sock`.",
    why: "systemd and containers collect what is written to standard output",
    example: "\"/var/log/handfast/access.log\"",
    elsewhere: &["file", "path", "output", "log"],
};

/// `[admin]`
pub(crate) static ADMIN: Section = Section {
    name: "admin",
    header: "[admin]",
    doc: "The admin listener: `/metrics`, `/status`, `/ready`, `/live`, and reload.",
    keys: &[&ADMIN_LISTEN, &ADMIN_HOSTS],
    sections: &[],
};

pub(crate) static ADMIN_LISTEN: Key<AdminAddress> = Key {
    name: "listen",
    kind: AdminAddress,
    default: Default::Value("\"127.0.0.1:9901\""),
    doc: "Where it listens. It has no authentication, so any other address than a loopback one or a unix socket is \
          warned about.",
    why: "only this machine can reach it there, and the port is rarely in use",
    example: "\"unix:/run/handfast/admin.sock\"",
    elsewhere: &["bind", "address", "port", "socket"],
};

pub(crate) static ADMIN_HOSTS: Key<List<NamePattern>> = Key {
    name: "hosts",
    kind: List { item: NamePattern, bare: true, least: 1, unique: true },
    default: Default::Absent("IP addresses and `localhost` only"),
    doc: "Names under which it may be asked over TCP: the `Host` of a request, without the port. Requests by IP \
          address or as `localhost` are always answered, others with 403.",
    why: "a web page can make its own name point to this machine (DNS rebinding); then a browser asks under that name",
    example: "[\"metrics.example.org\"]",
    elsewhere: &["host", "allowed-hosts", "server-names", "names", "host-check"],
};

// ── limits ──

/// `[limits]`: for all services.
pub(crate) static LIMITS: Section = Section {
    name: "limits",
    header: "[limits]",
    doc: "Time and size limits for all services; a service can have its own in `[service.limits]`, key by key.",
    keys: LIMIT_KEYS,
    sections: &[],
};

/// `[service.limits]`
pub(crate) static SERVICE_LIMITS: Section = Section {
    name: "limits",
    header: "[service.limits]",
    doc: "Limits of this service. Keys that are not written are taken from `[limits]`.",
    keys: LIMIT_KEYS,
    sections: &[],
};

const LIMIT_KEYS: &[&dyn super::schema::Entry] = &[
    &HANDSHAKE,
    &HELLO_BYTES,
    &CONNECT,
    &IDLE,
    &HALF_CLOSED,
    &BACKEND_ENDED,
    &LIFETIME,
    &UNACKNOWLEDGED,
    &KEEPALIVE,
    &RESOLVE,
    &BACKEND_FAILURES,
    &BACKEND_RETRY,
];

pub(crate) static HANDSHAKE: Key<Span> = Key {
    name: "handshake",
    kind: Span { range: TENTH..=HOUR, zero: None },
    default: Default::Value("\"10s\""),
    doc: "From accepting a connection to relaying its first byte: hello, handshake and connecting to the backend together. \
          Nothing a client sends extends it.",
    why: "ten times what a bad mobile link needs; until then a client costs memory and has not proved anything",
    example: "\"15s\"",
    elsewhere: &["timeout", "handshake-timeout", "ssl-handshake-timeout", "timeout-busy"],
};

pub(crate) static HELLO_BYTES: Key<Size> = Key {
    name: "hello",
    kind: Size(2048..=128 * 1024),
    default: Default::Value("\"64KiB\""),
    doc: "Most bytes of a ClientHello, headers of its records included. It is also what a client can make us keep before \
          it has said which name it wants.",
    why: "real ones have 250 to 4,000 bytes, but the standard allows more and tests ask for it; the time limit bounds how \
          long they are kept",
    example: "\"16KiB\"",
    elsewhere: &["hello-bytes", "hello-size", "max-hello", "max-hello-size"],
};

pub(crate) static CONNECT: Key<Span> = Key {
    name: "connect",
    kind: Span { range: TENTH..=HOUR, zero: None },
    default: Default::Value("\"5s\""),
    doc: "For connecting to one backend, with its TLS and what is said before it. When it is over, the next backend is tried, as long as `handshake` allows.",
    why: "two lost packets are survived (they are sent again after 1 s and 3 s), and there is still time for a second backend",
    example: "\"2s\"",
    elsewhere: &["connect-timeout", "backend-connect-timeout", "timeout-connect"],
};

pub(crate) static IDLE: Key<Span> = Key {
    name: "idle",
    kind: Span { range: TENTH..=MONTH, zero: Some("none") },
    default: Default::Value("\"1h\""),
    doc: "Without a byte in either direction for so long, a connection is ended.",
    why: "long enough for database and shell sessions that people leave open over lunch, short enough that what was \
          forgotten goes away the same day",
    example: "\"10m\"",
    elsewhere: &["idle-timeout", "timeout-idle", "proxy-timeout"],
};

pub(crate) static HALF_CLOSED: Key<Span> = Key {
    name: "half-closed",
    kind: Span { range: TENTH..=MONTH, zero: Some("none") },
    default: Default::Value("\"60s\""),
    doc: "When one side has ended its direction: without a byte in the other direction for so long, the connection is \
          ended.",
    why: "an answer on its way has begun by then; without it, half-closed connections pile up behind dead peers",
    example: "\"10s\"",
    elsewhere: &["half-close", "timeout-client-fin", "timeout-close", "tunnel-timeout"],
};

pub(crate) static BACKEND_ENDED: Key<Span> = Key {
    name: "backend-ended",
    kind: Span { range: TENTH..=MONTH, zero: Some("none") },
    default: Default::Value("\"5s\""),
    doc: "When the backend has ended and the client has everything: without a byte from the client for so long, the \
          connection is ended in order. Only silence counts: a client that still sends is not disturbed. `none`: \
          `half-closed` alone decides.",
    why: "a backend that has closed altogether cannot be told from one that has only ended its own direction and still \
          reads. A client that goes on after the backend's end does so within a round trip; one that waits for the end \
          of the connection, as in a pool, would hold it open for `half-closed`",
    example: "\"30s\"",
    elsewhere: &["timeout-server-fin", "server-fin", "linger", "lingering-timeout"],
};

pub(crate) static LIFETIME: Key<Span> = Key {
    name: "lifetime",
    kind: Span { range: seconds(1)..=MONTH, zero: Some("none") },
    default: Default::Value("\"none\""),
    doc: "Age at which a connection is ended, busy or not.",
    why: "ending a connection that works is the operator's decision",
    example: "\"12h\"",
    elsewhere: &["max-age", "max-lifetime", "max-conn-lifetime"],
};

pub(crate) static UNACKNOWLEDGED: Key<Span> = Key {
    name: "unacknowledged",
    kind: Span { range: seconds(1)..=HOUR, zero: None },
    default: Default::Value("\"30s\""),
    doc: "When a peer acknowledges nothing of what was sent to it for so long, or has no room for more all the while, the \
          connection is ended (TCP_USER_TIMEOUT), on both sides.",
    why: "the kernel alone takes 15 minutes to notice that a path is dead; 30 s are longer than a switch takes to reboot",
    example: "\"1m\"",
    elsewhere: &["tcp-user-timeout", "user-timeout", "tcp-ut"],
};

pub(crate) static KEEPALIVE: Key<Span> = Key {
    name: "keepalive",
    kind: Span { range: seconds(1)..=seconds(32_767), zero: Some("none") },
    default: Default::Value("\"60s\""),
    doc: "Idle time after which TCP probes whether the peer still answers, on both sides. Whole seconds; the largest value is \
          the kernel's.",
    why: "notices peers that vanished in silence, and keeps the state of firewalls and address translators, which forget \
          after a few minutes",
    example: "\"5m\"",
    elsewhere: &["keep-alive", "tcp-keepalive", "so-keepalive"],
};

pub(crate) static RESOLVE: Key<Span> = Key {
    name: "resolve",
    kind: Span { range: seconds(1)..=DAY, zero: Some("ttl") },
    default: Default::Value("\"ttl\""),
    doc: "How often a backend's name is looked up again. Connections never wait for it.",
    why: "with `ttl` the name's owner decides how soon a change is seen",
    example: "\"30s\"",
    elsewhere: &["resolve-interval", "refresh", "backend-refresh", "resolvers", "dns"],
};

pub(crate) static BACKEND_FAILURES: Key<Count> = Key {
    name: "backend-failures",
    kind: Count(1..=1000),
    default: Default::Value("3"),
    doc: "Failures to connect in a row, over all worker threads, after which a backend is marked down.",
    why: "one may be chance; three in a row rarely are",
    example: "5",
    elsewhere: &["max-fails", "fall"],
};

pub(crate) static BACKEND_RETRY: Key<Span> = Key {
    name: "backend-retry",
    kind: Span { range: TENTH..=DAY, zero: None },
    default: Default::Value("\"10s\""),
    doc: "How long a backend that is marked down is not used before one connection tries it. Where no other is up, one connection at a time tries it at once.",
    why: "a restarted backend is back in use soon, and a dead one costs one slower connection every ten seconds",
    example: "\"30s\"",
    elsewhere: &["fail-timeout", "retry", "rise"],
};

// ── tickets ──

/// `[tickets]`: for all services.
pub(crate) static TICKETS: Section = Section {
    name: "tickets",
    header: "[tickets]",
    doc: "Session tickets of all services: they let a returning client skip the expensive half of the handshake. \
          A service can have its own in `[service.tickets]`, key by key. A ticket is only good where it was issued: never \
          across services or across rules that ask for different things.",
    keys: TICKET_KEYS,
    sections: &[],
};

/// `[service.tickets]`
pub(crate) static SERVICE_TICKETS: Section = Section {
    name: "tickets",
    header: "[service.tickets]",
    doc: "Session tickets of this service. Keys that are not written are taken from `[tickets]`.",
    keys: TICKET_KEYS,
    sections: &[],
};

const TICKET_KEYS: &[&dyn super::schema::Entry] = &[&PER_HANDSHAKE, &KEY_FILE, &ROTATE, &TICKET_LIFETIME];

pub(crate) static PER_HANDSHAKE: Key<Count> = Key {
    name: "per-handshake",
    kind: Count(0..=8),
    default: Default::Value("1"),
    doc: "Tickets sent after a full TLS 1.3 handshake. 0 turns resumption off, in TLS 1.2 too.",
    why: "most clients use one; each further one costs about 250 bytes and some CPU in every handshake",
    example: "2",
    elsewhere: &["num-tickets", "tickets", "count", "enabled"],
};

pub(crate) static KEY_FILE: Key<FilePath> = Key {
    name: "key-file",
    kind: FilePath,
    default: Default::Absent("the keys are in memory only: a restart makes all tickets useless"),
    doc: "File that keeps the ticket keys over restarts, and shares them among machines. It is created when it is not \
          there, readable by its owner only, replaced as a whole, and watched. Whoever can read it can decrypt recorded TLS 1.2 \
          sessions that were resumed.",
    why: "a secret is written to disk only on request",
    example: "\"tickets.key\"",
    elsewhere: &["keys", "ticket-key", "ticket-keys", "tls-ticket-keys", "session-ticket-key", "file"],
};

pub(crate) static ROTATE: Key<Span> = Key {
    name: "rotate",
    kind: Span { range: seconds(1)..=WEEK, zero: None },
    default: Default::Value("\"6h\""),
    doc: "How long one key encrypts new tickets. Older keys are kept until the last ticket they encrypted has expired.",
    why: "a stolen key opens the tickets of a quarter of a day; rotating costs nothing",
    example: "\"1h\"",
    elsewhere: &["rotation", "rotate-every", "interval"],
};

pub(crate) static TICKET_LIFETIME: Key<Span> = Key {
    name: "lifetime",
    kind: Span { range: seconds(1)..=WEEK, zero: None },
    default: Default::Value("\"12h\""),
    doc: "How long a ticket is accepted. At most 7 days (RFC 9846, section 4.6.1).",
    why: "covers a working day; a client that comes back the next morning pays for one full handshake",
    example: "\"1d\"",
    elsewhere: &["timeout", "session-timeout", "ssl-session-timeout", "session-cache-timeout"],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_in_each_section_and_kebab_case() {
        for section in FILE.all() {
            let mut names: Vec<&str> = section.names().collect();
            names.sort_unstable();
            let before = names.len();
            names.dedup();
            assert_eq!(names.len(), before, "{}", section.header);
            assert!(names.iter().all(|name| {
                name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
            }));
        }
    }

    #[test]
    fn every_key_and_section_is_described() {
        for section in FILE.all() {
            assert!(section.doc.ends_with('.'), "{}", section.header);
            for key in section.keys {
                assert!(key.doc().ends_with('.'), "{} {}", section.header, key.name());
                let required = matches!(key.default(), Default::Required);
                assert_eq!(key.why().is_empty(), required, "{} {}: say why", section.header, key.name());
                assert!(!key.example().is_empty(), "{} {}", section.header, key.name());
            }
        }
    }

    #[test]
    fn the_default_policy_is_the_one_of_the_tls_crate() {
        assert!(
            matches!(POLICY.default, Default::Value(text) if text == format!("{:?}", handfast_tls::policy::DEFAULT))
        );
        let named = RULE_POLICY.example.trim_matches('"');
        assert!(handfast_tls::policy::names().contains(&named), "{named}");
    }
}
