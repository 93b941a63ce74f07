//! State of a backend, for the next process.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use handfast_net::clock::Moment;
use serde::{Deserialize, Serialize};

use super::{Availability, EXCLUDED, Standing, UP, code};
use handfast_observe::cause::Cause;

/// A backend that is not up, and why; what an operator has requested is separate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TransferredStanding {
    pub(crate) name: String,
    /// Time at which it was marked or found down, in milliseconds since 1970.
    pub(crate) since: u64,
    /// In milliseconds: until one connection may try it. `None`: checks find it down.
    pub(crate) pause: Option<u64>,
    pub(crate) failures: u32,
    pub(crate) cause: Option<String>,
}

impl Standing {
    /// For the next process; `None` when nothing is wrong with the backend.
    pub(super) fn transferred(&self) -> Option<TransferredStanding> {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let transferred = |since: SystemTime, pause| TransferredStanding {
            name: self.name.to_string(),
            since: milliseconds(since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
            pause,
            failures: self.failures(),
            cause: self.cause().map(|cause| cause.name().to_owned()),
        };
        if let Some(since) = self.checked().filter(|checked| !checked.up).and_then(|checked| checked.since) {
            return Some(transferred(since, None));
        }
        match self.availability() {
            Availability::Up | Availability::Out => None,
            Availability::Down(until) => {
                Some(transferred(self.down_since(), Some(milliseconds(until.since(Moment::now())))))
            }
            // The connection that tries it may be cut: the next process tries it again at once.
            Availability::OnTrial => Some(transferred(self.down_since(), Some(0))),
        }
    }

    pub(super) fn restore(&self, transferred: &TransferredStanding) {
        let cause = transferred.cause.as_deref().and_then(Cause::named);
        self.failures.store(transferred.failures, Ordering::Relaxed);
        self.cause.store(cause.map_or(0, code), Ordering::Relaxed);
        match transferred.pause {
            None => {
                let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(transferred.since));
                self.set_found_down(since.unwrap_or_else(SystemTime::now));
            }
            Some(pause) => {
                self.down_since.store(transferred.since, Ordering::Relaxed);
                // A day at most: no configuration has a longer pause.
                let pause = Duration::from_millis(pause).min(Duration::from_secs(86_400));
                self.replace(UP, (Moment::now() + pause).nanos().clamp(1, EXCLUDED - 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::standing::{FailurePolicy, Socket, Standings};
    use handfast_observe::operator_state::OperatorState;

    fn marked_down(standing: &Standing, pause: Duration) {
        let policy = FailurePolicy { failures: 2, pause };
        (0..2).for_each(|_| drop(standing.failed(Cause::Socket(Socket::Refused), None, policy)));
    }

    #[test]
    fn a_standing_is_in_the_next_process_what_it_was_in_the_one_before() {
        let (before, after) = (Standings::new("web"), Standings::new("web"));
        let (down, checked, drained, fine) =
            (before.of("down"), before.of("checked"), before.of("drained"), before.of("fine"));
        marked_down(&down, Duration::from_secs(3_600));
        checked.check_failed(&"it does not answer", 1);
        before.set_operator_state("drained", OperatorState::Drain);
        let (requested_states, transferred) = before.transferred();
        assert_eq!(requested_states, [("drained".to_owned(), "drain".to_owned())]);
        assert_eq!(transferred.len(), 2, "nothing is said of what is fine: {transferred:?}");
        let _kept: Vec<_> = transferred.iter().map(|one| after.restore(one)).collect();
        for (name, requested) in &requested_states {
            after.set_operator_state(name, OperatorState::named(requested).expect("an operator state"));
        }
        for (name, before) in [("down", &down), ("checked", &checked), ("drained", &drained), ("fine", &fine)]
        {
            let after = after.of(name);
            let same_kind = std::mem::discriminant(&before.availability())
                == std::mem::discriminant(&after.availability());
            assert!(same_kind, "{name}: {:?} and {:?}", before.availability(), after.availability());
            assert_eq!((after.failures(), after.cause()), (before.failures(), before.cause()), "{name}");
        }
        let left = after.of("down").outage().and_then(|outage| outage.pause_left).expect("it is in a pause");
        assert!(left > Duration::from_secs(3_000), "{left:?}");
        after.of("checked").check_passed(Duration::ZERO, 1);
        assert_eq!(after.of("checked").availability(), Availability::Up, "a check that passes ends it");
    }
}
