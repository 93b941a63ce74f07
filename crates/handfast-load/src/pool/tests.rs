//! Number of connections that an open model needs. The tasks that use them are tested on the built program.

use super::*;
use crate::plan::{Arrivals, ExpectedStatuses, HttpVersion, Model};

fn open(rate: f64) -> Plan {
    Plan { model: Model::open(rate, Arrivals::Fixed), ..Plan::default() }
}

#[test]
fn an_open_model_begins_with_what_it_needs_and_a_few_more() {
    let millisecond = Duration::from_millis(1);
    assert_eq!(first(&open(10.0), 1024, 2, millisecond), 1 + AHEAD);
    assert_eq!(first(&open(10_000.0), 1024, 2, millisecond), 10 + AHEAD);
    assert_eq!(first(&open(10_000.0), 8, 2, millisecond), 8, "never more than may stand");
    assert_eq!(first(&open(f64::MAX), 8, 1, Duration::MAX), 8);
    let ramp = Model::ramp(10.0, 10_000.0, Arrivals::Fixed);
    assert_eq!(first(&Plan { model: ramp, ..Plan::default() }, 1024, 2, millisecond), 10 + AHEAD);
    let work = Work::Http {
        version: HttpVersion::Http2,
        authority: String::new(),
        requests: Vec::new(),
        streams: 10,
        expect: ExpectedStatuses::default(),
        in_order: false,
    };
    assert_eq!(first(&Plan { work, ..open(10_000.0) }, 1024, 1, millisecond), 2 + AHEAD);
}

#[test]
fn a_closed_model_begins_with_all() {
    assert_eq!(first(&Plan::default(), 32, 1, Duration::ZERO), 32);
}

#[test]
fn arrivals_want_connections_up_to_the_most() {
    let pool = Pool::new(ArrivalQueue::new(&open(1.0)), &open(1.0), 4, 1, Duration::ZERO);
    assert_eq!(pool.opener.required(), AHEAD);
    assert_eq!(pool.put(Moment::now()), Arrived::Opening);
    assert_eq!(pool.opener.required(), 1 + AHEAD);
    (0..9).for_each(|_| assert_eq!(pool.put(Moment::now()), Arrived::Opening));
    assert_eq!((pool.opener.required(), pool.arrivals.waiting()), (4, 10));
}
