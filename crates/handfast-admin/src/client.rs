//! Sends a request to the process that listens on an admin address: one request and its answer, and one deadline for both.
//!
//! That process can be another Handfast: a restart without a gap starts the new process beside the old one, which has the address until it
//! stops.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use handfast_config::model::Address;

use crate::authorization;

/// Of another Handfast: for connect, request and answer together.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of its answer that are read.
const MAX_ANSWER_BYTES: usize = 4096;

/// A request without content.
#[derive(Clone, Copy)]
pub struct AdminRequest<'r> {
    /// `GET` or `POST`.
    pub method: &'r str,
    /// Path and query.
    pub target: &'r str,
    /// The token of `admin.token-file`. It is proved, never sent: another program may have the address of a proxy that stopped.
    pub token: Option<&'r str>,
}

/// Sends a request and reads the answer until it ends, until it is `enough`, or until `max_bytes` are there. Where the answer demands
/// the token, sends the request again with a proof of it.
///
/// **Errors**: no process listens there, or the answer is not complete after `timeout`, including the connect.
pub fn send_request(
    address: &Address,
    request: AdminRequest<'_>,
    timeout: Duration,
    max_bytes: usize,
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<String> {
    let AdminRequest { method, target, token } = request;
    let until = Instant::now() + timeout;
    let send = |authorization: &str| {
        // Not the name that was typed: a proxy answers to addresses, localhost and its configured names (`admin.hosts`), so that no web
        // page reads it under a name of that page.
        let host = match address {
            Address::Ip(address) => address.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        };
        let text = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{authorization}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let left = until.saturating_duration_since(Instant::now());
        let answer = send_text(address, &text, left, max_bytes, &enough)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = send("")?;
    let Some(token) = token.filter(|_| answer.starts_with("HTTP/1.1 401 ")) else { return Ok(answer) };
    for challenge in fields(&answer, "www-authenticate") {
        let proof = authorization::answer(challenge, token, method, target).map_err(io::Error::other)?;
        if let Some(proof) = proof {
            return send(&format!("Authorization: {proof}\r\n"));
        }
    }
    Ok(answer)
}

fn send_text(
    address: &Address,
    request: &str,
    timeout: Duration,
    most: usize,
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let until = Instant::now() + timeout;
    match address {
        Address::Ip(address) => {
            exchange(&TcpStream::connect_timeout(address, timeout)?, until, request, most, enough)
        }
        Address::Unix(path) => {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            // It is this limit that connect(2) of a unix socket keeps, when the queue is full.
            set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
            connect(&socket, &SocketAddrUnix::new(path)?)?;
            exchange(&UnixStream::from(socket), until, request, most, enough)
        }
    }
}

fn exchange<S: AsFd>(
    mut stream: &S,
    until: Instant,
    request: &str,
    most: usize,
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>>
where
    for<'s> &'s S: Read + Write,
{
    let socket = stream;
    // Each step has the time that is left: a peer that answers byte by byte gets no more.
    let step = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no whole answer in time"));
        }
        set_socket_timeout(socket, Timeout::Recv, Some(left))?;
        set_socket_timeout(socket, Timeout::Send, Some(left)).map_err(io::Error::from)
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

/// Another Handfast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The number of its process.
    pub process: u32,
}

/// The `Server` field of each answer: product, version, process (RFC 9110 §10.2.4).
pub(super) fn server_field() -> String {
    format!("handfast/{} (process {})", env!("CARGO_PKG_VERSION"), std::process::id())
}

/// The Handfast that answers at `address`, of whatever version; `None` when no process does, or another program.
///
/// **Cost**: waits for at most two seconds; not for the threads that serve.
pub fn neighbour(address: &Address) -> Option<Neighbour> {
    let answer = head(address, AdminRequest { method: "GET", target: "/live", token: None }).ok()?;
    let (product, rest) = fields(&answer, "server").next()?.split_once(" (process ")?;
    let process = rest.strip_suffix(')')?.parse().ok()?;
    product.starts_with("handfast/").then_some(Neighbour { process })
}

/// Requests the address from the process that listens on it, for a process with this number of threads. Returns whether it gave the
/// address up, which it does once it is stopping. `token`: that of both processes, where they have one.
///
/// **Errors**: no process answers there.
pub fn request_address(address: &Address, threads: usize, token: Option<&str>) -> io::Result<bool> {
    let target = format!("/hand-over?threads={threads}");
    head(address, AdminRequest { method: "POST", target: &target, token })
        .map(|answer| answer.starts_with("HTTP/1.1 202 "))
}

/// Returns the values of all fields of this name.
fn fields<'a>(answer: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = answer.lines().take_while(|line| !line.is_empty());
    let fields = lines.filter_map(|line| line.split_once(':'));
    fields.filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Sends a request and reads the head of the answer: its body might never end.
fn head(address: &Address, request: AdminRequest<'_>) -> io::Result<String> {
    let whole = |answer: &[u8]| answer.windows(4).any(|end| end == b"\r\n\r\n");
    send_request(address, request, TIMEOUT, MAX_ANSWER_BYTES, whole)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    const REQUEST: AdminRequest<'_> = AdminRequest { method: "GET", target: "/", token: None };
    const CLIENT_TIMEOUT: Duration = Duration::from_millis(300);

    /// Returns true if the request ended with an error, in a time that is far below that of a test that hangs.
    fn ends(address: &Address) -> bool {
        send_request(address, REQUEST, CLIENT_TIMEOUT, 1 << 20, |_| false).is_err()
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
