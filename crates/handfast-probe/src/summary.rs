//! Facts that the connections to one target have in common.
//!
//! In: everything that was measured. Out: the [`Report`]. Pure.

use std::time::SystemTime;

use handfast_text::calendar::Utc;

use crate::advice;
use crate::attempt::Attempt;
use crate::flights::{Because, TimeSource, before_waiting};
use crate::measured::{Measured, Other};
use crate::page;
use crate::report::{
    AddressReport, AgreedReport, Certificate, Certificates, CloseReport, Failed, Flight, HelloReport,
    HttpReport, Kind, Loss, Report, SCHEMA, Spread, TargetReport, Tickets, Timers, Trips, WindowReport,
};
use crate::waterfall;

/// The report.
pub(crate) fn report(measured: &Measured) -> Report {
    let settings = &measured.options;
    let middle = middle(&measured.full);
    let all = || measured.full.iter().chain(&measured.resumed);
    let mut report = Report {
        schema: SCHEMA,
        program: settings.program.clone(),
        started: Utc::of(measured.started).to_seconds().to_string(),
        target: TargetReport {
            name: settings.target.to_string(),
            server_name: measured.server_name.clone(),
            address: measured.address.ip().to_string(),
            starttls: settings.target.starttls.map(handfast_wire::starttls::Protocol::name),
        },
        addresses: addresses(measured),
        agreed: agreed(measured),
        runs: settings.runs,
        failures: failures(measured),
        full: kind(&measured.full, &measured.lookups, Some(false)),
        resumed: some(kind(&measured.resumed, &measured.lookups, Some(true))),
        early: some(kind(&measured.early, &measured.lookups, Some(true))),
        rtt_ms: Spread::of(all().map(|attempt| attempt.rtt)),
        hello: HelloReport { bytes: middle.hello_bytes, segments: middle.hello_segments },
        window: window(&measured.full, middle),
        certificates: certificates(measured),
        tickets: tickets(measured),
        close: close(&measured.first),
        http: http(measured),
        loss: Loss {
            retransmitted: all().map(|attempt| attempt.counts.retransmissions).sum(),
            out_of_order: all().map(|attempt| attempt.counts.out_of_order).sum(),
        },
        advice: Vec::new(),
        notes: Vec::new(),
        limits: Vec::new(),
        page: None,
        local: middle.local,
        wire: None,
        waterfall: waterfall::spans(middle, Spread::of(measured.lookups.iter().copied()).p50),
        both_ends: None,
        seen: measured.seen,
    };
    report.page = settings.page.as_ref().map(|page| page::model(page, &report));
    report.limits = settings.limits.iter().map(|limit| limit.judge(&report)).collect();
    (report.advice, report.notes) = advice::advice(&report);
    report
}

fn some(kind: Kind) -> Option<Kind> {
    (kind.count > 0).then_some(kind)
}

/// The one in the middle by its time, of those that took as many round trips as most; there is at least one.
fn middle(all: &[Attempt]) -> &Attempt {
    let usual = most(all.iter().map(Attempt::trips));
    let mut order: Vec<&Attempt> = all.iter().filter(|one| one.trips() == usual).collect();
    order.sort_by(|one, other| one.secured.total_cmp(&other.secured));
    order[(order.len() - 1) / 2]
}

/// The most frequent of these figures.
fn most(figures: impl Iterator<Item = u32>) -> u32 {
    let mut all: Vec<u32> = figures.collect();
    all.sort_unstable();
    let count = |figure: u32| all.iter().filter(|one| **one == figure).count();
    // Of two equally frequent values the smaller one: noise only adds.
    all.iter().rev().copied().max_by_key(|figure| (count(*figure), std::cmp::Reverse(*figure))).unwrap_or(0)
}

/// Round trips of the handshake that were waited for within a flight, for this reason.
fn trips_because(attempt: &Attempt, because: Because) -> u32 {
    let bursts = attempt.handshake().flat_map(|exchange| &exchange.bursts);
    bursts.filter(|burst| burst.because == because && burst.first_ms <= attempt.secured).count() as u32
}

fn kind(all: &[Attempt], lookups: &[f64], resumed: Option<bool>) -> Kind {
    if all.is_empty() {
        return Kind::default();
    }
    let middle = middle(all);
    let lookup = |place: usize| lookups.get(place + 1).or(lookups.last()).copied().unwrap_or(0.0);
    let spread = |figure: fn(&Attempt) -> f64| {
        Spread::of(all.iter().enumerate().map(|(place, one)| figure(one) + lookup(place)))
    };
    let of_request = |figure: fn(&Attempt) -> Option<f64>| {
        let figures: Vec<f64> =
            all.iter().enumerate().filter_map(|(place, one)| Some(figure(one)? + lookup(place))).collect();
        (!figures.is_empty()).then(|| Spread::of(figures))
    };
    let request = |one: &Attempt| Some(one.trips_to_first_byte()?.saturating_sub(one.trips()));
    let requests: Vec<u32> = all.iter().filter_map(request).collect();
    let known = middle.handshake().next().map_or(TimeSource::RoundTrip, |exchange| exchange.known);
    Kind {
        count: all.len(),
        as_asked: all.iter().filter(|one| one.agreed.resumed == resumed).count(),
        timers: Timers {
            namelookup: Spread::of((0..all.len()).map(lookup)),
            connect: spread(|one| one.connected),
            appconnect: spread(|one| one.secured),
            pretransfer: of_request(|one| one.requested),
            starttransfer: of_request(|one| one.first_byte),
            total: of_request(|one| one.complete),
        },
        round_trips: Trips {
            connect: 1,
            starttls: most(all.iter().map(|one| one.starttls_trips)),
            handshake: most(all.iter().map(Attempt::trips)),
            window: most(all.iter().map(|one| trips_because(one, Because::Window))),
            nagle: most(all.iter().map(|one| trips_because(one, Because::Nagle))),
            request: (!requests.is_empty()).then(|| most(requests.iter().copied())),
        },
        handshake_ms: Spread::of(all.iter().map(Attempt::tls)),
        server_ms: Spread::of(all.iter().map(Attempt::think)),
        own_ms: Spread::of(all.iter().map(|one| one.own)),
        server_known_by: match known {
            TimeSource::Acknowledgement => "acknowledgement",
            TimeSource::RoundTrip => "round-trip",
        },
        flights: flights(middle),
    }
}

/// Bytes of a full segment. The kernel knows the largest that came; if no segment was full, its size is assumed to be ours.
fn segment(attempt: &Attempt) -> usize {
    let counts = &attempt.counts;
    (counts.received_segment_size.max(counts.sent_segment_size) as usize).max(1)
}

fn flights(attempt: &Attempt) -> Vec<Flight> {
    let bursts = attempt
        .handshake()
        .flat_map(|exchange| &exchange.bursts)
        .filter(|burst| burst.first_ms <= attempt.secured);
    let flight = |burst: &crate::flights::Burst| Flight {
        bytes: burst.bytes,
        segments: burst.bytes.div_ceil(segment(attempt)),
        held_by_window: burst.because == Because::Window,
        held_by_nagle: burst.because == Because::Nagle,
        after_pause: burst.because == Because::Pause,
    };
    bursts.map(flight).collect()
}

/// The initial window: the most that came at once in any of the connections, since a server that was interrupted sends less.
fn window(all: &[Attempt], middle: &Attempt) -> WindowReport {
    let full = before_waiting(middle.handshake()).1;
    let of_kind = all.iter().map(|one| before_waiting(one.handshake())).filter(|(_, held)| *held == full);
    let first_bytes = of_kind.map(|(bytes, _)| bytes).max().unwrap_or(0);
    let segment = segment(middle);
    WindowReport { segment, first_bytes, first_segments: first_bytes.div_ceil(segment), full }
}

fn addresses(measured: &Measured) -> Vec<AddressReport> {
    let median = |all: &[Attempt], figure: fn(&Attempt) -> f64| {
        (!all.is_empty()).then(|| Spread::of(all.iter().map(figure)).p50)
    };
    let first = AddressReport {
        address: measured.address.ip().to_string(),
        connect_ms: median(&measured.full, |one| one.connected),
        appconnect_ms: median(&measured.full, |one| one.secured),
        takes_tickets_of_first: None,
        error: None,
    };
    let other = |other: &Other| AddressReport {
        address: other.address.ip().to_string(),
        connect_ms: median(&other.made, |one| one.connected),
        appconnect_ms: median(&other.made, |one| one.secured),
        takes_tickets_of_first: other.takes_tickets,
        error: other.error.clone(),
    };
    std::iter::once(first).chain(measured.others.iter().map(other)).collect()
}

fn agreed(measured: &Measured) -> AgreedReport {
    let agreed = &measured.first.agreed;
    AgreedReport {
        version: agreed.version,
        suite: agreed.suite,
        group: agreed.group,
        signature: agreed.signature,
        alpn: agreed.alpn.as_deref().map(str::to_owned),
        hello_retry: agreed.hello_retry,
        post_quantum: agreed.group.is_some_and(|group| group.contains("MLKEM")),
    }
}

fn failures(measured: &Measured) -> Vec<Failed> {
    let mut failures: Vec<Failed> = Vec::new();
    for error in &measured.failed {
        match failures.iter_mut().find(|failed| failed.error == *error) {
            Some(failed) => failed.count += 1,
            None => failures.push(Failed { count: 1, error: error.clone() }),
        }
    }
    failures
}

fn certificates(measured: &Measured) -> Certificates {
    let now =
        measured.started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let date = |seconds: i64| Utc::of_seconds(seconds).date().to_string();
    let shown = |shown: &handfast_tls::client::observed::Shown| Certificate {
        bytes: shown.bytes,
        subject: shown.subject.clone(),
        key: shown.key.to_owned(),
        not_before: date(shown.not_before),
        not_after: date(shown.not_after),
        days_left: (shown.not_after - now).div_euclid(86_400),
        names: shown.dns_names.len() + shown.ip_names.len(),
        self_issued: shown.self_issued,
        weakness: shown.weakness.clone(),
    };
    let verified = measured.options.settings.verification != handfast_tls::client::Verification::Off;
    Certificates {
        chain: measured.first.chain.iter().map(shown).collect(),
        bytes: measured.first.chain.iter().map(|one| one.bytes).sum(),
        staple_bytes: measured.staple,
        demands_staple: measured.first.chain.first().is_some_and(|own| own.demands_staple),
        trusted: verified.then_some(measured.distrust.is_none()),
        why_not: measured.distrust.clone(),
    }
}

fn tickets(measured: &Measured) -> Tickets {
    let (offered, taken) = offered_and_taken(&measured.resumed);
    Tickets {
        count: measured.first.tickets,
        lifetime_seconds: measured
            .ticket
            .and_then(|ticket| ticket.lifetime)
            .map(|lifetime| lifetime.as_secs()),
        early_data_bytes: measured.ticket.map_or(0, |ticket| ticket.early_data),
        offered,
        taken,
    }
}

/// Number of the connections that offered a ticket, and the number of these with which it was taken.
fn offered_and_taken(all: &[Attempt]) -> (usize, usize) {
    let offered = all.iter().filter(|one| one.offered);
    (offered.clone().count(), offered.filter(|one| one.agreed.resumed == Some(true)).count())
}

fn close(look: &Attempt) -> CloseReport {
    let closing = look.closing.unwrap_or_default();
    CloseReport {
        close_notify: closing.notified,
        ended_by: closing.how.name(),
        after_our_fin: !closing.at_once,
    }
}

fn http(measured: &Measured) -> Option<HttpReport> {
    let look = &measured.first;
    let head = look.head.as_ref()?;
    let busy = |one: &Attempt| Some((one.first_byte? - one.requested? - one.rtt).max(0.0));
    Some(HttpReport {
        status: head.status,
        body_bytes: look.body_bytes,
        server: head.server.clone(),
        hsts: head.hsts.clone(),
        keep_alive: head.keep_alive.clone(),
        reused: !look.again.is_empty(),
        again_ms: Spread::of(look.again.iter().copied()),
        server_ms: Spread::of(measured.full.iter().filter_map(busy)),
        kept: measured.kept,
    })
}

#[cfg(test)]
mod tests {
    use handfast_net::sys::stamps::Counts;

    use super::*;
    use crate::flights::{Burst, Exchange};

    /// A connection whose server sent so much, then waited for us, and sent the rest.
    fn attempt(first: usize, rest: usize, secured: f64) -> Attempt {
        let burst = |first_ms: f64, bytes, because| Burst { first_ms, last_ms: first_ms, bytes, because };
        let mut bursts = vec![burst(40.0, first, Because::Answer)];
        if rest > 0 {
            bursts.push(burst(60.0, rest, Because::Window));
            // The answer to the request, on the heels of the handshake.
            bursts.push(burst(secured + 1.0, 8, Because::Window));
        }
        // After the handshake, which is not counted here.
        let later =
            vec![burst(secured + 20.0, 90_000, Because::Answer), burst(secured + 40.0, 9, Because::Window)];
        let exchange = |sent_ms, bursts| Exchange {
            sent_ms,
            sent_bytes: 300,
            bursts,
            think_ms: 1.0,
            known: TimeSource::RoundTrip,
        };
        let counts = Counts { received_segment_size: 1_448, ..Counts::default() };
        Attempt {
            secured,
            counts,
            exchanges: vec![exchange(20.0, bursts), exchange(secured, later)],
            ..Attempt::default()
        }
    }

    #[test]
    fn the_window_is_the_most_that_came_before_the_server_had_to_wait() {
        let all = [attempt(13_000, 7_000, 61.0), attempt(14_232, 6_067, 62.0), attempt(20_000, 0, 41.0)];
        let found = window(&all, &all[1]);
        assert_eq!(
            (found.segment, found.first_bytes, found.first_segments, found.full),
            (1_448, 14_232, 10, true)
        );
        let whole = window(&all, &all[2]);
        assert_eq!((whole.first_bytes, whole.full), (20_000, false));
    }

    #[test]
    fn the_median_connection_is_one_of_the_usual_ones() {
        let all = [
            attempt(14_232, 6_067, 61.0),
            attempt(20_000, 0, 41.0),
            attempt(14_232, 6_067, 63.0),
            attempt(14_232, 6_067, 62.0),
        ];
        assert_eq!(middle(&all).secured, 62.0);
        let kind = kind(&all, &[0.0], None);
        let trips = kind.round_trips;
        assert_eq!((trips.handshake, trips.window, kind.count, kind.as_asked), (2, 1, 4, 4));
        let flights: Vec<_> =
            kind.flights.iter().map(|one| (one.bytes, one.segments, one.held_by_window)).collect();
        assert_eq!(flights, [(14_232, 10, false), (6_067, 5, true)]);
        assert_eq!((kind.server_ms.p50, kind.handshake_ms.p50), (1.0, 61.0));
    }

    #[test]
    fn tickets_are_taken_when_the_server_allows_it_and_were_offered() {
        let with = |offered, resumed| {
            let mut made = attempt(1, 0, 1.0);
            (made.offered, made.agreed.resumed) = (offered, resumed);
            made
        };
        let all =
            [with(true, Some(true)), with(true, Some(false)), with(false, Some(false)), with(true, None)];
        assert_eq!(offered_and_taken(&all), (3, 1));
        assert_eq!(kind(&all, &[], Some(true)).as_asked, 1);
    }

    #[test]
    fn what_most_have_and_of_two_the_smaller() {
        assert_eq!(most([2, 1, 2, 3].into_iter()), 2);
        assert_eq!(most([3, 1, 3, 1].into_iter()), 1, "noise only adds");
        assert_eq!(most([].into_iter()), 0);
    }
}
