//! Computes the resources for a planned load: cores, memory, source ports, files, the kernel's tables. Each has its arithmetic and
//! what this machine has of it; one of them runs out first.
//!
//! In: the planned load, the CPU cost of handshakes and bytes, the kernel's memory of a pair of sockets. Out: a [`Size`], its
//! JSON, and a report for people.
//!
//! | what | file |
//! |---|---|
//! | each need and what is here of it | `size/needs.rs` |
//! | words for people | `size/words.rs` |

mod needs;
#[cfg(test)]
mod tests;
mod words;

use std::io;
use std::time::SystemTime;

use handfast_text::calendar::Utc;
use schemars::JsonSchema;
use serde::Serialize;

pub use words::to_report;

use crate::machine::Machine;
use crate::pairs::{Pairs, Unseen};
use crate::report::Unseen as NotSeen;

/// Name and version of the JSON format. It changes when readers of the old one would misinterpret the new one.
pub const SCHEMA: &str = "handfast-size/1";

/// The planned load.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "Wanted")]
pub struct PlannedLoad {
    /// New connections a second with a full handshake.
    pub full_per_second: f64,
    /// New connections a second that resume a session.
    pub resumed_per_second: f64,
    /// Kind of the certificate's key: `ECDSA-P256`.
    pub key: String,
    /// Group of the key exchange.
    pub group: String,
    /// Connections that stay open.
    pub open: u64,
    /// Plaintext bytes a second, both directions together.
    pub bytes_per_second: u64,
    /// True if the backends have TLS too.
    pub backend_tls: bool,
    /// Addresses of backends over TCP; 0: they are reached over unix sockets.
    pub backends: u64,
    /// Addresses of the proxy's machine to connect from.
    pub sources: u64,
    /// Share of the cores that may be busy, 0 to 1.
    pub busy: f64,
    /// Round trip of the clients' network. **Units**: seconds.
    pub rtt_seconds: f64,
    /// Available cores.
    pub cores: u64,
}

/// A part of a cost.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Term {
    /// The operation.
    pub name: String,
    /// **Units**: nanoseconds of a core.
    pub ns: f64,
}

/// The CPU cost of one operation.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Cost {
    /// The operation: `full`, `resumed`, `byte`.
    #[schemars(extend("enum" = ["full", "resumed", "byte"]))]
    pub name: &'static str,
    /// Its parts.
    pub terms: Vec<Term>,
    /// Their sum. **Units**: nanoseconds of a core.
    pub ns: f64,
    /// The most a second that the available cores can do, without other work.
    pub per_second: f64,
}

/// The costs, from `handfast speed`.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Costs {
    /// The processor of the measurement.
    pub cpu: String,
    /// Their source: this machine, or a file.
    pub source: String,
    /// The throughput of all cores, divided by that of one core and their number, 0 to 1.
    pub efficiency: f64,
    /// Plaintext bytes, both directions together, that each connection's cost includes.
    pub carried_bytes: u64,
    /// A connection with a full handshake, a connection with a resumed one, a byte.
    pub each: Vec<Cost>,
}

impl Costs {
    /// Adds the cost of one operation, on this number of cores.
    pub fn add(&mut self, name: &'static str, terms: Vec<Term>, cores: u64) {
        let ns: f64 = terms.iter().map(|term| term.ns).sum();
        let per_second = if ns > 0.0 { 1e9 / ns * cores as f64 * self.efficiency } else { 0.0 };
        self.each.push(Cost { name, terms, ns, per_second });
    }

    /// Nanoseconds of an operation; 0 if it was not measured.
    fn ns(&self, name: &str) -> f64 {
        self.each.iter().find(|cost| cost.name == name).map_or(0.0, |cost| cost.ns)
    }
}

/// A needed resource.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Need {
    /// The resource in kebab-case: stable, for programs.
    #[schemars(extend("enum" = ["cores", "memory", "tcp-memory", "open-files", "nr-open", "file-max", "source-ports", "conntrack",
        "accept-queue", "time-wait-buckets"]))]
    pub topic: &'static str,
    /// The needed amount.
    pub needed: f64,
    /// The available amount; `null`: unknown here.
    pub here: Option<f64>,
    /// The unit of both.
    #[schemars(extend("enum" = ["cores", "bytes", "files", "ports", "entries", "connections"]))]
    pub unit: &'static str,
    /// The arithmetic of the need.
    pub arithmetic: String,
    /// The source of the available amount.
    pub from: String,
    /// The consequence when it runs out.
    pub consequence: &'static str,
    /// Commands to change it, if there is too little.
    pub change: Vec<String>,
}

impl Need {
    /// The needed amount divided by the available one.
    pub fn share(&self) -> Option<f64> {
        self.here.map(|here| self.needed / here.max(f64::MIN_POSITIVE))
    }

    /// Returns true if there is too little.
    pub fn is_short(&self) -> bool {
        self.here.is_some_and(|here| self.needed > here)
    }
}

/// Memory by owner. **Units**: bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Memory {
    /// The program's.
    pub program_bytes: u64,
    /// The kernel's, for sockets.
    pub kernel_bytes: u64,
    /// The kernel's, for bytes in flight.
    pub buffer_bytes: u64,
}

/// The resource that runs out first if the whole load grows evenly.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct First {
    /// The topic of the need.
    pub topic: &'static str,
    /// The multiple of the planned load at which it runs out.
    pub at: f64,
    /// New connections a second then.
    pub connections_per_second: f64,
    /// Open connections then.
    pub open: u64,
    /// Bytes a second then.
    pub bytes_per_second: u64,
}

/// Everything.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Size {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Name and version of the program.
    pub program: String,
    /// Start time, RFC 3339.
    pub started: String,
    /// The machine, in a few words.
    pub subject: String,
    /// The planned load.
    #[serde(rename = "wanted")]
    pub planned: PlannedLoad,
    /// The CPU costs.
    pub costs: Costs,
    /// The kernel's memory of a pair of sockets; `null`: it could not be measured.
    pub kernel: Option<Pairs>,
    /// The parts of the memory.
    pub memory: Memory,
    /// The needs, in the order in which they run out.
    pub needs: Vec<Need>,
    /// Resource that runs out first; `null` if no known resource is needed.
    pub first: Option<First>,
    /// Facts that could not be examined.
    pub unseen: Vec<NotSeen>,
}

impl Size {
    /// Returns true if all needs are met.
    pub fn fits(&self) -> bool {
        !self.needs.iter().any(Need::is_short)
    }

    /// Pretty-printed JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        // Keys are strings, and writing to memory does not fail.
        let mut text = serde_json::to_string_pretty(self).expect("a report has string keys only");
        text.push('\n');
        text
    }
}

/// Computes everything. Nothing is measured here.
///
/// **Cost**: a few small files of the machine.
pub fn size(
    machine: &Machine,
    program: &str,
    planned: PlannedLoad,
    costs: Costs,
    kernel: io::Result<(Pairs, Vec<Unseen>)>,
) -> Size {
    let mut unseen = Vec::new();
    let mut miss = |what: &str, why: String| unseen.push(NotSeen { what: what.to_owned(), why });
    let kernel = match kernel {
        Ok((pairs, missed)) => {
            missed.into_iter().for_each(|(what, why)| miss(what, why));
            Some(pairs)
        }
        Err(why) => {
            miss("the kernel's memory for sockets, which is missing in the sum", why.to_string());
            None
        }
    };
    let memory = needs::memory(&planned, kernel.as_ref());
    let mut all = needs::all(machine, &planned, &costs, kernel.as_ref());
    all.retain(|need| need.needed > 0.0);
    for need in all.iter().filter(|need| need.here.is_none()) {
        miss(&format!("how much there is of {}", need.topic), need.from.clone());
    }
    // Unknown needs come last.
    all.sort_by(|one, other| other.share().unwrap_or(-1.0).total_cmp(&one.share().unwrap_or(-1.0)));
    let first = all.first().and_then(|need| {
        let at = need.share().filter(|share| *share > 0.0)?.recip();
        Some(First {
            topic: need.topic,
            at,
            connections_per_second: (planned.full_per_second + planned.resumed_per_second) * at,
            open: (planned.open as f64 * at) as u64,
            bytes_per_second: (planned.bytes_per_second as f64 * at) as u64,
        })
    });
    Size {
        schema: SCHEMA,
        program: program.to_owned(),
        started: Utc::of(SystemTime::now()).to_seconds().to_string(),
        subject: crate::exam::subject(machine),
        planned,
        costs,
        kernel,
        memory,
        needs: all,
        first,
        unseen,
    }
}
