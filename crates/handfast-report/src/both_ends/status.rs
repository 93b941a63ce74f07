//! Reads a proxy's `/status.json`: counts and seconds of connections.
//!
//! In: the JSON. Out: [`Counted`]; or why it is not a status.

use std::fmt;

use serde::Deserialize;

use super::Seen;

/// The supported version of the status (its field `schema`).
const SCHEMA: u64 = 2;
/// Parts of a handshake: waiting for the hello, cryptography, waiting for the client, waiting for the thread.
const PHASES: usize = 4;

/// Durations: how many, and their sum in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their sum.
    #[serde(rename = "sum_seconds")]
    pub seconds: f64,
}

impl Sum {
    /// Their mean in seconds; 0 for none.
    pub fn mean(self) -> f64 {
        if self.count > 0 { self.seconds / self.count as f64 } else { 0.0 }
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.seconds += other.seconds;
    }

    fn since(self, earlier: Self) -> Option<Self> {
        let count = self.count.checked_sub(earlier.count)?;
        Some(Self { count, seconds: (self.seconds - earlier.seconds).max(0.0) })
    }
}

/// Handshakes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Handshakes {
    /// From accept to the end.
    pub total: Sum,
    /// Of which: waiting for the hello, cryptography, waiting for the client, waiting for the thread.
    pub phases: [Sum; PHASES],
}

/// What a proxy had counted at one moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Connections accepted, of all services.
    pub accepted: u64,
    /// Full handshakes, and resumed ones.
    pub kinds: [Handshakes; 2],
    /// Connecting to backends.
    pub connect: Sum,
    /// From a client's bytes to the backend's next ones.
    pub answer: Sum,
}

#[derive(Deserialize)]
struct Status {
    services: Vec<Service>,
    handshakes: Vec<Kind>,
}

#[derive(Deserialize)]
struct Service {
    accepted: u64,
    backends: Vec<Backend>,
}

#[derive(Deserialize)]
struct Backend {
    connect: Sum,
    answer: Sum,
}

#[derive(Deserialize)]
struct Kind {
    resumed: bool,
    total: Sum,
    phases: [Sum; PHASES],
}

impl Counted {
    /// Reads a status.
    ///
    /// **Errors**: not JSON, or not the status of a proxy of this version.
    pub fn read(text: &str) -> Result<Self, StatusError> {
        let whole: serde_json::Value =
            serde_json::from_slice(text.as_bytes()).map_err(StatusError::NotJson)?;
        if whole["schema"].as_u64() != Some(SCHEMA) {
            return Err(StatusError::OtherSchema(whole["schema"].to_string().chars().take(60).collect()));
        }
        let status: Status = serde_json::from_slice(text.as_bytes()).map_err(StatusError::Broken)?;
        let mut counted = Self::default();
        for service in status.services {
            counted.accepted += service.accepted;
            for backend in service.backends {
                counted.connect.add(backend.connect);
                counted.answer.add(backend.answer);
            }
        }
        for seen in status.handshakes {
            let kind = &mut counted.kinds[usize::from(seen.resumed)];
            kind.total.add(seen.total);
            kind.phases.iter_mut().zip(seen.phases).for_each(|(sum, more)| sum.add(more));
        }
        Ok(counted)
    }

    /// Whether the proxy has counted all measured handshakes since `before`: a client ends a handshake before the proxy does.
    pub fn covers(&self, before: &Self, seen: &Seen) -> bool {
        let since = |kind: usize| self.kinds[kind].total.count.saturating_sub(before.kinds[kind].total.count);
        self.accepted.saturating_sub(before.accepted) >= seen.connections
            && since(0) >= seen.full
            && since(1) >= seen.resumed
    }

    /// The increase since `earlier`; `None`: a counter decreased.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut kinds = [Handshakes::default(); 2];
        for (place, kind) in kinds.iter_mut().enumerate() {
            let (now, then) = (&self.kinds[place], &earlier.kinds[place]);
            kind.total = now.total.since(then.total)?;
            for (phase, sum) in kind.phases.iter_mut().enumerate() {
                *sum = now.phases[phase].since(then.phases[phase])?;
            }
        }
        Some(Self {
            accepted: self.accepted.checked_sub(earlier.accepted)?,
            kinds,
            connect: self.connect.since(earlier.connect)?,
            answer: self.answer.since(earlier.answer)?,
        })
    }
}

/// Why a text is not the status of a proxy.
#[derive(Debug)]
pub enum StatusError {
    /// It is not JSON.
    NotJson(serde_json::Error),
    /// It is of another version, or of something else.
    OtherSchema(String),
    /// It is of this version, and invalid.
    Broken(serde_json::Error),
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(error) => write!(f, "not JSON: {error}"),
            Self::OtherSchema(found) => {
                write!(f, "its schema is {}, expected {SCHEMA}", crate::units::plain(found))
            }
            Self::Broken(error) => write!(f, "not the status of a Handfast proxy of this version: {error}"),
        }
    }
}

impl std::error::Error for StatusError {}
