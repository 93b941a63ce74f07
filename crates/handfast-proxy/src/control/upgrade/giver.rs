//! The running process's side: a separate thread receives each request at the socket, and the control thread decides.
//!
//! One take-over at a time; whatever fails before another process serves leaves everything as it was.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use handfast_net::file_id::FileId;
use handfast_net::listen::{Sharing, listen};
use handfast_net::stream::SocketTimeouts;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::counter_transfer::{CounterSender, receive_counters};
use super::protocol::{
    MESSAGE_TIMEOUT, Offer, Opening, PROTOCOL_VERSION, READY_TIMEOUT, Role, Socket, TakerMessage,
    UpgradeReply, UpgradeRequest, check_peer, describe, receive, send, set_timeout,
};
use super::successor::{Launcher, arguments, in_thread, launch, own_program, watch};
use crate::control::error::Error;
use handfast_config::model::{Address, Config};
use handfast_net::descriptors::send_descriptors;
use handfast_observe::metrics::Registry;
use handfast_process::error::Error as ProcessError;
use handfast_process::privileges::ServiceUser;
use handfast_process::service_manager::Notifier;

const MAX_CONVERSATIONS: usize = 4;
const MAX_WAITING_EVENTS: usize = 16;
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Earlier processes that may report their counters at once: as many as drain after upgrades that follow each other closely.
const COUNTER_SENDERS: usize = 16;

/// A request at the upgrade socket, or what became of one.
#[derive(Debug)]
pub(crate) enum UpgradeEvent {
    /// `handfast upgrade` requests an upgrade.
    Start {
        program: Option<PathBuf>,
        requester: UnixStream,
    },
    /// A process requests to take over.
    TakeOver {
        taker: UnixStream,
        version: String,
        process: u32,
    },
    Counters {
        sender: UnixStream,
    },
    /// It serves, from the sockets of these addresses.
    Ready {
        taker: UnixStream,
        process: u32,
        addresses: Vec<Address>,
        counts: bool,
    },
    Failed {
        process: u32,
        why: String,
    },
    Ended {
        attempt: u64,
        how: String,
    },
}

/// Data for a process that takes over: the offer, and its sockets in the same order.
pub(crate) type Offered = (Offer, Vec<Arc<OwnedFd>>);

#[derive(Debug)]
pub(crate) struct Upgrades {
    socket_at: Option<UpgradeSocket>,
    events: Receiver<UpgradeEvent>,
    event_sender: Sender<UpgradeEvent>,
    conversations: Arc<Semaphore>,
    counter_senders: Arc<Semaphore>,
    file_check_at: Instant,
    /// The last problem with it, which is logged once.
    logged: Option<io::ErrorKind>,
    under_way: Option<UnderWay>,
    attempts: u64,
    /// Launcher of programs outside of the sandbox; `None`: this thread is not in one.
    launcher: Option<Launcher>,
    counter_sender: Option<CounterSender>,
}

#[derive(Debug)]
struct UpgradeSocket {
    path: PathBuf,
    listener: UnixListener,
    socket: Arc<OwnedFd>,
    file: Option<FileId>,
}

#[derive(Debug, Default)]
struct UnderWay {
    attempt: u64,
    /// The connection of `handfast upgrade`, which waits for the outcome.
    requester: Option<UnixStream>,
    /// The process that has what this one serves with.
    taker: Option<u32>,
    /// Ends the process that was started, when something is sent.
    end: Option<SyncSender<()>>,
}

impl Upgrades {
    /// Listens at the configured path; `given` is a socket that listens there already. `beside`: another process may
    /// have the path, which this one is to follow.
    ///
    /// **Errors**: those of binding a unix socket.
    pub(crate) fn bind(
        config: &Config,
        given: Option<OwnedFd>,
        beside: bool,
        user: &ServiceUser,
    ) -> Result<Self, Error> {
        let path = config.process.upgrade_socket.as_ref();
        let failed = |path: &Path| {
            let address = Address::Unix(path.to_path_buf());
            move |source| Error::from(ProcessError::Listen { address, owner: "upgrade".into(), source })
        };
        let socket_at = path.map(|path| UpgradeSocket::bind(path, given, beside, user).map_err(failed(path)));
        let (event_sender, events) = channel(MAX_WAITING_EVENTS);
        Ok(Self {
            socket_at: socket_at.transpose()?,
            events,
            event_sender,
            conversations: Arc::new(Semaphore::new(MAX_CONVERSATIONS)),
            counter_senders: Arc::new(Semaphore::new(COUNTER_SENDERS)),
            file_check_at: Instant::now() + FILE_CHECK_INTERVAL,
            logged: None,
            under_way: None,
            attempts: 0,
            launcher: None,
            counter_sender: None,
        })
    }

    /// Keeps a thread that can start programs, before this one no longer can.
    pub(crate) fn keep_launcher(&mut self) -> io::Result<()> {
        self.launcher = self.socket_at.as_ref().map(|_| Launcher::start()).transpose()?;
        Ok(())
    }

    /// Returns true if a process is taking over at this moment: the data that it received should not change.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.taker.is_some())
    }

    /// **Cancel**: loses nothing.
    pub(crate) async fn next(&mut self) -> UpgradeEvent {
        loop {
            tokio::select! {
                Some(event) = self.events.recv() => return event,
                accepted = accept(self.socket_at.as_ref()) => match accepted {
                    Ok(stream) => self.listen_to(stream),
                    Err(error) => {
                        tracing::warn!("upgrade socket: accept: {error}; retrying until it works");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = sleep_until(self.file_check_at), if self.socket_at.is_some() => self.restore_socket_file(),
            }
        }
    }

    /// Makes the socket again where its file was removed, or left behind by a process that was killed.
    fn restore_socket_file(&mut self) {
        self.file_check_at = Instant::now() + FILE_CHECK_INTERVAL;
        let Some(socket_at) = &self.socket_at else { return };
        let (path, address) = (socket_at.path.clone(), Address::Unix(socket_at.path.clone()));
        if self.is_under_way() || FileId::of_address(&address) == socket_at.file {
            return;
        }
        // This process is the service user by now, if there is one.
        match UpgradeSocket::bind(&path, None, false, &ServiceUser::default()) {
            Ok(socket_at) => {
                tracing::error!("upgrade socket: the file {} was removed; it is made again", path.display());
                (self.socket_at, self.logged) = (Some(socket_at), None);
            }
            Err(error) if self.logged == Some(error.kind()) => {}
            Err(error) => {
                self.logged = Some(error.kind());
                tracing::error!(
                    "upgrade socket: {} belongs to another process: {error}; retrying until it is free",
                    path.display()
                );
            }
        }
    }

    /// Adds the counters of a previous process to those of this one for as long as it sends them; refused when there are too many.
    pub(crate) fn receive_counters(&self, sender: UnixStream, registry: Arc<Registry>) {
        match Arc::clone(&self.counter_senders).try_acquire_owned() {
            Ok(place) => receive_counters(sender, registry, place),
            Err(_) => tracing::warn!(
                "upgrade socket: {COUNTER_SENDERS} processes send their counters, one more is refused"
            ),
        }
    }

    fn listen_to(&self, stream: tokio::net::UnixStream) {
        let begun = || -> io::Result<()> {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            check_peer(&stream)?;
            self.converse(move |events| open(stream, events))
        };
        if let Err(error) = begun() {
            tracing::warn!("upgrade socket: {error}");
        }
    }

    /// Holds a conversation on a separate thread; refused when there are too many.
    fn converse(&self, conversation: impl FnOnce(&Sender<UpgradeEvent>) + Send + 'static) -> io::Result<()> {
        let place = Arc::clone(&self.conversations).try_acquire_owned();
        let place = place.map_err(|_| io::Error::other("too many requests at once"))?;
        let events = self.event_sender.clone();
        let run = move || {
            conversation(&events);
            drop(place);
        };
        in_thread("upgrade", run).map(drop)
    }

    /// Starts a process that takes over, for `requester`; `may_start`: whether it would have the rights that this one had
    /// at its start.
    pub(crate) fn start(
        &mut self,
        program: Option<PathBuf>,
        requester: UnixStream,
        may_start: bool,
        notifier: &Notifier,
    ) {
        if self.is_under_way() || self.under_way.as_ref().is_some_and(|under_way| under_way.end.is_some()) {
            return refuse(&requester, "another upgrade is under way");
        }
        let Some(UpgradeSocket { path, .. }) = &self.socket_at else { return };
        self.attempts += 1;
        let attempt = self.attempts;
        let outcome = if may_start { program.map_or_else(own_program, Ok).map(Some) } else { Ok(None) };
        let outcome = outcome.and_then(|program| {
            let Some(program) = program else { return launch(&requester).map(|()| None) };
            tracing::info!("upgrade: starting {}", program.display());
            let mut command = Command::new(&program);
            command.args(arguments(path)).stdin(Stdio::null());
            notifier.pass_to(&mut command);
            let events = self.event_sender.clone();
            let execute = move || {
                let child = command.spawn().map_err(|error| {
                    io::Error::new(error.kind(), format!("execute {}: {error}", program.display()))
                })?;
                let ended = move |how| {
                    // The receiver is gone when this process ends.
                    let _ = events.blocking_send(UpgradeEvent::Ended { attempt, how });
                };
                watch(child, ended).map(Some)
            };
            match &self.launcher {
                Some(launcher) => launcher.perform(execute),
                None => execute(),
            }
        });
        match outcome {
            Ok(end) => {
                self.under_way = Some(UnderWay { attempt, requester: Some(requester), taker: None, end })
            }
            Err(error) => {
                tracing::error!("upgrade failed, this process keeps serving: {error}");
                refuse(&requester, &error.to_string());
            }
        }
    }

    /// Gives a process what it needs to take over, and receives whether it serves.
    pub(crate) fn give(&mut self, taker: UnixStream, process: u32, offered: Offered) {
        let under_way = self.under_way.get_or_insert_default();
        under_way.taker = Some(process);
        let given = self.converse(move |events| {
            // The receiver is gone when this process ends.
            let _ = events.blocking_send(hand_over(taker, process, offered));
        });
        if let Err(error) = given {
            self.failed(&error.to_string());
        }
    }

    pub(crate) fn is_taker(&self, process: u32) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.taker == Some(process))
    }

    pub(crate) fn is_attempt(&self, attempt: u64) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.attempt == attempt)
    }

    /// The upgrade failed: the requester receives the reason, and the process that was started is ended.
    pub(crate) fn failed(&mut self, why: &str) {
        let Some(UnderWay { requester, end, .. }) = self.under_way.take() else { return };
        tracing::error!("upgrade failed, this process keeps serving: {why}");
        if let Some(asker) = requester {
            refuse(&asker, why);
        }
        if let Some(end) = end {
            // It may have ended already.
            let _ = end.try_send(());
        }
    }

    /// The upgrade succeeded: the requester is notified.
    pub(crate) fn done(&mut self, text: String) {
        tracing::info!("{text}");
        if let Some(UnderWay { requester: Some(requester), .. }) = self.under_way.take() {
            // The requester may have disconnected.
            let _ = send(&requester, &UpgradeReply::Done { text });
        }
    }

    /// The socket, for the process that follows.
    pub(crate) fn socket(&self) -> Option<(Socket, Arc<OwnedFd>)> {
        let UpgradeSocket { path, socket, .. } = self.socket_at.as_ref()?;
        let written = Some((&Address::Unix(path.clone())).into());
        Some((Socket { role: Role::Upgrade, name: None, written, inherited: false }, Arc::clone(socket)))
    }

    pub(crate) fn address(&self) -> Option<Address> {
        self.socket_at.as_ref().map(|socket_at| Address::Unix(socket_at.path.clone()))
    }

    /// Sends this process's counters to the one that has taken over, until [`send_last_counters`](Self::send_last_counters).
    pub(crate) fn send_counters(&mut self, taker: UnixStream, path: PathBuf, registry: Arc<Registry>) {
        match CounterSender::begin(taker, path, registry) {
            Ok(sender) => self.counter_sender = Some(sender),
            Err(error) => tracing::warn!("send counters to the new process: {error}"),
        }
    }

    /// Sends the final counters. **Cost**: waits for the process that has taken over, at most ten seconds for each message.
    pub(crate) fn send_last_counters(&mut self) {
        if let Some(sender) = self.counter_sender.take() {
            sender.end();
        }
    }

    /// Closes the socket. `handed_over`: another process has it, so its file stays.
    pub(crate) fn close(&mut self, handed_over: bool) {
        let Some(UpgradeSocket { path, file, .. }) = self.socket_at.take() else { return };
        if !handed_over && file.is_some() && FileId::of_address(&Address::Unix(path.clone())) == file {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl UpgradeSocket {
    fn bind(path: &Path, given: Option<OwnedFd>, beside: bool, user: &ServiceUser) -> io::Result<Self> {
        let address = Address::Unix(path.to_path_buf());
        let socket = match given {
            Some(socket) => Arc::new(socket),
            None => {
                let timeouts = SocketTimeouts { unacknowledged: Duration::ZERO, keepalive: Duration::ZERO };
                let sharing = if beside { Sharing::WithAnother } else { Sharing::Alone };
                let (_, sockets) = user.bind(&address, || listen(&address, 0o600, 1, timeouts, sharing))?;
                let socket = sockets.first().ok_or(io::ErrorKind::NotFound)?;
                socket.descriptor()
            }
        };
        let listener = std::os::unix::net::UnixListener::from(socket.try_clone()?);
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(Self { path: path.to_path_buf(), listener, socket, file: FileId::of_address(&address) })
    }
}

/// The next connection; never without a socket.
async fn accept(socket_at: Option<&UpgradeSocket>) -> io::Result<tokio::net::UnixStream> {
    match socket_at {
        Some(socket_at) => socket_at.listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

fn open(stream: UnixStream, events: &Sender<UpgradeEvent>) {
    let opening = set_timeout(&stream, MESSAGE_TIMEOUT).and_then(|()| receive::<Opening>(&stream));
    let opening = match opening {
        Ok(opening) => opening,
        Err(error) => return tracing::warn!("upgrade socket: {}", describe(&error)),
    };
    if opening.protocol != PROTOCOL_VERSION {
        let why = format!("protocol {} is spoken there, expected {PROTOCOL_VERSION}", opening.protocol);
        return refuse(&stream, &why);
    }
    let event = match opening.ask {
        UpgradeRequest::Start { program } => UpgradeEvent::Start { program, requester: stream },
        UpgradeRequest::Counters => UpgradeEvent::Counters { sender: stream },
        UpgradeRequest::TakeOver => {
            UpgradeEvent::TakeOver { taker: stream, version: opening.version, process: opening.process }
        }
    };
    // The receiver is gone when this process ends, and the connection with it.
    let _ = events.blocking_send(event);
}

fn hand_over(taker: UnixStream, process: u32, (offer, sockets): Offered) -> UpgradeEvent {
    let talk = || -> io::Result<TakerMessage> {
        send(&taker, &UpgradeReply::Offer(Box::new(offer)))?;
        let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        send_descriptors(&taker, &descriptors)?;
        set_timeout(&taker, READY_TIMEOUT)?;
        receive(&taker)
    };
    match talk() {
        Ok(TakerMessage::Ready { addresses, counts }) => {
            let addresses = addresses.into_iter().map(Address::from).collect();
            UpgradeEvent::Ready { taker, process, addresses, counts }
        }
        Ok(TakerMessage::Failed { why }) => {
            UpgradeEvent::Failed { process, why: format!("process {process}: {why}") }
        }
        Err(error) => {
            let why = format!("process {process} did not say that it serves: {}", describe(&error));
            refuse(&taker, &why);
            UpgradeEvent::Failed { process, why }
        }
    }
}

/// Answers that nothing has changed, and why.
pub(crate) fn refuse(stream: &UnixStream, why: &str) {
    // The requester may have disconnected.
    let _ = send(stream, &UpgradeReply::Refused { why: why.to_owned() });
}
