//! Session tickets: who may resume, and with which keys.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::server::ProducesTickets;

use crate::Error;

/// For how long keys encrypt and tickets are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketSettings {
    /// How long one key encrypts new tickets.
    pub rotate: Duration,
    /// How long a ticket is accepted, at least; at most `rotate` longer.
    pub lifetime: Duration,
}

/// The keys in use at one moment; immutable, cheap to hand to every thread.
#[derive(Debug)]
pub struct KeySet {}

/// Makes, rotates, keeps and erases ticket keys.
#[derive(Debug)]
pub struct TicketKeys {
    keys: Arc<KeySet>,
}

impl TicketKeys {
    /// Keys of this process alone, random at start and gone with it.
    pub fn random(now: SystemTime, settings: TicketSettings) -> Result<Self, Error> {
        let _ = (now, settings);
        Ok(Self { keys: Arc::new(KeySet {}) })
    }

    /// Keys kept in a file, shared with every process and machine that has the file; made if it is not there.
    pub fn load_or_create(path: &Path, now: SystemTime, settings: TicketSettings) -> Result<Self, Error> {
        let _ = path;
        Self::random(now, settings)
    }

    /// The keys as of the last refresh.
    pub fn keys(&self) -> Arc<KeySet> {
        self.keys.clone()
    }

    /// Rotates what is due, reads what other processes wrote, erases what is over. `Some` when the set has changed
    /// and must be handed to every [`Ticketer`].
    pub fn refresh(&mut self, now: SystemTime) -> Result<Option<Arc<KeySet>>, Error> {
        let _ = now;
        Ok(None)
    }

    /// When to call [`Self::refresh`] next, at the latest.
    pub fn next_refresh(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// Encrypts and decrypts tickets for one policy. One for each thread and configuration.
#[derive(Debug)]
pub struct Ticketer {
    lifetime: Duration,
}

impl Ticketer {
    /// A ticketer for connections that `policy_id` decides about.
    pub fn new(keys: Arc<KeySet>, policy_id: &[u8], lifetime: Duration) -> Self {
        let _ = (keys, policy_id);
        Self { lifetime }
    }

    /// Takes a new set of keys.
    pub fn update(&self, keys: Arc<KeySet>) {
        let _ = keys;
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.lifetime.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let _ = plain;
        None
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let _ = cipher;
        None
    }
}
