//! How a socket ended. Linux reports a reset once; the call that takes the report leaves a clean-looking end for the next
//! call, so the first error is kept here as it is in the program.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// The end of a TCP stream as its reader saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketEnd {
    /// In order.
    Fin,
    /// Aborted.
    Reset,
}

/// Sorts an error: `None` when it says nothing about the end (not ready yet).
///
/// # Panics
/// On errors that no test here provokes; `ETIMEDOUT` included, since nothing may take that long.
pub(crate) fn end_of(error: &io::Error) -> Option<SocketEnd> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock => None,
        // EPIPE and ENOTCONN mean an end whose report another call took: it was an abort, or write would have worked.
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected => {
            Some(SocketEnd::Reset)
        }
        _ => panic!("a socket of the test's own failed unexpectedly: {error}"),
    }
}

/// Closes with a reset.
pub(crate) fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))
        .expect("an open socket takes the option");
    drop(stream);
}

/// Ends the writing side; a peer that is gone already is no concern here.
pub(crate) fn fin(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
}

/// Reads to the end while it keeps writing `chunk`; gives the bytes read and the end.
///
/// A refused write does not end the reading: what is queued may still be read.
pub(crate) fn read_to_end_while_writing(stream: &TcpStream, chunk: &[u8], read: &mut Vec<u8>) -> SocketEnd {
    stream.set_nonblocking(true).expect("an open socket takes the option");
    let (mut source, mut sink) = (stream, stream);
    let mut buffer = vec![0; 65_536];
    let mut wrote: Option<SocketEnd> = None;
    super::deadline::spin_until("the end of a stream that is also written to", || {
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
