//! The endpoints of one route, and which of them a connection dials next.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
#[expect(clippy::disallowed_types, reason = "a thread takes it when it is given a state")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use handfast_net::clock::Moment;

use super::balance::{self, Candidate, Member, WHOLE};
use super::endpoint::{Attempt, Endpoint, Pick};
use crate::backends::standing::Availability;
use handfast_config::model::{Backend, Balance};
use handfast_observe::cause::Cause;
use handfast_observe::metrics::BackendMetrics;

/// Rotation counters of the groups of one service, by their backends: all threads have one order.
#[expect(clippy::disallowed_types, reason = "a thread takes it when it is given a state")]
#[derive(Debug, Default)]
pub(crate) struct RotationCounters(Mutex<HashMap<usize, Arc<AtomicUsize>>>);

impl RotationCounters {
    pub(crate) fn of(&self, backends: &Arc<[Backend]>) -> Arc<AtomicUsize> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(backends.as_ptr() as usize).or_default())
    }
}

#[derive(Debug)]
pub(crate) struct Group {
    balance: Balance,
    slow_start: Duration,
    members: RefCell<Vec<Member>>,
    /// True if all members that are used at the same time always have the same weight: rotation then needs no arithmetic.
    even: Cell<bool>,
    /// Of names without an address.
    nameless: RefCell<Vec<Arc<BackendMetrics>>>,
    /// Turns that were given out, on all threads: people try a rotation with as many requests as there are backends.
    turns: Arc<AtomicUsize>,
    /// The state of a generator of random numbers.
    random: Cell<u64>,
    /// The thread's number: where turns by weight begin, which are separate for each thread.
    first: usize,
}

/// An endpoint with its weight, and whether it is a backup.
pub(super) type Weighted = (Rc<Endpoint>, u32, bool);

impl Group {
    /// `turns`: those of this group on all threads.
    pub(crate) fn new(balance: Balance, slow_start: Duration, first: usize, turns: Arc<AtomicUsize>) -> Self {
        Self {
            balance,
            slow_start,
            members: RefCell::default(),
            even: Cell::new(true),
            nameless: RefCell::default(),
            turns,
            // Only to be another one on each thread and in each process.
            random: Cell::new(Moment::now().nanos() ^ (first as u64) << 48),
            first,
        }
    }

    /// Replaces the endpoints, and the names without an address. An endpoint that stays keeps its place in the rotation.
    pub(crate) fn set(&self, endpoints: Vec<Weighted>, nameless: Vec<Arc<BackendMetrics>>) {
        let member = |(endpoint, weight, backup)| Member::new(endpoint, weight, backup);
        let before = self.members.replace(endpoints.into_iter().map(member).collect());
        let members = self.members.borrow();
        for member in members.iter() {
            let is_same = |before: &&Member| Rc::ptr_eq(&before.endpoint, &member.endpoint);
            before.iter().find(is_same).into_iter().for_each(|before| member.continue_from(before));
        }
        let alike = |backup| {
            let mut weights =
                members.iter().filter(|member| member.backup == backup).map(|member| member.weight);
            let first = weights.next();
            first != Some(0) && weights.all(|weight| Some(weight) == first)
        };
        self.even.set(self.slow_start.is_zero() && alike(false) && alike(true));
        if before.is_empty() {
            let now = Moment::now();
            for _ in 0..self.first {
                balance::take_turns(members.iter().map(|member| (member, self.share(member, now))));
            }
        }
        *self.nameless.borrow_mut() = nameless;
    }

    pub(crate) fn endpoints(&self) -> Vec<Rc<Endpoint>> {
        self.members.borrow().iter().map(|member| Rc::clone(&member.endpoint)).collect()
    }

    /// Returns true if an endpoint is used only while no other one is up.
    pub(crate) fn is_backup(&self, endpoint: &Rc<Endpoint>) -> bool {
        let members = self.members.borrow();
        members.iter().any(|member| member.backup && Rc::ptr_eq(&member.endpoint, endpoint))
    }

    /// Counts a connection that ended because there was no endpoint to try.
    pub(crate) fn nothing_to_try(&self) {
        self.nameless.borrow().iter().for_each(|metrics| metrics.failed(Cause::NameNotResolved));
    }

    /// Returns true if there are endpoints, but checks or an operator have taken all of them out of use.
    pub(crate) fn is_all_out(&self) -> bool {
        let members = self.members.borrow();
        let mut used = members.iter().filter(|member| member.weight > 0).peekable();
        used.peek().is_some()
            && used.all(|member| member.endpoint.standing.availability() == Availability::Out)
    }

    /// Picks the next endpoint, other than those that were tried.
    ///
    /// One that is down and whose pause has ended comes first, for one connection of the whole process. Then come those that are up;
    /// backups only if no other one is. If none of these is left, the pause of the others is no reason to refuse a client: an attempt at a
    /// failing backend is better than a certain refusal. Still only one connection at a time makes that attempt, and the others use its
    /// outcome. An endpoint that a check or an operator has taken out is not tried.
    pub(crate) fn pick(&self, now: Moment, tried: &[Rc<Endpoint>], client: Option<IpAddr>) -> Pick {
        self.pick_as(self.balance, now, tried, client)
    }

    /// The same by rendezvous hashing of a key, whatever `balance` is.
    pub(crate) fn pick_by(&self, now: Moment, tried: &[Rc<Endpoint>], key: IpAddr) -> Pick {
        self.pick_as(Balance::SourceHash, now, tried, Some(key))
    }

    /// This one, if it is up and was not tried.
    pub(crate) fn pick_this(
        &self,
        tried: &[Rc<Endpoint>],
        is_it: impl Fn(&Endpoint) -> bool,
    ) -> Option<Attempt> {
        let members = self.members.borrow();
        let mut fitting = members.iter().filter(|member| is_up(member) && is_it(&member.endpoint));
        let found = fitting.find(|member| !tried.iter().any(|tried| Rc::ptr_eq(tried, &member.endpoint)))?;
        Some(Attempt::without_trial(&found.endpoint))
    }

    #[inline]
    fn pick_as(&self, balance: Balance, now: Moment, tried: &[Rc<Endpoint>], client: Option<IpAddr>) -> Pick {
        let members = self.members.borrow();
        let ticket = if self.even.get() { self.turns.fetch_add(1, Ordering::Relaxed) } else { self.first };
        let start = ticket % members.len().max(1);
        let turn = || {
            members.iter().cycle().skip(start).take(members.len()).filter(|member| {
                member.weight > 0 && !tried.iter().any(|tried| Rc::ptr_eq(tried, &member.endpoint))
            })
        };
        for backup in [false, true] {
            let tier = || turn().filter(move |member| member.backup == backup);
            if let Some(picked) = self.pick_of(&members, tier, start, now, (balance, client)) {
                return Pick::Dial(picked);
            }
        }
        let backups_last = || {
            [false, true].into_iter().flat_map(|backup| turn().filter(move |member| member.backup == backup))
        };
        if let Some(attempt) = backups_last().find_map(try_out) {
            return Pick::Dial(attempt);
        }
        let is_used = |member: &&Member| member.endpoint.standing.availability() != Availability::Out;
        backups_last().find(is_used).map_or(Pick::Nothing, |member| Pick::Wait(Rc::clone(&member.endpoint)))
    }

    fn pick_of<'a, I: Iterator<Item = &'a Member> + Clone>(
        &self,
        members: &[Member],
        tier: impl Fn() -> I,
        start: usize,
        now: Moment,
        (balance, client): (Balance, Option<IpAddr>),
    ) -> Option<Attempt> {
        let is_due = move |member: &&Member| matches!(member.endpoint.standing.availability(), Availability::Down(until) if until <= now);
        if let (Balance::SourceHash, Some(client)) = (balance, client) {
            // A backend whose pause has ended is tried by one of its clients, so that no other one changes its backend.
            let mine = tier().filter(|member| is_due(member) || is_up(member));
            let best = balance::best_for(mine.map(|member| (member, self.share(member, now))), client)?;
            if let Some(attempt) = try_out(best) {
                return Some(attempt);
            }
            // It is up, or another connection tries it.
        } else if let Some(due) = tier().filter(is_due).find_map(try_out) {
            return Some(due);
        }
        let up = || tier().filter(is_up);
        let shares = || up().map(|member| -> Candidate<'a> { (member, self.share(member, now)) });
        let picked = match (balance, client) {
            (Balance::SourceHash, Some(client)) => balance::best_for(shares(), client),
            (Balance::RoundRobin | Balance::SourceHash, _) if self.even.get() => up().next(),
            (Balance::RoundRobin | Balance::SourceHash, _) => balance::take_turns(shares()),
            (Balance::LeastConnections, _) if self.even.get() => {
                up().min_by_key(|member| member.endpoint.connections.get())
            }
            (Balance::LeastConnections, _) => balance::emptiest(shares()),
            (Balance::TwoChoices, _) => balance::emptier_of_two(shares(), &self.random),
        }?;
        if self.even.get() {
            // The turns of those that are not used are over too: none gets the clients of its neighbour as well.
            let place = members.iter().position(|member| std::ptr::eq(member, picked)).unwrap_or(start);
            let skipped = (place + members.len() - start) % members.len();
            if skipped > 0 {
                self.turns.fetch_add(skipped, Ordering::Relaxed);
            }
        }
        Some(Attempt { endpoint: Rc::clone(&picked.endpoint), trial: None })
    }

    /// Returns the part of its weight that a member has now: less than all of it during a slow start.
    fn share(&self, member: &Member, now: Moment) -> u64 {
        let whole = u64::from(member.weight) * WHOLE;
        if self.slow_start.is_zero() {
            return whole;
        }
        let Some(since) = member.endpoint.standing.recovered_at() else { return whole };
        let age = now.since(since);
        if age >= self.slow_start {
            return whole;
        }
        // Never zero: a backend without clients would not be warm at the end either.
        ((whole as f64 * age.div_duration_f64(self.slow_start)) as u64).max(1)
    }
}

fn is_up(member: &&Member) -> bool {
    member.endpoint.standing.availability() == Availability::Up
}

/// The trial of a backend, if it is to be had.
fn try_out(member: &Member) -> Option<Attempt> {
    let trial = member.endpoint.standing.try_out()?;
    Some(Attempt { endpoint: Rc::clone(&member.endpoint), trial: Some(trial) })
}
