//! What proxy, supervisor and key process tell each other beside questions: which folders and files, and how it is.
//!
//! In: messages of one byte and a path or a sentence. Out: what they mean. They come from the same program.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use handfast_net::sys::sandbox::Below;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::unix::AsyncFd;

use super::{KeyPlaces, KeyProcessHealth};
use crate::privileges::ServiceUser;
use crate::sandbox::{NOT_WHOLE, folders_of};
use crate::trusted_path::Untrusted;
use handfast_config::model::Process;

/// What is told: the first byte of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A folder or file that the key process reaches: to supervisor and key process.
    Reach = b'r' as isize,
    /// The key process is to have a sandbox.
    Sandboxed = b's' as isize,
    /// A file with keys, for the next key process.
    Remember = b'+' as isize,
    /// … and no longer.
    Forget = b'-' as isize,
    /// That was all: the key process may begin, the supervisor start it.
    Begin = b'b' as isize,
    /// The key process serves; what there is to say of it.
    Ready = b'y' as isize,
    /// It has ended: how.
    Ended = b'e' as isize,
}

impl Word {
    const ALL: [Self; 7] =
        [Self::Reach, Self::Sandboxed, Self::Remember, Self::Forget, Self::Begin, Self::Ready, Self::Ended];
}

/// With [`Word::Ready`]: its memory may be written to swap.
pub(super) const SWAPPED: &[u8] = b"s";

/// Longer than any path.
const MESSAGE: usize = 8 << 10;

/// Tells one thing.
///
/// **Errors**: nobody listens, or not in time.
pub(super) fn tell(to: &OwnedFd, word: Word, content: &[u8]) -> io::Result<()> {
    let mut message = vec![word as u8];
    message.extend_from_slice(content);
    send(to, &message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next thing that is told, waited for; `None`: there will be nothing more, the other one has ended.
pub(super) fn hear(from: &OwnedFd, flags: RecvFlags) -> io::Result<Option<(Word, Vec<u8>)>> {
    let mut buffer = vec![0; MESSAGE];
    loop {
        let length = match recv(from, &mut buffer[..], flags) {
            Ok((_, 0)) | Err(Errno::CONNRESET) => return Ok(None),
            Ok((_, length)) => length,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let known = Word::ALL.into_iter().find(|word| *word as u8 == buffer[0]);
        if let Some(word) = known {
            return Ok(Some((word, buffer[1..length].to_vec())));
        }
    }
}

/// Tells the supervisor what a key process will reach, and that it may start one.
pub(super) fn tell_reach(control: &OwnedFd, process: &Process, places: &KeyPlaces) -> io::Result<()> {
    if process.sandbox {
        tell(control, Word::Sandboxed, &[])?;
    }
    for path in reach(process, places) {
        tell(control, Word::Reach, path.as_os_str().as_bytes())?;
    }
    tell(control, Word::Begin, &[])
}

/// Everything that the key process reaches, for good. It may be root where the proxy no longer is: then a link that the service user can
/// change does not extend this, only `sandbox-folders` does.
fn reach(process: &Process, places: &KeyPlaces) -> BTreeSet<PathBuf> {
    let user = ServiceUser::from(process);
    let mut below: BTreeSet<Below> = BTreeSet::new();
    let mut add = |path: &Path| match user.untrusted(path) {
        None => folders_of(path, false, &mut below),
        // All of it is the user's to arrange; nothing outside of it.
        Some(Untrusted::Folder(path)) if !NOT_WHOLE.iter().any(|whole| path == Path::new(whole)) => {
            below.insert(Below { path, write: false });
        }
        Some(_) => {}
    };
    places.files.iter().for_each(|file| add(file));
    for folder in &places.folders {
        add(folder);
        // Links in it lead elsewhere.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                add(&entry.path());
            }
        }
    }
    process.sandbox_folders.iter().for_each(|folder| folders_of(folder, false, &mut below));
    below.into_iter().map(|below| below.path).collect()
}

/// A file with keys, for the key process after this one. What cannot be told is missing there, and said then.
pub(super) fn remember_path(control: &OwnedFd, path: &Path) {
    let _ = tell(control, Word::Remember, path.as_os_str().as_bytes());
}

/// … and no longer.
pub(super) fn forget_path(control: &OwnedFd, path: &Path) {
    let _ = tell(control, Word::Forget, path.as_os_str().as_bytes());
}

/// Says what the supervisor tells.
pub(super) async fn say(control: OwnedFd, health: Arc<KeyProcessHealth>) {
    #[expect(deprecated, reason = "unsound only for types that lend a descriptor that closes; this owns it")]
    let Ok(control) = AsyncFd::new(control) else { return };
    let (mut ended, mut is_said): (Option<Instant>, _) = (None, false);
    loop {
        let Ok(mut ready) = control.readable().await else { return };
        match hear(control.get_ref(), RecvFlags::DONTWAIT) {
            Ok(Some((Word::Ended, how))) => {
                health.timed_out();
                health.was_restarted();
                ended = Some(Instant::now());
                tracing::error!(
                    "the key process ended ({}) and is started again: handshakes wait for it, open connections go on",
                    String::from_utf8_lossy(&how)
                );
            }
            Ok(Some((Word::Ready, how))) => {
                health.answered();
                if how == SWAPPED && !std::mem::replace(&mut is_said, true) {
                    tracing::info!(
                        "the key process may not lock its memory, so private keys may be written to swap, if there is any\n  \
                         hint: LimitMEMLOCK=infinity with systemd, `ulimit -l unlimited` elsewhere"
                    );
                }
                if let Some(ended) = ended.take() {
                    tracing::info!("the key process signs again, after {} ms", ended.elapsed().as_millis());
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                health.timed_out();
                tracing::error!(
                    "the key process and its supervisor have ended: no handshake can be signed any more, open connections go on\n  \
                     hint: restart, or `handfast upgrade`, which loses no connection"
                );
                return;
            }
            Err(_) => ready.clear_ready(),
        }
    }
}
