//! Report of a capture, as data. Published: a change that programs notice is another [`SCHEMA`].

use schemars::JsonSchema;
use serde::Serialize;

/// Name and version of the format.
pub const SCHEMA: &str = "handfast-capture/1";

/// A capture.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct CaptureReport {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The program that made the report.
    pub program: String,
    /// The file.
    pub file: String,
    /// `pcap` or `pcapng`.
    pub format: &'static str,
    /// Bytes of the file that were read.
    pub bytes: u64,
    /// Packets in it.
    pub packets: u64,
    /// Those of them that are not TCP, or not of a link type that is known.
    pub other_packets: u64,
    /// Those of them that the capture has cut.
    pub cut_packets: u64,
    /// Time of the first packet (UTC).
    pub started: String,
    /// Time between the first and the last.
    pub lasted_ms: f64,
    /// Reason why the file is incomplete: cut off, or damaged; `null` for a complete file.
    pub broken: Option<String>,
    /// Connections beyond the limit, which are not reported.
    pub not_kept: u64,
    /// TCP connections, in the order in which they began.
    pub connections: Vec<ConnectionReport>,
}

/// A connection. Times are milliseconds since its first packet, where the capture was made.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ConnectionReport {
    /// The interface's name, where the capture has one.
    pub interface: Option<String>,
    /// Address and port of the client.
    pub client: String,
    /// Address and port of the server.
    pub server: String,
    /// Milliseconds from the capture's first packet to its first.
    pub begun_ms: f64,
    /// End near which the capture was made: `client`, `server`, `between`; `null` where TCP's handshake is not in it.
    pub near: Option<&'static str>,
    /// Round trip, from TCP's handshake.
    pub rtt_ms: Option<f64>,
    /// Times of the events.
    pub at_ms: Moments,
    /// Time from the ClientHello to the ServerHello, less the round trip: the server's own.
    pub server_ms: Option<f64>,
    /// Content of the hellos; `null` where there is no ClientHello.
    pub tls: Option<TlsReport>,
    /// Round trips of the TLS handshake.
    pub round_trips: Option<u32>,
    /// Those of them that the server's window cost.
    pub window_round_trips: Option<u32>,
    /// Bytes of a full segment from the server.
    pub segment: usize,
    /// Bytes of the server's longest flight in the handshake that came before it had to wait, or all of it.
    pub first_bytes: usize,
    /// True if it had to wait: the initial window was full.
    pub window_full: bool,
    /// Bytes in one direction without any in the other direction in between, up to the first data.
    pub flights: Vec<FlightReport>,
    /// Everything from the client.
    pub from_client: Direction,
    /// Everything from the server.
    pub from_server: Direction,
    /// End of the connection.
    pub end: EndReport,
    /// Notes about missing packets and other gaps that were noticed.
    pub notes: Vec<&'static str>,
}

/// Milliseconds since the connection's first packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Moments {
    /// SYN-ACK.
    pub syn_ack: Option<f64>,
    /// TCP is established.
    pub connected: Option<f64>,
    /// The whole ClientHello.
    pub client_hello: Option<f64>,
    /// ServerHello; not a HelloRetryRequest.
    pub server_hello: Option<f64>,
    /// The last Finished, with which the client may send.
    pub secured: Option<f64>,
    /// First data of the client. In TLS 1.3 `null` where it cannot be distinguished from the handshake.
    pub client_data: Option<f64>,
    /// First data of the server behind the handshake. In TLS 1.3 a ticket looks the same.
    pub server_data: Option<f64>,
    /// The first FIN, or RST.
    pub ended: Option<f64>,
}

/// The unencrypted part of the hellos.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct TlsReport {
    /// The version agreed on.
    pub version: Option<String>,
    /// The cipher suite.
    pub suite: Option<String>,
    /// The group of the key exchange; only a TLS 1.3 hello has it.
    pub group: Option<String>,
    /// SNI.
    pub server_name: Option<String>,
    /// Application protocols that the client offers.
    pub alpn_offered: Vec<String>,
    /// The one chosen; TLS 1.3 encrypts it.
    pub alpn: Option<String>,
    /// There was a HelloRetryRequest.
    pub hello_retry: bool,
    /// A session was resumed; `null` where no ServerHello came.
    pub resumed: Option<bool>,
    /// The client sent early data.
    pub early_data: bool,
    /// Bytes of the Certificate message; TLS 1.3 encrypts it.
    pub certificate_bytes: Option<usize>,
}

/// Bytes in one direction.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct FlightReport {
    /// `client` or `server`.
    pub from: &'static str,
    /// Start of the flight.
    pub at_ms: f64,
    /// Milliseconds from its first packet to its last.
    pub lasted_ms: f64,
    /// Bytes of data.
    pub bytes: u64,
    /// Packets, as they were captured: cards join and cut them.
    pub packets: u32,
    /// Content, as far as it is in the clear.
    pub what: Vec<&'static str>,
}

/// Everything in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Direction {
    /// Packets, acknowledgements included.
    pub packets: u64,
    /// Bytes of data, each once.
    pub bytes: u64,
    /// Packets with data, SYN or FIN that were sent again.
    pub retransmitted: u64,
    /// Packets that came late, but sooner than they could have been sent again.
    pub out_of_order: u64,
}

/// End of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct EndReport {
    /// `fin`, `reset`, or `open`: the capture has no end of it.
    pub how: &'static str,
    /// The side that ended first: `client` or `server`.
    pub by: Option<&'static str>,
    /// Both have sent FIN.
    pub both: bool,
    /// Unencrypted alerts: the sender, and the alert.
    pub alerts: Vec<String>,
    /// Whose last record was an encrypted alert, or in TLS 1.3 as long as one: close_notify as a rule.
    pub closed_by: Vec<&'static str>,
}

/// One packet.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct PacketRow {
    /// When.
    pub at_ms: f64,
    /// `client` or `server`.
    pub from: &'static str,
    /// SYN, FIN, RST, ACK.
    pub flags: Vec<&'static str>,
    /// Bytes of data.
    pub bytes: u32,
    /// Content, as far as it is in the clear.
    pub what: Vec<&'static str>,
}
