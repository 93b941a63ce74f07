//! The starter: the process that starts programs for a proxy in its sandbox.
//!
//! In: listening sockets and programs, from the proxy, before a client is served. Out: processes. It ends with the proxy; the programs that
//! it has started go on until their connections end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use handfast_net::descriptors::{receive_descriptors, send_descriptors};
use handfast_pki::subject::names_of;
use handfast_wire::proxy_header::{Header, Peek, V2_LIMIT, peek, tlv};
use rustix::fs::{Access, access};
use rustix::net::{RecvFlags, recv};
use tokio::io::AsyncReadExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::own_program::{self, waited_for};
use crate::signals::Signals;

/// Longer than any command line that Linux executes with usual limits.
const MAX_MESSAGE_BYTES: usize = 2 << 20;
/// Timeout for the proxy to send the header of a connection that it has made.
const HEADER: Duration = Duration::from_secs(10);
/// Pause after an error of accept(2).
const PAUSE: Duration = Duration::from_secs(1);

/// Kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It serves each connection to its socket.
    Backend = b'b' as isize,
    /// It is a client, once.
    Client = b'c' as isize,
    /// It is a client, and is restarted after each end.
    ClientAgain = b'r' as isize,
    /// The same, from now on: the starter before this one received the request for it.
    ClientNow = b'n' as isize,
}

/// A program and its arguments.
#[derive(Clone, Debug)]
struct Job {
    kind: Kind,
    /// Time from the end of a client to its next start.
    delay: Duration,
    words: Rc<[OsString]>,
}

/// Starts programs for the proxy at the other end of standard input, until the proxy ends.
///
/// **Errors**: it was started by hand; those of receiving what it is to start.
pub fn start_programs(count: usize) -> io::Result<()> {
    rustix::thread::set_name(c"starter")?;
    let StartInstructions { control, descriptors, jobs } = StartInstructions::receive(count)?;
    let jobs = jobs.iter().map(|job| Job::parse(job)).collect::<io::Result<Vec<_>>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        // The proxy handles a stop. These are handled, and not ignored, so that programs do not inherit it.
        let _signals = Signals::new()?;
        for (job, descriptor) in jobs.into_iter().zip(descriptors) {
            spawn_local(job.run(descriptor));
        }
        let control = waited_for(control)?;
        // It sends nothing more: that it can be read means that the proxy has ended.
        drop(control.readable().await?);
        Ok(())
    })
}

/// Instructions of the parent process at the start.
pub(super) struct StartInstructions {
    /// The socket to it.
    pub(super) control: OwnedFd,
    /// One for each job.
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) jobs: Vec<Vec<u8>>,
}

impl StartInstructions {
    /// **Errors**: it was started by hand; recvmsg(2).
    pub(super) fn receive(count: usize) -> io::Result<Self> {
        let control = own_program::parent("for programs that services start")?;
        let descriptors = receive_descriptors(&control, count)?;
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        let mut job = || {
            let (_, length) = recv(&control, &mut buffer[..], RecvFlags::empty())?;
            Ok(buffer[..length].to_vec())
        };
        let jobs = (0..count).map(|_| job()).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { control, descriptors, jobs })
    }
}

impl Job {
    fn parse(message: &[u8]) -> io::Result<Self> {
        let (kind, words) = message.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
        let kinds = [Kind::Backend, Kind::Client, Kind::ClientAgain, Kind::ClientNow];
        let kind = kinds.into_iter().find(|known| *known as u8 == *kind).ok_or(io::ErrorKind::InvalidData)?;
        let (delay, words) = words.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        let delay = Duration::from_millis(u32::from_le_bytes(*delay).into());
        let words = words.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        Ok(Self { kind, delay, words: words.collect() })
    }

    async fn run(self, descriptor: OwnedFd) {
        let outcome = match self.kind {
            Kind::Backend => self.serve(descriptor).await,
            Kind::Client | Kind::ClientAgain | Kind::ClientNow => self.be_client(descriptor).await,
        };
        if let Err(error) = outcome {
            self.failed("start it for connections", &error);
        }
    }

    /// Serves every connection to a socket by a separate process.
    async fn serve(&self, listener: OwnedFd) -> io::Result<()> {
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let job = self.clone();
                    spawn_local(async move {
                        if let Err(error) = job.serve_one(stream).await {
                            job.failed("serve a connection", &error);
                        }
                    });
                }
                Err(error) => {
                    self.failed("accept a connection", &error);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn serve_one(&self, mut stream: UnixStream) -> io::Result<()> {
        // Before anything is read: closing a socket with unread data resets it, so the client notices that something failed.
        access(&*self.words[0], Access::EXEC_OK)?;
        let mut command = self.command();
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the proxy sent no header");
        let mut header = Vec::new();
        timeout(HEADER, read_header(&mut stream, &mut header)).await.map_err(late)??;
        if let Peek::Complete(header) = peek(&header, V2_LIMIT) {
            command.envs(variables(&header));
        }
        self.run_on(command, stream.into_std()?.into()).await
    }

    /// Starts it with a new connection to the proxy each time, from when the proxy asks for it.
    async fn be_client(&self, hand_over: OwnedFd) -> io::Result<()> {
        let hand_over = waited_for(hand_over)?;
        if self.kind != Kind::ClientNow {
            let mut ready = hand_over.readable().await?;
            if recv(hand_over.get_ref(), &mut [0_u8; 1][..], RecvFlags::empty())?.1 == 0 {
                return Ok(());
            }
            ready.clear_ready();
        }
        loop {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            send_descriptors(hand_over.get_ref(), &[theirs.as_fd()])?;
            drop(theirs);
            if let Err(error) = self.run_on(self.command(), ours.into()).await {
                self.failed("start it", &error);
            }
            if self.kind == Kind::Client {
                return Ok(());
            }
            tokio::select! {
                () = sleep(self.delay) => {}
                // The proxy accepts no more.
                _ = hand_over.readable() => return Ok(()),
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// Runs it until it ends, with a socket as standard input and output.
    async fn run_on(&self, mut command: Command, socket: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        command.stdin(Stdio::from(socket.try_clone()?)).stdout(Stdio::from(socket));
        let mut child = command.spawn()?;
        // It has the only copies of the socket.
        drop(command);
        let status = child.wait().await?;
        tracing::debug!("{}: {status}", self.words[0].display());
        Ok(())
    }

    fn failed(&self, act: &str, error: &io::Error) {
        tracing::error!("program {}: {act}: {error}", self.words[0].display());
    }
}

/// Reads a header and nothing behind it.
async fn read_header(stream: &mut UnixStream, header: &mut Vec<u8>) -> io::Result<()> {
    const FIXED: usize = 16;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the proxy sent something else than a header");
    header.resize(FIXED, 0);
    stream.read_exact(header).await?;
    let rest = usize::from(u16::from_be_bytes([header[FIXED - 2], header[FIXED - 1]]));
    if FIXED + rest > V2_LIMIT {
        return Err(wrong());
    }
    header.resize(FIXED + rest, 0);
    stream.read_exact(&mut header[FIXED..]).await?;
    if matches!(peek(header, V2_LIMIT), Peek::Complete(_)) { Ok(()) } else { Err(wrong()) }
}

/// Returns the environment variables that describe the client to a program, by the names that inetd's and stunnel's
/// programs know.
fn variables(header: &Header<'_>) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if let Some((source, _)) = header.tcp() {
        variables.push(("REMOTE_HOST", source.ip().to_canonical().to_string()));
        variables.push(("REMOTE_PORT", source.port().to_string()));
    }
    let values = header.tls().into_iter().flat_map(|tls| tls.values());
    let certificate =
        values.into_iter().find(|value| value.number == tlv::SSL_CLIENT_CERT).map(|found| found.value);
    if let Some((subject, issuer)) = certificate.and_then(names_of) {
        variables.push(("SSL_CLIENT_DN", subject));
        variables.push(("SSL_CLIENT_I_DN", issuer));
    }
    variables
}
