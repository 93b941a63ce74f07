//! Versions, suites and groups: dated named policies, and what overrides them.
//!
//! In: the name of a policy and lists of names from a configuration. Out: a [`Policy`], or every problem at once.
//! Next: `server.rs` makes one rustls configuration of each of its variants.
//!
//! A dated policy never changes: a better one gets a new date, and the old one stays until a change log announces its
//! removal. A snapshot test at the bottom of this file checks the contents of each.
//!
//! # Why a policy has variants
//! rustls 0.23 takes the *client's* first group that the server has, whatever the server's order is. Of suites it takes
//! either the client's or the server's order as a whole. Two choices that operators expect from other servers are not
//! possible that way. So a [`Policy`] holds one rustls provider for each choice, and [`Policy::variant_for`] picks one from
//! the hello before rustls sees it:
//! - **Group.** Our order decides among the groups for which the client sent a key share; only when it sent none we
//!   have, our order decides among the groups it names, at the price of a HelloRetryRequest (one more round trip;
//!   RFC 9846 §4.2.4). So a preferred group never costs a round trip that another could have saved. No attacker on
//!   the wire can use this to weaken a connection: the hello is authenticated by the handshake.
//! - **Suite.** Our order decides (`ignore_client_order` must be set), except that a client whose first suite is
//!   ChaCha20-Poly1305 gets it: such a client says that it computes AES without hardware.

use std::fmt;
use std::sync::Arc;

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::version::{TLS12, TLS13};

use crate::random::Random;
use tables::{Found, GROUPS, Group, NAMED, SUITES, Suite, VERSIONS, find_group, find_suite, find_version};

pub mod contexts;
mod hkdf;
mod objection;
mod suite;
mod tables;
mod tls13;
mod transcript;
mod trial;
pub(crate) mod trial_key;

pub use objection::Objection;

/// The policy that is used when none is named.
pub const DEFAULT: &str = "2026-11";

/// Configuration key that a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The policy's name.
    Policy,
    /// The list of versions.
    Versions,
    /// The list of suites.
    Suites,
    /// The list of groups.
    Groups,
}

impl Field {
    /// The key as it is written in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Versions => "versions",
            Self::Suites => "suites",
            Self::Groups => "groups",
        }
    }
}

/// One thing wrong with a policy as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The key it is about.
    pub field: Field,
    /// Place in the list, from 0, when it is about one entry.
    pub index: Option<usize>,
    /// The offending text; empty when it is about the list as a whole.
    pub value: String,
    /// Problem, in a few words.
    pub what: &'static str,
    /// Accepted values of that key.
    pub allowed: Vec<&'static str>,
    /// Value that was probably meant, when the text is another program's word for one of ours.
    pub meant: Option<&'static str>,
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.field.name())?;
        if !self.value.is_empty() {
            write!(f, "{:?} ", self.value)?;
        }
        f.write_str(self.what)?;
        if !self.allowed.is_empty() {
            write!(f, ", expected one of {}", self.allowed.join(", "))?;
        }
        Ok(())
    }
}

/// Contents of a ClientHello that a policy's choice needs: IANA numbers, in the client's order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer<'a> {
    /// True if TLS 1.3 is among the offered versions.
    pub tls13: bool,
    /// Cipher suites.
    pub suites: &'a [u16],
    /// Groups (`supported_groups`).
    pub groups: &'a [u16],
    /// Groups for which a key share is in the hello.
    pub shares: &'a [u16],
}

/// Versions, suites and groups, checked and ready.
#[derive(Clone)]
pub struct Policy {
    name: &'static str,
    versions: Vec<&'static SupportedProtocolVersion>,
    suites: Vec<&'static Suite>,
    groups: Vec<&'static Group>,
    variants: Vec<Arc<CryptoProvider>>,
    fingerprint: String,
}

/// The names of all policies, the default first.
pub fn names() -> &'static [&'static str] {
    const NAMES: [&str; NAMED.len()] = {
        let mut names = [""; NAMED.len()];
        let mut i = 0;
        while i < NAMED.len() {
            names[i] = NAMED[i].name;
            i += 1;
        }
        names
    };
    &NAMES
}

/// Describes the purpose of a policy in one sentence; `None` for an unknown name.
pub fn describe(name: &str) -> Option<&'static str> {
    NAMED.iter().find(|named| named.name == name).map(|named| named.about)
}

/// The versions that may be written.
pub fn version_names() -> Vec<&'static str> {
    VERSIONS.iter().map(|(name, _, _)| *name).collect()
}

/// The suites that may be written.
pub fn suite_names() -> Vec<&'static str> {
    SUITES.iter().map(|suite| suite.name).collect()
}

/// The groups that may be written.
pub fn group_names() -> Vec<&'static str> {
    GROUPS.iter().map(|group| group.name).collect()
}

/// Makes a policy of a named one and what overrides it.
///
/// Names of groups and suites are those of IANA, compared without regard to case.
///
/// **Errors**: every problem there is, not only the first; each is the operator's.
pub fn resolve(
    base: &str,
    versions: Option<&[String]>,
    suites: Option<&[String]>,
    groups: Option<&[String]>,
) -> Result<Policy, Vec<PolicyProblem>> {
    let mut problems = Vec::new();
    let Some(named) = NAMED.iter().find(|named| named.name == base) else {
        problems.push(PolicyProblem {
            field: Field::Policy,
            index: None,
            value: base.to_owned(),
            what: "is no policy",
            allowed: names().to_vec(),
            meant: None,
        });
        // Checked against the default, so that all problems with the lists are reported as well.
        let _ = resolve(DEFAULT, versions, suites, groups).map_err(|more| problems.extend(more));
        return Err(problems);
    };

    let versions =
        pick(Field::Versions, versions, named.versions, find_version, version_names, &mut problems);
    let written_suites = suites.is_some();
    let suites = pick(Field::Suites, suites, named.suites, find_suite, suite_names, &mut problems);
    let groups = pick(Field::Groups, groups, named.groups, find_group, group_names, &mut problems);
    if problems.is_empty() {
        check_together(&versions, &suites, written_suites, &groups, &mut problems);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Policy::assemble(named.name, versions, suites, groups))
}

/// One list: as written, or else as the policy has it.
fn pick<T: Copy>(
    field: Field,
    written: Option<&[String]>,
    named: &[&'static str],
    find: fn(&str) -> Found<T>,
    allowed: fn() -> Vec<&'static str>,
    problems: &mut Vec<PolicyProblem>,
) -> Vec<T> {
    let Some(written) = written else {
        return named.iter().filter_map(|name| find(name).exact()).collect();
    };
    let mut problem = |index, value: &str, what, meant| {
        let value = value.to_owned();
        problems.push(PolicyProblem { field, index, value, what, allowed: allowed(), meant });
    };
    if written.is_empty() {
        problem(None, "", "is an empty list", None);
    }
    let mut picked = Vec::new();
    let mut seen: Vec<&'static str> = Vec::new();
    for (index, value) in written.iter().enumerate() {
        match find(value) {
            Found::Exact(name, _) if seen.contains(&name) => {
                problem(Some(index), value, "is there twice", None);
            }
            Found::Exact(name, found) => {
                seen.push(name);
                picked.push(found);
            }
            Found::Meant(meant) => problem(Some(index), value, "is another program's name", Some(meant)),
            Found::Refused(why) => problem(Some(index), value, why, None),
            Found::Nothing => problem(Some(index), value, "is not known or not safe", None),
        }
    }
    picked
}

/// Reports problems that involve more than one list.
fn check_together(
    versions: &[&'static SupportedProtocolVersion],
    suites: &[&'static Suite],
    written_suites: bool,
    groups: &[&'static Group],
    problems: &mut Vec<PolicyProblem>,
) {
    let mut whole = |field, value: &str, index, what| {
        let value = value.to_owned();
        problems.push(PolicyProblem { field, index, value, what, allowed: Vec::new(), meant: None });
    };
    for version in versions {
        if !suites.iter().any(|suite| suite.suite.version() == *version) {
            let what = match version.version {
                rustls::ProtocolVersion::TLSv1_2 => "leave TLS 1.2, which is enabled, without any suite",
                _ => "leave TLS 1.3, which is enabled, without any suite",
            };
            whole(Field::Suites, "", None, what);
        }
    }
    if written_suites {
        for (index, suite) in suites.iter().enumerate() {
            if !versions.contains(&suite.suite.version()) {
                whole(Field::Suites, suite.name, Some(index), "is a suite of a version that is not enabled");
            }
        }
    }
    if versions.contains(&&TLS12) && !groups.iter().any(|group| group.in_tls12) {
        whole(Field::Groups, "", None, "leave TLS 1.2, which is enabled, without any group that it can use");
    }
}

impl Policy {
    fn assemble(
        name: &'static str,
        versions: Vec<&'static SupportedProtocolVersion>,
        mut suites: Vec<&'static Suite>,
        groups: Vec<&'static Group>,
    ) -> Self {
        // rustls gives the resolver the signatures that fit the suites in common *of all versions*: a suite of a
        // version that is off would let it choose a certificate that the version in use cannot.
        suites.retain(|suite| versions.contains(&suite.suite.version()));
        let mut versions = versions;
        versions.sort_by_key(|version| std::cmp::Reverse(u16::from(version.version)));
        let fingerprint = fingerprint(&versions, &suites, &groups);
        let mut policy = Self { name, versions, suites, groups, variants: Vec::new(), fingerprint };
        policy.variants = (0..=policy.groups.len())
            .flat_map(|group| [(group, false), (group, true)])
            .map(|(group, chacha_first)| Arc::new(policy.provider(group, chacha_first)))
            .collect();
        policy
    }

    /// The provider with only the group at `group` (all, when it is past the end).
    fn provider(&self, group: usize, chacha_first: bool) -> CryptoProvider {
        let mut cipher_suites: Vec<_> = self.suites.iter().map(|suite| suite.suite).collect();
        if chacha_first {
            // Stable: the order within each half stays.
            cipher_suites.sort_by_key(|suite| !is_chacha(u16::from(suite.suite())));
        }
        let kx_groups = match self.groups.get(group) {
            Some(only) => vec![only.group],
            None => self.groups.iter().map(|group| group.group).collect(),
        };
        CryptoProvider { cipher_suites, kx_groups, secure_random: &Random, ..aws_lc_rs::default_provider() }
    }

    /// Name of the policy it is based on.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Versions, newest first, as rustls takes them.
    pub fn versions(&self) -> &[&'static SupportedProtocolVersion] {
        &self.versions
    }

    /// Versions, newest first, as they are written.
    pub fn version_names(&self) -> Vec<&'static str> {
        let name = |version: &_| VERSIONS.iter().find(|(_, known, _)| known == version).map(|known| known.0);
        self.versions.iter().filter_map(name).collect()
    }

    /// IANA names of the suites, best first.
    pub fn suite_names(&self) -> Vec<&'static str> {
        self.suites.iter().map(|suite| suite.name).collect()
    }

    /// IANA names of the groups, best first.
    pub fn group_names(&self) -> Vec<&'static str> {
        self.groups.iter().map(|group| group.name).collect()
    }

    /// Everything the policy allows, as text that is the same for the same content: part of a ticket's policy.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// One rustls provider for each choice that [`Self::variant_for`] can make; the last but one is the plain one,
    /// with all groups in our order.
    ///
    /// **Cost**: two for each group, and two; each a few hundred bytes.
    pub fn variants(&self) -> &[Arc<CryptoProvider>] {
        &self.variants
    }

    /// The plain provider: every suite and group in our order.
    pub fn plain(&self) -> &Arc<CryptoProvider> {
        &self.variants[2 * self.groups.len()]
    }

    /// Returns the index in [`Self::variants`] of the variant for a client with this offer.
    ///
    /// **Cost**: a few comparisons for each entry of the offer; no allocation.
    pub fn variant_for(&self, offer: &Offer<'_>) -> usize {
        let tls13 = offer.tls13 && self.versions.contains(&&TLS13);
        2 * self.group_for(tls13, offer) + usize::from(self.prefers_chacha(tls13, offer))
    }

    /// Returns true if a client with this offer receives a HelloRetryRequest: it sent no key share for a group that we
    /// have.
    pub fn retries(&self, offer: &Offer<'_>) -> bool {
        let tls13 = offer.tls13 && self.versions.contains(&&TLS13);
        let group = self.groups.get(self.group_for(tls13, offer));
        tls13 && group.is_some_and(|group| !offer.shares.contains(&u16::from(group.group.name())))
    }

    /// Place of the group in our list; past its end when we have none in common.
    fn group_for(&self, tls13: bool, offer: &Offer<'_>) -> usize {
        let usable = |group: &&'static Group| {
            (tls13 || group.in_tls12) && offer.groups.contains(&u16::from(group.group.name()))
        };
        let sent = |group: &&'static Group| offer.shares.contains(&u16::from(group.group.name()));
        let with_share =
            if tls13 { self.groups.iter().position(|group| usable(group) && sent(group)) } else { None };
        with_share.or_else(|| self.groups.iter().position(usable)).unwrap_or(self.groups.len())
    }

    /// Returns true if the client's first suite that we have, in the version that will be used, is a ChaCha20 suite.
    fn prefers_chacha(&self, tls13: bool, offer: &Offer<'_>) -> bool {
        let version = if tls13 { &TLS13 } else { &TLS12 };
        let ours = |number: &&u16| {
            self.suites
                .iter()
                .any(|suite| u16::from(suite.suite.suite()) == **number && suite.suite.version() == version)
        };
        offer.suites.iter().find(ours).is_some_and(|number| is_chacha(*number))
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.name)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// IANA numbers of the ChaCha20-Poly1305 suites: RFC 9846 §B.4 and RFC 7905 §2.
fn is_chacha(suite: u16) -> bool {
    matches!(suite, 0x1303 | 0xcca8 | 0xcca9)
}

fn fingerprint(
    versions: &[&'static SupportedProtocolVersion],
    suites: &[&'static Suite],
    groups: &[&'static Group],
) -> String {
    let versions: Vec<_> =
        versions.iter().map(|version| format!("{:04x}", u16::from(version.version))).collect();
    let suites: Vec<_> = suites.iter().map(|suite| suite.name).collect();
    let groups: Vec<_> = groups.iter().map(|group| group.name).collect();
    format!("versions={};suites={};groups={}", versions.join(","), suites.join(","), groups.join(","))
}

#[cfg(test)]
mod tests;
