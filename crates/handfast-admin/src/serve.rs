//! The listener's sockets: bounded in number, each under one deadline, one request each.
//!
//! A new connection is always answered: where there are too many, it takes the place of the oldest, so that clients that send nothing keep
//! no probe waiting.

use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval_at, sleep, timeout};

use super::authorization::Authenticator;
use super::control::Control;
use super::rates::SAMPLE_INTERVAL;
use super::respond::{ServerContext, Transport, respond};
use handfast_config::model::Address;
use handfast_net::file_id::FileId;
use handfast_net::listen::{GivenSocket, Origin, is_unreachable};

const CONNECTIONS: usize = 64;

const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// Time limit of a connection in all: the request, a reload's outcome, and a client that reads slowly.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(45);

/// Bytes of a request's head; the least that hyper allows.
const HEAD_BYTES: usize = 8 * 1024;

/// Minimum time until the same error of accept is logged again.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Pause of accepting after it failed (no file descriptor is left).
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A bound admin address.
#[derive(Debug)]
pub struct AdminListener {
    socket: OwnedFd,
    /// With the port that the kernel chose.
    address: Address,
    origin: Origin,
    /// The file of a unix socket that this process made, or was given to keep.
    file: Option<FileId>,
}

impl AdminListener {
    /// A listener on a socket that listens already.
    ///
    /// **Errors**: dup(2).
    pub fn given(socket: GivenSocket, origin: Origin) -> io::Result<Self> {
        let address = socket.address().clone();
        let socket = socket.into_descriptor().try_clone()?;
        let file = FileId::of_address(&address).filter(|_| origin.owns_address());
        Ok(Self { socket, address, origin, file })
    }

    /// Returns true if another process made it.
    pub fn is_given(&self) -> bool {
        self.origin != Origin::Bound
    }

    /// The file of a unix socket that is this process's to remove.
    pub fn own_file(&self) -> Option<FileId> {
        self.file
    }

    /// A duplicate of the socket, for the next process.
    pub fn socket(&self) -> io::Result<AdminSocket> {
        let inherited = self.origin == Origin::Inherited;
        let socket = Arc::new(self.socket.try_clone()?);
        Ok(AdminSocket { address: self.address.clone(), inherited, socket })
    }

    /// The address it is bound to, with the port the kernel chose if 0 was asked for.
    pub fn address(&self) -> io::Result<Address> {
        Ok(self.address.clone())
    }
}

/// Binds the admin address; before privileges are dropped. A unix socket without a listener is replaced, and
/// only its owner and group may connect.
///
/// **Errors:** those of the kernel; for a unix socket, that a process listens there or that the path is no socket.
pub fn bind(address: &Address) -> io::Result<AdminListener> {
    let (socket, bound): (OwnedFd, _) = match address {
        Address::Ip(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            let bound = Address::Ip(listener.local_addr()?);
            (listener.into(), bound)
        }
        Address::Unix(path) => {
            remove_left_over(path)?;
            let listener = std::os::unix::net::UnixListener::bind(path)?;
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o660))?;
            (listener.into(), address.clone())
        }
    };
    Ok(AdminListener { socket, address: bound, origin: Origin::Bound, file: FileId::of_address(address) })
}

fn remove_left_over(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// Removes the file of a unix socket that is closed, if it is still this one: another process may have put its own in its place.
pub fn forget(address: &Address, file: Option<FileId>) {
    if let Address::Unix(path) = address
        && file.is_some()
        && FileId::of_address(address) == file
    {
        // It may have been removed by others.
        let _ = std::fs::remove_file(path);
    }
}

/// Answers requests until it is dropped; its connections end with it. When the address was handed over, it answers those
/// that are there.
///
/// Runs on a tokio `current_thread` runtime, inside a `LocalSet`.
///
/// **Errors:** the socket cannot be registered with the runtime, or the kernel has no random numbers. **Cancel:** dropping it drops its connections.
///
/// If `given` is notified, another process has the socket: it is closed here, and its file is kept. The function ends when the file of
/// its unix socket is gone, so that no client can connect any more: the caller binds the address again.
pub async fn serve(listener: AdminListener, control: Rc<dyn Control>, given: Rc<Notify>) -> io::Result<()> {
    let (address, file) = (listener.address()?, listener.own_file());
    let mut listener = Some(Listener::new(listener)?);
    let mut open = VecDeque::new();
    let authenticator = Rc::new(Authenticator::new().map_err(io::Error::other)?);
    let context =
        ServerContext { control, authenticator, history: Rc::default(), handed_over: Rc::default() };
    let mut connections = JoinSet::new();
    let mut logged: Option<Instant> = None;
    // Earlier counts do not belong to the last minute: an upgrade hands over counts of years.
    context.history.borrow_mut().add(&context.control.snapshot(), Instant::now());
    let mut sample = interval_at(tokio::time::Instant::now() + SAMPLE_INTERVAL, SAMPLE_INTERVAL);
    sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = sample.tick() => {
                context.history.borrow_mut().add(&context.control.snapshot(), Instant::now());
                if listener.is_some() && file.is_some() && FileId::of_address(&address) != file && is_unreachable(&address) {
                    return Ok(());
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = given.notified() => listener = None,
            () = context.handed_over.notified() => {
                forget(&address, file);
                listener = None;
            }
            accepted = accept(listener.as_ref()) => match accepted {
                Ok(accepted) => {
                    make_room(&mut open);
                    let has_request = Rc::default();
                    let ends = connections.spawn_local(connection(accepted, context.clone(), Rc::clone(&has_request)));
                    open.push_back(Open { ends, has_request });
                }
                Err(error) => {
                    if logged.is_none_or(|logged| logged.elapsed() > LOG_INTERVAL) {
                        logged = Some(Instant::now());
                        tracing::warn!("admin: accept: {error}; retrying until it works");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

struct Open {
    ends: AbortHandle,
    has_request: Rc<Cell<bool>>,
}

/// Ends a connection where there are as many as may be: the one that has sent no request for longest, or else the oldest.
fn make_room(open: &mut VecDeque<Open>) {
    open.retain(|connection| !connection.ends.is_finished());
    if open.len() >= CONNECTIONS {
        let place = open.iter().position(|connection| !connection.has_request.get()).unwrap_or(0);
        if let Some(oldest) = open.remove(place) {
            oldest.ends.abort();
        }
    }
}

async fn connection(
    (stream, transport): (Box<dyn Stream>, Transport),
    context: ServerContext,
    has_request: Rc<Cell<bool>>,
) {
    let service = service_fn(|request| async {
        has_request.set(true);
        let answer = respond(request.into_parts().0, transport, &context).await;
        Ok::<_, Infallible>(answer)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // An error needs no report here: the client sees it.
    let _ = timeout(CONNECTION_DEADLINE, connection).await;
}

/// The next connection; none ever when nothing listens any more.
async fn accept(listener: Option<&Listener>) -> io::Result<(Box<dyn Stream>, Transport)> {
    match listener {
        Some(Listener::Tcp(listener)) => Ok((Box::new(listener.accept().await?.0), Transport::Tcp)),
        Some(Listener::Unix(listener)) => Ok((Box::new(listener.accept().await?.0), Transport::Unix)),
        None => std::future::pending().await,
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Listener {
    fn new(listener: AdminListener) -> io::Result<Self> {
        let AdminListener { socket, address, .. } = listener;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(match address {
            Address::Ip(_) => Self::Tcp(tokio::net::TcpListener::from_std(socket.into())?),
            Address::Unix(_) => Self::Unix(tokio::net::UnixListener::from_std(socket.into())?),
        })
    }
}

/// The admin listener's socket, duplicated for the process that takes over: it serves the same address without a gap.
#[derive(Clone, Debug)]
pub struct AdminSocket {
    /// Its address, with the port that the kernel chose.
    pub address: Address,
    /// True if a service manager opened it.
    pub inherited: bool,
    /// A descriptor of it.
    pub socket: Arc<OwnedFd>,
}
