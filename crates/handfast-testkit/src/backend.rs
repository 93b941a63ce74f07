//! Backends that follow a script and note what they saw. In: a function that plays the backend for one connection. Out: its
//! events, in the order in which connections ended.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, bind, getsockname, listen, shutdown, socket_with,
};

use crate::client::with_deadline;
use crate::deadline::{DEADLINE, thread};
use crate::ending::{self, SocketEnd};

/// Connections whose events no test has taken yet; the backend does not wait for that.
const EVENTS_KEPT: usize = 65_536;

/// Events that a backend saw.
#[derive(Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes; those that came in several reads are put together.
    Data(Vec<u8>),
    /// In a session: the other side has said that this was all.
    CloseNotify,
    /// The end of what the other side had to say.
    Fin,
    /// An abort.
    Reset,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(bytes) => {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]).into_owned();
                write!(f, "{} bytes, {start:?}", bytes.len())
            }
            Self::CloseNotify => f.write_str("close_notify"),
            Self::Fin => f.write_str("FIN"),
            Self::Reset => f.write_str("reset"),
        }
    }
}

/// A listening backend; it stops listening when it is dropped, its connections live as long as their scripts.
pub struct Backend {
    /// Address that it listens at.
    pub address: SocketAddr,
    seen: Mutex<Receiver<Vec<Event>>>,
    accepted: Arc<AtomicUsize>,
    listener: Arc<TcpListener>,
}

/// One connection, from the backend's side.
pub struct Peer {
    /// The socket, for what the functions below do not offer.
    pub stream: TcpStream,
    events: Vec<Event>,
}

impl Backend {
    /// Listens on a port of the kernel's choice and plays `script` for each connection.
    pub fn start(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        Self::on(listener, script)
    }

    /// Plays `script` for each connection of a listener.
    pub fn on(listener: TcpListener, script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().expect("a bound socket has an address");
        let (sender, seen) = sync_channel(EVENTS_KEPT);
        let (accepted, listener) = (Arc::new(AtomicUsize::new(0)), Arc::new(listener));
        let (counter, accepting) = (Arc::clone(&accepted), Arc::clone(&listener));
        let script = Arc::new(script);
        thread("backend", move || {
            for stream in accepting.incoming().map_while(Result::ok) {
                counter.fetch_add(1, Ordering::AcqRel);
                let (script, sender) = (Arc::clone(&script), SyncSender::clone(&sender));
                thread("backend connection", move || {
                    let _ = with_deadline(&stream);
                    let mut peer = Peer { stream, events: Vec::new() };
                    script(&mut peer);
                    let _ = sender.try_send(std::mem::take(&mut peer.events));
                });
            }
        });
        Self { address, seen: Mutex::new(seen), accepted, listener }
    }

    /// Listens on a socket that is bound, and plays `script` for each connection.
    pub fn on_bound(socket: OwnedFd, script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        listen(&socket, 128).expect("the socket is bound, and nothing else listens there");
        Self::on(socket.into(), script)
    }

    /// Refuses connections from now on, and keeps the port: [`Backend::on_bound`] goes on there.
    pub fn refuse(self) -> OwnedFd {
        let address = self.address;
        drop(self);
        Self::bound(address)
    }

    fn bound(address: SocketAddr) -> OwnedFd {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("there is a descriptor left");
        // Connections of before wait for their last packets there.
        set_socket_reuseaddr(&socket, true).expect("it is a socket of TCP");
        bind(&socket, &address).expect("the port is free");
        socket
    }

    /// Sends everything back until the other side ends, then closes cleanly.
    pub fn echo() -> Self {
        Self::start(Peer::echo)
    }

    /// An address that refuses connections until the tests are over.
    pub fn refusing() -> SocketAddr {
        static KEPT: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
        let (address, socket) = Self::refusing_at_first();
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
        address
    }

    /// An address that refuses connections until its socket listens.
    ///
    /// The socket is bound meanwhile: a port that is free would be given to a listener of another test sooner or later.
    pub fn refusing_at_first() -> (SocketAddr, OwnedFd) {
        let socket = Self::bound(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = getsockname(&socket).expect("a bound socket has an address");
        (address.try_into().expect("it is of IPv4"), socket)
    }

    /// Events of the next connection to end.
    pub fn seen(&self) -> Vec<Event> {
        let seen = self.seen.lock().expect("no thread panics while holding it");
        seen.recv_timeout(DEADLINE).unwrap_or_else(|_| {
            panic!(
                "waited {DEADLINE:?} for a backend connection to end; {} were accepted so far",
                self.accepted.load(Ordering::Acquire)
            )
        })
    }

    /// Number of connections that it has accepted.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }
}

/// Returns true if the other side has ended a connection, seen without reading what it sent: unread data stays in the way.
pub fn is_over(stream: &TcpStream) -> bool {
    shows(stream, PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}

/// Returns true if a connection was aborted after its other side had closed cleanly.
pub fn is_cut(stream: &TcpStream) -> bool {
    shows(stream, PollFlags::HUP | PollFlags::ERR)
}

/// Returns true if the other side's FIN has come, read or not.
pub fn has_fin(stream: &TcpStream) -> bool {
    shows(stream, PollFlags::RDHUP)
}

fn shows(stream: &TcpStream, any: PollFlags) -> bool {
    let mut polled = [PollFd::new(stream, any)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
        && polled[0].revents().intersects(any)
}

impl Drop for Backend {
    /// Connections are refused as soon as this returns; the thread that accepts them is woken, and ends.
    fn drop(&mut self) {
        let _ = shutdown(&self.listener, Shutdown::Read);
    }
}

impl Peer {
    /// Sends everything back until the other side ends.
    pub fn echo(&mut self) {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = self.stream.read(&mut buffer) {
            if self.stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    }

    /// Sends all of `bytes`; a peer that is gone is for the reader to notice.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Reads exactly so many bytes; fewer when the stream ends before.
    pub fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        let mut read = Vec::new();
        let limit = u64::try_from(count).expect("tests read what fits in memory");
        let outcome = Read::by_ref(&mut self.stream).take(limit).read_to_end(&mut read);
        self.note(&read);
        if let Err(error) = outcome {
            self.end(
                ending::end_of(&error).unwrap_or_else(|| panic!("waited {DEADLINE:?} for {count} bytes")),
            );
        } else if read.len() < count {
            self.end(SocketEnd::Fin);
        }
        read
    }

    /// Reads the head of the next HTTP message, to its empty line; `None`: the stream ended before.
    pub fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(*self.read_exactly(1).first()?);
        }
        Some(String::from_utf8(head).expect("tests send text"))
    }

    /// Reads to the end, in order or not.
    pub fn read_to_end(&mut self) {
        let mut read = Vec::new();
        let outcome = self.stream.read_to_end(&mut read);
        self.note(&read);
        let end = match outcome {
            Ok(_) => SocketEnd::Fin,
            Err(error) => ending::end_of(&error).unwrap_or_else(|| {
                panic!("waited {DEADLINE:?} for the end of a stream after {} bytes", read.len())
            }),
        };
        self.end(end);
    }

    /// Reads to the end while writing without a pause.
    pub fn read_to_end_while_writing(&mut self) {
        let mut read = Vec::new();
        let end = ending::read_to_end_while_writing(&self.stream, &[b'w'; 4096], &mut read);
        self.note(&read);
        self.end(end);
    }

    /// Ends the writing side and keeps reading possible.
    pub fn fin(&mut self) {
        ending::fin(&self.stream);
    }

    /// Closes with a reset.
    pub fn reset(&mut self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(std::time::Duration::ZERO))
            .expect("an open socket takes the option");
        // The script's thread drops the socket as soon as the script returns.
    }

    fn note(&mut self, read: &[u8]) {
        if !read.is_empty() {
            self.saw(Event::Data(read.to_vec()));
        }
    }

    /// Notes what was seen; bytes that follow bytes are put together.
    pub fn saw(&mut self, event: Event) {
        match (self.events.last_mut(), event) {
            (Some(Event::Data(bytes)), Event::Data(more)) => bytes.extend_from_slice(&more),
            (_, event) => self.events.push(event),
        }
    }

    /// Notes how the socket ended.
    pub fn end(&mut self, end: SocketEnd) {
        self.events.push(match end {
            SocketEnd::Fin => Event::Fin,
            SocketEnd::Reset => Event::Reset,
            SocketEnd::Open => panic!("waited {DEADLINE:?} for the end of a connection"),
        });
    }
}
