//! Rate limits: handshakes begun lately by each prefix of client addresses, and requests sent by each client of a route, as token buckets
//! in a table of fixed size.
//!
//! In: a prefix, or another key, and the time. Out: whether it has a token left, which is then taken. Threads share the table without a lock.
//!
//! **A bucket is one number**: the moment at which it is full again. Taking a token moves it into the future by the time that
//! one token needs to come back; it must not be further away than a whole burst needs (the generic cell rate algorithm, ITU-T
//! I.371 annex A, is the same arithmetic). A bucket whose moment has passed is full, as if it did not exist.
//!
//! **In a full table** a prefix without a bucket has eight places. It takes over the bucket there that is nearest to being full, *with the
//! tokens that this one lacks*. So a client gains no token by having buckets evicted, however many addresses it has: eight places give
//! no more than eight buckets would. A new prefix may get less than a whole burst at first. The table is full only with more than 32,768
//! prefixes in use within the time in which their tokens come back; with one token a second those are more handshakes than eight cores
//! compute. A hash with a key of this process chooses the places, so a client cannot choose addresses that share another's bucket.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handfast_net::clock::Moment;

/// Places that one prefix has: 128 bytes, two lines of a cache.
const PLACES: usize = 8;
/// With eight places each: 32,768 buckets, 512 KiB.
const SETS: usize = 4096;
/// Times a place is looked for again that another thread took in the same instant.
const MAX_TRIES: usize = 4;

/// A rate, in the numbers that buckets are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Nanoseconds in which one token comes back.
    token: u64,
    /// Nanoseconds in which an empty bucket is full again.
    whole: u64,
}

impl Rate {
    /// `per_second` tokens come back in a second, and `burst` are there at once; neither is zero.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        Self::within(per_second, Duration::from_secs(1), burst)
    }

    /// `count` tokens come back in the time `per`, and `burst` are there at once; none of them is zero, and `per` is at most an hour.
    pub(super) fn within(count: u32, per: Duration, burst: u32) -> Self {
        let per = u64::try_from(per.as_nanos()).unwrap_or(u64::MAX);
        let token = (per / u64::from(count.max(1))).max(1);
        Self { token, whole: token.saturating_mul(u64::from(burst.max(1))) }
    }
}

/// The buckets.
#[derive(Debug)]
pub(super) struct Table {
    key: RandomState,
    sets: Box<[Set]>,
}

/// Those that a prefix may have. The alignment keeps a set from lying in three lines of a cache.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Set([Bucket; PLACES]);

/// One bucket. Its two numbers are not changed together: a token that is taken from a bucket that changes hands in the same
/// instant is its new owner's, who has taken over its debt in any case.
#[derive(Debug, Default)]
struct Bucket {
    /// Hash of the prefix that it belongs to; 0: of none yet.
    owner: AtomicU64,
    /// Time at which it is full again, in nanoseconds of the clock.
    full_at: AtomicU64,
}

impl Table {
    pub(super) fn new() -> Self {
        Self::with_sets(SETS)
    }

    /// One for a single key.
    pub(super) fn of_one() -> Self {
        Self::with_sets(1)
    }

    fn with_sets(count: usize) -> Self {
        let sets = std::iter::repeat_with(Set::default).take(count).collect();
        Self { key: RandomState::new(), sets }
    }

    /// Takes a token of this key, such as a prefix.
    ///
    /// **Errors**: it has none left; the time after which it has one.
    ///
    /// Two threads that see a key for the first time in the same instant may give it two buckets, of which one is used from
    /// then on: it may get a burst more, once.
    pub(super) fn take(&self, key: impl Hash, rate: Rate, now: Moment) -> Result<(), Duration> {
        let now = now.nanos();
        self.bucket(self.key.hash_one(key), now).take(rate, now)
    }

    /// The bucket that belongs to `owner` from now on.
    fn bucket(&self, hash: u64, now: u64) -> &Bucket {
        let Set(places) = &self.sets[usize::try_from(hash).unwrap_or(usize::MAX) % self.sets.len()];
        let owner = hash.max(1);
        let mut fullest = &places[0];
        for _ in 0..MAX_TRIES {
            if let Some(own) = places.iter().find(|place| place.owner.load(Ordering::Relaxed) == owner) {
                return own;
            }
            // Among those that are full the first, so that threads that look at the same time find the same one.
            let lacks = |place: &&Bucket| place.full_at.load(Ordering::Relaxed).saturating_sub(now);
            fullest = places.iter().min_by_key(lacks).unwrap_or(fullest);
            let before = fullest.owner.load(Ordering::Relaxed);
            let swap = fullest.owner.compare_exchange(before, owner, Ordering::Relaxed, Ordering::Relaxed);
            if swap.is_ok() {
                return fullest;
            }
        }
        fullest
    }
}

impl Bucket {
    fn take(&self, rate: Rate, now: u64) -> Result<(), Duration> {
        let taken = |full_at: u64| {
            let full_at = full_at.max(now).saturating_add(rate.token);
            (full_at - now <= rate.whole).then_some(full_at)
        };
        let outcome = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        let wait = |full_at: u64| (full_at - now).saturating_add(rate.token).saturating_sub(rate.whole);
        outcome.map(|_| ()).map_err(|full_at| Duration::from_nanos(wait(full_at.max(now))))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use handfast_net::prefix::Prefix;

    use super::*;

    const START: Moment = Moment::from_nanos(1_000_000_000_000);

    fn v4(bits: u32) -> Prefix {
        Prefix::of(IpAddr::V4(Ipv4Addr::from_bits(bits)), 32).expect("thirty-two bits")
    }

    fn v6(site: u64) -> Prefix {
        Prefix::of(IpAddr::V6(Ipv6Addr::from_bits(u128::from(site) << 64)), 64).expect("of 128")
    }

    fn after(milliseconds: u64) -> Moment {
        START + Duration::from_millis(milliseconds)
    }

    fn taken(table: &Table, prefix: Prefix, rate: Rate, tries: usize, now: Moment) -> usize {
        (0..tries).filter(|_| table.take(prefix, rate, now).is_ok()).count()
    }

    #[test]
    fn a_burst_passes_at_once_and_then_as_many_as_come_back() {
        let (table, rate) = (Table::new(), Rate::new(10, 25));
        let client = v4(0xC000_0207);
        assert_eq!(taken(&table, client, rate, 100, START), 25);
        assert_eq!(taken(&table, client, rate, 100, after(99)), 0, "a token takes 100 ms");
        assert_eq!(taken(&table, client, rate, 100, after(100)), 1);
        assert_eq!(taken(&table, client, rate, 100, after(1100)), 10);
        assert_eq!(taken(&table, client, rate, 100, after(60_000)), 25, "never more than the burst");
        assert_eq!(taken(&table, v4(0xC000_0208), rate, 100, START), 25, "the neighbour has another bucket");
    }

    #[test]
    fn what_is_refused_uses_up_nothing() {
        let (table, rate) = (Table::new(), Rate::new(1, 1));
        assert_eq!(taken(&table, v6(7), rate, 1_000_000, START), 1);
        assert_eq!(taken(&table, v6(7), rate, 2, after(1000)), 1);
    }

    #[test]
    fn a_refusal_states_when_the_next_token_is_there() {
        let (table, rate) = (Table::of_one(), Rate::within(60, Duration::from_secs(60), 2));
        assert_eq!(table.take("a", rate, START), Ok(()));
        assert_eq!(table.take("a", rate, after(300)), Ok(()));
        assert_eq!(table.take("a", rate, after(300)), Err(Duration::from_millis(700)));
        assert_eq!(table.take("a", rate, after(999)), Err(Duration::from_millis(1)));
        assert_eq!(table.take("a", rate, after(1000)), Ok(()));
    }

    #[test]
    fn the_slowest_rate_with_the_largest_burst_fits() {
        let rate = Rate::within(1, Duration::from_secs(3600), 1_000_000);
        let table = Table::of_one();
        assert_eq!(taken(&table, v4(1), rate, 1_000_001, START), 1_000_000);
        assert_eq!(table.take(v4(1), rate, START), Err(Duration::from_secs(3600)));
    }

    #[test]
    fn extremes_are_exact() {
        for (per_second, burst) in [(1, 1), (1, 1_000_000), (1_000_000, 1), (1_000_000, 1_000_000)] {
            let (table, rate) = (Table::new(), Rate::new(per_second, burst));
            let burst = burst as usize;
            assert_eq!(taken(&table, v4(1), rate, burst + 100, START), burst, "{per_second} {burst}");
        }
        let late = Moment::from_nanos(u64::MAX - 1);
        let (table, rate) = (Table::new(), Rate::new(1, 5));
        assert!(taken(&table, v4(1), rate, 100, late) <= 100, "the end of time causes no panic");
    }

    /// An attacker with a whole /32 of IPv6 has four thousand million prefixes to fill the table with. It gives no more than it
    /// has places, in all: neither to the attacker, whose own debts are kept, nor to any other client.
    #[test]
    fn a_full_table_gives_no_more_than_its_places() {
        let (table, rate) = (Table::new(), Rate::new(1, 3));
        let all = SETS * PLACES;
        let given: usize = (0..all as u64 * 8).map(|site| taken(&table, v6(site), rate, 1, START)).sum();
        assert!(given <= all * 3, "{given} of {}", all * 3);
        // One that has used up its own gets nothing back by this.
        let heavy = v6(u64::MAX);
        assert_eq!(taken(&table, heavy, rate, 3, START), 0, "everything is used up");
        let more: usize = (0..all as u64).map(|site| taken(&table, v6(site), rate, 3, after(1000))).sum();
        assert!(more <= all, "a second brings one for each place: {more}");
    }

    /// As long as there is room, no bucket is touched by other clients.
    #[test]
    fn a_used_up_bucket_is_not_forgotten_while_others_are_nearer_to_full() {
        let (table, rate) = (Table::new(), Rate::new(1, 1000));
        let heavy = v4(0x0A00_0001);
        assert_eq!(taken(&table, heavy, rate, 1001, START), 1000);
        // Each of them once: all are nearer to full, so the heavy one keeps its place.
        for site in 0..(SETS * PLACES * 4) as u64 {
            let _ = table.take(v6(site), rate, START);
        }
        assert_eq!(taken(&table, heavy, rate, 1000, START), 0);
    }

    #[test]
    fn threads_together_take_no_more_than_there_is() {
        let (table, rate) = (Table::new(), Rate::new(1, 1000));
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| taken(&table, v4(9), rate, 1000, START))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it counts")).sum()
        });
        assert!((1000..=2000).contains(&total), "{total}: a burst, or two of threads that began at once");
        assert_eq!(taken(&table, v4(9), rate, 10, START), 0);
    }
}
