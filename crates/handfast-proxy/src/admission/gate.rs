//! Conditions that a request of a route must meet before anything else is done with it. All threads share them.
//!
//! In: the model of a route's access. Out: its limits, with what each client has used of them, over reloads too.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use handfast_config::model::{BasicAuth, ForwardAuth, RateKey, RequestRate, RouteAccess};
use handfast_net::clock::Moment;
use handfast_net::prefix::{Prefix, PrefixSet};
use handfast_pki::rules::Rules;

use super::rate::{Rate, Table};
use super::users::Users;
use super::verifier::Verifier;

/// The gate of one route.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The route's name, by which a reload finds it; empty: the service itself.
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
    /// True if backends receive the password.
    pub(crate) passes: bool,
    pub(crate) users: Arc<Users>,
    pub(crate) verifier: Arc<Verifier>,
}

/// The gates of a service; `None`: every request passes.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// One for each of its routes for requests.
    pub(crate) routes: Vec<Option<Arc<Gate>>>,
    /// Of the service itself. What needs no waiting is for all routes, too.
    pub(crate) service: Option<Arc<Gate>>,
}

impl Gates {
    /// Returns every gate.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Gate>> {
        self.routes.iter().chain([&self.service]).flatten()
    }
}

impl Gate {
    /// The gate of a route, or of a service (without a name); `None` where it takes every request. `before`: those of the same service, whose use
    /// is passed on so that a reload resets no limit. `users`: those of its file.
    pub(crate) fn new(
        name: &str,
        model: &RouteAccess,
        before: Option<&Gates>,
        users: Option<Arc<Users>>,
        verifier: &Arc<Verifier>,
    ) -> Option<Arc<Self>> {
        if model.is_open() {
            return None;
        }
        let before = before.and_then(|before| before.all().find(|gate| *gate.name == *name));
        let used = before.and_then(|before| before.rate.as_ref());
        let rate = model.rate.as_ref().map(|model| RequestLimit::new(model, used));
        let basic = model.basic.as_ref().zip(users).map(|(BasicAuth { file, realm, passes }, users)| Basic {
            file: file.clone(),
            realm: realm.clone(),
            passes: *passes,
            users,
            verifier: Arc::clone(verifier),
        });
        Some(Arc::new(Self { name: name.into(), rate, basic, ..Self::with_lists(model) }))
    }

    /// A gate with the conditions that have no state.
    fn with_lists(model: &RouteAccess) -> Self {
        let set = |prefixes: &[Prefix]| prefixes.iter().copied().collect::<PrefixSet>();
        Self {
            name: Box::default(),
            allow: (!model.allow.is_empty()).then(|| set(&model.allow)),
            refuse: set(&model.refuse),
            certificates: model.certificates.clone(),
            rate: None,
            basic: None,
            forward: model.forward.clone(),
        }
    }

    /// Returns why a client with this address is refused. A client whose address is not known might be in either list, so both refuse it; one of
    /// a unix socket has none, and is in no list.
    pub(crate) fn refuses(&self, client: ClientAddress) -> Option<String> {
        match client {
            ClientAddress::Known(client) => {
                if let Some(prefix) = self.refuse.find(client) {
                    return Some(format!("refuse-clients has {prefix}"));
                }
                let is_refused = self.allow.as_ref().is_some_and(|allow| !allow.contains(client));
                is_refused.then(|| format!("allow-clients does not have {client}"))
            }
            ClientAddress::Absent => self.allow.as_ref().map(|_| "the client has no address".to_owned()),
            ClientAddress::Unknown => (self.allow.is_some() || !self.refuse.is_empty())
                .then(|| "a trusted proxy sent no address of its client that can be read".to_owned()),
        }
    }

    /// The users of a file, among those that these gates have.
    pub(crate) fn known_users<'g>(gates: &'g Gates, file: &Path) -> Option<&'g Arc<Users>> {
        let mut basic = gates.all().filter_map(|gate| gate.basic.as_ref());
        basic.find(|basic| basic.file == file).map(|basic| &basic.users)
    }

    /// Returns true if a request waits until its sender is identified.
    pub(crate) fn identifies(&self) -> bool {
        self.basic.is_some() || self.forward.is_some()
    }
}

/// The address of the client that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAddress {
    Known(IpAddr),
    /// It connects to a unix socket.
    Absent,
    /// A trusted proxy sent something that is no address (`unknown`, `_hidden`).
    Unknown,
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
    /// Description of the requests that were counted together, and of their limit.
    pub(crate) detail: String,
}

/// Key by which requests are counted.
#[derive(Hash)]
enum CountedBy<'a> {
    Client(Prefix),
    /// The clients without an address.
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

    /// Takes one request of what its client, or each of its values of the field, may send: a backend may read any of them. `fields`: the values
    /// of a field.
    ///
    /// **Cost**: one hash and one atomic operation for each value; allocates nothing unless it refuses.
    pub(crate) fn check<'s, 'a, V: Iterator<Item = &'a [u8]>>(
        &'s self,
        client: ClientAddress,
        fields: impl FnOnce(&'s str) -> V,
        now: Moment,
    ) -> Result<(), Exceeded> {
        let by_client = match client {
            ClientAddress::Known(client) => CountedBy::Client(self.model.prefix_of(client)),
            ClientAddress::Absent | ClientAddress::Unknown => CountedBy::Unknown,
        };
        match &self.model.by {
            RateKey::Client => self.take(&by_client, now),
            RateKey::Route => self.take(&CountedBy::Route, now),
            RateKey::Field(name) => {
                let mut values = fields(name).map(CountedBy::Value).peekable();
                if values.peek().is_none() {
                    return self.take(&by_client, now);
                }
                values.try_for_each(|value| self.take(&value, now))
            }
        }
    }

    fn take(&self, key: &CountedBy<'_>, now: Moment) -> Result<(), Exceeded> {
        self.table.take(key, self.rate, now).map_err(|wait| Exceeded { wait, detail: self.detail(key) })
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

    fn ip(text: &str) -> ClientAddress {
        ClientAddress::Known(text.parse().expect("an address"))
    }

    fn passes(limit: &RequestLimit, client: &str, value: Option<&'static str>) -> bool {
        limit.check(ip(client), |_| value.map(str::as_bytes).into_iter(), NOW).is_ok()
    }

    #[test]
    fn clients_of_one_prefix_are_counted_together() {
        let limit = limit(RateKey::Client);
        assert!(passes(&limit, "192.0.2.1", None) && passes(&limit, "192.0.2.9", None));
        assert!(!passes(&limit, "192.0.2.200", None));
        assert!(passes(&limit, "192.0.3.1", None), "the neighbour has another bucket");
        let exceeded =
            limit.check(ip("192.0.2.1"), |_| std::iter::empty(), NOW).expect_err("it is one too many");
        assert_eq!(exceeded.wait, Duration::from_secs(1));
        assert_eq!(exceeded.detail, "192.0.2.0/24 had used its 60 in 1m and 2 at once");
    }

    #[test]
    fn values_of_a_field_are_counted_for_all_clients_and_never_shown() {
        let limit = limit(RateKey::Field("x-key".into()));
        assert!(
            passes(&limit, "192.0.2.1", Some("secret")) && passes(&limit, "198.51.100.1", Some("secret"))
        );
        assert!(passes(&limit, "192.0.2.1", Some("other")) && passes(&limit, "192.0.2.1", None));
        let exceeded =
            limit.check(ip("192.0.2.1"), |_| std::iter::once(&b"secret"[..]), NOW).expect_err("one too many");
        assert_eq!(exceeded.detail, "this value of x-key had used its 60 in 1m and 2 at once");
        let both = [&b"fresh"[..], b"secret"];
        assert!(
            limit.check(ip("192.0.2.1"), |_| both.into_iter(), NOW).is_err(),
            "a backend may read the last one"
        );
    }

    #[test]
    fn a_client_whose_address_is_not_known_is_in_every_list() {
        let gate = |allow: &str, refuse: &str| {
            let set = |prefixes: &str| {
                prefixes.split_whitespace().map(|one| one.parse().expect("a prefix")).collect()
            };
            let access = RouteAccess { allow: set(allow), refuse: set(refuse), ..RouteAccess::default() };
            Gate::with_lists(&access)
        };
        for (allow, refuse, client, is_refused) in [
            ("10.0.0.0/8", "", ip("10.0.0.1"), false),
            ("10.0.0.0/8", "", ip("11.0.0.1"), true),
            ("", "10.0.0.0/8", ip("10.0.0.1"), true),
            ("", "10.0.0.0/8", ip("11.0.0.1"), false),
            ("10.0.0.0/8", "", ClientAddress::Unknown, true),
            ("", "10.0.0.0/8", ClientAddress::Unknown, true),
            ("", "", ClientAddress::Unknown, false),
            ("10.0.0.0/8", "", ClientAddress::Absent, true),
            ("", "10.0.0.0/8", ClientAddress::Absent, false),
        ] {
            assert_eq!(
                gate(allow, refuse).refuses(client).is_some(),
                is_refused,
                "{allow} {refuse} {client:?}"
            );
        }
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
