//! The running process's side: whoever asks at the socket is heard on a thread of its own, and the control thread decides.
//!
//! In: connections from `handfast upgrade` and from a process that takes over. Out: what was heard ([`Heard`]), and once another
//! process serves, its addresses. One take-over at a time; whatever fails before that leaves everything as it was.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use handfast_net::file_id::FileId;
use handfast_net::listen::{Sharing, listen};
use handfast_net::stream::SocketTimeouts;
use tokio::net::UnixListener;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::counts::{Telling, hear};
use super::launcher::Launcher;
use super::successor::{arguments, in_thread, launch, own_program, watch};
use super::words::{
    Answer, Ask, Offer, Opening, PROMPT, PROTOCOL, READY_WITHIN, Role, Socket, Word, in_words, may_ask,
    receive, send, set_timeout,
};
use crate::config::model::{Address, Config};
use crate::control::error::Error;
use handfast_net::descriptors::send_descriptors;
use handfast_observe::metrics::Registry;
use handfast_process::error::Error as ProcessError;
use handfast_process::privileges::ServiceUser;
use handfast_process::service_manager::Notifier;

/// Who may be heard at once.
const TALKS: usize = 4;
/// What may wait to be looked at.
const HEARD: usize = 16;
/// How long asking is not looked at after accept(2) failed.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the socket's file is looked for.
const LOOK: Duration = Duration::from_secs(5);
/// Earlier processes that may report their counters at once: as many as drain after upgrades that follow each other closely.
const TELLERS: usize = 16;

/// What was heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Somebody wants an upgrade.
    Start { program: Option<PathBuf>, asker: UnixStream },
    /// A process wants to take over.
    Wants { taker: UnixStream, version: String, process: u32 },
    /// A process before this one tells what it counts.
    Tells { teller: UnixStream },
    /// It serves, from the sockets of these addresses.
    Ready { taker: UnixStream, process: u32, addresses: Vec<Address>, counts: bool },
    /// It does not.
    Failed { process: u32, why: String },
    /// The process that was started for it has ended.
    Ended { attempt: u64, how: String },
}

/// What a process that takes over is given.
#[derive(Debug)]
pub(crate) struct Offered {
    offer: Offer,
    sockets: Vec<Arc<OwnedFd>>,
}

impl Offered {
    /// Nothing yet but what is known of backends and keys.
    pub(super) fn new(offer: Offer) -> Self {
        Self { offer, sockets: Vec::new() }
    }

    /// Adds a socket.
    pub(super) fn add(&mut self, said: Socket, socket: Arc<OwnedFd>) {
        self.offer.sockets.push(said);
        self.sockets.push(socket);
    }
}

/// Upgrades of a process: its socket, and the one that is under way.
#[derive(Debug)]
pub(crate) struct Upgrades {
    asked_at: Option<AskedAt>,
    heard: Receiver<Heard>,
    ears: Sender<Heard>,
    talks: Arc<AtomicUsize>,
    /// Processes that tell what they count.
    tellers: Places,
    /// When the socket's file is looked for next.
    look_at: Instant,
    /// The last problem with it, which is logged once.
    said: Option<io::ErrorKind>,
    under_way: Option<UnderWay>,
    attempts: u64,
    /// What starts programs from outside of the sandbox; `None`: this thread is not in one.
    launcher: Option<Launcher>,
    /// What tells the process that has taken over what this one counts.
    telling: Option<Telling>,
}

/// Where this process can be asked.
#[derive(Debug)]
struct AskedAt {
    path: PathBuf,
    listener: UnixListener,
    socket: Arc<OwnedFd>,
    file: Option<FileId>,
}

#[derive(Debug, Default)]
struct UnderWay {
    attempt: u64,
    /// Who asked for it, and waits.
    asker: Option<UnixStream>,
    /// The process that has what this one serves with.
    taker: Option<u32>,
    /// Ends the process that was started, when something is sent.
    end: Option<SyncSender<()>>,
}

impl Upgrades {
    /// Listens where the configuration says; `given` is a socket that listens there already. `beside`: another process may
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
            move |source| Error::Process(ProcessError::Listen { address, whose: "upgrade".into(), source })
        };
        let asked_at = path.map(|path| AskedAt::bind(path, given, beside, user).map_err(failed(path)));
        let (ears, heard) = channel(HEARD);
        Ok(Self {
            asked_at: asked_at.transpose()?,
            heard,
            ears,
            talks: Arc::default(),
            tellers: Places::default(),
            look_at: Instant::now() + LOOK,
            said: None,
            under_way: None,
            attempts: 0,
            launcher: None,
            telling: None,
        })
    }

    /// Keeps a thread that can start programs, before this one no longer can.
    ///
    /// **Errors**: those of starting a thread.
    pub(crate) fn keep_launcher(&mut self) -> io::Result<()> {
        self.launcher = self.asked_at.as_ref().map(|_| Launcher::start()).transpose()?;
        Ok(())
    }

    /// Whether a process is taking over at this moment: what it was given should not change.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.taker.is_some())
    }

    /// What is heard next. **Cancel**: loses nothing.
    pub(crate) async fn next(&mut self) -> Heard {
        loop {
            tokio::select! {
                Some(heard) = self.heard.recv() => return heard,
                accepted = accept(self.asked_at.as_ref()) => match accepted {
                    Ok(stream) => self.listen_to(stream),
                    Err(error) => {
                        tracing::warn!("upgrade socket: accept: {error}; retrying until it works");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                () = sleep_until(self.look_at), if self.asked_at.is_some() => self.look_for_file(),
            }
        }
    }

    /// Makes the socket again where its file was removed, or left behind by a process that was killed.
    fn look_for_file(&mut self) {
        self.look_at = Instant::now() + LOOK;
        let Some(asked_at) = &self.asked_at else { return };
        let (path, address) = (asked_at.path.clone(), Address::Unix(asked_at.path.clone()));
        if self.is_under_way() || FileId::of_address(&address) == asked_at.file {
            return;
        }
        // This process is the service user by now, if there is one.
        match AskedAt::bind(&path, None, false, &ServiceUser::default()) {
            Ok(asked_at) => {
                tracing::error!("upgrade socket: the file {} was removed; it is made again", path.display());
                (self.asked_at, self.said) = (Some(asked_at), None);
            }
            Err(error) if self.said == Some(error.kind()) => {}
            Err(error) => {
                self.said = Some(error.kind());
                tracing::error!(
                    "upgrade socket: this process is no longer the one at {}: {error}; retrying until it is",
                    path.display()
                );
            }
        }
    }

    /// Has what a process before this one counts added to what this one counts, for as long as it tells; none when there are too many.
    pub(super) fn hear_counts(&self, teller: UnixStream, registry: Arc<Registry>) {
        match self.tellers.take() {
            Some(place) => hear(teller, registry, place),
            None => tracing::warn!(
                "upgrade socket: {TELLERS} processes tell what they count, one more is refused"
            ),
        }
    }

    fn listen_to(&self, stream: tokio::net::UnixStream) {
        let begun = || -> io::Result<()> {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            may_ask(&stream)?;
            self.talk(move |ears| open(stream, ears))
        };
        if let Err(error) = begun() {
            tracing::warn!("upgrade socket: {error}");
        }
    }

    /// Has a thread hear somebody out; nobody when there are too many.
    fn talk(&self, hear: impl FnOnce(&Sender<Heard>) + Send + 'static) -> io::Result<()> {
        if self.talks.fetch_add(1, Ordering::AcqRel) >= TALKS {
            self.talks.fetch_sub(1, Ordering::AcqRel);
            return Err(io::Error::other("too many ask at once"));
        }
        let (ears, talks) = (self.ears.clone(), Arc::clone(&self.talks));
        let hear_out = move || {
            hear(&ears);
            talks.fetch_sub(1, Ordering::AcqRel);
        };
        in_thread("upgrade", Box::new(hear_out)).map(drop).inspect_err(|_| {
            self.talks.fetch_sub(1, Ordering::AcqRel);
        })
    }

    /// Starts a process that takes over, for somebody who waits; `may_start`: whether it would have the rights that this one had
    /// at its start.
    pub(super) fn start(
        &mut self,
        program: Option<PathBuf>,
        asker: UnixStream,
        may_start: bool,
        notifier: &Notifier,
    ) {
        if self.is_under_way() || self.under_way.as_ref().is_some_and(|under_way| under_way.end.is_some()) {
            return refuse(&asker, "another upgrade is under way");
        }
        let Some(AskedAt { path, .. }) = &self.asked_at else { return };
        self.attempts += 1;
        let attempt = self.attempts;
        let outcome = if may_start { program.map_or_else(own_program, Ok).map(Some) } else { Ok(None) };
        let outcome = outcome.and_then(|program| {
            let Some(program) = program else { return launch(&asker).map(|()| None) };
            tracing::info!("upgrade: starting {}", program.display());
            let mut command = Command::new(&program);
            command.args(arguments(path)).stdin(Stdio::null());
            notifier.tell(&mut command);
            let ears = self.ears.clone();
            let execute = move || {
                let child = command.spawn().map_err(|error| {
                    io::Error::new(error.kind(), format!("execute {}: {error}", program.display()))
                })?;
                let ended = move |how| {
                    // Nobody listens any more: this process ends.
                    let _ = ears.blocking_send(Heard::Ended { attempt, how });
                };
                watch(child, ended).map(Some)
            };
            match &self.launcher {
                Some(launcher) => launcher.perform(execute),
                None => execute(),
            }
        });
        match outcome {
            Ok(end) => self.under_way = Some(UnderWay { attempt, asker: Some(asker), taker: None, end }),
            Err(error) => {
                tracing::error!("upgrade failed, this process serves on: {error}");
                refuse(&asker, &error.to_string());
            }
        }
    }

    /// Gives a process what it needs to take over, and hears whether it serves.
    pub(super) fn give(&mut self, taker: UnixStream, process: u32, offered: Offered) {
        let under_way = self.under_way.get_or_insert_default();
        under_way.taker = Some(process);
        let given = self.talk(move |ears| {
            let heard = hand_over(taker, process, &offered);
            // Nobody listens any more: the process ends.
            let _ = ears.blocking_send(heard);
        });
        if let Err(error) = given {
            self.failed(&error.to_string());
        }
    }

    /// Whether this is the process that is taking over.
    pub(super) fn is_taker(&self, process: u32) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.taker == Some(process))
    }

    /// Whether this is the process that was started last.
    pub(super) fn is_attempt(&self, attempt: u64) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.attempt == attempt)
    }

    /// It came to nothing: who asked learns why, and what was started is ended.
    pub(super) fn failed(&mut self, why: &str) {
        let Some(UnderWay { asker, end, .. }) = self.under_way.take() else { return };
        tracing::error!("upgrade failed, this process serves on: {why}");
        if let Some(asker) = asker {
            refuse(&asker, why);
        }
        if let Some(end) = end {
            // It may have ended by itself.
            let _ = end.try_send(());
        }
    }

    /// It has succeeded: who asked learns it.
    pub(super) fn done(&mut self, text: String) {
        tracing::info!("{text}");
        if let Some(UnderWay { asker: Some(asker), .. }) = self.under_way.take() {
            // Who asked may have left.
            let _ = send(&asker, &Answer::Done { text });
        }
    }

    /// The socket, for the process that follows.
    pub(super) fn socket(&self) -> Option<(Socket, Arc<OwnedFd>)> {
        let AskedAt { path, socket, .. } = self.asked_at.as_ref()?;
        let written = Some((&Address::Unix(path.clone())).into());
        Some((Socket { role: Role::Upgrade, name: None, written, inherited: false }, Arc::clone(socket)))
    }

    /// Where this process can be asked.
    pub(crate) fn address(&self) -> Option<Address> {
        self.asked_at.as_ref().map(|asked_at| Address::Unix(asked_at.path.clone()))
    }

    /// The process that has taken over learns what this one counts, until [`tells_the_last`](Self::tells_the_last).
    pub(super) fn tells(&mut self, taker: UnixStream, path: PathBuf, registry: Arc<Registry>) {
        match Telling::begin(taker, path, registry) {
            Ok(telling) => self.telling = Some(telling),
            Err(error) => tracing::warn!("tell the new process what was counted: {error}"),
        }
    }

    /// Nothing is counted any more. **Cost**: waits for the process that has taken over, ten seconds for each message at the most.
    pub(crate) fn tells_the_last(&mut self) {
        if let Some(telling) = self.telling.take() {
            telling.end();
        }
    }

    /// Nobody is heard any more; `handed_over`: by this process.
    pub(crate) fn close(&mut self, handed_over: bool) {
        let Some(AskedAt { path, file, .. }) = self.asked_at.take() else { return };
        if !handed_over && file.is_some() && FileId::of_address(&Address::Unix(path.clone())) == file {
            // Somebody may have been faster.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Places of the processes that tell what they count.
#[derive(Clone, Debug, Default)]
struct Places(Arc<AtomicUsize>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Places {
    fn take(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.0));
        // Dropping it gives it back.
        (self.0.fetch_add(1, Ordering::AcqRel) < TELLERS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl AskedAt {
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

/// The next one who asks; never when nobody can.
async fn accept(asked_at: Option<&AskedAt>) -> io::Result<tokio::net::UnixStream> {
    match asked_at {
        Some(asked_at) => asked_at.listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Hears what somebody wants.
fn open(stream: UnixStream, ears: &Sender<Heard>) {
    let opening = set_timeout(&stream, PROMPT).and_then(|()| receive::<Opening>(&stream));
    let opening = match opening {
        Ok(opening) => opening,
        Err(error) => return tracing::warn!("upgrade socket: {}", in_words(&error)),
    };
    if opening.protocol != PROTOCOL {
        let why = format!("protocol {} is spoken there, expected {PROTOCOL}", opening.protocol);
        return refuse(&stream, &why);
    }
    let heard = match opening.ask {
        Ask::Start { program } => Heard::Start { program, asker: stream },
        Ask::Hear => Heard::Tells { teller: stream },
        Ask::TakeOver => Heard::Wants { taker: stream, version: opening.version, process: opening.process },
    };
    // Nobody listens any more: the process ends, and with it the connection.
    let _ = ears.blocking_send(heard);
}

fn hand_over(taker: UnixStream, process: u32, offered: &Offered) -> Heard {
    let descriptors: Vec<_> = offered.sockets.iter().map(AsFd::as_fd).collect();
    let word = send_offer(&taker, &offered.offer, &descriptors);
    match word {
        Ok(Word::Ready { addresses, counts }) => {
            let addresses = addresses.into_iter().map(Address::from).collect();
            Heard::Ready { taker, process, addresses, counts }
        }
        Ok(Word::Failed { why }) => Heard::Failed { process, why: format!("process {process}: {why}") },
        Err(error) => {
            let why = format!("process {process} did not say that it serves: {}", in_words(&error));
            refuse(&taker, &why);
            Heard::Failed { process, why }
        }
    }
}

fn send_offer(
    taker: &UnixStream,
    offer: &Offer,
    descriptors: &[std::os::fd::BorrowedFd<'_>],
) -> io::Result<Word> {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "kebab-case")]
    enum Borrowed<'o> {
        Offer(&'o Offer),
    }
    send(taker, &Borrowed::Offer(offer))?;
    send_descriptors(taker, descriptors)?;
    set_timeout(taker, READY_WITHIN)?;
    receive(taker)
}

/// Tells somebody that nothing has changed, and why.
pub(super) fn refuse(stream: &UnixStream, why: &str) {
    // Who asked may have left.
    let _ = send(stream, &Answer::Refused { why: why.to_owned() });
}
