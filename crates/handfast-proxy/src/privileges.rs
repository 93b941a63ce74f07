//! Giving up privileges: from whoever bound the sockets to the user that serves.
//!
//! In: user and group by name. Out: a process that is them and nobody else. Called when everything that needs
//! privileges is open and before any client is served.

use std::ffi::CString;
use std::path::PathBuf;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist, getuid, initgroups, setgid, setgroups, setuid};

use crate::error::Error;

/// Becomes `user` and `group` (the user's own by default), for every thread of the process.
///
/// `files` are handed over: what was made or opened by root is rotated and replaced later by the user.
///
/// **Errors**: an unknown name, or not being allowed to.
pub(crate) fn drop_to(user: Option<&str>, group: Option<&str>, files: &[PathBuf]) -> Result<(), Error> {
    let user = user.map(find_user).transpose()?;
    let group = match (group, &user) {
        (Some(name), _) => Some(find_group(name)?),
        (None, Some(user)) => Some(user.gid),
        (None, None) => None,
    };
    let Some(group) = group else { return Ok(()) };
    let owner = user.as_ref().map(|user| user.uid.as_raw());
    for file in files.iter().filter(|file| file.exists()) {
        std::os::unix::fs::chown(file, owner, Some(group.as_raw()))
            .map_err(|source| Error::HandOver { file: file.clone(), source })?;
    }
    // Groups first: without the user's privileges they cannot be given up any more.
    match &user {
        Some(user) => {
            let name = CString::new(user.name.as_str()).map_err(Error::NameWithNul)?;
            initgroups(&name, group).map_err(|error| refused("set the groups", error))?;
        }
        None => setgroups(&[group]).map_err(|error| refused("set the groups", error))?,
    }
    setgid(group).map_err(|error| refused("set the group", error))?;
    if let Some(user) = user {
        setuid(user.uid).map_err(|error| refused("set the user", error))?;
        if getuid() != user.uid || (user.uid != Uid::from_raw(0) && setuid(Uid::from_raw(0)).is_ok()) {
            return Err(Error::KeptPrivileges { user: user.name });
        }
        tracing::info!("now running as user {}", user.name);
    }
    Ok(())
}

/// Does something as `user` and `group` would (the user's own by default), and stays who it is: on a thread of its own,
/// which alone becomes them, so that the kernel itself says what they may do.
///
/// **Errors**: an unknown name, or not being allowed to become them.
pub(crate) fn as_user<T: Send>(
    user: Option<&str>,
    group: Option<&str>,
    act: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    let user = user.map(find_user).transpose()?;
    let group = match (group, &user) {
        (Some(name), _) => Some(find_group(name)?),
        (None, user) => user.as_ref().map(|user| user.gid),
    };
    let Some(group) = group else { return Ok(act()) };
    let groups = match &user {
        Some(user) => {
            let name = CString::new(user.name.as_str()).map_err(Error::NameWithNul)?;
            getgrouplist(&name, group)
                .map_err(|source| Error::GroupsOf { user: user.name.clone(), source })?
        }
        None => vec![group],
    };
    let become_them = || {
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
        let spawned = thread.spawn_scoped(scope, || become_them().map(|()| act()));
        spawned.map(std::thread::ScopedJoinHandle::join)
    });
    match outcome {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => Err(refused("become the user and group", error)),
        Ok(Err(_)) => Err(Error::AsUser(None)),
        Err(error) => Err(Error::AsUser(Some(error))),
    }
}

fn refused(act: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Become { act, source: Box::new(error) }
}

/// Whether the user and group can be found, without becoming them.
///
/// **Errors**: an unknown name.
pub(crate) fn look_up(user: Option<&str>, group: Option<&str>) -> Result<(), Error> {
    user.map(find_user).transpose()?;
    group.map(find_group).transpose()?;
    Ok(())
}

fn find_user(name: &str) -> Result<User, Error> {
    const KEY: &str = "process.user";
    User::from_name(name)
        .map_err(|source| Error::LookUp { key: KEY, name: name.into(), source })?
        .ok_or_else(|| Error::Unknown { key: KEY, what: "user", name: name.into() })
}

fn find_group(name: &str) -> Result<Gid, Error> {
    const KEY: &str = "process.group";
    let group =
        Group::from_name(name).map_err(|source| Error::LookUp { key: KEY, name: name.into(), source })?;
    group.map(|group| group.gid).ok_or_else(|| Error::Unknown { key: KEY, what: "group", name: name.into() })
}
