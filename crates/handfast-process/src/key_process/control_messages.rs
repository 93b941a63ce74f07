//! The messages between proxy, supervisor and key process beside requests: paths that may be read, and changes of state.
//!
//! In: a message of one byte and its content, a path or a sentence. Out: the same at the other end. All three run the same program.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// The first byte of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlMessage {
    /// A folder or file that the key process may read: to supervisor and key process.
    Reach = b'r' as isize,
    /// The key process enters a sandbox.
    Sandboxed = b's' as isize,
    /// A file with keys, which the next key process reads.
    Remember = b'+' as isize,
    /// A file that the next key process does not read any more.
    Forget = b'-' as isize,
    /// The last of the first messages: the supervisor starts a key process, the key process begins.
    Begin = b'b' as isize,
    /// The key process serves; with [`SWAPPABLE`] or nothing.
    Ready = b'y' as isize,
    /// The key process has ended; with its exit status.
    Ended = b'e' as isize,
}

impl ControlMessage {
    const ALL: [Self; 7] =
        [Self::Reach, Self::Sandboxed, Self::Remember, Self::Forget, Self::Begin, Self::Ready, Self::Ended];
}

/// Content of [`ControlMessage::Ready`]: the memory of the key process may be written to swap.
pub(super) const SWAPPABLE: &[u8] = b"s";

/// Longer than any path.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// Sends a message.
///
/// **Errors**: the other process has ended, or does not read in time.
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
