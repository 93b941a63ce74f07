//! The log of the machine as a sink: a syslog daemon, or systemd's journal, at its unix socket. A datagram arrives whole or not at all, so no
//! line is torn. A daemon that restarts has another socket at the same path: this connects again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

const NAME: &str = "handfast-access";
/// Facility `daemon` and severity `info` (RFC 3164 §4.1.1).
const PRIORITY: u32 = 3 * 8 + 6;

/// A connected socket, and what each datagram is framed with.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: UnixDatagram,
    path: PathBuf,
    before: String,
    after: &'static str,
    datagram: Vec<u8>,
}

impl Datagrams {
    /// To a syslog daemon, in the form of RFC 3164 as local daemons take it. The time is left out, as it would have to be local: the
    /// daemon adds its own, and the line has when the connection was accepted.
    ///
    /// **Errors**: no daemon listens there.
    pub(super) fn syslog(path: &Path) -> io::Result<Self> {
        Self::to(path, format!("<{PRIORITY}>{NAME}[{}]: ", std::process::id()), "")
    }

    /// To systemd's journal, in its native form: a field in each line (systemd.journal-fields(7)). A line of the access log is printable
    /// ASCII, so none needs the form for binary values.
    ///
    /// **Errors**: no daemon listens there.
    pub(super) fn journald(path: &Path) -> io::Result<Self> {
        Self::to(path, format!("PRIORITY=6\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER={NAME}\nMESSAGE="), "\n")
    }

    fn to(path: &Path, before: String, after: &'static str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: path.into(), before, after, datagram: Vec::new() })
    }

    /// Sends the first of these lines; how many bytes of them it was.
    ///
    /// **Errors**: `WouldBlock` while the daemon is slower than we are; no daemon listens.
    pub(super) fn send_first(&mut self, lines: &[u8]) -> io::Result<usize> {
        let end = lines.iter().position(|byte| *byte == b'\n').unwrap_or(lines.len());
        self.datagram.clear();
        for part in [self.before.as_bytes(), &lines[..end], self.after.as_bytes()] {
            self.datagram.extend_from_slice(part);
        }
        let taken = lines.len().min(end + 1);
        match self.socket.send(&self.datagram) {
            Ok(_) => Ok(taken),
            Err(error) if is_gone(&error) => {
                self.socket.connect(&self.path)?;
                self.socket.send(&self.datagram).map(|_| taken)
            }
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns true if the syslog daemon that we were connected to is gone.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe
    )
}
