//! Limits on connections that are served at once: in the whole process, for a service, for a client's address.
//!
//! In: a limit. Out: permits; dropping one gives it back. Threads take permits from the common pool in handfuls, so
//! that the path does not touch memory that other cores write for each connection.

#![expect(
    clippy::disallowed_types,
    reason = "the table of addresses is locked only where a limit on them is set"
)]

use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A limit shared by all threads.
#[derive(Debug)]
pub(crate) struct Pool {
    limit: usize,
    taken: AtomicUsize,
    /// Number of permits that a thread takes and keeps at once. Permits of a small limit are taken one by one.
    handful: usize,
}

impl Pool {
    pub(crate) fn new(limit: usize, threads: usize) -> Arc<Self> {
        let handful = (limit / (threads.max(1) * 32)).clamp(1, 32);
        Arc::new(Self { limit, taken: AtomicUsize::new(0), handful })
    }

    /// Takes up to a handful; returns the number.
    fn take(&self) -> usize {
        let available = |taken: usize| self.handful.min(self.limit.saturating_sub(taken));
        let take = |taken| (available(taken) > 0).then(|| taken + available(taken));
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_or(0, available)
    }

    fn give_back(&self, permits: usize) {
        self.taken.fetch_sub(permits, Ordering::Relaxed);
    }
}

/// A thread's share of a pool.
#[derive(Debug)]
pub(crate) struct Share {
    pool: Arc<Pool>,
    spare: Cell<usize>,
}

impl Share {
    pub(crate) fn new(pool: &Arc<Pool>) -> Rc<Self> {
        Rc::new(Self { pool: Arc::clone(pool), spare: Cell::new(0) })
    }

    /// A permit, or `None` at the limit.
    pub(crate) fn take(self: &Rc<Self>) -> Option<Permit> {
        if self.spare.get() == 0 {
            self.spare.set(self.pool.take());
        }
        let spare = self.spare.get().checked_sub(1)?;
        self.spare.set(spare);
        Some(Permit(Rc::clone(self)))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.give_back(self.spare.get());
    }
}

/// Leave to serve one connection.
#[derive(Debug)]
pub(crate) struct Permit(Rc<Share>);

impl Drop for Permit {
    fn drop(&mut self) {
        let spare = self.0.spare.get() + 1;
        let handful = self.0.pool.handful;
        // Up to a handful is kept; what is over goes back, and at small limits all of it does.
        if spare >= 2 * handful || handful == 1 {
            self.0.pool.give_back(spare);
            self.0.spare.set(0);
        } else {
            self.0.spare.set(spare);
        }
    }
}

/// Connections by client address, where a service limits them.
#[derive(Debug)]
pub(crate) struct AddressLimit {
    limit: usize,
    /// In several tables, so that threads rarely meet.
    tables: [Mutex<HashMap<IpAddr, usize>>; 16],
}

impl AddressLimit {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, tables: Default::default() })
    }

    fn table(&self, address: IpAddr) -> &Mutex<HashMap<IpAddr, usize>> {
        let last = match address {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(v6) => v6.octets()[7],
        };
        &self.tables[usize::from(last) % self.tables.len()]
    }

    /// A permit for a client at `address`, or `None` at the limit. IPv6 clients are distinguished by their /64, which is
    /// what one customer or machine has.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<AddressPermit> {
        let address = group(address);
        let mut table = self.table(address).lock().unwrap_or_else(PoisonError::into_inner);
        let count = table.entry(address).or_insert(0);
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(AddressPermit { limit: Arc::clone(self), address })
    }
}

fn group(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
    }
}

/// Leave to serve one more connection of an address.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    limit: Arc<AddressLimit>,
    address: IpAddr,
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut table = self.limit.table(self.address).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = table.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                table.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_is_exact_over_threads() {
        let pool = Pool::new(3, 2);
        let (one, two) = (Share::new(&pool), Share::new(&pool));
        let permits = [one.take(), two.take(), one.take()];
        assert!(permits.iter().all(Option::is_some));
        assert!(one.take().is_none() && two.take().is_none());
        drop(permits);
        assert!([two.take(), two.take(), two.take()].iter().all(Option::is_some));
    }

    #[test]
    fn a_large_limit_is_never_passed_and_never_leaks() {
        let pool = Pool::new(1000, 2);
        let (one, two) = (Share::new(&pool), Share::new(&pool));
        for _ in 0..3 {
            let mut permits = Vec::new();
            while let Some(permit) = one.take().or_else(|| two.take()) {
                permits.push(permit);
            }
            assert!((1000 - 64..=1000).contains(&permits.len()), "{} permits", permits.len());
        }
        drop((one, two));
        assert_eq!(pool.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_address_does_not_use_up_anothers_share() {
        let limit = AddressLimit::new(1);
        let first = limit.take("192.0.2.1".parse().expect("an address"));
        assert!(first.is_some());
        assert!(limit.take("192.0.2.1".parse().expect("an address")).is_none());
        assert!(limit.take("192.0.2.2".parse().expect("an address")).is_some());
        drop(first);
        assert!(limit.take("192.0.2.1".parse().expect("an address")).is_some());
        let v6 = limit.take("2001:db8::1".parse().expect("an address"));
        assert!(v6.is_some() && limit.take("2001:db8::2".parse().expect("an address")).is_none());
        let neighbours = ["2001:db8:0:1::1", "2001:db9::1", "2002:db8::1"]
            .map(|text| limit.take(text.parse().expect("an address")));
        assert!(neighbours.iter().all(Option::is_some), "another /64 is another client");
    }

    #[test]
    fn an_address_is_remembered_until_its_last_connection_has_ended() {
        let limit = AddressLimit::new(2);
        let take = || limit.take("192.0.2.1".parse().expect("an address"));
        let (one, _two) = (take(), take());
        drop(one);
        let _three = take().expect("one has ended");
        assert!(take().is_none(), "two are open");
    }

    /// Else the threads that serve the clients of one network would wait for each other.
    #[test]
    fn neighbours_are_in_different_tables() {
        let limit = AddressLimit::new(1);
        let _permits = [0, 1, 2, 3].map(|last| limit.take(IpAddr::from([192, 0, 2, last])));
        let known = limit.tables.iter().map(|table| table.lock().expect("no thread panicked").len());
        assert_eq!(known.max(), Some(1));
    }

    /// Addresses of every last byte, so that a table that is not there is found out.
    #[test]
    fn an_address_that_has_no_connection_takes_no_memory() {
        let limit = AddressLimit::new(2);
        let addresses = (0..=255_u8).map(|last| IpAddr::from([192, 0, 2, last]));
        let permits: Vec<_> =
            addresses.flat_map(|address| [limit.take(address), limit.take(address)]).collect();
        assert!(permits.iter().all(Option::is_some));
        let known = || -> Vec<usize> {
            let tables = limit.tables.iter();
            tables.map(|table| table.lock().expect("no thread panicked").len()).collect()
        };
        assert_eq!(known(), [16; 16], "spread evenly");
        drop(permits);
        assert_eq!(known(), [0; 16]);
    }

    #[test]
    fn a_thread_takes_handfuls_of_a_large_limit_and_keeps_no_more_than_two() {
        let pool = Pool::new(6_400, 2);
        assert_eq!(pool.handful, 32);
        let share = Share::new(&pool);
        let taken = || pool.taken.load(Ordering::Relaxed);
        let mut permits: Vec<_> = (0..33).map(|_| share.take().expect("there are many")).collect();
        assert_eq!(taken(), 64);
        permits.truncate(1);
        assert_eq!(taken(), 64, "what it may need at once is kept");
        permits.clear();
        assert_eq!(taken(), 0, "two handfuls are too much");
    }
}
