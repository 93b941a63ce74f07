//! Giving up privileges: from the user that started the process to the service user, for good, before any client is served.
//!
//! **Root and files that the user can replace.** An attacker that took over the service once must not become root by links that were
//! left behind. So root changes the owner of a file only where no other user can replace the file (`trusted_path.rs`), and makes files
//! elsewhere as the user ([`ServiceUser::act_on`]).

use std::ffi::CString;
use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, getgrouplist, getuid, initgroups, setgid, setgroups, setuid};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chownat, fstat, openat};

use crate::error::Error;
use crate::trusted_path::{self, Untrusted};
use handfast_config::accounts::{AccountError, find_group, find_user};
use handfast_config::model::{Address, Process};

/// The user and group of the process while it serves, by name (`process.user`, `process.group`). The default group is that of the user.
#[derive(Clone, Debug, Default)]
pub struct ServiceUser {
    user: Option<String>,
    group: Option<String>,
}

impl From<&Process> for ServiceUser {
    fn from(process: &Process) -> Self {
        Self::new(process.user.as_deref(), process.group.as_deref())
    }
}

impl ServiceUser {
    pub(crate) fn new(user: Option<&str>, group: Option<&str>) -> Self {
        Self { user: user.map(str::to_owned), group: group.map(str::to_owned) }
    }

    /// Changes user and group of every thread of the process.
    ///
    /// `files` are given to the user, because files that root made are rotated and replaced by the user later.
    ///
    /// **Errors**: an unknown name; a missing permission; a file that cannot be given to the user.
    pub fn take_over(&self, files: &[PathBuf]) -> Result<(), Error> {
        let Some((user, group)) = self.find()? else { return Ok(()) };
        let owner = user.as_ref().map(|user| user.uid);
        for file in files {
            hand_over(file, owner, group)
                .map_err(|error| failed(format!("hand {} over to the user", file.display()), error))?;
        }
        // Groups first: after the change of the user the process is not permitted to change them.
        match &user {
            Some(user) => initgroups(&name_of(user)?, group),
            None => setgroups(&[group]),
        }
        .map_err(|error| refused("set the groups", error))?;
        setgid(group).map_err(|error| refused("set the group", error))?;
        if let Some(user) = user {
            setuid(user.uid).map_err(|error| refused("set the user", error))?;
            if getuid() != user.uid || (!user.uid.is_root() && setuid(Uid::from_raw(0)).is_ok()) {
                let what = format!("become {}: the kernel let us keep our privileges", user.name);
                return Err(Error::User(what));
            }
            tracing::info!("now running as user {}", user.name);
        }
        Ok(())
    }

    /// Acts on a file by its name: as root where only root can change where the name leads, elsewhere as the user.
    ///
    /// **Errors**: this process is not permitted to become the user.
    pub fn act_on<T: Send>(&self, path: &Path, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
        if self.can_change(path) { self.act(act) } else { Ok(act()) }
    }

    /// The same for an action that can fail. **Errors**: those of both.
    pub fn try_on<T: Send>(&self, path: &Path, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.act_on(path, act).unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
    }

    /// Returns true if this process is root, will become another user, and that user (or a third one) can change the target
    /// of a path.
    pub fn can_change(&self, path: &Path) -> bool {
        self.untrusted(path).is_some()
    }

    /// The reason why [`Self::can_change`] is true: the folder or file that can be changed.
    pub(crate) fn untrusted(&self, path: &Path) -> Option<Untrusted> {
        let will_change = getuid().is_root() && self.user.is_some();
        will_change.then(|| trusted_path::resolve(path).err()).flatten()
    }

    /// Binds an address; the file of a unix socket is made as in [`Self::act_on`].
    ///
    /// **Errors**: those of `bind`; this process is not permitted to become the user.
    pub fn bind<T: Send>(
        &self,
        address: &Address,
        bind: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        match address {
            Address::Ip(_) => bind(),
            Address::Unix(path) => self.try_on(path, bind),
        }
    }

    /// Acts as the user and the group on a separate thread; the other threads keep theirs. So the kernel itself checks the permissions.
    ///
    /// **Errors**: an unknown name; this process is not permitted to become the user or the group.
    pub fn act<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let Some((user, group)) = self.find()? else { return Ok(act()) };
        let groups = match &user {
            Some(user) => getgrouplist(&name_of(user)?, group)
                .map_err(|error| failed(format!("look up the groups of {}", user.name), error))?,
            None => vec![group],
        };
        let become_user = || {
            let groups: Vec<_> =
                groups.iter().map(|group| rustix::process::Gid::from_raw(group.as_raw())).collect();
            let group = rustix::process::Gid::from_raw(group.as_raw());
            rustix::thread::set_thread_groups(&groups)?;
            rustix::thread::set_thread_res_gid(group, group, group)?;
            let user = user.as_ref().map(|user| rustix::process::Uid::from_raw(user.uid.as_raw()));
            user.map_or(Ok(()), |user| rustix::thread::set_thread_res_uid(user, user, user))
        };
        let outcome = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("as-user".into());
            let spawned = thread.spawn_scoped(scope, || become_user().map(|()| act()));
            spawned.map(std::thread::ScopedJoinHandle::join)
        });
        match outcome {
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(Ok(Err(error))) => Err(refused("become the user and group", error)),
            Ok(Err(_)) => Err(failed("check files as the user", "it panicked")),
            Err(error) => Err(failed("check files as the user", error)),
        }
    }

    /// Looks up user and group, and changes nothing.
    ///
    /// **Errors**: an unknown name.
    pub fn resolve(&self) -> Result<(), Error> {
        Ok(self.find().map(drop)?)
    }

    fn find(&self) -> Result<Option<(Option<User>, Gid)>, AccountError> {
        let user = self.user.as_deref().map(find_user).transpose()?;
        let group = self.group.as_deref().map(find_group).transpose()?;
        let group = group.or(user.as_ref().map(|user| user.gid));
        Ok(group.map(|group| (user, group)))
    }
}

/// Gives a file or socket that root made to the service user. A file that the user can replace is not touched: the user made it,
/// or has replaced it.
///
/// **Errors**: a file with several names (hard links), whose owner would change under all of them; chown(2).
fn hand_over(file: &Path, owner: Option<Uid>, group: Gid) -> io::Result<()> {
    let Ok(real) = trusted_path::resolve(file) else { return Ok(()) };
    let handle = match openat(CWD, &real, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let found = fstat(&handle)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile | FileType::Socket if found.st_uid == 0 => {}
        // A file of this user or another one, or a device: opening it shows whether it can be used.
        _ => return Ok(()),
    }
    if found.st_nlink != 1 {
        let problem = format!(
            "it has {} names (hard links), expected one: all of them would be the user's\n  hint: remove the other names \
             (find -samefile), or give it to the user with chown",
            found.st_nlink
        );
        return Err(io::Error::other(problem));
    }
    let owner = owner.map(|owner| rustix::fs::Uid::from_raw(owner.as_raw()));
    let group = rustix::fs::Gid::from_raw(group.as_raw());
    Ok(chownat(handle.as_fd(), c"", owner, Some(group), AtFlags::EMPTY_PATH)?)
}

fn name_of(user: &User) -> Result<CString, Error> {
    CString::new(user.name.as_str()).map_err(|error| failed("use the name of the user", error))
}

fn failed(act: impl Display, error: impl Display) -> Error {
    Error::User(format!("{act}: {error}"))
}

fn refused(act: &str, error: impl Display) -> Error {
    let hint = "only root may change its user; start as root or remove process.user and group";
    failed(act, format!("{error}\n  hint: {hint}"))
}
