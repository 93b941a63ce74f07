//! Requests by route and outcome: which of the routes of a service answers with errors, and why.

use serde::{Deserialize, Serialize};

use super::counters::AddTo;
use super::ends::{EndKey, OTHER};
use super::status_class::StatusClass;
use super::table::Table;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::reason::CloseReason;
use crate::request_record::RequestRecord;
use crate::steps::{Side, Step};
use crate::words::Word;

/// Combinations of route and outcome that are counted separately on one thread; further ones are counted together.
const COMBINATIONS: usize = 128;

/// One worker's cells.
#[derive(Debug, Default)]
pub(super) struct RouteEnds(Table<Key, Cell, COMBINATIONS>);

#[derive(Debug)]
struct Key {
    /// `None`: no route.
    route: Option<Box<str>>,
    class: StatusClass,
    failure: Option<EndKey>,
}

impl RouteEnds {
    /// A request ended. **Cost**: comparisons with the combinations that came before its own.
    pub(super) fn add(&self, record: &RequestRecord) {
        let route = record.route.as_deref();
        let class = StatusClass::of(record.status);
        let failure =
            record.failure.as_ref().map(|reason| (reason.step, reason.side, reason.cause.counted()));
        let is_it = |key: &Key| (key.class, key.failure) == (class, failure) && key.route.as_deref() == route;
        self.0.entry_of(is_it, || Key { route: route.map(Box::from), class, failure }).add(1);
    }
}

/// An outcome of requests of one route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEnd {
    /// The name of the route; `None`: no route took them.
    pub route: Option<Box<str>>,
    /// The [`StatusClass`] of the responses; `other`: further combinations together.
    pub status: Word,
    /// The step, the side and the cause of the failure; `None`: a backend answered completely, or the configuration did.
    pub failure: Option<[Word; 3]>,
    /// The number of requests.
    pub count: u64,
}

impl RouteEnd {
    /// Returns true if both have the same route and outcome.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.route, &self.status, &self.failure) == (&other.route, &other.status, &other.failure)
    }

    /// Returns true if the requests failed: no backend answered them completely, or one answered with a server error (5xx).
    pub fn is_failure(&self) -> bool {
        let cause = self.failure.as_ref().and_then(|[.., cause]| Cause::named(cause));
        cause.is_some_and(Cause::is_failure) || *self.status == *StatusClass::ServerError.name()
    }

    /// Returns a sentence: `while carrying bytes, the client reset the connection`.
    pub fn sentence(&self) -> String {
        let Some([step, side, cause]) = &self.failure else {
            let sentence = match &*self.status {
                OTHER => "further ways, too rare to be counted separately",
                status if *status == *StatusClass::ServerError.name() => {
                    "the backend answered with a server error"
                }
                _ => "answered",
            };
            return sentence.to_owned();
        };
        match (Step::named(step), Side::named(side), Cause::named(cause)) {
            (Some(step), Some(side), Some(cause)) => CloseReason::new(step, side, cause).sentence(),
            _ => cause.to_string(),
        }
    }
}

impl AddTo<Vec<RouteEnd>> for RouteEnds {
    fn add_to(&self, sum: &mut Vec<RouteEnd>) {
        for (key, cell) in self.0.pairs() {
            let failure = key.and_then(|key| key.failure);
            let words =
                |(step, side, cause): EndKey| [step.name(), side.name(), cause.name()].map(Word::from);
            let more = RouteEnd {
                route: key.and_then(|key| key.route.clone()),
                status: key.map_or(OTHER, |key| key.class.name()).into(),
                failure: failure.map(words),
                count: cell.value(),
            };
            match sum.iter_mut().find(|known| known.is_like(&more)) {
                Some(known) => known.count += more.count,
                None => sum.push(more),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::request_record::{ConnectionFacts, HttpVersion};

    fn record(route: Option<&str>, status: Option<u16>, failure: Option<Cause>) -> RequestRecord {
        let connection = ConnectionFacts {
            service: "web".into(),
            generation: 1,
            client: None,
            server_name: None,
            tls_version: None,
            client_subject: None,
        };
        let texts = [&b"GET"[..], b"a.example", b"/"];
        let mut record = RequestRecord::new(&Rc::new(connection), HttpVersion::Http11, "1".into(), texts);
        (record.route, record.status) = (route.map(Rc::from), status);
        record.failure = failure.map(|cause| CloseReason::new(Step::Relay, Side::Backend, cause));
        record
    }

    #[test]
    fn requests_are_counted_by_route_and_outcome() {
        let cells = RouteEnds::default();
        for (route, status, failure) in [
            (Some("api"), Some(200), None),
            (Some("api"), Some(204), None),
            (Some("api"), Some(500), None),
            (Some("api"), Some(504), Some(Cause::AnswerDeadline)),
            (None, Some(200), None),
            (None, None, Some(Cause::CLOSED_EARLY)),
        ] {
            cells.add(&record(route, status, failure));
        }
        let mut sum = Vec::new();
        cells.add_to(&mut sum);
        cells.add_to(&mut sum);
        let seen: Vec<_> =
            sum.iter().map(|end| (end.route.as_deref(), &*end.status, end.count, end.is_failure())).collect();
        let api = Some("api");
        assert_eq!(
            seen,
            [
                (api, "2xx", 4, false),
                (api, "5xx", 2, true),
                (api, "5xx", 2, true),
                (None, "2xx", 2, false),
                (None, "none", 2, true),
            ]
        );
        assert_eq!(
            (sum[3].sentence(), sum[1].sentence()),
            ("answered".into(), "the backend answered with a server error".into())
        );
        assert_eq!(sum[2].sentence(), "while carrying bytes, the backend did not begin its response in time");
    }

    #[test]
    fn the_table_is_bounded_whatever_routes_there_are() {
        let cells = RouteEnds::default();
        for route in 0..1_000 {
            cells.add(&record(Some(&route.to_string()), Some(200), None));
        }
        let mut sum = Vec::new();
        cells.add_to(&mut sum);
        assert_eq!((sum.len(), sum.iter().map(|end| end.count).sum::<u64>()), (COMBINATIONS + 1, 1_000));
        assert_eq!((&*sum[COMBINATIONS].status, sum[COMBINATIONS].count), (OTHER, 1_000 - 128));
    }
}
