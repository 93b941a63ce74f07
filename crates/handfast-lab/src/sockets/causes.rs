//! Comparison of the causes that Handfast reports with the events that were made.
//!
//! In: a row and what was measured of it. Out: every cell where the word is another one than the row's, with the reason, where
//! there is a good one. A difference without a reason is a fault of `handfast-net`, or of the row.

use handfast_net::fault::Cause;
use serde::{Deserialize, Serialize};

use super::outcome::{Operation, Outcome, RowResult};
use super::rows::Row;

/// A cell with another cause than the one of its row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The row.
    pub row: String,
    /// The operation.
    pub operation: Operation,
    /// The reported cause.
    pub told: String,
    /// Causes that would name the event.
    pub expected: Vec<String>,
    /// Reason why it cannot be reported; `None`: it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A difference that is known, and why nothing can be done about it.
struct KnownDifference {
    /// Beginnings of names of rows.
    rows: &'static [&'static str],
    operations: &'static [Operation],
    reported_causes: &'static [&'static str],
    reason: &'static str,
}

const KNOWN_DIFFERENCES: &[KnownDifference] = &[
    KnownDifference {
        rows: &["backlog-full"],
        operations: &[Operation::Connect],
        reported_causes: &[Cause::ConnectTimedOut.name()],
        reason: "Linux drops a SYN when the queue is full, as if the host did not exist; \
                 `backlog-full` is reported for unix sockets, where connect has a separate error",
    },
    KnownDifference {
        rows: &["icmp-net-prohibited", "icmp-host-prohibited", "icmp-admin"],
        operations: &[Operation::Read, Operation::Write, Operation::Poll],
        reported_causes: &[Cause::HostUnreachable.name(), Cause::NetworkUnreachable.name()],
        reason: "for an established connection Linux keeps the errno and not the ICMP message, and these share the errno of \
                 an unreachable host or network",
    },
    KnownDifference {
        rows: &["unix-peer-closes-unread"],
        operations: &[Operation::Write],
        reported_causes: &[Cause::ClosedEarly.name()],
        reason: "on a unix socket, send fails with EPIPE, as after a clean end, and only a read returns ECONNRESET",
    },
    KnownDifference {
        rows: &["listener-closed"],
        operations: &[Operation::Accept],
        reported_causes: &["EINVAL"],
        reason: "accept fails so only after shutdown(2) of the listener; Handfast closes listeners",
    },
];

/// The cells of a row in which Handfast reports another cause.
pub(super) fn differences(row: &Row, result: &RowResult) -> Vec<Difference> {
    let reported = result.cells.iter().flat_map(|cell| {
        cell.outcomes.iter().filter_map(move |counted| match &counted.outcome {
            Outcome::Measured(seen) => Some((cell.operation, seen.cause.as_deref()?)),
            Outcome::DoesNotApply(_) | Outcome::Skipped(_) | Outcome::Failed(_) => None,
        })
    });
    reported.filter_map(|(operation, reported)| difference(row, operation, reported)).collect()
}

fn difference(row: &Row, operation: Operation, reported: &str) -> Option<Difference> {
    let expected = match operation {
        Operation::Connect => row.causes.0,
        Operation::Accept
        | Operation::Read
        | Operation::Write
        | Operation::Shutdown
        | Operation::Close
        | Operation::Poll => row.causes.1,
    };
    if expected.iter().any(|cause| cause.name() == reported) {
        return None;
    }
    let known = KNOWN_DIFFERENCES.iter().find(|known| {
        known.rows.iter().any(|name| row.name.starts_with(name))
            && known.operations.contains(&operation)
            && known.reported_causes.contains(&reported)
    });
    Some(Difference {
        row: row.name.into(),
        operation,
        told: reported.into(),
        expected: expected.iter().map(|cause| cause.name().into()).collect(),
        reason: known.map(|known| known.reason.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_the_rows_needs_a_reason() {
        let row = Row::named("icmp-admin").expect("a row");
        assert_eq!(difference(row, Operation::Connect, "prohibited"), None);
        let known = difference(row, Operation::Read, "host-unreachable").expect("another word");
        assert_eq!(known.expected, ["prohibited"]);
        assert!(known.reason.is_some_and(|reason| reason.contains("errno")));
        let wrong = difference(row, Operation::Connect, "host-unreachable").expect("another word");
        assert_eq!(wrong.reason, None, "at connect the error queue has the message");
    }

    #[test]
    fn every_known_difference_is_about_a_row_that_there_is() {
        for known in KNOWN_DIFFERENCES {
            for name in known.rows {
                assert!(super::super::rows::ROWS.iter().any(|row| row.name.starts_with(name)), "{name}");
            }
        }
    }
}
