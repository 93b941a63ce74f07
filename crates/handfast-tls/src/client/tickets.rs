//! The tickets of a client, for its next connections.
//!
//! In: tickets of servers, from full and resumed handshakes. Out: a TLS 1.3 ticket once, the TLS 1.2 session
//! any number of times while it is valid; each only for its name. One pool serves two of rustls's stores: one that returns tickets, and one that only stores them.

#![expect(
    clippy::disallowed_types,
    reason = "threads that dial the same backend share its sessions; none of them waits for the lock, see `Pool::try_kept`"
)]

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use handfast_wire::registry;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

use super::observed::Ticket;
use super::verifier::Verifier;
use crate::side_channels;

/// Tickets that a load test keeps, of all names together: more than the connections that one thread can have in progress.
pub(super) const LIMIT: usize = 4096;
/// Tickets of each name that everything else keeps for each of its threads: those of the connections that begin within one round
/// trip.
pub(super) const MIN_TICKETS_PER_THREAD: usize = 8;
/// Bytes of a ticket above which it is not kept: one TLS record. A stateless ticket that contains a client's certificates has
/// some kilobytes, most have 200 bytes; a message may have 64 KiB.
pub(super) const TICKET_BYTES: usize = 16 * 1024;
/// Bytes that the kept tickets of one name may have together, for each of its threads: each with the certificates that rustls stores with it.
pub(super) const TICKET_BYTES_PER_THREAD: usize = 128 * 1024;
/// The same for a load test, of all names together.
pub(super) const LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// The tickets of one name.
#[derive(Default)]
struct NameTickets {
    /// Oldest first, each with its size in bytes. A ticket is used once, so that an observer of the network cannot link two
    /// connections to one client (RFC 9846 §C.4).
    tls13: VecDeque<(usize, Tls13ClientSessionValue)>,
    /// Sum of the sizes in `tls13`.
    bytes: usize,
    /// The newest; an older one is never the better choice, and this one may be used for any number of connections
    /// (RFC 5246 §F.1.4).
    tls12: Option<Tls12ClientSessionValue>,
}

/// Number of attempts to take a lock that another thread holds. The holder moves a few words, which takes less; if it was suspended
/// meanwhile, no thread waits for it.
const LOOKS: usize = 200;

/// The tickets of one client, on all of its threads.
pub(super) struct Pool {
    /// By the requested name: another name's session is not for it (RFC 9846 §4.7.1).
    kept: Mutex<HashMap<ServerName<'static>, NameTickets>>,
    /// Tickets kept of one name for each thread, and their bytes.
    each: usize,
    each_bytes: usize,
    threads: AtomicUsize,
    /// Has the size of the certificates that rustls stores with a session.
    verifier: Arc<Verifier>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tickets come with the secrets of their sessions.
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    /// An empty pool for this number of names; `for_load`: it keeps the tickets of a load test.
    pub(super) fn new(names: usize, for_load: bool, verifier: &Arc<Verifier>) -> Self {
        let names = names.max(1);
        let (each, each_bytes) = if for_load {
            ((LIMIT / names).max(1), LIMIT_BYTES / names)
        } else {
            (MIN_TICKETS_PER_THREAD, TICKET_BYTES_PER_THREAD)
        };
        Self {
            kept: Mutex::default(),
            each,
            each_bytes,
            threads: AtomicUsize::new(0),
            verifier: Arc::clone(verifier),
        }
    }

    /// One more thread keeps its tickets here.
    pub(super) fn join(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread keeps no tickets here any more.
    pub(super) fn leave(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// The tickets, unless another thread holds them for longer than it should: then a connection begins without a ticket, or one
    /// is lost. Both cost a full handshake, and no connection waits.
    fn try_kept(&self) -> Option<MutexGuard<'_, HashMap<ServerName<'static>, NameTickets>>> {
        for _ in 0..LOOKS {
            match self.kept.try_lock() {
                Ok(kept) => return Some(kept),
                Err(TryLockError::Poisoned(kept)) => return Some(kept.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// The tickets, waited for: not for connections.
    fn kept(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, NameTickets>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of sessions that can be resumed now; a TLS 1.2 session counts as [`LIMIT`].
    pub(super) fn resumptions(&self) -> usize {
        let of = |kept: &NameTickets| kept.tls13.len() + if kept.tls12.is_some() { LIMIT } else { 0 };
        self.kept().values().map(of).sum()
    }

    /// Returns the properties of the newest session.
    pub(super) fn newest(&self) -> Option<Ticket> {
        let all = self.kept();
        let of = |kept: &NameTickets| {
            let tls13 = kept.tls13.back().map(|(_, ticket)| Ticket {
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

    /// Does something while another one has the tickets.
    #[cfg(test)]
    pub(super) fn held<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let _kept = self.kept();
        meanwhile()
    }

    /// Bytes of all kept TLS 1.3 tickets, with their certificates.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.kept().values().map(|kept| kept.bytes).sum()
    }
}

/// The seconds that a server gave a ticket. rustls shows them in what it prints for debugging alone (where it leaves secrets
/// out); 0 is what it has for a TLS 1.2 session that is known by its number, which has no lifetime.
fn lifetime(printed: &str) -> Option<Duration> {
    let (_, rest) = printed.split_once("lifetime_secs: ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// Bytes of a session's ticket, or [`usize::MAX`] for more than [`TICKET_BYTES`].
///
/// rustls shows them in what it prints for debugging alone, as two digits for each byte.
///
/// **Cost**: 20 ns for each byte; printing stops behind the ticket or the limit.
fn ticket_bytes(session: &impl fmt::Debug) -> usize {
    /// Counts what is printed between the names of the fields `ticket` and `epoch`.
    #[derive(Default)]
    struct Counter {
        in_ticket: bool,
        digits: usize,
    }
    impl fmt::Write for Counter {
        fn write_str(&mut self, printed: &str) -> fmt::Result {
            match printed {
                "ticket" => self.in_ticket = true,
                "epoch" if self.in_ticket => return Err(fmt::Error),
                _ if self.in_ticket && printed.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                    self.digits += printed.len();
                }
                _ => {}
            }
            if self.digits > 2 * TICKET_BYTES { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut counter = Counter::default();
    let _ = write!(counter, "{session:?}");
    if counter.digits > 2 * TICKET_BYTES { usize::MAX } else { counter.digits / 2 }
}

/// The pool as rustls sees it.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) pool: Arc<Pool>,
    /// True if it returns stored sessions.
    pub(super) gives: bool,
}

impl ClientSessionStore for Store {
    // The first configured group is the one that is offered, always: a HelloRetryRequest is something to be measured.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        side_channels::count_tls12_session();
        if ticket_bytes(&value) > TICKET_BYTES {
            return;
        }
        if let Some(mut kept) = self.pool.try_kept() {
            let before = kept.entry(name).or_default().tls12.replace(value);
            drop(kept);
            drop(before);
        }
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let session = self.gives.then(|| self.pool.try_kept()?.get(name)?.tls12.clone()).flatten();
        if session.is_some() {
            side_channels::set_given_version(registry::TLS_1_2);
        }
        session
    }

    /// rustls asks for this when a session could not be resumed, and after each TLS 1.3 handshake.
    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        let Some(mut all) = self.pool.try_kept() else { return };
        let before = all.get_mut(name).and_then(|kept| kept.tls12.take());
        drop(all);
        drop(before);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let bytes = ticket_bytes(&value);
        if bytes > TICKET_BYTES {
            return;
        }
        let bytes = bytes + self.pool.verifier.chain_bytes();
        let threads = self.pool.threads.load(Ordering::Relaxed).max(1);
        let (most, most_bytes) = (self.pool.each * threads, self.pool.each_bytes * threads);
        let Some(mut all) = self.pool.try_kept() else { return };
        let kept = all.entry(name).or_default();
        kept.tls13.push_back((bytes, value));
        kept.bytes += bytes;
        // The newest stays, whatever its size: `TICKET_BYTES` bounds it.
        while kept.tls13.len() > most || (kept.bytes > most_bytes && kept.tls13.len() > 1) {
            let Some((bytes, _)) = kept.tls13.pop_front() else { break };
            kept.bytes -= bytes;
        }
    }

    /// The newest: it stays good for longest.
    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        if !self.gives {
            return None;
        }
        let mut all = self.pool.try_kept()?;
        let kept = all.get_mut(name)?;
        let (bytes, ticket) = kept.tls13.pop_back()?;
        kept.bytes -= bytes;
        side_channels::set_given_version(registry::TLS_1_3);
        Some(ticket)
    }
}
