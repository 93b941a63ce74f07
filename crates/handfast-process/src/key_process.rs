//! Private keys in a separate process (`process.private-keys = "separate-process"`): this process talks with the network and never has a key.
//!
//! ```text
//! proxy ──── starts ────▶ supervisor ──── starts, and again ────▶ key process
//!   │  control: paths, state  │   link: paths, "ready"                │ reads the files, holds the keys, signs
//!   └── channels, one for each thread that signs (both of them hold the far ends) ──┘
//! ```
//!
//! In: requests about files and signatures ([`Holder`]). Out: answers, or within a bounded time that there is none. The program starts
//! itself again before it gives up its privileges and goes into its sandbox. The supervisor holds no key and reads no data of clients.
//! It holds the far end of each channel, so that the channels outlive a key process: when that ends, the supervisor notifies every
//! waiting thread, and starts the next key process with the same channels and paths.
//!
//! **Waiting.** A worker waits for as long as a signature takes, as if it had made it itself. If the key process does not answer, each
//! worker waits once for [`channel::WORKER_TIMEOUT`] without a result. From then on the handshakes wait on the signers, which carry no
//! bytes, and after [`channel::OTHER_TIMEOUT`] each request for a signature fails at once. The heartbeat (`key_process/health.rs`) detects
//! that the key process answers again. So a stalled key process stops handshakes and no tunnel, for as long as it is stalled.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handfast_pki::apart::{Holder, KeyId, Unavailable};
use handfast_pki::source::SourceNeeds;
use rustix::net::sockopt;

use handfast_config::model::Process;

mod channel;
mod child;
mod health;
mod holder;
mod supervisor;

use channel::{
    Channel, ChannelPool, Mutex, OTHER_TIMEOUT, Request, RequestError, lock, timeout_of_this_thread,
};
use child::{ControlMessage, Role, Setup, send_message};

use crate::own_program::socket_pair;

pub use channel::this_thread_carries_connections;
pub use health::KeyProcessHealth;
pub use holder::{Keeper, hold};
pub use supervisor::supervise;

/// The timeout for reading a file: longer than a disk under load takes, short enough that an operator notices one that does not answer.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);
/// Channels beyond those of workers and signers: for the control thread, checks, the heartbeat, and threads that read files.
const EXTRA_CHANNELS: usize = 7;
/// Time for which a key is kept that no new connection needs: handshakes that began before a reload may still need it.
const UNUSED_KEY_LIFETIME: Duration = Duration::from_secs(300);

/// The connection to the key process.
#[derive(Debug)]
pub struct KeyProcess {
    channels: ChannelPool,
    /// For reading files, one at a time.
    file_channel: Mutex<Channel>,
    /// Until the heartbeat begins.
    heartbeat_channel: Mutex<Option<Channel>>,
    control: OwnedFd,
    index: Mutex<KeyIndex>,
    /// Files that were requested since the start, until [`Self::take_requested_files`].
    requested_files: Mutex<Option<BTreeSet<PathBuf>>>,
    health: Arc<KeyProcessHealth>,
    _supervisor: Child,
}

impl KeyProcess {
    /// Starts supervisor and key process for this number of worker threads, if the configuration requires them. `configuration` is its
    /// file, for [`Self::configuration`].
    ///
    /// **Errors**: those of starting a process.
    pub fn start(
        process: &Process,
        threads: usize,
        needs: &SourceNeeds,
        configuration: Option<&Path>,
    ) -> io::Result<Option<Arc<Self>>> {
        if !process.private_keys_apart {
            return Ok(None);
        }
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..2 * threads + EXTRA_CHANNELS {
            let (ours, theirs) = socket_pair()?;
            // A thread that does not read an answer must not block the key process.
            sockopt::set_socket_timeout(&theirs, sockopt::Timeout::Send, Some(OTHER_TIMEOUT))?;
            near.push(Channel::new(ours));
            far.push(theirs);
        }
        let file_channel = near.pop().ok_or(io::ErrorKind::NotFound)?;
        let heartbeat_channel = Mutex::new(near.pop());
        let (supervisor, control) = child::start(Role::Supervisor, far.len(), configuration)?;
        sockopt::set_socket_timeout(&control, sockopt::Timeout::Send, Some(OTHER_TIMEOUT))?;
        child::send_channels(&control, &far)?;
        Setup::new(process, needs).send(&control)?;
        Ok(Some(Arc::new(Self {
            channels: ChannelPool::new(near),
            file_channel: Mutex::new(file_channel),
            heartbeat_channel,
            control,
            index: Mutex::default(),
            requested_files: Mutex::new(Some(BTreeSet::new())),
            health: Arc::new(KeyProcessHealth::new()),
            _supervisor: supervisor,
        })))
    }

    /// Starts tasks that send heartbeats and log state changes, for as long as this process lives.
    pub fn monitor(&self) {
        if let Some(channel) = lock(&self.heartbeat_channel).take() {
            drop(tokio::task::spawn_local(health::send_heartbeats(channel, Arc::clone(&self.health))));
        }
        match self.control.try_clone() {
            Ok(control) => {
                let health = Arc::clone(&self.health);
                drop(tokio::task::spawn_local(health::log_state_changes(control, health)));
            }
            Err(error) => tracing::warn!("key process: its state changes will not be logged: {error}"),
        }
    }

    /// Reads the configuration file, whose path the key process has from its own command line.
    ///
    /// **Errors**: another user than root could replace it; it cannot be read; there is no answer.
    pub fn configuration(&self) -> io::Result<Vec<u8>> {
        self.file_request(Request::Configuration, &[]).map_err(|error| io::Error::other(error.to_string()))
    }

    /// Returns the health of the key process.
    pub fn health(&self) -> &Arc<KeyProcessHealth> {
        &self.health
    }

    /// The files that were requested since the start, with keys and without. Empty from the second call on.
    pub fn take_requested_files(&self) -> BTreeSet<PathBuf> {
        lock(&self.requested_files).take().unwrap_or_default()
    }

    /// Records that the present configuration needs these keys and no others. The others are dropped when no handshake can need them
    /// any more.
    pub fn set_needed(&self, needed: &HashSet<KeyId>) {
        // Locked until all is sent, so that the supervisor receives messages about a file in the right order.
        let mut index = lock(&self.index);
        for path in index.set_needed(needed) {
            self.send_path(ControlMessage::Forget, &path);
        }
    }

    /// Drops the keys that have not been needed for long enough.
    pub fn drop_expired(&self) {
        // While a file is being read they stay in the index, and the next call drops them.
        let Ok(mut channel) = self.file_channel.try_lock() else { return };
        let expired: Vec<u8> = lock(&self.index).take_expired().into_iter().flat_map(|key| key.0).collect();
        if !expired.is_empty() {
            channel.send_unanswered(Request::Forget, &expired);
        }
    }

    /// Sends a path to the supervisor. If that fails, the next key process does not know the keys of the file, and refuses to sign with them.
    fn send_path(&self, message: ControlMessage, path: &Path) {
        let _ = send_message(&self.control, message, path.as_os_str().as_bytes());
    }

    /// Sends a request that is answered when a disk has done its part.
    fn file_request(&self, request: Request, content: &[u8]) -> Result<Vec<u8>, RequestError> {
        let mut channel = lock(&self.file_channel);
        let deadline = Instant::now() + FILE_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match channel.request(request, &[content], left) {
                // The next key process answers it.
                Err(RequestError::Ended) if !left.is_zero() => {}
                outcome => return outcome,
            }
        }
    }

    /// Sends a request that is answered without delay, and records whether it is.
    fn request(&self, request: Request, parts: &[&[u8]]) -> Result<Vec<u8>, Unavailable> {
        let usual = timeout_of_this_thread();
        let timeout = self.health.timeout(usual);
        let timeout = timeout.ok_or_else(|| Unavailable(RequestError::Late(usual).to_string()))?;
        let answer = self.channels.request(request, parts, timeout);
        match &answer {
            Ok(_) | Err(RequestError::Refused(_)) => self.health.answered(),
            Err(RequestError::NoChannel) => {}
            Err(_) => self.health.timed_out(),
        }
        answer.map_err(|error| Unavailable(error.to_string()))
    }
}

impl Holder for KeyProcess {
    fn inspect(&self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(files) = &mut *lock(&self.requested_files) {
            files.insert(path.to_path_buf());
        }
        let answer = self.file_request(Request::Inspect, path.as_os_str().as_bytes());
        answer.map_err(|error| io::Error::other(error.to_string()))
    }

    fn stamp(&self, path: &Path) -> io::Result<Vec<u8>> {
        let answer = self.request(Request::Stamp, &[path.as_os_str().as_bytes()]);
        answer.map_err(|error| io::Error::other(error.0))
    }

    fn found(&self, path: &Path, keys: &[KeyId]) {
        let mut index = lock(&self.index);
        index.insert(path, keys);
        self.send_path(ControlMessage::Remember, path);
    }

    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, Unavailable> {
        self.request(Request::Sign, &[&key.0, &scheme.to_le_bytes(), message])
    }

    fn keep(&self, request: &[u8]) -> Result<Vec<u8>, Unavailable> {
        let answer = self.file_request(Request::Keep, request);
        answer.map_err(|error| Unavailable(error.to_string()))
    }
}

/// Keys that the key process has read, and those among them that it can drop.
#[derive(Debug, Default)]
struct KeyIndex {
    by_file: BTreeMap<PathBuf, Vec<KeyId>>,
    /// Keys that the present configuration does not need, and since when.
    unneeded_since: HashMap<KeyId, Instant>,
}

impl KeyIndex {
    /// Records the keys of a file that was read. They count as needed until [`Self::set_needed`].
    fn insert(&mut self, path: &Path, keys: &[KeyId]) {
        self.unneeded_since.retain(|key, _| !keys.contains(key));
        let before = self.by_file.insert(path.to_path_buf(), keys.to_vec());
        for key in before.into_iter().flatten().filter(|key| !keys.contains(key)) {
            self.unneeded_since.entry(key).or_insert_with(Instant::now);
        }
    }

    /// Records that these keys are needed and no others. Removes and returns the files without a needed key.
    fn set_needed(&mut self, needed: &HashSet<KeyId>) -> Vec<PathBuf> {
        let Self { by_file, unneeded_since } = self;
        unneeded_since.retain(|key, _| !needed.contains(key));
        for key in by_file.values().flatten().filter(|key| !needed.contains(key)) {
            unneeded_since.entry(*key).or_insert_with(Instant::now);
        }
        let is_unneeded = |keys: &[KeyId]| !keys.iter().any(|key| needed.contains(key));
        by_file.extract_if(.., |_, keys| is_unneeded(keys)).map(|(path, _)| path).collect()
    }

    /// Removes and returns the keys that have been unneeded for [`UNUSED_KEY_LIFETIME`].
    fn take_expired(&mut self) -> Vec<KeyId> {
        let is_expired = |since: &Instant| since.elapsed() >= UNUSED_KEY_LIFETIME;
        self.unneeded_since.extract_if(|_, since| is_expired(since)).map(|(key, _)| key).collect()
    }

    /// As if the keys that are not needed had not been needed for long.
    #[cfg(test)]
    fn expire_unneeded(&mut self) {
        let long_ago = Instant::now().checked_sub(UNUSED_KEY_LIFETIME).expect("the machine runs for longer");
        self.unneeded_since.values_mut().for_each(|since| *since = long_ago);
    }
}

#[cfg(test)]
mod tests;
