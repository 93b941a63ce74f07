//! Private keys in a process of their own (`process.private-keys = "apart"`): this one talks with the network and never has one.
//!
//! ```text
//! proxy ──── starts ────▶ supervisor ──── starts, and again ────▶ key process
//!   │  control: paths, ends   │   link: paths, "ready"                │ reads the files, holds the keys, signs
//!   └── channels, one for each thread that signs (both of them hold the far ends) ──┘
//! ```
//!
//! In: questions about files and signatures ([`Holder`]). Out: answers, or within a bounded time that there is none. The program starts
//! itself again before it gives up its privileges and goes into its sandbox. The supervisor holds no key and reads nothing that
//! comes from outside; it holds the far end of each channel, so that these outlive a key process: when that ends, it says so to
//! everybody who waits, and starts the next one with the same channels and the paths that it has to read.
//!
//! **Waiting.** A worker that asks waits for as long as the signature takes, as if it had made it itself. When the key process does not
//! answer, each worker waits in vain once, for [`WORKER_TIMEOUT`]; from then on the hellos wait on the signers, which carry no bytes,
//! and after [`OTHER_TIMEOUT`] each request for a signature fails at once. The heartbeat (`key_process/heartbeat.rs`) finds out that the
//! key process answers again. So a stalled key process stops handshakes and no tunnel, for as long as it is stalled.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use handfast_tls::apart::{Holder, KeyId, Unavailable};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use handfast_config::model::Process;
use handfast_net::descriptors::send_descriptors;

mod channel;
mod health;
mod heartbeat;
mod holding;
mod supervising;
mod telling;

use channel::{Channel, Question, Trouble};
#[expect(clippy::disallowed_types, reason = "taken once by each thread, and where files are read")]
type Mutex<T> = std::sync::Mutex<T>;

pub use health::KeyProcessHealth;
pub use holding::hold;
pub use supervising::supervise;

/// The hidden verb of the program that becomes a supervisor, or a key process.
const VERB: &str = "key-process";
/// How long a worker waits for a signature before it takes the key process for stuck. RSA-4096 takes 4 ms; the rest is for a machine
/// on which everybody wants the processors.
const WORKER_TIMEOUT: Duration = Duration::from_millis(200);
/// How long other threads wait: so long a new key process may take until it serves.
const OTHER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a file may take to be read: as long as a disk may stand still before somebody should hear of it.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a key is kept that no new connection needs: connections that shake hands by an older state do.
const UNUSED_KEY_LIFETIME: Duration = Duration::from_secs(300);
/// Channels beyond those of workers and signers: the control thread, checks, the heartbeat, and what reads files.
const OTHERS: usize = 7;

thread_local! {
    /// The present thread's channel, and whose it is.
    static LEASE: RefCell<Option<Lease>> = const { RefCell::new(None) };
    static TIMEOUT: Cell<Duration> = const { Cell::new(OTHER_TIMEOUT) };
}

/// The present thread carries connections: it does not wait long.
pub fn this_thread_carries_connections() {
    TIMEOUT.set(WORKER_TIMEOUT);
}

/// Where a configuration has certificates and keys, and where reloads may name some.
#[derive(Clone, Debug, Default)]
pub struct KeyPlaces {
    /// Files with certificates or keys, those that are shown to backends too.
    pub files: Vec<PathBuf>,
    /// Folders of such files.
    pub folders: Vec<PathBuf>,
}

/// The way to the key process.
#[derive(Debug)]
pub struct KeyProcess {
    free: Arc<Mutex<Vec<Channel>>>,
    /// By which files are read, one at a time.
    files: Mutex<Channel>,
    /// For the heartbeat, until that begins.
    heartbeat: Mutex<Option<Channel>>,
    /// To the supervisor.
    control: OwnedFd,
    known: Mutex<Known>,
    health: Arc<KeyProcessHealth>,
    /// The supervisor; it ends when this process does.
    _supervisor: Child,
}

/// What was read, and what may be forgotten.
#[derive(Debug, Default)]
struct Known {
    /// Files that were looked at, until that was asked for.
    looked_at: Option<BTreeSet<PathBuf>>,
    /// Files with keys, and which.
    files: BTreeMap<PathBuf, Vec<KeyId>>,
    /// Keys that what is served does not need, and since when.
    unwanted: HashMap<KeyId, Instant>,
}

#[derive(Debug)]
struct Lease {
    channel: Option<Channel>,
    owner: Arc<Mutex<Vec<Channel>>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut free = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.channel.take());
    }
}

impl KeyProcess {
    /// Starts supervisor and key process, for so many workers, where the configuration wants them.
    ///
    /// **Errors**: those of starting a process.
    pub fn start(process: &Process, threads: usize, places: &KeyPlaces) -> io::Result<Option<Arc<Self>>> {
        if !process.private_keys_apart {
            return Ok(None);
        }
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..2 * threads + OTHERS {
            let (ours, theirs) = pair()?;
            // Who does not take an answer must not hold the one who gives it.
            sockopt::set_socket_timeout(&theirs, sockopt::Timeout::Send, Some(OTHER_TIMEOUT))?;
            near.push(Channel::new(ours));
            far.push(theirs);
        }
        let files = near.pop().ok_or(io::ErrorKind::NotFound)?;
        let heartbeat = Mutex::new(near.pop());
        let (control, theirs) = pair()?;
        sockopt::set_socket_timeout(&control, sockopt::Timeout::Send, Some(OTHER_TIMEOUT))?;
        let supervisor = itself(far.len(), true).stdin(Stdio::from(theirs)).spawn()?;
        let stream = UnixStream::from(control);
        let descriptors: Vec<_> = far.iter().map(AsFd::as_fd).collect();
        send_descriptors(&stream, &descriptors)?;
        let control = OwnedFd::from(stream);
        telling::tell_reach(&control, process, places)?;
        Ok(Some(Arc::new(Self {
            free: Arc::new(Mutex::new(near)),
            files: Mutex::new(files),
            heartbeat,
            control,
            known: Mutex::new(Known { looked_at: Some(BTreeSet::new()), ..Known::default() }),
            health: Arc::new(KeyProcessHealth::new()),
            _supervisor: supervisor,
        })))
    }

    /// Checks that the key process answers, and logs its state, for as long as this process lives.
    pub fn follow(&self) {
        let channel = self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(channel) = channel {
            drop(tokio::task::spawn_local(heartbeat::check(channel, Arc::clone(&self.health))));
        }
        match self.control.try_clone() {
            Ok(control) => drop(tokio::task::spawn_local(telling::say(control, Arc::clone(&self.health)))),
            Err(error) => tracing::warn!("key process: what becomes of it will not be said: {error}"),
        }
    }

    /// Whether it answers.
    pub fn health(&self) -> &Arc<KeyProcessHealth> {
        &self.health
    }

    /// The files that it has looked at since the start, with keys and without; asked for once.
    pub fn looked_at(&self) -> BTreeSet<PathBuf> {
        self.known().looked_at.take().unwrap_or_default()
    }

    /// What is served needs these keys and no others; those are forgotten when no handshake can need them any more.
    pub fn needs(&self, wanted: &HashSet<KeyId>) {
        let mut known = self.known();
        let Known { files, unwanted, .. } = &mut *known;
        unwanted.retain(|key, _| !wanted.contains(key));
        files.retain(|path, keys| {
            let is_needed = keys.iter().any(|key| wanted.contains(key));
            for key in keys.iter().filter(|key| !wanted.contains(key)) {
                unwanted.entry(*key).or_insert_with(Instant::now);
            }
            if !is_needed {
                telling::forget_path(&self.control, path);
            }
            is_needed
        });
    }

    /// Has keys forgotten that have not been needed for long enough.
    pub fn tidy(&self) {
        let mut known = self.known();
        let due = |since: &Instant| since.elapsed() >= UNUSED_KEY_LIFETIME;
        let old: Vec<u8> =
            known.unwanted.extract_if(|_, since| due(since)).flat_map(|(key, _)| key.0).collect();
        if old.is_empty() {
            return;
        }
        // Where files are being read it is for another time; nothing is lost by a key that is kept.
        if let Ok(mut channel) = self.files.try_lock() {
            channel.say(&Question::Forget, &old);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks what is answered at once, and keeps count of whether it is.
    fn ask_promptly(&self, question: &Question, parts: &[&[u8]]) -> Result<Vec<u8>, Unavailable> {
        let timeout = self.health.timeout(TIMEOUT.get());
        let timeout = timeout.ok_or_else(|| Unavailable(Trouble::Late(TIMEOUT.get()).to_string()))?;
        let asked = self.ask(question, parts, timeout);
        match &asked {
            Ok(_) | Err(Trouble::Refused(_)) => self.health.answered(),
            Err(Trouble::NoChannel) => {}
            Err(_) => self.health.timed_out(),
        }
        asked.map_err(|trouble| Unavailable(trouble.to_string()))
    }

    /// Asks on the present thread's channel.
    fn ask(&self, question: &Question, parts: &[&[u8]], timeout: Duration) -> Result<Vec<u8>, Trouble> {
        LEASE.with_borrow_mut(|lease| {
            let is_ours = |lease: &Lease| Arc::ptr_eq(&lease.owner, &self.free);
            if !lease.as_ref().is_some_and(is_ours) {
                let channel = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
                *lease = Some(Lease { channel, owner: Arc::clone(&self.free) });
            }
            let channel = lease.as_mut().and_then(|lease| lease.channel.as_mut());
            let Some(channel) = channel else {
                *lease = None;
                return Err(Trouble::NoChannel);
            };
            channel.ask(question, parts, timeout)
        })
    }
}

impl Holder for KeyProcess {
    fn look(&self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(looked_at) = &mut self.known().looked_at {
            looked_at.insert(path.to_path_buf());
        }
        let mut channel = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + FILE_TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match channel.ask(&Question::Look, &[path.as_os_str().as_encoded_bytes()], left) {
                // The next one reads it.
                Err(Trouble::Ended) if !left.is_zero() => {}
                outcome => return outcome.map_err(|trouble| io::Error::other(trouble.to_string())),
            }
        }
    }

    fn stamp(&self, path: &Path) -> io::Result<Vec<u8>> {
        let asked = self.ask_promptly(&Question::Stamp, &[path.as_os_str().as_encoded_bytes()]);
        asked.map_err(|why| io::Error::other(why.0))
    }

    fn found(&self, path: &Path, keys: &[KeyId]) {
        let mut known = self.known();
        // Read again, so somebody may want it again.
        known.unwanted.retain(|key, _| !keys.contains(key));
        let before = known.files.insert(path.to_path_buf(), keys.to_vec());
        for key in before.into_iter().flatten().filter(|key| !keys.contains(key)) {
            known.unwanted.entry(key).or_insert_with(Instant::now);
        }
        telling::remember_path(&self.control, path);
    }

    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, Unavailable> {
        self.ask_promptly(&Question::Sign, &[&key.0, &scheme.to_le_bytes(), message])
    }
}

/// Two ends of a way between processes that keeps messages apart.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// This very program, also when another one has taken its place on the disk.
fn itself(channels: usize, supervises: bool) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("handfast").args([VERB, &channels.to_string()]).env_clear().stdout(Stdio::null());
    if supervises {
        command.arg("--supervise");
    }
    command
}
