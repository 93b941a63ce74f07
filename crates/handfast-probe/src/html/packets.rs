//! The packets of the median connection, for a browser: each flight as an arrow between two lines, and each packet in a table.
//!
//! In: what was captured, here at the client. Out: HTML. The server's ends of the arrows are half a round trip away from what was seen.

use handfast_html::{Table, details, legend};
use handfast_text::units;
use maud::{Markup, html};

use super::wide;
use crate::capture::PacketRow;
use crate::report::{Report, WireReport};
use crate::text::page::ms;

/// The most arrows; what comes behind them is in the table.
const MAX_ARROWS: usize = 60;
/// Pixels: the client's line, the server's line, the width, between two ends at the least and at the most.
const CLIENT: f64 = 96.0;
const SERVER: f64 = 330.0;
const WIDTH: f64 = 800.0;
const CLOSE: f64 = 17.0;
const FAR: f64 = 90.0;
/// Pixels that the whole time would have, if no two ends were close.
const WHOLE: f64 = 300.0;
/// The number of letters beside the server's line.
const LETTERS: usize = 66;

/// Both, if packets were captured.
pub(super) fn packets(report: &Report) -> Markup {
    let Some(wire) = &report.wire else { return Markup::default() };
    let content = html! {
        (flights(wire, report.rtt_ms.p50))
        (table(wire))
        @if wire.missed > 0 { p.bad { (units::counted(wire.missed, "packet")) " of all connections found no room." } }
    };
    let packets = units::count(wire.packets.len() as u64);
    wide(&format!("Packets of the median connection: {packets}"), &content)
}

/// Packets that one side sent one after the other.
struct Arrow<'a> {
    is_clients: bool,
    /// Times at which it began, at the client and at the server.
    client_ms: f64,
    server_ms: f64,
    last_ms: f64,
    bytes: u64,
    packets: u64,
    what: Vec<&'a str>,
}

impl Arrow<'_> {
    fn words(&self) -> String {
        let bytes = (self.bytes > 0)
            .then(|| format!("{} B, {}", units::count(self.bytes), units::counted(self.packets, "packet")));
        let what = Some(self.what.join(", ")).filter(|what| !what.is_empty());
        bytes.into_iter().chain(what).collect::<Vec<_>>().join(": ")
    }
}

/// The packets with data. A pause of half a round trip begins a new flight.
fn arrows(packets: &[PacketRow], rtt: f64) -> Vec<Arrow<'_>> {
    /// On one machine, more than a round trip.
    const MIN_PAUSE_MS: f64 = 0.3;
    let pause = (rtt / 2.0).max(MIN_PAUSE_MS);
    /// An answer begins below the end of its question; no two ends are at the same height.
    const AFTER_MS: f64 = 1e-3;
    let mut arrows: Vec<Arrow<'_>> = Vec::new();
    let mut last_received = f64::MIN;
    for packet in packets {
        let is_clients = packet.from == "client";
        let is_syn = packet.flags.contains(&"SYN");
        let flags = packet.flags.iter().copied().filter(|flag| is_syn || *flag != "ACK");
        let words: Vec<&str> = flags.chain(packet.what.iter().copied()).collect();
        if packet.bytes == 0 && words.is_empty() {
            continue;
        }
        let server_ms = match is_clients {
            true => packet.at_ms + rtt / 2.0,
            false => (packet.at_ms - rtt / 2.0).max(last_received + AFTER_MS).min(packet.at_ms),
        };
        let fits = |last: &&mut Arrow<'_>| {
            last.is_clients == is_clients
                && packet.at_ms - last.last_ms < pause
                && !last.what.contains(&"SYN")
        };
        let new = Arrow {
            is_clients,
            client_ms: packet.at_ms,
            server_ms,
            last_ms: packet.at_ms,
            bytes: 0,
            packets: 0,
            what: Vec::new(),
        };
        let arrow = match arrows.last_mut().filter(fits) {
            Some(last) => last,
            None => {
                last_received = if is_clients { server_ms } else { last_received };
                arrows.push(new);
                let Some(last) = arrows.last_mut() else { continue };
                last
            }
        };
        arrow.last_ms = packet.at_ms;
        arrow.bytes += u64::from(packet.bytes);
        arrow.packets += 1;
        for word in words {
            if arrow.what.last() != Some(&word) {
                arrow.what.push(word);
            }
        }
    }
    arrows
}

/// The height of each of these times: in order, with close ones spread apart and long pauses shortened.
fn heights(times: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let whole = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
    let mut y = 44.0;
    let mut before: Option<f64> = None;
    let place = |time: f64| {
        if let Some(before) = before {
            y += ((time - before) / whole * WHOLE).clamp(CLOSE, FAR);
        }
        before = Some(time);
        (time, y)
    };
    times.into_iter().map(place).collect()
}

fn flights(wire: &WireReport, rtt: f64) -> Markup {
    let mut arrows = arrows(&wire.packets, wire.connection.rtt_ms.unwrap_or(rtt));
    arrows.truncate(MAX_ARROWS);
    let heights = heights(arrows.iter().flat_map(|arrow| [arrow.client_ms, arrow.server_ms]));
    let y = |time: f64| heights.iter().find(|known| known.0 == time).map_or(0.0, |known| known.1);
    let end = heights.last().map_or(60.0, |last| last.1) + 24.0;
    html! {
        (legend([("teal", "this program"), ("orange", "server")]))
        p.soft { "Time runs downward, not to scale. Acknowledgements alone are left out." }
        div.scroll role="group" aria-label="Flights" tabindex="0" {
            svg.flights viewBox={ "0 0 " (WIDTH) " " (format_args!("{end:.0}")) } role="img"
                aria-label="flights between this program and the server" {
                @for (place, name) in [(CLIENT, "this program"), (SERVER, "server")] {
                    text x=(place) y="18" text-anchor="middle" { (name) }
                    line.life x1=(place) x2=(place) y1="26" y2=(format_args!("{end:.0}")) {}
                }
                @for arrow in &arrows { (flight(arrow, y(arrow.client_ms), y(arrow.server_ms))) }
            }
        }
    }
}

/// An arrow with its time and what it carries.
fn flight(arrow: &Arrow<'_>, near: f64, far: f64) -> Markup {
    let (colour, from, to) = match arrow.is_clients {
        true => ("teal", (CLIENT, near), (SERVER, far)),
        false => ("orange", (SERVER, far), (CLIENT, near)),
    };
    let words = arrow.words();
    let mut short: String = words.chars().take(LETTERS).collect();
    if short.len() < words.len() {
        short.push('…');
    }
    let one = |value: f64| format!("{value:.1}");
    html! { g {
        title { (words) }
        line class=(colour) x1=(one(from.0)) y1=(one(from.1)) x2=(one(to.0)) y2=(one(to.1)) {}
        path class={ "arrow " (colour) } d=(head(from, to)) {}
        text.soft x=(CLIENT - 10.0) y=(one(near + 4.0)) text-anchor="end" { (ms(arrow.client_ms)) }
        text x=(SERVER + 10.0) y=(one(far + 4.0)) { (short) }
    } }
}

/// The head of an arrow.
fn head(from: (f64, f64), to: (f64, f64)) -> String {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1.0);
    let (dx, dy) = (dx / length, dy / length);
    let back = |along: f64, aside: f64| (to.0 - dx * along - dy * aside, to.1 - dy * along + dx * aside);
    let [(ax, ay), (bx, by)] = [back(9.0, 4.0), back(9.0, -4.0)];
    format!("M{:.1} {:.1}L{ax:.1} {ay:.1}L{bx:.1} {by:.1}Z", to.0, to.1)
}

fn table(wire: &WireReport) -> Markup {
    let row = |packet: &PacketRow| {
        let from = if packet.from == "client" { "→ this program" } else { "← server" };
        let bytes = if packet.bytes > 0 { units::count(packet.bytes.into()) } else { String::new() };
        vec![ms(packet.at_ms), from.to_owned(), packet.flags.join(" "), bytes, packet.what.join(", ")]
    };
    let headings = "time|from|flags|#bytes|what is in it";
    let summary = format!("All {}", units::counted(wire.packets.len() as u64, "packet"));
    details(&summary, &Table::of_text("Packets", headings, wire.packets.iter().map(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(at_ms: f64, from: &'static str, flags: &[&'static str], bytes: u32) -> PacketRow {
        let what = if bytes > 1_000 { vec!["ServerHello"] } else { Vec::new() };
        PacketRow { at_ms, from, flags: flags.to_vec(), bytes, what }
    }

    #[test]
    fn packets_that_belong_together_are_one_arrow() {
        let packets = [
            packet(0.0, "client", &["SYN"], 0),
            packet(20.0, "server", &["SYN", "ACK"], 0),
            packet(20.1, "client", &["ACK"], 0),
            packet(20.2, "client", &["ACK"], 500),
            packet(40.2, "server", &["ACK"], 1_448),
            packet(40.3, "client", &["ACK"], 0),
            packet(40.4, "server", &["ACK"], 1_448),
            // Its window was full.
            packet(60.4, "server", &["ACK"], 700),
            packet(60.5, "client", &["FIN", "ACK"], 80),
        ];
        let arrows = arrows(&packets, 20.0);
        let words: Vec<String> = arrows.iter().map(Arrow::words).collect();
        let expected = [
            "SYN",
            "SYN, ACK",
            "500 B, 1 packet",
            "2,896 B, 2 packets: ServerHello",
            "700 B, 1 packet",
            "80 B, 1 packet: FIN",
        ];
        assert_eq!(words, expected);
        assert_eq!((arrows[2].client_ms, arrows[2].server_ms), (20.2, 30.2));
        assert_eq!(
            (arrows[4].client_ms, arrows[4].server_ms),
            (60.4, 50.4),
            "it left half a round trip before"
        );
        let slow = super::arrows(&packets, 24.0);
        assert!(slow[1].server_ms > slow[0].server_ms, "what is answered has arrived before");
    }

    #[test]
    fn ends_stand_in_order_and_apart() {
        let heights = heights([0.0, 10.0, 10.01, 10.0, 500.0].into_iter());
        let gaps: Vec<f64> = heights.windows(2).map(|two| two[1].1 - two[0].1).collect();
        assert_eq!((heights.len(), &gaps[..]), (4, &[CLOSE, CLOSE, FAR][..]));
        assert!(super::heights([1.0].into_iter()).iter().all(|place| place.1.is_finite()));
    }
}
