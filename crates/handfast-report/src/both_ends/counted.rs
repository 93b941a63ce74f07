//! Counters of a proxy: numbers and seconds of connections.

use super::Seen;

/// Parts of a handshake: waiting for the hello, cryptography, waiting for the client, waiting for the thread.
const PHASES: usize = 4;

/// Durations: how many, and their sum in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Number of durations.
    pub count: u64,
    /// Their sum.
    pub seconds: f64,
}

impl Sum {
    /// Their mean in seconds; 0 for none.
    pub fn mean(self) -> f64 {
        if self.count > 0 { self.seconds / self.count as f64 } else { 0.0 }
    }

    /// Adds another one to it.
    pub fn add(&mut self, other: Self) {
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
    /// Phases of it: waiting for the hello, cryptography, waiting for the client, waiting for the thread.
    pub phases: [Sum; PHASES],
}

/// Counters of a proxy at one moment, or their increase between two.
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

impl Counted {
    /// Returns true if the proxy has counted all measured handshakes since `before`: a client ends a handshake before the proxy does.
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
