//! What a request of a route must meet before anything else is done with it. All threads share it.
//!
//! In: the model of a route's access. Out: its limits, with what each client has used of them, over reloads too.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use handfast_config::model::{BasicAuth, ForwardAuth, RateKey, RequestRate, RequestRoute};
use handfast_net::clock::Moment;
use handfast_net::prefix::{Prefix, PrefixSet};
use handfast_tls::client_certificates::Rules;

use super::rate::{Rate, Table};
use super::users::Users;
use super::verifier::Verifier;

/// The gate of one route.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The route's name, by which a reload finds it.
    name: Box<str>,
    allow: Option<PrefixSet>,
    refuse: PrefixSet,
    /// Clients whose certificates fit one of these alone; empty: all.
    pub(crate) certificates: Rules,
    pub(crate) rate: Option<RequestLimit>,
    pub(crate) basic: Option<Basic>,
    /// A server that is asked about each request.
    pub(crate) forward: Option<ForwardAuth>,
}

/// Names and passwords that clients must send.
#[derive(Debug)]
pub(crate) struct Basic {
    file: PathBuf,
    pub(crate) realm: Box<str>,
    /// Whether backends receive the password.
    pub(crate) passes: bool,
    pub(crate) users: Arc<Users>,
    pub(crate) verifier: Arc<Verifier>,
}

/// The gates of a service, one for each of its routes for requests; `None`: every request passes.
pub(crate) type Gates = Vec<Option<Arc<Gate>>>;

impl Gate {
    /// The gate of a route; `None` where it takes every request. `before`: those of the same service, whose use is passed on so that a
    /// reload resets no limit. `users`: those of its file.
    pub(crate) fn new(
        RequestRoute { name, access: model, .. }: &RequestRoute,
        before: Option<&Gates>,
        users: Option<Arc<Users>>,
        verifier: &Arc<Verifier>,
    ) -> Option<Arc<Self>> {
        if model.is_open() {
            return None;
        }
        let before = before.and_then(|before| before.iter().flatten().find(|gate| gate.name == *name));
        let used = before.and_then(|before| before.rate.as_ref());
        let rate = model.rate.as_ref().map(|model| RequestLimit::new(model, used));
        let set = |prefixes: &[Prefix]| prefixes.iter().copied().collect::<PrefixSet>();
        let basic = model.basic.as_ref().zip(users).map(|(BasicAuth { file, realm, passes }, users)| Basic {
            file: file.clone(),
            realm: realm.clone(),
            passes: *passes,
            users,
            verifier: Arc::clone(verifier),
        });
        Some(Arc::new(Self {
            name: name.clone(),
            allow: (!model.allow.is_empty()).then(|| set(&model.allow)),
            refuse: set(&model.refuse),
            certificates: model.certificates.clone(),
            rate,
            basic,
            forward: model.forward.clone(),
        }))
    }

    /// Whether a client with this address is let in; if not, why. A client without one is not in a list.
    pub(crate) fn refuses(&self, client: Option<IpAddr>) -> Option<String> {
        if let Some(prefix) = client.and_then(|client| self.refuse.find(client)) {
            return Some(format!("refuse-clients has {prefix}"));
        }
        let allow = self.allow.as_ref()?;
        match client {
            Some(client) if allow.contains(client) => None,
            Some(client) => Some(format!("allow-clients does not have {client}")),
            None => Some("the client has no address".to_owned()),
        }
    }

    /// The users of a file, among those that these gates have.
    pub(crate) fn known_users<'g>(gates: &'g Gates, file: &Path) -> Option<&'g Arc<Users>> {
        let mut basic = gates.iter().flatten().filter_map(|gate| gate.basic.as_ref());
        basic.find(|basic| basic.file == file).map(|basic| &basic.users)
    }

    /// Whether a request waits until it is known who sends it.
    pub(crate) fn identifies(&self) -> bool {
        self.basic.is_some() || self.forward.is_some()
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
