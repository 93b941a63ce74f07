//! The rows of a report that a terminal and a browser both show. In: a report. Out: words and figures. Pure.

use handfast_text::units;

use crate::report::{AddressReport, Flight, Kind, Report, Spread};
use crate::text::page::ms;

/// One of curl's timers.
pub(crate) struct Timer {
    pub(crate) name: &'static str,
    pub(crate) full: Spread,
    pub(crate) resumed: Option<Spread>,
    /// Round trips of this step.
    pub(crate) trips: String,
    /// As few as they could be, where they are more.
    pub(crate) could_be: Option<u32>,
}

/// curl's timers, as far as there are figures.
pub(crate) fn timers(report: &Report) -> Vec<Timer> {
    type Figure = fn(&Kind) -> Option<Spread>;
    let trips = report.full.round_trips;
    let handshake = match trips.starttls {
        0 => trips.handshake.to_string(),
        starttls => format!("{starttls} + {}", trips.handshake),
    };
    let request = trips.request.map_or("–".to_owned(), |trips| trips.to_string());
    let least = if report.agreed.version == Some("TLSv1.2") { 2 } else { 1 };
    let rows: [(&str, Figure, String); 6] = [
        ("time_namelookup", |kind| Some(kind.timers.namelookup), "–".into()),
        ("time_connect", |kind| Some(kind.timers.connect), "1".into()),
        ("time_appconnect", |kind| Some(kind.timers.appconnect), handshake),
        ("time_pretransfer", |kind| kind.timers.pretransfer, "–".into()),
        ("time_starttransfer", |kind| kind.timers.starttransfer, request),
        ("time_total", |kind| kind.timers.total, "–".into()),
    ];
    let row = |(name, figure, trips): (&'static str, Figure, String)| {
        let could_be =
            (name == "time_appconnect" && report.full.round_trips.handshake > least).then_some(least);
        let resumed = report.resumed.as_ref().and_then(figure);
        Some(Timer { name, full: figure(&report.full)?, resumed, trips, could_be })
    };
    rows.into_iter().filter_map(row).collect()
}

/// A part of the handshake: what, how many milliseconds, which share of the whole.
pub(crate) struct Part {
    pub(crate) what: String,
    pub(crate) ms: f64,
    pub(crate) share: f64,
}

/// Parts of the handshake's time.
pub(crate) fn parts(report: &Report) -> [Part; 4] {
    let full = &report.full;
    let whole = full.handshake_ms.p50;
    let trips = full.round_trips.handshake;
    let network = f64::from(trips) * report.rtt_ms.p50;
    let how = if full.server_known_by == "acknowledgement" { "" } else { ", at most" };
    let rest = (whole - network - full.server_ms.p50 - full.own_ms.p50).max(0.0);
    [
        (format!("{} × {}", units::counted(trips.into(), "round trip"), ms(report.rtt_ms.p50)), network),
        (format!("the server, before its flights{how}"), full.server_ms.p50),
        ("our own computing".to_owned(), full.own_ms.p50),
        ("transfer, and waiting for a core".to_owned(), rest),
    ]
    .map(|(what, ms)| Part { what, ms, share: if whole > 0.0 { ms / whole } else { 0.0 } })
}

/// Bytes on the wire, and a remark.
pub(crate) struct Sent {
    pub(crate) what: String,
    pub(crate) bytes: usize,
    pub(crate) more: String,
}

/// Bytes on the wire in a full handshake.
pub(crate) fn bytes(report: &Report) -> Vec<Sent> {
    let packets = |count: usize| units::counted(count as u64, "packet");
    let hello = report.hello;
    let mut rows =
        vec![Sent { what: "ClientHello".into(), bytes: hello.bytes, more: packets(hello.segments as usize) }];
    let flights = &report.full.flights;
    rows.extend(flights.iter().enumerate().map(|(place, flight)| Sent {
        what: format!("server's flight {}", place + 1),
        bytes: flight.bytes,
        more: packets(flight.segments) + remark(flight, flights.get(place + 1)),
    }));
    let certificates = &report.certificates;
    rows.push(Sent { what: "certificates".into(), bytes: certificates.bytes, more: keys(report) });
    if certificates.staple_bytes > 0 {
        rows.push(Sent {
            what: "OCSP response".into(),
            bytes: certificates.staple_bytes,
            more: String::new(),
        });
    }
    rows
}

fn remark(flight: &Flight, next: Option<&Flight>) -> &'static str {
    let is_held = flight.held_by_window || flight.held_by_nagle;
    match next {
        Some(next) if next.held_by_window => ", window full: it had to wait",
        Some(next) if next.held_by_nagle => ", the rest was held (Nagle)",
        _ if is_held => " ◄ the extra round trip",
        _ if flight.after_pause => ", after a pause",
        _ => "",
    }
}

/// The chain's keys, its own first; equal ones behind each other once.
fn keys(report: &Report) -> String {
    let keys: Vec<&str> = report.certificates.chain.iter().map(|one| one.key.as_str()).collect();
    let groups = keys.chunk_by(|one, other| one == other);
    let words = groups.map(|group| match group.len() {
        1 => group[0].to_owned(),
        several => format!("{several} × {}", group[0]),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The initial window, and what was lost.
pub(crate) fn window(report: &Report) -> String {
    let (window, loss) = (report.window, report.loss);
    format!(
        "initial window {} {} segments of {} B; {} sent again, {} out of order",
        if window.full { "=" } else { "≥" },
        window.first_segments,
        units::count(window.segment as u64),
        loss.retransmitted,
        loss.out_of_order
    )
}

/// Reports the time for which the server worked on the request; `None`: there was none.
pub(crate) fn request(report: &Report) -> Option<String> {
    let http = report.http.as_ref().filter(|http| http.server_ms.count > 0)?;
    Some(format!(
        "HTTP {}: the server worked on the request for {} (p95 {})",
        http.status,
        ms(http.server_ms.p50),
        ms(http.server_ms.p95)
    ))
}

/// Resumed connections: a title, and sentences.
pub(crate) fn resumed(report: &Report) -> (String, Vec<String>) {
    let tickets = report.tickets;
    let Some(resumed) = &report.resumed else { return ("Resumed: no ticket came".into(), Vec::new()) };
    let saved = report.full.timers.appconnect.p50 - resumed.timers.appconnect.p50;
    let title = format!("Resumed {}, {} less", ms(resumed.timers.appconnect.p50), ms(saved.max(0.0)));
    let lifetime = tickets
        .lifetime_seconds
        .map_or("not said".into(), |seconds| units::long(std::time::Duration::from_secs(seconds)));
    let trips = units::counted(resumed.round_trips.handshake.into(), "round trip");
    let mut lines = vec![
        format!("{trips}, server {}", ms(resumed.server_ms.p50)),
        format!(
            "{} after a full handshake, good for {lifetime}; {} of {} taken",
            units::counted(tickets.count as u64, "ticket"),
            tickets.taken,
            tickets.offered
        ),
    ];
    match &report.early {
        Some(early) => {
            let first = early.timers.starttransfer.map_or(0.0, |spread| spread.p50);
            lines.push(format!("0-RTT: first byte after {} (early data can be replayed)", ms(first)));
        }
        None if tickets.early_data_bytes > 0 => {
            let bytes = units::count(tickets.early_data_bytes.into());
            lines.push(format!("0-RTT: the server allows {bytes} bytes (they can be replayed)"));
        }
        None => {}
    }
    (title, lines)
}

/// The remark about an address.
pub(crate) fn address(one: &AddressReport) -> String {
    match (&one.error, one.takes_tickets_of_first) {
        (Some(error), _) => error.what.clone(),
        (None, Some(true)) => "takes the first one's tickets".into(),
        (None, Some(false)) => "does not take the first one's tickets".into(),
        (None, None) => String::new(),
    }
}

/// Reports the number of connections of each kind.
pub(crate) fn connections(report: &Report) -> String {
    let resumed = report.resumed.as_ref().map_or(0, |resumed| resumed.count);
    let failed: usize = report.failures.iter().map(|failed| failed.count).sum();
    let early = report.early.as_ref();
    let early = early.map(|early| format!(" + {} with early data", early.count)).unwrap_or_default();
    format!("{} full + {resumed} resumed{early} connections, in turn; {failed} failed", report.full.count)
}

/// Parameters that both sides agreed on.
pub(crate) fn agreed(report: &Report) -> Vec<String> {
    let agreed = &report.agreed;
    let words = [agreed.version, agreed.group, agreed.suite, agreed.signature, agreed.alpn.as_deref()];
    words.into_iter().flatten().map(units::plain).collect()
}
