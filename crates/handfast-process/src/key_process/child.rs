//! The two child processes, supervisor and key process: how they are started, and what both do first.
//!
//! In: a role, and the channels. Out: this program once more, with a socket to its parent as standard input.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use handfast_net::descriptors::send_descriptors;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// The hidden command of the program that runs a supervisor or a key process.
const COMMAND: &str = "key-process";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Supervisor,
    KeyProcess,
}

/// Two connected sockets that keep messages apart.
pub(super) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Starts this program in a role; it expects this number of channels next ([`send_channels`]). Returns it with the socket to it.
///
/// It is the program that runs, also when the file on the disk was replaced.
pub(super) fn start(role: Role, channels: usize) -> io::Result<(Child, OwnedFd)> {
    let (link, theirs) = socket_pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("handfast").args([COMMAND, &channels.to_string()]).env_clear();
    if role == Role::Supervisor {
        command.arg("--supervise");
    }
    Ok((command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn()?, link))
}

/// Sends the far ends of all channels to a child process.
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
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    if rustix::net::sockopt::socket_type(&input).is_ok_and(|kind| kind == SocketType::SEQPACKET) {
        return Ok(input);
    }
    Err(io::Error::other(
        "only `handfast proxy` starts this command, where process.private-keys is \"apart\"",
    ))
}
