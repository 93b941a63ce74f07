//! `match`: conditions of routes.

use super::{At, Import};
use crate::address::network;
use crate::cells::{Atom, Formula, PathStart};

const PATH: &str = "the path is compared as clients send it, without decoding";

/// Properties of the service that a matcher depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceFacts {
    pub(super) has_tls: bool,
    pub(super) port: Option<u16>,
    /// True if proxies in front name the client (`trusted_proxies`).
    pub(super) trusts: bool,
}

/// Reason why a matcher is no condition of a route.
#[derive(Debug, thiserror::Error)]
pub(super) enum MatchError {
    /// The matcher of this name is none.
    #[error("{name}: {source}")]
    Matcher { name: String, source: Box<MatchError> },
    #[error("the version of HTTP decides nothing")]
    HttpVersion,
    #[error("the server has trusted_proxies: write client_ip")]
    TrustedProxies,
    #[error("expected addresses such as 10.0.0.0/8")]
    Address,
    #[error("routes are for hosts, beginnings of paths, methods and fields, and certain addresses")]
    OtherMatcher,
    #[error("{0}: expected a path, or the beginning of one with `*` at its end")]
    Path(String),
    #[error("a route for {0} is for all paths below it, too")]
    ExactFolder(String),
    #[error("expected names, or `*.` and a name")]
    HostName,
    #[error("expected fields")]
    NoFields,
    #[error("write a host")]
    HostField,
    #[error("a field is there, or has exactly a value")]
    FieldValue,
}

impl MatchError {
    fn of(self, name: &str) -> Self {
        Self::Matcher { name: name.to_owned(), source: Box::new(self) }
    }
}

impl<'v> Import<'v> {
    /// The condition of a route: one of its sets, of which everything holds. **Errors**: why there is none.
    pub(super) fn matches(&mut self, sets: &At<'v>, facts: ServiceFacts) -> Result<Formula, MatchError> {
        let sets = sets.items();
        if sets.is_empty() {
            return Ok(Formula::Always(true));
        }
        let mut any = Vec::new();
        for set in sets {
            any.push(self.set(&set, facts)?);
        }
        Ok(Formula::Any(any))
    }

    fn set(&mut self, set: &At<'v>, facts: ServiceFacts) -> Result<Formula, MatchError> {
        let mut all = Vec::new();
        for (name, at) in set.entries() {
            all.push(self.matcher(name, &at, facts).map_err(|error| error.of(name))?);
        }
        Ok(Formula::All(all))
    }

    pub(super) fn matcher(
        &mut self,
        name: &str,
        at: &At<'v>,
        facts: ServiceFacts,
    ) -> Result<Formula, MatchError> {
        match name {
            "host" => hosts(&at.texts()),
            "path" => at
                .texts()
                .iter()
                .map(|path| self.path_of(at, path))
                .collect::<Result<_, _>>()
                .map(Formula::Any),
            "method" => Ok(Formula::atom(Atom::Methods(at.texts()))),
            "header" => header(at),
            "protocol" => match at.text() {
                Some("https") => Ok(Formula::Always(facts.has_tls)),
                Some("http") => Ok(Formula::Always(!facts.has_tls)),
                _ => Err(MatchError::HttpVersion),
            },
            "remote_ip" if facts.trusts => Err(MatchError::TrustedProxies),
            "remote_ip" | "client_ip" => {
                let ranges = at.get("ranges").texts();
                let known: Option<Vec<_>> = ranges.iter().map(|range| network(range)).collect();
                let known = known.filter(|known| !known.is_empty());
                Ok(Formula::atom(Atom::Source(known.ok_or(MatchError::Address)?)))
            }
            "not" => {
                let mut any = Vec::new();
                for set in at.items() {
                    any.push(self.set(&set, facts)?);
                }
                Ok(Formula::Any(any).negated())
            }
            _ => Err(MatchError::OtherMatcher),
        }
    }

    /// `/a`, `/a/*` or `/a*`.
    fn path_of(&mut self, at: &At<'v>, path: &str) -> Result<Formula, MatchError> {
        if path == "*" || path == "/*" {
            return Ok(Formula::Always(true));
        }
        let (start, is_beginning) = path.strip_suffix('*').map_or((path, false), |start| (start, true));
        let is_plain = start.bytes().all(|byte| byte.is_ascii_graphic() && !b"%?#*[\\{".contains(&byte));
        if !start.starts_with('/') || !is_plain {
            return Err(MatchError::Path(path.to_owned()));
        }
        self.note_once(at, "path", PATH);
        match (is_beginning, start.ends_with('/')) {
            (true, true) => Ok(Formula::narrower(Atom::Path(PathStart::new(start, true)), PATH)),
            (true, false) => Ok(Formula::narrower(Atom::Path(PathStart::new(path, true)), PATH)),
            (false, true) => Err(MatchError::ExactFolder(path.to_owned())),
            (false, false) => Ok(Formula::All(vec![
                Formula::exact_path(PathStart::new(start, true)),
                Formula::narrower(Atom::Path(PathStart::new(start, true)), PATH),
            ])),
        }
    }
}

/// Names without placeholders; a wildcard is the first part of one.
fn hosts(names: &[String]) -> Result<Formula, MatchError> {
    let is_good = |name: &String| {
        let rest = name.strip_prefix("*.").unwrap_or(name);
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte))
    };
    if names.is_empty() || !names.iter().all(is_good) {
        return Err(MatchError::HostName);
    }
    Ok(Formula::atom(Atom::Hosts(names.iter().map(|name| name.to_ascii_lowercase()).collect())))
}

/// Fields with one of several values each.
fn header(at: &At<'_>) -> Result<Formula, MatchError> {
    let mut all = Vec::new();
    let object = at.object().ok_or(MatchError::NoFields)?;
    for (name, values) in object {
        if name.eq_ignore_ascii_case("host") {
            return Err(MatchError::HostField);
        }
        if values.is_null() {
            all.push(Formula::atom(Atom::Field(name.to_ascii_lowercase(), None)).negated());
            continue;
        }
        let mut any = Vec::new();
        for value in values.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str) {
            let value = match value {
                "*" => None,
                value if value.contains(['*', '{']) || value.is_empty() => {
                    return Err(MatchError::FieldValue);
                }
                value => Some(value.to_owned()),
            };
            any.push(Formula::atom(Atom::Field(name.to_ascii_lowercase(), value)));
        }
        if any.is_empty() {
            return Err(MatchError::FieldValue);
        }
        all.push(Formula::Any(any));
    }
    Ok(Formula::All(all))
}
