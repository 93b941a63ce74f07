//! Giving up privileges: from whoever bound the sockets to the user that serves.
//!
//! In: user and group by name. Out: a process that is them and nobody else. Called when everything that needs
//! privileges is open and before any client is served.

use std::path::PathBuf;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist, getuid, initgroups, setgid, setgroups, setuid};

/// Becomes `user` and `group` (the user's own by default), for every thread of the process.
///
/// `files` are handed over: what was made or opened by root is rotated and replaced later by the user.
///
/// **Errors**: an unknown name, or not being allowed to; in words, with the cure.
pub(crate) fn drop_to(user: Option<&str>, group: Option<&str>, files: &[PathBuf]) -> Result<(), String> {
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
            .map_err(|error| format!("hand {} over to the user: {error}", file.display()))?;
    }
    // Groups first: without the user's privileges they cannot be given up any more.
    match &user {
        Some(user) => {
            let name = std::ffi::CString::new(user.name.as_str()).map_err(|error| error.to_string())?;
            initgroups(&name, group).map_err(|error| refused("set the groups", &error))?;
        }
        None => setgroups(&[group]).map_err(|error| refused("set the groups", &error))?,
    }
    setgid(group).map_err(|error| refused("set the group", &error))?;
    if let Some(user) = user {
        setuid(user.uid).map_err(|error| refused("set the user", &error))?;
        if getuid() != user.uid || (user.uid != Uid::from_raw(0) && setuid(Uid::from_raw(0)).is_ok()) {
            return Err(format!("become {}: the kernel let us keep our privileges", user.name));
        }
        tracing::info!("now running as user {}", user.name);
    }
    Ok(())
}

/// Does something as `user` and `group` would (the user's own by default), and stays who it is: on a thread of its own,
/// which alone becomes them, so that the kernel itself says what they may do.
///
/// **Errors**: an unknown name, or not being allowed to become them; in words, with the cure.
pub(crate) fn as_user<T: Send>(
    user: Option<&str>,
    group: Option<&str>,
    act: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    let user = user.map(find_user).transpose()?;
    let group = match (group, &user) {
        (Some(name), _) => Some(find_group(name)?),
        (None, user) => user.as_ref().map(|user| user.gid),
    };
    let Some(group) = group else { return Ok(act()) };
    let groups = match &user {
        Some(user) => {
            let name = std::ffi::CString::new(user.name.as_str()).map_err(|error| error.to_string())?;
            getgrouplist(&name, group)
                .map_err(|error| format!("look up the groups of {}: {error}", user.name))?
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
        Ok(Ok(Err(error))) => Err(refused("become the user and group", &error)),
        Ok(Err(_)) => Err("look at files as the user: it panicked".into()),
        Err(error) => Err(format!("look at files as the user: {error}")),
    }
}

fn refused(act: &str, error: &dyn std::fmt::Display) -> String {
    format!(
        "{act}: {error}\n  hint: only root may change its user; start as root or remove process.user and group"
    )
}

/// Whether the user and group can be found, without becoming them.
///
/// **Errors**: an unknown name.
pub(crate) fn look_up(user: Option<&str>, group: Option<&str>) -> Result<(), String> {
    user.map(find_user).transpose()?;
    group.map(find_group).transpose()?;
    Ok(())
}

fn find_user(name: &str) -> Result<User, String> {
    User::from_name(name)
        .map_err(|error| format!("look up process.user {name}: {error}"))?
        .ok_or_else(|| format!("process.user: there is no user {name} on this machine"))
}

fn find_group(name: &str) -> Result<Gid, String> {
    let group = Group::from_name(name).map_err(|error| format!("look up process.group {name}: {error}"))?;
    group
        .map(|group| group.gid)
        .ok_or_else(|| format!("process.group: there is no group {name} on this machine"))
}
