//! Versions, suites and groups as written in a file, checked by the crate that knows them (`handfast_tls::policy`).
//!
//! In: a section with `policy`, `versions`, `suites`, `groups`. Out: the model's [`Policy`]; what is wrong is noted at the
//! very entry of the list.

use std::ops::Range;

use handfast_text::suggest::{did_you_mean, one_of};
use handfast_tls::policy::{self, Field, PolicyProblem};

use super::keys;
use super::model::Policy;
use super::problem::{Fault, shortened};
use super::reading::Item;
use super::reading::values;
use super::schema::Entry;
use super::schema::default_of;
use super::table::Table;

pub(crate) fn of_service(section: &Table<'_>) -> Policy {
    let policy = written_policy(section, named(section.or_default(&keys::POLICY)));
    check(section, &policy);
    policy
}

/// The policy of a rule; `None` when it is inherited.
///
/// A rule that names a policy starts from that alone; one that does not takes the service's, list by list.
pub(crate) fn of_rule(section: &Table<'_>, of_service: &Policy) -> Option<Policy> {
    let keys: [&dyn Entry; 4] = [&keys::RULE_POLICY, &keys::VERSIONS, &keys::SUITES, &keys::GROUPS];
    if keys.iter().all(|key| section.written(*key).is_none()) {
        return None;
    }
    let around = section.optional(&keys::RULE_POLICY).map_or_else(|| of_service.clone(), named);
    let policy = written_policy(section, around);
    // Problems of the service's own policy are reported there.
    if resolve(of_service).is_ok() || policy.base != of_service.base {
        check(section, &policy);
    }
    Some(policy)
}

fn resolve(policy: &Policy) -> Result<policy::Policy, Vec<PolicyProblem>> {
    let Policy { base, versions, suites, groups } = policy;
    policy::resolve(base, versions.as_deref(), suites.as_deref(), groups.as_deref())
}

/// Notes what is wrong with a policy, each at its place.
fn check(section: &Table<'_>, policy: &Policy) {
    for problem in resolve(policy).err().unwrap_or_default() {
        let key: &dyn Entry = match problem.field {
            Field::Policy => &keys::POLICY,
            Field::Versions => &keys::VERSIONS,
            Field::Suites => &keys::SUITES,
            Field::Groups => &keys::GROUPS,
        };
        let span = place(section, key, problem.index);
        section.reading().error(&span, fault(&problem, key.name));
    }
}

/// The place of an entry of a list, or of the key that brought the contradiction in.
fn place(section: &Table<'_>, key: &dyn Entry, index: Option<usize>) -> Range<usize> {
    if let Some(item) = section.item(key) {
        let entry = index.and_then(|index| item.value.as_array()?.get(index));
        return entry.map_or(item.span, |entry| Item::new(entry).span);
    }
    let others: [&dyn Entry; 4] = [&keys::VERSIONS, &keys::GROUPS, &keys::SUITES, &keys::POLICY];
    others.iter().find_map(|key| section.written(*key)).unwrap_or_else(|| section.span().clone())
}

fn fault(problem: &PolicyProblem, key: &str) -> Fault {
    let subject = if problem.value.is_empty() { key } else { &problem.value };
    let hint = match problem.meant {
        Some(meant) => Some(format!("write `{meant}`")),
        // All versions look alike, so `1.3` is no likely correction of `1.1`.
        None if problem.field == Field::Versions => None,
        None => did_you_mean(&problem.value, problem.allowed.iter().copied()),
    };
    let fault = Fault::new(format!("`{}` {}", shortened(subject), problem.what));
    // The lists are long: beside a correction they are not needed.
    match hint {
        Some(hint) => fault.hint(hint),
        None if problem.allowed.is_empty() => fault,
        None => fault.allowed(one_of(problem.allowed.iter().copied())),
    }
}

/// The policies as the reference page lists them: name, what it is for, and what it contains.
pub(crate) fn list() -> Vec<(&'static str, &'static str, [String; 3])> {
    let words =
        |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    policy::names()
        .iter()
        .filter_map(|name| {
            let content = policy::resolve(name, None, None, None).ok()?;
            let lists = [content.version_names(), content.suite_names(), content.group_names()].map(words);
            Some((*name, policy::describe(name)?, lists))
        })
        .collect()
}

pub(crate) fn is_default(policy: &Policy) -> bool {
    *policy == named(default_of(&keys::POLICY))
}

fn named(base: String) -> Policy {
    Policy { base, versions: None, suites: None, groups: None }
}

/// A policy with the lists of a section instead of the inherited ones.
fn written_policy(section: &Table<'_>, around: Policy) -> Policy {
    Policy {
        base: around.base,
        versions: section.optional(&keys::VERSIONS).map(values).or(around.versions),
        suites: section.optional(&keys::SUITES).map(values).or(around.suites),
        groups: section.optional(&keys::GROUPS).map(values).or(around.groups),
    }
}
