//! Ends of sockets and connections. Linux reports a reset once; the call that takes the report leaves a clean-looking end for the next
//! call, so the first error is kept here as it is in the program.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustls::AlertDescription;

/// The end of a TCP stream as its reader saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEnd {
    /// In order.
    Fin,
    /// Aborted.
    Reset,
    /// Not in time.
    Open,
}

/// The end of a connection, as one side received it.
#[derive(PartialEq, Eq)]
pub struct Ending {
    /// Plaintext that came since the last read.
    pub bytes: Vec<u8>,
    /// True if the other side sent close_notify.
    pub close_notify: bool,
    /// The fatal alert that came instead.
    pub alert: Option<AlertDescription>,
    /// The end of the socket.
    pub socket: SocketEnd,
    /// True if a FIN alone is a truncation.
    pub(crate) needs_close_notify: bool,
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, ", self.bytes.len())?;
        match (self.close_notify, self.needs_close_notify) {
            (true, _) => f.write_str("close_notify, ")?,
            (false, true) => f.write_str("no close_notify, ")?,
            (false, false) => {}
        }
        if let Some(alert) = self.alert {
            write!(f, "alert {alert:?}, ")?;
        }
        f.write_str(match self.socket {
            SocketEnd::Fin => "FIN",
            SocketEnd::Reset => "a reset",
            SocketEnd::Open => "no end",
        })
    }
}

impl Ending {
    /// Everything sent, and closed cleanly.
    pub fn is_clean(&self) -> bool {
        self.socket == SocketEnd::Fin
            && (self.close_notify || !self.needs_close_notify)
            && self.alert.is_none()
    }

    /// Cannot be mistaken for a clean end by a program that looks only at the socket: no close_notify, and a reset.
    pub fn is_abort(&self) -> bool {
        !self.close_notify && self.socket == SocketEnd::Reset
    }

    /// Cannot be mistaken for a clean end by a program that looks for close_notify.
    pub fn is_truncated(&self) -> bool {
        !self.is_clean() && !self.close_notify && self.socket != SocketEnd::Open
    }
}

/// Sorts an error: `None`: the socket has not ended (not ready yet).
///
/// # Panics
/// On errors that no test provokes.
pub fn end_of(error: &io::Error) -> Option<SocketEnd> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock => None,
        // EPIPE and ENOTCONN mean an end whose report another call took: it was an abort, or write would have worked.
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected => {
            Some(SocketEnd::Reset)
        }
        // By the path.
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            Some(SocketEnd::Reset)
        }
        _ => panic!("a socket of the test's own failed unexpectedly: {error}"),
    }
}

/// Closes with a reset.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))
        .expect("an open socket takes the option");
    drop(stream);
}

/// Ends the writing side; a peer that is gone already is no concern here.
pub fn fin(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
}

/// Reads to the end while it keeps writing `chunk`; gives the bytes read and the end.
///
/// A refused write does not end the reading: what is queued may still be read.
pub fn read_to_end_while_writing(stream: &TcpStream, chunk: &[u8], read: &mut Vec<u8>) -> SocketEnd {
    stream.set_nonblocking(true).expect("an open socket takes the option");
    let (mut source, mut sink) = (stream, stream);
    let mut buffer = vec![0; 65_536];
    let mut wrote: Option<SocketEnd> = None;
    crate::deadline::spin_until("the end of a stream that is also written to", || {
        if wrote.is_none()
            && let Err(error) = sink.write(chunk)
        {
            wrote = end_of(&error);
        }
        match source.read(&mut buffer) {
            Ok(0) => Some(wrote.unwrap_or(SocketEnd::Fin)),
            Ok(count) => {
                read.extend_from_slice(&buffer[..count]);
                None
            }
            Err(error) => end_of(&error),
        }
    })
}
