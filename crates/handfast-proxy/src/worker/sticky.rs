//! Keeping the requests of a client at one backend (`sticky`), as one thread does it.
//!
//! In: a request, and a group of backends. Out: the backend of its client, if that is up; and the cookie that names it to no one but this proxy.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

use data_encoding::BASE64URL_NOPAD;
use handfast_config::model::Sticky;
use handfast_http::http1::RequestHead;
use handfast_net::clock::Moment;
use handfast_tls::keyed_hash::HashKey;

use crate::backends::balance::{FNV_START, hash_bytes};
use crate::backends::endpoint::{Endpoint, Pick};
use crate::backends::group::Group;

/// Bytes of a hash in a cookie: no client finds another backend's by trying.
const HASH_BYTES: usize = 16;
/// Backends whose cookies are kept; names that are resolved repeatedly could have any number.
const MAX_BACKENDS: usize = 10_000;

/// Stickiness of a route: keeps clients at their backends.
#[derive(Debug)]
pub(crate) struct ThreadSticky {
    model: Sticky,
    key: Option<HashKey>,
    service: Box<str>,
    /// Values of cookies by backend.
    values: RefCell<HashMap<Rc<str>, Rc<str>>>,
}

/// Relation of a request to a backend.
#[derive(Clone, Debug)]
pub(crate) enum Affinity {
    /// The route sets a cookie, and the request has this value of it.
    Cookie(Rc<ThreadSticky>, Option<Box<[u8]>>),
    /// Requests with this key go to the same backend.
    Key(IpAddr),
}

impl ThreadSticky {
    pub(crate) fn new(model: &Sticky, key: &Option<HashKey>, service: &str) -> Rc<Self> {
        let (model, key) = (model.clone(), key.clone());
        Rc::new(Self { model, key, service: service.into(), values: RefCell::default() })
    }

    /// Returns the backend affinity of a request; `None`: it has none, and no cookie is to be set.
    pub(crate) fn affinity(self: &Rc<Self>, head: &RequestHead<'_>) -> Option<Box<Affinity>> {
        Some(Box::new(match &self.model {
            Sticky::Cookie { name, .. } => Affinity::Cookie(Rc::clone(self), cookie(head, name)),
            Sticky::Header(name) => Affinity::Key(key_of(head.values(name).next()?)),
        }))
    }

    /// The value that a cookie has for a backend.
    fn value(&self, backend: &Rc<str>) -> Rc<str> {
        if let Some(known) = self.values.borrow().get(backend) {
            return Rc::clone(known);
        }
        let hash = self.key.as_ref().map(|key| key.hash(&[self.service.as_bytes(), backend.as_bytes()]));
        let value: Rc<str> = BASE64URL_NOPAD.encode(&hash.unwrap_or_default()[..HASH_BYTES]).into();
        let mut values = self.values.borrow_mut();
        if values.len() >= MAX_BACKENDS {
            values.clear();
        }
        values.insert(Rc::clone(backend), Rc::clone(&value));
        value
    }
}

impl Affinity {
    /// The backend that comes next for a request.
    pub(crate) fn pick(
        &self,
        group: &Group,
        now: Moment,
        tried: &[Rc<Endpoint>],
        client: Option<IpAddr>,
    ) -> Pick {
        match self {
            Self::Key(key) => group.pick_by(now, tried, *key),
            Self::Cookie(sticky, Some(sent)) => {
                let is_it = |endpoint: &Endpoint| *sticky.value(&endpoint.name).as_bytes() == **sent;
                let own = group.pick_this(tried, is_it).map(Pick::Dial);
                own.unwrap_or_else(|| group.pick(now, tried, client))
            }
            Self::Cookie(_, None) => group.pick(now, tried, client),
        }
    }

    /// The field `Set-Cookie` for a client whose request went to this backend; `None`: it has the cookie, or needs none.
    pub(crate) fn set_cookie(&self, backend: &Rc<str>, is_secure: bool) -> Option<Vec<u8>> {
        let Self::Cookie(sticky, sent) = self else { return None };
        let Sticky::Cookie { name, same_site, .. } = &sticky.model else { return None };
        let value = sticky.value(backend);
        if sent.as_deref() == Some(value.as_bytes()) {
            return None;
        }
        let secure = if is_secure { "; Secure" } else { "" };
        Some(format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site}{secure}").into_bytes())
    }
}

/// The value of a cookie; of several the first, which is that of the longest path (RFC 6265 §5.4).
fn cookie(head: &RequestHead<'_>, name: &str) -> Option<Box<[u8]>> {
    let pairs = head.values("cookie").flat_map(|value| value.split(|byte| *byte == b';'));
    let mut found =
        pairs.filter_map(|pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    found.next().map(Into::into)
}

/// A key for rendezvous hashing, the same in every process.
fn key_of(value: &[u8]) -> IpAddr {
    // Two halves that are not alike.
    let halves = [hash_bytes(FNV_START, value), hash_bytes(!FNV_START, value)];
    IpAddr::V6(Ipv6Addr::from_bits(u128::from(halves[0]) << 64 | u128::from(halves[1])))
}

#[cfg(test)]
mod tests {
    use handfast_http::http1::{HeadLimits, HeadProgress, parse_request};

    use super::*;

    fn sticky(key: &[u8]) -> Rc<ThreadSticky> {
        let model = Sticky::Cookie { name: "srv".into(), key: None, same_site: "Lax" };
        ThreadSticky::new(&model, &Some(HashKey::new(key)), "web")
    }

    fn affinity(sticky: &Rc<ThreadSticky>, field: &str) -> Affinity {
        let text = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{field}\r\n\r\n");
        let mut fields = Vec::new();
        let limits = HeadLimits::default();
        let head = parse_request(text.as_bytes(), &mut HeadProgress::default(), &mut fields, &limits);
        *sticky.affinity(&head.expect("it is right").expect("it is whole")).expect("it has one")
    }

    #[test]
    fn a_cookie_names_its_backend_to_this_proxy_alone() {
        let sticky = sticky(b"0123456789abcdef");
        let (one, other): (Rc<str>, Rc<str>) = ("10.0.0.1:80".into(), "10.0.0.2:80".into());
        let set = affinity(&sticky, "X: y").set_cookie(&one, true).expect("it has none");
        let set = String::from_utf8(set).expect("text");
        let value = set.strip_prefix("srv=").and_then(|rest| rest.split(';').next()).expect("a value");
        assert_eq!(set, format!("srv={value}; Path=/; HttpOnly; SameSite=Lax; Secure"));
        assert!(value.len() == 22 && !set.contains("10.0.0"), "{set}");
        let again = affinity(&sticky, &format!("Cookie: a=b; srv={value}; srv=x; xsrv=y"));
        assert_eq!(again.set_cookie(&one, true), None);
        assert!(again.set_cookie(&other, false).is_some_and(|set| !set.ends_with(b"Secure")));
        let foreign = affinity(&self::sticky(b"another secret of it"), &format!("Cookie: srv={value}"));
        assert!(foreign.set_cookie(&one, true).is_some());
    }

    #[test]
    fn values_of_a_field_are_spread() {
        let keys: std::collections::HashSet<_> = (0..1000).map(|n: u32| key_of(&n.to_be_bytes())).collect();
        assert_eq!(keys.len(), 1000);
    }
}
