//! Parts of tests: peers under full control, certificates, processes, other programs, and waits with a deadline.
//!
//! It depends on no crate of the program under test, so that no fault can be on both sides of an assertion. Functions panic with a message
//! that has the expected and the seen: in a test that is the failure.
//!
//! | module | holds |
//! |---|---|
//! | `cases` | which combinations of a large table are tried |
//! | `deadline` | waiting for an event, with a deadline; a wait that ends in vain reports what was seen |
//! | `skip` | a test that cannot run here is reported by name |
//! | `folder` | a separate folder for each test |
//! | `lines` | what a program wrote, searchable while it runs |
//! | `process` | what the kernel knows of a process: descriptors, CPU, memory, children; limits and signals |
//! | `tools` | other programs: found, run with a deadline |
//! | `servers` | other programs as servers, and what they counted |
//! | `pebble` | a certificate authority with ACME, and its DNS |
//! | `bus` | a NATS server, and a client that speaks its protocol by hand |
//! | `manager` | a service manager: receives notifications, passes sockets |
//! | `certificates` | an authority, and certificates for names |
//! | `maker` | certificates of every kind with their keys, and files with modes, for the crates that read them |
//! | `secrets` | private keys as they lie in memory, and a search for them |
//! | `trust` | what a TLS client offers, trusts and remembers |
//! | `hello` | a ClientHello as bytes |
//! | `connection` | one end of a connection: plain or TLS, with every end under its control |
//! | `client` | such a client, which panics where a test would fail |
//! | `backend` | backends that follow a script and note what they saw |
//! | `secured` | such a backend's end of a TLS session |
//! | `delays` | a TLS server that is late, resets or ends first by its script, and notes what it saw |
//! | `tunnel` | a proxy on the way to backends that follows a script |
//! | `nameserver` | a DNS server with the records of a test |
//! | `ending` | how a socket ended: cleanly, or by a reset |
//! | `http` | requests and responses of HTTP/1.1 |
//! | `http2` | frames of HTTP/2 by hand |
//! | `pattern` | bytes that show where they belong |
//! | `crowd` | many clients at once |
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_types, reason = "tests share what they saw between threads")]

pub mod backend;
pub mod bus;
pub mod cases;
pub mod certificates;
pub mod client;
pub mod connection;
pub mod crowd;
pub mod deadline;
pub mod delays;
pub mod ending;
pub mod folder;
pub mod hello;
pub mod http;
pub mod http2;
pub mod lines;
pub mod maker;
pub mod manager;
pub mod nameserver;
pub mod pattern;
pub mod pebble;
pub mod process;
pub mod secrets;
pub mod secured;
pub mod servers;
pub mod skip;
pub mod tools;
pub mod trust;
pub mod tunnel;
