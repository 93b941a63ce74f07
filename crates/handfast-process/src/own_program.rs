//! This program once more, in another role: how it is started, and what both sides have in common.
//!
//! In: the hidden command of a role. Out: a child process, with a socket to it as its standard input.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use tokio::io::unix::AsyncFd;

/// A process that lived for less than this is started again after [`RESTART_DELAY`].
pub(crate) const SHORT_LIFETIME: Duration = Duration::from_secs(1);
/// Bounds the restarts of a process that ends at once.
pub(crate) const RESTART_DELAY: Duration = Duration::from_millis(500);

/// Two connected sockets that keep messages apart.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Starts this program with a command. Returns it with the socket to it, whose end it reads as the end of this process.
///
/// It is the program that runs, also when the file on the disk was replaced.
pub(crate) fn start(words: &[impl AsRef<OsStr>], keeps_environment: bool) -> io::Result<(Child, OwnedFd)> {
    let (link, theirs) = socket_pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("handfast").args(words).stdin(Stdio::from(theirs)).stdout(Stdio::null());
    if !keeps_environment {
        command.env_clear();
    }
    Ok((command.spawn()?, link))
}

/// The socket to the process that started this one. **Errors**: it was started by hand; `why` it is usually started.
pub(crate) fn parent(why: &str) -> io::Result<OwnedFd> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    if sockopt::socket_type(&input).is_ok_and(|kind| kind == SocketType::SEQPACKET) {
        return Ok(input);
    }
    Err(io::Error::other(format!("only `handfast proxy` starts this command, {why}")))
}

/// A descriptor that is waited for in a tokio runtime.
#[expect(deprecated, reason = "unsound only for types that lend a descriptor that closes; this owns it")]
pub(crate) fn waited_for(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}
