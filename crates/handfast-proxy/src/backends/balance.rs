//! The ways to pick one of several backends that could all be used, by weight.
//!
//! In: members with their shares of this moment. Out: one of them. The caller filters out members that are down.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use crate::backends::endpoint::Endpoint;

/// A share is a weight times this, so that one that grows slowly still has steps.
pub(super) const WHOLE: u64 = 1_024;

#[derive(Debug)]
pub(super) struct Member {
    pub(super) endpoint: Rc<Endpoint>,
    pub(super) weight: u32,
    pub(super) backup: bool,
    /// The hash of its name, for source-hash; the same in every process and on every machine.
    pub(super) key: u64,
    /// Credit of this member in the weighted rotation.
    credit: Cell<i64>,
}

/// A member that could be picked, with its share at this moment.
pub(super) type Candidate<'a> = (&'a Member, u64);

impl Member {
    pub(super) fn new(endpoint: Rc<Endpoint>, weight: u32, backup: bool) -> Self {
        let key = hash_name(&endpoint.name);
        Self { endpoint, weight, backup, key, credit: Cell::new(0) }
    }

    /// Goes on where a member of the same backend was.
    pub(super) fn continue_from(&self, before: &Self) {
        self.credit.set(before.credit.get());
    }

    fn connections(&self) -> u64 {
        u64::from(self.endpoint.connections.get())
    }

    /// Compares by connections for each unit of share. A product of a 32-bit count and a 19-bit share does not overflow.
    fn is_emptier(one: Candidate<'_>, other: Candidate<'_>) -> std::cmp::Ordering {
        (one.0.connections() * other.1).cmp(&(other.0.connections() * one.1))
    }
}

/// Takes turns by weight, smoothly: with weights 5, 1 and 1 never the first one five times in a row.
///
/// Each gains its share, the one that has most is picked and pays for all. Over as many picks as the weights' sum, each is
/// picked in proportion to its weight. (The method is nginx's: its commit 52327e0 explains it.)
pub(super) fn take_turns<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> Option<&'a Member> {
    let mut best: Option<&Member> = None;
    let mut total = 0;
    for (member, share) in candidates {
        let share = i64::try_from(share).unwrap_or(i64::MAX);
        member.credit.set(member.credit.get().saturating_add(share));
        total += share;
        if best.is_none_or(|best| member.credit.get() > best.credit.get()) {
            best = Some(member);
        }
    }
    let best = best?;
    best.credit.set(best.credit.get() - total);
    Some(best)
}

/// The one with the fewest connections for its share; equal ones take turns.
pub(super) fn emptiest<'a>(candidates: impl Iterator<Item = Candidate<'a>> + Clone) -> Option<&'a Member> {
    let least = candidates.clone().min_by(|one, other| Member::is_emptier(*one, *other))?;
    take_turns(candidates.filter(|other| Member::is_emptier(*other, least).is_eq()))
}

/// Of two drawn at random, by weight, the emptier one; the first when they are equal. (Mitzenmacher, "The power of two
/// choices in randomized load balancing", 2001.) Not every client goes to the one that is empty at the moment.
pub(super) fn emptier_of_two<'a>(
    candidates: impl Iterator<Item = Candidate<'a>> + Clone,
    random: &Cell<u64>,
) -> Option<&'a Member> {
    let one = draw(candidates.clone(), random)?;
    let others = candidates.filter(|(member, _)| !std::ptr::eq(*member, one.0));
    let Some(other) = draw(others, random) else { return Some(one.0) };
    Some(if Member::is_emptier(other, one).is_lt() { other.0 } else { one.0 })
}

fn draw<'a>(
    candidates: impl Iterator<Item = Candidate<'a>> + Clone,
    random: &Cell<u64>,
) -> Option<Candidate<'a>> {
    let total: u64 = candidates.clone().map(|(_, share)| share).sum();
    let mut ticket = next_random(random).checked_rem(total)?;
    candidates.into_iter().find(|(_, share)| {
        let is_it = ticket < *share;
        ticket = ticket.saturating_sub(*share);
        is_it
    })
}

/// The one that fits a client best: the same one whatever others there are, so that one that goes or comes moves only
/// its clients. (Rendezvous hashing with weights: Schindelhauer and Schomaker, 2005.)
pub(super) fn best_for<'a>(
    candidates: impl Iterator<Item = Candidate<'a>>,
    client: IpAddr,
) -> Option<&'a Member> {
    let client = hash_client(client);
    let score = |(member, share): &Candidate<'_>| {
        // Between 0 and 1, neither included.
        -(*share as f64) / fraction(mixed(client ^ member.key)).ln()
    };
    candidates.max_by(|one, other| score(one).total_cmp(&score(other))).map(|(member, _)| member)
}

fn hash_client(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => mixed(u64::from(address.to_bits())),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            // The halves are mixed one after the other: they are not alike.
            mixed(mixed((bits >> 64) as u64).wrapping_add(bits as u64))
        }
    }
}

/// Hashes a backend's name. The result is mixed with the hash of the client.
fn hash_name(name: &str) -> u64 {
    hash_bytes(FNV_START, name.as_bytes())
}

/// Initial value of FNV-1a.
pub(crate) const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a from another start.
pub(crate) fn hash_bytes(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// 2^64 divided by the golden ratio, odd: it reaches every number.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The next random number, of SplitMix64; `state` may begin with anything.
pub(super) fn next_random(state: &Cell<u64>) -> u64 {
    state.set(state.get().wrapping_add(GOLDEN));
    mixed(state.get())
}

/// The upper 53 bits of a number as a fraction of 1.
pub(super) fn fraction(number: u64) -> f64 {
    ((number >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// The finalizer of SplitMix64: every bit of its input decides about every bit of its output.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(GOLDEN);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
