//! The backend of the proxy: a listener whose connections are handed to the experiment when they are ready, or that echoes.
//!
//! In: a listener, the mode, a TLS server. Out: [`Connection`]s, one for each connection, once what comes before the bytes is over. It
//! can stop accepting for a while; connections that it does not accept wait in the kernel.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use handfast_testkit::client::with_deadline;
use handfast_testkit::connection::Connection;
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::ending::reset;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use rustls::ServerConfig;

use crate::error::{CaseError, broken, lab};
use crate::http;
use crate::mode::Mode;

/// Connections that may be ready while no experiment takes them.
const READY: usize = 4_096;
/// Interval between checks if a backend must stop, or continue.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// First bytes of a PROXY header of version 2.
pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// First bytes of one of version 1.
const VERSION_1: &[u8] = b"PROXY ";

/// Handling of a connection that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serve {
    /// The experiment gets it.
    Hand,
    /// Everything is sent back.
    Echo,
}

/// Behaviour of a backend towards new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Manner {
    /// As it should.
    #[default]
    Good,
    /// It resets at once.
    Resets,
    /// It closes at once.
    Closes,
    /// It sends nothing, and answers nothing.
    Silent,
    /// Asked for TLS, it refuses.
    SaysNo,
    /// Asked for TLS, it sends plain text behind its acceptance.
    Injects,
    /// It sends data that is not TLS.
    Babbles,
    /// As it should, but TLS is left to the experiment.
    Bare,
    /// As it should, but requests are left to the experiment.
    Requests,
}

/// A backend that listens until it is dropped.
pub(crate) struct Backend {
    ready: Receiver<Result<Connection, CaseError>>,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    listener: TcpListener,
}

#[derive(Default)]
struct Control {
    stopped: AtomicBool,
    held: AtomicBool,
    accepted: AtomicUsize,
    manner: AtomicU8,
}

impl Control {
    fn manner(&self) -> Manner {
        let manner = self.manner.load(Ordering::Acquire);
        let all = [
            Manner::Resets,
            Manner::Closes,
            Manner::Silent,
            Manner::SaysNo,
            Manner::Injects,
            Manner::Babbles,
            Manner::Bare,
            Manner::Requests,
        ];
        all.into_iter().find(|known| *known as u8 == manner).unwrap_or_default()
    }
}

impl Backend {
    /// Begins to accept.
    ///
    /// **Errors**: no thread.
    pub(crate) fn start(
        listener: TcpListener,
        mode: Mode,
        server: Arc<ServerConfig>,
        serve: Serve,
    ) -> Result<Self, CaseError> {
        let (sender, ready) = sync_channel(READY);
        let control = Arc::new(Control::default());
        let ours = Arc::clone(&control);
        listener.set_nonblocking(true)?;
        let ours_too = listener.try_clone()?;
        let accept = move || accept(&listener, mode, &server, serve, &ours, &sender);
        let thread =
            Builder::new().name("lab-backend".into()).spawn(accept).map_err(lab("start a thread"))?;
        Ok(Self { ready, control, thread: Some(thread), listener: ours_too })
    }

    /// The next connection that is ready.
    pub(crate) fn next(&self) -> Result<Connection, CaseError> {
        match self.ready.recv_timeout(DEADLINE) {
            Ok(outcome) => outcome,
            Err(_) => broken(format!(
                "no connection reached the backend in time; {} had been accepted",
                self.accepted()
            )),
        }
    }

    /// Forgets connections that are ready, and closes them.
    pub(crate) fn forget(&self) {
        self.ready.try_iter().for_each(drop);
    }

    /// Returns the number of connections that it has accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.control.accepted.load(Ordering::Acquire)
    }

    /// From now on new connections are met so.
    pub(crate) fn behave(&self, manner: Manner) {
        self.control.manner.store(manner as u8, Ordering::Release);
    }

    /// Sets how many may wait to be accepted; the kernel adds one.
    pub(crate) fn backlog(&self, length: i32) -> Result<(), CaseError> {
        Ok(rustix::net::listen(&self.listener, length).map_err(std::io::Error::from)?)
    }

    /// Stops or resumes accepting.
    pub(crate) fn hold(&self, held: bool) {
        self.control.held.store(held, Ordering::Release);
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.control.stopped.store(true, Ordering::Release);
        // The port is free when this is over.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    mode: Mode,
    server: &Arc<ServerConfig>,
    serve: Serve,
    control: &Control,
    ready: &SyncSender<Result<Connection, CaseError>>,
) {
    while !control.stopped.load(Ordering::Acquire) {
        let mut watched = [PollFd::new(listener, PollFlags::IN)];
        // Nothing is asked of one that is held; it only waits.
        let polled = if control.held.load(Ordering::Acquire) { &mut [][..] } else { &mut watched[..] };
        let _ = poll(polled, Some(&POLL_INTERVAL));
        if control.held.load(Ordering::Acquire) {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else { continue };
        control.accepted.fetch_add(1, Ordering::AcqRel);
        let (server, ready) = (Arc::clone(server), ready.clone());
        let manner = control.manner();
        let play = move || {
            let outcome = begin(stream, mode, manner, &server);
            match (serve, outcome) {
                (Serve::Echo, Ok(mut peer)) => {
                    if peer.try_echo().is_ok() {
                        peer.close();
                    }
                }
                // A connection that no experiment takes is closed.
                (Serve::Hand, outcome) => drop(ready.try_send(outcome)),
                (Serve::Echo, Err(_)) => {}
            }
        };
        // Without a thread, this connection alone is closed.
        let _ = Builder::new().name("lab-connection".into()).spawn(play);
    }
}

/// Runs the steps before the bytes: a PROXY header, a greeting, a request for TLS, a handshake, a request for another
/// protocol.
fn begin(
    mut stream: TcpStream,
    mode: Mode,
    manner: Manner,
    server: &Arc<ServerConfig>,
) -> Result<Connection, CaseError> {
    stream.set_nonblocking(false)?;
    with_deadline(&stream)?;
    match manner {
        Manner::Resets => {
            reset(stream);
            return Err(CaseError::Lab("the backend has reset it".to_owned()));
        }
        Manner::Closes => return Err(CaseError::Lab("the backend has closed it".to_owned())),
        Manner::Silent => return Ok(Connection::plain("backend", stream)),
        Manner::Babbles => {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
            return Ok(Connection::plain("backend", stream));
        }
        Manner::Good | Manner::Bare | Manner::Requests | Manner::SaysNo | Manner::Injects => {}
    }
    match mode {
        Mode::ProxyOut => read_header(&mut stream)?,
        Mode::StarttlsIn => stream.write_all(b"220 backend\r\n")?,
        Mode::StarttlsOut => {
            let mut request = [0; 8];
            let read = stream.read_exact(&mut request);
            read.map_err(|error| {
                CaseError::Broken(format!("backend waits for the request for TLS: {error}"))
            })?;
            // SSLRequest: its length, and its number.
            if request != [0, 0, 0, 8, 4, 210, 22, 47] {
                return broken(format!("backend was asked for TLS with {request:?}"));
            }
            match manner {
                Manner::SaysNo => {
                    stream.write_all(b"N")?;
                    return Ok(Connection::plain("backend", stream));
                }
                Manner::Injects => stream.write_all(b"Splain text")?,
                _ => stream.write_all(b"S")?,
            }
        }
        _ => {}
    }
    if manner == Manner::Bare {
        return Ok(Connection::plain("backend", stream));
    }
    let mut peer = if mode.backend_tls() {
        Connection::accept(stream, server)?
    } else {
        Connection::plain("backend", stream)
    };
    if manner == Manner::Good {
        http::switch(mode, &mut peer)?;
    }
    Ok(peer)
}

/// Reads a PROXY header of version 2, or of version 1: some programs send only that.
fn read_header(stream: &mut TcpStream) -> Result<(), CaseError> {
    let failed =
        |error: std::io::Error| CaseError::Broken(format!("backend waits for a PROXY header: {error}"));
    let mut start = [0; 16];
    stream.read_exact(&mut start[..VERSION_1.len()]).map_err(failed)?;
    if start.starts_with(VERSION_1) {
        let mut byte = [0];
        while byte != *b"\n" {
            stream.read_exact(&mut byte).map_err(failed)?;
        }
        return Ok(());
    }
    stream.read_exact(&mut start[VERSION_1.len()..]).map_err(failed)?;
    if !start.starts_with(SIGNATURE) {
        return broken("backend got something else before the PROXY header");
    }
    let length = usize::from(u16::from_be_bytes([start[14], start[15]]));
    stream.read_exact(&mut vec![0; length]).map_err(failed)
}
