//! Splits a plan: each worker has a share of it, and each of its threads an assignment.
//!
//! In: the plan, our number among the workers, a thread's number. Out: its connections, its part of the arrivals, its numbers.

use std::net::SocketAddr;
use std::sync::Arc;

use handfast_tls::client::ClientSettings;
use serde::{Deserialize, Serialize};

use crate::plan::{Plan, Work};
use crate::requests::PreparedRequest;

/// Share of the plan that belongs to this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Our number, from 0.
    pub index: u32,
    /// Number of shares.
    pub of: u32,
}

/// The part of one thread.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) plan: Plan,
    /// One for each member of the mix; one without a mix.
    pub(crate) settings: Vec<ClientSettings>,
    pub(crate) requests: Vec<Arc<PreparedRequest>>,
    pub(crate) target: SocketAddr,
    pub(crate) share: Share,
    /// This thread's number, and how many there are here.
    pub(crate) thread: u32,
    pub(crate) threads: u32,
}

impl Assignment {
    /// Part of the arrivals: number, and how many there are; `None` when it has no connection to serve them with. Workers
    /// with other numbers of threads have other parts of the same worker's share, and together they are the whole.
    pub(crate) fn part(&self) -> Option<(u64, u64)> {
        if self.connections() == 0 {
            return None;
        }
        // With fewer connections than workers or threads, the first ones have all connections and all arrivals.
        let workers = self.share.of.min(self.plan.connections).max(1);
        let threads = self.threads.min(self.worker_connections()).max(1);
        let (workers, threads) = (u64::from(workers), u64::from(threads));
        Some((u64::from(self.share.index) + workers * u64::from(self.thread), workers * threads))
    }

    /// A number that no other thread of any worker has.
    pub(crate) fn stream(&self) -> u64 {
        u64::from(self.share.index) + u64::from(self.share.of.max(1)) * u64::from(self.thread)
    }

    fn worker_connections(&self) -> u32 {
        split(self.plan.connections, self.share.index, self.share.of)
    }

    /// Connections of this thread.
    pub(crate) fn connections(&self) -> u32 {
        split(self.worker_connections(), self.thread, self.threads)
    }

    /// Turns of the members that others take before this thread's first one. For kept connections, all threads of all
    /// workers share one order, so that the whole run has exact shares to within one connection. For connections of one transaction
    /// a thread cannot know the number of others, so each thread applies the shares alone, from a different start.
    pub(crate) fn turn(&self) -> u64 {
        let stand = matches!(self.plan.work, Work::Bulk { .. } | Work::Idle { .. });
        if !stand && !self.plan.keeps_connections() {
            return self.stream();
        }
        let workers = (0..self.share.index).map(|index| split(self.plan.connections, index, self.share.of));
        let mine = self.worker_connections();
        let threads = (0..self.thread).map(|thread| split(mine, thread, self.threads));
        workers.chain(threads).map(u64::from).sum()
    }
}

/// The part number `index` of `total`, when it is split into `of` parts as evenly as possible.
fn split(total: u32, index: u32, of: u32) -> u32 {
    let of = of.max(1);
    total / of + u32::from(index < total % of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Arrivals as Spacing, Model};
    use crate::schedule::Schedule;

    #[test]
    fn parts_add_up_to_the_whole() {
        for total in [0, 1, 7, 32, 1000] {
            for of in [1, 2, 3, 8] {
                assert_eq!((0..of).map(|index| split(total, index, of)).sum::<u32>(), total);
            }
        }
    }

    /// The part of thread number `thread` of worker number `index` of three.
    fn assignment(plan: Plan, index: u32, thread: u32, threads: u32) -> Assignment {
        let (settings, requests) = (Vec::new(), Vec::new());
        let (target, share) = (([127, 0, 0, 1], 1).into(), Share { index, of: 3 });
        Assignment { plan, settings, requests, target, share, thread, threads }
    }

    /// Arrivals that the threads of one of three workers begin, of a rate of 900 for ten seconds.
    fn begun(connections: u32, index: u32, threads: u32) -> usize {
        let arrivals = |thread| {
            let model = Model::open(900.0, Spacing::Fixed);
            let plan = Plan { model, connections, ..Plan::default() };
            let assignment = assignment(plan, index, thread, threads);
            let Some((part, parts)) = assignment.part() else { return 0 };
            let schedule = Schedule::new(&assignment.plan.model, assignment.plan.duration, part, parts, 1);
            let mut schedule = schedule.expect("an open model");
            std::iter::from_fn(|| schedule.next()).count()
        };
        (0..threads).map(arrivals).sum()
    }

    #[test]
    fn standing_connections_of_all_workers_have_the_shares_together() {
        let member =
            |share| crate::plan::Member { name: String::new(), share, tls: crate::plan::Tls::default() };
        let weights = [70.0, 25.0, 5.0];
        let plan =
            Plan { connections: 40, exchanges: None, mix: weights.map(member).to_vec(), ..Plan::default() };
        let mut counts = [0; 3];
        for (index, threads) in [(0, 1), (1, 2), (2, 8)] {
            for thread in 0..threads {
                let assignment = assignment(plan.clone(), index, thread, threads);
                let mut turns = crate::round_robin::WeightedRoundRobin::new(weights, assignment.turn());
                (0..assignment.connections()).for_each(|_| counts[turns.take()] += 1);
            }
        }
        assert_eq!(counts, [28, 10, 2]);
    }

    #[test]
    fn workers_with_different_threads_make_the_rate_together() {
        assert_eq!(begun(32, 0, 1) + begun(32, 1, 2) + begun(32, 2, 8), 9000);
    }

    #[test]
    fn no_arrival_belongs_to_a_thread_or_worker_without_a_connection() {
        for connections in 1..8 {
            let all: usize = (0..3).map(|index| begun(connections, index, 4)).sum();
            assert_eq!(all, 9000, "{connections} connections");
        }
    }
}
