//! Every section and key that a configuration may have: the one place where they are described.
//!
//! The reader reads by these descriptions, refuses what is not among them, and makes its messages of them;
//! `reference.rs` makes the reference page of them. A key added here and read nowhere fails a test.

use std::time::Duration;

use super::kind::*;
use super::model::LogFormat;
use super::schema::section;

mod acme;
mod backend_tls;
pub(crate) mod backend_values;
mod cache;
mod check;
pub(crate) mod certificate_values;
mod client_certificates;
pub(crate) mod client_values;
pub(crate) mod compression;
pub(crate) mod file_values;
mod fleet;
mod http;
mod limits;
mod other_words;
mod proxies;
mod route;
pub(crate) mod route_access;
pub(crate) mod route_values;
mod service;
mod tls;
pub(crate) mod values;

pub(crate) use acme::*;
pub(crate) use backend_tls::*;
pub(crate) use cache::*;
pub(crate) use check::*;
pub(crate) use client_certificates::*;
pub(crate) use fleet::*;
pub(crate) use http::*;
pub(crate) use limits::*;
pub(crate) use proxies::*;
pub(crate) use route::*;
pub(crate) use service::*;
pub(crate) use tls::*;

section! {
    /// A configuration is a TOML file. Relative paths in it start from the folder it is in. Keys that are not listed here are
    /// errors, so that a misspelt one cannot be overlooked.
    FILE = "", "the file", with PROCESS, ACCESS_LOG, ADMIN, LIMITS, TICKETS, SERVICE, ACME, FLEET;

    /// Other files of the configuration, which have `[[service]]` and what belongs to a service, and nothing else. Write it before the first
    /// section. A pattern has wildcards (`*`, `?`, `[a-z]`, `{a,b}`) in the name of the file only; the files that fit are read in the order
    /// of their names, those that begin with a point are left out, and none at all is no error. Relative paths in an included file start
    /// from the folder that it is in. A reload looks for the files again.
    INCLUDE: List<IncludedFiles> = "include", List::of(IncludedFiles),
        absent "the file is the whole configuration",
        why "a file that is there by accident does not become a part of the configuration",
        example "[\"conf.d/*.toml\"]", elsewhere "includes import conf-dir config-dir sites-enabled";
}

section! {
    /// Settings of the whole process.
    PROCESS = "process", "[process]";

    /// Worker threads. Each has its own listeners, connections and buffers.
    THREADS: Count<usize> = "threads", Count(1..=1024),
        absent "one for each CPU the process may run on",
        why "a thread never waits for another one, so more of them than CPUs only cost memory",
        example "4", elsewhere "workers worker-processes nbthread nthreads",
        needs_restart "each thread has listeners, and the kernel spreads connections over them";

    /// User to become once the listeners are bound. Needs to be started as root.
    USER: Text = "user", Text("text, such as `\"handfast\"`"),
        absent "stays the user who started it",
        why "which user is right depends on the machine",
        example "\"handfast\"", elsewhere "setuid uid",
        needs_restart "privileges were given up at the start";

    /// Group to become together with `user`.
    GROUP: Text = "group", Text("text, such as `\"handfast\"`"),
        absent "the user's own group",
        why "as `user`",
        example "\"ssl-cert\"", elsewhere "setgid gid",
        needs_restart "privileges were given up at the start";

    /// Connections served at once by the whole process. When they are all in use, new ones wait in the kernel's queue.
    PROCESS_CONNECTIONS: Count<usize> = "max-connections", Count(1..=10_000_000),
        absent "what the limit of open files allows",
        why "the limit of open files is raised as far as allowed at start, and what it allows is said then",
        example "10000", elsewhere "maxconn worker-connections",
        needs_restart "memory and descriptors were reserved for that number";

    /// Time for which a stop continues to accept and serve, while `/ready` already reports that it is not ready. Only then are new
    /// connections refused, and `drain` begins. A further signal ends it early.
    DRAIN_DELAY: Span = "drain-delay", Span { range: Duration::ZERO..=HOUR, zero: None },
        default "\"0s\"",
        why "a load balancer needs some seconds to notice and to send new clients elsewhere; where there is none, it would \
             only make each stop longer",
        example "\"10s\"", elsewhere "lame-duck shutdown-delay stop-delay pre-stop grace";

    /// Time for which a stop waits until connections end. After that the rest is cut, and the log has their number.
    DRAIN: Span = "drain", Span { range: Duration::ZERO..=DAY, zero: None },
        default "\"30s\"",
        why "long enough for requests, and well below the 90 s after which systemd kills",
        example "\"5m\"", elsewhere "shutdown-timeout hard-stop-after graceful-timeout";

    /// Interval at which certificates, keys and ticket keys are checked for changes, in addition to the kernel's notifications.
    WATCH_INTERVAL: Span = "watch-interval", Span { range: TENTH..=DAY, zero: None },
        default "\"10s\"",
        why "network file systems send no notifications; a check costs one system call for each file",
        example "\"1m\"", elsewhere "reload-interval refresh";

    /// Time for which a certificate is still served after its file was removed from its folder, unless others cover its names with the
    /// same kind of key. After that it is no longer served, which is logged. A file that is there and cannot be used, and one that the
    /// configuration itself names, has no such limit: its old version is served until it is fixed.
    KEEP_REMOVED: Span = "keep-removed-certificates", Span { range: Duration::ZERO..=WEEK, zero: None },
        default "\"10m\"",
        why "many tools renew by removing first and writing then, and in between the name would get another name's \
             certificate; ten minutes are longer than they take",
        example "\"1h\"", elsewhere "certificate-grace grace removal-delay";

    /// Lists of keys that are known to others, such as those that Debian's OpenSSL made from 2006 to 2008: none of them is
    /// served, trusted, or accepted from a client. A list is CSV with the SHA-256 of the modulus or x coordinate, a file of
    /// `openssl-blacklist`, or what `handfast weak-keys pack` makes of those, which is read much sooner. They are kept in
    /// memory, ten bytes for each key, and watched.
    WEAK_KEYS: List<FilePath> = "weak-keys", List::of(FilePath),
        absent "only what a key's own numbers tell",
        why "complete lists are too large to come with a program, and others publish them",
        example "[\"/usr/share/openssl-blacklist/blacklist.RSA-2048\", \"debian.weak\"]",
        elsewhere "blacklist blocklist weak-key-file known-keys weakkeys";

    /// A unix socket of mode 0600 for `handfast upgrade`, which has a new process replace the running one. The new one takes
    /// over its listening sockets, ticket keys and the state of backends. Only root and the user of the process can request
    /// it.
    UPGRADE_SOCKET: FilePath = "upgrade-socket", FilePath,
        absent "none: the process cannot be upgraded while it serves",
        why "who may ask can make the process execute a program, with the rights that it has",
        example "\"/run/handfast/upgrade.sock\"", elsewhere "upgrade-sock stats-socket expose-fd",
        needs_restart "the socket is made with the privileges of the start";

    /// Place of the private keys of certificates, also of those that are shown to backends. With `"separate-process"` a second process reads the
    /// files that hold them and makes the signatures, and the process that talks with the network never has one, so its memory cannot
    /// leak one. It is started with this one, before privileges are given up, and again within a second when it ends.
    PRIVATE_KEYS: Choice<bool> = "private-keys", Choice(&[("in-process", false), ("separate-process", true)]),
        default "\"in-process\"",
        why "one more process to run and to monitor, and a few microseconds for each signature",
        example "\"separate-process\"", elsewhere "key-process privsep keyless keys-apart",
        needs_restart "the key process is started before privileges are given up";

    /// Drops the privileges that serving does not need, once the addresses are bound. It can then open only files in the folders that the
    /// configuration names, and make only the system calls that it is known to need; its workers cannot open files. It executes no
    /// program, gains no privileges and leaves no core dump. What is refused is logged. On a kernel without Landlock or seccomp the
    /// process runs without them, and logs this at the start.
    SANDBOX: Choice<bool> = "sandbox", Choice(&[("on", true), ("off", false)]),
        default "\"on\"",
        why "who finds a fault in the program should find nothing else; and it costs nothing",
        example "\"off\"", elsewhere "disable-landlock landlock seccomp chroot jail",
        needs_restart "a process cannot leave its sandbox";

    /// Folders, with everything below them, that a reload may read files in although the configuration named none there at the
    /// start. Without it such a reload is refused, with this reason; a restart or `handfast upgrade` reads files anywhere.
    SANDBOX_FOLDERS: List<FileOrFolder> = "sandbox-folders", List::of(FileOrFolder),
        absent "the folders of the files that are named at the start",
        why "only the operator knows what will be named later",
        example "[\"/etc/letsencrypt\", \"/srv/certificates\"]", elsewhere "read-paths allowed-paths readable",
        needs_restart "a process cannot widen its sandbox";

    /// Most memory of the responses that are compressed at once, divided evenly among the worker threads. A response that finds none left is
    /// sent as it is, and counted.
    COMPRESSION_MEMORY: Size = "compression-memory", Size(1024 * 1024..=64 * 1024 * 1024 * 1024),
        absent "32 MiB for each worker thread",
        why "enough for 50 responses at once on each thread; a slow client holds up to 1 MiB until its response ends",
        example "\"512MiB\"", elsewhere "gzip-buffers maxzlibmem tune-zlib-memlevel maxcompcpuusage";

    /// Folder for what operators set by command and a restart must keep: the services in maintenance (`handfast maintenance`). It is made if it
    /// does not exist. The user that serves writes in it, and no other proxy may use it.
    STATE_FOLDER: FolderPath = "state-folder", FolderPath,
        absent "reloads and `handfast upgrade` keep what was set, a restart ends it",
        why "only the operator knows a folder in which the user that serves may write",
        example "\"/var/lib/handfast\"", elsewhere "state state-dir state-directory server-state-file server-state-base",
        needs_restart "the sandbox opens the folder at the start";
}

section! {
    /// The access log: one JSON line for each connection and each HTTP request, written when it has ended. A connection whose requests
    /// have lines has no separate line, unless it failed.
    ACCESS_LOG = "access-log", "[access-log]";

    /// Destination of the lines. A file is opened again when the process receives USR1, for log rotation. `syslog` sends them to /dev/log
    /// (facility `daemon`, severity `info`), `journald` to systemd's journal, as `handfast-access`; another socket is
    /// `syslog:/run/other.sock`.
    LOG_TO: LogTarget = "to", LogTarget,
        default "\"stdout\"",
        why "systemd and containers collect what is written to standard output",
        example "\"/var/log/handfast/access.log\"", elsewhere "file path output log",
        needs_restart "the log is opened with the privileges of the start";

    /// The form of the lines of HTTP requests. `json`: everything that is known, also the time of each step and the backend.
    /// `combined`: the combined format of NCSA and Apache httpd, with `Referer` and `User-Agent` (at most 256 bytes of each), for
    /// programs that read nothing else; the status is `000` where no response was sent. Lines of connections are JSON in any case.
    LOG_FORMAT: Choice<LogFormat> = "format", Choice(&[("json", LogFormat::Json), ("combined", LogFormat::Combined)]),
        default "\"json\"",
        why "it says why a request failed, and `handfast log` reads it",
        example "\"combined\"", elsewhere "log_format log-format logformat CustomLog option httplog",
        needs_restart "one thread writes all lines";

    /// Parameters of queries whose values are in no line: the lines have `***` there, in the path of a request and in `Referer`. Case is
    /// ignored. The status page and `handfast open` have no queries at all; backends receive them as they are.
    LOG_REDACT_QUERY: List<ParameterName> = "redact-query", List::of(ParameterName),
        absent "lines have queries as clients send them",
        why "only the operator knows which of them are secret",
        example "[\"token\", \"key\"]", elsewhere "redact hide-query mask scrub sensitive-parameters",
        needs_restart "one thread writes all lines";
}

section! {
    /// The admin listener: `/metrics`, `/status`, `/ready`, `/live`, and reload.
    ADMIN = "admin", "[admin]";

    /// Address of the admin listener. Status and metrics need no authentication, so any other address than a loopback one or a unix
    /// socket is warned about, unless what changes something needs a token.
    ADMIN_LISTEN: AdminAddress = "listen", AdminAddress,
        default "\"127.0.0.1:7643\"",
        why "only this machine can reach it there, and no common daemon uses the port (9901 is that of Envoy)",
        example "\"unix:/run/handfast/admin.sock\"", elsewhere "bind address port socket",
        needs_restart "the address is bound with the privileges of the start";

    /// Names under which it may be asked over TCP: the `Host` of a request, without the port. Requests by IP address or as
    /// `localhost` are always answered, others with 403.
    ADMIN_HOSTS: List<NamePattern> = "hosts", List::of(NamePattern),
        absent "IP addresses and `localhost` only",
        why "a web page can make its own name point to this machine (DNS rebinding); then a browser asks under that name",
        example "[\"metrics.example.org\"]", elsewhere "host allowed-hosts server-names names host-check";

    /// File with a token, one line of at least 16 printable characters, which every request that changes something must send: reload, drain,
    /// backends, maintenance, certificates, caches, whose lists have whole URLs. `handfast reload` and the like read it too. Status and metrics need none.
    ADMIN_TOKEN_FILE: CredentialPath = "token-file", CredentialPath,
        absent "no token: a client that reaches the admin address can stop the proxy",
        why "only this machine can reach the default address; users of the machine can",
        example "\"admin.token\"", elsewhere "authentication";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Default;

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
                assert!(key.doc.ends_with('.'), "{} {}", section.header, key.name);
                let required = matches!(key.default, Default::Required);
                assert_eq!(key.why.is_empty(), required, "{} {}: say why", section.header, key.name);
                assert!(!key.example.is_empty(), "{} {}", section.header, key.name);
            }
        }
    }

    #[test]
    fn the_default_policy_is_the_one_of_the_tls_crate() {
        assert!(
            matches!(POLICY.about.default, Default::Value(text) if text == format!("{:?}", handfast_tls::policy::DEFAULT))
        );
        let named = RULE_POLICY.about.example.trim_matches('"');
        assert!(handfast_tls::policy::names().contains(&named), "{named}");
    }
}
