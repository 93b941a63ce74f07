//! The key process: reads the files that hold keys, and signs with them for the proxy. It talks with nobody else.
//!
//! In: questions on its channels. Out: answers: what is public of a file, signatures. Each channel has a thread, as at its other end:
//! nobody waits for another one's RSA-4096 signature, which takes 4 ms, and who asks and who answers take turns on one processor.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use handfast_net::sys::sandbox::{Below, Duty, confine_calls, confine_files, receive_refusals};
use handfast_tls::apart::{Held, ID, KeyId};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::channel::{Asked, QUESTION, Question};
use super::supervising::begin;
use super::telling::{SWAPPED, Word, hear, tell};
use crate::sandbox::real;
use handfast_net::descriptors::receive_descriptors;

/// What its threads share.
struct Shared {
    held: Held,
    /// Files to read, and the next one of them.
    files: Vec<PathBuf>,
    next: AtomicUsize,
    /// Folders and files that may be read, without links; `None`: this process may read no more than the proxy.
    reach: Option<Vec<PathBuf>>,
    /// All have read.
    read: Barrier,
    /// Whether its memory stays out of swap.
    is_locked: bool,
}

/// Holds keys and signs with them, for the supervisor at the other end of standard input, until that ends.
///
/// **Errors**: it is nobody who started it so; a thread cannot be started.
pub fn hold(channels: usize) -> io::Result<()> {
    let stream = UnixStream::from(begin(c"key-process")?);
    let is_locked = keep_from_swap();
    let channels = receive_descriptors(&stream, channels)?;
    let link = OwnedFd::from(stream);
    let (mut is_sandboxed, mut reach, mut files) = (false, Vec::new(), Vec::new());
    loop {
        match hear(&link, RecvFlags::empty())? {
            None => return Ok(()),
            Some((Word::Begin, _)) => break,
            Some((Word::Sandboxed, _)) => is_sandboxed = true,
            Some((Word::Reach, path)) => reach.push(Below { path: path_of(&path), write: false }),
            Some((Word::Remember, path)) => files.push(path_of(&path)),
            Some(_) => {}
        }
    }
    if is_sandboxed {
        confine(&reach);
    }
    let read = Barrier::new(channels.len());
    let reach = rustix::process::geteuid()
        .is_root()
        .then(|| reach.into_iter().map(|below| real(&below.path)).collect());
    let shared =
        Arc::new(Shared { held: Held::default(), files, next: AtomicUsize::new(0), reach, read, is_locked });
    for (number, channel) in channels.into_iter().enumerate() {
        let (shared, link) = (Arc::clone(&shared), link.try_clone()?);
        std::thread::Builder::new().name(format!("keys-{number}")).spawn(move || {
            handfast_tls::warm_up();
            shared.prepare(&link);
            shared.serve(&channel);
        })?;
    }
    // Until the supervisor ends. Threads end with the process.
    while hear(&link, RecvFlags::empty())?.is_some() {}
    Ok(())
}

fn path_of(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_path_buf()
}

/// Where nothing limits it, keys are not written to swap. With a limit an allocation could fail later, which is worse; root is
/// limited too where it lacks CAP_IPC_LOCK, as in most containers.
fn keep_from_swap() -> bool {
    let is_free = capabilities(None).is_ok_and(|has| has.effective.contains(CapabilitySet::IPC_LOCK));
    (is_free || getrlimit(Resource::Memlock).current.is_none())
        && mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_ok()
}

/// Leaves this process the files of keys, to read, and no socket but those that it has.
fn confine(reach: &[Below]) {
    // What this kernel cannot do the proxy says of itself at the same time.
    let _ = confine_files(reach, true);
    if receive_refusals().is_ok() {
        let _ = confine_calls(Duty::HoldsKeys);
    }
}

impl Shared {
    /// Reads what the key process before this one had read, together with the other threads; whoever asks meanwhile waits.
    fn prepare(&self, link: &OwnedFd) {
        while let Some(path) = self.files.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            drop(self.held.look(path));
        }
        if self.read.wait().is_leader() {
            // Who listens has ended otherwise, and this process ends too.
            let _ = tell(link, Word::Ready, if self.is_locked { &[] } else { SWAPPED });
        }
    }

    /// Answers everything that is asked on a channel, until nobody is at its other end.
    fn serve(&self, channel: &OwnedFd) {
        let mut buffer = vec![0; QUESTION + 64];
        loop {
            let length = match recv(channel, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, length)) if length > 0 => length,
                Err(Errno::INTR) => continue,
                _ => return,
            };
            let Some(asked) = Asked::read(&buffer[..length]) else { continue };
            let answer = match asked.question {
                Question::Sign => self.sign(asked.content),
                Question::Look => self.reached(asked.content).map(|path| self.held.look(&path)),
                Question::Stamp => self.reached(asked.content).map(|path| self.held.stamp(&path)),
                Question::Ping => Ok(Vec::new()),
                Question::Forget => {
                    let keys = asked.content.as_chunks::<ID>().0;
                    keys.iter().for_each(|key| self.held.forget(&KeyId(*key)));
                    continue;
                }
            };
            asked.answer(channel, answer);
        }
    }

    /// The path that the proxy names, if it is one of those of the start. Root's files are not the proxy's to choose, also without a
    /// sandbox. (Then a link can be changed between this look and the reading.)
    fn reached(&self, named: &[u8]) -> Result<PathBuf, String> {
        let path = path_of(named);
        let is_reached = |reach: &Vec<PathBuf>| {
            let real = real(&path);
            reach.iter().any(|below| real.starts_with(below))
        };
        match self.reach.as_ref().is_none_or(is_reached) {
            true => Ok(path),
            false => Err(format!(
                "{} is outside of what the configuration of the start named, so the key process does not read it as root\n  hint: \
                 restart, or `handfast upgrade`; process.sandbox-folders names folders that reloads may need",
                path.display()
            )),
        }
    }

    fn sign(&self, question: &[u8]) -> Result<Vec<u8>, String> {
        let odd = || "the question is not understood".to_owned();
        let (key, rest) = question.split_first_chunk::<ID>().ok_or_else(odd)?;
        let (scheme, message) = rest.split_first_chunk().ok_or_else(odd)?;
        self.held.sign(&KeyId(*key), u16::from_le_bytes(*scheme), message)
    }
}
