//! What a request of a route must meet before anything else is done with it. All threads share it.
//!
//! In: the model of a route's access. Out: its limits, with what each client has used of them, over reloads too.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use handfast_config::model::{RateKey, RequestRate, RequestRoute, RouteAccess};
use handfast_net::clock::Moment;
use handfast_net::prefix::Prefix;

use super::rate::{Rate, Table};

/// The gate of one route.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The route's name, by which a reload finds it.
    name: Box<str>,
    pub(crate) rate: Option<RequestLimit>,
}

/// The gates of a service, one for each of its routes for requests; `None`: every request passes.
pub(crate) type Gates = Vec<Option<Arc<Gate>>>;

impl Gate {
    /// The gates of these routes. `before`: those of the same service, whose use is passed on so that a reload resets no limit.
    pub(crate) fn of_routes(routes: &[RequestRoute], before: Option<&Gates>) -> Gates {
        let known = |name: &str| before?.iter().flatten().find(|gate| *gate.name == *name);
        routes.iter().map(|route| Self::new(&route.name, &route.access, known(&route.name))).collect()
    }

    fn new(name: &str, model: &RouteAccess, before: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        if model.is_open() {
            return None;
        }
        let used = before.and_then(|before| before.rate.as_ref());
        let rate = model.rate.as_ref().map(|model| RequestLimit::new(model, used));
        Some(Arc::new(Self { name: name.into(), rate }))
    }
}

/// A limit on requests, and how much of it each client has used.
#[derive(Debug)]
pub(crate) struct RequestLimit {
    model: RequestRate,
    rate: Rate,
    table: Arc<Table>,
}

/// A request that is one too many.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// The time after which one more is taken.
    pub(crate) wait: Duration,
    /// Which requests were counted together, and their limit.
    pub(crate) detail: String,
}

/// What requests are counted by.
#[derive(Hash)]
enum CountedBy<'a> {
    Client(Prefix),
    /// A client of a unix socket.
    Unknown,
    Value(&'a [u8]),
    Route,
}

impl RequestLimit {
    fn new(model: &RequestRate, before: Option<&Self>) -> Self {
        // With another key the table has what nothing looks for; with another size it does not fit.
        let known =
            before.filter(|before| before.model.by == model.by).map(|before| Arc::clone(&before.table));
        let table = known.unwrap_or_else(|| {
            Arc::new(if model.by == RateKey::Route { Table::of_one() } else { Table::new() })
        });
        let rate = Rate::within(model.requests, model.per, model.burst);
        Self { model: model.clone(), rate, table }
    }

    /// Takes one request of what its client, or its value of the field, may send. `field`: the first value of a field.
    ///
    /// **Cost**: one hash, and one atomic operation; allocates nothing unless it refuses.
    pub(crate) fn check<'a>(
        &self,
        client: Option<IpAddr>,
        field: impl FnOnce(&str) -> Option<&'a [u8]>,
        now: Moment,
    ) -> Result<(), Exceeded> {
        let by_client =
            || client.map_or(CountedBy::Unknown, |client| CountedBy::Client(self.model.prefix_of(client)));
        let key = match &self.model.by {
            RateKey::Client => by_client(),
            RateKey::Route => CountedBy::Route,
            RateKey::Field(name) => field(name).map_or_else(by_client, CountedBy::Value),
        };
        self.table.take(&key, self.rate, now).map_err(|wait| Exceeded { wait, detail: self.detail(&key) })
    }

    /// A value of a field may be a secret, so it is not shown.
    fn detail(&self, key: &CountedBy<'_>) -> String {
        let RequestRate { requests, per, burst, by, .. } = &self.model;
        let whose = match (key, by) {
            (CountedBy::Client(prefix), _) => prefix.to_string(),
            (CountedBy::Value(_), RateKey::Field(name)) => format!("this value of {name}"),
            (CountedBy::Unknown, _) => "the clients without an address".to_owned(),
            _ => "the route".to_owned(),
        };
        let per = handfast_text::duration::written(*per);
        format!("{whose} had used its {requests} in {per} and {burst} at once")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Moment = Moment::from_nanos(1_000_000_000_000);

    fn limit(by: RateKey) -> RequestLimit {
        let per = Duration::from_secs(60);
        RequestLimit::new(
            &RequestRate { requests: 60, per, burst: 2, by, prefix_v4: 24, prefix_v6: 64 },
            None,
        )
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    fn passes(limit: &RequestLimit, client: &str, value: Option<&'static str>) -> bool {
        limit.check(ip(client), |_| value.map(str::as_bytes), NOW).is_ok()
    }

    #[test]
    fn clients_of_one_prefix_are_counted_together() {
        let limit = limit(RateKey::Client);
        assert!(passes(&limit, "192.0.2.1", None) && passes(&limit, "192.0.2.9", None));
        assert!(!passes(&limit, "192.0.2.200", None));
        assert!(passes(&limit, "192.0.3.1", None), "the neighbour has another bucket");
        let exceeded = limit.check(ip("192.0.2.1"), |_| None, NOW).expect_err("it is one too many");
        assert_eq!(exceeded.wait, Duration::from_secs(1));
        assert_eq!(exceeded.detail, "192.0.2.0/24 had used its 60 in 1m and 2 at once");
    }

    #[test]
    fn values_of_a_field_are_counted_whoever_sends_them_and_never_shown() {
        let limit = limit(RateKey::Field("x-key".into()));
        assert!(
            passes(&limit, "192.0.2.1", Some("secret")) && passes(&limit, "198.51.100.1", Some("secret"))
        );
        assert!(passes(&limit, "192.0.2.1", Some("other")) && passes(&limit, "192.0.2.1", None));
        let exceeded = limit.check(ip("192.0.2.1"), |_| Some(b"secret"), NOW).expect_err("one too many");
        assert_eq!(exceeded.detail, "this value of x-key had used its 60 in 1m and 2 at once");
    }

    #[test]
    fn a_route_counts_everything() {
        let limit = limit(RateKey::Route);
        assert!(passes(&limit, "192.0.2.1", None) && passes(&limit, "198.51.100.1", Some("x")));
        assert!(!passes(&limit, "203.0.113.1", None));
    }

    #[test]
    fn a_reload_keeps_what_was_used() {
        let before = limit(RateKey::Client);
        assert!(passes(&before, "192.0.2.1", None) && passes(&before, "192.0.2.1", None));
        let same = RequestLimit::new(&RequestRate { burst: 2, ..before.model.clone() }, Some(&before));
        assert!(!passes(&same, "192.0.2.1", None));
        let other =
            RequestLimit::new(&RequestRate { by: RateKey::Route, ..before.model.clone() }, Some(&before));
        assert!(passes(&other, "192.0.2.1", None));
    }
}
