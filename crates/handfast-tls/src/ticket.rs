//! Session tickets: the clients that may resume, and the keys.
//!
//! In: the time, a policy's identity, and perhaps a file that several processes share. Out: [`TicketKeys`], which makes,
//! rotates and erases keys, and [`Ticketer`], which rustls asks for tickets. Next: `ticket/file.rs` keeps keys, `ticket/fleet.rs` shares
//! them with other machines.
//!
//! # A ticket never crosses a policy
//! The secret in a [`KeySet`] encrypts nothing. Each [`Ticketer`] derives its own keys from it with the identity of its
//! policy (HKDF, RFC 5869), so a ticket from under another policy is to it as foreign as one from another server, and a
//! changed policy ends all its old tickets automatically.
//!
//! # No nonce to use twice
//! Threads and machines share keys without talking to each other, so neither counters nor 96 random bits are safe for
//! long. Instead each ticket carries a 128-bit random seed from which its own AES-256-GCM key is derived:
//!
//! ```text
//! key name (16) | seed (16) | encrypted state | tag (16)
//! ```
//!
//! Two tickets would share a key after about 2⁶⁴ of them. A key seals one ticket, so its nonce is the same for all: one
//! derived from the seed too would be alike exactly when the keys are. And it would take a second block of HKDF: with the
//! first alone, and the key of its HMAC prepared once, a ticket takes two SHA-256 blocks where it took six.
//!
//! # Life of a key
//! Made, and with a file written there, `AHEAD` before its first use, so that every machine can decrypt before any
//! encrypts; used to encrypt for `rotate`; accepted until `lifetime` after the last moment at which it encrypted; then
//! erased from memory and, with the next rotation, from the file. If rotation fails (a full disk, a read-only folder)
//! a key encrypts for `rotate` once more, and after that no tickets are given out: no key is used forever because
//! no operator reads the log.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::{hmac, rand};
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use crate::{Error, side_channels};
use file::KeyFile;

mod file;
mod fleet;

pub use fleet::Merged;

/// Between a key's appearance in a file and its first use. Processes that share a file must call
/// [`TicketKeys::refresh`] at least this often.
const AHEAD: Duration = Duration::from_secs(120);

const NAME_LENGTH: usize = 16;
const SEED_LENGTH: usize = 16;
const KEY_LENGTH: usize = 32;

/// The file that processes lock while they rotate the keys in `key_file`; a process that gives up privileges hands it
/// over together with the key file.
pub fn lock_path(key_file: &Path) -> PathBuf {
    // Through links, as the key file itself is found.
    let path = key_file.canonicalize().unwrap_or_else(|_| key_file.to_path_buf());
    file::beside(&path, ".lock")
}

/// Storage of ticket keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeySource {
    /// In memory: they end with the process, or go to the one after it.
    #[default]
    Memory,
    /// In a file that several processes can share.
    File(PathBuf),
    /// In memory, and in that of every other machine of the fleet.
    Fleet,
}

impl KeySource {
    /// Its file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Memory | Self::Fleet => None,
            Self::File(file) => Some(file),
        }
    }
}

/// For how long keys encrypt and tickets are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketSettings {
    /// Time for which one key encrypts new tickets; below one second counts as one second.
    pub rotate: Duration,
    /// Time for which a ticket is accepted, at least; at most `rotate` longer.
    pub lifetime: Duration,
}

impl TicketSettings {
    fn rotate_seconds(&self) -> u64 {
        self.rotate.as_secs().max(1)
    }
}

/// A secret from which the keys of all policies are derived.
struct MasterKey {
    /// Public; two keys never have the same.
    id: [u8; NAME_LENGTH],
    secret: Zeroizing<[u8; KEY_LENGTH]>,
    /// Unix seconds.
    made_at: u64,
    used_from: u64,
}

impl MasterKey {
    fn random(made_at: u64, used_from: u64) -> Result<Arc<Self>, Error> {
        let mut id = [0; NAME_LENGTH];
        let mut secret = Zeroizing::new([0; KEY_LENGTH]);
        rand::fill(&mut id).map_err(|_| Error::Random)?;
        rand::fill(&mut secret[..]).map_err(|_| Error::Random)?;
        // Not chance but a broken generator; a library once gave out such keys for its first 18 hours
        // (CVE-2020-13777).
        if *secret == [0; KEY_LENGTH] {
            return Err(Error::Random);
        }
        Ok(Arc::new(Self { id, secret, made_at, used_from }))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("used_from", &self.used_from).finish_non_exhaustive()
    }
}

/// The keys in use at one moment; immutable, cheap to hand to every thread.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<Arc<MasterKey>>,
    /// Place of the key that encrypts.
    encrypting: Option<usize>,
}

impl KeySet {
    /// No key: no ticket is made or opened.
    pub const fn none() -> Self {
        Self { keys: Vec::new(), encrypting: None }
    }

    fn is_same(&self, other: &Self) -> bool {
        let ids = |set: &Self| set.keys.iter().map(|key| key.id).collect::<Vec<_>>();
        self.encrypting == other.encrypting && ids(self) == ids(other)
    }
}

/// Ticket keys as text, in the form of their file; erased from memory when dropped.
pub struct KeyText(Zeroizing<String>);

impl KeyText {
    /// The text: any holder can read the data of resumed sessions.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for KeyText {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText")
    }
}

/// Processes that share the keys.
#[derive(Debug)]
enum Keeping {
    /// No other process.
    Alone,
    /// Every process that has the file.
    File(KeyFile),
    /// Every machine of the fleet.
    Fleet {
        /// Delay of this machine in making a key that is due, so that another machine has mostly made it by then. **Units**: seconds.
        delay: u64,
        /// Until when the first keys are those of others, if they come; Unix seconds.
        requests_until: u64,
    },
}

/// Makes, rotates, keeps and erases ticket keys. One for the process, off the path of connections.
#[derive(Debug)]
pub struct TicketKeys {
    /// By first use.
    keys: Vec<Arc<MasterKey>>,
    settings: TicketSettings,
    keeping: Keeping,
    current: Arc<KeySet>,
    refreshed_at: u64,
}

impl TicketKeys {
    /// Keys of this process alone, random at start and gone with it.
    ///
    /// **Errors**: [`Error::Random`].
    pub fn random(now: SystemTime, settings: TicketSettings) -> Result<Self, Error> {
        Self::start(Keeping::Alone, unix(now), settings)
    }

    /// Keys of this process alone, which it was given by the process before it; `None` when they are not understood.
    ///
    /// **Errors**: [`Error::Random`].
    pub fn given(text: &KeyText, now: SystemTime, settings: TicketSettings) -> Result<Option<Self>, Error> {
        let Ok(keys) = file::parse(text.0.as_bytes()) else { return Ok(None) };
        let current = Arc::new(KeySet { keys: Vec::new(), encrypting: None });
        let mut made = Self { keys, settings, keeping: Keeping::Alone, current, refreshed_at: unix(now) };
        made.refresh_at(unix(now), true)?;
        Ok(Some(made))
    }

    /// The keys as text, for the process that follows; `None` when they are in a file, where it reads them.
    pub fn to_give(&self) -> Option<KeyText> {
        match self.keeping {
            Keeping::File(_) => None,
            Keeping::Alone | Keeping::Fleet { .. } => Some(self.text()),
        }
    }

    fn text(&self) -> KeyText {
        KeyText(file::text(&self.keys))
    }

    /// Keys kept in the file at `path`, shared with every process and machine that has the file; made if it is not
    /// there.
    ///
    /// **Errors**: a file that others may read, that is malformed, cannot be read, or cannot be made. A file
    /// that is good for now but cannot be written is no error here; [`Self::refresh`] reports it when it matters.
    pub fn load_or_create(path: &Path, now: SystemTime, settings: TicketSettings) -> Result<Self, Error> {
        Self::start(Keeping::File(KeyFile::new(path)), unix(now), settings)
    }

    fn start(keeping: Keeping, now: u64, settings: TicketSettings) -> Result<Self, Error> {
        let current = Arc::new(KeySet::none());
        let mut made = Self { keys: Vec::new(), settings, keeping, current, refreshed_at: now };
        let refreshed = made.refresh_at(now, true);
        match (refreshed, made.current.encrypting) {
            (Err(error), None) => Err(error),
            _ => Ok(made),
        }
    }

    /// The keys as of the last refresh.
    pub fn keys(&self) -> Arc<KeySet> {
        self.current.clone()
    }

    /// Returns the number of keys that can decrypt now, for `/status`.
    pub fn count(&self) -> usize {
        self.current.keys.len()
    }

    /// Rotates what is due, reads what other processes wrote, erases what is over. `Some` when the set has changed
    /// and must be handed to every [`Ticketer`].
    ///
    /// **Errors**: those of the file. The keys in memory stay in use, and the next call tries again.
    ///
    /// **Cost**: one `stat` when nothing has changed. With a file, disk writes at each rotation: not for the
    /// threads that serve.
    pub fn refresh(&mut self, now: SystemTime) -> Result<Option<Arc<KeySet>>, Error> {
        let before = self.current.clone();
        let result = self.refresh_at(unix(now), false);
        let changed = (!before.is_same(&self.current)).then(|| self.current.clone());
        match (result, changed) {
            // A set that changed must reach the threads even if the file failed; the file fails again next time.
            (Err(error), None) => Err(error),
            (_, changed) => Ok(changed),
        }
    }

    /// Returns the latest time for the next call of [`Self::refresh`]; with a file, call it at least every minute, to
    /// read the keys that others write.
    pub fn next_refresh(&self) -> SystemTime {
        let next = match self.keeping {
            Keeping::Fleet { requests_until, .. } if self.keys.is_empty() => requests_until,
            _ => self.schedule().next_event(&self.keys, self.refreshed_at),
        };
        SystemTime::UNIX_EPOCH + Duration::from_secs(next)
    }

    /// A quarter of a rotation at most, so that with rotations shorter than minutes keys still come one after the other.
    fn ahead(&self) -> u64 {
        match self.keeping {
            Keeping::File(_) | Keeping::Fleet { .. } => shared_ahead(&self.settings),
            Keeping::Alone => 0,
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule {
            rotate: self.settings.rotate_seconds(),
            lifetime: self.settings.lifetime.as_secs(),
            ahead: self.ahead(),
            delay: match self.keeping {
                Keeping::Fleet { delay, .. } => delay,
                Keeping::Alone | Keeping::File(_) => 0,
            },
            // Of a fleet that was in parts, one part may have used a key for longer than the others.
            is_used_to_its_end: matches!(self.keeping, Keeping::Fleet { .. }),
        }
    }

    fn refresh_at(&mut self, now: u64, can_wait: bool) -> Result<(), Error> {
        self.refreshed_at = now;
        let result = self.rotate(now, can_wait);
        let schedule = self.schedule();
        schedule.prune(&mut self.keys, now);
        let encrypting = schedule.encrypting(&self.keys, now);
        let next = KeySet { keys: self.keys.clone(), encrypting };
        if !next.is_same(&self.current) {
            self.current = Arc::new(next);
        }
        result
    }

    /// Adds the next key when it is time to; with a file, under its lock and on top of what others have added.
    fn rotate(&mut self, now: u64, can_wait: bool) -> Result<(), Error> {
        let schedule = self.schedule();
        let Keeping::File(file) = &mut self.keeping else {
            if let Some(used_from) = schedule.due(&self.keys, now).filter(|_| !self.is_asking(now)) {
                self.keys.push(MasterKey::random(now, used_from)?);
                self.draw_patience();
            }
            return Ok(());
        };
        file.read_if_changed(&mut self.keys)?;
        if schedule.due(&self.keys, now).is_none() && file.is_there() {
            return Ok(());
        }
        let Some(lock) = file.lock(can_wait)? else {
            // Another process is adding the next key right now; it is read at the next refresh, well before its use.
            return Ok(());
        };
        // The keys in the file count, not those in memory: of several processes that find a key due at once, the first
        // adds it, and the others find it here.
        file.read_if_changed(&mut self.keys)?;
        schedule.prune(&mut self.keys, now);
        let mut keys = self.keys.clone();
        match schedule.due(&keys, now) {
            Some(used_from) => keys.push(MasterKey::random(now, used_from)?),
            None if file.is_there() => return Ok(()),
            // The file was removed; what is in use is worth keeping.
            None => {}
        }
        // A key that is not in the file is not used either: no other process could know it.
        file.write(&keys)?;
        self.keys = keys;
        drop(lock);
        Ok(())
    }
}

/// Time rules for keys; pure.
struct Schedule {
    rotate: u64,
    lifetime: u64,
    ahead: u64,
    /// Delay of this machine in making a key, relative to `ahead`. **Units**: seconds.
    delay: u64,
    /// True if each key may have been used until its latest end.
    is_used_to_its_end: bool,
}

/// A quarter of a rotation at most: see [`TicketKeys::ahead`].
fn shared_ahead(settings: &TicketSettings) -> u64 {
    AHEAD.as_secs().min(settings.rotate_seconds() / 4)
}

impl Schedule {
    /// Returns the time when the key at `place` stops encrypting.
    fn encrypts_until(&self, keys: &[Arc<MasterKey>], place: usize) -> u64 {
        let fallback = keys[place].used_from.saturating_add(2 * self.rotate);
        keys.get(place + 1).map_or(fallback, |next| next.used_from.min(fallback))
    }

    /// Takes out keys whose last ticket is over, and keys that only a clock far ahead of ours can have made: waiting for
    /// their time would keep an older key in use for as long.
    fn prune(&self, keys: &mut Vec<Arc<MasterKey>>, now: u64) {
        keys.retain(|key| key.used_from <= now.saturating_add(self.rotate + self.ahead));
        let over = (0..keys.len()).take_while(|place| now >= self.accepted_until(keys, *place)).count();
        keys.drain(..over);
    }

    /// Returns the time when the last ticket of the key at `place` expires.
    fn accepted_until(&self, keys: &[Arc<MasterKey>], place: usize) -> u64 {
        let used_until = match self.is_used_to_its_end {
            true => keys[place].used_from.saturating_add(2 * self.rotate),
            false => self.encrypts_until(keys, place),
        };
        used_until.saturating_add(self.lifetime)
    }

    /// Place of the key to encrypt with: the newest whose time has come.
    fn encrypting(&self, keys: &[Arc<MasterKey>], now: u64) -> Option<usize> {
        let place = match keys.iter().rposition(|key| key.used_from <= now) {
            Some(place) => place,
            // The clock was set back; a key that every process has is as good as any.
            None if !keys.is_empty() => 0,
            None => return None,
        };
        (now < self.encrypts_until(keys, place)).then_some(place)
    }

    /// Returns the first use of a key that has to be made now; `None` when none has to be made.
    fn due(&self, keys: &[Arc<MasterKey>], now: u64) -> Option<u64> {
        let ahead = self.ahead - self.delay.min(self.ahead);
        let horizon = now.saturating_add(self.rotate + self.ahead);
        let newest = keys.iter().map(|key| key.used_from).filter(|from| *from <= horizon).max();
        let Some(newest) = newest else { return Some(now) };
        let end = newest.saturating_add(self.rotate);
        if now >= end.saturating_add(self.rotate) {
            // No process has rotated for so long that none can be using it.
            return Some(now);
        }
        (now.saturating_add(ahead) >= end).then(|| end.max(now.saturating_add(ahead)))
    }

    /// The next moment at which one of the above gives another answer.
    fn next_event(&self, keys: &[Arc<MasterKey>], now: u64) -> u64 {
        let ahead = self.ahead - self.delay.min(self.ahead);
        let due = keys.last().map_or(now, |newest| (newest.used_from + self.rotate).saturating_sub(ahead));
        let uses = keys.iter().map(|key| key.used_from);
        let ends = (0..keys.len()).map(|place| self.accepted_until(keys, place));
        let events = uses.chain(ends).chain([due]).filter(|event| *event > now);
        events.min().unwrap_or(now + self.rotate)
    }
}

fn unix(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Key that one policy derives from one master key.
struct PolicyKey {
    name: [u8; NAME_LENGTH],
    /// Each ticket's own key comes from this and its seed. Erased by aws-lc-rs when dropped.
    tickets: hmac::Key,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl PolicyKey {
    fn derive(master: &MasterKey, policy: &[u8; 32]) -> Option<Self> {
        let root = Salt::new(HKDF_SHA256, b"handfast session tickets 2").extract(&master.secret[..]);
        let mut derived = Zeroizing::new([0; NAME_LENGTH + KEY_LENGTH]);
        let info: [&[u8]; 3] = [b"policy", &master.id, policy];
        root.expand(&info, Length(derived.len())).and_then(|okm| okm.fill(&mut derived[..])).ok()?;
        let (name, key) = derived.split_at(NAME_LENGTH);
        Some(Self { name: name.try_into().ok()?, tickets: hmac::Key::new(hmac::HMAC_SHA256, key) })
    }

    /// The key and nonce of the one ticket that has this seed: the first block of HKDF-Expand with `ticket` and the seed
    /// (RFC 5869 §2.3), whose key is prepared here for every ticket.
    fn for_seed(&self, seed: [u8; SEED_LENGTH]) -> Option<(LessSafeKey, Nonce)> {
        let mut info = *b"ticket................\x01";
        info[6..][..SEED_LENGTH].copy_from_slice(&seed);
        let mut key = Zeroizing::new([0; KEY_LENGTH]);
        hmac::sign_to_buffer(&self.tickets, &info, &mut key[..]).ok()?;
        let key = UnboundKey::new(&AES_256_GCM, &key[..]).ok()?;
        Some((LessSafeKey::new(key), Nonce::assume_unique_for_key([0; NONCE_LEN])))
    }
}

struct PolicyKeys {
    keys: Vec<PolicyKey>,
    encrypting: Option<usize>,
}

/// Encrypts and decrypts tickets for one policy. One for each thread and configuration.
///
/// rustls asks through a shared reference, so the keys are behind a lock; with one ticketer for each thread no other one
/// ever holds it while a handshake asks, and taking it costs two uncontended atomic operations. [`Self::update`] holds it only to swap a
/// pointer.
pub struct Ticketer {
    policy: [u8; 32],
    lifetime: Duration,
    #[expect(
        clippy::disallowed_types,
        reason = "one for each thread; written once per rotation, for a pointer's time"
    )]
    keys: std::sync::RwLock<Arc<PolicyKeys>>,
}

impl Ticketer {
    /// A ticketer for connections under `policy_id`: everything that decides which clients may connect, and how, must
    /// be in it. Tickets of a ticketer with another `policy_id` are not accepted.
    pub fn new(keys: Arc<KeySet>, policy_id: &[u8], lifetime: Duration) -> Self {
        let hash = digest(&SHA256, policy_id);
        let mut policy = [0; 32];
        policy.copy_from_slice(hash.as_ref());
        #[expect(clippy::disallowed_types, reason = "see the field")]
        let derived = std::sync::RwLock::new(Arc::new(derive(&keys, &policy)));
        Self { policy, lifetime, keys: derived }
    }

    /// Takes a new set of keys.
    pub fn update(&self, keys: Arc<KeySet>) {
        let derived = Arc::new(derive(&keys, &self.policy));
        let old = std::mem::replace(&mut *self.keys.write().unwrap_or_else(PoisonError::into_inner), derived);
        // Outside the lock: erasing takes longer than swapping.
        drop(old);
    }

    fn keys(&self) -> Arc<PolicyKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn derive(keys: &KeySet, policy: &[u8; 32]) -> PolicyKeys {
    let derived: Option<Vec<_>> = keys.keys.iter().map(|key| PolicyKey::derive(key, policy)).collect();
    match derived {
        Some(derived) => PolicyKeys { keys: derived, encrypting: keys.encrypting },
        // Derivation fails only for lengths that are not ours; without keys there are no tickets, and that is safe.
        None => PolicyKeys { keys: Vec::new(), encrypting: None },
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    /// RFC 9846 §4.6.1: servers "MUST NOT use any value greater than 604800 seconds (7 days)".
    fn lifetime(&self) -> u32 {
        u32::try_from(self.lifetime.as_secs()).unwrap_or(u32::MAX).min(604_800)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        // The number of tickets after a resumption is not the one that rustls counts to (`server.rs`).
        if !side_channels::take_ticket() {
            return None;
        }
        let keys = self.keys();
        let key = &keys.keys[keys.encrypting?];
        let mut seed = [0; SEED_LENGTH];
        crate::random::fill(&mut seed).ok()?;
        let (aead, nonce) = key.for_seed(seed)?;
        let mut ticket = Vec::with_capacity(NAME_LENGTH + SEED_LENGTH + plain.len() + MAX_TAG_LEN);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&seed);
        ticket.extend_from_slice(plain);
        let tag = aead
            .seal_in_place_separate_tag(nonce, Aad::from(key.name), &mut ticket[NAME_LENGTH + SEED_LENGTH..])
            .ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_LENGTH)?;
        let (seed, sealed) = rest.split_first_chunk::<SEED_LENGTH>()?;
        let keys = self.keys();
        // Names are public, so comparing them in whatever time is fine.
        let key = keys.keys.iter().find(|key| key.name == name)?;
        let (aead, nonce) = key.for_seed(*seed)?;
        let mut plain = sealed.to_vec();
        let length = aead.open_in_place(nonce, Aad::from(key.name), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

#[cfg(test)]
mod tests;
