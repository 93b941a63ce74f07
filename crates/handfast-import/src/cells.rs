//! A list of rules with conditions, as routes of which the first that matches decides.
//!
//! A condition that is not decided yet splits a cell in two. The routes of the half in which it holds come first, and take every request
//! of it; so the other half needs no condition, and each rule keeps its place among the others.

use crate::draft::Draft;
use crate::toml::{Section, list};

/// The beginning of a path, as routes compare it: `/a` at whole parts, `/a*` with anything behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathStart {
    pub(crate) text: String,
    ignores_case: bool,
}

impl PathStart {
    pub(crate) fn new(text: impl Into<String>, ignores_case: bool) -> Self {
        let text = text.into();
        let ignores_case = ignores_case && has_letters(&text);
        Self { text, ignores_case }
    }

    /// Returns the same one as exact text with something behind it.
    pub(crate) fn with(&self, end: &str) -> Self {
        Self { text: format!("{}{end}", self.text), ignores_case: self.ignores_case }
    }

    /// Returns true if each path of the other one is a path of this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if self.ignores_case {
            return begins_with(&other.text.to_ascii_lowercase(), &self.text.to_ascii_lowercase());
        }
        begins_with(&other.text, &self.text) && !(other.ignores_case && has_letters(&self.text))
    }

    /// Returns true if no path is one of both.
    fn is_disjoint(&self, other: &Self) -> bool {
        let lower = |start: &Self| Self::new(start.text.to_ascii_lowercase(), false);
        let (one, two) = if self.ignores_case || other.ignores_case {
            (lower(self), lower(other))
        } else {
            (self.clone(), other.clone())
        };
        !one.covers(&two) && !two.covers(&one)
    }

    /// Writes the condition of a route.
    pub(crate) fn write(&self, route: &mut Draft) {
        route.put("", "path", self.text.as_str());
        if self.ignores_case {
            route.put("", "ignore-case", true);
        }
    }
}

fn has_letters(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

impl From<&str> for PathStart {
    fn from(text: &str) -> Self {
        Self::new(text, false)
    }
}

/// One condition on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Atom {
    /// The host, or the name in the ClientHello, is one of these names; `*.` is one part.
    Hosts(Vec<String>),
    /// The path begins with this.
    Path(PathStart),
    /// The method is one of these.
    Methods(Vec<String>),
    /// A field is there, with any value or with exactly this one.
    Field(String, Option<String>),
    /// The client's address is in one of these networks. No route depends on it, but requests can be refused by it.
    Source(Vec<String>),
    /// The client has a good password of this list. As `Source`.
    User(String),
    /// The client's certificate has one of these names, in Handfast's words. As `Source`.
    Certificate(Vec<String>),
}

impl Atom {
    /// Returns true if routes can depend on it.
    pub(crate) fn is_of_routes(&self) -> bool {
        matches!(self, Self::Hosts(_) | Self::Path(_) | Self::Methods(_) | Self::Field(..))
    }
}

/// A condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Formula {
    Always(bool),
    Atom {
        atom: Atom,
        /// If the atom matches fewer requests than the original: which ones.
        narrower: Option<String>,
    },
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl Formula {
    pub(crate) fn atom(atom: Atom) -> Self {
        Self::Atom { atom, narrower: None }
    }

    pub(crate) fn narrower(atom: Atom, what: impl Into<String>) -> Self {
        Self::Atom { atom, narrower: Some(what.into()) }
    }

    /// Exactly this path, as paths below it are another one's.
    pub(crate) fn exact_path(path: PathStart) -> Self {
        let below = Self::atom(Atom::Path(path.with("/")));
        Self::All(vec![Self::Not(Box::new(below)), Self::atom(Atom::Path(path))])
    }

    /// The same for paths below exact ones, too, where the rule is for them; and one of those paths.
    pub(crate) fn with_paths_below(self) -> (Self, Option<String>) {
        match self {
            Self::All(parts) => {
                let below: Vec<PathStart> = parts.iter().filter_map(Self::excluded_path).collect();
                let is_exact = |part: &Self| match part {
                    Self::Atom { atom: Atom::Path(path), .. } => below.contains(&path.with("/")),
                    _ => false,
                };
                match parts.iter().find(|part| is_exact(part)) {
                    Some(Self::Atom { atom: Atom::Path(path), .. }) => {
                        let path = path.clone();
                        let is_kept =
                            |part: &Self| part.excluded_path().is_none_or(|other| other != path.with("/"));
                        (
                            Self::All(parts.iter().filter(|part| is_kept(part)).cloned().collect()),
                            Some(path.text),
                        )
                    }
                    _ => Self::each(parts, Self::All),
                }
            }
            Self::Any(parts) => Self::each(parts, Self::Any),
            other => (other, None),
        }
    }

    fn each(parts: Vec<Self>, join: fn(Vec<Self>) -> Self) -> (Self, Option<String>) {
        let mut found = None;
        let parts = parts.into_iter().map(|part| {
            let (part, path) = part.with_paths_below();
            found = found.take().or(path);
            part
        });
        let parts = parts.collect();
        (join(parts), found)
    }

    /// The path that it excludes.
    fn excluded_path(&self) -> Option<PathStart> {
        match self {
            Self::Not(inner) => match &**inner {
                Self::Atom { atom: Atom::Path(path), .. } => Some(path.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Always(value) => Self::Always(!value),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Returns the differences of parts that match fewer requests than the original, where they count positively, or where they are
    /// negated.
    pub(crate) fn narrower_parts(&self, is_negated: bool) -> Vec<&str> {
        match self {
            Self::Always(_) => Vec::new(),
            Self::Atom { narrower, .. } => narrower.as_deref().filter(|_| !is_negated).into_iter().collect(),
            Self::Not(inner) => inner.narrower_parts(!is_negated),
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().flat_map(|part| part.narrower_parts(is_negated)).collect()
            }
        }
    }

    /// Returns the rest of it in a cell, with one list of clients where that means the same.
    pub(crate) fn left_in(&self, cell: &Conditions) -> Self {
        self.within(cell).with_one_list().within(cell)
    }

    /// Returns the rest of it in a cell, without the conditions that the cell decides.
    pub(crate) fn within(&self, cell: &Conditions) -> Self {
        match self {
            Self::Always(value) => Self::Always(*value),
            Self::Atom { atom, .. } => cell.decides(atom).map_or_else(|| self.clone(), Self::Always),
            Self::Not(inner) => inner.within(cell).negated(),
            Self::All(parts) => joined(parts, cell, false),
            Self::Any(parts) => joined(parts, cell, true),
        }
    }

    /// With several lists of addresses, or of certificates, of which one has the client, or none has, as one list.
    fn with_one_list(&self) -> Self {
        let Some((atom, is_positive)) = self.list_of_clients() else { return self.clone() };
        let formula = Self::atom(atom);
        if is_positive { formula } else { formula.negated() }
    }

    fn list_of_clients(&self) -> Option<(Atom, bool)> {
        match self {
            Self::Atom { atom: atom @ (Atom::Source(_) | Atom::Certificate(_)), .. } => {
                Some((atom.clone(), true))
            }
            Self::Not(inner) => inner.list_of_clients().map(|(atom, is_positive)| (atom, !is_positive)),
            // In one of several, or in none of them.
            Self::Any(parts) | Self::All(parts) => {
                let is_any = matches!(self, Self::Any(_));
                let mut parts = parts.iter().map(Self::list_of_clients);
                let (mut all, is_positive) = parts.next()??;
                if is_positive != is_any {
                    return None;
                }
                for part in parts {
                    let (atom, is_same) = part?;
                    match (&mut all, atom) {
                        (Atom::Source(all), Atom::Source(more))
                        | (Atom::Certificate(all), Atom::Certificate(more))
                            if is_same == is_any =>
                        {
                            all.extend(more);
                        }
                        _ => return None,
                    }
                }
                Some((all, is_positive))
            }
            _ => None,
        }
    }

    /// The first condition in it that routes can depend on.
    pub(crate) fn first_of_routes(&self) -> Option<&Atom> {
        match self {
            Self::Always(_) => None,
            Self::Atom { atom, .. } => Some(atom).filter(|atom| atom.is_of_routes()),
            Self::Not(inner) => inner.first_of_routes(),
            Self::All(parts) | Self::Any(parts) => parts.iter().find_map(Self::first_of_routes),
        }
    }
}

/// The parts that are not decided. `decisive`: the value of one part that decides the whole.
fn joined(parts: &[Formula], cell: &Conditions, decisive: bool) -> Formula {
    let mut left = Vec::new();
    for part in parts {
        match part.within(cell) {
            Formula::Always(value) if value == decisive => return Formula::Always(decisive),
            Formula::Always(_) => {}
            other => left.push(other),
        }
    }
    match (left.len(), decisive) {
        (0, _) => Formula::Always(!decisive),
        (1, _) => left.remove(0),
        (_, true) => Formula::Any(left),
        (_, false) => Formula::All(left),
    }
}

/// Conditions that hold for all requests of a cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) path: Option<PathStart>,
    pub(crate) methods: Option<Vec<String>>,
    pub(crate) fields: Vec<(String, Option<String>)>,
    /// Conditions that do not hold: requests with them have an earlier route.
    excluded: Vec<Atom>,
    /// Conditions that hold, or do not, for requests that are not refused.
    gates: Vec<(Atom, bool)>,
}

impl Conditions {
    /// Returns true if the cell has every request.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_no_condition() && self.excluded.is_empty()
    }

    /// Returns true if a route for it has no condition.
    pub(crate) fn has_no_condition(&self) -> bool {
        self.hosts.is_none() && self.path.is_none() && self.methods.is_none() && self.fields.is_empty()
    }

    /// Returns true if a condition holds in the whole cell, false if nowhere in it; `None` if the cell does not decide it.
    fn decides(&self, atom: &Atom) -> Option<bool> {
        match atom {
            Atom::Hosts(names) => self.decides_hosts(names),
            Atom::Path(path) => {
                let is_excluded = |other: &Atom| matches!(other, Atom::Path(other) if other.covers(path));
                if self.excluded.iter().any(is_excluded) {
                    return Some(false);
                }
                let known = self.path.as_ref()?;
                if path.covers(known) {
                    return Some(true);
                }
                known.is_disjoint(path).then_some(false)
            }
            Atom::Methods(methods) => {
                let is_excluded = |method: &&String| {
                    self.excluded
                        .iter()
                        .any(|other| matches!(other, Atom::Methods(others) if others.contains(method)))
                };
                let possible: Vec<_> = methods.iter().filter(|method| !is_excluded(method)).collect();
                if possible.is_empty() {
                    return Some(false);
                }
                let known: Vec<_> =
                    self.methods.as_ref()?.iter().filter(|method| !is_excluded(method)).collect();
                if !possible.iter().any(|method| known.contains(method)) {
                    return Some(false);
                }
                known.iter().all(|method| methods.contains(method)).then_some(true)
            }
            Atom::Field(name, value) => {
                let implies = |(other, written): &(String, Option<String>)| {
                    other == name && (value.is_none() || written == value)
                };
                if self.fields.iter().any(implies) {
                    return Some(true);
                }
                let is_excluded = |other: &Atom| matches!(other, Atom::Field(other, written) if other == name && (written.is_none() || written == value));
                self.excluded.iter().any(is_excluded).then_some(false)
            }
            Atom::Source(_) | Atom::User(_) | Atom::Certificate(_) => {
                self.gates.iter().find(|(known, _)| known == atom).map(|(_, holds)| *holds)
            }
        }
    }

    fn decides_hosts(&self, names: &[String]) -> Option<bool> {
        let is_excluded = |name: &&String| {
            self.excluded.iter().any(|other| matches!(other, Atom::Hosts(others) if covers(others, name)))
        };
        if names.iter().all(|name| is_excluded(&name)) {
            return Some(false);
        }
        let hosts = self.hosts.as_ref()?;
        if common(hosts, names).iter().all(|name| is_excluded(&name)) {
            return Some(false);
        }
        hosts.iter().filter(|name| !is_excluded(name)).all(|name| covers(names, name)).then_some(true)
    }

    /// Returns true if paths would be some with and some without regard to case, which no route has.
    pub(crate) fn mixes_cases(&self, atom: &Atom) -> bool {
        match (atom, &self.path) {
            (Atom::Path(path), Some(known)) => self.decides(atom).is_none() && !known.covers(path),
            _ => false,
        }
    }

    /// Adds what holds, or does not, in a half of the cell.
    pub(crate) fn assume(&mut self, atom: Atom, holds: bool) {
        match atom {
            atom if !atom.is_of_routes() => self.gates.push((atom, holds)),
            atom if !holds => self.excluded.push(atom),
            Atom::Hosts(names) => {
                self.hosts = Some(match &self.hosts {
                    Some(known) => common(known, &names),
                    None => names,
                });
            }
            Atom::Path(path) => self.path = Some(path),
            Atom::Methods(methods) => {
                self.methods = Some(match &self.methods {
                    Some(known) => known.iter().filter(|method| methods.contains(method)).cloned().collect(),
                    None => methods,
                });
            }
            Atom::Field(name, value) => self.fields.push((name, value)),
            Atom::Source(_) | Atom::User(_) | Atom::Certificate(_) => {}
        }
    }
}

/// Returns true if a path, or each that begins as one with `*` at its end, begins with another one, as routes compare them.
pub(crate) fn begins_with(path: &str, prefix: &str) -> bool {
    if let Some(stem) = prefix.strip_suffix('*') {
        return path.starts_with(stem);
    }
    path.strip_prefix(prefix)
        .is_some_and(|rest| prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
}

/// Returns true if every host with this name, which can be a wildcard, is one of the names.
pub(crate) fn covers(names: &[String], name: &str) -> bool {
    names.iter().any(|other| {
        other == name
            || other.strip_prefix("*.").is_some_and(|parent| {
                !name.starts_with('*') && name.split_once('.').is_some_and(|(_, rest)| rest == parent)
            })
    })
}

/// The names that both have.
fn common(ones: &[String], others: &[String]) -> Vec<String> {
    let mut both: Vec<String> = ones.iter().filter(|name| covers(others, name)).cloned().collect();
    for name in others.iter().filter(|name| covers(ones, name)) {
        if !both.contains(name) {
            both.push(name.clone());
        }
    }
    both
}

/// Adds a route; one with the same content as the last one, but for other hosts, is one with that.
pub(crate) fn add_route(service: &mut Draft, hosts: Option<&Vec<String>>, mut route: Draft) {
    let Some(hosts) = hosts else {
        service.routes.push(route);
        return;
    };
    if let Some(last) = service.routes.last_mut() {
        let mut known = last.clone();
        let of_last = known.of("").take_list("hosts");
        if !of_last.is_empty() && known.text() == route.text() {
            for host in hosts {
                last.of("").append("hosts", host.as_str());
            }
            return;
        }
    }
    let mut with_hosts = Section::default();
    with_hosts.put("hosts", list(hosts.iter().map(String::as_str)));
    with_hosts.extend(route.of(""));
    *route.of("") = with_hosts;
    service.routes.push(route);
}

/// Returns true for a field of one connection: Handfast writes it or leaves it out, and no configuration changes it.
pub(crate) fn is_of_connection(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    let name = name.to_ascii_lowercase();
    NAMES.contains(&name.as_str()) || name.starts_with("proxy-")
}

/// Returns true for a field that names the client to backends: `http.forwarded` writes it for all requests of a service.
pub(crate) fn names_client(name: &str) -> bool {
    ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// The changes of fields, in the order in which rules make them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Vec<Changed>);

#[derive(Clone, Debug)]
struct Changed {
    name: String,
    /// True if the field's earlier values are removed.
    is_replaced: bool,
    values: Vec<String>,
}

impl Changes {
    fn of(&mut self, name: &str) -> &mut Changed {
        let at = self.0.iter().position(|changed| changed.name.eq_ignore_ascii_case(name));
        let at = at.unwrap_or_else(|| {
            self.0.push(Changed { name: name.to_owned(), is_replaced: false, values: Vec::new() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        let changed = self.of(name);
        (changed.is_replaced, changed.values) = (true, vec![value]);
    }

    pub(crate) fn add(&mut self, name: &str, value: String) {
        self.of(name).values.push(value);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        let changed = self.of(name);
        (changed.is_replaced, changed.values) = (true, Vec::new());
    }

    /// Returns true if a field is changed.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|changed| changed.name.eq_ignore_ascii_case(name))
    }

    /// Returns true if a value has one of two variables.
    pub(crate) fn mentions(&self, one: &str, other: &str) -> bool {
        self.0
            .iter()
            .flat_map(|changed| &changed.values)
            .any(|value| value.contains(one) || value.contains(other))
    }

    /// Changes that come after these.
    pub(crate) fn then(&mut self, later: &Self) {
        for Changed { name, is_replaced, values } in &later.0 {
            let changed = self.of(name);
            if *is_replaced {
                (changed.is_replaced, changed.values) = (true, Vec::new());
            }
            changed.values.extend(values.iter().cloned());
        }
    }

    /// These as fields that are sent in addition to the existing ones.
    pub(crate) fn beside(&self, others: &mut Self) {
        for Changed { name, values, .. } in &self.0 {
            others.of(name).values.extend(values.iter().cloned());
        }
    }

    /// Writes the keys of a route; `kind`: `request` or `response`.
    pub(crate) fn write(&self, kind: &str, route: &mut crate::toml::Section) {
        for Changed { name, is_replaced, values } in
            self.0.iter().filter(|change| !is_of_connection(&change.name))
        {
            let mut rest = values.iter();
            if *is_replaced {
                match rest.next() {
                    Some(first) => route.append(&format!("set-{kind}-headers"), format!("{name}: {first}")),
                    None => route.append(&format!("remove-{kind}-headers"), name.to_ascii_lowercase()),
                }
            }
            for value in rest {
                route.append(&format!("add-{kind}-headers"), format!("{name}: {value}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Atom {
        Atom::Hosts(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn cell(holds: &[Atom], fails: &[Atom]) -> Conditions {
        let mut cell = Conditions::default();
        holds.iter().for_each(|atom| cell.assume(atom.clone(), true));
        fails.iter().for_each(|atom| cell.assume(atom.clone(), false));
        cell
    }

    #[test]
    fn a_cell_decides_the_conditions_it_implies() {
        let path = |path: &str| Atom::Path(path.into());
        let methods =
            |methods: &[&str]| Atom::Methods(methods.iter().map(|method| (*method).to_owned()).collect());
        let field = |value: Option<&str>| Atom::Field("x".into(), value.map(ToOwned::to_owned));
        for (holds, fails, atom, expected) in [
            (vec![hosts(&["a", "b"])], vec![], hosts(&["a", "b", "c"]), Some(true)),
            (vec![hosts(&["a", "b"])], vec![], hosts(&["c"]), Some(false)),
            (vec![hosts(&["a", "b"])], vec![], hosts(&["a"]), None),
            (vec![hosts(&["a", "b"])], vec![hosts(&["a"])], hosts(&["a"]), Some(false)),
            (vec![hosts(&["a", "b"])], vec![hosts(&["a"])], hosts(&["b"]), Some(true)),
            (vec![], vec![hosts(&["*.x"])], hosts(&["a.x"]), Some(false)),
            (vec![hosts(&["a.x"])], vec![], hosts(&["*.x"]), Some(true)),
            (vec![hosts(&["*.x"])], vec![], hosts(&["a.x"]), None),
            (vec![path("/a/b")], vec![], path("/a"), Some(true)),
            (vec![path("/a")], vec![], path("/a/b"), None),
            (vec![path("/a")], vec![], path("/ab"), Some(false)),
            (vec![path("/a")], vec![path("/a/")], path("/a/b"), Some(false)),
            (vec![methods(&["GET"])], vec![], methods(&["GET", "HEAD"]), Some(true)),
            (vec![], vec![methods(&["GET", "HEAD"])], methods(&["HEAD"]), Some(false)),
            (vec![field(Some("1"))], vec![], field(None), Some(true)),
            (vec![], vec![field(None)], field(Some("1")), Some(false)),
            (vec![field(Some("1"))], vec![], field(Some("2")), None),
            (vec![Atom::Source(vec!["10.0.0.0/8".into()])], vec![], Atom::Source(vec!["::/0".into()]), None),
        ] {
            assert_eq!(cell(&holds, &fails).decides(&atom), expected, "{holds:?} {fails:?} {atom:?}");
        }
    }

    /// The known path, another one, whether it holds for the first one, and whether no route has both.
    #[test]
    fn paths_are_compared_with_and_without_regard_to_case() {
        let start = |text: &str| match text.strip_prefix("-i ") {
            Some(text) => PathStart::new(text, true),
            None => PathStart::new(text, false),
        };
        for (known, other, holds, is_mixed) in [
            ("/a/b", "/a*", Some(true), false),
            ("/ab", "/a*", Some(true), false),
            ("/a*", "/a", None, false),
            ("/a/b", "-i /A/", Some(true), false),
            ("-i /a/b", "/a/", None, true),
            ("-i /a/b", "/1", Some(false), false),
            ("-i /1/2", "/1/", Some(true), false),
            ("/A", "-i /a/b", None, true),
            ("-i /a", "/A/b", None, false),
            ("-i /a", "-i /A/b*", None, false),
            ("/A/", "/a/", Some(false), false),
        ] {
            let (cell, atom) = (cell(&[Atom::Path(start(known))], &[]), Atom::Path(start(other)));
            assert_eq!((cell.decides(&atom), cell.mixes_cases(&atom)), (holds, is_mixed), "{known} {other}");
        }
    }

    #[test]
    fn only_positive_parts_let_requests_through_that_were_meant() {
        let part = Formula::narrower(Atom::Path("/a".into()), "what");
        let both = Formula::All(vec![part.clone(), part.negated()]);
        assert_eq!(both.narrower_parts(false).len(), 1);
        assert_eq!(both.narrower_parts(true).len(), 1);
        assert_eq!(both.negated().narrower_parts(false).len(), 1);
    }

    #[test]
    fn lists_of_clients_are_one_where_that_means_the_same() {
        let list = |address: &str| Formula::atom(Atom::Source(vec![address.into()]));
        let both = Formula::atom(Atom::Source(vec!["a".into(), "b".into()]));
        let (one, other) = (list("a"), list("b"));
        for (formula, expected) in [
            (Formula::Any(vec![one.clone(), other.clone()]), both.clone()),
            (Formula::Any(vec![one.clone(), other.clone()]).negated(), both.clone().negated()),
            (Formula::All(vec![one.clone().negated(), other.clone().negated()]), both.clone().negated()),
            (Formula::All(vec![one.clone().negated(), other.clone().negated()]).negated(), both),
        ] {
            assert_eq!(formula.with_one_list(), expected, "{formula:?}");
        }
        let user = Formula::atom(Atom::User("u".into()));
        for formula in [
            Formula::All(vec![one.clone(), other.clone()]),
            Formula::Any(vec![one.clone().negated(), other.clone().negated()]),
            Formula::All(vec![one.clone(), other.clone().negated()]),
            Formula::Any(vec![one.clone(), user.clone()]),
            Formula::All(vec![one.negated(), user.negated()]),
        ] {
            assert_eq!(formula.with_one_list(), formula);
        }
    }

    #[test]
    fn changes_of_fields_keep_their_order() {
        let mut changes = Changes::default();
        changes.add("A", "1".into());
        changes.set("a", "2".into());
        changes.add("A", "3".into());
        changes.add("B", "4".into());
        changes.set("C", "5".into());
        changes.remove("c");
        changes.remove("Proxy");
        changes.set("Keep-Alive", "6".into());
        let mut section = crate::toml::Section::default();
        changes.write("request", &mut section);
        assert_eq!(section.text("set-request-headers").as_deref(), Some("[\"A: 2\"]"));
        assert_eq!(section.text("add-request-headers").as_deref(), Some("[\"A: 3\", \"B: 4\"]"));
        assert_eq!(section.text("remove-request-headers").as_deref(), Some("[\"c\"]"));
    }
}
