//! Channels to the key process: a request, and its answer or the reason why there is none.
//!
//! A thread takes a channel at its first request, returns it when it ends, and has one request at a time. Each request has an id, so that a
//! late answer is not taken for the answer to the next one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

/// Content of one message of an answer; the answer about a file may take several.
const MAX_PIECE_BYTES: usize = 16 << 10;
/// In front of each piece: the id of the request, whether it is the last piece, whether the request succeeded.
const PIECE_HEAD_BYTES: usize = 10;
/// Content of a request: what a client signs in TLS 1.2 is its whole handshake.
pub(super) const MAX_REQUEST_BYTES: usize = 160 << 10;
/// Sent to all waiters when the key process ends; in a request: no answer is expected.
const BROADCAST_ID: u64 = 0;
/// A worker's timeout for a signature; then it takes the key process for unresponsive. RSA-4096 takes 4 ms; the rest is for a machine whose
/// processors are all busy.
pub(super) const WORKER_TIMEOUT: Duration = Duration::from_millis(200);
/// The timeout of all other threads: a new key process may take this long until it serves.
pub(super) const OTHER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Signs: key, scheme, message.
    Sign,
    /// Reads a file: its path.
    Inspect,
    /// Looks up the stamp of a file, without reading it: its path.
    Stamp,
    /// Drops keys; not answered.
    Forget,
    /// Answers with nothing: the heartbeat.
    Ping,
    /// Passes a request to the store of keys that are made there.
    Keep,
    /// Reads the configuration's file; the request names nothing.
    Configuration,
}

impl Request {
    const ALL: [Self; 7] =
        [Self::Sign, Self::Inspect, Self::Stamp, Self::Forget, Self::Ping, Self::Keep, Self::Configuration];

    fn code(self) -> u8 {
        Self::ALL.iter().position(|known| *known == self).unwrap_or_default() as u8
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    Ended,
    Late(Duration),
    /// The supervisor has ended, and so has the key process.
    Gone,
    NoChannel,
    /// The request is longer than any that TLS has, in bytes.
    TooLong(usize),
    Refused(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the key process ended, and is started again"),
            Self::Late(timeout) => write!(f, "the key process did not answer within {timeout:?}"),
            Self::Gone => f.write_str(
                "the key process ended, and so did the process that restarts it: restart, or handfast upgrade",
            ),
            Self::NoChannel => f.write_str("the request was not sent to the key process: too many threads sign"),
            Self::TooLong(length) => {
                write!(f, "the request was not sent to the key process: {length} bytes are to be signed")
            }
            Self::Refused(why) => write!(f, "the key process refused: {why}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pong {
    Answered,
    /// The key process ended first.
    Lost,
}

#[derive(Clone, Copy)]
struct PieceHead {
    id: u64,
    is_last: bool,
    is_success: bool,
}

/// The proxy's end of a channel.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    id: u64,
    buffer: Vec<u8>,
    /// The timeout that the socket has; at first none.
    receive_timeout: Option<Duration>,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, id: BROADCAST_ID, buffer: Vec::new(), receive_timeout: None }
    }

    /// Sends a request and waits for the answer; for twice `timeout` at most, when something else arrives first.
    ///
    /// **Cost**: three system calls, and the other process's two and its wake-up. Both sides wait in recv(2) itself: so the kernel
    /// knows that the side that wakes the other one is about to sleep, and lets the other one run in its place.
    pub(super) fn request(
        &mut self,
        request: Request,
        parts: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<u8>, RequestError> {
        let deadline = Instant::now() + timeout;
        self.set_timeout(timeout)?;
        // Answers to requests whose timeout has passed.
        while self.receive(RecvFlags::DONTWAIT)?.is_some() {}
        self.send(request, parts, timeout)?;
        let mut answer = Vec::new();
        loop {
            match self.receive(RecvFlags::empty())? {
                Some(PieceHead { id: BROADCAST_ID, .. }) => return Err(RequestError::Ended),
                Some(head) if head.id == self.id => {
                    answer.extend_from_slice(&self.buffer[PIECE_HEAD_BYTES..]);
                    match (head.is_last, head.is_success) {
                        (false, _) => {}
                        (true, true) => return Ok(answer),
                        (true, false) => {
                            let why = String::from_utf8_lossy(&answer).into_owned();
                            return Err(RequestError::Refused(why));
                        }
                    }
                }
                _ => {}
            }
            if Instant::now() >= deadline {
                return Err(RequestError::Late(timeout));
            }
        }
    }

    fn send(&mut self, request: Request, parts: &[&[u8]], timeout: Duration) -> Result<(), RequestError> {
        self.id += 1;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > MAX_REQUEST_BYTES {
            return Err(RequestError::TooLong(length));
        }
        let message = message(self.id, &[request.code()], parts);
        match send(&self.socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => Ok(()),
            // The queue is full of requests whose timeout has passed.
            Err(Errno::AGAIN) => Err(RequestError::Late(timeout)),
            Err(_) => Err(RequestError::Gone),
        }
    }

    /// Sends a ping, and does not wait for the answer. Returns whether the queue had room for it.
    pub(super) fn ping(&mut self) -> Result<bool, RequestError> {
        match self.send(Request::Ping, &[], Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(RequestError::Late(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Receives everything that has arrived, and returns the outcome of the last ping, if it is known.
    pub(super) fn pong(&mut self) -> Result<Option<Pong>, RequestError> {
        let mut pong = None;
        while let Some(head) = self.receive(RecvFlags::DONTWAIT)? {
            match head.id {
                BROADCAST_ID => pong = pong.or(Some(Pong::Lost)),
                id if id == self.id => pong = Some(Pong::Answered),
                _ => {}
            }
        }
        Ok(pong)
    }

    /// Sends a request that has no answer; it is lost when there is no key process.
    pub(super) fn send_unanswered(&mut self, request: Request, content: &[u8]) {
        for piece in content.chunks(MAX_PIECE_BYTES) {
            let message = message(BROADCAST_ID, &[request.code()], &[piece]);
            let _ = send(&self.socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Sets the timeout of the socket: hardly ever a system call, because a thread's timeout is nearly always the same.
    fn set_timeout(&mut self, timeout: Duration) -> Result<(), RequestError> {
        // The kernel takes zero for no timeout.
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        if self.receive_timeout != timeout {
            sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, timeout)
                .map_err(|_| RequestError::Gone)?;
            self.receive_timeout = timeout;
        }
        Ok(())
    }

    /// Receives the next piece into the buffer; `None`: none arrived.
    fn receive(&mut self, flags: RecvFlags) -> Result<Option<PieceHead>, RequestError> {
        self.buffer.resize(PIECE_HEAD_BYTES + MAX_PIECE_BYTES, 0);
        let length = match recv(&self.socket, &mut self.buffer[..], flags) {
            Ok((_, length)) if length >= PIECE_HEAD_BYTES => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            _ => return Err(RequestError::Gone),
        };
        self.buffer.truncate(length);
        let Some((id, [is_last, is_success, ..])) = self.buffer.split_first_chunk() else {
            return Err(RequestError::Gone);
        };
        let id = u64::from_le_bytes(*id);
        Ok(Some(PieceHead { id, is_last: *is_last != 0, is_success: *is_success != 0 }))
    }
}

/// A message: the id of its request, the rest of its head, its content.
fn message(id: u64, head: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut message = Vec::with_capacity(size_of::<u64>() + head.len() + length);
    message.extend(id.to_le_bytes());
    message.extend_from_slice(head);
    parts.iter().for_each(|part| message.extend_from_slice(part));
    message
}

/// Never contended on the way of a connection.
#[expect(clippy::disallowed_types, reason = "taken once by each thread, and where files are read")]
pub(super) type Mutex<T> = std::sync::Mutex<T>;

thread_local! {
    /// The channel of this thread. A thread-local, because rustls calls the signing key without any context, and because a thread waits
    /// for one answer at a time: so it needs one channel, and no lock for it.
    static LEASE: RefCell<Option<Lease>> = const { RefCell::new(None) };
    /// The timeout of this thread's requests. A thread-local for the same reason: the caller is rustls.
    static TIMEOUT: Cell<Duration> = const { Cell::new(OTHER_TIMEOUT) };
}

/// Sets the short timeout of a thread that carries connections, for all its requests.
pub fn this_thread_carries_connections() {
    TIMEOUT.set(WORKER_TIMEOUT);
}

pub(super) fn timeout_of_this_thread() -> Duration {
    TIMEOUT.get()
}

/// Locks, also after a thread that held the lock has panicked: no value here is ever half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct ChannelPool {
    free: Arc<Mutex<Vec<Channel>>>,
}

/// The channel of a thread, which returns to its pool when the thread ends.
#[derive(Debug)]
struct Lease {
    channel: Option<Channel>,
    owner: Arc<Mutex<Vec<Channel>>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        lock(&self.owner).extend(self.channel.take());
    }
}

impl ChannelPool {
    pub(super) fn new(channels: Vec<Channel>) -> Self {
        Self { free: Arc::new(Mutex::new(channels)) }
    }

    /// Sends a request on this thread's channel, and waits for the answer.
    pub(super) fn request(
        &self,
        request: Request,
        parts: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<u8>, RequestError> {
        LEASE.with_borrow_mut(|lease| {
            let is_ours = |lease: &Lease| Arc::ptr_eq(&lease.owner, &self.free);
            if !lease.as_ref().is_some_and(is_ours) {
                let channel = lock(&self.free).pop();
                *lease = Some(Lease { channel, owner: Arc::clone(&self.free) });
            }
            let Some(channel) = lease.as_mut().and_then(|lease| lease.channel.as_mut()) else {
                *lease = None;
                return Err(RequestError::NoChannel);
            };
            channel.request(request, parts, timeout)
        })
    }
}

/// A request as the key process receives it.
pub(super) struct ReceivedRequest<'a> {
    id: u64,
    pub(super) request: Request,
    pub(super) content: &'a [u8],
}

impl<'a> ReceivedRequest<'a> {
    /// Decodes a message; `None`: it is no request.
    pub(super) fn decode(message: &'a [u8]) -> Option<Self> {
        let (id, [code, content @ ..]) = message.split_first_chunk()? else { return None };
        let request = *Request::ALL.get(usize::from(*code))?;
        Some(Self { id: u64::from_le_bytes(*id), request, content })
    }

    /// Sends the answer, or the reason why the request failed.
    pub(super) fn answer(&self, socket: &OwnedFd, answer: Result<Vec<u8>, impl std::fmt::Display>) {
        let is_success = answer.is_ok();
        let answer = answer.unwrap_or_else(|error| error.to_string().into_bytes());
        let mut rest = &answer[..];
        let mut is_last = false;
        while !is_last {
            let (piece, more) = rest.split_at(rest.len().min(MAX_PIECE_BYTES));
            (rest, is_last) = (more, more.is_empty());
            let message = message(self.id, &[u8::from(is_last), u8::from(is_success)], &[piece]);
            // The timeout of the request has passed, and its thread reads nothing: no thread needs the rest.
            if send(socket, &message, SendFlags::NOSIGNAL).is_err() {
                return;
            }
        }
    }
}

/// Drops the requests on a channel that the ended key process has not read, and notifies the thread that waits for an answer.
pub(super) fn broadcast_end(far: &OwnedFd) {
    let mut buffer = [0; 16];
    // A longer message is cut, and dropped all the same.
    while matches!(recv(far, &mut buffer[..], RecvFlags::DONTWAIT), Ok((_, 1..))) {}
    let _ = send(far, &message(BROADCAST_ID, &[1, 0], &[]), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
