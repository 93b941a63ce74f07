//! The handshake table as data, text, JSON and HTML.
//!
//! In: what was measured. Out: text. It measures nothing.

use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_text::units;
use serde::Serialize;

use super::client::Times;
use super::count::Packets;
use super::html;
use super::page::{Loaded, RESOURCES};
use super::settings::HandshakeSettings;
use crate::port::Engine;

/// Figures published in 2010 of one handshake over a path of 114 ms: Jordan Sissel, "SSL latency". Name, packets, milliseconds.
pub const PUBLISHED: [(&str, u64, f64); 3] =
    [("TCP", 3, 114.0), ("TLS alone", 12, 322.0), ("both: ready", 15, 436.0)];

/// Comparison of those figures with ours.
pub const READ_2010: &str = "Three round trips of 114 ms are 342 ms of these 436. TLS 1.2, full, takes the same three until it is secured; the other \
     94 ms were not the network's.";

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Name and version of this format.
    pub schema: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// Release of the kernel.
    pub kernel: String,
    /// Engine that carried packets.
    pub engine: &'static str,
    /// Congestion control algorithm of TCP, on both hosts.
    pub congestion_control: String,
    /// There and back, in milliseconds.
    pub rtt_ms: f64,
    /// Number of times that each handshake was made.
    pub runs: usize,
    /// Packets that were more than half a millisecond late.
    pub late_packets: u64,
    /// Each server.
    pub servers: Vec<ServerReport>,
}

/// Measurements of one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerReport {
    /// Name of the server.
    pub name: String,
    /// Version, as the server reports it.
    pub version: String,
    /// Kinds of handshake.
    pub rows: Vec<Row>,
    /// Ways to load a page; none where a connection has one request.
    pub pages: Vec<PageRow>,
}

/// One kind of handshake: the run in the middle of several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the kind.
    pub name: &'static str,
    /// True if the server supports it; otherwise the figures are those of what it did instead.
    pub done: bool,
    /// Version, suite and group that were agreed on, or nothing.
    pub agreed: String,
    /// Packets from the client until the first byte had come, or the connection stood.
    pub packets_there: u64,
    /// Packets from the server until then.
    pub packets_back: u64,
    /// Until connect(2) returned.
    pub connected: Step,
    /// Until data could be sent with all that TLS gives.
    pub secured: Option<Step>,
    /// Until the first byte of the response had come.
    pub first_byte: Option<Step>,
    /// Packets at the client, for the waterfall.
    pub packets: Vec<PacketMark>,
}

/// Round trips and time from the beginning to a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Round trips, counted from packets.
    pub round_trips: u64,
    /// Milliseconds.
    pub ms: f64,
    /// Rest of these without the round trips: computing, and waiting of other kinds.
    pub besides_ms: f64,
}

/// A packet as the client sent or received it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PacketMark {
    /// Milliseconds from the beginning.
    pub ms: f64,
    /// True if it came from the server.
    pub back: bool,
    /// Bytes of data.
    pub data: u32,
}

/// A way to load a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageRow {
    /// Version of TLS.
    pub tls: &'static str,
    /// Way to load the page.
    pub mode: &'static str,
    /// Connections that were opened.
    pub connections: usize,
    /// Packets from the client.
    pub packets_there: u64,
    /// Packets from the server.
    pub packets_back: u64,
    /// All of it.
    pub total: Step,
}

impl Row {
    pub(super) fn of(
        name: &'static str,
        rtt: Duration,
        times: &Times,
        packets: &Packets,
        early: bool,
    ) -> Self {
        let step = |moment| step(rtt, packets, times.begun, moment);
        let last = times.first_byte.or(times.secured).unwrap_or(times.connected);
        let (there, back) = packets.until(last);
        let agreed = [times.agreed.version, times.agreed.suite, times.agreed.group];
        let resumed = times.agreed.resumed == Some(true);
        let needs_resumption = name.contains("resumed");
        let retried = times.agreed.hello_retry || !name.contains("retry");
        Self {
            name,
            done: (resumed || !needs_resumption) && retried && (!early || times.early == Some(true)),
            agreed: agreed.into_iter().flatten().collect::<Vec<_>>().join(" "),
            packets_there: there,
            packets_back: back,
            connected: step(times.connected),
            secured: times.secured.map(step),
            first_byte: times.first_byte.map(step),
            packets: packets
                .marks(last)
                .map(|mark| PacketMark { ms: ms(times.begun, mark.at), back: mark.back, data: mark.data })
                .collect(),
        }
    }

    /// Milliseconds until its last step.
    pub(super) fn last_ms(&self) -> f64 {
        self.first_byte.or(self.secured).unwrap_or(self.connected).ms
    }
}

impl PageRow {
    pub(super) fn of(
        tls: &'static str,
        mode: &'static str,
        loaded: &Loaded,
        packets: &Packets,
        rtt: Duration,
    ) -> Self {
        let (there, back) = packets.until(loaded.ended);
        let trips = match loaded.in_turn {
            true => packets.round_trips_in_turn(loaded.ended),
            false => packets.round_trips(loaded.ended),
        };
        Self {
            tls,
            mode,
            connections: loaded.locals.len(),
            packets_there: there,
            packets_back: back,
            total: steps(rtt, trips, loaded.begun, loaded.ended),
        }
    }
}

fn step(rtt: Duration, packets: &Packets, begun: Moment, moment: Moment) -> Step {
    steps(rtt, packets.round_trips(moment), begun, moment)
}

fn steps(rtt: Duration, round_trips: u64, begun: Moment, moment: Moment) -> Step {
    let ms = ms(begun, moment);
    let besides = ms - round_trips as f64 * rtt.as_secs_f64() * 1e3;
    Step { round_trips, ms, besides_ms: (besides * 1e3).round() / 1e3 }
}

impl Report {
    pub(super) fn new(
        settings: &HandshakeSettings,
        (engine, congestion_control): (Engine, String),
        late_packets: u64,
        servers: Vec<ServerReport>,
    ) -> Self {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Self {
            schema: "handfast-lab-handshake/1",
            version: env!("CARGO_PKG_VERSION"),
            kernel,
            engine: engine.word(),
            congestion_control,
            rtt_ms: settings.rtt.as_secs_f64() * 1e3,
            runs: settings.runs.max(1),
            late_packets,
            servers,
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("text and numbers are JSON");
        text.push('\n');
        text
    }

    /// As one page that needs nothing else.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// Describes the circumstances of the measurement, in a sentence.
    pub fn circumstances(&self) -> String {
        format!(
            "handfast {}, Linux {}, {} there and back over {}, TCP with {}; {} of each, the one in the middle is shown; {} more than \
             0.5 ms late",
            self.version,
            self.kernel,
            units::duration(self.rtt_ms * 1e6),
            self.engine,
            self.congestion_control,
            units::counted(self.runs as u64, "handshake"),
            units::counted(self.late_packets, "packet"),
        )
    }

    /// As text, for people.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.circumstances());
        text.push_str("\nas published in 2010, on a path of 114 ms\n");
        for (name, packets, ms) in PUBLISHED {
            text.push_str(&format!("  {name:<40} {packets:>3} packets  {ms:>7.1} ms\n"));
        }
        text.push_str(&format!("  {READ_2010}\n"));
        for server in &self.servers {
            text.push_str(&format!("\n{} ({})\n", server.name, server.version));
            text.push_str(&format!(
                "  {:<40} {:>9}  {:^15}  {:^24}  {:>8}\n  {:<40} {:>5}{:>5}  {:>4} {:>4} {:>4}  {:>8}{:>8}{:>8}  {:>8}\n",
                "", "packets", "round trips to", "ms to", "besides", "handshake", "there", "back", "conn", "sec", "byte",
                "connect", "secure", "byte", "ms"
            ));
            for row in &server.rows {
                text.push_str(&row_text(row));
            }
            if !server.pages.is_empty() {
                let title = format!("{RESOURCES} resources");
                text.push_str(&format!(
                    "  {title:<40} {:>5}{:>5}  {:>11}  {:>15}  {:>8}  {:>8}\n",
                    "there", "back", "connections", "round trips", "ms", "besides"
                ));
            }
            for page in &server.pages {
                let name = format!("TLS {}, {}", page.tls, page.mode);
                text.push_str(&format!(
                    "  {name:<40} {:>5}{:>5}  {:>11}  {:>15}  {:>8.1}  {:>8.1}\n",
                    page.packets_there,
                    page.packets_back,
                    page.connections,
                    page.total.round_trips,
                    page.total.ms,
                    page.total.besides_ms
                ));
            }
        }
        text.push_str(
            "\nround trips: answers that were waited for, counted from packets; besides: what is left of the last time without them\n",
        );
        text
    }
}

fn row_text(row: &Row) -> String {
    if !row.done {
        return format!("  {:<40} not offered by this server\n", row.name);
    }
    let trips = |step: Option<Step>| step.map_or("-".to_owned(), |step| step.round_trips.to_string());
    let time = |step: Option<Step>| step.map_or("-".to_owned(), |step| format!("{:.1}", step.ms));
    let last = row.first_byte.or(row.secured).unwrap_or(row.connected);
    let connected = Some(row.connected);
    format!(
        "  {:<40} {:>5}{:>5}  {:>4} {:>4} {:>4}  {:>8}{:>8}{:>8}  {:>8.1}\n",
        row.name,
        row.packets_there,
        row.packets_back,
        trips(connected),
        trips(row.secured),
        trips(row.first_byte),
        time(connected),
        time(row.secured),
        time(row.first_byte),
        last.besides_ms
    )
}

/// Milliseconds from one moment to another.
fn ms(from: Moment, to: Moment) -> f64 {
    (to.since(from).as_secs_f64() * 1e6).round() / 1e3
}
