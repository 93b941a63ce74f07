//! Checks at the end of every experiment, and waits on the way: a fresh client is served, no connection and no descriptor is left,
//! memory is what it was, the log has one record for each connection, with the true cause. Records and counters are queried for
//! Handfast only; everything else is observed from outside, the same for all programs.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_lab::sockets::Place;
use handfast_testkit::deadline::DEADLINE;
use rustix::process::Signal;
use serde_json::Value;

use crate::addresses::{BACKEND_PORT, SERVICE};
use crate::error::{CaseError, broken, lab};
use crate::program::{Program, reason};
use crate::stage::Stage;

/// The metric of connections that have ended.
const CLOSED: &str = "handfast_connections_closed_total";
/// Memory that may be kept after a fault, in KiB: allocators give back late.
const KEPT: u64 = 8 << 10;

impl Stage {
    /// Waits until a fresh client is served; how long that took.
    pub(crate) fn recover(&mut self) -> Result<Duration, CaseError> {
        let begun = Instant::now();
        loop {
            match self.serve() {
                Ok(()) => return Ok(begun.elapsed()),
                Err(CaseError::Broken(what)) if begun.elapsed() > DEADLINE => {
                    return broken(format!("no fresh client is served: {what}"));
                }
                Err(CaseError::Broken(_)) => pause(),
                Err(other) => return Err(other),
            }
        }
    }

    /// Waits until exactly this number of connections is open.
    pub(crate) fn quiet(&mut self, standing: usize) -> Result<(), CaseError> {
        let begun = Instant::now();
        loop {
            if let Some(backend) = self.backend.as_ref().filter(|_| standing == 0) {
                // A connection that no experiment has taken: its client was given up.
                backend.forget();
            }
            let open = self.open_connections()?;
            if open <= standing {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{open} connections stand, expected {standing}"));
            }
            pause();
        }
    }

    /// The connections of the service under test: as the program counts them, or those whose sockets it has.
    pub(crate) fn open_connections(&mut self) -> Result<usize, CaseError> {
        if self.subject.is_logged {
            let (program, place) = self.both()?;
            let open = program.metric(place, "handfast_connections", "service=")?;
            return Ok(open.round() as usize);
        }
        connections(&self.place)
    }

    /// Waits for a record with one of these reasons.
    pub(crate) fn record_of(&mut self, reasons: &[&str]) -> Result<String, CaseError> {
        self.records_of(1, reasons)
    }

    /// Waits for this number of records; returns the reason of the first.
    fn records_of(&mut self, count: usize, reasons: &[&str]) -> Result<String, CaseError> {
        if !self.subject.is_logged {
            return Ok(String::new());
        }
        let fits = |found: &str| {
            reasons.iter().any(|pattern| {
                found == *pattern || (!pattern.contains('/') && found.ends_with(&format!("/{pattern}")))
            })
        };
        let begun = Instant::now();
        loop {
            let mut found = self.program()?.reasoned().map(reason).filter(|reason| fits(reason));
            let (first, more) = (found.next(), found.count());
            match first {
                Some(first) if more + 1 >= count => return Ok(first),
                _ if begun.elapsed() > DEADLINE => {
                    let (number, expected) = (more + usize::from(first.is_some()), reasons.join(" or "));
                    return broken(format!("{number} records of {count} say {expected}"));
                }
                _ => {}
            }
            pause();
        }
    }

    /// Waits until this number of connections has a record.
    pub(crate) fn recorded(&mut self, count: usize) -> Result<(), CaseError> {
        let begun = Instant::now();
        while self.subject.is_logged {
            let seen = self.program()?.records().len();
            if seen >= count {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{count} connections have {seen} records"));
            }
            pause();
        }
        Ok(())
    }

    /// Waits until this number of connections has ended for a cause, also those that have no record.
    pub(crate) fn closed(&mut self, count: usize, cause: &str) -> Result<(), CaseError> {
        let label = format!("cause=\"{cause}\"");
        let begun = Instant::now();
        loop {
            let (program, place) = self.both()?;
            let closed = program.metric(place, CLOSED, &label)?;
            if closed > count as f64 - 0.5 {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{closed} connections of {count} have ended for {cause}"));
            }
            pause();
        }
    }

    /// The reasons of all records, and how many have each.
    pub(crate) fn reasons(&mut self) -> String {
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for record in self.program.iter_mut().flat_map(Program::reasoned) {
            *counted.entry(reason(record)).or_default() += 1;
        }
        let words: Vec<_> = counted.iter().map(|(reason, count)| format!("{count} × {reason}")).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }

    /// Runs the checks at the end of every experiment, whatever its fault was.
    pub(crate) fn judge(&mut self) -> Result<(), CaseError> {
        if self.program.is_none() {
            return Ok(());
        }
        if let Some(status) = self.program()?.ended() {
            return broken(format!("the proxy has ended with {status}: {}", self.program()?.last_words()));
        }
        self.echoes().inspect_err(|_| self.figures.lost += 1)?;
        let took = self.recover()?;
        self.figures.recovered_ms = Some(took.as_secs_f64() * 1e3);
        self.leave()?;
        self.quiet(0)?;
        self.nothing_is_left()?;
        self.records_are_true()?;
        self.stops()
    }

    /// The bystander ends cleanly: the next step ends the program.
    pub(crate) fn leave(&mut self) -> Result<(), CaseError> {
        let Some(mut bystander) = self.bystander.take() else { return Ok(()) };
        bystander.tolerates_fin = !self.subject.sends_close_notify;
        bystander.close();
        let ending = bystander.ends();
        if ending.is_clean() {
            return Ok(());
        }
        self.figures.lost += 1;
        broken(format!("a bystander closed cleanly, and received {ending}"))
    }

    /// Descriptors and memory are what they were.
    fn nothing_is_left(&mut self) -> Result<(), CaseError> {
        let begun = Instant::now();
        let before = self.figures.descriptors_before;
        loop {
            let now = self.program()?.descriptors();
            self.figures.descriptors_after = now;
            if now <= before {
                break;
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{now} descriptors are open, {before} were before"));
            }
            pause();
        }
        let (before, after) = (self.figures.memory_before_kib, self.program()?.memory());
        self.figures.memory_after_kib = after;
        if after > before + KEPT {
            return broken(format!("{after} KiB of memory are in use, {before} KiB were before"));
        }
        Ok(())
    }

    /// Each connection has one record, each fault its true reason, and none an empty reason.
    fn records_are_true(&mut self) -> Result<(), CaseError> {
        if !self.logged {
            return Ok(());
        }
        let mut found = Vec::new();
        for (count, reasons) in std::mem::take(&mut self.expected) {
            found.push(self.records_of(count, &reasons)?);
        }
        self.figures.reasons = found;
        let is_http = self.mode.is_http();
        let (program, place) = self.both()?;
        let begun = Instant::now();
        loop {
            // Each request has a line too, and then a connection that ended cleanly behind its requests has none.
            let failed = |record: &&Value| record["reason"]["failed"] == true;
            let label = if is_http { "failed=\"true\"" } else { "cause=" };
            let closed = program.metric(place, CLOSED, label)?;
            let logged = program.records().iter().filter(|record| !is_http || failed(record)).count();
            let ended = program.metric(place, "handfast_requests_total", "service=")?;
            let requests = program.requests().len();
            if (logged as f64 - closed).abs() < 0.5 && (requests as f64 - ended).abs() < 0.5 {
                break;
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!(
                    "{closed} connections have ended, and {logged} have a record; {ended} requests, and {requests}"
                ));
            }
            pause();
        }
        let empty = program
            .reasoned()
            .map(reason)
            .find(|reason| reason.contains("errno") || reason.ends_with("/internal") || reason.contains('?'));
        match empty {
            Some(reason) => broken(format!("a record has the reason {reason}, which names no cause")),
            None => Ok(()),
        }
    }

    /// It shuts down cleanly on request, and never panicked.
    fn stops(&mut self) -> Result<(), CaseError> {
        self.program()?.signal(Signal::TERM)?;
        let status = self.program()?.wait()?;
        self.never_panicked()?;
        if self.subject.is_logged && status.code() != Some(0) {
            return broken(format!("it was stopped, and ended with {status}"));
        }
        Ok(())
    }

    /// Nothing that a peer, a file or a clock does may panic.
    pub(crate) fn never_panicked(&mut self) -> Result<(), CaseError> {
        let lines = self.program.iter_mut().flat_map(|program| program.output().iter());
        match lines.into_iter().find(|line| line.contains("panicked at")) {
            Some(line) => broken(format!("the proxy panicked: {line}")),
            None => Ok(()),
        }
    }
}

/// Connections of the service, by the sockets of the program under test.
pub(crate) fn connections(place: &Place) -> Result<usize, CaseError> {
    let table = place.here(|| fs::read_to_string("/proc/thread-self/net/tcp"))?;
    Ok(counted(&table.map_err(lab("read the kernel's table of sockets"))?))
}

/// Connections of the service in the kernel's table of sockets (Documentation/networking/proc_net_tcp): on the side of clients, or of
/// the backend if there are more. Sockets without an inode are no process's.
fn counted(table: &str) -> usize {
    const LISTENS: &str = "0A";
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next().unwrap_or_default(), 16).ok();
    let (mut clients, mut backends) = (0, 0);
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(local), Some(remote), Some(state), Some(inode)) =
            (fields.get(1), fields.get(2), fields.get(3), fields.get(9))
        else {
            continue;
        };
        if *state != LISTENS && *inode != "0" {
            clients += usize::from(port(local) == Some(SERVICE.port()));
            backends += usize::from(port(remote) == Some(BACKEND_PORT));
        }
    }
    clients.max(backends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_on_the_side_that_has_more() {
        let line = |local: &str, remote: &str, state: &str, inode: u32| {
            format!("   0: 0100120A:{local} 0200120A:{remote} {state} 0:0 00:0 0 0 0 {inode} 1\n")
        };
        // 20FB is 8443, 2328 is 9000.
        let table = [
            "  sl  local_address rem_address st\n".to_owned(),
            line("20FB", "0000", "0A", 7),
            line("20FB", "9C40", "01", 8),
            line("20FB", "9C41", "06", 0),
            line("9C42", "2328", "01", 9),
            line("9C43", "2328", "08", 10),
            line("9C44", "2329", "01", 11),
        ];
        assert_eq!(counted(&table.concat()), 2);
        assert_eq!(counted(&table[..3].concat()), 1);
        assert_eq!(counted("nonsense\n 1 2"), 0);
    }
}
