//! Both ends: the clients' measurements beside the counters of the proxy that served them.
//!
//! In: the proxy's counts before and after, and the measurements. Out: [`BothEnds`]: the mean time of a connection, from the hello to
//! the first byte of its answers, and where it was spent; or why that is unknown. `counted.rs` has the counts.

mod counted;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use counted::{Counted, Handshakes, Sum};

use crate::units::{count, counted, nanos, share};

/// The clients' measurements. Times are sums over all connections, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Connections that were made, those before the measured part too.
    pub connections: u64,
    /// Full handshakes.
    pub full: u64,
    /// Resumed ones.
    pub resumed: u64,
    /// From sending a hello to the end of the handshake.
    pub handshake_seconds: f64,
    /// Answers that the clients waited for.
    pub answers: u64,
    /// From a request to the first byte of its answer.
    pub answer_seconds: f64,
    /// Round trips that both took, times the time of one.
    pub network_seconds: f64,
    /// The clients' own computing in handshakes.
    pub own_seconds: f64,
    /// In handshakes, with the kernel's timestamps: from the acknowledgement of a hello by the proxy's kernel to the first byte of its
    /// answer. 0 without timestamps.
    pub proxy_seconds: f64,
    /// The same for the client: from the arrival of an answer to the client's next bytes. 0 without timestamps.
    pub client_seconds: f64,
}

/// Parts of the time of a connection, by both ends.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct BothEnds {
    /// Reason why the comparison failed; then there are no parts.
    pub refused: Option<String>,
    /// The number of handshakes in the means.
    pub handshakes: u64,
    /// Answers for each of them.
    pub answers_each: f64,
    /// Mean time that the clients measured, for each handshake with its answers.
    pub seen_ns: f64,
    /// Its parts, in the order of the path; `wakeup` (only with the kernel's timestamps) and `unexplained` last.
    pub parts: Vec<Part>,
    /// Share of the time that is explained, 0 to 1.
    pub explained: f64,
    /// Time for which the proxy waited for its clients in handshakes. It is not a part, since the network's and the clients' time contain
    /// it.
    pub client_wait_ns: f64,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A part of the time.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Part {
    /// `network`, `hello`, `crypto`, `queue`, `connect`, `backend`, `client`, `wakeup`, `unexplained`. `wakeup` exists with the kernel's
    /// timestamps (`probe`).
    #[schemars(extend("enum" = WORDS.map(|(name, _)| name)))]
    pub name: String,
    /// Its mean.
    pub ns: f64,
    /// Share of the measured time, 0 to 1.
    pub share: f64,
}

/// Descriptions of the parts.
const WORDS: [(&str, &str); 9] = [
    ("network", "on the way, by the round trip of connect"),
    ("hello", "the proxy: from accept to the whole hello"),
    ("crypto", "the proxy: cryptography of the handshake"),
    ("queue", "the proxy: its thread was busy with others"),
    ("connect", "the proxy: connecting to the backend, TLS with it included"),
    ("backend", "the backend, and the network to it: from the request to its first bytes"),
    ("client", "this side: cryptography of the handshake"),
    (
        "wakeup",
        "between kernel and program, at both ends: wake-ups and system calls of handshakes, by the kernel's timestamps",
    ),
    ("unexplained", "system calls, wake-ups, bytes on their way through both programs"),
];

/// Compares both ends.
pub fn account(seen: &Seen, before: &Counted, after: &Counted) -> BothEnds {
    match between(seen, before, after) {
        Ok(counted) => shared_out(seen, &counted),
        Err(why) => BothEnds { refused: Some(why.to_string()), ..BothEnds::default() },
    }
}

/// Reason why the counts of both ends cannot be compared.
#[derive(Debug, thiserror::Error)]
enum NotComparable {
    #[error("the proxy's counters decreased: it was restarted during the run")]
    Restarted,
    #[error(
        "other traffic was on the proxy: it accepted {} meanwhile, and {} of them were ours",
        counted(*.accepted, "connection"),
        count(*.ours)
    )]
    OtherTraffic { accepted: u64, ours: u64 },
    #[error("no handshake was completed")]
    NoHandshake,
    #[error(
        "the proxy counted {} of {} {kind} handshakes: this is not the status of the target",
        count(*.counted),
        count(*.ours)
    )]
    OtherProxy { kind: &'static str, counted: u64, ours: u64 },
}

/// The proxy's counts between both moments; or why they include other traffic.
fn between(seen: &Seen, before: &Counted, after: &Counted) -> Result<Counted, NotComparable> {
    let counted = after.since(before).ok_or(NotComparable::Restarted)?;
    if counted.accepted != seen.connections {
        return Err(NotComparable::OtherTraffic { accepted: counted.accepted, ours: seen.connections });
    }
    if seen.full + seen.resumed == 0 {
        return Err(NotComparable::NoHandshake);
    }
    for (kind, ours, theirs) in
        [("full", seen.full, &counted.kinds[0]), ("resumed", seen.resumed, &counted.kinds[1])]
    {
        if theirs.total.count < ours {
            return Err(NotComparable::OtherProxy { kind, counted: theirs.total.count, ours });
        }
    }
    Ok(counted)
}

fn shared_out(seen: &Seen, counted: &Counted) -> BothEnds {
    let handshakes = seen.full + seen.resumed;
    let each = |seconds: f64| seconds * 1e9 / handshakes as f64;
    // By kind: handshakes before the measured part are of one kind, and would change the mean of all.
    let of_kinds = |phase: usize| {
        let [full, resumed] = [0, 1].map(|kind: usize| counted.kinds[kind].phases[phase].mean());
        each(full * seen.full as f64 + resumed * seen.resumed as f64)
    };
    let answers_each = seen.answers as f64 / handshakes as f64;
    let connect = if seen.answers > 0 { counted.connect.mean() * 1e9 } else { 0.0 };
    let (hello, crypto, queue, own) = (of_kinds(0), of_kinds(1), of_kinds(3), each(seen.own_seconds));
    let known = [
        each(seen.network_seconds),
        hello,
        crypto,
        queue,
        connect,
        counted.answer.mean() * 1e9 * answers_each,
        own,
        // By the kernels, both ends had these bytes, but their programs did not count the time.
        (each(seen.proxy_seconds) - hello - crypto - queue).max(0.0)
            + (each(seen.client_seconds) - own).max(0.0),
    ];
    let seen_ns = each(seen.handshake_seconds + seen.answer_seconds);
    let sum: f64 = known.iter().sum();
    let part = |((name, _), ns): (&(&str, &str), f64)| Part {
        name: (*name).to_owned(),
        ns,
        share: ns / seen_ns.max(1.0),
    };
    let left = (seen_ns - sum).max(0.0);
    let stamped = seen.proxy_seconds > 0.0 || seen.client_seconds > 0.0;
    let parts = WORDS.iter().zip(known.into_iter().chain([left]));
    let parts = parts.filter(|((name, _), _)| stamped || *name != "wakeup").map(part).collect();
    BothEnds {
        refused: None,
        handshakes,
        answers_each,
        seen_ns,
        parts,
        explained: (sum / seen_ns.max(1.0)).min(1.0),
        client_wait_ns: of_kinds(2),
        notes: notes(seen, counted, sum / seen_ns.max(1.0)),
    }
}

fn notes(seen: &Seen, counted: &Counted, explained: f64) -> Vec<String> {
    let mut notes = Vec::new();
    if seen.answers == 0 {
        notes.push(
            "no answer was waited for, so the proxy's work on the client's last flight, which is in its cryptography, was not seen from outside"
                .to_owned(),
        );
    }
    if explained > 1.05 {
        notes.push(format!(
            "the parts are {} of what was seen: the round trip of connect was longer than those behind it",
            share(explained)
        ));
    }
    let answers = counted.answer.count;
    if seen.answers > 0 && answers < seen.answers {
        notes.push(format!(
            "the proxy timed {} of the {} that were seen here: the others came before they were asked for",
            count(answers),
            self::counted(seen.answers, "answer")
        ));
    }
    notes
}

/// Rows for people: name, mean, share, what it is. Empty after a failed comparison.
pub fn rows(both: &BothEnds) -> Vec<[String; 4]> {
    let words = |name: &str| WORDS.iter().find(|known| known.0 == name).map_or("", |known| known.1);
    let row = |part: &Part| {
        [part.name.clone(), nanos(part.ns.max(0.0) as u64), share(part.share), words(&part.name).to_owned()]
    };
    // Handshakes alone do not involve backends.
    let is_shown =
        |part: &&Part| both.answers_each > 0.0 || !["connect", "backend"].contains(&part.name.as_str());
    both.parts.iter().filter(is_shown).map(row).collect()
}

/// The sentence above the rows, and the notes below them.
pub fn sentences(both: &BothEnds) -> (String, Vec<String>) {
    if let Some(why) = &both.refused {
        return (format!("Not attributed: {why}."), Vec::new());
    }
    let answers = match both.answers_each {
        0.0 => "the handshake".to_owned(),
        one if (one - 1.0).abs() < 0.005 => "the handshake and the first byte of the answer".to_owned(),
        several => format!("the handshake and the first bytes of {several:.2} answers"),
    };
    let head = format!(
        "Mean of {}: {answers} took {}, of which {} are explained.",
        counted(both.handshakes, "connection"),
        nanos(both.seen_ns as u64),
        share(both.explained)
    );
    let mut notes = vec![format!(
        "The proxy waited {} for the client in each handshake: the network and the client's own time, once more.",
        nanos(both.client_wait_ns.max(0.0) as u64)
    )];
    notes.extend(both.notes.iter().cloned());
    (head, notes)
}
