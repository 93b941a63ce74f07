//! What a key process receives before it begins: the files that it may read, and those that it reads first.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use handfast_config::model::Process;
use handfast_net::sys::sandbox::Below;
use handfast_tls::source::SourceNeeds;
use rustix::net::RecvFlags;

use super::control_messages::{ControlMessage, receive_message, send_message};
use crate::privileges::ServiceUser;
use crate::sandbox::{NOT_WHOLE, folders_of};
use crate::trusted_path::Untrusted;

/// What the proxy sends to the supervisor, and the supervisor to each key process.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) is_sandboxed: bool,
    pub(super) reach: BTreeSet<PathBuf>,
    /// Files with keys that the previous key process had read.
    pub(super) files: BTreeSet<PathBuf>,
}

impl Setup {
    pub(super) fn new(process: &Process, needs: &SourceNeeds) -> Self {
        Self { is_sandboxed: process.sandbox, reach: reach(process, needs), files: BTreeSet::new() }
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
