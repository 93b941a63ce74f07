//! Advice for changes, sorted by the time that they save, each with its evidence. In: a report without
//! advice. Out: advice, and notes. Pure.

use handfast_text::units;

use crate::keep_alive::KeepAlive;
use crate::report::{Advice, Note, Report};

/// Savings below this do not matter, and the measurement is less exact than this.
const MIN_SAVING_MS: f64 = 0.3;
/// A signature with ECDSA P-256 takes less.
const ECDSA_MS: f64 = 0.2;
/// If a handshake without a signature takes the server longer than this, the key is not the cause.
const SLOW_MS: f64 = 3.0;
/// A name resolution that takes longer gets an advice.
const SLOW_NAME_MS: f64 = 20.0;
/// A certificate with fewer days left should have been renewed.
const RENEWAL_DAYS: i64 = 14;

/// Advice, the greatest saving first; then what is good or worth knowing.
pub(crate) fn advice(report: &Report) -> (Vec<Advice>, Vec<Note>) {
    let rules: [fn(&Report) -> Option<Advice>; 13] = [
        name,
        starttls,
        old_version,
        hello_retry,
        window,
        nagle,
        signature,
        slow,
        no_tickets,
        tickets_not_shared,
        no_reuse,
        loss,
        family,
    ];
    let mut advice: Vec<Advice> = rules.iter().filter_map(|rule| rule(report)).collect();
    advice.sort_by(|one, other| other.saves_ms.total_cmp(&one.saves_ms));
    (advice, notes(report))
}

/// Milliseconds for people.
fn ms(ms: f64) -> String {
    units::duration(ms * 1e6)
}

fn rounded(ms: f64) -> f64 {
    (ms * 10.0).round() / 10.0
}

fn rtt(report: &Report) -> f64 {
    report.rtt_ms.p50
}

fn new(saves_ms: f64, topic: &'static str, what: String, evidence: String) -> Option<Advice> {
    Some(Advice { saves_ms: rounded(saves_ms), what, evidence, topic })
}

fn name(report: &Report) -> Option<Advice> {
    let lookup = report.full.timers.namelookup;
    (lookup.p50 > SLOW_NAME_MS).then_some(())?;
    new(
        lookup.p50,
        "dns",
        "The name takes long to resolve. A nearby resolver with a cache takes a millisecond; a longer time to live keeps the answer in its cache.".into(),
        format!("median of {} resolutions {}, p95 {}", lookup.count, ms(lookup.p50), ms(lookup.p95)),
    )
}

fn starttls(report: &Report) -> Option<Advice> {
    let trips = report.full.round_trips.starttls;
    (trips > 0).then_some(())?;
    new(
        f64::from(trips) * rtt(report),
        "starttls",
        "Asking for TLS in plain text costs round trips before the handshake. Where the protocol has a port for TLS from the first byte (465, 993, 995, 636, 5223), that takes none.".into(),
        format!("{} of {} before the ClientHello", units::counted(trips.into(), "round trip"), ms(rtt(report))),
    )
}

fn old_version(report: &Report) -> Option<Advice> {
    (report.agreed.version == Some("TLSv1.2") && report.full.round_trips.handshake >= 2).then_some(())?;
    new(
        rtt(report),
        "tls13",
        "The server speaks TLS 1.2. TLS 1.3 takes a round trip less in each full handshake.".into(),
        format!(
            "the handshake took {} round trips of {}",
            report.full.round_trips.handshake,
            ms(rtt(report))
        ),
    )
}

fn hello_retry(report: &Report) -> Option<Advice> {
    report.agreed.hello_retry.then_some(())?;
    let group = report.agreed.group.unwrap_or("another group");
    new(
        rtt(report),
        "hello-retry",
        format!(
            "The server does not take the key share that clients send first, and asks for {group} by a HelloRetryRequest. Allow X25519 (and X25519MLKEM768) on the server."
        ),
        "the first answer was a HelloRetryRequest, and a second ClientHello had to follow".into(),
    )
}

fn window(report: &Report) -> Option<Advice> {
    let trips = report.full.round_trips.window;
    (trips > 0 && report.window.full).then_some(())?;
    let flight: usize = report.full.flights.iter().map(|flight| flight.bytes).sum();
    let over = flight.saturating_sub(report.window.first_bytes);
    let roots: usize =
        report.certificates.chain.iter().skip(1).filter(|one| one.self_issued).map(|one| one.bytes).sum();
    let root = match roots {
        0 => String::new(),
        bytes => format!(
            "leave the root certificate away ({} bytes, clients have it) · ",
            units::count(bytes as u64)
        ),
    };
    let segments = flight.div_ceil(report.window.segment.max(1));
    new(
        f64::from(trips) * rtt(report),
        "initial-window",
        format!(
            "The server's flight does not fit its initial window. Any one is enough: {root}a shorter chain (ECDSA certificates) · \
             certificate compression · `ip route change … initcwnd {}` on the server",
            segments.div_ceil(2) * 2
        ),
        format!(
            "{} bytes came in {} segments, then nothing for a round trip; the other {} bytes came one round trip after the first",
            units::count(report.window.first_bytes as u64),
            report.window.first_segments,
            units::count(over as u64)
        ),
    )
}

fn nagle(report: &Report) -> Option<Advice> {
    let trips = report.full.round_trips.nagle;
    (trips > 0).then_some(())?;
    let flights = &report.full.flights;
    let held: usize = flights.iter().filter(|flight| flight.held_by_nagle).map(|flight| flight.bytes).sum();
    new(
        f64::from(trips) * rtt(report),
        "nagle",
        "The server writes its flight in pieces, and its kernel holds the last one until the one before it is acknowledged \
         (Nagle's algorithm). Set TCP_NODELAY on the server's sockets, or write the flight with one call."
            .into(),
        format!(
            "{} bytes, less than a segment, came one round trip after the rest, which is when our acknowledgement had arrived",
            units::count(held as u64)
        ),
    )
}

/// Additional server time of a full handshake compared with a resumed one: signature and certificate. The least of each: time that a busy
/// machine adds by chance is not the key's fault.
fn signing(report: &Report) -> Option<f64> {
    let resumed = report.resumed.as_ref().filter(|resumed| resumed.as_asked == resumed.count)?;
    Some(report.full.server_ms.min - resumed.server_ms.min)
}

fn signature(report: &Report) -> Option<Advice> {
    let signing = signing(report)?;
    let leaf = report.certificates.chain.first()?;
    let rsa = leaf.key.starts_with("RSA");
    (signing - ECDSA_MS > if rsa { MIN_SAVING_MS } else { SLOW_MS }).then_some(())?;
    let what = match rsa {
        true => format!(
            "Signing with {} takes the server about {}. ECDSA P-256 takes less than 0.1 ms on most machines.",
            leaf.key,
            ms(signing)
        ),
        false => format!(
            "A full handshake keeps the server busy for {} more than a resumed one, and {} is not a slow key: look for a key that is elsewhere (HSM, key server), or a queue in front of the signature.",
            ms(signing),
            leaf.key
        ),
    };
    let resumed = report.resumed.as_ref()?;
    new(
        signing - ECDSA_MS,
        if rsa { "rsa" } else { "think-time" },
        what,
        format!(
            "at best, the first byte came {} after the server's kernel had our ClientHello; in resumed handshakes, which need no signature, {}; round trip {} ± {}",
            ms(report.full.server_ms.min),
            ms(resumed.server_ms.min),
            ms(rtt(report)),
            ms(report.rtt_ms.p95 - report.rtt_ms.p50)
        ),
    )
}

fn slow(report: &Report) -> Option<Advice> {
    let resumed = report.resumed.as_ref().filter(|resumed| resumed.as_asked > 0);
    let busy = resumed.map_or(report.full.server_ms.min, |resumed| resumed.server_ms.min);
    let least = if resumed.is_some() { SLOW_MS } else { 2.0 * SLOW_MS };
    (busy > least).then_some(())?;
    new(
        busy - 0.5,
        "early-termination",
        format!(
            "The server waits {} before it answers, also where there is nothing to compute: its accept loop is late, or TCP ends in front of TLS (a load balancer or CDN that connects on to a machine further away).",
            ms(busy)
        ),
        format!(
            "its kernel answers SYNs in {}; the first byte of {} handshakes comes {} later than that, at best",
            ms(rtt(report)),
            if resumed.is_some() { "resumed" } else { "full" },
            ms(busy)
        ),
    )
}

fn saved_by_resuming(report: &Report) -> f64 {
    let trips = report.full.round_trips;
    // A resumed handshake has one round trip, and no certificate.
    let fewer = f64::from(trips.handshake.saturating_sub(1));
    fewer * rtt(report) + (report.full.server_ms.p50 - ECDSA_MS).max(0.0) + report.full.own_ms.p50 / 2.0
}

fn no_tickets(report: &Report) -> Option<Advice> {
    let tickets = report.tickets;
    let (what, evidence) = match (report.resumed.is_none(), tickets.offered > tickets.taken) {
        (true, _) => (
            "The server gives no tickets: each visitor who comes back makes a full handshake.",
            "no ticket came within half a second and two round trips after the handshake".to_owned(),
        ),
        (_, true) => (
            "The server gives tickets and does not always take them: machines behind this address that do not share ticket keys, or keys that change too often.",
            format!("{} of {} tickets were taken", tickets.taken, tickets.offered),
        ),
        _ => return None,
    };
    new(saved_by_resuming(report), "resumption", what.to_owned(), evidence)
}

fn tickets_not_shared(report: &Report) -> Option<Advice> {
    let tried = report.addresses.iter().filter_map(|address| address.takes_tickets_of_first);
    let (tried, refused) = tried.fold((0, 0), |(all, no), takes| (all + 1, no + u32::from(!takes)));
    (refused > 0).then_some(())?;
    new(
        saved_by_resuming(report),
        "resumption",
        "Tickets are not shared by all addresses of the name: who comes back and gets another address makes a full handshake. Give all machines the same ticket keys.".into(),
        format!("{refused} of {tried} other addresses did not take a ticket of the first one"),
    )
}

fn no_reuse(report: &Report) -> Option<Advice> {
    let http = report.http.as_ref()?;
    // Servers end connections after an error, whatever they do after a response.
    (!http.reused && !is_error(http.status)).then_some(())?;
    let timers = &report.full.timers;
    new(
        timers.appconnect.p50 - timers.namelookup.p50,
        "keep-alive",
        "The server closes the connection after one response: each request pays for a new one. Turn keep-alive on.".into(),
        "no second request was possible on the same connection".into(),
    )
}

fn is_error(status: u16) -> bool {
    status >= 400
}

fn loss(report: &Report) -> Option<Advice> {
    let lost = report.loss.retransmitted;
    (lost > 0).then_some(())?;
    let all = report.full.count + report.resumed.as_ref().map_or(0, |resumed| resumed.count);
    new(
        (report.full.timers.appconnect.max - report.full.timers.appconnect.p50) * f64::from(lost) / all.max(1) as f64,
        "loss",
        "Packets are lost on the way: single connections wait for a retransmission, 200 ms and more. This is the network and not the server.".into(),
        format!("{} of ours in {all} connections had to be sent again, {} of the server's came out of order", units::counted(lost.into(), "segment"), report.loss.out_of_order),
    )
}

fn family(report: &Report) -> Option<Advice> {
    let broken: Vec<&str> =
        report.addresses.iter().filter(|one| one.error.is_some()).map(|one| one.address.as_str()).collect();
    (!broken.is_empty()).then_some(())?;
    let error = report.addresses.iter().find_map(|one| one.error.as_ref())?;
    new(
        // Browsers wait this long before they try the next address (RFC 8305 §8).
        250.0,
        "addresses",
        format!(
            "The name has addresses that do not work: {}. A client that takes one of them first waits, a quarter of a second or much more. Repair them, or take them out of DNS.",
            broken.join(", ")
        ),
        error.what.clone(),
    )
}

fn notes(report: &Report) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut say = |good: bool, what: String| notes.push(Note { good, what });
    let tickets = report.tickets;
    if tickets.offered > 0 && tickets.taken == tickets.offered {
        say(true, format!("resumption works: {} of {} tickets were taken", tickets.taken, tickets.offered));
    }
    let shared = report.addresses.iter().filter(|one| one.takes_tickets_of_first == Some(true)).count();
    if shared > 0 && report.addresses.iter().all(|one| one.takes_tickets_of_first != Some(false)) {
        say(true, format!("tickets are shared by all {} addresses", shared + 1));
    }
    match (report.agreed.post_quantum, report.agreed.group) {
        (true, Some(group)) => say(true, format!("the key exchange withstands quantum computers ({group})")),
        (false, Some(group)) => {
            say(false, format!("the key exchange does not withstand quantum computers ({group})"))
        }
        _ => {}
    }
    match (report.certificates.trusted, &report.certificates.why_not) {
        (Some(true), _) => say(true, "the certificate is trusted, and for this name".into()),
        (Some(false), Some(why)) => say(false, format!("the certificate is not trusted: {why}")),
        _ => say(false, "the certificate was not verified".into()),
    }
    certificate_notes(report, &mut say);
    if let Some(http) = &report.http {
        if is_error(http.status) {
            let cure = match http.status {
                421 => {
                    ": this connection is not for the host of the request; give the name with --sni, or in the URL"
                }
                _ => ": name a path that the server has, to see what it does after a response",
            };
            say(false, format!("the request was answered with status {}{cure}", http.status));
        }
        match &http.hsts {
            Some(hsts) => say(true, format!("HSTS: {hsts}")),
            None => say(false, "no HSTS: browsers may come by plain HTTP first".into()),
        }
        if http.reused {
            say(
                true,
                format!(
                    "keep-alive works: a further request took {}, with connect 0 and TLS 0",
                    ms(http.again_ms.p50)
                ),
            );
        }
    }
    if let Some(kept) = report.http.as_ref().and_then(|http| http.kept) {
        kept_notes(kept, &mut say);
    }
    let close = &report.close;
    match (close.close_notify, close.ended_by) {
        (true, "fin" | "nothing") => say(true, "it closes connections cleanly, with close_notify".into()),
        (_, "reset") => say(
            false,
            "it answers close_notify with a TCP reset: what is still on its way to the client is lost".into(),
        ),
        (false, "fin") => {
            say(false, "it ends without close_notify: clients cannot tell the end from a cut".into())
        }
        _ => say(false, "it does not end a connection that the client has ended".into()),
    }
    notes
}

fn kept_notes(kept: KeepAlive, say: &mut impl FnMut(bool, String)) {
    /// A visitor who reads a page and then follows a link does so within this time.
    const SOON_MS: f64 = 5_000.0;
    /// Apache's default.
    const MIN_KEEP_ALIVE_REQUESTS: u32 = 100;
    match kept.idle_ms {
        Some(idle) => say(
            idle >= SOON_MS,
            format!("an idle connection is kept for {}, then ended by {}", ms(idle), kept.idle_ended_by),
        ),
        None => say(true, format!("an idle connection is still open after {}", ms(kept.bound_ms))),
    }
    let requests = units::counted(kept.requests.into(), "request");
    match (kept.requests_ended, kept.announced) {
        (false, _) => say(true, format!("a connection is still open after {requests}")),
        (true, true) => say(
            kept.requests >= MIN_KEEP_ALIVE_REQUESTS,
            format!("a connection is kept for {requests}, and the last response announces its end"),
        ),
        (true, false) => say(
            false,
            format!("a connection is ended after {requests}, and the last response does not announce it"),
        ),
    }
}

fn certificate_notes(report: &Report, say: &mut impl FnMut(bool, String)) {
    let chain = &report.certificates.chain;
    if let Some(leaf) = chain.first() {
        match leaf.days_left {
            left @ ..0 => {
                say(false, format!("the certificate expired {} days ago, on {}", -left, leaf.not_after))
            }
            left @ 0..=RENEWAL_DAYS => {
                say(false, format!("the certificate expires in {left} days, on {}", leaf.not_after))
            }
            left => say(true, format!("the certificate is good for {left} days, up to {}", leaf.not_after)),
        }
    }
    if report.certificates.demands_staple && report.certificates.staple_bytes == 0 {
        say(
            false,
            "the certificate demands an OCSP response (must-staple), and none came: clients that check this, such as Firefox, refuse it"
                .into(),
        );
    }
    for one in chain {
        if let Some(weakness) = &one.weakness {
            say(false, format!("the key of {} {weakness}", one.subject));
        }
    }
    if chain.iter().skip(1).any(|one| one.self_issued) {
        say(false, "the chain has a root certificate, which clients have already".into());
    }
}

#[cfg(test)]
pub(crate) mod tests;
