//! Everything that is recorded, in the order of the path: arrival, connection, handshake, exchange, transaction.
//!
//! In: what happened, and when. Out: counts and histograms of the second in which it ended. **Cost**: additions; an
//! allocation for the first failure of a kind and the first agreement of a kind in each second, and for examples of failures.

use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_tls::session::Agreed;

use super::{Recorder, Times};
use crate::failure::StepFailure;
use crate::sample::{EXAMPLES, Failures, Series};

/// Arrivals of an open model.
impl Recorder {
    /// An arrival waits because too many transactions are in flight.
    pub(crate) fn queued(&mut self) {
        self.present.tally.queued += 1;
    }

    /// An arrival waits for a connection to be opened.
    pub(crate) fn held(&mut self) {
        self.present.tally.held += 1;
    }

    /// This number of arrivals was due and will never begin.
    pub(crate) fn never_begun(&mut self, arrivals: u64) {
        self.present.tally.unserved += arrivals;
    }
}

/// Connections.
impl Recorder {
    /// A connection is begun.
    pub(crate) fn connection(&mut self) {
        self.present.tally.connections += 1;
    }

    /// Its hello is made, of so many bytes; `without_ticket`: it was to resume, and there was no ticket.
    pub(crate) fn hello(&mut self, member: usize, bytes: usize, without_ticket: bool) {
        self.present.tally.without_ticket += u64::from(without_ticket);
        if let Some(sample) = self.present.members.get_mut(member) {
            sample.connections += 1;
            sample.hello_bytes += bytes as u64;
        }
    }

    /// It was established at `connected`.
    pub(crate) fn connected(&mut self, began: Moment, connected: Moment) {
        self.time(Series::Connect, began, connected);
    }

    /// Its handshake was done at `done`, with this agreement, after `own` computing of ours; `early`: whether the target took 0-RTT data, if any was sent.
    pub(crate) fn handshake(
        &mut self,
        member: usize,
        agreed: &Agreed,
        early: Option<bool>,
        (connected, done, own): (Moment, Moment, Duration),
    ) {
        let resumed = agreed.resumed == Some(true);
        self.time(Series::Handshake, connected, done);
        let kind = if resumed { Series::HandshakeResumed } else { Series::HandshakeFull };
        self.time(kind, connected, done);
        let present = &mut self.present;
        present.tally.resumed += u64::from(resumed);
        present.tally.full += u64::from(!resumed);
        present.tally.own_ns += u64::try_from(own.as_nanos()).unwrap_or(u64::MAX);
        if let Some(sample) = present.members.get_mut(member) {
            sample.resumed += u64::from(resumed);
            sample.full += u64::from(!resumed);
            sample.handshake.record(done.since(connected));
        }
        present.tally.hello_retry += u64::from(agreed.hello_retry);
        present.tally.early_accepted += u64::from(early == Some(true));
        present.tally.early_refused += u64::from(early == Some(false));
        let agreement = (member, (agreed.version, agreed.suite, agreed.group));
        match present.agreed.iter_mut().find(|(known, _)| *known == agreement) {
            Some((_, count)) => *count += 1,
            None => present.agreed.push((agreement, 1)),
        }
    }

    /// A kept connection is open.
    pub(crate) fn opened(&mut self) {
        self.present.tally.open += 1;
    }

    /// A kept connection is no longer open.
    pub(crate) fn closed(&mut self) {
        self.present.tally.open = self.present.tally.open.saturating_sub(1);
    }

    /// The target refused, aborted or ended it before it carried data.
    pub(crate) fn shed(&mut self) {
        self.present.tally.shed += 1;
    }
}

/// Exchanges.
impl Recorder {
    /// Application bytes were sent and received.
    pub(crate) fn bytes(&mut self, sent: u64, received: u64) {
        self.present.tally.sent += sent;
        self.present.tally.received += received;
    }

    /// An exchange ended well.
    pub(crate) fn exchange(&mut self, times: Times) {
        self.last_exchange = times.done.since(times.began);
        self.time(Series::FirstByte, times.began, times.first_byte);
        self.time(Series::Exchange, times.began, times.done);
        self.present.tally.exchanges += 1;
    }

    /// An HTTP answer with this status came to the plan's request number `which`; `error`: it says that the request failed.
    pub(crate) fn answer(&mut self, which: usize, status: u16, error: bool, times: Times) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.present.tally.http_status[class] += 1;
        if let Some(sample) = self.present.requests.get_mut(which) {
            sample.status[class] += 1;
            sample.failed += u64::from(error);
            sample.done += u64::from(!error);
            if !error {
                sample.exchange.record(times.done.since(times.began));
            }
        }
        if !error {
            self.exchange(times);
        }
    }

    /// The plan's request number `which` got no answer.
    pub(crate) fn no_answer(&mut self, which: usize) {
        if let Some(sample) = self.present.requests.get_mut(which) {
            sample.failed += 1;
        }
    }
}

/// Transactions.
impl Recorder {
    /// A transaction begins.
    pub(crate) fn begun(&mut self) {
        self.present.tally.started += 1;
    }

    /// It is over, well or badly.
    pub(crate) fn over(&mut self) {
        self.present.tally.ended += 1;
    }

    /// It began with this lag; ignored in a closed model.
    pub(crate) fn lag(&mut self, intended: Moment, begun: Moment) {
        if self.scheduled {
            self.time(Series::Lag, intended, begun);
        }
    }

    /// It ended well.
    pub(crate) fn succeeded(&mut self, member: usize, intended: Moment, begun: Moment, done: Moment) {
        self.time(Series::Total, intended, done);
        if self.scheduled {
            self.time(Series::Service, begun, done);
        }
        self.finished(member, done);
        if let Some(sample) = self.present.members.get_mut(member) {
            sample.total.record(done.since(intended));
        }
    }

    /// It ended well, and its duration is meaningless: it lasted as long as the run.
    pub(crate) fn finished(&mut self, member: usize, done: Moment) {
        if done >= self.boundary {
            self.roll(done);
        }
        self.present.tally.transactions += 1;
        if done > self.end {
            self.present.tally.tail += 1;
        }
        if let Some(sample) = self.present.members.get_mut(member) {
            sample.transactions += 1;
        }
    }

    /// It failed at `now`, in which second it is counted.
    pub(crate) fn failed(&mut self, member: usize, failure: StepFailure, now: Moment) {
        self.failed_by_us(failure, now);
        if let Some(sample) = self.present.members.get_mut(member) {
            sample.failed += 1;
        }
    }

    /// It failed at `now`, before it had a member: this machine could not even begin it.
    pub(crate) fn failed_by_us(&mut self, failure: StepFailure, now: Moment) {
        self.roll(now);
        self.present.tally.failed += 1;
        self.incident(failure);
    }

    /// Something went wrong that failed no transaction.
    pub(crate) fn incident(&mut self, failure: StepFailure) {
        let same = |known: &&mut Failures| known.step == failure.step && known.cause == failure.cause;
        if let Some(known) = self.present.failures.iter_mut().find(same) {
            known.count += 1;
            if known.examples.len() < EXAMPLES {
                known.examples.push(failure.detail);
            }
            return;
        }
        self.present.failures.push(Failures {
            step: failure.step,
            cause: failure.cause,
            count: 1,
            examples: vec![failure.detail],
        });
    }

    /// Counts a duration that ended at `ended`, in the second of its end.
    fn time(&mut self, series: Series, began: Moment, ended: Moment) {
        if ended >= self.boundary {
            self.roll(ended);
        }
        self.present.series[series as usize].record(ended.since(began));
    }
}
