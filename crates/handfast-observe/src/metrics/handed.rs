//! Counters that outlive their process: what it has counted, for the process that takes over, which adds it to what it counts.
//!
//! In: the numbers of a process that stops to accept, again and again until it ends. Out: numbers that go on where those were. Each
//! counter is a line of its value and its words (`3 service web accepted`, with tabs), so a version that does not know one leaves it out.
//!
//! A process that was replaced may be followed by several before it has ended. So what each of them has counted is kept apart until it
//! has, and it tells the one that serves by then: nothing is counted twice, and nothing is missed.
//!
//! Only what was counted is handed over. What is now (open connections, states) is the own of each process, and so is what
//! threads and the process itself took (turns, lag, CPU).

#![expect(clippy::disallowed_types, reason = "held to learn a word, never to count")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::handshakes::PHASES;
use super::histogram::Distribution;
use super::snapshot::{BackendSnapshot, End, HandshakeSnapshot, ServiceSnapshot, Snapshot};
use crate::cause::Cause;
use crate::steps::{Side, Step};

/// What one process has counted, under its name: lines.
pub type Told = (String, String);

/// Processes of which it is not known whether they have ended, at the most: then the oldest has.
const ORPHANS: usize = 16;

/// What processes before this one counted.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// Those that have ended, added up, in the order of their words.
    ended: Vec<(String, u64)>,
    others: Vec<Other>,
}

/// A process that has not ended.
#[derive(Debug)]
struct Other {
    process: String,
    counts: String,
    /// Who speaks of it; `None`: nobody at this moment.
    hearing: Option<u64>,
    /// Whether it speaks itself.
    itself: bool,
}

impl Before {
    /// Takes the numbers of a process, the first, and of those before it, in place of those heard there earlier.
    pub(super) fn heard(&mut self, hearing: u64, told: Vec<Told>) {
        self.others.retain(|other| other.hearing != Some(hearing));
        for (at, (process, counts)) in told.into_iter().enumerate() {
            let itself = at == 0;
            let known = self.others.iter().position(|other| other.process == process);
            if let Some(known) = known {
                // What it says itself is newer than what another one has last heard of it.
                if !itself && self.others[known].itself {
                    continue;
                }
                self.others.remove(known);
            }
            self.others.push(Other { process, counts, hearing: Some(hearing), itself });
        }
    }

    /// Nobody speaks there any more: the process that did has ended. Those before it will speak to this one themselves.
    pub(super) fn hears_no_more(&mut self, hearing: u64) {
        let mut others = std::mem::take(&mut self.others);
        for other in others.iter_mut().filter(|other| other.hearing == Some(hearing)) {
            // The last line, if there is one.
            let counts = other.counts.split_inclusive('\n').filter(|line| !line.ends_with(OPEN_LINE));
            other.counts = counts.collect();
            other.hearing = None;
        }
        let mut orphans = others.iter().filter(|other| other.hearing.is_none() && !other.itself).count();
        for other in others {
            let is_orphan = other.hearing.is_none() && !other.itself;
            if is_orphan && orphans <= ORPHANS || other.hearing.is_some() {
                self.others.push(other);
                continue;
            }
            orphans -= usize::from(is_orphan);
            for (words, value) in lines(&other.counts) {
                match self.ended.binary_search_by(|(known, _)| known.as_str().cmp(words)) {
                    Ok(at) => self.ended[at].1 = self.ended[at].1.saturating_add(value),
                    Err(at) => self.ended.insert(at, (words.to_owned(), value)),
                }
            }
        }
    }

    /// Adds what those counted that have ended: it is this process's by now.
    pub(super) fn add_ended(&self, to: &mut Snapshot) {
        self.ended.iter().for_each(|(words, value)| add(to, words, *value));
    }

    /// Adds what the others counted.
    pub(super) fn add_others(&self, to: &mut Snapshot) {
        for (words, value) in self.others.iter().flat_map(|other| lines(&other.counts)) {
            add(to, words, value);
        }
    }

    /// The others, as they are told on.
    pub(super) fn others(&self) -> impl Iterator<Item = Told> + use<'_> {
        self.others.iter().map(|other| (other.process.clone(), other.counts.clone()))
    }
}

/// What is counted under no word of its own.
const OTHER: &str = "other";
/// Words of handshakes that are learned from other processes, at the most; versions, groups and signatures are a few dozen.
const WORDS: usize = 256;

/// Everything that a snapshot counted, but for what is zero.
pub(super) fn told(snapshot: &Snapshot) -> String {
    let mut counts = Counts::default();
    for service in &snapshot.services {
        of_service(&mut counts, service);
    }
    of_handshakes(&mut counts, "handshake", &snapshot.handshakes);
    of_handshakes(&mut counts, "backend-handshake", &snapshot.backend_handshakes);
    for name in &snapshot.names {
        counts.add(&["name", &name.name, "answered"], name.answered);
        counts.add(&["name", &name.name, "failed"], name.failed);
    }
    let reload = &snapshot.reload;
    counts.add(&["reload", "succeeded"], reload.succeeded);
    counts.add(&["reload", "in-part"], reload.in_part);
    counts.add(&["reload", "failed"], reload.failed);
    counts.add(&["access-log", "written"], snapshot.access_log_written);
    counts.add(&["access-log", "dropped"], snapshot.access_log_dropped);
    let open: u64 = snapshot.services.iter().map(ServiceSnapshot::connections).sum();
    counts.add(&[OPEN], open);
    counts.0
}

/// Connections that the process which counted still has: the one number that is not a counter.
const OPEN: &str = "open";
const OPEN_LINE: &str = "\topen\n";
/// Between a line's value and its words.
const TAB: char = '\t';

/// The words and the value of each line.
fn lines(counts: &str) -> impl Iterator<Item = (&str, u64)> {
    counts.lines().filter_map(|line| {
        let (value, words) = line.split_once(TAB)?;
        Some((words, value.parse().ok()?))
    })
}

/// Adds a count to a snapshot. One that this version does not know is left out, and that of a service that is not served any more.
fn add(to: &mut Snapshot, words: &str, value: u64) {
    let mut words: Vec<&str> = words.split(TAB).collect();
    let add = |to: &mut Snapshot, words: &[&str]| {
        if let Some(place) = place(to, words) {
            *place = place.saturating_add(value);
        }
    };
    add(to, &words);
    // They are not open here, so they have ended as far as this process knows.
    let ended = match words.as_slice() {
        ["service", _, "accepted"] => "closed",
        ["service", _, "backend", _, "connected"] => "disconnected",
        _ => return,
    };
    words.pop();
    words.push(ended);
    add(to, &words);
}

#[derive(Default)]
struct Counts(String);

impl Counts {
    fn add(&mut self, words: &[&str], value: u64) {
        // A path may have any character in its name. One with these would break the line, and is left out.
        if value == 0 || words.iter().any(|word| word.contains(['\t', '\n', '\r'])) {
            return;
        }
        self.0.push_str(&value.to_string());
        for word in words {
            self.0.push(TAB);
            self.0.push_str(word);
        }
        self.0.push('\n');
    }

    fn times(&mut self, words: &[&str], times: &Distribution) {
        for (cell, value) in times.cells().filter(|(_, value)| *value > 0) {
            let cell = cell.to_string();
            self.add(&[words, &[&cell]].concat(), value);
        }
    }
}

fn of_service(counts: &mut Counts, service: &ServiceSnapshot) {
    let head = ["service", service.name.as_str()];
    let mut add = |words: &[&str], value| counts.add(&[&head, words].concat(), value);
    add(&["accepted"], service.accepted);
    add(&["bytes-to-backend"], service.bytes_to_backend);
    add(&["bytes-to-client"], service.bytes_to_client);
    add(&["handshakes-full"], service.handshakes_full);
    add(&["handshakes-resumed"], service.handshakes_resumed);
    add(&["backend-handshakes-full"], service.backend_handshakes_full);
    add(&["backend-handshakes-resumed"], service.backend_handshakes_resumed);
    add(&["hello-retries"], service.hello_retries);
    add(&["tickets-offered"], service.tickets_offered);
    for end in &service.ends {
        add(&["end", end.step, end.side, end.cause], end.count);
    }
    let by_word = [
        ("refused", &service.refused),
        ("proxy-header", &service.proxy_headers),
        ("certificate-fault", &service.certificate_faults),
    ];
    for (kind, values) in by_word {
        values.iter().for_each(|(word, value)| add(&[kind, word], *value));
    }
    counts.times(&[&head[..], &["duration"]].concat(), &service.duration);
    for backend in &service.backends {
        of_backend(counts, &[&head[..], &["backend", &backend.name]].concat(), backend);
    }
}

fn of_backend(counts: &mut Counts, head: &[&str], backend: &BackendSnapshot) {
    counts.add(&[head, &["connected"]].concat(), backend.connected);
    for (cause, value) in &backend.failures {
        counts.add(&[head, &["failure", cause]].concat(), *value);
    }
    counts.times(&[head, &["connect"]].concat(), &backend.connect);
    counts.times(&[head, &["answer"]].concat(), &backend.answer);
    if let Some(check) = &backend.check {
        counts.add(&[head, &["check-passed"]].concat(), check.passed);
        counts.add(&[head, &["check-failed"]].concat(), check.failed);
        counts.times(&[head, &["check"]].concat(), &check.seconds);
    }
}

fn of_handshakes(counts: &mut Counts, kind: &str, handshakes: &[HandshakeSnapshot]) {
    for seen in handshakes {
        let resumed = if seen.resumed { "resumed" } else { "full" };
        let head = [kind, seen.version, seen.group, seen.signature, resumed];
        counts.times(&[&head[..], &["total"]].concat(), &seen.total);
        for (phase, times) in PHASES.iter().zip(&seen.phases) {
            counts.times(&[&head[..], &[phase]].concat(), times);
        }
    }
}

/// Where a snapshot has the number of these words; `None`: it has none.
fn place<'s>(of: &'s mut Snapshot, words: &[&str]) -> Option<&'s mut u64> {
    Some(match words {
        ["service", name, rest @ ..] => {
            let at = of.services.binary_search_by(|service| service.name.as_str().cmp(name)).ok()?;
            return service_place(of.services.get_mut(at)?, rest);
        }
        ["handshake", rest @ ..] => return handshake_place(&mut of.handshakes, rest),
        ["backend-handshake", rest @ ..] => return handshake_place(&mut of.backend_handshakes, rest),
        ["name", name, outcome] => {
            let name = of.names.iter_mut().find(|known| known.name == *name)?;
            match *outcome {
                "answered" => &mut name.answered,
                "failed" => &mut name.failed,
                _ => return None,
            }
        }
        ["reload", "succeeded"] => &mut of.reload.succeeded,
        ["reload", "in-part"] => &mut of.reload.in_part,
        ["reload", "failed"] => &mut of.reload.failed,
        ["access-log", "written"] => &mut of.access_log_written,
        ["access-log", "dropped"] => &mut of.access_log_dropped,
        [OPEN] => &mut of.connections_draining,
        _ => return None,
    })
}

fn service_place<'s>(of: &'s mut ServiceSnapshot, words: &[&str]) -> Option<&'s mut u64> {
    Some(match words {
        ["accepted"] => &mut of.accepted,
        ["closed"] => &mut of.closed,
        ["bytes-to-backend"] => &mut of.bytes_to_backend,
        ["bytes-to-client"] => &mut of.bytes_to_client,
        ["handshakes-full"] => &mut of.handshakes_full,
        ["handshakes-resumed"] => &mut of.handshakes_resumed,
        ["backend-handshakes-full"] => &mut of.backend_handshakes_full,
        ["backend-handshakes-resumed"] => &mut of.backend_handshakes_resumed,
        ["hello-retries"] => &mut of.hello_retries,
        ["tickets-offered"] => &mut of.tickets_offered,
        ["end", step, side, cause] => end_place(&mut of.ends, step, side, cause),
        ["refused", limit] => under(&mut of.refused, limit)?,
        ["proxy-header", outcome] => under(&mut of.proxy_headers, outcome)?,
        ["certificate-fault", fault] => under(&mut of.certificate_faults, fault)?,
        ["duration", cell] => of.duration.cell(cell)?,
        ["backend", name, rest @ ..] => {
            let at = of.backends.iter().position(|known| known.name == *name).unwrap_or_else(|| {
                of.backends.push(BackendSnapshot { name: (*name).to_owned(), ..BackendSnapshot::default() });
                of.backends.len() - 1
            });
            return backend_place(of.backends.get_mut(at)?, rest);
        }
        _ => return None,
    })
}

/// The number under a word that this version has.
fn under<'s>(of: &'s mut BTreeMap<&'static str, u64>, word: &str) -> Option<&'s mut u64> {
    of.iter_mut().find(|(known, _)| **known == word).map(|(_, value)| value)
}

fn end_place<'s>(ends: &'s mut Vec<End>, step: &str, side: &str, cause: &str) -> &'s mut u64 {
    let step = Step::named(step).map_or(OTHER, Step::name);
    let side = Side::named(side).map_or(OTHER, Side::name);
    let cause = Cause::named(cause).map_or(OTHER, Cause::name);
    let known = ends.iter().position(|end| (end.step, end.side, end.cause) == (step, side, cause));
    let at = known.unwrap_or_else(|| {
        ends.push(End { step, side, cause, count: 0 });
        ends.len() - 1
    });
    &mut ends[at].count
}

fn backend_place<'s>(of: &'s mut BackendSnapshot, words: &[&str]) -> Option<&'s mut u64> {
    Some(match words {
        ["connected"] => &mut of.connected,
        ["disconnected"] => &mut of.disconnected,
        ["failure", cause] => of.failures.entry(Cause::named(cause).map_or(OTHER, Cause::name)).or_default(),
        ["connect", cell] => of.connect.cell(cell)?,
        ["answer", cell] => of.answer.cell(cell)?,
        ["check-passed"] => &mut of.check.as_mut()?.passed,
        ["check-failed"] => &mut of.check.as_mut()?.failed,
        ["check", cell] => of.check.as_mut()?.seconds.cell(cell)?,
        _ => return None,
    })
}

fn handshake_place<'s>(of: &'s mut Vec<HandshakeSnapshot>, words: &[&str]) -> Option<&'s mut u64> {
    let [version, group, signature, resumed, part, cell] = words else { return None };
    let [version, group, signature] = [version, group, signature].map(|word| learned(word));
    let resumed = *resumed == "resumed";
    let is = |seen: &HandshakeSnapshot| {
        (seen.version, seen.group, seen.signature, seen.resumed) == (version, group, signature, resumed)
    };
    let at = of.iter().position(is).unwrap_or_else(|| {
        of.push(HandshakeSnapshot { version, group, signature, resumed, ..HandshakeSnapshot::default() });
        of.len() - 1
    });
    let seen = of.get_mut(at)?;
    match PHASES.iter().position(|phase| phase == part) {
        Some(phase) => seen.phases.get_mut(phase)?.cell(cell),
        None if *part == "total" => seen.total.cell(cell),
        None => None,
    }
}

/// The same word for as long as the program runs; `other` for too many of them.
fn learned(word: &str) -> &'static str {
    static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.iter().find(|known| **known == word) {
        return known;
    }
    if known.len() >= WORDS {
        return OTHER;
    }
    let learned: &'static str = Box::leak(word.into());
    known.push(learned);
    learned
}

#[cfg(test)]
mod tests;
