//! Programs that services start: backends that serve one connection each, and programs that are a service's only client.
//!
//! ```text
//! proxy ── starts, before its sandbox ──▶ supervisor ── starts, and again ──▶ starter ── starts ──▶ a program for each connection
//!   │  a unix socket for each program: connections ──▶ │ accept, read the PROXY header, standard input and output
//!   │ ◀── a socket pair for each start ─────────────── │ programs that are clients
//! ```
//!
//! In: the programs of a configuration. Out: an address to dial for each backend, and connected sockets of clients. A process in the
//! sandbox executes nothing, so another one does, as the user that serves. It starts these programs, with these arguments, and
//! accepts no other request: a compromised proxy can do no more with it than any client can.
//!
//! The supervisor keeps the sockets, so clients wait while the starter is started again.
//!
//! The sockets have no name that others could use: the file of each is removed before a client is served, and the proxy dials it by a
//! descriptor (`/proc/self/fd`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use handfast_config::model::{Address, Config, OnlyClient, Program, Service, Target};
use handfast_net::descriptors::{receive_descriptors, send_descriptors};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{SendFlags, send};
use tokio::io::unix::AsyncFd;

use crate::own_program::{self, socket_pair, waited_for};

mod starter;
mod supervisor;

pub use starter::start_programs;
pub use supervisor::supervise;

/// The hidden command of the program that runs the starter.
const COMMAND: &str = "start-programs";

/// The programs of a configuration, and the process that starts them.
#[derive(Debug, Default)]
pub struct Programs {
    backends: HashMap<Program, BackendSocket>,
    clients: Vec<ProgramClient>,
    starter: Option<Starter>,
}

/// The socket that connections to a program are made to.
#[derive(Debug)]
struct BackendSocket {
    /// The starter's, until it runs.
    listener: Option<OwnedFd>,
    /// The same file, to connect to.
    path: OwnedFd,
}

/// A program that is a client.
#[derive(Debug)]
struct ProgramClient {
    service: String,
    program: Program,
    again: Option<Duration>,
}

#[derive(Debug)]
struct Starter {
    /// It ends when this is closed.
    control: AsyncFd<OwnedFd>,
    /// Receiving socket for the connections of each client, until [`Programs::clients`].
    clients: Vec<(String, OwnedFd)>,
    child: Child,
}

impl Programs {
    /// Makes a socket for each program of the configuration. Nothing is started.
    ///
    /// **Errors**: those of making a socket in the folder for temporary files.
    pub fn of(config: &Config) -> io::Result<Self> {
        let mut programs = Self::default();
        let sets = config.services.iter().flat_map(Service::backend_sets);
        let backends: Vec<_> = sets.flat_map(|set| set.backends.to_vec()).collect();
        for backend in backends {
            if let Target::Program(program) = backend.target
                && !programs.backends.contains_key(&program)
            {
                programs.backends.insert(program, BackendSocket::new()?);
            }
        }
        for service in &config.services {
            if let Some(OnlyClient::Program { program, again }) = &service.only_client {
                let (service, program) = (service.name.clone(), program.clone());
                programs.clients.push(ProgramClient { service, program, again: *again });
            }
        }
        Ok(programs)
    }

    /// Returns the dial address of each backend that is a program.
    pub fn addresses(&self) -> impl Iterator<Item = (Target, Address)> {
        self.backends.iter().map(|(program, socket)| (Target::Program(program.clone()), socket.address()))
    }

    /// Starts the process that starts programs, if there are any, as the present user and outside of any sandbox.
    ///
    /// **Errors**: those of starting a process. **Panics**: outside of a tokio runtime.
    pub fn start(&mut self) -> io::Result<()> {
        if self.backends.is_empty() && self.clients.is_empty() {
            return Ok(());
        }
        let (mut jobs, mut descriptors, mut clients) = (Vec::new(), Vec::new(), Vec::new());
        for (program, socket) in &mut self.backends {
            if let Some(listener) = socket.listener.take() {
                jobs.push(job(starter::Kind::Backend, Duration::ZERO, program));
                descriptors.push(listener);
            }
        }
        for ProgramClient { service, program, again } in self.clients.drain(..) {
            let (ours, theirs) = socket_pair()?;
            let kind = if again.is_some() { starter::Kind::ClientAgain } else { starter::Kind::Client };
            jobs.push(job(kind, again.unwrap_or_default(), &program));
            descriptors.push(theirs);
            clients.push((service, ours));
        }
        let (child, control) = start_process(&jobs, &descriptors, &["--supervise"])?;
        let control = waited_for(control)?;
        self.starter = Some(Starter { control, clients, child });
        Ok(())
    }

    /// The clients that programs are, which are started as soon as their sockets are requested ([`ClientSockets::next`]).
    ///
    /// **Errors**: the runtime cannot wait for their sockets.
    pub fn clients(&mut self) -> io::Result<Vec<ClientSockets>> {
        let clients = self.starter.iter_mut().flat_map(|starter| starter.clients.drain(..));
        clients
            .map(|(service, socket)| {
                let socket = waited_for(socket)?;
                Ok(ClientSockets { service, socket, has_begun: false })
            })
            .collect()
    }

    /// Waits until the starter has ended, and returns the outcome; for ever while there is none, or it runs. **Cancel**:
    /// loses nothing.
    pub async fn ended(&mut self) -> String {
        let Some(starter) = &mut self.starter else { return std::future::pending().await };
        // It sends nothing: that it can be read means that it is closed.
        if starter.control.readable().await.is_err() {
            return std::future::pending().await;
        }
        let how = starter.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        self.starter = None;
        how
    }
}

impl BackendSocket {
    fn new() -> io::Result<Self> {
        // Only this user can enter it, and it is gone in a moment.
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path)?;
        // The user that serves may be another one; no other user can reach it, neither here nor later.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
        let file = open(&path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
        std::fs::remove_file(&path)?;
        Ok(Self { listener: Some(listener.into()), path: file })
    }

    fn address(&self) -> Address {
        Address::Unix(PathBuf::from(format!("/proc/self/fd/{}", self.path.as_raw_fd())))
    }
}

/// The connections of a program that is a client, one after the other.
#[derive(Debug)]
pub struct ClientSockets {
    /// The service whose client it is.
    pub service: String,
    socket: AsyncFd<OwnedFd>,
    has_begun: bool,
}

impl ClientSockets {
    /// The socket to the program that was started next; `None`: there will be no other. The first call starts it. Once this is dropped, it
    /// is not started again.
    pub async fn next(&mut self) -> Option<OwnedFd> {
        if !std::mem::replace(&mut self.has_begun, true) {
            send(self.socket.get_ref(), b"b", SendFlags::NOSIGNAL).ok()?;
        }
        let mut ready = self.socket.readable().await.ok()?;
        ready.clear_ready();
        receive_descriptors(self.socket.get_ref(), 1).ok()?.pop()
    }
}

/// Starts this program as a process that knows these jobs, with a socket to it that ends with it.
fn start_process(jobs: &[Vec<u8>], descriptors: &[OwnedFd], words: &[&str]) -> io::Result<(Child, OwnedFd)> {
    let count = jobs.len().to_string();
    // Programs have the environment of the proxy.
    let (child, control) = own_program::start(&[&[COMMAND, &count], words].concat(), true)?;
    send_descriptors(&control, &descriptors.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
    for job in jobs {
        send(&control, job, SendFlags::NOSIGNAL)?;
    }
    Ok((child, control))
}

/// The message to the starter about a program.
fn job(kind: starter::Kind, delay: Duration, program: &Program) -> Vec<u8> {
    let mut message = vec![kind as u8];
    message.extend_from_slice(&(delay.as_millis() as u32).to_le_bytes());
    message.extend_from_slice(program.path.as_os_str().as_bytes());
    for argument in &program.arguments {
        message.push(0);
        message.extend_from_slice(argument.as_bytes());
    }
    message
}
