//! The built program as the promises use it: configured, started, asked, upgraded, measured. Peers, certificates and other programs are
//! those of `handfast-testkit`.
//!
//! | file | holds |
//! |---|---|
//! | `config` | the text of a configuration: the only place that knows its keys |
//! | `proxy` | the program: started, asked, signalled, stopped |
//! | `stage` | the usual scene: one backend, one proxy in front of it |
//! | `record` | one line of the access log |
//! | `metrics` | one reading of the metrics page |
//! | `upgrade` | another process that takes over |
//! | `keeper` | a service manager that keeps sockets |
//! | `key_process` | the process that has the private keys |
//! | `cached` | an origin, and a proxy that stores its responses |
//! | `files` | a site on disk, and what clients get of it |
//! | `proxy_headers` | clients behind a proxy, and what backends receive |
//! | `starttls` | protocols that begin in plain text |
//! | `network` | a separate network for a test, to drop and refuse in |
//! | `load` | the load tester: run, read, interrupted |
//! | `fleet` | workers on a bus, and the coordinators that lead them |
//! | `tracer` | the proxy's system calls: counted, or made to fail |

pub(crate) mod cached;
pub(crate) mod config;
pub(crate) mod files;
pub(crate) mod load_workers;
pub(crate) mod keeper;
pub(crate) mod key_process;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod proxy;
pub(crate) mod proxy_headers;
pub(crate) mod record;
pub(crate) mod stage;
pub(crate) mod starttls;
pub(crate) mod tools;
pub(crate) mod tracer;
pub(crate) mod upgrade;

pub(crate) use handfast_testkit::{
    backend, bus, certificates, client, crowd, deadline, delays, ending, folder, hello, http, http2, lines,
    manager, nameserver, pattern, pebble, process, secrets, secured, servers, skip, trust, tunnel,
};

pub(crate) use backend::{Backend, Event};
pub(crate) use certificates::authority;
pub(crate) use client::{Client, Refusal};
pub(crate) use config::Config;
pub(crate) use deadline::{DEADLINE, pause, wait_until};
pub(crate) use ending::SocketEnd;
pub(crate) use proxy::Proxy;
pub(crate) use stage::Stage;
pub(crate) use trust::{Trust, Version};
