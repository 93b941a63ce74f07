//! Sends a request to the process that listens on an admin address: one request, one answer, one deadline for both.
//!
//! In: an address and a request. Out: the answer as it came. It waits on this thread; nothing that the other side does makes it wait
//! longer than that.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use handfast_config::model::Address;

/// Sends a request and reads the answer until it ends, until it is `enough`, or until so many bytes are there.
///
/// **Errors**: no process listens there, or the answer is not complete after `timeout`, including the connect.
pub fn ask(
    address: &Address,
    request: &str,
    timeout: Duration,
    most: usize,
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let until = Instant::now() + timeout;
    match address {
        Address::Ip(address) => {
            let stream = TcpStream::connect_timeout(address, timeout)?;
            let limit = |left| {
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            };
            exchange(&stream, limit, until, request, most, enough)
        }
        Address::Unix(path) => {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            // It is this limit that connect(2) of a unix socket keeps, when the queue is full.
            set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
            connect(&socket, &SocketAddrUnix::new(path)?)?;
            let stream = UnixStream::from(socket);
            let limit = |left| {
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            };
            exchange(&stream, limit, until, request, most, enough)
        }
    }
}

fn exchange(
    mut stream: impl Read + Write,
    limit: impl Fn(Duration) -> io::Result<()>,
    until: Instant,
    request: &str,
    most: usize,
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    // Each step has the time that is left: a peer that answers byte by byte gets no more.
    let step = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no whole answer in time"));
        }
        limit(left)
    };
    step()?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = vec![0; 64 << 10];
    while answer.len() < most && !enough(&answer) {
        step()?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(300);

    /// Whether asking ended with an error, in a time that is far below that of a test that hangs.
    fn ends(address: &Address) -> bool {
        ask(address, "GET /", PATIENCE, 1 << 20, |_| false).is_err()
    }

    #[test]
    fn who_answers_byte_by_byte_has_no_more_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = Address::Ip(listener.local_addr().expect("it is bound"));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("it asks");
                let mut sent = 0_u32;
                while stream.write_all(b"x").is_ok() && sent < 1_000 {
                    sent += 1;
                    std::thread::park_timeout(Duration::from_millis(20));
                }
                sent
            });
            assert!(ends(&address));
            assert!(other.join().expect("it does not panic") < 1_000, "it was hung up on");
        });
    }

    #[test]
    fn a_unix_socket_whose_queue_is_full_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        // SOMAXCONN may be thousands: a queue of one.
        rustix::net::listen(&listener, 0).expect("it listens");
        let address = Address::Unix(path.clone());
        let waiting: Vec<UnixStream> = (0..1).map(|_| UnixStream::connect(&path).expect("room")).collect();
        assert!(ends(&address), "the queue is full");
        drop((waiting, listener));
        assert!(ends(&address), "no process listens");
    }
}
