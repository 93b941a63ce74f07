//! Model of loading a page of several resources from this server: with and without keep-alive, on
//! several connections, resumed, by HTTP/2.
//!
//! In: how many resources of which size, and a report. Out: round trips and milliseconds for each way, computed from what was
//! measured. Pure; the documentation has the calculation, so that it can be checked by hand.

use handfast_text::size::SizeError;

use crate::report::{PageModel, Report, Way};

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Number of resources.
    pub resources: u32,
    /// Bytes of each.
    pub bytes: u64,
}

/// Most resources: no page has more, and computing would take long.
const MAX_RESOURCES: u32 = 10_000;

/// A text that is no page.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("page {text:?}: {problem}; expected RESOURCESxSIZE such as 10x40KiB")]
pub struct PageError {
    text: String,
    #[source]
    problem: PageProblem,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum PageProblem {
    #[error("there is no x")]
    NoX,
    #[error("the number of resources must be 1 to 10000")]
    Resources,
    #[error("{}", .0.what())]
    Size(SizeError),
}

impl Page {
    /// Reads `10x40KiB`.
    ///
    /// **Errors**: what is wrong, and what is expected.
    pub fn parse(text: &str) -> Result<Self, PageError> {
        let wrong = |problem| PageError { text: text.to_owned(), problem };
        let (number, size) = text.split_once(['x', '×']).ok_or_else(|| wrong(PageProblem::NoX))?;
        let resources = number.parse().ok().filter(|number| (1..=MAX_RESOURCES).contains(number));
        let resources = resources.ok_or_else(|| wrong(PageProblem::Resources))?;
        let bytes = handfast_text::size::parse(size, handfast_text::size::Spelling::Short);
        let bytes = bytes.map_err(|error| wrong(PageProblem::Size(error)))?;
        Ok(Self { resources, bytes })
    }
}

/// Segments of an initial window, where none was seen to be full (RFC 6928).
const USUAL_WINDOW: usize = 10;

/// Round trips that a response takes in slow start: in each, the server sends a window, and each segment that is acknowledged lets it
/// send one more.
fn rounds(window: &mut u64, bytes: u64, segment: u64) -> u32 {
    let mut left = bytes.div_ceil(segment.max(1)).max(1);
    let mut rounds = 0;
    loop {
        rounds += 1;
        let sent = left.min(*window);
        left -= sent;
        *window += sent;
        if left == 0 {
            return rounds;
        }
    }
}

/// Costs that all ways have in common.
struct Costs {
    rtt: f64,
    server: f64,
    segment: u64,
    window: u64,
    /// Of a new connection: round trips, milliseconds.
    full: (u32, f64),
    resumed: (u32, f64),
}

/// Computes it.
pub(crate) fn model(page: &Page, report: &Report) -> PageModel {
    let rtt = report.rtt_ms.p50;
    let cost = |kind: &crate::report::Kind| {
        let trips = kind.round_trips;
        let ms = kind.timers.connect.p50 - kind.timers.namelookup.p50 + kind.handshake_ms.p50;
        (trips.connect + trips.starttls + trips.handshake, ms)
    };
    let full = cost(&report.full);
    let window = if report.window.full {
        report.window.first_segments
    } else {
        USUAL_WINDOW.max(report.window.first_segments)
    };
    let costs = Costs {
        rtt,
        server: report.http.as_ref().map_or(0.0, |http| http.server_ms.p50),
        segment: report.window.segment as u64,
        window: window as u64,
        full,
        resumed: report.resumed.as_ref().map_or(full, cost),
    };
    let n = page.resources;
    let mut ways = vec![
        one_each(page, &costs, "a new connection for each", costs.full),
        one_each(page, &costs, "the same, resumed after the first", costs.resumed),
        kept(page, &costs, "1 connection, kept", 1, costs.full),
        kept(page, &costs, "2 connections, kept", 2, costs.full),
        kept(page, &costs, "6 connections, kept", 6, costs.full),
        kept(page, &costs, "6 connections, kept, resumed", 6, costs.resumed),
    ];
    let mut window = costs.window;
    let all = rounds(&mut window, page.bytes.saturating_mul(u64::from(n)), costs.segment);
    let trips = costs.full.0 + all;
    ways.push(Way {
        way: "HTTP/2, 1 connection",
        connections: 1,
        round_trips: trips,
        ms: rounded(costs.full.1 + f64::from(all) * costs.rtt + costs.server),
    });
    PageModel { resources: n, bytes: page.bytes, ways }
}

fn rounded(ms: f64) -> f64 {
    (ms * 10.0).round() / 10.0
}

fn one_each(page: &Page, costs: &Costs, way: &'static str, later: (u32, f64)) -> Way {
    let mut window = costs.window;
    let each = rounds(&mut window, page.bytes, costs.segment);
    let n = page.resources;
    let requests = f64::from(n) * (f64::from(each) * costs.rtt + costs.server);
    Way {
        way,
        connections: n,
        round_trips: costs.full.0 + (n - 1) * later.0 + n * each,
        ms: rounded(costs.full.1 + f64::from(n - 1) * later.1 + requests),
    }
}

/// Model of this number of connections at the same time, each with its share of the resources in turn.
fn kept(page: &Page, costs: &Costs, way: &'static str, connections: u32, opened: (u32, f64)) -> Way {
    let connections = connections.min(page.resources);
    let share = page.resources.div_ceil(connections);
    let mut window = costs.window;
    let trips: u32 = (0..share).map(|_| rounds(&mut window, page.bytes, costs.segment)).sum();
    Way {
        way,
        connections,
        round_trips: opened.0 + trips,
        ms: rounded(opened.1 + f64::from(trips) * costs.rtt + f64::from(share) * costs.server),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        assert_eq!(Page::parse("10x40KiB"), Ok(Page { resources: 10, bytes: 40 << 10 }));
        for wrong in ["10", "0x1KiB", "ax1KiB", "3xmuch"] {
            assert!(Page::parse(wrong).expect_err(wrong).to_string().contains("expected RESOURCESxSIZE"));
        }
    }

    #[test]
    fn slow_start_doubles_what_is_sent_in_a_round() {
        let mut window = 10;
        assert_eq!(rounds(&mut window, 14_480, 1448), 1);
        assert_eq!((rounds(&mut window, 14_480, 1448), window), (1, 30));
        assert_eq!(rounds(&mut 10, 14_481, 1448), 2);
        // 10 + 20 + 40 segments.
        assert_eq!([rounds(&mut 10, 70 * 1448, 1448), rounds(&mut 10, 70 * 1448 + 1, 1448)], [3, 4]);
    }
}
