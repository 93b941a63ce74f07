//! Finds the route of a request in a service with HTTP mode. Pure: the same request gives the same result.
//!
//! In: the parts of a request that routes are about. Out: the index of the route. A lookup allocates nothing.

use std::collections::HashMap;

use handfast_http::http1::CanonicalHost;

use super::model::{RequestRoute, Service, Share, name_fits};
use super::path_rule::PathRule;

/// The routes of a service, ready to be searched by the host of a request.
#[derive(Debug, Default)]
pub struct RequestTable {
    routes: Box<[RequestRoute]>,
    /// For each host the routes with its name, in the order written.
    exact: HashMap<Box<str>, Vec<usize>>,
    /// Routes by the part of the pattern after `*.`.
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
    /// `host` is without a port, in any notation; an IPv6 address has its brackets. `path` is the target as it is forwarded, or one of its
    /// [readings](crate::path_readings), with or without its query. `has(name, value)`: whether the request has a field with
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
        self.find_where(host, |index| {
            let route = &self.routes[index];
            route.matches(path, method, &has) && route.share.is_none_or(|share| drawn(index, share))
        })
    }

    /// The first route for a host that `fits`.
    fn find_where(&self, host: &[u8], fits: impl Fn(usize) -> bool) -> Option<usize> {
        if self.routes.is_empty() {
            return None;
        }
        let host = CanonicalHost::new(host);
        let host = host.as_deref();
        let exact = host.and_then(|host| self.exact.get(host));
        let parent = host.and_then(|host| host.split_once('.')).filter(|(label, _)| !label.is_empty());
        let wildcard = parent.and_then(|(_, parent)| self.wildcard.get(parent));
        let mut found = None;
        for list in [exact, wildcard, Some(&self.any)].into_iter().flatten() {
            // A route that comes later than the one found need not be compared.
            let mut earlier = list.iter().take_while(|index| found.is_none_or(|found| **index < found));
            let matching = earlier.find(|index| fits(**index));
            found = matching.copied().or(found);
        }
        found
    }

    /// The routes that requests for a host may take, in the order of their comparison; `None`, at the end: no route.
    pub fn reached(&self, host: &[u8]) -> Vec<Option<usize>> {
        let mut reached: Vec<Option<usize>> = Vec::new();
        for index in 0..self.routes.len() {
            if self.find_where(host, |one| one == index).is_some() {
                reached.push(Some(index));
                let RequestRoute { path, methods, headers, share, .. } = &self.routes[index];
                if path.is_none() && methods.is_empty() && headers.is_empty() && share.is_none() {
                    return reached;
                }
            }
        }
        reached.push(None);
        reached
    }
}

impl RequestRoute {
    /// Returns true if everything but the host and the share matches.
    fn matches(&self, path: &[u8], method: &[u8], has: &impl Fn(&str, Option<&str>) -> bool) -> bool {
        self.path.as_ref().is_none_or(|rule| rule.matches(path))
            && (self.methods.is_empty() || self.methods.iter().any(|one| one.as_bytes() == method))
            && self.headers.iter().all(|(name, value)| has(name, value.as_deref()))
    }

    /// Returns true if this route surely matches every request that `other` matches, so that `other` is never reached behind it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let hosts = || !other.hosts.is_empty() && other.hosts.iter().all(|host| name_fits(&self.hosts, host));
        let path = |rule: &PathRule| other.path.as_ref().is_some_and(|other| rule.covers(other));
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
            && self.path.as_ref().is_none_or(path)
            && (self.methods.is_empty() || methods())
            && self.headers.iter().all(implies)
    }
}

#[cfg(test)]
mod tests;
