//! The results as data: the JSON has the same fields. `docs/reference/probe-report.schema.json` describes it.
//!
//! **Units**: milliseconds, bytes, seconds since 1970 where the name has that unit. Timers have curl's names and
//! meaning: each counts from the start of name resolution.

use std::net::SocketAddr;

use handfast_report::both_ends::{BothEnds, Seen};
pub use handfast_report::{to_json, to_line as to_json_line};
use schemars::JsonSchema;
use serde::Serialize;

use crate::capture::{ConnectionReport, PacketRow};
use crate::error::ProbeError;
use crate::keep_alive::KeepAlive;

/// Name and version of the format.
pub const SCHEMA: &str = "handfast-probe/1";

/// One target.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Report {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Name and version of the program that measured.
    pub program: String,
    /// Start time (UTC).
    pub started: String,
    /// The target.
    pub target: TargetReport,
    /// Every address of the name.
    pub addresses: Vec<AddressReport>,
    /// Agreed parameters of a full handshake.
    pub agreed: AgreedReport,
    /// Connections of each kind that were requested.
    pub runs: usize,
    /// Connections that failed, each with its reason, once.
    pub failures: Vec<Failed>,
    /// Full handshakes.
    pub full: Kind,
    /// Resumed ones; `null` where there were none.
    pub resumed: Option<Kind>,
    /// Resumed ones with early data; `null` where there were none.
    pub early: Option<Kind>,
    /// Round trip of the network.
    pub rtt_ms: Spread,
    /// Our ClientHello.
    pub hello: HelloReport,
    /// The server's initial window, as far as it was seen.
    pub window: WindowReport,
    /// Its certificates.
    pub certificates: Certificates,
    /// Its tickets.
    pub tickets: Tickets,
    /// Way in which it ends connections.
    pub close: CloseReport,
    /// Facts about HTTP; `null` where no request was made.
    pub http: Option<HttpReport>,
    /// Segments that were sent again, or came in the wrong order, in all connections.
    pub loss: Loss,
    /// Advice for changes, the greatest gain first.
    pub advice: Vec<Advice>,
    /// Facts that are good or worth knowing, and cost no time.
    pub notes: Vec<Note>,
    /// The bounds of `--max`.
    pub limits: Vec<LimitReport>,
    /// Model of loading a page; `null` where none was requested.
    pub page: Option<PageModel>,
    /// Parts of the median full connection, in order.
    pub waterfall: Vec<Span>,
    /// Our address in that connection.
    pub local: Option<SocketAddr>,
    /// Its packets, as they were captured; `null` without `--pcap`.
    pub wire: Option<WireReport>,
    /// Parts of the time of all connections, by the proxy's own counters; `None` without `--status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both_ends: Option<BothEnds>,
    /// Totals of all connections, to compare with the server's counters.
    #[serde(skip)]
    pub seen: Seen,
}

/// The packets of the median full connection.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct WireReport {
    /// Packets of all connections that did not fit the buffer.
    pub missed: u64,
    /// Report of the connection, from these packets.
    pub connection: ConnectionReport,
    /// Each of them.
    pub packets: Vec<PacketRow>,
}

/// Target of the probe.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct TargetReport {
    /// As it was typed, with the port.
    pub name: String,
    /// The name that was sent (SNI).
    pub server_name: Option<String>,
    /// The address that was measured.
    pub address: String,
    /// The protocol before TLS.
    pub starttls: Option<&'static str>,
}

/// One address of the name.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct AddressReport {
    /// The address, without the port.
    pub address: String,
    /// Milliseconds to connect; the median.
    pub connect_ms: Option<f64>,
    /// Milliseconds to connect and shake hands, full; the median.
    pub appconnect_ms: Option<f64>,
    /// True if it took a ticket of the first address; `null`: not tried.
    pub takes_tickets_of_first: Option<bool>,
    /// Reason for its failure.
    pub error: Option<ProbeError>,
}

/// Parameters that both sides agreed on.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct AgreedReport {
    /// `TLSv1.3`.
    pub version: Option<&'static str>,
    /// IANA name of the suite.
    pub suite: Option<&'static str>,
    /// IANA name of the group.
    pub group: Option<&'static str>,
    /// Signature algorithm of the server.
    pub signature: Option<&'static str>,
    /// Application protocol.
    pub alpn: Option<String>,
    /// The server asked for another key share first (HelloRetryRequest).
    pub hello_retry: bool,
    /// The key exchange withstands quantum computers.
    pub post_quantum: bool,
}

/// A reason for which connections failed.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Failed {
    /// Number of these failures.
    pub count: usize,
    /// Why.
    pub error: ProbeError,
}

/// Some figures, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Spread {
    /// Number of figures.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub p50: f64,
    /// Only one in twenty is greater.
    pub p95: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these figures; zeroes for none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = figures.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let rounded = |figure: f64| (figure * 1e3).round() / 1e3;
        // The nearest rank.
        let at = |share: f64| {
            let rank = (share * all.len() as f64).ceil() as usize;
            rounded(all.get(rank.saturating_sub(1)).or(all.last()).copied().unwrap_or(0.0))
        };
        Self { count: all.len(), min: at(0.0), p50: at(0.5), p95: at(0.95), max: at(1.0) }
    }
}

/// Connections of one kind.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Kind {
    /// Number of successes.
    pub count: usize,
    /// Of how many the handshake was of this kind indeed.
    pub as_asked: usize,
    /// curl's timers.
    pub timers: Timers,
    /// Round trips that were waited for, in most of them.
    pub round_trips: Trips,
    /// From the end of connect (and of STARTTLS) to the end of the handshake.
    pub handshake_ms: Spread,
    /// Of that: how long the server was busy before its flights.
    pub server_ms: Spread,
    /// Of that: our own computing.
    pub own_ms: Spread,
    /// Source of the server's time: `acknowledgement` or `round-trip`.
    pub server_known_by: &'static str,
    /// The server's flights in the handshake, of the connection in the middle.
    pub flights: Vec<Flight>,
}

/// curl's timers, each from the beginning of the resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Timers {
    /// The name is resolved.
    pub namelookup: Spread,
    /// TCP is established.
    pub connect: Spread,
    /// TLS is established.
    pub appconnect: Spread,
    /// The request goes out.
    pub pretransfer: Option<Spread>,
    /// The first byte of the response.
    pub starttransfer: Option<Spread>,
    /// Its last byte.
    pub total: Option<Spread>,
}

/// Round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Trips {
    /// TCP: SYN and SYN-ACK.
    pub connect: u32,
    /// STARTTLS.
    pub starttls: u32,
    /// The handshake.
    pub handshake: u32,
    /// Of those of the handshake: waited for because the server's window was full.
    pub window: u32,
    /// Of those of the handshake: waited for because the server's kernel held a small piece (Nagle's algorithm).
    pub nagle: u32,
    /// From the end of the handshake to the first byte of the response; `null` without a request.
    pub request: Option<u32>,
}

/// One flight of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Flight {
    /// Bytes of TLS.
    pub bytes: usize,
    /// Full segments that this takes at least.
    pub segments: usize,
    /// It had to wait for an acknowledgement, since the window was full.
    pub held_by_window: bool,
    /// The server's kernel held it until the piece before it was acknowledged (Nagle's algorithm).
    pub held_by_nagle: bool,
    /// It came after a break in which neither side waited for the other.
    pub after_pause: bool,
}

/// Our ClientHello.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct HelloReport {
    /// Its record.
    pub bytes: usize,
    /// Segments that it took.
    pub segments: u32,
}

/// The server's initial window.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct WindowReport {
    /// Bytes of a full segment from the server.
    pub segment: usize,
    /// Bytes that came before it had to wait, or the whole flight.
    pub first_bytes: usize,
    /// The same in segments.
    pub first_segments: usize,
    /// It was full: the window is what came. Else it is at least that.
    pub full: bool,
}

/// The server's certificates.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Certificates {
    /// Each, its own first.
    pub chain: Vec<Certificate>,
    /// All of them.
    pub bytes: usize,
    /// The OCSP response beside them; 0: none.
    pub staple_bytes: usize,
    /// Its own certificate demands an OCSP response ("must-staple").
    pub demands_staple: bool,
    /// True if it passed verification; `null`: not verified.
    pub trusted: Option<bool>,
    /// Reason why it did not.
    pub why_not: Option<String>,
}

/// One certificate.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Certificate {
    /// In DER.
    pub bytes: usize,
    /// The subject.
    pub subject: String,
    /// `RSA-2048`, `ECDSA-P256`.
    pub key: String,
    /// Valid from (UTC).
    pub not_before: String,
    /// Valid up to (UTC).
    pub not_after: String,
    /// Whole days until then; negative: since then.
    pub days_left: i64,
    /// Number of its names.
    pub names: usize,
    /// It is signed in its own name.
    pub self_issued: bool,
    /// Reason why its key is weak.
    pub weakness: Option<String>,
}

/// The server's tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Tickets {
    /// After one full handshake.
    pub count: usize,
    /// Lifetime of each, as the server states it.
    pub lifetime_seconds: Option<u64>,
    /// Most bytes of early data.
    pub early_data_bytes: u32,
    /// Handshakes that offered one.
    pub offered: usize,
    /// Of these, the ones that were resumed.
    pub taken: usize,
}

/// Way in which the server ends a connection that we have ended by close_notify.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct CloseReport {
    /// It sends close_notify.
    pub close_notify: bool,
    /// Last event: `fin`, `reset`, `nothing`.
    pub ended_by: &'static str,
    /// It waited for our FIN.
    pub after_our_fin: bool,
}

/// Report of HTTP.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct HttpReport {
    /// Of the last response.
    pub status: u16,
    /// Bytes of the first body.
    pub body_bytes: u64,
    /// `Server`.
    pub server: Option<String>,
    /// `Strict-Transport-Security`.
    pub hsts: Option<String>,
    /// `Keep-Alive`.
    pub keep_alive: Option<String>,
    /// A second request on the same connection was answered.
    pub reused: bool,
    /// From a further request to its first byte, without a connect or a handshake.
    pub again_ms: Spread,
    /// Time for which the server was busy with the request.
    pub server_ms: Spread,
    /// Time for which a connection is kept, by measurement; `null` without `--keep-alive`.
    pub kept: Option<KeepAlive>,
}

/// Losses of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Loss {
    /// Segments of ours that were sent again.
    pub retransmitted: u32,
    /// Segments of the server that came before an earlier one.
    pub out_of_order: u32,
}

/// Something to change.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Advice {
    /// Milliseconds saved for each new connection, or for each request if the text says that.
    pub saves_ms: f64,
    /// Problem, and the change to make.
    pub what: String,
    /// Evidence for it.
    pub evidence: String,
    /// The topic of `handfast explain`.
    pub topic: &'static str,
}

/// Something that is good, or worth knowing.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Note {
    /// It is good.
    pub good: bool,
    /// The sentence.
    pub what: String,
}

/// One bound.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LimitReport {
    /// As it was written.
    pub bound: String,
    /// Measured figure; `null`: there is none.
    pub found_ms: Option<f64>,
    /// It holds.
    pub held: bool,
}

/// One part of a connection.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Span {
    /// `DNS`, `TCP`, `TLS`, `HTTP`.
    pub row: &'static str,
    /// Party that was busy.
    pub who: Party,
    /// From, in milliseconds since the beginning of the resolution.
    pub from_ms: f64,
    /// Up to.
    pub to_ms: f64,
    /// In words.
    pub what: String,
}

/// Party that was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Who")]
pub enum Party {
    /// The network: bytes were on their way.
    Network,
    /// The server.
    Server,
    /// This program.
    Client,
}

/// Model of loading a page.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PageModel {
    /// Number of resources.
    pub resources: u32,
    /// Bytes of each.
    pub bytes: u64,
    /// Each way to get them.
    pub ways: Vec<Way>,
}

/// One way to get the resources of a page.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Way {
    /// In words.
    pub way: &'static str,
    /// Connections that are opened.
    pub connections: u32,
    /// Round trips, one after the other.
    pub round_trips: u32,
    /// Milliseconds.
    pub ms: f64,
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    use super::*;

    /// Violations of a published schema by a value.
    pub(crate) fn faults(value: &Value, schema: &str) -> Vec<String> {
        let schema = serde_json::from_str(schema).expect("JSON");
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn the_published_schema_describes_it() {
        let schema = include_str!("../../../docs/reference/probe-report.schema.json");
        let report = crate::advice::tests::sample();
        let mut value: Value = serde_json::from_str(&to_json(&report)).expect("JSON");
        assert_eq!(faults(&value, schema), [""; 0]);
        assert_eq!(to_json_line(&report).lines().count(), 1);
        // The check itself can fail.
        value["schema"] = "handfast-probe/2".into();
        value["full"]["server_ms"]["p50"] = "much".into();
        value["addresses"][1]["address"] = 1.into();
        value["tickets"].as_object_mut().expect("an object").remove("taken");
        assert_eq!(faults(&value, schema).len(), 4);
    }

    #[test]
    fn a_spread_is_of_what_was_measured() {
        let spread = Spread::of([5.0, 1.0, 2.0, 4.0, 3.0]);
        assert_eq!((spread.min, spread.p50, spread.p95, spread.max), (1.0, 3.0, 5.0, 5.0));
        assert_eq!(Spread::of([7.0]).p50, 7.0);
        assert_eq!(Spread::of([]), Spread::default());
    }
}
