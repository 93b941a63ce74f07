//! The files that a key process may read, decided before the first one is started.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use handfast_config::model::Process;
use handfast_net::sys::sandbox::Below;

use super::control_messages::{ControlMessage, send_message};
use crate::privileges::ServiceUser;
use crate::sandbox::{NOT_WHOLE, folders_of};
use crate::trusted_path::Untrusted;

/// The places of certificates and keys in a configuration, and those that reloads may name.
#[derive(Clone, Debug, Default)]
pub struct KeyPlaces {
    /// Files with certificates or keys, also those for backends.
    pub files: Vec<PathBuf>,
    /// Folders of such files.
    pub folders: Vec<PathBuf>,
}

/// Sends the supervisor what a key process may read, and lets it start one.
pub(super) fn send_reach(control: &OwnedFd, process: &Process, places: &KeyPlaces) -> io::Result<()> {
    if process.sandbox {
        send_message(control, ControlMessage::Sandboxed, &[])?;
    }
    for path in reach(process, places) {
        send_message(control, ControlMessage::Reach, path.as_os_str().as_bytes())?;
    }
    send_message(control, ControlMessage::Begin, &[])
}

/// Everything that a key process may ever read. It can be root where the proxy no longer is: then a link that the service user can
/// change does not extend this, only `sandbox-folders` does.
fn reach(process: &Process, places: &KeyPlaces) -> BTreeSet<PathBuf> {
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
    places.files.iter().for_each(|file| add(file));
    for folder in &places.folders {
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
