//! The key process: reads the files that hold keys, and signs with them for the proxy. It communicates with no other process.
//!
//! Each channel has a thread, as at its other end: so no request waits for the RSA-4096 signature of another one, which takes 4 ms, and the
//! two threads of a channel take turns on one processor.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use handfast_net::sys::sandbox::{Below, Duty, confine_calls, confine_files, receive_refusals};
use handfast_pki::apart::{Held, ID, KeyId};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::channel::{MAX_REQUEST_BYTES, ReceivedRequest, Request};
use super::child::{ControlMessage, SWAPPABLE, Setup, begin, receive_message, send_message};
use crate::sandbox::{folders_of, real};
use crate::trusted_path;
use handfast_config::source::read_file;
use handfast_net::descriptors::receive_descriptors;

/// Reason why a request about made keys is not carried out: the module that makes them has it.
type KeeperError = Box<dyn std::error::Error + Send + Sync>;

/// Answers requests about keys that are made in the key process. **Errors**: why one is not carried out.
pub type Keeper = Box<dyn Fn(&[u8]) -> Result<Vec<u8>, KeeperError> + Send + Sync>;

/// Reason why the key process does not carry out a request; its text is sent to the proxy.
#[derive(Debug, thiserror::Error)]
enum RequestRefusal {
    #[error("the request is invalid")]
    Malformed,
    #[error("{0}")]
    NotSigned(Box<dyn std::error::Error + Send + Sync>),
    #[error("acme.key-folder was not there at the start; restart, or `handfast upgrade`")]
    NoKeeper,
    #[error(transparent)]
    Keeper(KeeperError),
    #[error(
        "{} is outside of what the configuration of the start named, so the key process does not read it as root\n  hint: \
         restart, or `handfast upgrade`; process.sandbox-folders names folders that reloads may need",
        .0.display()
    )]
    OutOfReach(PathBuf),
    #[error("the configuration is not a file")]
    NoConfiguration,
    #[error("{source}, so root does not read {}", .file.display())]
    UntrustedConfiguration { file: PathBuf, source: trusted_path::Untrusted },
    #[error(transparent)]
    ReadConfiguration(#[from] io::Error),
}

struct Shared {
    held: Held,
    /// `None`: no keys are made here.
    keeper: Option<Keeper>,
    /// The configuration's file.
    configuration: Option<PathBuf>,
    /// Files to read at first, and the index of the next one.
    files: Vec<PathBuf>,
    next: AtomicUsize,
    /// Folders and files that may be read, without links; `None`: this process may read no more than the proxy.
    reach: Option<Vec<PathBuf>>,
    all_read: Barrier,
    is_locked: bool,
}

/// Holds keys and signs with them, for the supervisor at the other end of standard input, until that ends.
///
/// `configuration` is the only file besides that is read for the proxy, whole. `keeper` opens the folder in which keys are made, if there is one.
///
/// **Errors**: it was started by hand; a thread cannot be started; the folder cannot be opened.
pub fn hold(
    channels: usize,
    configuration: Option<PathBuf>,
    keeper: impl FnOnce(&Path) -> io::Result<Keeper>,
) -> io::Result<()> {
    let link = begin(c"key-process")?;
    let is_locked = keep_from_swap();
    let channels = receive_descriptors(&link, channels)?;
    let Some(Setup { is_sandboxed, mut reach, keys, files }) = Setup::receive(&link)? else { return Ok(()) };
    let keeper = keys.as_deref().map(keeper).transpose()?;
    if is_sandboxed {
        confine(&reach, configuration.as_deref(), keys.as_deref());
    }
    reach.extend(keys);
    let is_root = rustix::process::geteuid().is_root();
    let shared = Arc::new(Shared {
        held: Held::default(),
        keeper,
        configuration,
        files: files.into_iter().collect(),
        next: AtomicUsize::new(0),
        reach: is_root.then(|| reach.iter().map(|path| real(path)).collect()),
        all_read: Barrier::new(channels.len()),
        is_locked,
    });
    for (number, channel) in channels.into_iter().enumerate() {
        let (shared, link) = (Arc::clone(&shared), link.try_clone()?);
        std::thread::Builder::new().name(format!("keys-{number}")).spawn(move || {
            handfast_tls::warm_up();
            shared.prepare(&link);
            shared.serve(&channel);
        })?;
    }
    // Until the supervisor ends. Threads end with the process.
    while receive_message(&link, RecvFlags::empty())?.is_some() {}
    Ok(())
}

/// Keeps keys out of swap where no limit applies. With a limit an allocation could fail later, which is worse; root has the limit
/// too where it lacks CAP_IPC_LOCK, as in most containers.
fn keep_from_swap() -> bool {
    let is_exempt = capabilities(None).is_ok_and(|has| has.effective.contains(CapabilitySet::IPC_LOCK));
    (is_exempt || getrlimit(Resource::Memlock).current.is_none())
        && mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_ok()
}

/// Confines this process to reading these files and the configuration, to writing in the folder of keys, and to the sockets that it has.
fn confine(reach: &BTreeSet<PathBuf>, configuration: Option<&Path>, keys: Option<&Path>) {
    let mut below: BTreeSet<_> =
        reach.iter().map(|path| Below { path: path.clone(), write: false }).collect();
    // An editor puts another file in its place.
    configuration.iter().for_each(|file| folders_of(file, false, &mut below));
    below.extend(keys.map(|path| Below { path: path.to_path_buf(), write: true }));
    let reach: Vec<_> = below.into_iter().collect();
    // The proxy logs at the same time what this kernel cannot do.
    let _ = confine_files(&reach, true);
    if receive_refusals().is_ok() {
        let _ = confine_calls(Duty::HoldsKeys);
    }
}

impl Shared {
    /// Reads the files that the previous key process had read, together with the other threads. Requests wait meanwhile.
    fn prepare(&self, link: &OwnedFd) {
        while let Some(path) = self.files.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            drop(self.held.inspect(path));
        }
        if self.all_read.wait().is_leader() {
            // If this fails, the supervisor has ended, and this process ends too.
            let content: &[u8] = if self.is_locked { &[] } else { SWAPPABLE };
            let _ = send_message(link, ControlMessage::Ready, content);
        }
    }

    /// Answers every request on a channel, until all other ends of it are closed.
    fn serve(&self, channel: &OwnedFd) {
        let mut buffer = vec![0; MAX_REQUEST_BYTES + 64];
        loop {
            let length = match recv(channel, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, length)) if length > 0 => length,
                Err(Errno::INTR) => continue,
                _ => return,
            };
            let Some(received) = ReceivedRequest::decode(&buffer[..length]) else { continue };
            let content = received.content;
            let answer = match received.request {
                Request::Sign => self.sign(content),
                Request::Inspect => self.allowed(content).map(|path| self.held.inspect(&path)),
                Request::Stamp => self.allowed(content).map(|path| self.held.stamp(&path)),
                Request::Ping => Ok(Vec::new()),
                Request::Configuration => self.configuration(),
                Request::Keep => match &self.keeper {
                    Some(keeper) => keeper(content).map_err(RequestRefusal::Keeper),
                    None => Err(RequestRefusal::NoKeeper),
                },
                Request::Forget => {
                    let keys = content.as_chunks::<ID>().0;
                    keys.iter().for_each(|key| self.held.forget(&KeyId(*key)));
                    continue;
                }
            };
            received.answer(channel, answer);
        }
    }

    /// The path in a request, if it is within reach. The proxy cannot choose among root's files, also without a sandbox. (Then a link
    /// can be changed between this check and the reading.)
    fn allowed(&self, path: &[u8]) -> Result<PathBuf, RequestRefusal> {
        let path = PathBuf::from(OsStr::from_bytes(path));
        let is_within = |reach: &Vec<PathBuf>| {
            let real = real(&path);
            reach.iter().any(|below| real.starts_with(below))
        };
        match self.reach.as_ref().is_none_or(is_within) {
            true => Ok(path),
            false => Err(RequestRefusal::OutOfReach(path)),
        }
    }

    /// The content of the configuration's file. The service user chooses neither its path nor where it leads.
    fn configuration(&self) -> Result<Vec<u8>, RequestRefusal> {
        let file = self.configuration.as_deref().ok_or(RequestRefusal::NoConfiguration)?;
        let real = trusted_path::resolve(file)
            .map_err(|source| RequestRefusal::UntrustedConfiguration { file: file.to_owned(), source })?;
        Ok(read_file(&real)?)
    }

    fn sign(&self, content: &[u8]) -> Result<Vec<u8>, RequestRefusal> {
        let (key, rest) = content.split_first_chunk::<ID>().ok_or(RequestRefusal::Malformed)?;
        let (scheme, message) = rest.split_first_chunk().ok_or(RequestRefusal::Malformed)?;
        let signed = self.held.sign(&KeyId(*key), u16::from_le_bytes(*scheme), message);
        signed.map_err(|error| RequestRefusal::NotSigned(error.into()))
    }
}
