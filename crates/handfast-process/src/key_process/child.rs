//! The two child processes, supervisor and key process: how they are started, what both do first, and the messages beside requests.
//!
//! In: a role, the channels, the files that may be read. Out: this program once more, with a socket to its parent as standard input. A
//! message is one byte and its content, a path or a sentence.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Child;

use handfast_config::model::Process;
use handfast_net::descriptors::send_descriptors;
use handfast_net::sys::sandbox::Below;
use handfast_pki::source::SourceNeeds;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::own_program;
use crate::privileges::ServiceUser;
use crate::sandbox::{NOT_WHOLE, folders_of, real};
use crate::trusted_path::Untrusted;

/// The hidden command of the program that runs a supervisor or a key process.
const COMMAND: &str = "key-process";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Supervisor,
    KeyProcess,
}

/// Starts this program in a role, with the path of the configuration's file; it expects this number of channels next ([`send_channels`]). Returns it with the socket to it.
pub(super) fn start(
    role: Role,
    channels: usize,
    configuration: Option<&Path>,
) -> io::Result<(Child, OwnedFd)> {
    let mut words: Vec<OsString> = vec![COMMAND.into(), channels.to_string().into()];
    words.extend((role == Role::Supervisor).then(|| "--supervise".into()));
    if let Some(file) = configuration {
        words.extend(["--configuration".into(), std::path::absolute(file)?.into()]);
    }
    own_program::start(&words, false)
}

pub(super) fn send_channels(link: &OwnedFd, channels: &[OwnedFd]) -> io::Result<()> {
    let descriptors: Vec<_> = channels.iter().map(AsFd::as_fd).collect();
    send_descriptors(link, &descriptors)
}

/// Prepares a child process: only its parent ends it, and no other process can read its memory. Returns the socket to the parent.
///
/// **Errors**: it was started by hand; prctl(2).
pub(super) fn begin(name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    rustix::thread::set_name(name)?;
    // The proxy handles a stop, and signs until it ends. A terminal sends the signal to all three processes.
    handfast_net::sys::ignore_signals()?;
    // Works only where the kernel lets the parent send it; the end of standard input works always.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    handfast_net::sys::sandbox::give_up_privileges()?;
    own_program::parent("where process.private-keys is \"separate-process\"")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlMessage {
    /// A folder or file that the key process may read: to supervisor and key process.
    Reach = b'r' as isize,
    Sandboxed = b's' as isize,
    /// A file with keys, which the next key process reads.
    Remember = b'+' as isize,
    /// A file that the next key process does not read any more.
    Forget = b'-' as isize,
    /// The folder in which the key process makes keys.
    Keys = b'k' as isize,
    /// The last of the first messages: the supervisor starts a key process, the key process begins.
    Begin = b'b' as isize,
    /// The key process serves; with [`SWAPPABLE`] or nothing.
    Ready = b'y' as isize,
    /// The key process has ended; with its exit status.
    Ended = b'e' as isize,
}

impl ControlMessage {
    const ALL: [Self; 8] = [
        Self::Reach,
        Self::Sandboxed,
        Self::Remember,
        Self::Forget,
        Self::Keys,
        Self::Begin,
        Self::Ready,
        Self::Ended,
    ];
}

/// Content of [`ControlMessage::Ready`]: the memory of the key process may be written to swap.
pub(super) const SWAPPABLE: &[u8] = b"s";

/// Longer than any path.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// Sends a message. **Errors**: the other process has ended, or does not read in time.
pub(super) fn send_message(to: &OwnedFd, message: ControlMessage, content: &[u8]) -> io::Result<()> {
    let mut bytes = vec![message as u8];
    bytes.extend_from_slice(content);
    send(to, &bytes, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the next message and its content; `None`: the other process has ended.
pub(super) fn receive_message(
    from: &OwnedFd,
    flags: RecvFlags,
) -> io::Result<Option<(ControlMessage, Vec<u8>)>> {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    loop {
        let length = match recv(from, &mut buffer[..], flags) {
            Ok((_, 0)) | Err(Errno::CONNRESET) => return Ok(None),
            Ok((_, length)) => length,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let known = ControlMessage::ALL.into_iter().find(|message| *message as u8 == buffer[0]);
        if let Some(message) = known {
            return Ok(Some((message, buffer[1..length].to_vec())));
        }
    }
}

/// Settings that the proxy sends to the supervisor, and the supervisor to each key process.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) is_sandboxed: bool,
    pub(super) reach: BTreeSet<PathBuf>,
    /// The folder in which keys are made, without links.
    pub(super) keys: Option<PathBuf>,
    /// Files with keys that the previous key process had read.
    pub(super) files: BTreeSet<PathBuf>,
}

impl Setup {
    pub(super) fn new(process: &Process, needs: &SourceNeeds) -> Self {
        let keys = needs.key_folder.as_ref().map(|folder| real(folder));
        Self { is_sandboxed: process.sandbox, reach: reach(process, needs), keys, files: BTreeSet::new() }
    }

    /// Receives everything up to [`ControlMessage::Begin`]; `None`: the other process has ended.
    pub(super) fn receive(link: &OwnedFd) -> io::Result<Option<Self>> {
        let mut setup = Self::default();
        loop {
            match receive_message(link, RecvFlags::empty())? {
                None => return Ok(None),
                Some((ControlMessage::Begin, _)) => return Ok(Some(setup)),
                Some((ControlMessage::Sandboxed, _)) => setup.is_sandboxed = true,
                Some((ControlMessage::Reach, path)) => drop(setup.reach.insert(path_of(path))),
                Some((ControlMessage::Keys, path)) => setup.keys = Some(path_of(path)),
                Some((message, content)) => setup.update(message, content),
            }
        }
    }

    /// Sends it, with [`ControlMessage::Begin`] at its end.
    pub(super) fn send(&self, link: &OwnedFd) -> io::Result<()> {
        let send_paths = |message, paths: &BTreeSet<PathBuf>| {
            paths.iter().try_for_each(|path| send_message(link, message, path.as_os_str().as_bytes()))
        };
        if self.is_sandboxed {
            send_message(link, ControlMessage::Sandboxed, &[])?;
        }
        send_paths(ControlMessage::Reach, &self.reach)?;
        if let Some(keys) = &self.keys {
            send_message(link, ControlMessage::Keys, keys.as_os_str().as_bytes())?;
        }
        send_paths(ControlMessage::Remember, &self.files)?;
        send_message(link, ControlMessage::Begin, &[])
    }

    /// Applies a message that the proxy may send at any time. The reach is fixed before the first key process starts: the proxy has given
    /// up its rights since, and these processes may have kept them.
    pub(super) fn update(&mut self, message: ControlMessage, content: Vec<u8>) {
        match message {
            ControlMessage::Remember => drop(self.files.insert(path_of(content))),
            ControlMessage::Forget => drop(self.files.remove(&path_of(content))),
            _ => {}
        }
    }
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// Everything that a key process may ever read. It can be root where the proxy no longer is: then a link that the service user can
/// change does not extend this, only `sandbox-folders` does.
fn reach(process: &Process, needs: &SourceNeeds) -> BTreeSet<PathBuf> {
    let user = ServiceUser::from(process);
    let mut below: BTreeSet<Below> = BTreeSet::new();
    let mut add = |path: &Path| match user.untrusted(path) {
        None => folders_of(path, false, &mut below),
        // The user decides what is in this folder, and nothing outside of it.
        Some(Untrusted::Folder(path)) if !NOT_WHOLE.iter().any(|whole| path == Path::new(whole)) => {
            below.insert(Below { path, write: false });
        }
        Some(_) => {}
    };
    needs.files.iter().for_each(|file| add(file));
    for folder in &needs.folders {
        add(folder);
        // Links in it lead to other folders.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                add(&entry.path());
            }
        }
    }
    process.sandbox_folders.iter().for_each(|folder| folders_of(folder, false, &mut below));
    below.into_iter().map(|below| below.path).collect()
}
