//! Members of the fleet and their claims to order certificates: values, without a clock or a bus.
//!
//! In: words of others, the time. Out: answers to questions. A claim is a lease: it ends by itself, with a word, or when its holder is
//! silent. Two machines that claim the same name at once may both order it after a bus was away, which costs an order and nothing else.
//!
//! Of two claims that are not confirmed yet, that of the process with the smaller identifier is confirmed.
//!
//! A bus can repeat messages. So each has a number, of which only higher ones count, and a process is remembered for longer than its messages
//! are young: repeated ones never keep a machine, or its claims, alive.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::words::{FleetMessage, Word};

/// A machine without messages for this long is gone.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(45);
/// … and for this long, is no longer waited for.
const SILENT: Duration = Duration::from_secs(15);
/// A process whose messages are older than this by its own clock, or younger, is not listened to, except for its keys. Two clocks that are
/// wrong by minutes each, in both directions, are far within it.
const FRESH: Duration = Duration::from_secs(3_600);
/// Time for which the number of a process's last message is remembered: until none of its messages is fresh any more, whatever its
/// clock shows.
const REMEMBERED: Duration = Duration::from_secs(3 * 3_600);
/// Processes that are remembered, at most.
const MAX_MEMBERS: usize = 1_024;
/// Names that are claimed by others, at most.
const MAX_CLAIMS: usize = 10_000;
/// The longest lease. **Units**: seconds.
const MAX_LEASE_SECONDS: u64 = 6 * 3_600;

/// Another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its program's version.
    pub version: String,
    /// True if it orders certificates.
    pub orders: bool,
    /// Arrival of its last message, on our clock. **Units**: milliseconds since 1970.
    pub last_received_at: u64,
    /// Its clock minus ours. **Units**: milliseconds.
    pub clock_ahead: i64,
}

/// A moment. **Units**: milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// By a clock that is never set.
    pub(crate) steady: u64,
    /// Since 1970.
    pub(crate) wall: u64,
}

/// Verdict on a received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It counts; perhaps there is something to answer.
    New(Option<Word>),
    /// Its time is not ours: a clock is wrong, or it was sent long ago. Nothing is noted.
    OtherTime,
    /// It came before.
    Repeated,
}

/// A process of another machine.
#[derive(Debug)]
struct Member {
    machine: Machine,
    /// Of its last message.
    number: u64,
    /// Arrival of that message, by the steady clock.
    last_received: u64,
    has_left: bool,
}

/// A name whose certificate one machine orders.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    by: String,
    until: u64,
    confirmed: bool,
}

/// The fleet as this machine sees it.
#[derive(Debug)]
pub(crate) struct Members {
    me: String,
    members: BTreeMap<String, Member>,
    claims: BTreeMap<String, Claim>,
}

impl Members {
    /// None but this process.
    pub(crate) fn new(me: &str) -> Self {
        Self { me: me.to_owned(), members: BTreeMap::new(), claims: BTreeMap::new() }
    }

    /// Takes note of a word.
    pub(crate) fn receive(&mut self, message: &FleetMessage, now: Now) -> Verdict {
        self.forget(now.steady);
        let ahead = i128::from(message.at) - i128::from(now.wall);
        match self.members.get(&message.from) {
            Some(known) if message.number <= known.number => return Verdict::Repeated,
            None if ahead.unsigned_abs() > FRESH.as_millis() || self.members.len() >= MAX_MEMBERS => {
                return Verdict::OtherTime;
            }
            _ => {}
        }
        let machine = Machine {
            name: message.machine.clone(),
            version: message.version.clone(),
            orders: message.orders,
            last_received_at: now.wall,
            clock_ahead: i64::try_from(ahead).unwrap_or(0),
        };
        let has_left = message.word == Word::Leaving;
        let known = Member { machine, number: message.number, last_received: now.steady, has_left };
        self.members.insert(message.from.clone(), known);
        self.forget(now.steady);
        Verdict::New(match &message.word {
            Word::Claim { name, seconds, confirmed } => {
                let until = now.steady.saturating_add(1_000 * (*seconds).min(MAX_LEASE_SECONDS));
                let theirs = Claim { by: message.from.clone(), until, confirmed: *confirmed };
                self.claimed(name, theirs, now.steady)
            }
            Word::Released { name } => {
                if self.claims.get(name).is_some_and(|claim| claim.by == message.from) {
                    self.claims.remove(name);
                }
                None
            }
            _ => None,
        })
    }

    /// Another machine claims a name. If our claim is better, it is the answer.
    fn claimed(&mut self, name: &str, theirs: Claim, now: u64) -> Option<Word> {
        let ours = self.claims.get(name).filter(|claim| claim.until > now && claim.by != theirs.by);
        let stays = ours.is_some_and(|ours| match (ours.confirmed, theirs.confirmed) {
            (true, false) => true,
            (false, true) => false,
            _ => ours.by < theirs.by,
        });
        if !stays {
            if self.claims.len() < MAX_CLAIMS || self.claims.contains_key(name) {
                self.claims.insert(name.to_owned(), theirs);
            }
            return None;
        }
        let ours = ours.filter(|ours| ours.by == self.me)?;
        let seconds = (ours.until - now) / 1_000;
        Some(Word::Claim { name: name.to_owned(), seconds, confirmed: ours.confirmed })
    }

    /// Claims a name for this machine, which is announced, and confirmed after others could object. `None`: another one has it.
    pub(crate) fn claim(&mut self, name: &str, seconds: u64, now: u64) -> Option<Word> {
        self.forget(now);
        if self.claims.get(name).is_some_and(|claim| claim.by != self.me) {
            return None;
        }
        let until = now.saturating_add(1_000 * seconds.min(MAX_LEASE_SECONDS));
        let confirmed = self.claims.get(name).is_some_and(|claim| claim.confirmed);
        self.claims.insert(name.to_owned(), Claim { by: self.me.clone(), until, confirmed });
        Some(Word::Claim { name: name.to_owned(), seconds, confirmed })
    }

    /// Confirms a claim, if it still is ours.
    pub(crate) fn confirm(&mut self, name: &str, now: u64) -> Option<Word> {
        self.forget(now);
        let ours = self.claims.get_mut(name).filter(|claim| claim.by == self.me)?;
        ours.confirmed = true;
        let seconds = ours.until.saturating_sub(now) / 1_000;
        Some(Word::Claim { name: name.to_owned(), seconds, confirmed: true })
    }

    /// Returns true if this machine claims a name.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.claims.get(name).is_some_and(|claim| claim.by == self.me)
    }

    /// Gives a claim of ours up; whether there was one.
    pub(crate) fn release(&mut self, name: &str) -> bool {
        let is_ours = self.holds(name);
        if is_ours {
            self.claims.remove(name);
        }
        is_ours
    }

    /// Machines whose last message is recent: their processes.
    pub(crate) fn lively(&self, now: u64) -> Vec<String> {
        self.active_within(SILENT, now).map(|(id, _)| id.clone()).collect()
    }

    /// Returns true if this machine, which orders certificates, reports them to `asker` for all that do.
    pub(crate) fn reports_for_all(&self, asker: &str, now: u64) -> bool {
        let orders = self.active_within(SILENT, now).filter(|(_, known)| known.machine.orders);
        orders.into_iter().all(|(id, _)| id == asker || *id > self.me)
    }

    /// The others.
    pub(crate) fn machines(&self, now: u64) -> Vec<Machine> {
        let mut machines: Vec<_> =
            self.active_within(MEMBER_TIMEOUT, now).map(|(_, known)| known.machine.clone()).collect();
        machines.sort_by(|one, other| one.name.cmp(&other.name));
        machines
    }

    /// The machine of a process.
    pub(crate) fn machine(&self, id: &str) -> Option<&Machine> {
        self.members.get(id).map(|known| &known.machine)
    }

    fn active_within(&self, time: Duration, now: u64) -> impl Iterator<Item = (&String, &Member)> {
        self.members.iter().filter(move |(_, known)| known.is_here(time, now))
    }

    fn forget(&mut self, now: u64) {
        self.members.retain(|_, known| now.saturating_sub(known.last_received) < millis(REMEMBERED));
        let (me, known) = (&self.me, &self.members);
        let is_here = |id: &str| known.get(id).is_some_and(|known| known.is_here(MEMBER_TIMEOUT, now));
        self.claims.retain(|_, claim| claim.until > now && (claim.by == *me || is_here(&claim.by)));
    }
}

impl Member {
    fn is_here(&self, time: Duration, now: u64) -> bool {
        !self.has_left && now.saturating_sub(self.last_received) < millis(time)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Numbers grow with each word, as those of one process do.
    fn message(from: &str, word: Word, at: u64) -> FleetMessage {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (from, machine, version) = (from.into(), format!("machine {from}"), "1".into());
        FleetMessage { from, number, machine, version, orders: true, at, word }
    }

    fn at(time: u64) -> Now {
        Now { steady: time, wall: time }
    }

    fn answer(received: Verdict) -> Option<Word> {
        let Verdict::New(answer) = received else { panic!("{received:?}") };
        answer
    }

    #[test]
    fn a_claim_is_for_one_until_it_ends_or_its_holder_is_gone() {
        let (mut a, mut b) = (Members::new("a"), Members::new("b"));
        let word = a.claim("x", 600, 1_000).expect("nobody has it");
        assert_eq!(answer(b.receive(&message("a", word.clone(), 1_000), at(1_000))), None);
        assert_eq!(b.claim("x", 600, 2_000), None, "a has it");
        assert!(b.claim("y", 600, 2_000).is_some());
        assert!(b.claim("x", 600, 1_000 + millis(MEMBER_TIMEOUT)).is_some(), "a is silent");
        let mut b = Members::new("b");
        b.receive(&message("a", word.clone(), 1_000), at(1_000));
        b.receive(&message("a", Word::Released { name: "x".into() }, 2_000), at(2_000));
        assert!(b.claim("x", 600, 2_000).is_some(), "a has released it");
        let mut b = Members::new("b");
        b.receive(&message("a", word, 1_000), at(1_000));
        b.receive(&message("a", Word::Leaving, 2_000), at(2_000));
        assert!(b.claim("x", 600, 2_000).is_some(), "a has left");
        assert!(b.machines(2_000).is_empty());
    }

    #[test]
    fn a_confirmed_claim_is_defended() {
        let mut a = Members::new("z");
        a.claim("x", 600, 1_000).expect("nobody has it");
        a.confirm("x", 1_500).expect("it is ours");
        let late = Word::Claim { name: "x".into(), seconds: 600, confirmed: false };
        let defence = answer(a.receive(&message("b", late, 2_000), at(2_000))).expect("it is defended");
        let mut b = Members::new("b");
        b.claim("x", 600, 2_000).expect("it knows no better");
        b.receive(&message("z", defence, 2_000), at(2_001));
        assert_eq!(b.confirm("x", 2_500), None, "z has it");
        assert!(a.release("x") && !a.release("x"));
    }

    #[test]
    fn one_machine_answers_for_all() {
        let mut b = Members::new("b");
        for other in ["a", "c"] {
            b.receive(&message(other, Word::Here, 1_000), at(1_000));
        }
        assert!(b.reports_for_all("a", 2_000), "c is behind it");
        assert!(!b.reports_for_all("c", 2_000), "a is before it");
        assert!(b.reports_for_all("c", 1_000 + millis(SILENT)), "a is silent");
        b.receive(&FleetMessage { orders: false, ..message("a", Word::Here, 2_000) }, at(2_000));
        assert!(b.reports_for_all("c", 2_000), "a has no certificates");
    }

    #[test]
    fn clocks_are_compared() {
        let mut a = Members::new("a");
        a.receive(&message("b", Word::Here, 301_000), at(1_000));
        assert_eq!(a.machines(1_000)[0].clock_ahead, 300_000);
        let ours = Now { steady: 1_000, wall: 100_000_000 };
        for (hour, received) in [(0, Verdict::New(None)), (1, Verdict::OtherTime)] {
            let away = hour * 3_600_000 + 1_200_000;
            for (name, their) in [("ahead", ours.wall + away), ("behind", ours.wall - away)] {
                // Of a process that is known its numbers count.
                let name = format!("{name} {hour}");
                assert_eq!(a.receive(&message(&name, Word::Here, their), ours), received, "{name}");
            }
        }
    }

    #[test]
    fn what_a_bus_repeats_keeps_no_machine_and_no_claim_alive() {
        let mut a = Members::new("a");
        let claim = message("b", Word::Claim { name: "x".into(), seconds: 21_600, confirmed: true }, 1_000);
        let (here, leaving) = (message("b", Word::Here, 2_000), message("b", Word::Leaving, 3_000));
        let minutes = |count: u64| at(1_000 + count * 60_000);
        assert_eq!(answer(a.receive(&claim, minutes(0))), None);
        assert_eq!(answer(a.receive(&here, minutes(0))), None);
        for count in 1..480 {
            for repeated in [&claim, &here] {
                assert!(
                    !matches!(a.receive(repeated, minutes(count)), Verdict::New(_)),
                    "{count} minutes later"
                );
            }
            assert!(a.machines(minutes(count).steady).is_empty());
        }
        assert!(a.claim("x", 600, minutes(480).steady).is_some(), "b is gone");
        // Nor does it send a machine away that is there.
        let mut a = Members::new("a");
        let later = message("b", Word::Here, 4_000);
        a.receive(&leaving, at(3_000));
        a.receive(&later, at(4_000));
        assert_eq!(a.receive(&leaving, at(5_000)), Verdict::Repeated);
        assert_eq!(a.machines(5_000).len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_keeps_no_claim_alive() {
        let mut a = Members::new("a");
        let claim = Word::Claim { name: "x".into(), seconds: 60, confirmed: true };
        a.receive(&message("b", claim, 9_000_000), Now { steady: 1_000, wall: 9_000_000 });
        let set_back = Now { steady: 62_000, wall: 1_000 };
        a.receive(&message("b", Word::Here, 1_000), set_back);
        assert!(a.claim("x", 600, set_back.steady).is_some());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Claim(usize),
        Confirm(usize),
        Deliver(usize),
    }

    proptest! {
        /// Three machines, one name, every order of claims and messages: once all messages have arrived, one at most has a
        /// confirmed claim, if none confirms before the words of others could come.
        #[test]
        fn two_machines_never_order_the_same_name_while_the_bus_works(
            steps in prop::collection::vec(
                prop_oneof![(0..3_usize).prop_map(Step::Claim), (0..3_usize).prop_map(Step::Deliver)], 0..30,
            ),
            confirms in prop::collection::vec((0..3_usize).prop_map(Step::Confirm), 0..3),
        ) {
            let ids = ["a", "b", "c"];
            let mut machines: Vec<_> = ids.iter().map(|id| Members::new(id)).collect();
            let mut inboxes: Vec<Vec<FleetMessage>> = vec![Vec::new(); 3];
            let say = |inboxes: &mut Vec<Vec<FleetMessage>>, from: usize, word: Word| {
                for (to, inbox) in inboxes.iter_mut().enumerate() {
                    if to != from {
                        inbox.push(message(ids[from], word.clone(), 1_000));
                    }
                }
            };
            let deliver = |machines: &mut Vec<Members>, inboxes: &mut Vec<Vec<FleetMessage>>, to: usize| {
                if inboxes[to].is_empty() {
                    return false;
                }
                let message = inboxes[to].remove(0);
                if let Some(word) = answer(machines[to].receive(&message, at(1_000))) {
                    say(inboxes, to, word);
                }
                true
            };
            for step in &steps {
                match step {
                    Step::Claim(one) => {
                        if let Some(word) = machines[*one].claim("x", 600, 1_000) {
                            say(&mut inboxes, *one, word);
                        }
                    }
                    Step::Confirm(_) => {}
                    Step::Deliver(one) => { deliver(&mut machines, &mut inboxes, *one); }
                }
            }
            // The pause before a claim is confirmed.
            while (0..3).any(|one| deliver(&mut machines, &mut inboxes, one)) {}
            let mut confirmed = Vec::new();
            for step in confirms {
                let Step::Confirm(one) = step else { continue };
                // All at once: none receives the others' before.
                if machines[one].confirm("x", 1_000).is_some() {
                    confirmed.push(one);
                }
            }
            confirmed.sort_unstable();
            confirmed.dedup();
            prop_assert!(confirmed.len() <= 1, "{confirmed:?}");
        }
    }
}
