//! What the promises are tested with: the built program, and peers that follow a script.
//!
//! | file | holds |
//! |---|---|
//! | `deadline` | waiting for something, never for luck; a wait that ends says what was seen |
//! | `skip` | a test that cannot run here is reported by name |
//! | `folder` | a separate folder for each test |
//! | `cached` | an origin, and a proxy that stores its responses |
//! | `certificates` | an authority, and certificates for names |
//! | `config` | the text of a configuration: the only place that knows its keys |
//! | `lines` | what a program wrote, searchable while it runs |
//! | `proxy` | the program: started, asked, signalled, stopped |
//! | `process` | what the kernel knows of it: descriptors, CPU, memory |
//! | `record` | one line of the access log |
//! | `metrics` | one reading of the metrics page |
//! | `manager` | a service manager: receives notifications, passes sockets |
//! | `http` | one GET |
//! | `http2` | frames of HTTP/2 by hand |
//! | `ending` | how a socket ended: cleanly, or by a reset |
//! | `backend` | backends that follow a script and note what they saw |
//! | `secured` | such a backend's end of a TLS session |
//! | `client` | a TLS client with every end under its control |
//! | `trust` | what that client offers, trusts and remembers |
//! | `hello` | a ClientHello as bytes |
//! | `pattern` | bytes that show where they belong |
//! | `stage` | the usual scene: one backend, one proxy in front of it |
//! | `tools` | other people's clients, with a deadline |
//! | `crowd` | many clients at once |
//! | `network` | a separate network for a test, to drop and refuse in |
//! | `load` | the load tester: run, read, interrupted |
//! | `delays` | a TLS server that is late, resets or ends first by its script, and notes what it saw |
//! | `proxy_headers` | clients behind a proxy, and what backends receive |
//! | `servers` | other people's servers, and what they counted |
//! | `pebble` | a certificate authority with ACME, and its DNS |
//! | `bus` | a NATS server, and a client that speaks its protocol by hand |
//! | `fleet` | workers on a bus, and the coordinators that lead them |
//! | `tracer` | the proxy's system calls: counted, or made to fail |

pub(crate) mod backend;
pub(crate) mod bus;
pub(crate) mod cached;
pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod crowd;
pub(crate) mod deadline;
pub(crate) mod delays;
pub(crate) mod ending;
pub(crate) mod fleet;
pub(crate) mod folder;
pub(crate) mod hello;
pub(crate) mod http;
pub(crate) mod http2;
pub(crate) mod keeper;
pub(crate) mod key_process;
pub(crate) mod lines;
pub(crate) mod load;
pub(crate) mod manager;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod pattern;
pub(crate) mod pebble;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod proxy_headers;
pub(crate) mod record;
pub(crate) mod secrets;
pub(crate) mod secured;
pub(crate) mod servers;
pub(crate) mod skip;
pub(crate) mod stage;
pub(crate) mod starttls;
pub(crate) mod tools;
pub(crate) mod tracer;
pub(crate) mod trust;
pub(crate) mod tunnel;
pub(crate) mod upgrade;

pub(crate) use backend::{Backend, Event};
pub(crate) use certificates::authority;
pub(crate) use client::{Client, Refusal};
pub(crate) use config::Config;
pub(crate) use deadline::{DEADLINE, pause, wait_until};
pub(crate) use ending::SocketEnd;
pub(crate) use proxy::Proxy;
pub(crate) use stage::Stage;
pub(crate) use trust::{Trust, Version};
