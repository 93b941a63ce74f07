//! The tickets a client has, for whoever is to resume next.
//!
//! In: what servers gave, from full and resumed handshakes alike. Out: a TLS 1.3 ticket once, the TLS 1.2 session
//! as often as it is good; each only for the name that it came from. One pool serves two of rustls's stores: one that gives, and one that only takes.

#![expect(
    clippy::disallowed_types,
    reason = "rustls wants a store that threads may share; this one belongs to one thread, so nobody ever waits"
)]

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handfast_wire::registry;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

use super::observed::Ticket;

/// Tickets kept, of all names together; beyond it the oldest go. More than the connections that one thread can have under way, and a
/// few megabytes.
pub(super) const LIMIT: usize = 4096;

/// What one name has given.
#[derive(Default)]
struct Kept {
    /// Oldest first. A ticket is used once, so that nobody on the wire can tell two connections to be of one client
    /// (RFC 9846 §C.4).
    tls13: VecDeque<Tls13ClientSessionValue>,
    /// The newest; an older one is never the better choice, and this one may be used for any number of connections
    /// (RFC 5246 §F.1.4).
    tls12: Option<Tls12ClientSessionValue>,
}

/// The tickets of one client. Its atomics are for `Sync` only, as its lock is.
pub(super) struct Pool {
    /// By the name that was asked for: another name's session is not for it (RFC 9846 §4.7.1).
    kept: Mutex<HashMap<ServerName<'static>, Kept>>,
    /// Tickets kept of one name.
    each: usize,
    /// Version of what was given last, 0 when this has been asked.
    given: AtomicU16,
    tls12_received: AtomicUsize,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tickets come with the secrets of their sessions.
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    /// An empty one for so many names.
    pub(super) fn new(names: usize) -> Self {
        Self {
            kept: Mutex::default(),
            each: (LIMIT / names.max(1)).max(1),
            given: AtomicU16::new(0),
            tls12_received: AtomicUsize::new(0),
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sessions can be resumed now; a session of TLS 1.2 counts as [`LIMIT`].
    pub(super) fn resumptions(&self) -> usize {
        let of = |kept: &Kept| kept.tls13.len() + if kept.tls12.is_some() { LIMIT } else { 0 };
        self.kept().values().map(of).sum()
    }

    /// Version of what was given since this was last asked.
    pub(super) fn take_given(&self) -> Option<u16> {
        Some(self.given.swap(0, Ordering::Relaxed)).filter(|version| *version != 0)
    }

    /// What is known of the newest session.
    pub(super) fn newest(&self) -> Option<Ticket> {
        let all = self.kept();
        let of = |kept: &Kept| {
            let tls13 = kept.tls13.back().map(|ticket| Ticket {
                lifetime: lifetime(&format!("{ticket:?}")),
                early_data: ticket.max_early_data_size(),
            });
            let tls12 = || {
                kept.tls12
                    .as_ref()
                    .map(|session| Ticket { lifetime: lifetime(&format!("{session:?}")), early_data: 0 })
            };
            tls13.or_else(tls12)
        };
        all.values().find_map(of)
    }

    /// How many TLS 1.2 sessions have come, ever.
    pub(super) fn tls12_received(&self) -> usize {
        self.tls12_received.load(Ordering::Relaxed)
    }
}

/// The seconds that a server gave a ticket. rustls tells them in what it prints for debugging alone (where it leaves secrets
/// out); 0 is what it has for a TLS 1.2 session that is known by its number, which has no lifetime.
fn lifetime(printed: &str) -> Option<Duration> {
    let (_, rest) = printed.split_once("lifetime_secs: ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// The pool as rustls sees it.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) pool: Arc<Pool>,
    /// Whether anything comes out of it.
    pub(super) gives: bool,
}

impl ClientSessionStore for Store {
    // The first configured group is the one that is offered, always: a HelloRetryRequest is something to be measured.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.pool.tls12_received.fetch_add(1, Ordering::Relaxed);
        self.pool.kept().entry(name).or_default().tls12 = Some(value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let session = self.gives.then(|| self.pool.kept().get(name)?.tls12.clone()).flatten();
        if session.is_some() {
            self.pool.given.store(registry::TLS_1_2, Ordering::Relaxed);
        }
        session
    }

    /// rustls asks for this when a session could not be resumed, and after each TLS 1.3 handshake.
    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        if let Some(kept) = self.pool.kept().get_mut(name) {
            kept.tls12 = None;
        }
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut all = self.pool.kept();
        let kept = all.entry(name).or_default();
        if kept.tls13.len() >= self.pool.each {
            kept.tls13.pop_front();
        }
        kept.tls13.push_back(value);
    }

    /// The newest: it stays good for longest.
    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let ticket = self.gives.then(|| self.pool.kept().get_mut(name)?.tls13.pop_back()).flatten();
        if ticket.is_some() {
            self.pool.given.store(registry::TLS_1_3, Ordering::Relaxed);
        }
        ticket
    }
}
