//! Percentiles are the injected ones: what a server makes its clients wait is what the report shows, in every quantile; and
//! only the open model shows what a stall costs those who would have come meanwhile.
//!
//! The client's time contains the server's, request by request, so each of its quantiles is at least the server's own: that
//! holds on any machine. How much greater it may be is a bound on this machine's scheduling, and generous.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::support::delays::{Action, Manners, Request, TlsServer};
use super::support::load::{Ended, Load};

/// A histogram's precision: three significant digits.
const PRECISION: f64 = 0.001;
/// Allowance for a machine that is shared with all other tests.
const NOISE: Duration = Duration::from_millis(80);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The quantile of sorted samples by the rule of HdrHistogram: the least sample that this share is not above.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted[rank.min(sorted.len()) - 1]
}

/// Compares the quantiles of `exchange` with the server's own.
fn agree(ended: &Ended, server: &TlsServer) {
    let served = server.served();
    let exchange = ended.series("exchange");
    assert_eq!(exchange.count(), served.len() as u64, "each request is one sample\n{}", ended.all());
    for (name, share) in [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let (client, own) = (exchange.percentile(name), quantile(&served, share));
        assert!(client >= own.mul_f64(1.0 - PRECISION), "{name}: {client:?}, the server itself took {own:?}");
        let most = (own + NOISE).mul_f64(1.0 + PRECISION);
        // One of a thousand may have met with something worse.
        assert!(name == "p99.9" || client <= most, "{name}: {client:?}, the server itself took {own:?}");
    }
    assert!(exchange.greatest() >= *served.last().expect("there were some"), "{}", ended.all());
}

/// Answers at once, but not within the second that begins half a second after the first request of the run.
fn stalling() -> TlsServer {
    let first = OnceLock::<Instant>::new();
    let answer = move |request: Request| {
        if request.number == 0 {
            return Action::After(Duration::ZERO);
        }
        let since = request.at.duration_since(*first.get_or_init(|| request.at));
        let stalled = (ms(500)..ms(1500)).contains(&since);
        Action::After(if stalled { ms(1500) - since } else { ms(1) })
    };
    TlsServer::start(Manners { answer: Box::new(answer), ..Manners::default() })
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn a_fixed_delay_is_in_every_percentile() {
        let server = TlsServer::start(Manners::late_by(ms(20)));
        let ended = Load::at(server.address).with("-c 8 -n unlimited -d 1s").run_well();
        agree(&ended, &server);
        assert!(ended.series("exchange").percentile("p50") >= ms(20));
        assert!(ended.series("first-byte").percentile("p50") >= ms(20));
        assert!(ended.series("total").percentile("p50") >= ms(20));
    }

    #[test]
    fn each_step_has_its_own_time() {
        let server = TlsServer::start(Manners::late_by(ms(100)));
        let ended = Load::at(server.address).with("-c 8 -d 1s").run_well();
        agree(&ended, &server);
        assert!(ended.series("total").percentile("p50") >= ms(100));
        // The delay is the answer's alone.
        for step in ["connect", "handshake"] {
            assert!(ended.series(step).percentile("p50") < ms(100), "{step}\n{}", ended.all());
        }
    }

    #[test]
    fn two_slow_ones_of_a_hundred_are_the_last_percentile() {
        let slow = |request: Request| {
            Action::After(if request.number % 50 == 49 { ms(200) } else { Duration::ZERO })
        };
        let server = TlsServer::start(Manners { answer: Box::new(slow), ..Manners::default() });
        let words = "-c 8 -n unlimited --rate 400 --arrivals fixed -d 1500ms";
        let ended = Load::at(server.address).with(words).run_well();
        agree(&ended, &server);
        let exchange = ended.series("exchange");
        assert_eq!(exchange.count(), 600, "{}", ended.all());
        assert!(
            exchange.percentile("p90") < ms(200) && exchange.percentile("p99") >= ms(199),
            "{}",
            ended.all()
        );
    }

    #[test]
    fn an_open_loop_shows_a_stall_and_service_time_hides_it() {
        let server = stalling();
        let words = "-c 4 -n unlimited --rate 500 --arrivals fixed -d 2500ms";
        let ended = Load::at(server.address).with(words).run_well();
        agree(&ended, &server);
        let (total, service) = (ended.series("total"), ended.series("service"));
        assert_eq!((total.count(), service.count()), (1250, 1250), "{}", ended.all());
        // 500 of 1250 were due while nothing was answered; the first of them waited the whole second.
        assert!(total.percentile("p99") >= ms(900), "{}", ended.all());
        assert!(total.percentile("p90") >= ms(500), "{}", ended.all());
        // Four of 1250 were under way: less than one of a hundred.
        assert!(service.percentile("p99") < ms(500), "{}", ended.all());
        assert!(service.greatest() >= ms(900), "{}", ended.all());
    }

    #[test]
    fn a_closed_loop_hides_a_stall() {
        let server = stalling();
        let ended = Load::at(server.address).with("-c 4 -n unlimited -d 2500ms").run_well();
        agree(&ended, &server);
        let total = ended.series("total");
        // It asked for nothing while it waited. (Four of fewer than 400 would mean that the machine did nothing else either.)
        assert!(total.count() >= 500, "{}", ended.all());
        assert!(total.percentile("p99") < ms(500) && total.greatest() >= ms(900), "{}", ended.all());
        assert!(!ended.has_series("service") && !ended.has_series("lag"), "{}", ended.all());
    }
}
