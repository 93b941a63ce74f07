//! Which route of a service in HTTP mode a request takes. Pure: the same request gives the same answer.
//!
//! In: the parts of a request that routes are about. Out: the index of the route. A lookup allocates nothing.

use std::collections::HashMap;

use super::model::{RequestRoute, Service, Share, name_fits};

/// The longest host that a route can name: a name has at most 253 bytes, an IPv6 address in brackets 41.
const MOST_HOST_BYTES: usize = 253;

/// The routes of a service, ready to be searched by the host of a request.
#[derive(Debug, Default)]
pub struct RequestTable {
    routes: Box<[RequestRoute]>,
    /// For each host the routes with its name, in the order written.
    exact: HashMap<Box<str>, Vec<usize>>,
    /// By what follows the asterisk's dot.
    wildcard: HashMap<Box<str>, Vec<usize>>,
    /// Routes without hosts.
    any: Vec<usize>,
}

impl RequestTable {
    /// Builds the table; it is empty where the service has no HTTP mode.
    pub fn new(service: &Service) -> Self {
        let routes = service.http.as_ref().map(|http| http.routes.clone()).unwrap_or_default();
        let mut table = Self::default();
        for (index, route) in routes.iter().enumerate() {
            if route.hosts.is_empty() {
                table.any.push(index);
            }
            for host in &route.hosts {
                let (by_host, key) = match host.strip_prefix("*.") {
                    Some(suffix) => (&mut table.wildcard, suffix),
                    None => (&mut table.exact, host.as_str()),
                };
                by_host.entry(key.into()).or_default().push(index);
            }
        }
        Self { routes: routes.into(), ..table }
    }

    /// The index, among `Http.routes`, of the first route that matches a request; `None`: it goes where its connection goes.
    ///
    /// `host` is without a port, in any case; an IPv6 address has its brackets, and a dot at the end of a name does not count. `path` is the
    /// target as it was sent, with or without its query, and is never normalised. `has(name, value)`: whether the request has a field with
    /// this name, which is in lower case, and exactly this value, if one is given.
    ///
    /// `drawn(index, share)`: whether this request is among the share that a route with a share is for.
    ///
    /// **Cost**: two searches by the host, then one comparison for each route with this host, and for each one without hosts. Allocates
    /// nothing.
    pub fn find(
        &self,
        host: &[u8],
        path: &[u8],
        method: &[u8],
        has: impl Fn(&str, Option<&str>) -> bool,
        drawn: impl Fn(usize, Share) -> bool,
    ) -> Option<usize> {
        if self.routes.is_empty() {
            return None;
        }
        let mut buffer = [0; MOST_HOST_BYTES];
        let host = in_lower_case(host, &mut buffer);
        let exact = host.and_then(|host| self.exact.get(host));
        let parent = host.and_then(|host| host.split_once('.')).filter(|(label, _)| !label.is_empty());
        let wildcard = parent.and_then(|(_, parent)| self.wildcard.get(parent));
        let mut found = None;
        for list in [exact, wildcard, Some(&self.any)].into_iter().flatten() {
            // A route that comes later than the one found need not be compared.
            let mut earlier = list.iter().take_while(|index| found.is_none_or(|found| **index < found));
            let matching = earlier.find(|index| {
                let route = &self.routes[**index];
                route.matches(path, method, &has) && route.share.is_none_or(|share| drawn(**index, share))
            });
            found = matching.copied().or(found);
        }
        found
    }
}

/// A host in lower case, without the dot at its end; `None` where no route can name it.
fn in_lower_case<'b>(host: &[u8], buffer: &'b mut [u8; MOST_HOST_BYTES]) -> Option<&'b str> {
    let host = host.strip_suffix(b".").unwrap_or(host);
    let lower = buffer.get_mut(..host.len())?;
    lower.copy_from_slice(host);
    lower.make_ascii_lowercase();
    str::from_utf8(lower).ok()
}

impl RequestRoute {
    /// Whether everything but the host and the share matches.
    fn matches(&self, path: &[u8], method: &[u8], has: &impl Fn(&str, Option<&str>) -> bool) -> bool {
        self.path.as_ref().is_none_or(|prefix| begins_with(path, prefix.as_bytes()))
            && (self.methods.is_empty() || self.methods.iter().any(|one| one.as_bytes() == method))
            && self.headers.iter().all(|(name, value)| has(name, value.as_deref()))
    }

    /// Whether every request that `other` matches is surely matched by this route, so that `other` is never reached behind it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let hosts = || !other.hosts.is_empty() && other.hosts.iter().all(|host| name_fits(&self.hosts, host));
        let path = |prefix: &str| {
            other.path.as_ref().is_some_and(|path| begins_with(path.as_bytes(), prefix.as_bytes()))
        };
        let methods =
            || !other.methods.is_empty() && other.methods.iter().all(|one| self.methods.contains(one));
        let implies = |(name, value): &(Box<str>, Option<Box<str>>)| {
            let is_stronger = |(other_name, other_value): &(Box<str>, Option<Box<str>>)| {
                name == other_name && (value.is_none() || value == other_value)
            };
            other.headers.iter().any(is_stronger)
        };
        self.share.is_none()
            && (self.hosts.is_empty() || hosts())
            && self.path.as_deref().is_none_or(path)
            && (self.methods.is_empty() || methods())
            && self.headers.iter().all(implies)
    }
}

/// Whether a path begins with this prefix at whole segments. A query ends the path.
fn begins_with(path: &[u8], prefix: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    prefix.ends_with(b"/") || matches!(rest.first(), None | Some(b'/' | b'?'))
}

#[cfg(test)]
mod tests;
