//! Counters that outlive their process: what previous processes have counted, which the one that serves adds to what it counts.
//!
//! A process sends its [counts](super::transfer) from the time it stops accepting until it ends. It may have several successors before that. So
//! the counts of each process are kept separate until it has ended, and it sends them to the process that serves by then: nothing is counted
//! twice, and nothing is missed.

use super::configured::NameSnapshot;
use super::handshakes::HandshakeSnapshot;
use super::service::ServiceSnapshot;
use super::snapshot::{ReloadSnapshot, Snapshot};
use super::transfer::{Counts, Transfer, lines, transferred};

/// Name of a process, and its counters as lines.
pub type ProcessCounts = (String, String);

/// Processes of which it is not known whether they have ended, at the most: then the oldest has.
const ORPHANS: usize = 16;
/// Connections that the process which counted still has: the one number that is not a counter.
const OPEN: &str = "open";
const OPEN_LINE: &str = "\topen\n";

/// Counters of processes before this one.
#[derive(Debug, Default)]
pub(super) struct PreviousProcesses {
    /// Those that have ended, added up, in the order of their words.
    ended: Vec<(String, u64)>,
    running: Vec<Running>,
}

/// A process that has not ended.
#[derive(Debug)]
struct Running {
    process: String,
    counts: String,
    /// The connection on which its counts arrive; `None`: no process sends them at this moment.
    connection: Option<u64>,
    /// True if it sends them itself; otherwise one of its successors passes them on.
    itself: bool,
}

impl Running {
    fn is_orphan(&self) -> bool {
        self.connection.is_none() && !self.itself
    }
}

impl PreviousProcesses {
    /// Replaces what was received on a connection: the counts of the process at its other end come first, then those of processes before it.
    pub(super) fn received(&mut self, connection: u64, all: Vec<ProcessCounts>) {
        self.running.retain(|known| known.connection != Some(connection));
        for (place, (process, counts)) in all.into_iter().enumerate() {
            let itself = place == 0;
            let known = self.running.iter().position(|known| known.process == process);
            if let Some(known) = known {
                // Counts that a process sends itself are newer than the last ones that another process received from it.
                if !itself && self.running[known].itself {
                    continue;
                }
                self.running.remove(known);
            }
            self.running.push(Running { process, counts, connection: Some(connection), itself });
        }
    }

    /// The process at the other end of a connection has ended. Those before it will send their counts to this one themselves.
    pub(super) fn ended(&mut self, connection: u64) {
        let mut running = std::mem::take(&mut self.running);
        for process in running.iter_mut().filter(|process| process.connection == Some(connection)) {
            // The last line, if there is one.
            let counts = process.counts.split_inclusive('\n').filter(|line| !line.ends_with(OPEN_LINE));
            process.counts = counts.collect();
            process.connection = None;
        }
        let mut orphans = running.iter().filter(|process| process.is_orphan()).count();
        for process in running {
            if process.connection.is_some() || process.is_orphan() && orphans <= ORPHANS {
                self.running.push(process);
                continue;
            }
            orphans -= usize::from(process.is_orphan());
            for (words, value) in lines(&process.counts) {
                match self.ended.binary_search_by(|(known, _)| known.as_str().cmp(words)) {
                    Ok(place) => self.ended[place].1 = self.ended[place].1.saturating_add(value),
                    Err(place) => self.ended.insert(place, (words.to_owned(), value)),
                }
            }
        }
    }

    /// Adds the counts of processes that have ended: they belong to this one by now.
    pub(super) fn add_ended(&self, to: &mut Snapshot) {
        self.ended.iter().for_each(|(words, value)| add(to, words, *value));
    }

    pub(super) fn add_running(&self, to: &mut Snapshot) {
        for (words, value) in self.running.iter().flat_map(|process| lines(&process.counts)) {
            add(to, words, value);
        }
    }

    /// The counts of processes that have not ended, to be passed on.
    pub(super) fn running(&self) -> impl Iterator<Item = ProcessCounts> + use<'_> {
        self.running.iter().map(|known| (known.process.clone(), known.counts.clone()))
    }
}

/// Everything that a snapshot counted, except for zeros.
pub(super) fn counts(snapshot: &Snapshot) -> String {
    let mut counts = Counts::default();
    snapshot.write(&[], &mut counts);
    counts.add(&["access-log", "written"], snapshot.access_log_written);
    counts.add(&["access-log", "dropped"], snapshot.access_log_dropped);
    counts.add(&[OPEN], snapshot.services.iter().map(ServiceSnapshot::connections).sum());
    counts.into_text()
}

/// Adds a count to a snapshot. One that this version does not know is left out, and that of a service that is not served any more.
fn add(to: &mut Snapshot, words: &str, value: u64) {
    let mut words: Vec<&str> = words.split('\t').collect();
    add_at(to, &words, value);
    // They are not open here, so they have ended as far as this process knows.
    let ended = match words.as_slice() {
        ["service", _, "accepted"] => "closed",
        ["service", _, "backend", _, "connected"] => "disconnected",
        _ => return,
    };
    words.pop();
    words.push(ended);
    add_at(to, &words, value);
}

fn add_at(to: &mut Snapshot, words: &[&str], value: u64) {
    if let Some(place) = to.place(words) {
        *place = place.saturating_add(value);
    }
}

transferred! {
    Snapshot {
        services: Vec<ServiceSnapshot> => ["service"];
        handshakes: Vec<HandshakeSnapshot> => ["handshake"];
        backend_handshakes: Vec<HandshakeSnapshot> => ["backend-handshake"];
        names: Vec<NameSnapshot> => ["name"];
        reload: ReloadSnapshot => ["reload"];
    } derived {
        access_log_written => ["access-log", "written"];
        access_log_dropped => ["access-log", "dropped"];
        connections_draining => [OPEN];
    }
}

transferred! {
    ReloadSnapshot {
        succeeded: u64 => ["succeeded"];
        in_part: u64 => ["in-part"];
        failed: u64 => ["failed"];
    } derived {}
}

#[cfg(test)]
mod tests;
