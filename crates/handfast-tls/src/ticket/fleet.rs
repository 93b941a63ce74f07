//! Ticket keys that every machine of a fleet has: all machines' keys, in whatever order they arrive.
//!
//! In: the keys of other machines, as text. Out: the union. There is no leader, and nothing to agree on: one more key to open tickets
//! with does no harm, and of those whose time has come each machine encrypts with the last by time and then by name.
//!
//! A key is made by the machine that waits least: each machine waits for a random part of half the time between the making of
//! a key and its first use, and makes one only if none has arrived.

use std::time::SystemTime;

use aws_lc_rs::rand;

use super::{Keeping, KeyText, TicketKeys, TicketSettings, file, shared_ahead, unix};
use crate::Error;

/// Keys that are kept at most, whatever the settings; of more, the newest. As text they find room in one message.
const MAX_KEYS: u64 = 4_096;
/// Time for which a machine that has just started waits for the keys of others. **Units**: seconds.
const ASKING: u64 = 3;

/// Changes from merging the keys of another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Keys that this machine did not have.
    pub new: usize,
    /// Keys that only a clock can have made that differs from ours by more than a rotation; they are not taken.
    pub out_of_time: usize,
    /// True if the other machine has the key that encrypts here from now on.
    pub has_ours: bool,
}

impl TicketKeys {
    /// Keys that other machines of a fleet have too, those of `given` for a start. Without these it waits some seconds for the keys of
    /// others before it makes one itself; until then no ticket is given out.
    ///
    /// **Errors**: [`Error::Random`].
    pub fn shared(given: Option<&KeyText>, now: SystemTime, settings: TicketSettings) -> Result<Self, Error> {
        let requests_until = unix(now).saturating_add(ASKING);
        let mut made = Self::start(Keeping::Fleet { delay: 0, requests_until }, unix(now), settings)?;
        made.draw_patience();
        if let Some(text) = given {
            made.merge(text, now);
            made.refresh_at(unix(now), true)?;
        }
        Ok(made)
    }

    /// The keys as text, for other machines of the fleet; `None`: they are not for others, or there are none.
    pub fn to_share(&self) -> Option<KeyText> {
        let is_shared = matches!(self.keeping, Keeping::Fleet { .. });
        (is_shared && !self.keys.is_empty()).then(|| self.text())
    }

    /// Adds the keys of another machine; [`TicketKeys::refresh`] has the set that follows. Text that is not understood changes
    /// nothing, and neither does any where keys are not shared.
    ///
    /// **Cost**: that of parsing; the number of keys is bounded.
    pub fn merge(&mut self, theirs: &KeyText, now: SystemTime) -> Merged {
        let Keeping::Fleet { .. } = self.keeping else { return Merged::default() };
        let Ok(theirs) = file::parse(theirs.0.as_bytes()) else { return Merged::default() };
        let mut merged = Merged::default();
        let ids: Vec<_> = theirs.iter().map(|key| key.id).collect();
        let (earliest, latest) = self.window(unix(now));
        let before = self.keys.len();
        let (in_time, out_of_time): (Vec<_>, Vec<_>) =
            theirs.into_iter().partition(|key| (earliest..=latest).contains(&key.used_from));
        merged.out_of_time = out_of_time.len();
        self.keys.extend(in_time);
        // The same on every machine, in whatever order keys arrive.
        self.keys.sort_by_key(|key| (key.used_from, key.id));
        self.keys.dedup_by_key(|key| key.id);
        merged.new = self.keys.len() - before;
        let too_many = self.keys.len().saturating_sub(self.most());
        self.keys.drain(..too_many);
        if merged.new > 0 {
            self.draw_patience();
        }
        // The first key of a machine that starts is mostly another one's, and is announced again only after a minute.
        let ours = self.schedule().encrypting(&self.keys, unix(now));
        merged.has_ours = ours.is_some_and(|place| ids.contains(&self.keys[place].id));
        merged
    }

    /// Forgets every key, and begins as at a start.
    pub fn forget(&mut self, now: SystemTime) {
        if let Keeping::Fleet { requests_until, .. } = &mut self.keeping {
            *requests_until = unix(now).saturating_add(ASKING);
            self.keys.clear();
        }
    }

    /// First uses that keys of others may have: tickets of older ones are over, and later ones are of a clock ahead of ours.
    fn window(&self, now: u64) -> (u64, u64) {
        let (rotate, lifetime) = (self.settings.rotate_seconds(), self.settings.lifetime.as_secs());
        let earliest = now.saturating_sub(2 * rotate).saturating_sub(lifetime);
        (earliest, now.saturating_add(rotate + shared_ahead(&self.settings)))
    }

    /// Keys that are kept: four times those of one lifetime, since parts of a fleet and machines that start make some at the same time.
    fn most(&self) -> usize {
        let in_a_lifetime = self.settings.lifetime.as_secs() / self.settings.rotate_seconds();
        in_a_lifetime.saturating_mul(4).saturating_add(16).min(MAX_KEYS) as usize
    }

    /// Returns true if keys of other machines may still arrive for the start.
    pub(super) fn is_asking(&self, now: u64) -> bool {
        match self.keeping {
            Keeping::Fleet { requests_until, .. } => self.keys.is_empty() && now < requests_until,
            Keeping::Alone | Keeping::File(_) => false,
        }
    }

    /// Draws how long this machine waits for the next key to be made by another one.
    pub(super) fn draw_patience(&mut self) {
        let half = shared_ahead(&self.settings) / 2;
        if let Keeping::Fleet { delay, .. } = &mut self.keeping {
            let mut bytes = [0; 8];
            // Without a generator no key is made either.
            let _ = rand::fill(&mut bytes);
            *delay = u64::from_le_bytes(bytes) % (half + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const SETTINGS: TicketSettings =
        TicketSettings { rotate: Duration::from_secs(3600), lifetime: Duration::from_secs(7200) };

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn machine(now: u64) -> TicketKeys {
        TicketKeys::shared(None, at(now), SETTINGS).expect("there are random numbers")
    }

    /// One that found no other.
    fn alone(now: u64) -> TicketKeys {
        let mut keys = machine(now - ASKING);
        keys.refresh(at(now)).expect("nothing can fail");
        assert_eq!(keys.count(), 1);
        keys
    }

    fn text(keys: &TicketKeys) -> KeyText {
        keys.to_share().expect("it has keys")
    }

    fn ids(keys: &TicketKeys) -> Vec<[u8; 16]> {
        keys.keys.iter().map(|key| key.id).collect()
    }

    #[test]
    fn a_machine_that_starts_takes_the_keys_of_others_and_makes_none() {
        let first = alone(100);
        let mut second = machine(200);
        assert_eq!(second.count(), 0, "it asks first");
        let merged = second.merge(&text(&first), at(201));
        assert_eq!(merged, Merged { new: 1, out_of_time: 0, has_ours: true });
        second.refresh(at(201)).expect("nothing can fail").expect("it has changed");
        assert_eq!(ids(&second), ids(&first));
        assert!(second.keys().encrypting.is_some());
        assert!(second.merge(&text(&first), at(202)).has_ours);
        assert!(!alone(300).merge(&text(&first), at(301)).has_ours, "it has a later one");
        let mut lonely = machine(200);
        lonely.refresh(at(201)).expect("nothing can fail");
        assert_eq!(lonely.count(), 0, "others may still answer");
        lonely.refresh(at(203)).expect("nothing can fail");
        assert_eq!(lonely.count(), 1, "nobody did");
    }

    #[test]
    fn the_next_key_is_made_by_one_machine_in_time_for_all() {
        let mut machines = vec![alone(100)];
        for _ in 0..2 {
            let text = text(&machines[0]);
            machines.push(TicketKeys::shared(Some(&text), at(100), SETTINGS).expect("random"));
        }
        for second in (100..20_000).step_by(1) {
            for speaker in 0..3 {
                if machines[speaker].refresh(at(second)).expect("nothing can fail").is_some() {
                    let text = text(&machines[speaker]);
                    for (listener, machine) in machines.iter_mut().enumerate() {
                        if listener != speaker {
                            machine.merge(&text, at(second));
                            machine.refresh(at(second)).expect("nothing can fail");
                        }
                    }
                }
            }
            let set = ids(&machines[0]);
            assert!(machines.iter().all(|machine| ids(machine) == set), "at {second}");
            let encrypting: Vec<_> = machines.iter().map(|machine| machine.keys().encrypting).collect();
            assert!(encrypting.iter().all(|place| place.is_some() && *place == encrypting[0]), "at {second}");
        }
        // 5 rotations, and the keys of the last two and lifetime are there; twins would be more.
        assert!(machines[0].count() <= 6, "{}", machines[0].count());
    }

    #[test]
    fn keys_of_a_clock_that_is_wrong_are_counted_and_not_taken() {
        let mut ours = alone(100);
        let (ahead, behind) = (alone(100 + 2 * 3600), machine(0));
        assert_eq!(ours.merge(&text(&ahead), at(100)).out_of_time, 1);
        assert_eq!(ours.count(), 1);
        assert_eq!(behind.to_share().map(|text| text.reveal().len()), None, "nothing to share");
        // Five minutes are no reason.
        assert_eq!(ours.merge(&text(&alone(400)), at(100)).new, 1);
    }

    #[test]
    fn what_two_parts_of_a_fleet_have_made_opens_on_both_after_it_is_whole_again() {
        let (mut one, mut other) = (alone(100), alone(101));
        for second in (102..9_000).step_by(10) {
            one.refresh(at(second)).expect("nothing can fail");
            other.refresh(at(second)).expect("nothing can fail");
        }
        let (texts, now) = ((text(&one), text(&other)), at(9_000));
        assert!(one.merge(&texts.1, now).new > 0 && other.merge(&texts.0, now).new > 0);
        assert_eq!(ids(&one), ids(&other));
    }

    #[test]
    fn a_ticket_opens_for_its_lifetime_however_often_keys_change() {
        let settings = TicketSettings { rotate: Duration::from_secs(10), lifetime: Duration::from_secs(600) };
        let start = |second| TicketKeys::shared(None, at(second), settings).expect("random");
        let mut ours = start(0);
        ours.refresh(at(ASKING)).expect("nothing can fail");
        let first = ids(&ours)[0];
        let mut theirs = start(0);
        for second in ASKING..600 {
            ours.refresh(at(second)).expect("nothing can fail");
            theirs.merge(&text(&ours), at(second));
            theirs.refresh(at(second)).expect("nothing can fail");
        }
        assert!(ids(&theirs).contains(&first) && theirs.count() > 50, "{}", theirs.count());
        theirs.refresh(at(ASKING + 20 + 600)).expect("nothing can fail");
        assert!(!ids(&theirs).contains(&first), "it is over");
    }

    #[test]
    fn what_is_no_text_of_keys_changes_nothing_and_everything_can_be_forgotten() {
        let mut keys = alone(100);
        let before = ids(&keys);
        assert_eq!(
            keys.merge(&KeyText::from("handfast-ticket-keys 9\n".to_owned()), at(100)),
            Merged::default()
        );
        assert_eq!(ids(&keys), before);
        keys.forget(at(100));
        keys.refresh(at(101)).expect("nothing can fail").expect("it has changed");
        assert_eq!(keys.count(), 0);
        keys.refresh(at(104)).expect("nothing can fail").expect("it has changed");
        assert!(keys.count() == 1 && ids(&keys) != before);
    }

    proptest! {
        /// Any order, any repetition: the same set.
        #[test]
        fn the_order_of_messages_does_not_matter(
            made in prop::collection::vec(0..12_000_u64, 1..24),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let texts: Vec<_> = made.iter().map(|second| text(&alone(1_000 + second))).collect();
            let now = at(13_000);
            let (mut straight, mut mixed) = (machine(13_000), machine(13_000));
            texts.iter().for_each(|text| { straight.merge(text, now); });
            order.iter().for_each(|index| { mixed.merge(index.get(&texts), now); });
            texts.iter().rev().for_each(|text| { mixed.merge(text, now); });
            prop_assert_eq!(ids(&straight), ids(&mixed));
            prop_assert!(straight.count() <= straight.most());
        }
    }
}
