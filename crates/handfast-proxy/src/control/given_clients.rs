//! Clients that come through no listener: the one at standard input, and programs that this process starts.
//!
//! In: the configuration, the process that starts programs. Out: connected sockets, each with the service that it is a client of.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use handfast_config::model::{Config, OnlyClient};
use handfast_process::programs::Programs;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::net::{SocketType, sockopt};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

/// Clients that may wait for the control thread: each program sends one at a time.
const MAX_WAITING_CLIENTS: usize = 16;
/// Timeout for the last bytes to standard output when the process ends.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// A client: its service, and its socket.
type GivenClient = (String, OwnedFd);

#[derive(Debug)]
pub(crate) struct GivenClients {
    stdin: Option<GivenClient>,
    /// Copies to standard output, where that is no socket.
    output: Option<JoinHandle<()>>,
    sender: Sender<GivenClient>,
    receiver: Receiver<GivenClient>,
    programs: JoinSet<()>,
}

impl GivenClients {
    /// Takes standard input and output where a service has its client there.
    ///
    /// **Errors**: those of making sockets and threads.
    pub(crate) fn of(config: &Config) -> io::Result<Self> {
        let (sender, receiver) = channel(MAX_WAITING_CLIENTS);
        let mut clients = Self { stdin: None, output: None, sender, receiver, programs: JoinSet::new() };
        let mut services = config.services.iter();
        if let Some(service) = services.find(|service| service.only_client == Some(OnlyClient::Stdin)) {
            let (socket, output) = standard_socket()?;
            (clients.stdin, clients.output) = (Some((service.name.clone(), socket)), output);
        }
        Ok(clients)
    }

    /// Starts the programs that are clients.
    ///
    /// **Errors**: the runtime cannot wait for their sockets.
    pub(crate) fn begin(&mut self, programs: &mut Programs) -> io::Result<()> {
        for mut sockets in programs.clients()? {
            let sender = self.sender.clone();
            self.programs.spawn_local(async move {
                while let Some(socket) = sockets.next().await {
                    if sender.send((sockets.service.clone(), socket)).await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok(())
    }

    /// The client at standard input, once.
    pub(crate) fn take_stdin(&mut self) -> Option<GivenClient> {
        self.stdin.take()
    }

    /// The next client that is a program. **Cancel**: loses nothing.
    pub(crate) async fn next(&mut self) -> GivenClient {
        match self.receiver.recv().await {
            Some(client) => client,
            None => std::future::pending().await,
        }
    }

    /// No program is started again.
    pub(crate) fn end(&mut self) {
        self.programs.abort_all();
    }

    /// Waits until standard output has what the client is to get.
    pub(crate) async fn flush(self) {
        if let Some(output) = self.output {
            let ended = tokio::task::spawn_blocking(|| drop(output.join()));
            // A reader that is blocked keeps no process alive.
            let _ = tokio::time::timeout(LAST_BYTES, ended).await;
        }
    }
}

/// The socket at standard input and output. Pipes and files there are copied from and to, by threads that end with them.
///
/// If the client is at standard error too, as inetd(8) has it, nothing more is logged there.
fn standard_socket() -> io::Result<(OwnedFd, Option<JoinHandle<()>>)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let file = |file: &OwnedFd| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    let is_socket = sockopt::socket_type(&input).is_ok_and(|kind| kind == SocketType::STREAM);
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    if [&input, &output].into_iter().any(|other| file(&errors).ok() == file(other).ok()) && is_socket {
        dup2_stderr(&null)?;
    }
    // Else the client would not see the end of its connection.
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    if is_socket && file(&input)? == file(&output)? {
        return Ok((input, None));
    }
    let (ours, theirs) = UnixStream::pair()?;
    let to_proxy = ours.try_clone()?;
    copy("stdin", std::fs::File::from(input), to_proxy, |socket: UnixStream| {
        drop(socket.shutdown(std::net::Shutdown::Write))
    })?;
    let output = copy("stdout", ours, std::fs::File::from(output), |_| {})?;
    Ok((theirs.into(), Some(output)))
}

/// Copies until the end of `from`, and then ends `to`, on a thread of this name.
fn copy<R: Read + Send + 'static, W: Write + Send + 'static>(
    name: &str,
    mut from: R,
    mut to: W,
    end: fn(W),
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // A peer that stops reading ends the connection, too.
        let _ = io::copy(&mut from, &mut to);
        end(to);
    })
}
