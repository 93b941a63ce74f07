//! Results of `handfast speed`: the data, its schema's version, and its JSON; `text.rs` is for people.
//!
//! In: a [`SpeedReport`]. Out: JSON, text; and a report again from its JSON.

mod limit;
mod text;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use text::to_text;

/// Name and version of the JSON form. It changes when a reader of the old one would misunderstand the new one.
pub const SCHEMA: &str = "handfast-speed/1";

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpeedReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name and version of the program.
    pub program: String,
    /// Start time, RFC 3339.
    pub started: String,
    /// The processor's name, as far as it is known.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cores: u32,
    /// Instructions that the ciphers can use, and that are here.
    pub features_found: Vec<String>,
    /// … and that are not.
    pub features_missing: Vec<Missing>,
    /// Single operations.
    pub operations: Vec<Operation>,
    /// Whole handshakes, in memory.
    pub handshakes: Vec<Handshake>,
    /// Handshakes that follow from single operations.
    pub predictions: Vec<Prediction>,
    /// Bytes that follow from single operations.
    pub bulk: Vec<Bulk>,
    /// With `--limit`.
    pub limit: Option<Limit>,
    /// With `--compare openssl`.
    pub compared: Option<Compared>,
    /// Notes for the reader of this run.
    pub notes: Vec<String>,
}

/// An instruction set that this processor has not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// As the kernel calls it.
    pub name: String,
    /// Effect that it would have, in a few words.
    pub cost: String,
}

/// Kind of a single operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A signature.
    Sign,
    /// The verification of one.
    Verify,
    /// A new key share.
    Share,
    /// The secret from one's own key share and the peer's answer.
    Agree,
    /// A server's whole part: share and secret.
    Answer,
    /// A record encrypted.
    Seal,
    /// A record decrypted.
    Open,
    /// A hash.
    Hash,
}

/// A time that was measured several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Median of the repetitions. **Units**: nanoseconds of CPU time.
    pub ns: f64,
    /// Half the distance between the lower and the upper quartile, as a share of the median.
    pub spread: f64,
}

impl Time {
    /// Returns the number that fit a second.
    pub fn per_second(self) -> f64 {
        if self.ns > 0.0 { 1e9 / self.ns } else { 0.0 }
    }
}

/// One operation's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Kind of the operation.
    pub what: What,
    /// Its algorithm.
    pub name: String,
    /// Number of bytes that it handles; `None` for operations without a size.
    pub bytes: Option<u32>,
    /// On one core.
    pub time: Time,
    /// Operations a second.
    pub per_second: f64,
    /// On all cores at once; `None` when it was not measured.
    pub all_cores: Option<AllCores>,
}

/// Rate of all cores at once, each for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllCores {
    /// Operations a second, all together.
    pub per_second: f64,
    /// Multiple of one core's rate.
    pub factor: f64,
}

/// A handshake in memory, both sides on one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handshake {
    /// Kind of the server's key; `None` when sessions were resumed, which takes no signature.
    pub certificate: Option<String>,
    /// The group.
    pub group: String,
    /// The server's side.
    pub server: Time,
    /// The client's side, with the verification of a chain of two certificates.
    pub client: Time,
    /// Handshakes that a core can do as a server.
    pub per_second: f64,
    /// … and all cores.
    pub all_cores: Option<AllCores>,
}

/// A part of a sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Name of the part that takes the time.
    pub name: String,
    /// **Units**: nanoseconds.
    pub ns: f64,
}

/// A handshake as a sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Name of the handshake, for people.
    pub name: String,
    /// Kind of the server's key; `None`: resumed.
    pub certificate: Option<String>,
    /// The file that it is for, with `--certificate`.
    pub file: Option<String>,
    /// The group.
    pub group: String,
    /// Terms of its time.
    pub terms: Vec<Term>,
    /// The sum of the terms.
    pub ns: f64,
    /// Handshakes a second that each core can do as a server.
    pub per_second: f64,
    /// The same handshake measured in memory; `None` when it was not.
    pub measured_ns: Option<f64>,
    /// True if `the rest` was taken from this very measurement, so that it proves nothing about the arithmetic.
    pub basis: bool,
    /// True if it is the fastest of its kind.
    pub best: bool,
}

/// Bytes of bulk data as a sum: half of them decrypted, half encrypted, in records of 16 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bulk {
    /// The cipher.
    pub name: String,
    /// To decrypt a byte. **Units**: nanoseconds.
    pub open_ns: f64,
    /// To encrypt a byte.
    pub seal_ns: f64,
    /// The mean of both.
    pub ns: f64,
    /// Bytes a second that each core can do.
    pub bytes_per_second: f64,
}

/// Lower limit of the cost of any proxy that is made of this library and these sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Bytes each way in a transaction.
    pub exchange_bytes: u32,
    /// A bare relay's CPU time for a transaction.
    pub relay: Relay,
    /// Transactions.
    pub transactions: Vec<Transaction>,
    /// A bare relay's CPU time for one more exchange on an open connection. **Units**: nanoseconds.
    pub relay_exchange_ns: f64,
    /// The library's for one.
    pub library_exchange_ns: f64,
    /// The sum.
    pub exchange_ns: f64,
    /// A bare relay's CPU time for a byte of bulk data. **Units**: nanoseconds.
    pub relay_byte_ns: f64,
    /// The library's for a byte, half of them each way, AES-128-GCM.
    pub library_byte_ns: f64,
    /// The sum.
    pub byte_ns: f64,
    /// Bytes a second that each core can do.
    pub bytes_per_second: f64,
}

/// A bare TCP relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    /// Accept, connect, the bytes there and back, close of both sockets.
    pub time: Time,
    /// Share of the time in which the relay's thread had work, in the rounds that counted.
    pub busy: f64,
    /// True if relay and peers shared a CPU in the rounds that counted.
    pub one_cpu: bool,
}

/// A standard transaction's limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// Kind of the server's key; `None`: resumed.
    pub certificate: Option<String>,
    /// The group.
    pub group: String,
    /// The TLS library in memory: handshake, the bytes both ways, close_notify; the server's side.
    pub library: Time,
    /// Library and relay. **Units**: nanoseconds.
    pub ns: f64,
    /// Transactions a second that each core can do.
    pub per_second: f64,
}

/// Another program's figures beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its name and version, as it says.
    pub with: String,
    /// Rows that both have.
    pub rows: Vec<ComparedRow>,
}

/// One operation of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    /// Kind of the operation.
    pub what: What,
    /// Its algorithm.
    pub name: String,
    /// Number of bytes that it handles.
    pub bytes: Option<u32>,
    /// Ours, a second.
    pub ours: f64,
    /// Theirs, a second.
    pub theirs: f64,
    /// Ours by theirs: above 1 ours is faster.
    pub ratio: f64,
}

impl SpeedReport {
    /// The row of an operation.
    pub fn operation(&self, what: What, name: &str, bytes: Option<u32>) -> Option<&Operation> {
        self.operations.iter().find(|row| row.what == what && row.name == name && row.bytes == bytes)
    }
}

/// Reads the report of `handfast speed`.
///
/// **Errors**: as [`crate::json::read`].
pub fn from_json(text: &str) -> Result<SpeedReport, crate::ReportError> {
    crate::json::read(text, SCHEMA)
}
